"""What the loaders of real datasets share: reading a file, checking it, and posing the problem."""

import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ascertain.datasets._dataset import Dataset, Preprocessing, RawRows
from ascertain.errors import StoreError
from ascertain.problem import Problem

IMPUTE = Preprocessing(scale=True, impute=True)  # as the reference does


def damaged(path: Path, what: str) -> StoreError:
    """The error for a file that is not as it should be."""
    return StoreError(f"{path} {what}; get a fresh copy, or delete it to have it downloaded again")


def read_table(
    path: Path,
    shape: tuple[int, int],
    *,
    names: Sequence[str] | None = None,
    separator: str = ",",
    missing: str = "",
    skip: int = 0,
) -> pd.DataFrame:
    """Read a file, plain or compressed, that should have so many rows and columns.

    `names` are for a file without a header, below `skip` other lines. A separator of a space is any white
    space; `missing` marks cells that were not measured, besides nothing and NA.
    """
    try:
        table = pd.read_csv(
            path,
            sep=r"\s+" if separator.isspace() else separator,
            header="infer" if names is None else None,
            na_values=[missing],
            skiprows=skip,
            low_memory=False,
        )
    except (OSError, EOFError, zlib.error, ValueError) as error:  # pandas' own are ValueErrors
        raise damaged(path, f"cannot be read as a table ({str(error).strip()})") from error
    if not isinstance(table.index, pd.RangeIndex):
        raise damaged(path, "has more cells in its rows than in its header")
    if table.shape != shape:
        found, expected = (f"{rows} rows and {columns} columns" for rows, columns in (table.shape, shape))
        raise damaged(path, f"has {found}, not {expected}")
    if _cells_at_the_end(path, separator) != shape[1]:  # pandas would take the rest for missing
        raise damaged(path, "ends in the middle of a row")
    return table if names is None else table.set_axis(list(names), axis=1)


def numbers(path: Path, table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Some columns of a file as numbers, NaN where there is none."""
    for absent in [name for name in columns if name not in table][:1]:
        raise damaged(path, f"has no column {absent!r}")
    return np.column_stack([_numbers(path, table[name]) for name in columns])


def labels(path: Path, values: np.ndarray, n_classes: int) -> np.ndarray:
    """Class numbers, each of which must be one of 0 to `n_classes - 1`."""
    for row in np.flatnonzero(~np.isin(values, np.arange(n_classes)))[:1]:
        raise damaged(
            path, f"has the class {values[row]:g} in row {row + 1}, not one of 0 to {n_classes - 1}"
        )
    return values.astype(np.int64)


def check_classes(path: Path, y: np.ndarray, counts: Sequence[int]) -> None:
    """Refuse a file that does not have so many rows of each class."""
    found = np.bincount(y, minlength=len(counts)).tolist()
    if found != list(counts):
        raise damaged(path, f"has {found} rows of its classes, not {list(counts)}")


def labelled_rows(
    path: Path, table: pd.DataFrame, features: Sequence[str], target: str, counts: Sequence[int]
) -> RawRows:
    """The features and class numbers of a file that should have so many rows of each class."""
    y = labels(path, numbers(path, table, [target])[:, 0], len(counts))
    check_classes(path, y, counts)
    return RawRows(numbers(path, table, features), y)


def real_dataset(
    name: str,
    rows: RawRows,
    features: Sequence[str],
    *,
    classes: Sequence[str],
    budgets: tuple[float, ...],
    actions: Mapping[str, Sequence[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    **more: Any,
) -> Dataset:
    """The dataset of rows that are the same for every seed; takes the other fields of `Dataset`, too.

    `actions` are the features that each reveals, by default one; those without a price in `costs` cost 1.
    """
    actions = {feature: (feature,) for feature in features} if actions is None else actions
    problem = Problem(
        [[feature in revealed for feature in features] for revealed in actions.values()],
        [(costs or {}).get(action, 1.0) for action in actions],
        budgets[-1],
        len(classes),
        action_names=list(actions),
        feature_names=features,
        class_names=classes,
    )
    return Dataset(name, problem, budgets, lambda seed: rows, **more)


def _cells_at_the_end(path: Path, separator: str) -> int:
    last = ""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            last = line if line.strip() else last
    return len(last.split() if separator.isspace() else last.split(separator))


def _numbers(path: Path, column: "pd.Series[float]") -> np.ndarray:
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    for row in np.flatnonzero(column.notna() & ~np.isfinite(values))[:1]:
        cell = f"{column.iloc[row]!r} in row {row + 1} of column {column.name!r}"
        raise damaged(path, f"has {cell}, which is not a finite number")
    return values
