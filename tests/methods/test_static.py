"""The best fixed route against all routes, tried one by one."""

from functools import partial
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from jaxtyping import Array

from ascertain import InputError, Problem, Table
from ascertain.acquisition import choose
from ascertain.methods import _static as static
from ascertain.methods._static import Settings, Static, maximal_routes
from ascertain.metrics import Metric
from ascertain.policy import Policy

from ..acquisition_cases import ACTIONS, Case, cases
from .by_hand import FAST

ALPHA = 1e-5  # of each statistical test; the keys are fixed
N_ROUTES = 200

draw_routes = jax.jit(maximal_routes, static_argnums=2, compiler_options=FAST)


# Routes.


@given(cases())
@settings(max_examples=60, deadline=None)
def test_routes_fit_the_budget_and_nothing_can_be_added(case: Case) -> None:
    routes = np.unique(np.asarray(draw_routes(jr.key(case.seed % 1000), case.problem, N_ROUTES)), axis=0)
    for route in routes:
        taken = set(np.flatnonzero(route).tolist())
        assert case.fits(taken)
        assert not any(case.fits(taken | {a}) for a in set(range(ACTIONS)) - taken)


def test_routes_are_random_orders_cut_to_the_budget() -> None:
    """Costs 2, 1, 1, 1 and a budget of 2: the first alone, if it comes first; else two of the others.

    If the second place is the dear one's, it is passed over.
    """
    problem = Problem(np.eye(4), [2, 1, 1, 1], budget=2, n_classes=2)
    routes = np.asarray(jax.jit(maximal_routes, static_argnums=2)(jr.key(0), problem, 12_000))
    labels, counts = np.unique(routes @ [1, 2, 4, 8], return_counts=True)
    assert labels.tolist() == [1, 6, 10, 12]
    assert scipy.stats.chisquare(counts).pvalue > ALPHA  # 1/4, and 3/4 shared by three


# The best one.


class Linear(eqx.Module):
    values: Array

    def __call__(self, x: Array, observed: Array) -> Array:
        return jax.nn.softmax(jnp.where(observed, x, 0.0) @ self.values)


@partial(jax.jit, static_argnames="settings", compiler_options=FAST)
def fitted(problem: Problem, table: Table, predictor: Linear, settings: Settings) -> Policy:
    return static.fit(jr.key(1), problem, table, table, predictor=predictor, settings=settings)


def naive_score(case: dict[str, np.ndarray], actions: set[int], metric: Metric) -> float:
    shown = case["reveals"][sorted(actions)].any(axis=0) if actions else np.zeros(case["x"].shape[1], bool)
    predicted = (np.where(shown & case["available"], case["x"], 0.0) @ case["values"]).argmax(axis=1)
    if metric == "accuracy":
        return float((predicted == case["y"]).mean())
    scores = []
    for label in np.unique(np.concatenate([predicted, case["y"]])):
        both = ((predicted == label) & (case["y"] == label)).sum()
        scores.append(2 * both / ((predicted == label).sum() + (case["y"] == label).sum()))
    return float(np.mean(scores))


def naive_order(case: dict[str, np.ndarray], costs: list[float], budget: float, metric: Metric) -> list[int]:
    """Find the best maximal route, and its actions in the order in which each helps most."""
    everything = set(range(len(costs)))

    def price(actions: set[int]) -> float:
        return sum(costs[a] for a in actions)

    routes = [
        set(route)
        for size in range(len(costs) + 1)
        for route in combinations(everything, size)
        if price(set(route)) <= budget and all(price({*route, a}) > budget for a in everything - set(route))
    ]
    totals = [naive_score(case, route, metric) for route in routes]
    assert sorted(totals)[-2] < max(totals), "a tie would say nothing"
    route, order = routes[int(np.argmax(totals))], list[int]()
    while len(order) < len(route):
        left = sorted(route - set(order))
        order.append(max(left, key=lambda a: naive_score(case, {*order, a}, metric)))
    return order


SINGLES = np.eye(5, dtype=bool)
GROUPS = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], bool)
COSTS = [1.0, 2.0, 1.0, 1.5, 1.0]


