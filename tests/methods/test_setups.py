"""What methods make of set-up costs, on a planted problem whose best route is known.

The class is whether two blood tests differ, which neither of them tells alone. A blood draw costs 3 and each
test of it 1; a question that is right in three of four cases costs 1. A budget of 5 pays for both blood
tests, but not if the draw is paid twice, nor after the question was asked.
"""

from functools import cache

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import PAPER, Problem, Table, methods
from ascertain.acquisition import acquire
from ascertain.methods import _aaco as aaco
from ascertain.methods import _planner as planner
from ascertain.policy import Policy

FIRST, SECOND, QUESTION = range(3)
PROBLEM = Problem(np.eye(3), [1, 1, 1], 5, 2, setup_costs=[3], needs=[[1], [1], [0]])


def rows(n: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    blood = rng.integers(0, 2, (n, 2))
    y = blood[:, 0] ^ blood[:, 1]
    question = np.where(rng.random(n) < 0.75, y, 1 - y)
    return Table(np.column_stack([blood, question]) * 2.0 - 1.0, y, n_classes=2)


@cache
def planned() -> Policy:
    settings = planner.Settings(updates=1200, exploring=600, hidden=(32, 32), folds=2)
    return methods.fit("planner", jr.key(0), PROBLEM, rows(1000, 0), rows(300, 1), settings=settings)


def scores(policy: Policy, x: list[float], acquired: list[int]) -> Array:
    taken = jnp.zeros(3, bool).at[jnp.array(acquired, int)].set(True)
    values = jnp.where(taken, jnp.array(x), 0.0)
    return policy(values[None], taken[None], taken[None], jnp.ones((1, 3), bool), key=jr.key(0))[0, 1:]


@pytest.mark.slow
def test_the_planner_draws_blood_and_takes_the_second_test() -> None:
    test = rows(400, 2)
    episodes = acquire(jr.key(0), planned(), PROBLEM, test, PAPER, PROBLEM.most_acquisitions())
    taken = np.asarray(episodes.acquired(3)[-1])
    assert (taken == [True, True, False]).all()
    assert (np.asarray(episodes.spent)[:, -1] == 5).all()


@pytest.mark.slow
def test_after_the_draw_the_planner_prefers_the_other_blood_test() -> None:
    for first, second in ((FIRST, SECOND), (SECOND, FIRST)):
        found = scores(planned(), [1.0, 1.0, 0.0], [first])
        assert found[second] > found[QUESTION]


@pytest.mark.slow
def test_with_a_draw_for_each_test_it_would_ask() -> None:
    apart = Problem(np.eye(3), [4, 4, 1], 5, 2)  # as if each blood test paid for a draw of its own
    settings = planner.Settings(updates=600, exploring=300, hidden=(32, 32), folds=2)
    policy = methods.fit("planner", jr.key(0), apart, rows(1000, 0), rows(300, 1), settings=settings)
    episodes = acquire(jr.key(0), policy, apart, rows(100, 2), PAPER, apart.most_acquisitions())
    assert np.asarray(episodes.acquired(3)[-1])[:, QUESTION].all()


def test_aaco_pays_once_for_a_subset_of_one_draw() -> None:
    """With the budget of 5, the subset of both blood tests is affordable, and it is the best one."""

    class Knows:
        """Predicts what follows from the cells that are seen."""

        def __call__(self, x: Array, observed: Array) -> Array:
            differ = (x[:, 0] * x[:, 1] < 0) & observed[:, 0] & observed[:, 1]
            same = (x[:, 0] * x[:, 1] > 0) & observed[:, 0] & observed[:, 1]
            asked = jnp.where(observed[:, 2], jnp.where(x[:, 2] > 0, 0.75, 0.25), 0.5)
            chance = jnp.where(differ, 0.99, jnp.where(same, 0.01, asked))
            return jnp.stack([1 - chance, chance], axis=1)

    settings = aaco.Settings(acquisition_cost=0.001)
    policy = methods.fit(
        "aaco", jr.key(0), PROBLEM, rows(200, 0), rows(50, 1), predictor=Knows(), settings=settings
    )
    episodes = acquire(jr.key(0), policy, PROBLEM, rows(50, 2), PAPER, 2)
    assert (np.asarray(episodes.acquired(3)[-1]) == [True, True, False]).all()
