"""Your first table: from a CSV file with holes to the next measurement.

A workshop has records of 2,000 machines and knows which of them failed. Nobody ever measured everything on
one machine: half of the cells are empty. A new machine comes in, and there is money for 5. What should be
measured first?
"""

# %%
# ## The table
#
# You would begin with a file of your own. Here one is written first, so that the example runs anywhere:
# machines with an age, a kind, some measurements, and whether they failed. An empty cell means that nobody
# measured.

import pandas as pd

from ascertain import AcquisitionClassifier
from ascertain.testing import planted_table

workshop = planted_table("maintenance", n_train=2000, n_test=1000)
workshop.train.assign(fails=workshop.train_labels).round(2).to_csv("machines.csv", index=False)

machines = pd.read_csv("machines.csv")
print(machines.head(4).to_string(), "\n")
print("share of empty cells:", machines.isna().mean().round(2).to_dict())

# %%
# ## Fit
#
# Say what each column costs, what is known from the start at no cost, and what may be spent on one machine.
# The rest is scikit-learn: a table and its classes. `planner` is the method that looks ahead to the end of
# the budget; `effort="low"` is for a quick look.

prices = {"machine": 1, "vib_1": 2, "vib_2": 2, "oil_1": 2, "oil_2": 2}
prices |= {"beep": 1, "teardown": 12, "hum": 1, "temp": 1}
model = AcquisitionClassifier(
    method="planner",
    costs=prices,
    known=["age_h"],
    budget=5,
    restorer="hotdeck",
    effort="low",
    random_state=0,
)
model.fit(machines.drop(columns="fails"), machines["fails"].map({0: "runs", 1: "fails"}))

# %%
# ## Ask
#
# Of the first machine only the age is known. The second one is a rail machine, and one measurement was made.
# `recommend` takes them as rows of a table, in which `None` is what is not known yet.

new = pd.DataFrame({"age_h": [0.1, 0.1], "machine": [None, "rail"], "vib_1": [None, 1.5]})
new = new.reindex(columns=model.feature_names_in_)
advice = model.recommend(new)
print(advice[["action", "cost", "prediction", "probability", "low", "high"]].round(2).to_string())

# %%
# The kind of machine tells nothing about failing, and is still what to find out first: it says which of the
# other measurements are worth their price. That is what looking ahead means. `low` and `high` say where the
# probability will lie once everything is measured, in 90% of such machines.
#
# ## Understand
#
# `explain` says which results of the recommended measurement would change the prediction, and what comes
# after each of them.

outcomes = model.explain(new)
columns = ["row", "action", "result", "share", "probability of fails", "then"]
print(outcomes[columns].round(2).to_string(index=False))

# %%
# ## Check
#
# Is it any good? The rows to check with must not be those that it learned from. Here they are complete, so
# every answer is there; rows with holes will do, too. In the mean it spends 5, and its accuracy has an
# interval.

scores = model.evaluate(workshop.test, pd.Series(workshop.test_labels).map({0: "runs", 1: "fails"}))
shown = scores[(scores["metric"] == "accuracy") & (scores["estimator"] == "ipw")]
print(shown[["budget", "estimate", "low", "high"]].round(2).to_string(index=False))

# %%
# ## Keep
#
# A model is one file of numbers and JSON. The hot deck completes new rows with values of training rows, so
# they are in it, and `save` says so. `ascertain consult model` asks it in the terminal, `ascertain serve
# model` as a web page.

model.save("model")
again = AcquisitionClassifier.load("model")
print("the loaded model begins with:", again.recommend(new.iloc[[0]])["action"].item())
