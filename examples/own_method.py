"""A method of your own: the order that your house uses, against what is learned.

Most places have an order in which tests are made. To know what a learned policy is worth, compare it with
that order. A method is one class and one function; then it works like all others: in the classifier, in
studies, on the command line.
"""

# %%
# ## The method
#
# A *policy* scores stopping (first) and every action, from what is known of a row; the best legal choice is
# taken. This one does not look at the row: actions come in the order of the price list, the most expensive
# last. A *method* makes a policy from training data, of which this one needs only the prices.

import jax
import jax.numpy as jnp

from ascertain import AcquisitionClassifier, Policy, methods
from ascertain.testing import check_method, planted_table


class HouseOrder(Policy):
    """Acquires in a fixed order."""

    scores: jax.Array  # of each action; what a policy holds is saved with the model

    def __call__(self, x, observed, acquired, available, *, key, budget=None):
        """Score stopping, which never wins while anything can be bought, and each action."""
        never_stop = jnp.full((len(x), 1), -jnp.inf)
        return jnp.concatenate([never_stop, jnp.broadcast_to(self.scores[None], acquired.shape)], axis=1)


@methods.register("house_order", summary="The cheapest first, whatever is found.")
def fit_house_order(
    key, problem, train, valid, *, predictor, pretrained=None, settings=None, state="s", protocol=None
):
    """Rank actions by their price at the start."""
    return HouseOrder(-problem.prices(jnp.zeros(problem.n_actions, bool)))


# %%
# ## Is it right?
#
# `check_method` tests what our own methods are tested for: it takes legal actions only, keeps the budget,
# cannot see hidden cells, gives the same for the same key, and is the same after saving and loading.

check_method("house_order")
print("house_order passes the checks")

# %%
# ## What is it worth?
#
# Fit it, a random order and the best fixed set to the same table. Restoration, predictor and scores are the
# same for all, so the difference is the policy.

priced = planted_table("priced", n_train=1500, n_test=2000)
for method in ("house_order", "random", "static"):
    model = AcquisitionClassifier(
        method=method,
        costs=dict(priced.costs),
        budget=priced.budget,
        restorer="hotdeck",
        effort="low",
        random_state=0,
    )
    model.fit(priced.train, priced.train_labels)
    bought = model.acquire(priced.test.head(1))["action"].dropna().tolist()
    accuracy = model.score(priced.test, priced.test_labels)
    print(f"{method:12} accuracy {accuracy:.2f}, buys {', '.join(bought)} in the first row")

# %%
# `docs/extend.md` has restorers, mechanisms, datasets and predictors of your own, and how an installed
# package makes them known to every command.
