import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ascertain import InputError, Problem, Table

NAN, INF = float("nan"), float("inf")


def problem(**changes: object) -> Problem:
    arguments: dict[str, object] = {
        "reveals": [[1, 0, 0], [0, 1, 1]],
        "costs": [1.0, 2.0],
        "budget": 2.0,
        "n_classes": 2,
        "action_names": ["age", "panel"],
    }
    return Problem(**(arguments | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": [1.0, -2.0]}, r"cost of action 1 \('panel'\) is -2.0"),
        ({"costs": [NAN, 2.0]}, r"cost of action 0 \('age'\) is nan"),
        ({"costs": [INF, 2.0]}, r"cost of action 0 \('age'\) is inf"),
        ({"costs": [1.0]}, "1 entries, but 2"),
        ({"costs": [[1.0, 2.0]]}, r"costs must be a sequence of numbers, got an array of shape \(1, 2\)"),
        ({"costs": ["a", "b"]}, r"costs\[0\] is .*'a'.*, not a number"),
        ({"costs": [1e39, 1.0]}, "the cost of action 0"),
        ({"budget": 1e39}, "budget must be finite"),
        ({"reveals": [[1, 0, 0], [0, 0, 0]]}, r"action 1 \('panel'\) reveals no feature"),
        ({"reveals": [[1, 0, 0], [0, 1, 2]]}, r"reveals\[1, 2\] is 2"),
        ({"reveals": [1, 0]}, "reveals must be a table of numbers"),
        ({"reveals": [[1, 0], [1]]}, "reveals is not an array of numbers"),
        ({"reveals": np.ones((2, 0))}, "nothing to acquire"),
        ({"budget": 0.5}, "budget of 0.5 buys nothing: the cheapest action costs 1"),
        ({"budget": NAN}, "budget must be finite"),
        ({"budget": INF}, "budget must be finite"),
        ({"budget": [1, 2]}, "budget must be a number, got an array"),
        ({"n_classes": 1}, "n_classes must be a whole number of at least 2, got 1"),
        ({"n_classes": True}, "n_classes must be a whole number"),
        ({"action_names": ["age", "age"]}, "action_names has 'age' twice"),
        ({"action_names": ["age"]}, "action_names must list 2 names"),
        ({"feature_names": "abc"}, "feature_names must list 3 names"),
        ({"class_names": ["sick"]}, "class_names must list 2 names"),
    ],
)
def test_a_bad_problem_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem(**changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, INF]], [0]), r"x\[0, 1\] is inf"),
        (([[0.0, NAN]], [0], [[1, 1]]), r"x\[0, 1\] is nan but counted as measured"),
        (([[0.0], [1.0]], [0, -1]), r"y\[1\] is -1, outside the classes"),
        (([[0.0], [1.0]], [0, 0.5]), r"y\[1\] is 0.5, not a whole number"),
        (([[0.0], [1.0]], [0]), "1 labels for 2 rows"),
        (([[0.0], [1.0]], [0, 1], [[1]]), r"available has shape \(1, 1\), but x has shape \(2, 1\)"),
        (([[0.0], [1.0]], [0, 1], [[1], [3]]), r"available\[1, 0\] is 3"),
        (([0.0, 1.0], [0, 1]), "x must be a table of numbers"),
        ((np.ones((0, 2)), []), "empty"),
        (([[1e39]], [0]), r"x\[0, 0\] is 1e\+39 .* finite in single precision"),
        (([[1.0]], [1e10]), r"y\[0\] is 10000000000, outside the classes"),
        (([[1.0]], [INF]), r"y\[0\] is inf, not a whole number"),
        (([["a", 1.0]], [0]), r"x\[0, 0\] is .*'a'.*, not a number"),
    ],
)
def test_a_bad_table_is_refused_by_place(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table(*arguments)  # type: ignore[arg-type]


def test_labels_outside_the_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"y\[1\] is 2, outside the classes 0 to 1"):
        Table([[0.0], [1.0]], [0, 2], n_classes=2)


def test_a_user_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="buys nothing"):
        problem(budget=0.0)


def test_cells_that_were_not_measured_hold_zero() -> None:
    table = Table([[5.0, NAN], [6.0, 7.0]], [0, 1], available=[[1, 0], [0, 1]])
    np.testing.assert_array_equal(table.x, [[5.0, 0.0], [0.0, 7.0]])
    np.testing.assert_array_equal(table.available, [[True, False], [False, True]])


def test_tables_come_from_frames_with_any_kind_of_hole() -> None:
    frame = pd.DataFrame({"a": [True, False], "b": pd.array([1, None], "Int64"), "c": [None, 2.5]})
    table = Table(frame, [0, 1])
    np.testing.assert_array_equal(table.x, [[1.0, 1.0, 0.0], [0.0, 0.0, 2.5]])
    np.testing.assert_array_equal(table.available, [[True, True, False], [True, False, True]])


def test_the_budget_has_room_for_rounding() -> None:
    cents = Problem(np.eye(2), [0.1, 0.2], budget=0.3, n_classes=2)
    np.testing.assert_array_equal(cents.affordable(jnp.array([True, False])), [True, True])
    np.testing.assert_array_equal(cents.affordable(jnp.eye(2, dtype=bool)), [[True, True], [True, False]])


def test_an_action_needs_everything_it_reveals() -> None:
    available = jnp.asarray([[True, True, False], [False, True, True]])
    np.testing.assert_array_equal(problem().readable(available), [[True, False], [False, True]])


