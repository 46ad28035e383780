"""Rows that belong together, such as the visits of one patient: they are held out and resampled as one."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int
from numpy.typing import ArrayLike

from ascertain.errors import InputError


def instance_numbers(what: str, labels: Any, n_rows: int) -> Int[np.ndarray, " rows"]:
    """Number the different labels of rows from 0; each row needs one."""
    column = pd.Series(np.asarray(labels, object).ravel() if not isinstance(labels, pd.Series) else labels)
    if len(column) != n_rows:
        raise InputError(f"{what} has {len(column)} entries for {n_rows} rows")
    numbers, _ = pd.factorize(column)
    for row in np.flatnonzero(numbers < 0)[:1]:
        raise InputError(f"{what} is empty in row {column.index[row]}; fill it in, or leave the row out")
    return numbers.astype(np.int64)


def clusters_of(ids: ArrayLike) -> Int[np.ndarray, " rows"] | None:
    """Number the instances that rows show from 0; None where each row is an instance of its own."""
    found, numbers = np.unique(np.asarray(ids), return_inverse=True)
    return None if len(found) == len(numbers) else numbers.astype(np.int64)


def draw_instances(
    y: Int[np.ndarray, " rows"],
    instances: Int[np.ndarray, " rows"],
    fraction: float,
    rng: np.random.RandomState,
) -> Bool[np.ndarray, " rows"]:
    """Draw whole instances with about a fraction of the rows of each class; of no class are all drawn.

    Instances come in random order. One is taken if that brings the shares of the classes nearer to the
    fraction, and if each of its classes still has rows in others.
    """
    n_classes, n_instances = int(y.max()) + 1, int(instances.max()) + 1
    counts = np.zeros((n_instances, n_classes), int)
    np.add.at(counts, (instances, y), 1)
    totals = counts.sum(axis=0)
    goal, drawn, taken = fraction * totals, np.zeros(n_classes), np.zeros(n_instances, bool)
    weight = 1 / np.maximum(totals, 1)
    for instance in rng.permutation(n_instances):
        after = drawn + counts[instance]
        nearer = (weight * ((after - goal) ** 2 - (drawn - goal) ** 2)).sum() < 0
        if nearer and (after < totals)[counts[instance] > 0].all():
            drawn, taken[instance] = after, True
    found: np.ndarray = taken[instances]
    return found
