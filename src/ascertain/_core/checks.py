"""Checks of arguments: each returns a clean value or raises an `InputError` that names the culprit."""

from collections.abc import Sequence, Sized
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ascertain.errors import InputError

BUDGET_TOLERANCE = 1e-6  # relative to the budget, whatever the unit of money
_LARGEST_COST = 1e30  # sums of costs stay finite in single precision ...
LARGEST_BUDGET = 1e36  # ... and so do sums of costs and a budget


def spending_limit(budget: float) -> float:
    """Return the most that may be spent: the budget plus a tolerance, so that 0.1 + 0.2 fits into 0.3."""
    return budget + BUDGET_TOLERANCE * budget


def check_numbers(what: str, values: ArrayLike, ndim: int) -> np.ndarray:
    """Return `values` as floats in `ndim` dimensions."""
    array = _array(what, values)
    if array.ndim != ndim:
        shape = {0: "a number", 1: "a sequence of numbers", 2: "a table of numbers"}[ndim]
        raise InputError(f"{what} must be {shape}, got an array of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        numbers = [_number(value) for value in array.flat]
        if None in numbers:
            first = numbers.index(None)
            index = np.unravel_index(first, array.shape)
            raise InputError(f"{what}{_place(index)} is {array.flat[first]!r}, not a number")
        return np.array(numbers, np.float64).reshape(array.shape)
    return array.astype(np.float64)


def check_whole_numbers(what: str, values: ArrayLike, ndim: int) -> np.ndarray:
    """Return `values` as integers in `ndim` dimensions; whole floats are accepted."""
    array = check_numbers(what, values, ndim)
    whole = (array == np.round(array)) & (np.abs(array) < 2**53)  # floats hold these exactly
    for index in np.argwhere(~whole)[:1]:
        raise InputError(f"{what}{_place(index)} is {array[tuple(index)]}, not a whole number")
    return array.astype(np.int64)


def check_mask(what: str, values: ArrayLike, ndim: int) -> np.ndarray:
    """Return `values` as booleans in `ndim` dimensions; 0 and 1 are accepted."""
    array = check_numbers(what, values, ndim)
    for index in np.argwhere((array != 0) & (array != 1))[:1]:
        raise InputError(f"{what}{_place(index)} is {array[tuple(index)]:g}, neither true (1) nor false (0)")
    return array.astype(bool)


def check_labels(what: str, labels: ArrayLike, rows: int, n_classes: int | None) -> np.ndarray:
    """Return one label per row, each below `n_classes` (below 2^31 if that is None)."""
    array = check_whole_numbers(what, labels, ndim=1)
    if len(array) != rows:
        raise InputError(f"{what} has {len(array)} labels for {rows} rows")
    outside = (array < 0) | (array >= (2**31 if n_classes is None else n_classes))
    for row in np.flatnonzero(outside)[:1]:
        allowed = "0 and up" if n_classes is None else f"0 to {n_classes - 1}"
        raise InputError(f"{what}[{row}] is {array[row]}, outside the classes {allowed}")
    return array


def check_count(what: str, value: int, least: int) -> int:
    """Return a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{what} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_sample_weight(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return a weight for each row; None where all weigh the same."""
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight)
    given = check_numbers("sample_weight", given, ndim=given.ndim)
    if given.shape not in ((), (n_rows,)):
        raise InputError(
            f"sample_weight must be {n_rows} numbers, one for each row; it has shape {given.shape}"
        )
    weights = np.broadcast_to(given, (n_rows,))
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[:1]:
        raise InputError(f"sample_weight is {weights[row]} in row {row}; weights are finite and not negative")
    if not weights.any():
        raise InputError("sample_weight is zero in every row; at least one row must count")
    return None if np.ptp(weights) == 0 else weights


def check_rate(rate: float) -> float:
    """Return a missingness rate in [0, 1)."""
    if not (is_real(rate) and 0 <= rate < 1):
        raise InputError(f"rate must be at least 0 and below 1, got {rate!r}")
    return float(rate)


def is_real(value: object) -> bool:
    """Whether a value is a real number of Python or NumPy, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_names(what: str, names: Sequence[str] | None, expected: int) -> tuple[str, ...] | None:
    """Return `expected` distinct names; None stays None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sized) or len(names) != expected:
        raise InputError(f"{what} must list {expected} names, got {names!r}")
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise InputError(f"{what} has {name!r} twice")
        seen.add(name)
    return tuple(map(str, names))


def check_costs(costs: ArrayLike, names: Sequence[str]) -> np.ndarray:
    """Return one finite, non-negative cost for each of `names`."""
    prices = check_numbers("costs", costs, ndim=1)
    if len(prices) != len(names):
        raise InputError(f"costs has {len(prices)} entries, but {len(names)} are to be priced")
    for index in np.flatnonzero(~((prices >= 0) & (prices <= _LARGEST_COST)))[:1]:
        raise InputError(f"the cost of {names[index]} is {prices[index]}; costs are finite and not negative")
    return prices


def check_budget(budget: ArrayLike, costs: np.ndarray) -> float:
    """Return a finite budget that covers at least the cheapest cost."""
    amount = float(check_numbers("budget", budget, ndim=0))
    if not abs(amount) <= LARGEST_BUDGET:
        raise InputError(f"budget must be finite, got {amount}; to buy everything use the sum of the costs")
    if spending_limit(amount) < costs.min():
        raise InputError(f"a budget of {amount:g} buys nothing: the cheapest action costs {costs.min():g}")
    return amount


def _array(what: str, values: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is not an array of numbers: {error}") from error


def _number(value: Any) -> float | None:
    """Read a number: NaN for None and pandas' NA, None for what is not a number."""
    if value is None or value is pd.NA:
        return float("nan")
    return float(value) if isinstance(value, Real) else None


def _place(index: Sequence[Any] | np.ndarray) -> str:
    return f"[{', '.join(map(str, index))}]" if len(index) else ""
