"""Percentile bootstrap intervals, as the paper's figures have them."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

DRAWS = 2000
LEVELS = (2.5, 97.5)


@lru_cache(maxsize=64)
def resamples(n: int) -> Int[np.ndarray, "draws {n}"]:
    """Draw which of `n` to take in each resample; the same ones every time, so that cells are comparable."""
    drawn = np.random.default_rng(0).integers(0, n, (DRAWS, n))
    drawn.setflags(write=False)
    return drawn


def mean_intervals(values: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, "2 rows"]:
    """Give the interval of each row's mean; NaN where there is one value, which says nothing about spread."""
    rows, n = values.shape
    if n < 2:
        return np.full((2, rows), np.nan)
    weights = (resamples(n)[:, :, None] == np.arange(n)).mean(axis=1)  # of each value in each resample
    return np.percentile(values @ weights.T, LEVELS, axis=1)


def standard_errors(values: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, " rows"]:
    """Give the standard error of each row's mean; NaN where there is one value."""
    rows, n = values.shape
    if n < 2:
        return np.full(rows, np.nan)
    errors: np.ndarray = values.std(axis=1, ddof=1) / np.sqrt(n)
    return errors


def standard_error(values: ArrayLike) -> float:
    """Give the standard error of one mean."""
    return float(standard_errors(np.asarray(values, np.float64)[None])[0])
