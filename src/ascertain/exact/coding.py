"""Turning a table of discrete columns into numbered values and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

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
        table = as_pandas(dataframe)
        if label not in table.columns:
            raise InputError(f"the table has no column {label!r}; its columns are {_listed(table.columns)}")
        features = tuple(str(column) for column in table.columns if column != label)
        if not features:
            raise InputError(f"the table has no column besides the label {label!r}")
        coding = cls(label, features, {str(name): _values(table[name], str(name)) for name in table.columns})
        if len(coding.values[label]) < 2:
            raise InputError(f"the label {label!r} has one class only, {coding.values[label][0]!r}")
        return coding

    def encode(self, dataframe: Any) -> Observations:
        """Turn a table with the same columns into numbered values; missing ones stay unknown."""
        table = as_pandas(dataframe)
        missing = [name for name in (*self.features, self.label) if name not in table.columns]
        if missing:
            raise InputError(f"the table lacks the column {missing[0]!r}")
        if table[self.label].isna().any():
            row = int(np.flatnonzero(table[self.label].isna())[0])
            raise InputError(f"row {row} has no {self.label!r}; drop the rows without a label")
        x = [self._numbers(table[name], name) for name in self.features]
        return Observations(np.column_stack(x), self._numbers(table[self.label], self.label))

    def names(self, column: str) -> list[str]:
        """Name the values of a column."""
        return [_name(value) for value in self.values[column]]

    def costs(self, costs: Mapping[str, float] | Sequence[float] | None) -> list[float] | None:
        """Put costs by column name into column order."""
        if not isinstance(costs, Mapping):
            return None if costs is None else list(costs)
        for name in costs:
            if name not in self.features:
                raise InputError(f"costs names {name!r}, but the features are {_listed(self.features)}")
        for name in self.features:
            if name not in costs:
                raise InputError(f"costs has no price for the feature {name!r}")
        return [costs[name] for name in self.features]

    def _numbers(self, column: "pd.Series[Any]", name: str) -> np.ndarray:
        number = {value: index for index, value in enumerate(self.values[name])}
        numbers = np.array([number.get(value, -1) for value in column])
        for row in np.flatnonzero((numbers < 0) & column.notna().to_numpy())[:1]:
            raise InputError(
                f"column {name!r}, row {row}: the value {column.iloc[row]!r} is not one of "
                f"{_listed(self.names(name))}"
            )
        return numbers


def as_pandas(dataframe: Any) -> pd.DataFrame:
    """Return a pandas table with distinct column names, from pandas or polars."""
    table = dataframe.to_pandas() if hasattr(dataframe, "to_pandas") else dataframe
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"a pandas or polars DataFrame is needed, got {type(dataframe).__name__}")
    for name in table.columns[table.columns.duplicated()]:
        raise InputError(f"two columns are called {name!r}")
    if len(table) == 0:
        raise InputError("the table has no rows")
    return table


def _values(column: "pd.Series[Any]", name: str) -> list[Any]:
    """List the values that occur: categories in their order, others sorted."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        values = list(column.cat.remove_unused_categories().cat.categories)
    else:
        values = column.dropna().unique().tolist()
        try:
            values.sort()
        except TypeError:  # a mixture of types has no order of its own
            values.sort(key=str)
    if not values:
        raise InputError(f"column {name!r} is empty: no row has a value")
    return values


def _name(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _listed(names: Sequence[Any] | pd.Index) -> str:
    shown = [repr(name) for name in list(names)[:8]]
    return ", ".join(shown) + (", ..." if len(names) > 8 else "")
