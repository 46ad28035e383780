"""Anybody's own table as a dataset: columns of any common type, prices, panels, budgets."""

import os
import warnings
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ascertain._core.checks import check_budget, check_numbers
from ascertain._core.frames import as_pandas, value_name
from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.errors import InputError
from ascertain.tables._costs import by_name
from ascertain.tables._encoding import Encoding, fit_encoding
from ascertain.tables._prices import read_panels, read_prices
from ascertain.tables._reading import UserTable, encode, read_user_table, take_target
from ascertain.tables._setup_files import lists_setups, read_setups

FEWEST_ROWS = 5  # of a class, so that each of the three parts can have one


def from_frame(
    dataframe: Any,
    *,
    target: Hashable,
    costs: Any = None,
    groups: Any = None,
    known: Any = None,
    default_cost: float | None = None,
    setup: Any = None,
    budget: float | None = None,
    budgets: Any = None,
    name: str = "table",
) -> Dataset:
    """Make a dataset of a pandas or polars table; empty cells (NaN, None) were not measured.

    Numbers and booleans become one feature each. A column of text or categories becomes one feature for
    each category, called for example `colour=red`; they are acquired as one action.

    Parameters
    ----------
    dataframe
        One row per instance, one column per measurement, and the column of classes.
    target
        The name of the column of classes; each class needs five rows at least.
    costs
        Prices by the name of a column or of a group (a dict or Series, or the path of a price list); by
        default 1 each. Names of anything else are ignored with a warning.
    groups
        Panels (a dict, or the path of a list of panels): a name and the columns that are acquired together
        under it. A panel costs what `costs` says of its name or, where it says nothing, what its columns
        cost together.
    known
        Columns that are observed from the start, at no cost. Where rows lack one, it is at its mean, and one
        more feature (`age missing`) says so.
    default_cost
        What a column costs that `costs` does not list; without it, `costs` lists all that are not `known`.
    setup
        Set-ups that tests share (a dict, or the path of a list), such as a blood draw: the first test that
        needs one pays for it, later ones do not. A name, and its cost and columns:
        `{"blood draw": {"cost": 5, "columns": ["iron", "glucose"]}}`. By default, those of the price list if
        it has any.
    budget
        How much may be spent on one instance; by default, the price of everything.
    budgets
        Several budgets to report results at, in place of one.
    name
        What to call the dataset.

    Examples
    --------
    >>> import pandas as pd
    >>> patients = pd.DataFrame(
    ...     {
    ...         "age": [40, 51, 62, 73, 84] * 2,
    ...         "pain": ["none", "severe", None, "none", "mild"] * 2,
    ...         "sick": [False] * 5 + [True] * 5,
    ...     }
    ... )
    >>> dataset = from_frame(patients, target="sick", costs={"pain": 2.5}, default_cost=1)
    >>> dataset.problem.action_names, dataset.problem.feature_names
    (('age', 'pain'), ('age', 'pain=mild', 'pain=none', 'pain=severe'))
    >>> dataset.budgets
    (3.5,)
    """
    frame = as_pandas(dataframe)
    unlabelled = np.flatnonzero(frame[str(target)].isna()) if str(target) in frame else np.array([])
    if len(unlabelled):
        raise InputError(
            f"the target {str(target)!r} is missing in {len(unlabelled)} of {len(frame)} rows (first in row "
            f"{unlabelled[0]}); drop these rows"
        )
    table = take_target(frame, str(target), "the table")
    encoding = fit_encoding(
        table.columns,
        **_lists(costs, groups, setup),
        known=known,
        default_cost=default_cost,
        target=table.target,
    )
    for column in [each for each in encoding.columns if each.kind == "empty"][:1]:
        raise InputError(f"the column {column.name!r} was never measured; drop it")
    if budget is not None and budgets is not None:
        raise InputError("budget and budgets say the same; pass one of them")
    amounts = budgets if budget is None else [budget]
    return _dataset(name, "the caller's table", table, encoding, amounts)


