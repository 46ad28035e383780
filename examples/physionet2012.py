"""Intensive care: what a quick look can tell, and what it cannot.

12,000 patients, 41 measurements, a quarter of them missing, and no patient who has them all. One in seven
died, so accuracy says nothing. Age, sex and the kind of ward are known from the start, every measurement
costs 1, and we may make five. The data are downloaded once, from PhysioNet.
"""

# %%
# ## The patients

import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from ascertain import AcquisitionClassifier, load
from ascertain.datasets import TARGET, export

icu = export(load("physionet2012"))
patients, outcome = icu.table.drop(columns=TARGET), icu.table[TARGET]
missing = patients.isna().mean().mean()
print(
    f"{len(patients):,} patients, {np.mean(outcome == 'died'):.0%} died, {missing:.0%} of the cells missing"
)
seen, new, seen_outcome, new_outcome = train_test_split(patients, outcome, stratify=outcome, random_state=0)

# %%
# ## Fit
#
# A quick look, which takes about a minute; `python examples/physionet2012.py --standard` trains longer.

model = AcquisitionClassifier(
    known=["Age", "Gender", "ICUType"],
    budget=5,
    restorer="hotdeck",
    effort="standard" if "--standard" in sys.argv else "low",
    random_state=0,
)
model.fit(seen, seen_outcome)

# %%
# ## What to measure first
#
# For an old man and a young woman on a surgical ward.

first = new.iloc[:2].copy()
first[:] = float("nan")
first["Age"], first["Gender"], first["ICUType"] = [80.0, 25.0], [1.0, 0.0], [4.0, 4.0]
columns = ["action", "prediction", "probability", "low", "high"]
print(model.recommend(first)[columns].round(2).to_string(index=False))

# %%
# ## What five measurements are worth
#
# Estimated from patients who lack much: `ipw` follows the policy in those who have what it asks for, `dr`
# also uses the others.

scores = model.evaluate(new, new_outcome, budgets=[1, 3, 5])
wanted = scores[scores["metric"] == "auroc"]
columns = ["budget", "estimator", "estimate", "low", "high", "effective_rows"]
print(wanted[columns].round(3).to_string(index=False))

# %%
# There is no number at 3 and 5: hardly any patient of one class has a measurement that this policy asks for,
# so what it would do there cannot be seen. The column `reason` says so. That is a limit of the records, and
# not a score of zero. `docs/practice.md` has policies on the same table, trained at standard effort, that can
# be scored.
#
# ## The alternative
#
# Measure everything that can be measured, and let gradient boosting predict from it.

everything = HistGradientBoostingClassifier(random_state=0).fit(seen, seen_outcome)
ranked = everything.predict_proba(new)[:, list(everything.classes_).index("died")]
print(f"with all that was measured: AUROC {roc_auc_score(new_outcome == 'died', ranked):.3f}")
print(f"measurements of a patient: {patients.notna().sum(axis=1).mean() - 3:.0f} on average")
