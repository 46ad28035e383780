"""Tiny acquisition problems as plain numbers, with a slow second reading of what is legal in them."""

from collections.abc import Iterable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jaxtyping import Array, Bool

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table

ROWS, FEATURES, ACTIONS = 5, 4, 4  # one shape, so that each program is compiled once
PROTOCOLS = [PAPER, AFABENCH]
FAST = {"xla_backend_optimization_level": 0}  # compiles faster


@dataclass(frozen=True)
class Case:
    """A problem and a table as plain numbers. Costs are sums of quarters, which floats hold exactly."""

    reveals: np.ndarray
    costs: list[float]
    budget: float
    available: np.ndarray  # cells
    seed: int  # of whatever else is arbitrary

    @property
    def problem(self) -> Problem:
        return Problem(self.reveals, self.costs, self.budget, n_classes=2)

    @property
    def table(self) -> Table:
        rng = np.random.default_rng(self.seed)
        x = rng.normal(size=self.available.shape)
        return Table(x, rng.integers(0, 2, len(x)), self.available, n_classes=2)

    def readable(self, row: int) -> set[int]:
        """The actions all of whose features a row has."""
        have = set(np.flatnonzero(self.available[row]))
        return {a for a in range(len(self.costs)) if set(np.flatnonzero(self.reveals[a])) <= have}

    def observed(self, acquired: Iterable[int]) -> set[int]:
        """The features that some actions reveal, and those that no action does: they are known."""
        revealed = {int(feature) for a in acquired for feature in np.flatnonzero(self.reveals[a])}
        return revealed | set(np.flatnonzero(self.reveals.sum(axis=0) == 0).tolist())

    def fits(self, acquired: Iterable[int]) -> bool:
        """Whether the budget pays for some actions."""
        return sum(self.costs[a] for a in acquired) <= self.budget + 1e-6 * max(1, self.budget)

    def legal(self, row: int, acquired: set[int], protocol: Protocol, hard: bool = True) -> set[int]:
        """The actions that may be taken."""
        left = self.readable(row) - acquired
        if not hard or protocol is AFABENCH:
            return left
        return {a for a in left if self.fits(acquired | {a})}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw groups (also overlapping ones), unequal and zero costs, any budget, and holes."""
    cost = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.75, 3.0])
    costs = draw(st.lists(cost, min_size=ACTIONS, max_size=ACTIONS))
    budget = draw(st.sampled_from([0.0, 0.25, 0.75, 1.0, 2.0, 3.5, 10.0]).filter(lambda b: b >= min(costs)))
    group = st.sets(st.integers(0, FEATURES - 1), min_size=1, max_size=2)
    reveals = np.zeros((ACTIONS, FEATURES), bool)
    for action in range(ACTIONS):
        reveals[action, list(draw(group))] = True
    seed = draw(st.integers(0, 2**32 - 1))
    holes = draw(st.sampled_from([0.0, 0.3, 0.6]))
    available = np.random.default_rng([seed, 1]).random((ROWS, FEATURES)) >= holes
    return Case(reveals, costs, budget, available, seed)


def simple(costs: list[float], budget: float, available: list[list[int]] | None = None) -> Case:
    """One feature to an action, complete rows unless said otherwise."""
    n = len(costs)
    cells = np.ones((1, n), bool) if available is None else np.array(available, bool)
    return Case(np.eye(n, dtype=bool), costs, budget, cells, seed=0)


def codes(acquired: Bool[Array, "*batch actions"]) -> Array:
    """Number the sets of actions (or features)."""
    powers = jnp.expand_dims(2 ** jnp.arange(acquired.shape[-1]), range(acquired.ndim - 1))
    return jnp.sum(acquired * powers, axis=-1)


def code(members: Iterable[int]) -> int:
    return sum(2**member for member in members)


def mask(members: Iterable[int], n: int) -> list[bool]:
    return [i in set(members) for i in range(n)]
