"""Columns that no policy can use, and why: never measured or hardly ever, constant, identifiers."""

import re
import shlex
from typing import Any

import numpy as np
import pandas as pd

from ascertain._core.frames import value_name
from ascertain.errors import InputError
from ascertain.tables._columns import LARGEST, MOSTLY, learn, no_dates

_ID_NAME = re.compile(
    r"(^|[^a-z])(id|uid|uuid|index|nr|rowid|key|pidnum|recordid|unnamed: 0)($|[^a-z])", re.I
)
# Four values of each of two classes lie apart by chance in 2 of 70 orders (a rank test); three, in 2 of 20.
_FEWEST_VALUES = 8
_FEW_ROWS = 40  # up to here, all columns may have as few
_FEWEST_FOR_ID = 20  # in fewer rows, whole numbers may well differ by chance
_NARROW = 2  # whole numbers that all differ, within a range of so many times the rows, number the rows
_FEWEST_NUMBERS = 10  # different ones; fewer may be the names of categories
_MOST_LISTED = 5  # stray texts


def idle_columns(columns: pd.DataFrame, *, named: bool = True) -> dict[str, str]:
    """The columns that were hardly ever measured, always hold the same value, or identify rows, and why.

    Columns without names of their own are not taken for identifiers, since their numbers alone may mislead.
    """
    found = {str(name): _idle(str(name), column, named) for name, column in columns.items()}
    return {name: reason for name, reason in found.items() if reason}


def set_aside(columns: pd.DataFrame, *, first_row: int = 0) -> dict[str, str]:
    """The columns of a file that no policy can use, and why; among these are free texts.

    A number that is infinite, or too large, is an error: one cell is to be corrected, not a column dropped.

    Parameters
    ----------
    columns
        All but the target. The index has each row's number, from 0.
    first_row
        What the file's first row is called: 2 in a spreadsheet, below the names.
    """
    reasons = idle_columns(columns)
    for name, column in columns.items():
        _check_range(str(name), column, first_row)
        if str(name) in reasons:
            continue
        if strays := _stray_texts(column, first_row):
            reasons[str(name)] = strays
            continue
        try:
            learn(str(name), column)
        except InputError as error:
            reasons[str(name)] = str(error).removeprefix(f"the column {name!r} ")
    return {name: reasons[name] for name in map(str, columns.columns) if name in reasons}


def _idle(name: str, column: "pd.Series[Any]", named: bool) -> str | None:
    there = column.dropna()
    if there.empty:
        return "it was never measured"
    if (there == there.iloc[0]).all() if np.ndim(there.iloc[0]) == 0 else False:
        return f"it always holds {value_name(there.iloc[0])}, so it can tell nothing"
    if len(there) < _FEWEST_VALUES and len(column) > _FEW_ROWS:
        return f"it was measured in {len(there)} rows, too few to tell anything"
    if named and _identifies_rows(name, there, len(column)):
        numbers = pd.api.types.is_numeric_dtype(there.dtype)
        what = "it numbers the rows" if numbers else "its texts tell rows apart"
        return f"{what}, as an identifier does"
    return None


def _identifies_rows(name: str, there: "pd.Series[Any]", n_rows: int) -> bool:
    """Whether values are texts or whole numbers that tell rows apart and nothing else."""
    if len(there) < _FEWEST_FOR_ID:
        return False
    called = bool(_ID_NAME.search(name))
    if pd.api.types.is_bool_dtype(there.dtype) or not pd.api.types.is_numeric_dtype(there.dtype):
        if not _all_texts(there) or _few(_no_numbers(there), there) or _few(no_dates(there), there):
            return False
        return there.is_unique or (called and there.nunique() > len(there) / 2)
    values = there.to_numpy(np.float64)
    if not np.isfinite(values).all() or (values % 1 != 0).any():
        return False
    distinct = len(np.unique(values))
    if called:
        return distinct > len(values) / 2
    return distinct == len(values) == n_rows and bool(np.ptp(values) < _NARROW * len(values))


def _check_range(name: str, column: "pd.Series[Any]", first_row: int) -> None:
    """Raise where a number is infinite or too large."""
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_complex_dtype(column.dtype):
        return
    values = column.to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.abs(values) > LARGEST)
    if len(wrong):
        cell = values[wrong[0]]
        more = f", and {len(wrong) - 1} more such cells" if len(wrong) > 1 else ""
        raise InputError(
            f"the column {name!r} holds {cell:g} in row {column.index[wrong[0]] + first_row}{more}; correct "
            f"it, or empty it if it was not measured (--na {cell:g})"
        )


def _stray_texts(column: "pd.Series[Any]", first_row: int) -> str | None:
    """What is said of a column of numbers or dates with some other texts among them."""
    if pd.api.types.is_numeric_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    there = column.dropna()
    if not _all_texts(there):
        return None
    for what, odd in (("numbers", _no_numbers(there)), ("dates", no_dates(there))):
        often = there.nunique() - odd.nunique() > _FEWEST_NUMBERS
        if not odd.empty and _few(odd, there) and often:
            return _named(what, odd, len(there), first_row)
    return None


def _named(what: str, odd: "pd.Series[Any]", n_cells: int, first_row: int) -> str:
    """Name stray texts, their rows, and what to type."""
    counts = odd.value_counts()
    named = [_places(text, odd.index[odd == text], first_row) for text in counts.index[:_MOST_LISTED]]
    more = f", and {len(counts) - _MOST_LISTED} other texts" if len(counts) > _MOST_LISTED else ""
    options = " ".join(f"--na {shlex.quote(text)}" for text in counts.index[:_MOST_LISTED])
    return (
        f"it holds {what}, but in {len(odd)} of {n_cells} cells texts: {', '.join(named)}{more}; if they "
        f"mean 'not measured', add {options}"
    )


def _few(odd: "pd.Series[Any]", there: "pd.Series[Any]") -> bool:
    return len(odd) < (1 - MOSTLY) * len(there)


def _all_texts(there: "pd.Series[Any]") -> bool:
    return bool(there.map(lambda value: isinstance(value, str)).all())


def _no_numbers(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Those of the texts that are no numbers, neither with a dot nor with a comma."""
    return texts[pd.to_numeric(texts.str.replace(",", ".", regex=False), errors="coerce").isna()]


def _places(text: str, rows: "pd.Index[int]", first_row: int) -> str:
    """Name a text and the rows that have it."""
    shown = ", ".join(str(row + first_row) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"{text!r} in row{'s' if len(rows) > 1 else ''} {shown}{more}"
