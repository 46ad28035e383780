"""Choose a treatment: learn from rows as they are, or plan with everything.

A policy can learn from rows with holes in three ways. *Restricted*: what a row lacks cannot be bought for it.
*Restored*: the holes are filled with draws from a generative model. *Direct*: a row teaches about what it
has, and plans count on the rest, too. Which is best depends on the table, so one looks.
"""

# %%
# ## The table
#
# The kind of a machine says which pair of measurements tells whether it fails. Half of the cells are empty,
# so only one row in eight has the kind and its pair: the others cannot show where the best route leads.

import pandas as pd

from ascertain import AcquisitionClassifier
from ascertain.testing import planted_table

workshop = planted_table("maintenance", n_train=2000, n_test=2000)
has_route = workshop.train.notna()[["machine", "vib_1", "vib_2"]].all(axis=1)
print(f"rows that have the kind and the first pair: {has_route.sum()} of {len(has_route)}")

# %%
# ## Two treatments
#
# The same method, once with each treatment. They are scored on complete rows that neither has seen; with
# holes, `score` estimates the same.

nothing_yet = pd.DataFrame({"age_h": [0.0]}).reindex(columns=workshop.train.columns)
for treatment in ("restricted", "direct"):
    model = AcquisitionClassifier(
        method="planner",
        treatment=treatment,
        costs=dict(workshop.costs),
        known=list(workshop.known),
        budget=workshop.budget,
        restorer="hotdeck",
        effort="low",
        random_state=0,
    )
    model.fit(workshop.train, workshop.train_labels)
    first = model.recommend(nothing_yet)["action"].item()
    accuracy = model.score(workshop.test, workshop.test_labels)
    print(f"{treatment:10} accuracy {accuracy:.2f}, begins with {first}")

# %%
# Here the treatments make little difference: both begin with the kind of machine, and score alike. This is
# one table, one seed and a short training. In theory restricted training undervalues first steps whose
# sequels are missing (*aliasing*), which `examples/shortcut.py` computes exactly; whether it matters in your
# table only a comparison shows. Where treatments are as good, take the simpler one.
#
# ## Let it choose
#
# `AcquisitionClassifier(treatment="auto")` and `ascertain fit --treatment auto` try these and restoration by
# several restorers, judge them by the validation rows with their holes, and say what they chose and why: in
# `treatment_`, `auto_` and the report. It takes as long as fitting all of them. `docs/treatments.md` has the
# rule, and a table to begin with.
