"""A table of new rows for a model: its columns matched by name, with a line for whatever does not match."""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from ascertain._core.frames import listed, value_name
from ascertain.errors import InputError
from ascertain.reporting._text import counted
from ascertain.tables._columns import Column
from ascertain.tables._encoding import Encoding

FIRST_ROW = 2  # in a spreadsheet, whose first row has the names


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows with the columns of a model, in its order."""

    columns: pd.DataFrame
    outside: "pd.Series[str]"  # for each row, the columns whose value training did not have
    notes: tuple[str, ...]  # what was left out, added or not understood


def match_columns(encoding: Encoding, table: pd.DataFrame, *, used: Collection[str] = ()) -> NewRows:
    """Find the columns of a model in a table.

    Columns may be in any order. Those that the model does not know are ignored, and those that the table
    lacks count as not measured; a note says so. Categories that training did not have count as not measured,
    too.

    Parameters
    ----------
    encoding
        The model's.
    table
        The new rows.
    used
        Columns that serve another purpose, so that no note is needed that they are ignored.
    """
    names = [column.name for column in encoding.columns]
    others = list(table.columns)
    if not encoding.named and not set(names) & set(others):
        trained = list(encoding.table_columns)
        others = [name for name in others if name not in used]
        if len(others) != len(trained):
            raise InputError(
                f"the model was fitted to an array of {len(trained)} columns without names, but the table "
                f"has {len(others)}"
            )
        table = table[others].set_axis(trained, axis=1)
        others = names
    lacking = [name for name in names if name not in others]
    known = {*names, *used, *(each.name for each in encoding.aside)}
    extra = [name for name in others if name not in known]
    if len(lacking) == len(names):
        raise InputError(
            f"the table has none of the model's columns, which are {listed(names)}; its own are "
            f"{listed(others)}"
        )
    columns = table.reindex(columns=names)
    for column in encoding.columns:
        _check_numbers(column, columns[column.name])
    notes = []
    if extra:
        notes.append(f"Ignored, since the model does not know it: {listed(extra)}.")
    if lacking:
        notes.append(
            f"Not in the table, and so taken as not measured: {listed(lacking)}.{_likely(lacking, extra)}"
        )
    unseen = {column.name: _unseen(column, columns[column.name]) for column in encoding.columns}
    notes += [_unseen_note(columns[name], rows) for name, rows in unseen.items() if rows.any()]
    return NewRows(columns, _outside(encoding, columns, unseen), tuple(notes))


def _likely(lacking: list[str], extra: list[str]) -> str:
    """Point out a column that was probably meant by another name."""
    folded = {name.casefold().strip(): name for name in extra}
    for name in lacking:
        for found in get_close_matches(name.casefold().strip(), folded, 1, 0.8):
            return f" Did you mean {name!r} by {folded[found]!r}? Then rename it."
    return ""


def _check_numbers(column: Column, cells: "pd.Series[Any]") -> None:
    """Raise where a column of numbers holds a text, and name its row."""
    if column.kind not in ("number", "boolean"):
        return
    is_text = cells.map(lambda cell: isinstance(cell, str)).to_numpy(bool)
    # Where one cell holds a text, pandas reads the numbers of the others as texts, too.
    no_number = is_text & pd.to_numeric(cells, errors="coerce").isna().to_numpy(bool)
    for row in np.flatnonzero(no_number if no_number.any() else is_text)[:1]:
        text = cells.iloc[row]
        raise InputError(
            f"the column {column.name!r} holds the text {text!r} in row {row + FIRST_ROW}; it takes "
            f"{column.allowed}. If it means 'not measured', add --na {shlex.quote(text)}"
        )


def _unseen(column: Column, cells: "pd.Series[Any]") -> Bool[np.ndarray, " rows"]:
    """Which cells hold a category that training did not have."""
    if column.categories is None:
        return np.zeros(len(cells), bool)
    texts = cells.map(value_name, na_action="ignore")
    return (cells.notna() & ~texts.isin(column.categories)).to_numpy(bool)


def _unseen_note(cells: "pd.Series[Any]", rows: Bool[np.ndarray, " rows"]) -> str:
    values = listed(map(value_name, cells[rows].unique()), 5)
    return (
        f"Column {cells.name!r}: {counted(int(rows.sum()), 'cell')} with a category that training did not "
        f"have ({values}), taken as not measured."
    )


def _outside(
    encoding: Encoding, columns: pd.DataFrame, unseen: dict[str, Bool[np.ndarray, " rows"]]
) -> "pd.Series[str]":
    """Name, for each row, the columns with a value that training did not have; empty: none."""
    found = np.full(len(columns), "", object)
    for column in encoding.columns:
        outside = unseen[column.name]
        if column.kind == "number" and column.low is not None and column.high is not None:
            values = pd.to_numeric(columns[column.name], errors="coerce").to_numpy(np.float64)
            outside = (values < column.low) | (values > column.high)
        elif column.kind == "date":
            outside = np.array(
                [pd.notna(each) and column.outside(each) for each in columns[column.name]], bool
            )
        found[outside] = [f"{each}, {column.name}" if each else column.name for each in found[outside]]
    return pd.Series(found, columns.index, dtype="object")
