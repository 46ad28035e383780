"""Training rows as bit sets, 64 rows to a word, counted by AND and population count.

Unlike a histogram of partly observed rows, this needs no tables of 3^d or 4^d entries. Rows are grouped by
label, so that one pass counts every state under every label.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from jaxtyping import Bool, Int, UInt64

from ascertain.exact._states import Lattice, StateSpace

_BLOCK_WORDS = 2**18  # processed at once, for every layer of states, to stay in a core's cache


@dataclass(frozen=True)
class BitRows:
    """Rows of discrete features, some of them unavailable.

    Bit i of `cells[c]` says that row i has cell c: its feature is available and has its value.
    """

    n_values: tuple[int, ...]
    cells: UInt64[np.ndarray, "cells words"]
    rows: UInt64[np.ndarray, " words"]  # which bits stand for a row
    labels: tuple[slice, ...]  # the words of each label's rows

    @cached_property
    def available(self) -> UInt64[np.ndarray, "features words"]:
        """Which rows have each feature."""
        return np.bitwise_or.reduceat(self.cells, np.cumsum((0, *self.n_values[:-1])), axis=0)

    @property
    def has_holes(self) -> bool:
        """Whether some row lacks some feature."""
        return bool((self.available != self.rows[None]).any())

    def masked(self, available: UInt64[np.ndarray, "features words"]) -> "BitRows":
        """Make features unavailable, all but the given ones."""
        return BitRows(
            self.n_values, self.cells & np.repeat(available, self.n_values, axis=0), self.rows, self.labels
        )

    def complete(self) -> "BitRows":
        """Select the rows that have every feature."""
        rows = np.bitwise_and.reduce(self.available, axis=0)
        kept = rows != 0
        ends = np.concatenate([[0], np.cumsum(kept)])
        labels = tuple(slice(int(ends[part.start]), int(ends[part.stop])) for part in self.labels)
        return BitRows(self.n_values, self.cells[:, kept] & rows[kept], rows[kept], labels)


def pack(
    x: Int[np.ndarray, "instances features"],
    y: Int[np.ndarray, " instances"],
    available: Bool[np.ndarray, "instances features"],
    n_values: tuple[int, ...],
    n_labels: int,
) -> BitRows:
    """Pack arrays into bit sets."""
    known = np.where(available, x, -1)
    by_label = [known[y == label] for label in range(n_labels)]
    cells = [
        _words([part[:, feature] == v for feature, k in enumerate(n_values) for v in range(k)])
        for part in by_label
    ]
    return BitRows(n_values, np.concatenate(cells, axis=1), *row_words(*map(len, by_label)))


def row_words(*rows_per_label: int) -> tuple[UInt64[np.ndarray, " words"], tuple[slice, ...]]:
    """Lay out words for the rows of each label: which bits are rows, and which words belong to the label."""
    words = [_words([np.ones(n, bool)])[0] for n in rows_per_label]
    ends = accumulate(map(len, words), initial=0)
    return np.concatenate(words), tuple(slice(*part) for part in pairwise(ends))


def _words(columns: list[np.ndarray]) -> UInt64[np.ndarray, "columns words"]:
    words = np.zeros((len(columns), -(-len(columns[0]) // 64)), np.uint64)
    octets = np.packbits(np.stack(columns), axis=1, bitorder="little")
    words.view(np.uint8)[:, : octets.shape[1]] = octets
    return words


def count_states(rows: BitRows, space: StateSpace) -> Int[np.ndarray, "states labels"]:
    """Count the rows that match every state by label: N(s)."""
    if rows.has_holes:
        return _count(rows, space.lattice)
    counts = np.zeros((len(space), len(rows.labels)), np.int64)
    states, lattice = space.corner
    counts[states] = _count(rows, lattice)
    for states, origins, siblings in space.completions:
        # The states themselves are among the siblings, with a count that is still 0.
        counts[states] = counts[origins] - counts[siblings].sum(axis=1)
    return counts


def _count(rows: BitRows, lattice: Lattice) -> Int[np.ndarray, "states labels"]:
    counts = np.zeros((len(lattice.parent), len(rows.labels)), np.int64)
    for label, part in enumerate(rows.labels):
        for block in _word_blocks(part, lattice.layers):
            for layer, matched in _matches(rows, lattice, block, len(lattice.layers)):
                counts[layer, label] += _popcount(matched)
    return counts


def count_first_available(
    rows: BitRows,
    space: StateSpace,
    states: Int[np.ndarray, " chosen"],
    order: Int[np.ndarray, "chosen ranks"],
) -> Int[np.ndarray, "chosen ranks"]:
    """Count the rows that match each chosen state by the first action of its order available to them.

    A state's order ends at the first -1; rows with none of its actions are not counted.
    """
    counts = np.zeros(order.shape, np.int64)
    lengths = (order >= 0).sum(axis=1)
    longest_first = np.argsort(-lengths, kind="stable")
    ranked, lengths = order[longest_first], lengths[longest_first]
    ranked, states = ranked[lengths > 0], states[longest_first][lengths > 0]
    if len(states) == 0:
        return counts
    layers = space.lattice.layers
    depth = 1 + next(d for d, layer in enumerate(layers) if states.max() < layer.stop)
    tally = np.zeros(ranked.shape, np.int64)
    for block in _word_blocks(slice(0, len(rows.rows)), layers[:depth]):
        left = np.empty((len(states), block.stop - block.start), np.uint64)
        for layer, matched in _matches(rows, space.lattice, block, depth):
            mine = np.flatnonzero((layer.start <= states) & (states < layer.stop))
            left[mine] = matched[states[mine] - layer.start]
        available = rows.available[:, block]
        for rank in range(lengths[0]):
            active = np.searchsorted(-lengths, -rank)  # states whose order is longer than `rank`
            first = available[ranked[:active, rank]]
            first &= left[:active]
            tally[:active, rank] += _popcount(first)
            left[:active] ^= first
    counts[longest_first[: len(states)]] = tally
    return counts


def _word_blocks(words: slice, layers: tuple[slice, ...]) -> Iterator[slice]:
    width = max(1, _BLOCK_WORDS // max(layer.stop - layer.start for layer in layers))
    for start in range(words.start, words.stop, width):
        yield slice(start, min(start + width, words.stop))


def _matches(
    rows: BitRows, lattice: Lattice, block: slice, depth: int
) -> Iterator[tuple[slice, UInt64[np.ndarray, "layer words"]]]:
    """Find the rows of a block that match each state, layer by layer."""
    layers, parent, cell = lattice
    cells = rows.cells[:, block]
    matched = rows.rows[None, block]
    yield layers[0], matched
    for previous, layer in pairwise(layers[:depth]):
        matched = matched[parent[layer] - previous.start]
        matched &= cells[cell[layer]]
        yield layer, matched


def _popcount(words: UInt64[np.ndarray, "sets words"]) -> Int[np.ndarray, " sets"]:
    return np.add.reduce(np.bitwise_count(words), axis=1, dtype=np.uint32).astype(np.int64)
