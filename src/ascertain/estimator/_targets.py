"""Targets as scikit-learn's users pass them."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ascertain.errors import InputError


def class_numbers(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct classes, and each row's as a number."""
    labels = column_or_1d(y, warn=True)
    if len(labels) != n_rows:
        raise InputError(f"X has {n_rows} rows, but y has {len(labels)}")
    holes = np.flatnonzero(pd.isna(labels))
    if len(holes):
        raise InputError(f"y is NaN in row {holes[0]}; leave out the rows without a class")
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise InputError(_regression_target(labels, str(error))) from error
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def _regression_target(labels: np.ndarray, error: str) -> str:
    """What is said of a target that has no classes."""
    if labels.dtype.kind != "f":
        return error
    amounts = np.unique(labels)
    return (
        f"Unknown label type: continuous. y is a regression target, with {len(amounts)} different numbers "
        f"from {amounts[0]:g} to {amounts[-1]:g}, but classes are needed: cut it into ranges, as with "
        f"pandas.cut(y, 3, labels=['low', 'middle', 'high']) or y > {np.median(amounts):g}"
    )
