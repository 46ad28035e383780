"""What a wrong decision costs: from probabilities to decisions and their net benefit.

To miss an illness may be ten times as bad as a needless treatment. If you can say so in numbers, the model
decides by them, the planner asks for what makes decisions cost less, and a grid of budgets tells when to stop
measuring. If you cannot, a decision curve shows for which opinions the model is of use.
"""

# %%
# ## The patients
#
# One in five is ill. Three tests tell something, at different prices; a third of the cells is empty.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier
from ascertain.decisions import net_benefit

rng = np.random.default_rng(1)
ill = rng.random(3000) < 0.2
patients = pd.DataFrame(
    {
        "age": rng.normal(size=3000),
        "question": 0.7 * ill + rng.normal(size=3000),
        "blood": 1.2 * ill + rng.normal(size=3000),
        "scan": 1.8 * ill + rng.normal(size=3000),
    }
)
hidden = rng.random(patients.shape) < 1 / 3
hidden[:, 0] = False
seen, new = patients.mask(hidden).iloc[:2000], patients.iloc[2000:]
outcome = pd.Series(np.where(ill, "ill", "well"))

# %%
# ## Costs of decisions
#
# In the unit of the prices: a missed illness costs 300, a needless treatment 30. `predict` then decides for
# "ill" from a probability of 30 / (30 + 300) on, in place of one half.

model = AcquisitionClassifier(
    method="planner",
    costs={"question": 1, "blood": 3, "scan": 8},
    known=["age"],
    budget=12,
    decision_costs={"ill": {"well": 300}, "well": {"ill": 30}},
    restorer="hotdeck",
    effort="low",
    random_state=0,
)
model.fit(seen, outcome[:2000])

probability = model.predict_proba(new)[:, list(model.classes_).index("ill")]
decided = model.predict(new)
print(f"decides 'ill' from a probability of {probability[decided == 'ill'].min():.2f} on")

# %%
# ## What measuring is worth
#
# `decision_cost` is what decisions cost on average, `total_cost` also counts what was spent on measurements.
# Where the total is smallest is a good budget.

scores = model.evaluate(new, outcome[2000:], budgets=[0, 1, 4, 12])
costs = scores[scores["metric"].isin(["decision_cost", "total_cost"]) & (scores["estimator"] == "ipw")]
print(costs.pivot(index="budget", columns="metric", values="estimate").round(2).to_string())

# %%
# Whether measuring pays depends on what is at stake. With a third of these costs (100 and 10) it did not, on
# the same patients: 7.69 in all without any measurement, and 14.93 with the whole budget. So try the costs
# that you believe in, and those that others would name.
#
# ## If nobody can name the costs
#
# Whoever would treat from a probability of 10% on thinks that one missed illness is as bad as nine needless
# treatments. The *net benefit* counts in that currency: true positives, less false positives at that rate. A
# model is of use at a threshold if it beats treating everybody and treating nobody.

steps = model.acquire(new)
last = steps.groupby("row").tail(1)
chance = np.where(last["prediction"] == "ill", last["probability"], 1 - last["probability"])
truly = (outcome.loc[last["row"]] == "ill").to_numpy()
thresholds = np.linspace(0.02, 0.5, 25)
curves = {
    "the policy": net_benefit(chance, truly, thresholds),
    "treat everybody": net_benefit(np.ones(len(truly)), truly, thresholds),
    "treat nobody": np.zeros(len(thresholds)),
}
at = int(np.argmin(abs(thresholds - 0.1)))
for name, curve in curves.items():
    print(f"net benefit at a threshold of {thresholds[at]:.2f}: {curve[at]:.3f}  {name}")

# %%
# The decision curve (Vickers and Elkin, 2006): net benefit against the threshold.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for name, curve in curves.items():
    axes.plot(thresholds, curve, label=name)
axes.set(xlabel="threshold probability", ylabel="net benefit", ylim=(-0.05, 0.22))
axes.legend(frameon=False)
figure.savefig("decision-curve.png", dpi=120)
