from itertools import combinations, product
from math import comb

import pytest
from hypothesis import given, settings

from ascertain import TooLargeError
from ascertain.exact import shortcut
from ascertain.exact._states import MAX_STATES, enumerate_states

from .reference import Instance
from .strategies import instances


@pytest.mark.parametrize(
    ("d", "budget", "states"), [(6, 2, 53), (8, 2, 101), (10, 2, 165), (10, 3, 837), (10, 4, 2853)]
)
def test_the_shortcut_problem_has_as_many_states_as_the_paper_counts(
    d: int, budget: int, states: int
) -> None:
    assert len(shortcut(d, budget).space) == states


@given(instances())
@settings(max_examples=60, deadline=None)
def test_states_and_edges_are_those_of_a_plain_enumeration(instance: Instance) -> None:
    n_values, costs, budget = instance.n_values, instance.costs, instance.budget
    space = enumerate_states(n_values, tuple(costs), budget)
    limit = budget + 1e-6 * max(1, budget)
    listed = {
        tuple(zip(features, values, strict=True))
        for size in range(len(costs) + 1)
        for features in combinations(range(len(costs)), size)
        if sum(costs[feature] for feature in features) <= limit
        for values in product(*(range(n_values[feature]) for feature in features))
    }
    found = [tuple((a, int(v)) for a, v in enumerate(row) if v >= 0) for row in space.values]
    assert found[0] == ()
    assert set(found) == listed
    assert len(found) == len(listed)

    edges = {
        (found[state], int(action)): tuple(found[child] for child in children[: n_values[action]])
        for state, action, children in zip(space.edge_state, space.edge_action, space.children, strict=True)
    }
    expected = {
        (state, action): tuple(tuple(sorted((*state, (action, v)))) for v in range(n_values[action]))
        for state in listed
        for action in instance.legal(state)
    }
    assert edges == expected


@given(instances())
@settings(max_examples=30, deadline=None)
def test_remaining_is_the_longest_way_to_the_end(instance: Instance) -> None:
    space = enumerate_states(instance.n_values, tuple(instance.costs), instance.budget)

    def longest(known: tuple[tuple[int, int], ...]) -> int:
        return max((1 + longest((*known, (a, 0))) for a in instance.legal(known)), default=0)

    for row, remaining in zip(space.values, space.remaining, strict=True):
        assert remaining == longest(tuple((a, int(v)) for a, v in enumerate(row) if v >= 0))


def test_too_many_states_are_refused_with_their_number() -> None:
    states = sum(comb(40, size) * 2**size for size in range(6))  # at most 5 of 40 binary features
    with pytest.raises(TooLargeError, match=rf"has {states:,} states .* at most {MAX_STATES:,}"):
        enumerate_states((2,) * 40, (1.0,) * 40, 5.0)


def test_counting_gives_up_in_time() -> None:
    costs = tuple(1.0 + 2.0**-k for k in range(1, 31))  # all sums differ
    with pytest.raises(TooLargeError, match="has at least"):
        enumerate_states((2,) * 30, costs, 45.0)


def test_wide_tables_with_small_budgets_are_fine() -> None:
    assert len(enumerate_states((2,) * 100, (1.0,) * 100, 2.0)) == 1 + 200 + 4 * 4950
