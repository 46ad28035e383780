"""Grid search: the budget that pays.

`AcquisitionClassifier` works in scikit-learn's searches. There is one trap: scikit-learn's own scorers
predict from all that is on file, whatever it cost, so that every budget looks the same. `ascertain.scorers`
follow the policy.
"""

# %%
# ## The table
#
# Six tests at different prices. Two of them tell most of what can be known, at a price of 7. Half of the
# cells are empty.

import pandas as pd
from sklearn.model_selection import GridSearchCV

from ascertain import AcquisitionClassifier, scorers
from ascertain.testing import planted_table

priced = planted_table("priced", n_train=1500, n_test=2000)
print(pd.Series(priced.costs).astype(int).to_dict())

model = AcquisitionClassifier(
    method="static", costs=dict(priced.costs), restorer="hotdeck", effort="low", random_state=0
)
grid = {"budget": [2, 5, 7]}

# %%
# ## The trap
#
# With `scoring="accuracy"` all budgets have the same score.

search = GridSearchCV(model, grid, scoring="accuracy", cv=2, refit=False)
search.fit(priced.train, priced.train_labels)
print(pd.DataFrame(search.cv_results_)[["param_budget", "mean_test_score"]].round(3).to_string(index=False))

# %%
# ## Follow the policy
#
# Several scorers at once: what the predictions are worth after the policy's acquisitions, and what these
# cost. The rows of the folds have holes; scores are doubly robust estimates of what would be reached if
# everything could be bought.

scoring = {"accuracy": scorers.policy_accuracy, "auroc": scorers.policy_auroc}
scoring["spent"] = scorers.policy_neg_mean_cost
search = GridSearchCV(model, grid, scoring=scoring, cv=2, refit="auroc")
search.fit(priced.train, priced.train_labels)
shown = ["param_budget", "mean_test_accuracy", "mean_test_auroc", "mean_test_spent"]
print(pd.DataFrame(search.cv_results_)[shown].round(3).to_string(index=False))

# %%
# Larger budgets are not in the grid for a reason: at 13, only 15 of the 750 rows of a fold can be followed to
# the end. The scorers then warn, and score rows as they are, which must not be compared with the other
# budgets.
#
# More money never hurts a score that does not count it. Weigh both: here a point of AUROC is worth half a
# unit of money, so that the budget is where the next unit stops paying. With `decision_costs`,
# `scorers.policy_neg_total_cost` does this in one number (`examples/wrong_decisions.py`).

table = pd.DataFrame(search.cv_results_)
worth = 50 * table["mean_test_auroc"] + table["mean_test_spent"]  # what is spent has a minus sign here
best = table["param_budget"][worth.idxmax()]
print("the budget that pays:", best)

# %%
# On complete rows that no fold had, this is what was bought and what it is worth.

chosen = model.set_params(budget=best).fit(priced.train, priced.train_labels)
print("buys", chosen.acquire(priced.test.head(1))["action"].dropna().tolist())
print("accuracy", round(chosen.score(priced.test, priced.test_labels), 2))
