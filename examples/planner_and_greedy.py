"""Looking ahead: the planner against a greedy method, with its route as a tree.

A greedy method buys what tells most by itself. Some measurements tell nothing by themselves, and are still
the best start: they say which of the others matter. On a table whose best route is known one can see who
finds it.
"""

# %%
# ## A table with a planted route
#
# The kind of a machine says which pair of measurements tells whether it fails: vibration for rail machines,
# oil for road machines. There is also a beep that knows a little of everything. The best route buys the kind
# and then the pair. Half of the training cells are empty; the test rows are complete.

import matplotlib.pyplot as plt
import pandas as pd

from ascertain import AcquisitionClassifier
from ascertain.testing import planted_table

workshop = planted_table("maintenance", n_train=3000, n_test=2000)
print(pd.Series(workshop.costs).astype(int).to_dict(), "budget", int(workshop.budget))


def fitted(method: str) -> AcquisitionClassifier:
    """Fit a method to the table."""
    model = AcquisitionClassifier(
        method=method,
        costs=dict(workshop.costs),
        known=list(workshop.known),
        budget=workshop.budget,
        restorer="hotdeck",
        effort="low",
        random_state=0,
    )
    return model.fit(workshop.train, workshop.train_labels)


planner, greedy = fitted("planner"), fitted("dime")

# %%
# ## How good are they?
#
# Every test row is followed from the start. The last line is for somebody who knows the best route, and
# predicts as the planner does.

print(f"planner          accuracy {planner.score(workshop.test, workshop.test_labels):.2f}")
print(f"greedy (DIME)    accuracy {greedy.score(workshop.test, workshop.test_labels):.2f}")
on_route = planner.predict(workshop.on_route()) == workshop.test_labels
print(f"the best route   accuracy {on_route.mean():.2f}")

# %%
# ## The route as a tree
#
# `acquire` follows the policy in complete rows, step by step. Rows that take the same way form a branch.
# Under each branch is the share of all rows that take it.


def tree(model: AcquisitionClassifier, least: float = 0.05) -> list[str]:
    """The ways that rows take, as lines of text; branches below the least share of rows are left out."""
    steps = model.acquire(workshop.test)
    ways = steps[steps["step"] > 0].groupby("row")["action"].agg(tuple)

    def branches(done: tuple[str, ...], indent: str) -> list[str]:
        here = ways[[way[: len(done)] == done and len(way) > len(done) for way in ways]]
        shares = here.str[len(done)].value_counts() / len(ways)
        lines = []
        for action, share in shares[shares >= least].items():
            lines += [f"{indent}{action} ({share:.0%})", *branches((*done, str(action)), indent + "    ")]
        return lines

    return branches((), "")


print("planner:", *tree(planner), sep="\n")
print("\ngreedy:", *tree(greedy), sep="\n")

# %%
# The planner begins as the best route does, and buys one of the pair that matters. In one row of eight it
# takes the beep instead of the second of the pair, and so stays a point behind the best route. DIME begins
# with the beep.
#
# ## The same at every budget
#
# The planner knows what is left of the budget, so one policy serves all budgets.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for name, model in (("planner", planner), ("greedy (DIME)", greedy)):
    scores = model.evaluate(workshop.test, workshop.test_labels, budgets=[0, 1, 2, 3, 4, 5])
    curve = scores[(scores["metric"] == "accuracy") & (scores["estimator"] == "ipw")]
    axes.plot(curve["budget"], curve["estimate"], marker="o", label=name)
    axes.fill_between(curve["budget"], curve["low"], curve["high"], alpha=0.2)
axes.axhline(on_route.mean(), color="grey", linestyle=":", label="the best route")
axes.set(xlabel="budget", ylabel="accuracy")
axes.legend(frameon=False)
figure.savefig("budget-curve.png", dpi=120)
