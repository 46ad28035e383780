"""Route structure: scores and overlap of fixed sets of acquisitions (section 5.3, table 1).

A route is a maximal set of actions that the budget allows.
"""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.arrays import on_device
from ascertain._core.checks import check_budget
from ascertain._core.compilation import replicated
from ascertain._core.prices import PriceList
from ascertain.datasets._dataset import Dataset, Metric, Split
from ascertain.errors import InputError
from ascertain.evaluation._rollouts import MAX_ROWS
from ascertain.metrics import score_counts
from ascertain.predictors._masked_mlp import MaskedMLP, Predictor, Settings, fit_predictor
from ascertain.problem import Table
from ascertain.protocol import Protocol

N_ROUTES = 2000
_ATTEMPTS_PER_ROUTE = 20
_ROUTES_AT_ONCE = 16

# The reference's names for datasets that we call otherwise: its random streams depend on them.
_REFERENCE_KEYS = {"actg175": "actg", "cube_nuc": "cube_nonuniform_costs"}


class RouteStructure(NamedTuple):
    """One row of table 1, for one split."""

    v_static: float  # validation score of the route that is best on training data
    sensitivity: float  # that score minus the average route's
    overlap: float  # mean Jaccard overlap of routes, weighted by their gains on training data
    routes: int  # number of distinct routes that were scored
    best_route: tuple[int, ...]  # actions of the best one


def route_structure(
    dataset: Dataset, split: Split, predictor: Predictor, index: int, budget: float | None = None
) -> RouteStructure:
    """Sample routes of a dataset, score them, and measure how much it matters which one is taken.

    Parameters
    ----------
    dataset
        Its problem, budgets and metric are used; its name seeds the sampling, as in the reference.
    split
        Routes are chosen on its training rows and scored on its validation rows, which must be complete.
    predictor
        The predictor of the split.
    index
        The number of the split, which seeds the sampling.
    budget
        The budget; by default the dataset's largest.

    Examples
    --------
    `ascertain routes cube` prints it for a dataset, and `docs/data.md` says what it means. With a budget for
    one of 20 actions there are 20 routes:

    >>> import jax.numpy as jnp
    >>> from ascertain.datasets import cube
    >>> small = cube(100)
    >>> def guess(x, observed):
    ...     return jnp.broadcast_to(jnp.eye(8)[:1], (len(x), 8))
    >>> route_structure(small, small.split(0), guess, 0, budget=1).routes
    20
    """
    _refuse_holes(dataset, split)
    key = _REFERENCE_KEYS.get(dataset.name, dataset.name)
    rng = np.random.default_rng(index + zlib.crc32(key.encode()))
    train, valid = (_sample(rng, table) for table in split[:2])
    wanted = dataset.budgets[-1] if budget is None else budget
    # The stream runs through the budgets in order, so the largest one's routes depend on the others'.
    for each in sorted({*dataset.budgets, wanted}):
        routes = sample_routes(rng, dataset.problem.price_list, each)
        if each == wanted:
            break
    chosen = np.zeros((len(routes) + 1, dataset.problem.n_actions), bool)  # the last one is empty
    for row, route in enumerate(routes):
        chosen[row, list(route)] = True
    observed = dataset.problem.observed(on_device(chosen))
    on_train = score_masks(predictor, train, observed, dataset.metric)
    on_valid = score_masks(predictor, valid, observed[:-1], dataset.metric)
    best = int(np.argsort(on_train[:-1], kind="stable")[-1])
    gain = np.maximum(on_train[:-1] - on_train[-1], 0.0)
    return RouteStructure(
        v_static=float(on_valid[best]),
        sensitivity=float(on_valid[best] - on_valid.mean()),
        overlap=weighted_overlap(chosen[:-1], gain),
        routes=len(routes),
        best_route=routes[best],
    )


