"""Percentile bootstrap intervals and standard errors of means."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

DRAWS = 2000
LEVELS = (2.5, 97.5)


@lru_cache(maxsize=64)
def resamples(n: int) -> Int[np.ndarray, "draws {n}"]:
    """Indices of each bootstrap resample of `n` values; always the same, so that cells are comparable."""
    drawn = np.random.default_rng(0).integers(0, n, (DRAWS, n))
    drawn.setflags(write=False)
    return drawn


@lru_cache(maxsize=64)
def weights(n: int) -> Float[np.ndarray, "draws {n}"]:
    """Share of each of `n` values in each bootstrap resample."""
    shares: np.ndarray = (resamples(n)[:, :, None] == np.arange(n)).mean(axis=1)
    shares.setflags(write=False)
    return shares


def mean_intervals(values: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, "2 rows"]:
    """95% interval of each row's mean; NaN where there is a single value."""
    rows, n = values.shape
    if n < 2:
        return np.full((2, rows), np.nan)
    return np.percentile(values @ weights(n).T, LEVELS, axis=1)


def standard_errors(values: Float[np.ndarray, "rows n"]) -> Float[np.ndarray, " rows"]:
    """Standard error of each row's mean; NaN where there is a single value."""
    rows, n = values.shape
    if n < 2:
        return np.full(rows, np.nan)
    errors: np.ndarray = values.std(axis=1, ddof=1) / np.sqrt(n)
    return errors


def standard_error(values: ArrayLike) -> float:
    """Standard error of one mean."""
    return float(standard_errors(np.asarray(values, np.float64)[None])[0])
