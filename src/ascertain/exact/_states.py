"""The state space of a finite problem: states (x_S, S) of the paper's section 3.2, and acquisitions."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt64

from ascertain._core.checks import spending_limit
from ascertain.errors import TooLargeError

MAX_STATES = 200_000
MAX_SUCCESSORS = 20_000_000  # states times actions times values: some hundred megabytes

# Costs are whole multiples of this (relative to max(1, budget)), so that sums do not depend on their order.
_COST_RESOLUTION = 1e-9


class Lattice(NamedTuple):
    """States in layers; each extends a state of the layer before by one cell."""

    layers: tuple[slice, ...]  # the states with 0, 1, 2, ... acquired features
    parent: Int[np.ndarray, " states"]
    cell: Int[np.ndarray, " states"]  # the cell added to the parent


class Step(NamedTuple):
    """What one step of backward induction updates."""

    states: Int[np.ndarray, " updated"]
    edges: Int[np.ndarray, " updated_edges"]  # those of `states`, in order
    starts: Int[np.ndarray, " updated"]  # where each state's edges start among `edges`


@dataclass(frozen=True)
class StateSpace:
    """Every state within the budget, and every legal acquisition.

    A *cell* is a (feature, value) pair; cells are numbered feature by feature. A state is a set of cells.
    State 0 has acquired nothing. An *edge* is a legal acquisition (state, action); edges are ordered by
    state, then action.
    """

    n_values: tuple[int, ...]
    values: Int[np.ndarray, "states features"]  # -1 where not acquired
    lattice: Lattice
    edge_state: Int[np.ndarray, " edges"]
    edge_action: Int[np.ndarray, " edges"]
    children: Int[np.ndarray, "edges max_values"]  # the state after each value; the last one repeats
    remaining: Int[np.ndarray, " states"]  # the most acquisitions that can still follow

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def has_value(self) -> Bool[np.ndarray, "edges max_values"]:
        """Which entries of `children` are not repetitions."""
        n_values = np.array(self.n_values)[self.edge_action]
        return np.arange(self.children.shape[1]) < n_values[:, None]

    def edges(self, state: int) -> range:
        """List the edges of a state."""
        return range(self._first_edge[state], self._first_edge[state + 1])

    @cached_property
    def _first_edge(self) -> Int[np.ndarray, " starts"]:
        return np.searchsorted(self.edge_state, np.arange(len(self) + 1))

    @cached_property
    def corner(self) -> tuple[Int[np.ndarray, " kept"], Lattice]:
        """The states without any feature at its last value, as a lattice of their own.

        If every row has every feature, all other counts follow from theirs; see `completions`.
        """
        kept = self._n_last_values == 0
        number = np.cumsum(kept) - 1
        starts = [0, *(int(number[layer.stop - 1]) + 1 for layer in self.lattice.layers)]
        layers = tuple(slice(*ends) for ends in pairwise(starts) if ends[0] < ends[1])
        lattice = Lattice(layers, number[self.lattice.parent[kept]], self.lattice.cell[kept])
        return np.flatnonzero(kept), lattice

    @cached_property
    def completions(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The other states (in an order that counting can follow), their origins, and their siblings.

        A state extends its origin by a feature's last value; its siblings extend it by any value. The count
        of a state is that of the origin less those of the other siblings.
        """
        edge_to = np.zeros(len(self), np.int64)
        edge_to[self.children[:, -1]] = np.arange(len(self.children))
        rounds = [np.flatnonzero(self._n_last_values == n) for n in range(1, self._n_last_values.max() + 1)]
        edges = [edge_to[states] for states in rounds]
        return [(s, self.edge_state[e], self.children[e]) for s, e in zip(rounds, edges, strict=True)]

    @cached_property
    def _n_last_values(self) -> Int[np.ndarray, " states"]:
        return (self.values == np.array(self.n_values) - 1).sum(axis=1)

    def steps(self, horizon: int | None) -> list[Step]:
        """List the steps of backward induction, at most `horizon` (None: to the end of the budget).

        Step k needs the values of step k - 1. With a limited horizon it updates every state from which k
        acquisitions are possible; without one, each state is updated once, after all its successors.
        """
        return self._full_steps if horizon is None else self._limited_steps[:horizon]

    @cached_property
    def _full_steps(self) -> list[Step]:
        return [self._step(self.remaining == k) for k in range(1, self.remaining[0] + 1)]

    @cached_property
    def _limited_steps(self) -> list[Step]:
        return [self._step(self.remaining >= k) for k in range(1, self.remaining[0] + 1)]

    def _step(self, updated: Bool[np.ndarray, " states"]) -> Step:
        edges = np.flatnonzero(updated[self.edge_state])
        states, starts = np.unique(self.edge_state[edges], return_index=True)
        return Step(states, edges, starts)


class _Rules(NamedTuple):
    """The feature values, costs and budget that determine the states."""

    n_values: tuple[int, ...]
    ticks: Int[np.ndarray, " features"]  # costs as whole numbers
    limit: int  # the budget in the same unit
    first_cell: Int[np.ndarray, " features"]
    words: UInt64[np.ndarray, " cells"]  # one random word per cell


