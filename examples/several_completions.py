"""Several completions: a small study of what holes cost and what brings it back.

One draw for a missing cell is one guess, and a policy that learns from it believes it. Several *completions*
of every row show what is certain and what is made up. A study compares that in one table: complete data, data
with holes, and data restored in two ways.
"""

# %%
# ## The study
#
# A study is a file that says what to compute: datasets, methods, treatments, ways of losing values. CUBE is
# one of the paper's synthetic datasets; 70% of its cells are lost at random. `hotdeck:4` restores every
# training row four times. The settings shorten the training, so that this takes less than a minute.

from pathlib import Path

from ascertain import Recipe, load, train_policy
from ascertain.analysis import damage_and_gain, read_results, write_artefacts, write_report
from ascertain.study import read_study, run_study

Path("completions.toml").write_text("""
name = "completions"
datasets = ["cube"]
methods = ["static", "gdfs"]
restorers = ["hotdeck", "hotdeck:4"]
mechanisms = ["mcar"]
rates = [0.7]
splits = [0, 1]
scored = "test"

[settings.predictor]
epochs = 60

[settings.gdfs]
epochs = 15
pretraining_epochs = 15
""")
study = read_study("completions.toml")

# %%
# ## Run it
#
# Everything goes into a folder. If the command is interrupted, the same command continues where it stopped.

run_study(study, Path("completions"))

# %%
# ## Look at it
#
# The folder has a table with a row for each policy and budget. These are the scores at the largest budget, as
# means over the splits.

results = read_results(Path("completions"))
print(results.scores.pivot_table("score", "method", ["treatment", "restorer"]).round(3).to_string())

# %%
# *Damage* is the score after complete training less that after restricted training, where what a row lacks
# cannot be bought for it. *Gain* is what restoration brings back. With two splits and short training these
# numbers only show the way; `docs/reproduce.md` has the paper's.

found = damage_and_gain(results)
print(found[["method", "restorer", "damage", "gain", "gain_se"]].round(3).to_string(index=False))

# %%
# ## Figures and a report
#
# The figure is the paper's main figure, for this study. The report is one HTML page with everything, which
# loads nothing from anywhere. On the command line these are `ascertain figures completions` and `ascertain
# report completions`.

write_artefacts("completions", ["main-summary"], out=".")
print("the report is", write_report(Path("completions")))

# %%
# ## One policy by itself
#
# Every row of that table can be computed again by itself, with the same random numbers. `train_policy`
# returns the policy and what it was trained with, too.

recipe = Recipe(
    "static",
    treatment="restored",
    restorer="hotdeck:4",
    rate=0.7,
    scored="test",
    settings={"predictor": {"epochs": 60}},
)
trained = train_policy(load("cube"), recipe)
print(trained.scores[["budget", "score"]].round(3).to_string(index=False))