def from_file(
    path: str | os.PathLike[str],
    *,
    target: str,
    costs: Any = None,
    budgets: Any = None,
    known: Any = None,
    default_cost: float | None = None,
    groups: Any = None,
    setup: Any = None,
    name: str | None = None,
    separator: str | None = None,
    markers: Sequence[str] = (),
    encoding: str | None = None,
    sheet: str | None = None,
) -> Dataset:
    """Make a dataset of a CSV, Excel or Parquet file, read as `ascertain fit` reads it.

    Rows without a target, and columns that no policy can use (never measured, identifiers, free text), are
    left out with a warning.

    Parameters
    ----------
    path
        A CSV file (also `.gz`) whose first line names the columns, an Excel workbook, or a Parquet file.
    target, costs, budgets, known, default_cost, groups, setup
        As for `from_frame`.
    name
        What to call the dataset; by default as the file, without its ending.
    separator
        What separates the cells of a CSV file; by default the likeliest of comma, semicolon, tab and bar.
    markers
        Texts that stand for a value that was not measured, besides `?`, `NA` and the like.
    encoding
        How a text file is written, such as `cp1252`; by default UTF-8.
    sheet
        The sheet of a workbook, by name or counted from 1; by default the first.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> columns = {"age": [61, 47, 55, 39], "ecg": ["normal", None, "st", "normal"], "ill": ["yes", "no"] * 2}
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clinic.csv"
    ...     pd.concat([pd.DataFrame(columns)] * 5).to_csv(path, index=False)
    ...     clinic = from_file(path, target="ill", costs={"ecg": 15.5}, known=["age"], budgets=[15.5])
    >>> clinic.problem.action_names, clinic.complete
    (('ecg',), False)
    """
    file = Path(path)
    table = read_user_table(
        file, str(target), separator=separator, markers=markers, encoding=encoding, sheet=sheet
    )
    if table.unlabelled:
        message = f"{table.name}: {table.unlabelled} rows without the target {table.target!r} are left out"
        warnings.warn(message, UserWarning, stacklevel=2)
    free = () if known is None else known
    learned, aside = encode(table, **_lists(costs, groups, setup), known=free, default_cost=default_cost)
    for column, reason in aside.items():
        message = f"{table.name}: the column {column!r} is left out: {reason}"
        warnings.warn(message, UserWarning, stacklevel=2)
    called = file.name.partition(".")[0] if name is None else name
    return _dataset(called, table.name, table, learned, budgets)


def _lists(costs: Any, groups: Any, setup: Any) -> dict[str, Any]:
    """Prices, panels and set-ups by name, read from files where the caller names files."""
    if setup is None and _is_path(costs) and lists_setups(Path(costs)):
        setup = costs
    return {
        "costs": read_prices(Path(costs))
        if _is_path(costs)
        else None
        if costs is None
        else by_name("costs", costs),
        "setup": read_setups(Path(setup)) if _is_path(setup) else by_name("setup", setup),
        "groups": read_panels(Path(groups)) if _is_path(groups) else by_name("groups", groups),
    }


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _dataset(
    name: str,
    source: str,
    table: UserTable,
    encoding: Encoding,
    budgets: Any,
) -> Dataset:
    counts = np.bincount(table.y)
    for rare in np.flatnonzero(counts < FEWEST_ROWS)[:1]:
        raise InputError(
            f"the class {table.classes[rare]!r} of the target {table.target!r} has too few rows to split "
            f"({counts[rare]}); merge or drop classes with fewer than {FEWEST_ROWS}"
        )
    for column in [column.name for column in encoding.columns if column.constant]:
        value = value_name(table.columns[column].dropna().iloc[0])
        message = f"the column {column!r} always holds {value}; it can tell nothing"
        warnings.warn(message, UserWarning, stacklevel=3)
    prices = [*(action.price for action in encoding.actions), *(each.cost for each in encoding.setups)]
    amounts = [sum(prices)] if budgets is None else budgets
    for amount in check_numbers("budgets", amounts, ndim=1):
        check_budget(amount, encoding.price_list.first)
    if not len(amounts):
        raise InputError("budgets is empty; list what may be spent on one instance, or leave it out")
    rows = RawRows(encoding.values(table.columns), table.y)
    return Dataset(
        name=name,
        problem=encoding.problem(max(amounts), table.classes),
        budgets=tuple(sorted(set(amounts))),
        draw=lambda seed: rows,
        source=source,
        licence="the caller's",
    )