class _Layer(NamedTuple):
    """States with the same number of acquired features."""

    values: Int[np.ndarray, "states features"]
    spent: Int[np.ndarray, " states"]
    last: Int[np.ndarray, " states"]  # the highest acquired feature
    parent: Int[np.ndarray, " states"]
    cell: Int[np.ndarray, " states"]
    key: UInt64[np.ndarray, " states"]  # the sum of the cells' words, which does not depend on their order


def enumerate_states(n_values: tuple[int, ...], costs: tuple[float, ...], budget: float) -> StateSpace:
    """Build the state space; raise a `TooLargeError` if it is too large to solve exactly."""
    rules = _rules(n_values, costs, budget)
    check_size(n_values, costs, budget)
    zero = np.zeros(1, np.int64)
    nothing = np.full((1, len(n_values)), -1, np.int32)
    layer = _Layer(nothing, spent=zero, last=zero - 1, parent=zero, cell=zero, key=zero.astype(np.uint64))
    layers, slices = [layer], [slice(0, 1)]
    while len((layer := _extend(layer, slices[-1].start, rules)).key):
        layers.append(layer)
        slices.append(slice(slices[-1].stop, slices[-1].stop + len(layer.key)))
    states = _Layer(*map(np.concatenate, zip(*layers, strict=True)))
    edge_state, edge_action, children = _edges(states, rules)
    remaining = np.zeros(len(states.key), np.int64)
    for part in reversed(slices):
        first, last = np.searchsorted(edge_state, [part.start, part.stop])
        np.maximum.at(remaining, edge_state[first:last], 1 + remaining[children[first:last, 0]])
    return StateSpace(
        n_values=n_values,
        values=states.values,
        lattice=Lattice(tuple(slices), states.parent, states.cell),
        edge_state=edge_state,
        edge_action=edge_action,
        children=children,
        remaining=remaining,
    )


def _rules(n_values: tuple[int, ...], costs: tuple[float, ...], budget: float) -> _Rules:
    unit = _COST_RESOLUTION * max(1.0, budget)
    limit = int(spending_limit(budget) / unit)
    # Unaffordable costs are clipped, so that any finite cost fits an integer.
    ticks = np.minimum(np.rint(np.array(costs) / unit), limit + 1).astype(np.int64)
    words = np.random.default_rng(0).integers(0, 2**64, sum(n_values), dtype=np.uint64)
    return _Rules(n_values, ticks, limit, np.cumsum((0, *n_values[:-1])), words)


def check_size(n_values: tuple[int, ...], costs: tuple[float, ...], budget: float) -> None:
    """Raise a `TooLargeError` if there are too many states, which are counted without listing them."""
    rules = _rules(n_values, costs, budget)
    by_cost = {0: 1}
    for k, cost in zip(n_values, rules.ticks.tolist(), strict=True):
        for spent, count in list(by_cost.items()):
            if spent + cost <= rules.limit:
                by_cost[spent + cost] = by_cost.get(spent + cost, 0) + count * k
        if len(by_cost) > MAX_STATES:
            break
    n_states = sum(by_cost.values())
    if n_states > MAX_STATES or n_states * len(n_values) * max(n_values) > MAX_SUCCESSORS:
        at_least = "at least " if len(by_cost) > MAX_STATES else ""
        raise TooLargeError(
            f"this problem has {at_least}{n_states:,} states within its budget; the exact solver takes at "
            f"most {MAX_STATES:,}, or {MAX_SUCCESSORS:,} times the features and the most values. Use a "
            f"smaller budget, fewer features, or fewer values (the most is {max(n_values):,})"
        )


def _extend(layer: _Layer, start: int, rules: _Rules) -> _Layer:
    """Extend each state by one feature above its last, so that every state is listed once."""
    parts = []
    for feature, n_values in enumerate(rules.n_values):
        spent = layer.spent + rules.ticks[feature]
        extended = np.flatnonzero((layer.last < feature) & (spent <= rules.limit))
        value, parent = (part.ravel() for part in np.meshgrid(np.arange(n_values), extended, indexing="ij"))
        values, cell = layer.values[parent], rules.first_cell[feature] + value
        values[:, feature] = value
        last, key = np.full(len(parent), feature), layer.key[parent] + rules.words[cell]
        parts.append(_Layer(values, spent[parent], last, start + parent, cell, key))
    return _Layer(*map(np.concatenate, zip(*parts, strict=True)))


def _edges(states: _Layer, rules: _Rules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the legal acquisitions, A_b(S) of the paper's section 3.2, and the states they lead to."""
    by_key = np.argsort(states.key)
    if (np.diff(states.key[by_key]) == 0).any():
        raise AssertionError("two states have the same key")
    owners, actions, children = [], [], []
    for feature, n_values in enumerate(rules.n_values):
        legal = (states.values[:, feature] < 0) & (states.spent + rules.ticks[feature] <= rules.limit)
        owner = np.flatnonzero(legal)
        words = rules.words[rules.first_cell[feature] :][:n_values]
        found = by_key[np.searchsorted(states.key, states.key[owner, None] + words, sorter=by_key)]
        owners.append(owner)
        actions.append(np.full(len(owner), feature))
        children.append(np.pad(found, ((0, 0), (0, max(rules.n_values) - n_values)), "edge"))
    owner, action = np.concatenate(owners), np.concatenate(actions)
    order = np.lexsort((action, owner))
    return owner[order], action[order], np.concatenate(children)[order]
