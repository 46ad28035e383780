"""Training data for a finite problem: discrete values, labels, and which values are available."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import ArrayLike

from ascertain._core.checks import check_labels, check_mask, check_numbers, check_whole_numbers
from ascertain.errors import InputError


@dataclass(frozen=True, init=False, eq=False)
class Observations:
    """Training instances with holes.

    Parameters
    ----------
    x
        One row per instance, one column per feature: the number of the value, from 0. NaN or a negative
        number means that the value is unknown.
    y
        The number of the label, from 0.
    available
        Which values may be used in training; by default every known one. An unavailable value may still
        be known, as in a simulation: the approach "complete" looks at it.
    """

    x: Int[np.ndarray, "instances features"]  # -1 where unknown
    y: Int[np.ndarray, " instances"]
    available: Bool[np.ndarray, "instances features"]

    def __init__(self, x: ArrayLike, y: ArrayLike, available: ArrayLike | None = None):
        numbers = check_numbers("x", x, ndim=2)
        values = check_whole_numbers("x", np.where(np.isnan(numbers), -1, numbers), ndim=2)
        values = np.maximum(values, -1)
        known = values >= 0
        usable = known if available is None else check_mask("available", available, ndim=2)
        if usable.shape != values.shape:
            raise InputError(f"available has shape {usable.shape}, but x has shape {values.shape}")
        for row, column in np.argwhere(usable & ~known)[:1]:
            raise InputError(f"x[{row}, {column}] is unknown but marked available")
        object.__setattr__(self, "x", values)
        object.__setattr__(self, "y", check_labels("y", y, len(values), n_classes=None))
        object.__setattr__(self, "available", usable)

    def __len__(self) -> int:
        return len(self.y)
