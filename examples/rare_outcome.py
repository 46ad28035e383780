"""A rare outcome: what accuracy hides, and how sure the numbers are.

One case in thirty is of the kind that we look for, and most records have holes. Two things go wrong here: a
model that never finds anybody is right in 97% of the cases, and a score that looks good may rest on five
cases. This example shows what to look at instead.
"""

# %%
# ## The records
#
# 6,000 records, of which about 200 are cases. Half of the measurements were never made. We keep 3,000 further
# records to score on, with holes as well, and the same ones without holes: in practice nobody has those, but
# they let us check what the estimates say.

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier

rng = np.random.default_rng(0)


def draw(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw complete records, and which of them are cases."""
    case = rng.random(n) < 1 / 30
    columns = {"age": rng.normal(size=n), "marker": 2.0 * case + rng.normal(size=n)}
    columns |= {"pressure": 1.2 * case + rng.normal(size=n), "pulse": 0.6 * case + rng.normal(size=n)}
    columns |= {f"other {place}": rng.normal(size=n) for place in (1, 2, 3)}
    return pd.DataFrame(columns), np.where(case, "sick", "healthy")


def with_holes(records: pd.DataFrame) -> pd.DataFrame:
    """Hide half of the cells, except the age."""
    hidden = rng.random(records.shape) < 0.5
    hidden[:, 0] = False
    return records.mask(hidden)


(seen, seen_outcome), (new, new_outcome) = draw(6000), draw(3000)
print("cases among the new records:", int((new_outcome == "sick").sum()), "of", len(new))

# %%
# ## Fit
#
# Three measurements may be made. `static` finds the best set that is the same for everybody, which is quick;
# every other method is scored in the same way.

model = AcquisitionClassifier(
    method="static", known=["age"], budget=3, restorer="hotdeck", effort="low", random_state=0
)
model.fit(with_holes(seen), seen_outcome)
scores = model.evaluate(with_holes(new), new_outcome, budgets=[3])

# %%
# ## Accuracy says nothing
#
# To say "healthy" of everybody is right in 97% of the cases. Look at how well cases are ranked before the
# others (`auroc`), and at how many of those with a high probability are cases (`auprc`, to be compared with
# the share of cases). With two classes, both are about the second one in the order of the alphabet: "sick".

wanted = scores[scores["metric"].isin(["accuracy", "auroc", "auprc"])]
columns = ["estimator", "metric", "estimate", "low", "high"]
print(wanted[columns].round(3).to_string(index=False))
print("\nnobody is a case: accuracy", round(float((new_outcome == "healthy").mean()), 3))

# %%
# ## How many rows a number rests on
#
# Only rows that have all that the policy asks for can be followed to the end: one in eight here, and with few
# cases among them. `effective_rows` counts the rows that a weighted estimate is worth,
# `rarest_effective_rows` those of the rarest class. Below 30 of a class there is a warning beside the number;
# below 30 of all there is no number.

rests_on = ["estimator", "metric", "effective_rows", "rarest_effective_rows", "warning"]
print(wanted[wanted["metric"] == "auroc"][rests_on].round(0).to_string(index=False))

# %%
# ## Were they honest?
#
# The same records without holes tell how good the policy really is. An interval of 95% should hold that in 95
# of 100 such examples.

truth = model.evaluate(new, new_outcome, budgets=[3])
true_auroc = truth[(truth["metric"] == "auroc") & (truth["estimator"] == "ipw")]["estimate"].item()
for row in wanted[wanted["metric"] == "auroc"].itertuples():
    inside = "holds" if row.low <= true_auroc <= row.high else "misses"
    print(f"{row.estimator}: {row.low:.3f} to {row.high:.3f} {inside} {true_auroc:.3f}")
