"""Turning a table of discrete columns into numbered values and back."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ascertain._core.frames import as_pandas, listed, value_name
from ascertain.errors import InputError
from ascertain.exact.observations import Observations


@dataclass(frozen=True)
class Coding:
    """The columns of a table and the values that each of them takes."""

    label: str
    features: tuple[str, ...]
    values: dict[str, list[Any]]  # by column, the label's included

    @classmethod
    def of(cls, dataframe: Any, label: str) -> "Coding":
        """Read the columns and their values off a table."""
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
        """Turn a table with the same columns into numbered values; missing ones stay unknown.

        Rows without a label are left out.
        """
        table = as_pandas(dataframe)
        missing = [name for name in (*self.features, self.label) if name not in table.columns]
        if missing:
            raise InputError(f"the table lacks the column {missing[0]!r}")
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
        except TypeError:  # a mixture of types has no order of its own
            values.sort(key=str)
    if not values:
        raise InputError(f"column {name!r} is empty: no row has a value")
    return values