def test_a_table_must_fit_its_problem() -> None:
    problem().check(Table([[0.0, 1.0, 2.0]], [1]))
    with pytest.raises(InputError, match="2 features, but the problem has 3"):
        problem().check(Table([[0.0, 1.0]], [1]))
    with pytest.raises(
        InputError, match="3 classes, but the problem has 2; give the table's number with n_classes="
    ):
        problem().check(Table([[0.0, 1.0, 2.0]], [2]))


def test_problems_of_one_shape_share_a_program() -> None:
    traces = 0

    @jax.jit
    def total(which: Problem) -> jax.Array:
        nonlocal traces
        traces += 1
        return which.costs.sum()

    @jax.jit
    def total_unnamed(which: Problem) -> jax.Array:
        return total(which.without_names())  # also while traced

    renamed = problem(action_names=["sex", "scan"], costs=[3.0, 4.0], budget=4.0)
    assert float(total(problem().without_names())) == 3.0
    assert float(total(renamed.without_names())) == 7.0
    assert traces == 1
    assert float(total_unnamed(renamed)) == 7.0


def test_what_no_action_reveals_is_known_from_the_start() -> None:
    problem = Problem([[0, 1, 0], [0, 0, 1]], [1, 2], budget=2, n_classes=2)
    assert problem.known.tolist() == [True, False, False]
    nothing, first = [False, False], [True, False]
    assert problem.observed(jnp.asarray([nothing, first])).tolist() == [
        [True, False, False],
        [True, True, False],
    ]
    assert problem.observed(jnp.asarray(nothing)).tolist() == [True, False, False]


# Several completions.


def bits(values: object) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


@st.composite
def incomplete_tables(draw: st.DrawFn) -> Table:
    """Draw four rows of any numbers with any holes; rows may show the same instance."""
    cells = st.floats(-1e6, 1e6, width=32) | st.sampled_from([-0.0, 1e-45])
    x = draw(hnp.arrays(np.float32, (4, 3), elements=cells))
    available = draw(hnp.arrays(bool, (4, 3)))
    ids = draw(hnp.arrays(np.int32, 4, elements=st.integers(0, 2**31 - 1)))
    return Table(x, draw(hnp.arrays(np.int32, 4, elements=st.integers(0, 1))), available, ids=ids)


@settings(max_examples=60, deadline=None)
@given(table=incomplete_tables(), n=st.integers(1, 4), seed=st.integers(0, 99))
def test_completions_keep_what_was_observed_and_fill_the_rest(table: Table, n: int, seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(size=(n, 4, 3)).astype(np.float32)
    several = table.completed(jnp.asarray(drawn))
    assert (several.completions, several.n_instances, several.n_classes) == (n, 4, 2)
    np.testing.assert_array_equal(several.ids, np.tile(table.ids, n))
    np.testing.assert_array_equal(several.y, np.tile(table.y, n))
    assert bool(several.available.all())
    observed = np.asarray(table.available)
    for number in range(n):  # those of the first completion come first
        cells = bits(several.x)[4 * number : 4 * (number + 1)]
        np.testing.assert_array_equal(cells[observed], bits(table.x)[observed])
        np.testing.assert_array_equal(cells[~observed], bits(drawn[number])[~observed])


def test_a_selection_of_rows_is_not_counted_as_completions() -> None:
    table = Table(np.arange(4.0).reshape(2, 2), [0, 1])
    several = table.completed(jnp.zeros((3, 2, 2)))
    taken = several.take(jnp.asarray([5, 0, 3]))
    assert (taken.completions, taken.n_instances) == (1, 3)
    np.testing.assert_array_equal(taken.ids, [1, 0, 1])
    again = taken.counted(completions=3)
    assert (again.completions, again.n_instances) == (3, 1)
    np.testing.assert_array_equal(again.x, taken.x)
    assert again.counted(completions=3) is again


def test_the_number_of_completions_is_static() -> None:
    """Programs are compiled for it, also for stacked tables."""
    table = Table(np.zeros((2, 2)), [0, 1])
    several = table.completed(jnp.zeros((3, 2, 2)))
    assert eqx.tree_equal(table, table)
    assert not eqx.tree_equal(several, several.counted(completions=1))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), several)
    assert (stacked.completions, stacked.n_instances) == (3, 2)
    assert jax.vmap(lambda each: jnp.asarray(each.n_instances))(stacked).tolist() == [2] * 5


@pytest.mark.parametrize("unit", [1e-25, 1e-7, 1.0, 1e7, 1e29])
def test_the_budget_means_the_same_in_every_unit_of_money(unit: float) -> None:
    prices = np.array([1, 2, 3, 4]) * unit
    found = Problem(np.eye(4), prices, 6 * unit, n_classes=2)
    sets = np.array([[(number >> action) & 1 for action in range(4)] for number in range(16)], bool)
    units = sets @ np.array([1, 2, 3, 4])
    within = units <= 6
    affordable = np.asarray(found.affordable(jnp.asarray(sets[within])))
    np.testing.assert_array_equal(affordable, units[within][:, None] + [1, 2, 3, 4] <= 6)
    assert found.most_acquisitions() == 3
    np.testing.assert_allclose(found.total_cost(jnp.asarray(sets)), units * unit, rtol=1e-6)


@pytest.mark.parametrize(("price", "n"), [(0.1, 200), (0.1, 3), (1e-3, 500), (1e28, 90), (0.0, 5)])
def test_rounding_never_keeps_the_last_action_from_fitting(price: float, n: int) -> None:
    """The last of n equal actions fits a budget of n prices, however sums are rounded."""
    found = Problem(np.eye(n), np.full(n, price), price * n, n_classes=2)
    one_left = jnp.arange(n) > 0
    assert bool(found.affordable(one_left)[0])
    assert bool(found.total_cost(jnp.ones(n, bool)) <= found.limit)
    assert found.most_acquisitions() == n
