"""Route structure against enumeration, scikit-learn's scores, and a plain reading of its definition."""

import zlib
from itertools import combinations
from math import comb
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Bool, Float
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, f1_score

from ascertain import InputError, Problem, Table
from ascertain._core.prices import PriceList
from ascertain.datasets import Dataset, cube, cube_nm, cube_nuc
from ascertain.datasets._dataset import Preprocessing, RawRows, Split
from ascertain.evaluation._rollouts import MAX_ROWS
from ascertain.evaluation._routes import (
    RouteStructure,
    route_structure,
    sample_routes,
    score_masks,
    weighted_overlap,
)
from ascertain.predictors._masked_mlp import SklearnPredictor

Metric = Literal["accuracy", "macro_f1"]


def maximal_sets(costs: list[int], budget: int) -> list[tuple[int, ...]]:
    """List all sets that the budget allows and that nothing can be added to."""
    actions = range(len(costs))
    return sorted(
        chosen
        for size in range(len(costs) + 1)
        for chosen in combinations(actions, size)
        if (left := budget - sum(costs[a] for a in chosen)) >= 0
        and all(costs[a] > left for a in actions if a not in chosen)
    )


# Sampling


@settings(max_examples=60, deadline=None)
@given(
    costs=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    budget=st.integers(0, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_problems_have_all_their_routes_found(costs: list[int], budget: int, seed: int) -> None:
    # In tenths, of which floating point misses sums: 0.1 + 0.2 fits 0.3. A set is drawn whenever its actions
    # come first, at least once in comb(6, 3) = 20 attempts; 1,200 attempts miss one with probability 1e-25.
    rng = np.random.default_rng(seed)
    routes = sample_routes(rng, PriceList(np.array(costs) / 10), budget / 10, wanted=60)
    assert routes == maximal_sets(costs, budget)


@settings(max_examples=25, deadline=None)
@given(
    costs=st.lists(st.floats(0.1, 3), min_size=8, max_size=20),
    part=st.floats(0.05, 0.9),
    wanted=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_routes_are_distinct_sorted_affordable_and_maximal(
    costs: list[float], part: float, wanted: int, seed: int
) -> None:
    budget = part * sum(costs)
    routes = sample_routes(np.random.default_rng(seed), PriceList(np.array(costs)), budget, wanted)
    assert 1 <= len(routes) <= wanted
    assert routes == sorted(set(routes))
    slack = 1e-6 * max(1.0, budget)
    for route in routes:
        assert list(route) == sorted(set(route))
        left = budget - sum(costs[action] for action in route)
        assert left >= -1.01 * slack
        assert all(costs[action] > left for action in range(len(costs)) if action not in route)


@pytest.mark.parametrize(("n", "budget"), [(20, 3), (20, 10), (51, 14)])
def test_unit_costs_give_routes_of_the_size_of_the_budget(n: int, budget: int) -> None:
    routes = sample_routes(np.random.default_rng(0), PriceList(np.ones(n)), budget)
    assert {len(route) for route in routes} == {budget}
    assert len(routes) == min(2000, comb(n, budget))  # all comb(20, 3) = 1,140 are found


def test_every_route_of_unit_costs_is_equally_likely() -> None:
    # Each of 10 routes is the first drawn with probability 1/10: five standard errors of 4,000 draws.
    rng = np.random.default_rng(0)
    drawn = [sample_routes(rng, PriceList(np.ones(5)), 2, wanted=1)[0] for _ in range(4000)]
    share = np.array([drawn.count(route) for route in combinations(range(5), 2)]) / 4000
    np.testing.assert_allclose(share, 0.1, atol=5 * np.sqrt(0.09 / 4000))


def test_a_budget_that_buys_nothing_has_the_empty_route() -> None:
    assert sample_routes(np.random.default_rng(0), PriceList(np.array([2.0, 3.0])), 1.0, wanted=3) == [()]


# Overlap


def naive_overlap(chosen: np.ndarray, weight: np.ndarray) -> float:
    above = below = 0.0
    for i in range(len(chosen)):
        for j in range(i):
            both = (chosen[i] & chosen[j]).sum()
            either = (chosen[i] | chosen[j]).sum()
            above += weight[i] * weight[j] * (both / either if either else 0.0)
            below += weight[i] * weight[j]
    return above / below if below else float("nan")


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_overlap_is_the_weighted_mean_over_pairs(
    routes: int, actions: int, density: float, zeros: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    chosen = rng.random((routes, actions)) < density
    weight = rng.random(routes) * (rng.random(routes) >= zeros)
    np.testing.assert_allclose(weighted_overlap(chosen, weight), naive_overlap(chosen, weight), rtol=1e-12)


def test_overlap_without_weight_is_not_a_number() -> None:
    chosen = np.eye(3, dtype=bool)
    assert np.isnan(weighted_overlap(chosen, np.zeros(3)))
    assert np.isnan(weighted_overlap(chosen, np.array([0.0, 1.0, 0.0])))  # one route has no pair
    assert weighted_overlap(chosen, np.ones(3)) == 0
    assert weighted_overlap(np.ones((3, 2), bool), np.ones(3)) == 1


def expected_jaccard(n: int, size: int) -> float:
    """Compute the mean Jaccard index of two different random sets of a size: hypergeometric."""
    total = comb(n, size) - 1
    return sum(
        comb(size, both) * comb(n - size, size - both) / total * both / (2 * size - both)
        for both in range(size)
    )


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [  # What the specification computed; exactly, where costs are equal.
        (cube(10), expected_jaccard(20, 10)),
        (cube_nm(10), expected_jaccard(51, 14)),
        (cube_nuc(10), 0.217),
    ],
)
def test_random_routes_of_the_cube_family_overlap_as_specified(dataset: Dataset, expected: float) -> None:
    costs = np.asarray(dataset.problem.costs, float)
    routes = sample_routes(np.random.default_rng(0), PriceList(costs), dataset.budgets[-1])
    assert len(routes) == 2000
    chosen = np.array([[action in route for action in range(len(costs))] for route in routes])
    assert abs(weighted_overlap(chosen, np.ones(2000)) - expected) < 0.002
    if dataset.name != "cube_nuc":
        assert abs(expected - {"cube": 0.341, "cube_nm": 0.163}[dataset.name]) < 0.001


# Scores


class Linear(eqx.Module):
    """A linear classifier on the observed values and the mask."""

    weights: Float[Array, "inputs classes"]

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        inputs = jnp.concatenate([jnp.where(observed, x, 0.0), observed.astype(x.dtype)], axis=1)
        return jax.nn.softmax(inputs @ self.weights)


def linear(n_features: int, n_classes: int, seed: int = 0) -> Linear:
    return Linear(jr.normal(jr.key(seed), (2 * n_features, n_classes)))


def random_table(rows: int, n_features: int, labels: int, n_classes: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, n_features))
    place = x[:, :2].sum(axis=1) + 0.5 * rng.normal(size=rows)
    y = np.searchsorted(np.quantile(place, np.arange(1, labels) / labels), place)
    return Table(x, y, n_classes=n_classes)


def sklearn_score(predictor: Any, table: Table, mask: np.ndarray, metric: Metric) -> float:
    everywhere = jnp.broadcast_to(jnp.asarray(mask)[None], table.x.shape)
    predicted = np.asarray(predictor(table.x, everywhere)).argmax(axis=1)
    if metric == "accuracy":
        return float(accuracy_score(np.asarray(table.y), predicted))
    return float(f1_score(np.asarray(table.y), predicted, average="macro", zero_division=0))


def boosted(table: Table) -> SklearnPredictor:
    model = HistGradientBoostingClassifier(max_iter=5, learning_rate=0.5, random_state=0)
    return SklearnPredictor(model, table.n_classes).fit(jr.key(0), table, copies=2)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize("labels", [4, 3])  # of 4 classes: all, or the last one never occurs but is predicted
@pytest.mark.parametrize("kind", ["jax", pytest.param("sklearn", marks=pytest.mark.slow)])
def test_scores_are_those_of_scikit_learn(metric: Metric, labels: int, kind: str) -> None:
    table = random_table(150, 5, labels, n_classes=4)
    predictor: Any = linear(5, 4) if kind == "jax" else boosted(table)
    masks = np.random.default_rng(1).random((19, 5)) < 0.5  # more than are scored at once, and no multiple
    masks[0], masks[1] = True, False
    scores = score_masks(predictor, table, jnp.asarray(masks), metric)
    expected = [sklearn_score(predictor, table, mask, metric) for mask in masks]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert np.ptp(scores) > 0.05


def test_a_class_that_neither_occurs_nor_is_predicted_does_not_count() -> None:
    table = random_table(60, 3, 2, n_classes=3)
    weights = linear(3, 3).weights.at[:, 2].set(0.0)
    predictor = Linear(weights.at[3:, 2].set(-1e3))  # never predicted where anything is observed
    mask = np.ones((1, 3), bool)
    scores = score_masks(predictor, table, jnp.asarray(mask), "macro_f1")
    assert scores[0] == pytest.approx(sklearn_score(predictor, table, mask[0], "macro_f1"))
    everywhere = jnp.ones(table.x.shape, bool)
    predicted = np.asarray(predictor(table.x, everywhere)).argmax(axis=1)
    each = f1_score(np.asarray(table.y), predicted, average=None, labels=[0, 1], zero_division=0)
    assert scores[0] == pytest.approx(each.mean())


# The table's row


def dataset_of(problem: Problem, name: str, budgets: tuple[float, ...], metric: Metric, rows: int) -> Dataset:
    table = random_table(rows, problem.n_features, problem.n_classes, problem.n_classes)
    return Dataset(
        name=name,
        problem=problem,
        budgets=budgets,
        metric=metric,
        draw=lambda seed: RawRows(np.asarray(table.x, float), np.asarray(table.y, int)),
        stratified=False,
        preprocessing=Preprocessing(scale=False),
        source="drawn",
        licence="none",
    )


def by_hand(
    predictor: Any, problem: Problem, split: Split, routes: list[tuple[int, ...]], metric: Metric
) -> RouteStructure:
    """Compute the definitions, route by route, with scikit-learn's scores."""
    reveals = np.asarray(problem.reveals)
    masks = np.array([reveals[list(route)].any(axis=0) for route in routes])
    nothing = np.zeros(problem.n_features, bool)
    train, valid = (
        np.array([sklearn_score(predictor, table, mask, metric) for mask in masks]) for table in split[:2]
    )
    gain = np.maximum(train - sklearn_score(predictor, split.train, nothing, metric), 0)
    chosen = np.array([[action in route for action in range(problem.n_actions)] for route in routes])
    best = max(range(len(routes)), key=lambda number: (train[number], number))
    return RouteStructure(
        v_static=float(valid[best]),
        sensitivity=float(valid[best] - valid.mean()),
        overlap=naive_overlap(chosen, gain),
        routes=len(routes),
        best_route=routes[best],
    )


def assert_close(found: RouteStructure, expected: RouteStructure) -> None:
    assert (found.routes, found.best_route) == (expected.routes, expected.best_route)
    np.testing.assert_allclose(found[:3], expected[:3], rtol=1e-9)


@pytest.mark.parametrize(
    ("metric", "budget", "index"),
    [
        ("accuracy", None, 0),
        ("macro_f1", 0.3, 3),
        pytest.param("accuracy", 0.3, 3, marks=pytest.mark.slow),
        pytest.param("macro_f1", None, 0, marks=pytest.mark.slow),
    ],
)
def test_a_problem_with_few_routes_is_solved_by_enumeration(
    metric: Metric, budget: float | None, index: int
) -> None:
    # All routes are found, so the random stream does not matter. The first action reveals two columns.
    reveals = np.zeros((5, 6), int)
    reveals[0, :2] = 1
    reveals[np.arange(1, 5), np.arange(2, 6)] = 1
    tenths = [2, 1, 1, 3, 2]
    problem = Problem(reveals, np.array(tenths) / 10, 0.5, 3)
    dataset = dataset_of(problem, "toy", (0.2, 0.5), metric, rows=150)
    split, predictor = dataset.split(index), linear(6, 3)
    routes = maximal_sets(tenths, 5 if budget is None else 3)
    found = route_structure(dataset, split, predictor, index, budget)
    assert_close(found, by_hand(predictor, problem, split, routes, metric))
    assert found.sensitivity != 0


def reference_routes(key: str, index: int, costs: list[float], budgets: list[float], k: int) -> list[Any]:
    """Sample routes as analysis.md section 6 says, budget by budget from one stream; give the last's."""
    rng = np.random.default_rng(0 + index + zlib.crc32(key.encode("utf-8")))
    for budget in budgets:
        seen: set[tuple[int, ...]] = set()
        for _ in range(max(100, 20 * k)):
            if len(seen) == k:
                break
            route, spent = [], 0.0
            for action in rng.permutation(len(costs)):
                if spent + costs[action] <= budget + 1e-9:
                    spent += costs[action]
                    route.append(int(action))
            seen.add(tuple(sorted(route)))
    return sorted(seen)


@pytest.mark.parametrize(
    ("name", "key"), [("actg175", "actg"), ("cube_nuc", "cube_nonuniform_costs"), ("cube", "cube")]
)
def test_routes_come_from_the_stream_of_the_reference(name: str, key: str) -> None:
    # Named by the reference's name of the dataset; the largest budget's routes come after the others'.
    n, index = 30, 2
    problem = Problem(np.eye(n), np.ones(n), 7, 3)
    dataset = dataset_of(problem, name, (3, 5, 7), "accuracy", rows=30)
    split, predictor = dataset.split(index), linear(n, 3)
    routes = reference_routes(key, index, [1.0] * n, [3, 5, 7], k=2000)
    assert len(routes) == 2000  # of 2 million
    found = route_structure(dataset, split, predictor, index)
    masks = np.array([[action in route for action in range(n)] for route in routes])
    train, valid = (score_masks(predictor, table, jnp.asarray(masks), "accuracy") for table in split[:2])
    best = np.flatnonzero(train == train.max())[-1]
    empty = score_masks(predictor, split.train, jnp.zeros((1, n), bool), "accuracy")
    assert found.best_route == routes[best]
    np.testing.assert_allclose(found.v_static, valid[best])
    np.testing.assert_allclose(found.sensitivity, valid[best] - valid.mean())
    gain = np.maximum(train - empty, 0)
    np.testing.assert_allclose(found.overlap, weighted_overlap(masks, gain))
    assert found != route_structure(dataset, split, predictor, index + 1)


@pytest.mark.slow
def test_at_most_4096_rows_of_each_part_are_scored() -> None:
    problem = Problem(np.eye(2), np.ones(2), 1, 3)
    table = random_table(MAX_ROWS + 904, 2, 3, 3)
    dataset = dataset_of(problem, "toy", (1,), "accuracy", rows=30)
    found = route_structure(dataset, Split(table, table, table), linear(2, 3), 0)
    assert MAX_ROWS == 4096
    assert (found.v_static * 4096).is_integer()  # and so not of 5,000 rows, but once in 600
    # The rows are drawn at random: five standard errors.
    mask = np.arange(2) == found.best_route[0]
    whole = sklearn_score(linear(2, 3), table, mask, "accuracy")
    assert not (whole * 4096).is_integer()
    assert abs(found.v_static - whole) < 5 * 0.5 / np.sqrt(4096)


@pytest.mark.parametrize(("part", "word"), [("train", "training"), ("valid", "validation")])
def test_rows_with_holes_are_refused(part: str, word: str) -> None:
    dataset = dataset_of(Problem(np.eye(2), np.ones(2), 1, 3), "toy", (1,), "accuracy", rows=30)
    split = dataset.split(0)
    table = getattr(split, part)
    holed = Table(table.x, table.y, np.arange(2) < np.ones((len(table.y), 2)), n_classes=3)
    with pytest.raises(InputError, match=f"complete rows, but toy's {word} rows have missing cells"):
        route_structure(dataset, split._replace(**{part: holed}), linear(2, 3), 0)
    tested = Table(split.test.x, split.test.y, np.arange(2) < np.ones((len(split.test.y), 2)), n_classes=3)
    route_structure(dataset, split._replace(test=tested), linear(2, 3), 0)  # the test part is not looked at