def made_up(reveals: np.ndarray, holes: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, values = rng.normal(size=(60, reveals.shape[1])), rng.normal(size=(reveals.shape[1], 3))
    y = (x @ values + rng.normal(size=(60, 3)) + [1.5, 0, 0]).argmax(axis=1)
    available = rng.random(x.shape) >= holes
    return {"reveals": reveals, "x": x, "y": y, "values": values, "available": available}


@pytest.mark.parametrize(
    ("reveals", "holes", "metric"),
    [(SINGLES, 0.0, "accuracy"), (SINGLES, 0.3, "macro_f1"), (GROUPS, 0.3, "accuracy")],
)
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_route_is_the_best_on_training_data_in_greedy_order(
    reveals: np.ndarray, holes: float, metric: Metric, seed: int
) -> None:
    case = made_up(reveals, holes, seed)
    order = naive_order(case, COSTS, 3.0, metric)
    problem = Problem(reveals, COSTS, budget=3.0, n_classes=3)
    table = Table(case["x"], case["y"], case["available"], n_classes=3)
    # 300 routes: each of about ten is missed with a probability below 1e-9.
    settings = Settings(routes=300, metric=metric)
    policy = fitted(problem, table, Linear(jnp.asarray(case["values"], jnp.float32)), settings)
    assert isinstance(policy, Static)
    others = [a for a in range(5) if a not in order]
    assert np.argsort(np.asarray(policy.rank)).tolist() == order + others, "the rest follows in its own order"


def test_it_acquires_in_its_order_whatever_it_sees() -> None:
    policy = Static(jnp.asarray([2.0, 0.0, 7.0, 1.0]))
    acquired = jnp.asarray([[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1]], bool)
    x = jnp.arange(16.0).reshape(4, 4)
    scores = policy(x, acquired, acquired, jnp.ones_like(acquired), key=jr.key(0))
    assert choose(scores, ~acquired).tolist() == [2, 4, 1, 3]
    assert np.all(scores[:, 0] == -np.inf)


@pytest.mark.parametrize(("max_rows", "expected"), [(3, 3), (60, 60), (4096, 60)])
def test_of_many_rows_some_are_looked_at(max_rows: int, expected: int) -> None:
    shapes: set[tuple[int, ...]] = set()

    def predictor(x: Array, observed: Array) -> Array:
        shapes.update((x.shape, observed.shape))
        return jnp.zeros((len(x), 3))

    case = made_up(SINGLES, 0.0, 0)
    problem = Problem(SINGLES, COSTS, budget=3.0, n_classes=3)
    table = Table(case["x"], case["y"], n_classes=3)
    jax.eval_shape(
        lambda key: static.fit(
            key, problem, table, table, predictor=predictor, settings=Settings(4, max_rows=max_rows)
        ),
        jr.key(0),
    )
    assert shapes == {(expected, 5)}


def test_the_defaults() -> None:
    assert Settings() == Settings(routes=2000, max_rows=4096, metric="accuracy")


def test_it_needs_the_predictor() -> None:
    table = Table([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match="predictor="):
        static.fit(jr.key(0), Problem([[1]], [1], 1, 2), table, table)


class Additive(eqx.Module):
    """The true probabilities of a rare class that four of many columns decide, given what is seen."""

    weights: Array

    def __call__(self, x: Array, observed: Array) -> Array:
        # To integrate out what is not seen flattens the log-odds a little; the order of routes is the same.
        one = jax.nn.sigmoid(jnp.where(observed, x, 0.0) @ self.weights - 4.0)
        return jnp.stack([1 - one, one], axis=1)


@pytest.mark.slow
def test_where_a_class_is_rare_the_likelihood_still_tells_routes_apart() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 30))
    weights = np.zeros(30)
    weights[[3, 11, 17, 28]] = [1.5, 1.3, 1.1, 0.9]
    chance = 1 / (1 + np.exp(4.0 - x @ weights))
    table = Table(x, (rng.random(6000) < chance).astype(int))  # about one in fifteen
    problem = Problem(np.eye(30), np.ones(30), budget=3, n_classes=2)
    chosen = Settings(routes=50, metric="likelihood")  # hardly any of 4,060 sets
    fit = partial(static.fit, predictor=Additive(jnp.asarray(weights, jnp.float32)), settings=chosen)
    policy = fit(jr.key(0), problem, table, table)
    assert np.argsort(policy.rank)[:3].tolist() == [3, 11, 17]  # the best one first
