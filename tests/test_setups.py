"""Set-up costs that actions share, against plain loops over sets of actions."""

from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import AFABENCH, PAPER, InputError, Problem, Table
from ascertain._core.prices import PriceList
from ascertain.acquisition import legal_actions
from ascertain.evaluation._rollouts import needs_separate_rollouts
from ascertain.evaluation._routes import sample_routes

N, G = 4, 2
SETS = [set(each) for size in range(N + 1) for each in combinations(range(N), size)]
MASKS = np.array([[action in each for action in range(N)] for each in SETS])
quarters = st.integers(0, 12).map(lambda number: number / 4)  # sums are exact


@st.composite
def problems(draw: st.DrawFn, *, most_needs: int = G) -> dict[str, Any]:
    costs = draw(st.lists(quarters, min_size=N, max_size=N))
    setup_costs = draw(st.lists(quarters, min_size=G, max_size=G))
    needs = np.zeros((N, G), bool)
    for action in range(N):
        for setup in draw(st.sets(st.integers(0, G - 1), max_size=most_needs)):
            needs[action, setup] = True
    needs[0], needs[1] = [True, False], [False, True]  # nobody would list a set-up that nothing needs
    first = min(cost + np.dot(row, setup_costs) for cost, row in zip(costs, needs, strict=True))
    budget = draw(st.integers(int(4 * first), 48).map(lambda number: number / 4))
    prices = {"costs": costs, "budget": budget, "setup_costs": setup_costs, "needs": needs}
    return {"reveals": np.eye(N), "n_classes": 2, **prices}


def by_loops(problem: Problem, actions: set[int]) -> float:
    """What a set of actions costs."""
    assert problem.setup_costs is not None
    total = sum(float(problem.costs[action]) for action in actions)
    for setup, price in enumerate(problem.setup_costs.tolist()):
        if any(bool(np.asarray(problem.needs)[action, setup]) for action in actions):
            total += price
    return total


@settings(max_examples=60, deadline=None)
@given(problems())
def test_prices_are_what_a_set_costs_more_with_the_action(arguments: dict[str, Any]) -> None:
    problem = Problem(**arguments)
    total = np.array([by_loops(problem, each) for each in SETS])
    more = np.array([[by_loops(problem, each | {action}) for action in range(N)] for each in SETS])
    masks = jnp.asarray(MASKS)
    new = ~MASKS
    prices = np.asarray(problem.prices(masks))
    np.testing.assert_array_equal(np.asarray(problem.total_cost(masks)), total)
    np.testing.assert_array_equal(prices[new], (more - total[:, None])[new])
    in_double = problem.price_list
    np.testing.assert_array_equal(in_double.total(MASKS), total)
    np.testing.assert_array_equal(in_double.prices(MASKS)[new], prices[new])
    np.testing.assert_array_equal(
        in_double.setups(MASKS), in_double.prices(MASKS) - np.asarray(problem.costs)
    )
    assert in_double.everything == total[-1]
    # Actions one by one, or several at once: every set after every other.
    before, then = np.repeat(MASKS, len(SETS), axis=0), np.tile(MASKS, (len(SETS), 1))
    added = problem.added_cost(jnp.asarray(before), jnp.asarray(then))
    both = [total[SETS.index(first | second)] - total[SETS.index(first)] for first in SETS for second in SETS]
    np.testing.assert_array_equal(np.asarray(added), both)


@settings(max_examples=25, deadline=None)
@given(problems())
def test_what_is_legal_fits_the_budget(arguments: dict[str, Any]) -> None:
    problem = Problem(**arguments)
    budget = float(problem.budget)
    within = np.array([by_loops(problem, each) <= budget for each in SETS])
    fits = [
        [action not in each and by_loops(problem, each | {action}) <= budget for action in range(N)]
        for each in SETS
        if by_loops(problem, each) <= budget
    ]
    everything = jnp.ones(MASKS.shape, bool)
    legal = legal_actions(problem, PAPER, jnp.asarray(MASKS), everything)  # of one shape: compiled once
    np.testing.assert_array_equal(np.asarray(legal)[within], np.array(fits))


