"""Subgroups: whether the policy serves everybody as well.

A score for all rows may hide that one group is served worse, or that more is spent on it. This example scores
a policy in each group by that group's own rows, with intervals, so that chance is not mistaken for injustice.
"""

# %%
# ## The patients
#
# A marker tells the illness well in the young and hardly in the old, in whom only an expensive scan does. A
# third of the cells is empty.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier

rng = np.random.default_rng(0)
ill, old = rng.integers(2, size=4000), rng.integers(2, size=4000)
patients = pd.DataFrame(
    {
        "age": np.where(old == 1, "65 or more", "below 65"),
        "sex": rng.choice(["f", "m"], size=4000),
        "marker": np.where(old == 1, 0.3, 2.0) * ill + rng.normal(size=4000),
        "pressure": 0.5 * ill + rng.normal(size=4000),
        "scan": 1.5 * ill + rng.normal(size=4000),
    }
)
tests = ["marker", "pressure", "scan"]
patients[tests] = patients[tests].mask(rng.random((4000, 3)) < 1 / 3)
seen, new = patients.iloc[:2000], patients.iloc[2000:]

# %%
# ## Fit
#
# Age and sex are known. With 3 one can buy the scan, or the marker and the pressure.

model = AcquisitionClassifier(
    method="planner",
    costs={"marker": 1, "pressure": 1, "scan": 3},
    known=["age", "sex"],
    budget=3,
    restorer="hotdeck",
    effort="low",
    random_state=0,
)
model.fit(seen, ill[:2000])
nobody = pd.DataFrame({"age": ["below 65", "65 or more"], "sex": "f"}).reindex(columns=seen.columns)
print(nobody[["age"]].assign(first=model.recommend(nobody)["action"]).to_string(index=False))

# %%
# ## Score each group by its own rows
#
# Rows of one group only, so that nothing is borrowed from the others. A group with too few rows gets no
# number, but a reason.

found = []
for column in ("age", "sex"):
    for group, rows in new.groupby(column):
        scores = model.evaluate(rows, ill[rows.index], budgets=[3])
        by_ipw = scores[scores["estimator"] == "ipw"].set_index("metric")
        auroc, spent = by_ipw.loc["auroc"], by_ipw.loc["mean_cost", "estimate"]
        found.append({"group": f"{column} {group}", **auroc[["estimate", "low", "high"]], "spent": spent})
        found[-1]["effective_rows"] = round(auroc["effective_rows"])
table = pd.DataFrame(found)
print(table.round(2).to_string(index=False))

# %%
# The intervals of the ages are apart, so that difference is there; those of the sexes overlap. The policy
# already treats the ages differently, since age is known from the start. If the old should be served better,
# they need a larger budget (`recommend(..., budget=)` takes one for each row).

figure, axes = plt.subplots(figsize=(5, 2.2), layout="constrained")
errors = [table["estimate"] - table["low"], table["high"] - table["estimate"]]
axes.errorbar(table["estimate"], table["group"], xerr=errors, fmt="o", capsize=3)
axes.set(xlabel="AUROC within a budget of 3, with 95% intervals", ylim=(-0.5, 3.5))
axes.invert_yaxis()
figure.savefig("subgroups.png", dpi=120)

# %%
# For a saved model and a file, `ascertain evaluate model test.csv --by age` prints the same; `ascertain fit
# --by age` puts it into the report.
