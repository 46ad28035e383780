"""Small problems to try methods on: a plain one, a grouped one, one with holes, and others."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.networks import MLP
from ascertain.predictors._masked_mlp import MaskedMLP, Settings
from ascertain.problem import Problem, Table

# Unlikely numbers of rows: an array with such an axis has an entry for each row.
TRAIN_ROWS, VALID_ROWS = 31, 23
FEATURES = 6
_CLASSES = 3
_GARBAGE = 1000.0  # far beyond the values, which are standard normal
_PROBES = 24
PREDICTOR = Settings(hidden=(8,))


class TrialCase(NamedTuple):
    """The arguments of a fit."""

    key: PRNGKeyArray
    problem: Problem
    train: Table
    valid: Table
    predictor: MaskedMLP


class Probe(NamedTuple):
    """States to score."""

    x: Float[Array, "instances features"]
    observed: Bool[Array, "instances features"]
    acquired: Bool[Array, "instances actions"]
    available: Bool[Array, "instances actions"]


def plain(n_actions: int) -> TrialCase:
    """One feature to an action, equal costs, complete rows."""
    return _case(0, np.eye(n_actions, FEATURES), np.ones(n_actions), 2.0)


def grouped(n_actions: int) -> TrialCase:
    """Groups of features, some of which overlap; unequal costs, one of them zero."""
    reveals = np.eye(n_actions, FEATURES)
    reveals[0, :2] = 1
    reveals[-1, -3:] = 1
    costs = np.resize([1.5, 0.0, 1.0, 0.75, 2.0, 0.5], n_actions)
    return _case(1, reveals, costs, 2.25)


def incomplete(n_actions: int) -> TrialCase:
    """Rows with holes; the first supports no action, the second only one beyond the budget."""
    costs = np.resize([4.0, 1.0, 2.0, 1.0, 1.0, 1.0], n_actions)
    return _case(2, np.eye(n_actions, FEATURES), costs, 3.0, holes=0.5, barren_rows=True)


def sharing(case: TrialCase, setup_cost: float) -> TrialCase:
    """The same case, except that the second to the fourth action share a set-up."""
    problem = case.problem
    needs = np.isin(np.arange(problem.n_actions), (1, 2, 3))[:, None]
    shared = Problem(
        problem.reveals, problem.costs, problem.budget, _CLASSES, setup_costs=[setup_cost], needs=needs
    )
    return case._replace(problem=shared)


def at_prices(case: TrialCase, costs: np.ndarray, setup_cost: float, budget: float) -> TrialCase:
    """The same case at other prices, of which there may be more than actions."""
    problem, setup_costs = case.problem, None if case.problem.needs is None else [setup_cost]
    changed = Problem(
        problem.reveals,
        costs[: problem.n_actions],
        budget,
        _CLASSES,
        setup_costs=setup_costs,
        needs=problem.needs,
    )
    return case._replace(problem=changed)


def other(n_actions: int, seed: int) -> TrialCase:
    """A random problem of the same shape."""
    rng = np.random.default_rng(seed)
    reveals = np.eye(n_actions, FEATURES) + (rng.random((n_actions, FEATURES)) < 0.2) > 0
    return _case(seed, reveals, rng.uniform(0.5, 1.5, n_actions), 1.0 + seed, scale=3.0, holes=0.2)


def _case(
    seed: int,
    reveals: np.ndarray,
    costs: np.ndarray,
    budget: float,
    *,
    scale: float = 1.0,
    holes: float = 0.0,
    barren_rows: bool = False,
) -> TrialCase:
    rng = np.random.default_rng([seed, 1])

    def table(n_rows: int) -> Table:
        x = scale * rng.normal(size=(n_rows, FEATURES))
        y = (x[:, :2] + 0.5 * rng.normal(size=(n_rows, 2)) > 0).sum(axis=1)
        available = rng.random(x.shape) >= holes
        if barren_rows:
            available[:2] = np.arange(FEATURES)[None] < [[0], [1]]
        return Table(x, y, available, n_classes=_CLASSES)

    problem = Problem(reveals, costs, budget, _CLASSES)
    network = MLP((2 * FEATURES, *PREDICTOR.hidden, _CLASSES), key=jr.key(100 + seed))
    return TrialCase(jr.key(seed), problem, table(TRAIN_ROWS), table(VALID_ROWS), MaskedMLP(network))


def probe(case: TrialCase, seed: int) -> Probe:
    """Random states, from nothing to everything acquired; all actions are available."""
    rng = np.random.default_rng([seed, 2])
    n_actions = case.problem.n_actions
    acquired = jnp.asarray(rng.random((_PROBES, n_actions)) < np.linspace(0, 1, _PROBES)[:, None])
    x = jnp.asarray(rng.normal(size=(_PROBES, FEATURES)), jnp.float32)
    return Probe(x, case.problem.observed(acquired), acquired, jnp.ones_like(acquired))


def with_other_availability(situations: Probe) -> Probe:
    """The same states with fewer available actions, but still with all acquired ones."""
    rng = np.random.default_rng(3)
    fewer = jnp.asarray(rng.random(situations.available.shape) < 0.5) | situations.acquired
    return situations._replace(available=fewer)


def with_other_hidden_values(situations: Probe) -> Probe:
    """The same states with other values wherever these are not observed."""
    return situations._replace(x=jnp.where(situations.observed, situations.x, _garbage(situations.x)))


def with_other_unmeasured_values(case: TrialCase) -> TrialCase:
    """The same case with values in the holes of its tables, which `Table` itself would not allow."""

    def filled(table: Table) -> Table:
        changed: Table = eqx.tree_at(
            lambda t: t.x, table, jnp.where(table.available, table.x, _garbage(table.x))
        )
        return changed

    return case._replace(train=filled(case.train), valid=filled(case.valid))


def _garbage(like: Array) -> Array:
    return jnp.asarray(_GARBAGE * np.random.default_rng(4).normal(size=like.shape), jnp.float32)
