"""Padding rows to round numbers, so that tables of similar sizes share one compiled program."""

import numpy as np
from jaxtyping import Int


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
