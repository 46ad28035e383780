"""Weights of rows, as scikit-learn's `sample_weight`: a row of weight 2 counts like two rows.

Every part of a model learns from tables in which rows are repeated in proportion to their weights, so that no
part has to know of them. Rows of weight 0 are left out.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.class_weight import compute_class_weight

from ascertain.errors import InputError


def weigh_classes(
    class_weight: Any,
    classes: np.ndarray,
    labels: Int[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"] | None,
) -> Float[np.ndarray, " classes"]:
    """Compute scikit-learn's class weights, where rows may have weights themselves."""
    if isinstance(class_weight, str) and class_weight == "balanced" and weights is not None:
        totals = np.bincount(labels, weights, minlength=len(classes))
        return totals.sum() / (len(classes) * totals)
    found: np.ndarray = compute_class_weight(class_weight, classes=classes, y=classes[labels])
    for name, weight in zip(classes, found, strict=True):
        if not 0 <= weight < np.inf:
            raise InputError(
                f"the class_weight of {str(name)!r} is {weight:g}; weights are finite and not negative"
            )
    if not found.any():
        raise InputError("class_weight is 0 for all classes; at least one must count")
    return found


def repeat_in_proportion(
    rng: np.random.RandomState,
    rows: Int[np.ndarray, " some"],
    weights: Float[np.ndarray, " some"],
    y: Int[np.ndarray, " some"],
    size: int,
) -> Int[np.ndarray, " size"]:
    """Draw rows so that each occurs in proportion to its weight, rounded up or down (systematic sampling).

    A class `y` whose rows would all be rounded down to nothing keeps one of them.
    """
    order = rng.permutation(len(rows))
    up_to = np.cumsum(weights[order])
    points = (np.arange(size) + rng.uniform()) / size * up_to[-1]
    places = np.minimum(np.searchsorted(up_to, points, side="right"), len(rows) - 1)
    drawn = rng.permutation(order[places])
    lost = np.setdiff1d(y, y[drawn])
    drawn[: len(lost)] = [np.flatnonzero(y == label)[0] for label in lost]
    found: np.ndarray = rows[drawn]
    return found
