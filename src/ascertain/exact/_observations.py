"""Training data for a finite problem: numbered values and labels, by hand or from a table."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int
from numpy.typing import ArrayLike

from ascertain._core.checks import check_labels, check_mask, check_numbers, check_whole_numbers
from ascertain._core.frames import as_pandas, listed, value_name
from ascertain.errors import InputError


@dataclass(frozen=True, init=False, eq=False)
class Observations:
    """Training instances, some of whose values are missing.

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

    Examples
    --------
    >>> records = Observations([[0, 1], [1, float("nan")]], y=[0, 1])
    >>> records.available.tolist()
    [[True, True], [True, False]]
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


@dataclass(frozen=True)
class Coding:
    """The columns of a table of discrete values, and the values that number 0, 1, ... of each stand for."""

    label: str
    features: tuple[str, ...]
    values: dict[str, list[Any]]  # by column, the label included

    @classmethod
    def of(cls, dataframe: Any, label: str) -> "Coding":
        """Read the columns of a table and the values that occur in them."""
        table, label = as_pandas(dataframe), str(label)
        if label not in table.columns:
            raise InputError(f"the table has no column {label!r}; its columns are {listed(table.columns)}")
        features = tuple(column for column in table.columns if column != label)
        if not features:
            raise InputError(f"the table has no column besides the label {label!r}")
        coding = cls(label, features, {name: _values(table[name], name) for name in table.columns})
        if len(coding.values[label]) < 2:
            raise InputError(f"the label {label!r} has one class only, {coding.values[label][0]!r}")
        return coding

    def encode(self, dataframe: Any) -> Observations:
        """Number the values of a table with these columns; rows without a label are left out."""
        table = as_pandas(dataframe)
        for name in (*self.features, self.label):
            if name not in table.columns:
                raise InputError(f"the table lacks the column {name!r}")
        table = table[table[self.label].notna()]
        x = [self._numbers(table[name], name) for name in self.features]
        return Observations(np.column_stack(x), self._numbers(table[self.label], self.label))

    def names(self, column: str) -> list[str]:
        """Name the values of a column."""
        return [value_name(value) for value in self.values[column]]

    def costs(self, costs: Any) -> list[float] | None:
        """Put costs by column name into column order."""
        if costs is None:
            return None
        if isinstance(costs, str) or not isinstance(costs, Iterable):
            raise InputError(f"costs must be prices by column name or in column order, got {costs!r}")
        if not isinstance(costs, Mapping | pd.Series):
            return list(costs)
        by_name = {str(name): price for name, price in costs.items()}
        for name in by_name:
            if name not in self.features:
                raise InputError(f"costs names {name!r}, but the features are {listed(self.features)}")
        for name in self.features:
            if name not in by_name:
                raise InputError(f"costs has no price for the feature {name!r}")
        return [by_name[name] for name in self.features]

    def _numbers(self, column: "pd.Series[Any]", name: str) -> np.ndarray:
        number = {value: index for index, value in enumerate(self.values[name])}
        numbers = np.array([number.get(value, -1) for value in column])
        for row in np.flatnonzero((numbers < 0) & column.notna().to_numpy())[:1]:
            raise InputError(
                f"column {name!r}, row {row}: the value {column.iloc[row]!r} is not one of "
                f"{listed(self.names(name))}"
            )
        return numbers


def _values(column: "pd.Series[Any]", name: str) -> list[Any]:
    """List the values that occur: categories in their order, others sorted."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        values = list(column.cat.remove_unused_categories().cat.categories)
    else:
        for row, value in enumerate(column):
            if not isinstance(value, Hashable):
                raise InputError(f"column {name!r}, row {row}: {value!r} cannot be a category")
        values = column.dropna().unique().tolist()
        try:
            values.sort()
        except TypeError:  # mixed types
            values.sort(key=str)
    if not values:
        raise InputError(f"column {name!r} is empty: no row has a value")
    return values
