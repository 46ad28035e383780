"""Padding rows to round numbers, so that tables of similar sizes share one compiled program."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Block(NamedTuple):
    """Some rows of a table; the first `size` places are theirs, the others pad the block."""

    places: Int[np.ndarray, " padded"]
    size: int


def round_up(n: int, *, digits: int = 1) -> int:
    """Round up to a number with at most `digits` significant binary digits (1: a power of two).

    Examples
    --------
    >>> round_up(33), round_up(33, digits=3), round_up(32)
    (64, 40, 32)
    """
    step = 1 << max(0, (n - 1).bit_length() - digits)
    return -(-n // step) * step


def padded_rows(n_rows: int, size: int) -> Int[np.ndarray, " size"]:
    """Number the rows of a table from 0, beginning again after the last one, up to `size`.

    Take these rows of a table to pad it; drop what was computed for those beyond `n_rows`.
    """
    return np.resize(np.arange(n_rows), size)


def row_blocks(n_rows: int, at_once: int) -> list[Block]:
    """Split rows into blocks of `at_once`; a table of fewer rows is one block, padded to a power of two.

    Examples
    --------
    >>> [(block.places.tolist(), block.size) for block in row_blocks(5, 4)]
    [([0, 1, 2, 3], 4), ([4, 4, 4, 4], 1)]
    """
    length = min(at_once, round_up(n_rows)) if n_rows < at_once else at_once
    starts = range(0, n_rows, length)
    return [
        Block(
            start + np.where(np.arange(length) < n_rows - start, np.arange(length), 0),
            min(length, n_rows - start),
        )
        for start in starts
    ]
