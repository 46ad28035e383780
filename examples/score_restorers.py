"""Score restorers: find the one whose draws are like what your table lacks.

A *restorer* fills the holes of a table with draws. Which one suits a table can be found without complete
rows: hide cells that were measured, let every restorer draw them, and compare.
"""

# %%
# ## The table
#
# Eight gauges that measure the same pressure, each with a noise of its own. Half of the cells are empty. What
# a row lacks can be guessed from what it has, though not exactly.

from dataclasses import replace

import jax.random as jr

from ascertain import from_frame, restoration
from ascertain.restoration import (
    PVAERestorer,
    fit_hotdeck,
    fit_mean,
    fit_mixture,
    fit_pvae,
    fit_trees,
    held_out_error,
    score_restorer,
)
from ascertain.testing import planted_table

gauges = planted_table("copies", n_train=1000, n_test=10)
dataset = from_frame(gauges.train.assign(fails=gauges.train_labels), target="fails", budget=3)
problem, (train, valid, _) = dataset.problem, dataset.split(0)

# %%
# ## Fit
#
# All are fitted to the training rows with their holes. The Partial VAE is the paper's restorer; its training
# is shortened here.

key, settings = jr.key(0), restoration.get("pvae").settings()
short = replace(settings, schedule=replace(settings.schedule, max_rounds=10))
restorers = {
    "hot deck": fit_hotdeck(key, problem, train),
    "nearest": fit_hotdeck(key, problem, train, neighbours=10),
    "mixture": fit_mixture(key, problem, train, valid),
    "trees": fit_trees(key, problem, train, valid),
    "PVAE": PVAERestorer(fit_pvae(key, problem, train, valid, short)),
    "means": fit_mean(train),
}

# %%
# ## Score
#
# The energy score is smallest for draws from the true distribution: near to what was hidden, and as varied as
# they should be. All restorers are asked for the same cells, so differences are more exact than the scores
# themselves. A difference of less than two standard errors is none.

scores = {name: score_restorer(jr.key(1), problem, each, train, valid) for name, each in restorers.items()}
for name, score in sorted(scores.items(), key=lambda each: float(each[1].mean)):
    lead = score.minus(scores["nearest"])
    difference = f"{float(lead.mean):+.3f} ± {float(lead.standard_error):.3f}"
    print(f"{name:8} {float(score.mean):.3f}   minus nearest: {difference}")

# %%
# ## Not by the mean squared error
#
# The mean squared error is smallest for the mean of what a cell could be, and a table of means has too little
# spread: rows look alike, and features tell the class better than they do. So it ranks restorers otherwise.

means = restorers["means"]
for name, restorer in restorers.items():
    error = held_out_error(jr.key(2), problem, restorer, means, valid)
    print(f"{name:8} root mean squared error {float(error.restorer):.3f}")

# %%
# For a table in a file, `ascertain diagnose table.csv --target column --restorers all` does this. No such
# score can see values that are missing because of what they are.
