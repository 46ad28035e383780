"""A user's own table: read from CSV or Parquet, its target taken out, unusable columns set aside."""

import csv
import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from ascertain._core.clusters import instance_numbers
from ascertain._core.frames import as_pandas, value_name
from ascertain.errors import InputError, did_you_mean
from ascertain.tables._columns import MOSTLY, number_classes
from ascertain.tables._decimals import read_decimals, warn_of_thousands
from ascertain.tables._encoding import Encoding, fit_encoding
from ascertain.tables._files import check_file, is_workbook, read_text
from ascertain.tables._usable import set_aside

# What stands for "not measured" in a cell. Not "None": it is a category in many a questionnaire.
MARKERS = ("", "?", ".", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>", "#N/A")
MOST_CLASSES = 30  # a target with more is an amount rather than a class
_SEPARATORS = ",;\t|"
_BREAKS = re.compile(r"[\t\n\r]")
_DECIMAL_COMMA = re.compile(r"(^|;)\s*[+-]?[0-9]+,[0-9]+\s*(;|$)", re.MULTILINE)


@dataclass(frozen=True)
class UserTable:
    """A table whose target is known in every row."""

    name: str  # of the file
    columns: pd.DataFrame  # all but the target; the index has the numbers of the rows in the table
    target: str
    classes: tuple[str, ...]
    y: Int[np.ndarray, " rows"]  # the class of each row, by its place in `classes`
    unlabelled: int  # rows that were dropped since their target is empty
    first_row: int = 0  # what the table's first row is called: 2 in a file, as in a spreadsheet
    instances: Int[np.ndarray, " rows"] | None = None  # which rows belong together, as numbers from 0
    rows_of: str | None = None  # the column that said so
    weights: Float[np.ndarray, " rows"] | None = None  # how much each row counts; None: all the same
    weighted_by: str | None = None  # the column that said so
    weightless: int = 0  # rows that were dropped since their weight is 0


def read_user_table(
    path: Path,
    target: str,
    *,
    separator: str | None = None,
    markers: Sequence[str] = (),
    encoding: str | None = None,
    sheet: str | None = None,
    rows_of: str | None = None,
    weights: str | None = None,
) -> UserTable:
    """Read a table and take its target out; rows without one are dropped and counted.

    Parameters
    ----------
    path
        A CSV file (also `.gz`) whose first line names the columns, an Excel workbook, or a Parquet file.
    target
        The column of classes.
    separator
        What separates the cells of a CSV file; by default the likeliest of comma, semicolon, tab and bar.
    markers
        More texts, besides `MARKERS`, that stand for a value that was not measured.
    encoding, sheet
        As for `ascertain.tables._files.read_text`.
    rows_of
        The column that says which rows belong together, such as that of the patient. It is taken out.
    weights
        The column that says how much each row counts, such as the weights of a survey. It is taken out, and
        rows of weight 0 are dropped.
    """
    frame = read_frame(path, separator=separator, markers=markers, encoding=encoding, sheet=sheet)
    table = replace(take_target(frame, target, path.name), first_row=2)
    if rows_of == weights is not None:
        raise InputError(f"the column {rows_of!r} cannot be both --rows-of and --weights")
    if weights is not None:
        table = take_weights(table, weights)
    return table if rows_of is None else take_instances(table, rows_of)


def take_weights(table: UserTable, name: str) -> UserTable:
    """Take the column out that says how much each row counts; rows of weight 0 are dropped."""
    if name not in table.columns:
        hint = did_you_mean(name, table.columns.columns)
        raise InputError(f"{table.name} has no column {name!r} to say how much rows count; {hint}")
    columns = table.columns.drop(columns=name)
    if columns.columns.empty:
        raise InputError(f"{table.name} has no column besides {table.target!r} and {name!r}")
    held = table.columns[name]
    weights = pd.to_numeric(held, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    for place in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[:1]:
        cell = held.iloc[place]
        found = "is empty" if pd.isna(cell) else f"holds {value_name(cell)!r}"
        raise InputError(
            f"the column {name!r} (--weights) {found} in row {table.columns.index[place] + table.first_row}; "
            "weights are numbers from 0 on, for every row with a class"
        )
    kept = np.flatnonzero(weights)
    for label, each in enumerate(table.classes):
        if not (table.y[kept] == label).any():
            raise InputError(f"the column {name!r} (--weights) is 0 in all rows of the class {each!r}")
    return replace(
        table,
        columns=columns.iloc[kept],
        y=table.y[kept],
        weights=weights[kept],
        weighted_by=name,
        weightless=len(weights) - len(kept),
        instances=None if table.instances is None else table.instances[kept],
    )


def take_instances(table: UserTable, rows_of: str) -> UserTable:
    """Take the column out that says which rows belong together."""
    if rows_of not in table.columns:
        hint = did_you_mean(rows_of, table.columns.columns)
        raise InputError(f"{table.name} has no column {rows_of!r} to say which rows belong together; {hint}")
    columns = table.columns.drop(columns=rows_of)
    if columns.columns.empty:
        raise InputError(f"{table.name} has no column besides {table.target!r} and {rows_of!r}")
    labels = table.columns[rows_of].set_axis(table.columns.index + table.first_row, axis=0)
    instances = instance_numbers(f"the column {rows_of!r} (--rows-of)", labels, len(labels))
    if instances.max() == 0:
        raise InputError(
            f"the column {rows_of!r} (--rows-of) always holds the same; rows cannot be split by it"
        )
    return replace(table, columns=columns, instances=instances, rows_of=rows_of)


def take_target(table: pd.DataFrame, target: str, name: str) -> UserTable:
    """Take the target out of a table called `name`; rows without one are dropped and counted."""
    if target not in table:
        raise InputError(f"{name} has no column {target!r}; {did_you_mean(target, table.columns)}")
    known = table[target].notna()
    if not known.any():
        raise InputError(f"the target {target!r} is empty in all {len(table)} rows of {name}")
    columns = table.loc[known].drop(columns=target)
    if columns.columns.empty:
        raise InputError(f"{name} has no column besides the target {target!r}")
    _check_classes(table.loc[known, target])
    classes, y = number_classes(target, table.loc[known, target])
    if len(classes) == 1:
        raise InputError(f"the target {target!r} has one class, {classes[0]!r}; there is nothing to predict")
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"the target {target!r} has {len(classes)} different values, more than {MOST_CLASSES}; merge "
            "classes, or name another target"
        )
    return UserTable(name, columns, target, classes, y, int((~known).sum()))


def _check_classes(target: "pd.Series[Any]") -> None:
    """Raise where a target holds amounts rather than classes, perhaps with some texts among them."""
    if pd.api.types.is_bool_dtype(target.dtype) or isinstance(target.dtype, pd.CategoricalDtype):
        return
    numbers = pd.to_numeric(target, errors="coerce")
    if numbers.isna().mean() > 1 - MOSTLY:
        return
    amounts = np.unique(numbers.dropna().to_numpy(np.float64))
    if len(amounts) > MOST_CLASSES or (amounts % 1 != 0).any():
        middle = float(np.median(amounts))
        raise InputError(
            f"the target {target.name!r} is a regression target, with {len(amounts)} different numbers "
            f"from {amounts[0]:g} to {amounts[-1]:g}, but classes are needed: add a column that cuts "
            f"it into ranges (such as whether it is above {middle:g}, as yes and no), and name that as the "
            "target"
        )


def read_frame(
    path: Path,
    *,
    separator: str | None = None,
    markers: Sequence[str] = (),
    encoding: str | None = None,
    sheet: str | None = None,
) -> pd.DataFrame:
    """Read a CSV, Excel or Parquet file; cells that hold a marker are missing.

    Line breaks and tabs in names and texts become spaces: columns, classes and categories are shown in lines
    of their own.
    """
    check_file(path)
    if path.suffix in (".parquet", ".pq"):
        table = _read_parquet(path, {*MARKERS, *markers})
    else:
        separator = "," if is_workbook(path) else separator
        table = _read_csv(path, read_text(path, encoding, sheet), separator, [*MARKERS, *markers])
    if table.empty:
        raise InputError(f"{path.name} has {len(table)} rows and {len(table.columns)} columns: it is empty")
    return as_pandas(_without_breaks(table))


def likely_separator(line: str) -> str:
    """The separator that a first line has most of, a comma where it has none.

    Examples
    --------
    >>> likely_separator("age;dose, mg;sex")
    ';'
    """
    return max(_SEPARATORS, key=line.count)


def _read_csv(path: Path, text: str, separator: str | None, markers: list[str]) -> pd.DataFrame:
    if not text.strip():
        raise InputError(f"{path.name} is empty")
    first = text.lstrip("\r\n").partition("\n")[0]
    sep = separator or likely_separator(first)
    if len(sep) != 1:
        raise InputError(f"a separator is a single character, got {sep!r}; write a tab as $'\\t'")
    lines = csv.reader(io.StringIO(text), delimiter=sep)
    header = [" ".join(cell.split()) for cell in next((line for line in lines if any(line)), [])]
    _check_header(path, header)
    decimal = "," if sep == ";" and _DECIMAL_COMMA.search(text[:100_000]) else "."
    given = {"sep": sep, "na_values": [*markers, *(f"{marker} " for marker in markers)]}
    table = _parse_csv(path, text, decimal=decimal, **given)
    texts = table.select_dtypes(include=["object", "string"]).columns
    table[texts] = table[texts].map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    read, marks = read_decimals(table)
    if marks - {decimal}:
        warn_of_thousands(_parse_csv(path, text, dtype=str, **given), table.select_dtypes("float").columns)
    return read


def _parse_csv(path: Path, text: str, **options: Any) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be lost
            table = pd.read_csv(
                io.StringIO(text),
                keep_default_na=False,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                **options,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(
            f"{path.name} cannot be read as a table separated by {options['sep']!r} ({error}); name another "
            "separator (--sep), or put cells that hold the separator into quotes"
        ) from error
    # Titles of spreadsheets have line breaks.
    return table.set_axis([" ".join(str(name).split()) for name in table.columns], axis=1)


def _without_breaks(table: pd.DataFrame) -> pd.DataFrame:
    table = table.set_axis([_in_one_line(str(name)) for name in table.columns], axis=1)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if column.dtype.kind == "O" and any(map(_has_break, column)):
            table.isetitem(place, column.astype(object).map(_in_one_line).array)
    return table


def _has_break(cell: Any) -> bool:
    return isinstance(cell, str) and bool(_BREAKS.search(cell))


def _in_one_line(cell: Any) -> Any:
    return " ".join(cell.split()) if _has_break(cell) else cell


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line that names no columns, or two alike, which pandas would rename."""
    if header and all(_is_number(cell) or cell in MARKERS for cell in header):
        raise InputError(
            f"the first line of {path.name} holds no names; put one with the columns' names there"
        )
    for name in (name for place, name in enumerate(header) if name and name in header[:place]):
        raise InputError(f"two columns of {path.name} are called {name!r}; rename one of them")


def _read_parquet(path: Path, markers: set[str]) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} cannot be read as Parquet: {error}") from error
    numbers = {float(marker) for marker in markers if _is_number(marker) or marker.strip("+-") == "inf"}
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        holes = column.isin(numbers if pd.api.types.is_numeric_dtype(column.dtype) else markers)
        if holes.any():
            table.isetitem(place, column.mask(holes).array)
    return table


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def encode(
    table: UserTable,
    *,
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[str] = (),
    default_cost: float | None = None,
    setup: Mapping[str, Any] | None = None,
    leave_out: Mapping[str, str] | None = None,
) -> tuple[Encoding, dict[str, str]]:
    """Learn how the usable columns become features; also return which are set aside, and why.

    Takes prices, panels, known columns and set-ups as `fit_encoding` does; they may list columns that are set
    aside. `leave_out` names further columns to set aside, with the reasons.
    """
    aside = set_aside(table.columns, first_row=table.first_row) | dict(leave_out or {})
    if len(aside) == len(table.columns.columns):
        reason = f"{next(iter(aside))!r}: {next(iter(aside.values()))}"
        raise InputError(f"{table.name} has no column that can be used ({reason})")
    encoding = fit_encoding(
        table.columns,
        costs=costs,
        groups=groups,
        known=known,
        default_cost=default_cost,
        setup=setup,
        target=table.target,
        aside=aside,
    )
    return encoding, aside