@settings(max_examples=60, deadline=None)
@given(problems(most_needs=1))
def test_the_most_acquisitions(arguments: dict[str, Any]) -> None:
    problem = Problem(**arguments)
    payable = [len(each) for each in SETS if by_loops(problem, each) <= float(problem.budget)]
    assert problem.most_acquisitions() == max(payable)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_most_acquisitions_are_never_too_few(arguments: dict[str, Any]) -> None:
    problem = Problem(**arguments)
    payable = [len(each) for each in SETS if by_loops(problem, each) <= float(problem.budget)]
    assert problem.most_acquisitions() >= max(payable)


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(0, 2**31))
def test_sampled_routes_are_maximal(arguments: dict[str, Any], seed: int) -> None:
    problem = Problem(**arguments)
    budget = float(problem.budget)
    for route in sample_routes(np.random.default_rng(seed), problem.price_list, budget, wanted=5):
        assert by_loops(problem, {*route}) <= budget
        others = {*range(N)} - {*route}
        assert all(by_loops(problem, {*route, action}) > budget for action in others)


def test_equal_prices_do_not_stay_equal_with_set_ups() -> None:
    plain = Problem(np.eye(2), [1, 1], 2, 2)
    shared = Problem(np.eye(2), [1, 1], 5, 2, setup_costs=[3], needs=[[1], [1]])
    assert not needs_separate_rollouts(plain, PAPER)
    assert needs_separate_rollouts(shared, PAPER)
    assert not needs_separate_rollouts(shared, AFABENCH)  # there a policy does not see what is affordable


def test_without_set_ups_a_problem_has_no_more_arrays_than_before() -> None:
    plain = Problem(np.eye(2), [1, 1], 2, 2)
    empty = Problem(np.eye(2), [1, 1], 2, 2, setup_costs=[], needs=np.zeros((2, 0)))
    assert len(jax.tree.leaves(plain)) == 3
    assert len(jax.tree.leaves(empty)) == 3
    assert len(jax.tree.leaves(Problem(np.eye(2), [1, 1], 9, 2, setup_costs=[3], needs=[[1], [0]]))) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"needs": None}, "both setup_costs and needs"),
        ({"setup_costs": None}, "both setup_costs and needs"),
        ({"setup_costs": [-1.0]}, "the cost of 'draw' is -1"),
        ({"setup_costs": [1.0, 2.0]}, "costs has 2 entries, but 1"),
        ({"needs": [[1]]}, "needs has 1 rows, but there are 2 actions"),
        ({"needs": [[0], [0]]}, "no action needs 'draw'"),
        ({"setup_names": ["a", "b"]}, "setup_names must list 1 names"),
        ({"budget": 5.5}, "a budget of 5.5 buys nothing: the cheapest action costs 6"),
    ],
)
def test_bad_set_ups_are_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "setup_costs": [5.0],
        "needs": [[1], [1]],
        "setup_names": ["draw"],
        "budget": 9.0,
    }
    with pytest.raises(InputError, match=message):
        Problem(np.eye(2), [1, 2], n_classes=2, **(arguments | changes))  # type: ignore[arg-type]


def test_a_long_price_list_is_counted_without_trying_all_sets() -> None:
    rng = np.random.default_rng(0)
    needs = np.eye(12, dtype=bool)[rng.integers(12, size=300)]
    prices = PriceList(rng.uniform(0, 1, 300), rng.uniform(0, 9, 12), needs)
    most = prices.most(20.0)
    # The most of one set-up alone, and as many as without any set-up, are bounds.
    alone = max(
        int((cost + np.cumsum(np.sort(prices.costs[row])) <= 20.0).sum())
        for cost, row in zip(prices.setup_costs, needs.T, strict=True)
    )
    assert alone <= most <= PriceList(prices.costs).most(20.0)


def test_a_table_fits_a_problem_with_set_ups() -> None:
    problem = Problem(np.eye(2), [1, 1], 5, 2, setup_costs=[3], needs=[[1], [1]], setup_names=["draw"])
    problem.check(Table(np.zeros((2, 2)), [0, 1]))
    assert problem.without_names().setup_names is None
    np.testing.assert_array_equal(np.asarray(problem.without_names().needs), [[True], [True]])
