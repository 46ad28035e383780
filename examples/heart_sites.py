"""Chest pain at four hospitals: which test to order next, at real prices.

920 patients of four hospitals, each with the tests that their hospital happened to make, and the prices of
these tests in dollars. We learn from three quarters of them what to order next, and look at the others. The
data are downloaded once, from the UCI repository.
"""

# %%
# ## The patients
#
# Two thirds of the patients have no fluoroscopy (`ca`), and half no thallium scan (`thal`).

from sklearn.model_selection import train_test_split

from ascertain import AcquisitionClassifier, load
from ascertain.datasets import TARGET, export

heart = export(load("heart_sites"))
patients, outcome = heart.table.drop(columns=TARGET), heart.table[TARGET]
print(f"{len(patients)} patients; of the costly tests most lack some:")
print(patients.isna().mean().sort_values(ascending=False).head(4).round(2).to_string(), "\n")
print({name: round(price, 2) for name, price in heart.prices.items()})

# %%
# ## Fit
#
# Age, sex and the hospital are known when the patient comes in. 120 dollars buy one of the expensive tests.

seen, new, seen_outcome, new_outcome = train_test_split(patients, outcome, stratify=outcome, random_state=0)
model = AcquisitionClassifier(
    costs=heart.prices,
    known=["age", "sex", "site"],
    budget=120,
    restorer="hotdeck",
    effort="low",
    random_state=0,
)
model.fit(seen, seen_outcome)

# %%
# Hospitals that make a test for the ill only would teach that whoever has the test is ill. The classifier
# looks for such habits, and keeps them out of what is learned.

for habit in model.advisor_.habits[:3]:
    print(habit.action, "was measured in", {name: f"{share:.0%}" for name, share in habit.measured.items()})

# %%
# ## One patient
#
# A patient of whom nothing else is known. The kind of chest pain costs a question; here it is of kind 4,
# without the usual symptoms.

patient = new.iloc[[0]].copy()
tests = [column for column in patients if column not in model.known]
patient[tests] = None
columns = ["action", "cost", "prediction", "probability", "low", "high"]
print("to begin with:\n", model.recommend(patient)[columns].round(2).to_string(index=False))
patient["cp"] = 4.0
print("\nafter the answer:\n", model.recommend(patient)[columns].round(2).to_string(index=False))

# %%
# ## What it is worth
#
# If everything could be ordered: estimated from patients who lack most of it, so intervals are wide.

scores = model.evaluate(new, new_outcome, budgets=[7, 30, 120])
wanted = scores[scores["metric"].isin(["auroc", "f1"]) & (scores["estimator"] == "dr")]
columns = ["budget", "metric", "estimate", "low", "high", "effective_rows"]
print(wanted[columns].round(2).to_string(index=False))

# %%
# This was a quick look. `docs/practice.md` compares policies on the same table at standard effort, with a
# fixed panel and with gradient boosting on all that is on file.