def route_table_row(
    dataset: Dataset,
    n_splits: int,
    protocol: Protocol,
    settings: Settings,
    budget: float | None = None,
    on_progress: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Compute a row of table 1 from a dataset's first splits: means and standard errors.

    The predictors of all splits are fitted together, with the given settings. What cannot be computed, such
    as a standard error from one split, is None. `on_progress` is called after the predictors and after each
    split.
    """
    if budget is not None:
        check_budget(budget, dataset.problem.price_list.first)
    splits = [dataset.split(index, protocol) for index in range(n_splits)]
    for split in splits:
        _refuse_holes(dataset, split)
    predictors = _fit_predictors(dataset, splits, settings)
    on_progress()
    found = []
    for index, (split, predictor) in enumerate(zip(splits, predictors, strict=True)):
        found.append(route_structure(dataset, split, predictor, index, budget))
        on_progress()
    row: dict[str, Any] = {"dataset": dataset.name, "budget": float(budget or dataset.budgets[-1])}
    for name in ("v_static", "sensitivity", "overlap"):
        values = np.array([getattr(each, name) for each in found])
        known = not np.isnan(values).any()  # an overlap is not, where no route gains anything
        row[name] = float(values.mean()) if known else None
        row[f"{name}_se"] = float(values.std(ddof=1) / n_splits**0.5) if known and n_splits > 1 else None
    return row | {"routes": max(each.routes for each in found), "splits": n_splits, "protocol": protocol.name}


def _fit_predictors(dataset: Dataset, splits: list[Split], settings: Settings) -> list[MaskedMLP]:
    """Fit one predictor per split, all at once; split i has key i."""
    problem = dataset.problem.without_names()

    def fit(key: PRNGKeyArray, train: Table, valid: Table) -> MaskedMLP:
        return fit_predictor(key, problem, train, valid, settings)

    keys = jnp.stack([jr.key(index) for index in range(len(splits))])
    train, valid = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *part) for part in list(zip(*splits, strict=True))[:2]
    )
    fitted = jax.jit(replicated(fit))(keys, train, valid)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], fitted) for i in range(len(splits))]


def _refuse_holes(dataset: Dataset, split: Split) -> None:
    for part, table in zip(("training", "validation"), split, strict=False):
        if not bool(jnp.all(table.available)):
            raise InputError(
                f"routes are scored on complete rows, but {dataset.name}'s {part} rows have missing cells"
            )


def sample_routes(
    rng: np.random.Generator, prices: PriceList, budget: float, wanted: int = N_ROUTES
) -> list[tuple[int, ...]]:
    """Draw distinct routes: actions in random order, each taken if it still fits.

    Stops after 20 attempts for each route that is wanted, since small problems have fewer.
    """
    n_actions = len(prices.first)
    attempts = range(max(100, _ATTEMPTS_PER_ROUTE * wanted))
    orders = (rng.permutation(n_actions).tolist() for _ in attempts)
    routes: set[tuple[int, ...]] = set()
    for route in prices.routes(orders, budget):
        routes.add(tuple(sorted(route)))
        if len(routes) == wanted:
            break
    return sorted(routes)


def weighted_overlap(
    chosen: Bool[np.ndarray, "routes actions"], weight: Float[np.ndarray, " routes"]
) -> float:
    """Compute the mean Jaccard overlap of all pairs of routes, weighted by the product of their weights."""
    sets = chosen.astype(float)
    shared = sets @ sets.T
    size = sets.sum(axis=1)
    union = size[:, None] + size[None] - shared
    pairs = np.triu(np.outer(weight, weight), k=1)
    total = pairs.sum()
    return float((pairs * shared / np.maximum(union, 1)).sum() / total) if total > 0 else float("nan")


def score_masks(
    predictor: Predictor, table: Table, observed: Bool[Array, "masks features"], metric: Metric
) -> Float[np.ndarray, " masks"]:
    """Score the predictions for all rows of a table under each of several fixed masks."""
    if isinstance(predictor, eqx.Module):
        counts = _confusions(predictor, table, observed)
    else:  # not written in JAX
        counts = jnp.stack([_confusion(predictor, table, mask) for mask in observed])
    return score_counts(np.asarray(counts, np.float64), metric)


@eqx.filter_jit
def _confusions(
    predictor: Predictor, table: Table, observed: Bool[Array, "masks features"]
) -> Float[Array, "masks classes classes"]:
    return jax.lax.map(partial(_confusion, predictor, table), observed, batch_size=_ROUTES_AT_ONCE)


def _confusion(
    predictor: Predictor, table: Table, mask: Bool[Array, " features"]
) -> Float[Array, "classes classes"]:
    """Count rows by class and prediction."""
    everywhere = jnp.broadcast_to(mask[None], table.x.shape)
    predicted = jnp.argmax(jnp.asarray(predictor(table.x, everywhere)), axis=1)
    true = jax.nn.one_hot(table.y, table.n_classes)
    return true.T @ jax.nn.one_hot(predicted, table.n_classes)


def _sample(rng: np.random.Generator, table: Table) -> Table:
    """Draw rows from the stream of the reference, if there are too many."""
    if table.x.shape[0] <= MAX_ROWS:
        return table
    return table.take(rng.choice(table.x.shape[0], MAX_ROWS, replace=False))
