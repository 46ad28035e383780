"""Drawing some rows of a table without losing its rare classes."""

import numpy as np
from jaxtyping import Int


def stratified_rows(
    y: Int[np.ndarray, " rows"], most: int, rng: np.random.Generator
) -> Int[np.ndarray, " drawn"]:
    """Draw rows without replacement: the same number of each class, or all of a class that has fewer.

    Examples
    --------
    >>> y = np.array([0] * 90 + [1] * 3 + [2] * 7)
    >>> np.bincount(y[stratified_rows(y, 20, np.random.default_rng(0))])
    array([10,  3,  7])
    """
    labels, sizes = np.unique(y, return_counts=True)
    drawn: list[np.ndarray] = []
    left = most
    for place, label in enumerate(labels[np.argsort(sizes, kind="stable")]):
        rows = np.flatnonzero(y == label)
        size = min(len(rows), left // (len(labels) - place))
        drawn.append(rng.permutation(rows)[:size])
        left -= size
    return np.sort(np.concatenate(drawn))
