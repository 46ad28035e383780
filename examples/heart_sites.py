"""Learn which test to order next for a patient with chest pain.

920 patients of four hospitals, each with the tests that their hospital happened to make, and the prices of
these tests in dollars. We learn from three quarters of them what to order next, and look at the others.

    python examples/heart_sites.py
"""

from sklearn.model_selection import train_test_split

from ascertain import AcquisitionClassifier, load
from ascertain.datasets import TARGET, export

heart = export(load("heart_sites"))
patients, outcome = heart.table.drop(columns=TARGET), heart.table[TARGET]
print(f"{len(patients)} patients; of the costly tests most lack some:")
print(patients.isna().mean().sort_values(ascending=False).head(4).round(2).to_string(), "\n")

# Age, sex and the hospital are known when the patient comes in. 120 dollars buy one of the expensive tests.
seen, new, seen_outcome, new_outcome = train_test_split(patients, outcome, stratify=outcome, random_state=0)
model = AcquisitionClassifier(
    costs=heart.prices, known=["age", "sex", "site"], budget=120, random_state=0, verbose=1
)
model.fit(seen, seen_outcome)

# A patient of whom nothing else is known, and the same one after an electrocardiogram at rest.
patient = new.iloc[[0]].copy()
tests = [column for column in patients if column not in model.known]
patient[tests] = None
print("\nTo begin with:\n", model.recommend(patient).T.to_string(header=False))
patient["restecg"] = 0.0
print("\nWith a normal ECG:\n", model.recommend(patient).T.to_string(header=False))

# What would it be worth, if everything could be ordered? Estimated from patients who lack most of it.
scores = model.evaluate(new, new_outcome, budgets=[7, 30, 120])
wanted = scores[scores["metric"].isin(["auroc", "f1"]) & (scores["estimator"] == "dr")]
print("\nHow well it does on patients that it has not seen:")
print(
    wanted[["budget", "metric", "estimate", "low", "high", "effective_rows"]].round(2).to_string(index=False)
)
