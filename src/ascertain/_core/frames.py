"""Helpers for tables of pandas or polars that callers pass."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from ascertain.errors import InputError


def as_pandas(dataframe: Any) -> pd.DataFrame:
    """Convert to a pandas table with distinct strings as column names and rows numbered from 0."""
    table = dataframe.to_pandas() if hasattr(dataframe, "to_pandas") else dataframe
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"a pandas or polars DataFrame is needed, got {type(dataframe).__name__}")
    if table.empty:
        raise InputError(f"the table is empty: it has {len(table)} rows and {len(table.columns)} columns")
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    for name in table.columns[table.columns.duplicated()][:1]:
        raise InputError(f"two columns are called {name!r}; rename one of them")
    return table.reset_index(drop=True)


def value_name(value: Any) -> str:
    """Write a value as text; whole floats as integers, since pandas turns a 1 beside a hole into 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def short_number(value: float) -> str:
    """Write a number with three digits, or as a whole number.

    Examples
    --------
    >>> short_number(-3.581047580191171), short_number(40.0), short_number(20413.7), short_number(0.00123456)
    ('-3.58', '40', '20414', '0.00123')
    """
    whole = abs(value) < 1e7 and (value == round(value) or abs(value) >= 1000)
    return f"{value:.0f}" if whole else f"{value:.3g}"


def is_missing(value: Any) -> bool:
    """Whether a value is None, NA or NaN."""
    return value is None or value is pd.NA or bool(value != value)


def listed(names: Iterable[Any], most: int = 8) -> str:
    """List names for a message, the first `most` of them."""
    every = list(names)
    return ", ".join(repr(name) for name in every[:most]) + (", ..." if len(every) > most else "")
