"""Learn which measurements tell who is going to die in intensive care.

12,000 patients, 41 measurements, a quarter of them missing, and no patient who has them all. One in seven
died, so accuracy says nothing. Age, sex and the kind of ward are known from the start, every measurement
costs 1, and we may make five.

    python examples/physionet2012.py          # some minutes on two cores; --low for a quick look
"""

import sys

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from ascertain import AcquisitionClassifier, load
from ascertain.datasets import TARGET, export

icu = export(load("physionet2012"))
patients, outcome = icu.table.drop(columns=TARGET), icu.table[TARGET]
seen, new, seen_outcome, new_outcome = train_test_split(patients, outcome, stratify=outcome, random_state=0)

model = AcquisitionClassifier(
    known=["Age", "Gender", "ICUType"],
    budget=5,
    effort="low" if "--low" in sys.argv else "standard",
    random_state=0,
    verbose=1,
)
model.fit(seen, seen_outcome)

# What to measure first, for an old man and a young woman on a surgical ward.
first = new.iloc[:2].copy()
first[:] = float("nan")
first["Age"], first["Gender"], first["ICUType"] = [80.0, 25.0], [1.0, 0.0], [4.0, 4.0]
print(model.recommend(first).to_string(), "\n")

scores = model.evaluate(new, new_outcome, budgets=[1, 3, 5])
print(scores[scores["metric"].isin(["auroc", "f1"])].round(3).to_string(index=False), "\n")

# The alternative: measure everything that can be measured.
everything = HistGradientBoostingClassifier(random_state=0).fit(seen, seen_outcome)
ranked = everything.predict_proba(new)[:, list(everything.classes_).index("died")]
print(f"with all that was measured: AUROC {roc_auc_score(new_outcome == 'died', ranked):.3f}")
