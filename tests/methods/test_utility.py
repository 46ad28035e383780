"""The planner for costs of decisions: it finds what changes decisions, not what tells most."""

import itertools
from functools import cache

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Float

from ascertain import Problem, Table, methods
from ascertain.methods import _planner as planner
from ascertain.methods._planner import Planner
from ascertain.methods._utility import Utility, utility_class_weights, utility_unit

COSTS = np.array([[0.0, 1.0], [10.0, 0.0]])  # true, decided
ILL = 0.3
# P(positive | class) of three tests, for the well and the ill. The first tells most about the class, but
# after a negative result 11% are ill, and from 1/11 on it is best to treat: it changes no decision.
POSITIVE = np.array([[0.0, 0.5, 0.5], [0.7, 1.0, 0.5]])
SETTINGS = planner.Settings(updates=1200, exploring=600)


def problem(budget: float, costs: np.ndarray | None = COSTS) -> Problem:
    return Problem(np.eye(3), np.ones(3), budget, 2, decision_costs=costs)


def draw(n: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < ILL).astype(int)
    return Table((rng.random((n, 3)) < POSITIVE[y]).astype(float), y, n_classes=2)


@cache
def fitted(with_costs: bool) -> Planner:
    given = problem(2, COSTS if with_costs else None)
    policy = methods.fit("planner", jr.key(0), given, draw(4000, 0), draw(500, 1), settings=SETTINGS)
    assert isinstance(policy, Planner)
    return policy


def first_scores(policy: Planner, budget: float) -> Float[np.ndarray, " actions"]:
    nothing = jnp.zeros((1, 3), bool)
    scores = policy.at(budget)(jnp.zeros((1, 3)), nothing, nothing, ~nothing, key=jr.key(0))
    return np.asarray(scores)[0, 1:]


def joint(known: dict[int, int]) -> Float[np.ndarray, " classes"]:
    """P(class, what is known)."""
    chance = np.array([1 - ILL, ILL])
    for test, value in known.items():
        chance = chance * (POSITIVE[:, test] if value else 1 - POSITIVE[:, test])
    return chance


def least_cost(known: dict[int, int], left: int) -> float:
    """Brute force: the expected cost, times P(what is known), of the best tests and the best decision."""
    stop = float((joint(known) @ COSTS).min())
    others = [test for test in range(3) if test not in known] if left else []
    further = [sum(least_cost(known | {t: value}, left - 1) for value in (0, 1)) for t in others]
    return min([stop, *further])


def cost_of(policy: Planner, known: dict[int, int], left: int) -> float:
    """The same for the tests that a policy chooses; decisions are the best ones."""
    if not left:
        return float((joint(known) @ COSTS).min())
    observed = jnp.asarray([[test in known for test in range(3)]])
    x = jnp.asarray([[float(known.get(test, 0)) for test in range(3)]])
    scores = np.array(policy(x, observed, observed, ~observed, key=jr.key(0)))[0, 1:]
    scores[list(known)] = -np.inf
    best = int(scores.argmax())
    return sum(cost_of(policy, known | {best: value}, left - 1) for value in (0, 1))


@pytest.mark.slow
def test_it_buys_what_changes_the_decision() -> None:
    assert first_scores(fitted(with_costs=False), 1).argmax() == 0
    scores = first_scores(fitted(with_costs=True), 1)
    assert scores.argmax() == 1
    # Scores are in the unit of the costs: the second test saves unnecessary treatments of half of the well.
    saved = least_cost({}, 0) - least_cost({}, 1)
    assert saved == pytest.approx(0.7 * 0.5)
    # 4,000 rows: the standard error of the mean saving is .5 / 63 = .008, and the network adds to it.
    assert scores[1] == pytest.approx(saved, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 2])
def test_its_plans_cost_hardly_more_than_the_best(budget: int) -> None:
    found = cost_of(fitted(with_costs=True).at(budget), {}, budget)
    assert found == pytest.approx(least_cost({}, budget), abs=0.01)
    assert found < cost_of(fitted(with_costs=False).at(1), {}, 1) - 0.1


def test_a_utility_is_the_negative_cost_of_the_decision() -> None:
    utility = Utility(jnp.asarray(COSTS, jnp.float32), jnp.asarray(2.0), -4.0)
    belief = jnp.asarray([[0.95, 0.05], [0.8, 0.2]])  # the second is treated, as 1/11 < .2
    for y, expected in ((0, [0.0, -0.5]), (1, [-5.0, 0.0])):
        np.testing.assert_allclose(utility(belief, jnp.full(2, y)), expected)
    # To know the class would save all that is expected: .05 * 10, and .8 * 1, in units of 2.
    np.testing.assert_allclose(utility.most_gain(belief), [0.25, 0.4], rtol=1e-6)


def test_what_cannot_be_avoided_is_no_gain() -> None:
    """To treat costs 3 even where it is right."""
    utility = Utility(jnp.asarray([[0.0, 3.0], [10.0, 3.0]]), jnp.asarray(1.0), -4.0)
    np.testing.assert_allclose(utility.most_gain(jnp.asarray([[0.4, 0.6]])), [3 - 0.6 * 3], rtol=1e-6)


def test_without_costs_it_is_the_log_probability() -> None:
    plain = problem(1, None)
    y = jnp.asarray([0, 0, 0, 1])
    assert utility_unit(plain, y) == 1
    np.testing.assert_allclose(utility_class_weights(plain, y), [0.25, 0.75])
    utility = Utility(None, utility_unit(plain, y), -4.0)
    found = utility(jnp.asarray([[0.25, 0.75], [1.0, 0.0]]), jnp.asarray([1, 1]))
    np.testing.assert_allclose(found, [np.log(0.75), -4.0], rtol=1e-5)


def test_rows_count_as_they_occur_where_decisions_have_costs() -> None:
    y = jnp.asarray([0, 0, 0, 1])
    np.testing.assert_array_equal(utility_class_weights(problem(1), y), [0.5, 0.5])
    # All are treated: 3/4 of them in vain, at a cost of 1 each.
    assert utility_unit(problem(1), y) == pytest.approx(0.75)


def test_brute_force_agrees_with_the_tests_of_all_at_once() -> None:
    """With a budget for all tests, the order does not matter."""
    everything = sum(
        float((joint(dict(enumerate(values))) @ COSTS).min())
        for values in itertools.product((0, 1), repeat=3)
    )
    assert least_cost({}, 3) == pytest.approx(everything)
