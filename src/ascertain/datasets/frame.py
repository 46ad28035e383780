"""Anybody's own table as a dataset: columns of any common type, prices, panels, a budget."""

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from ascertain._core.checks import check_costs, check_numbers
from ascertain._core.frames import as_pandas, listed, value_name
from ascertain.datasets.dataset import Dataset, Rows
from ascertain.datasets.real import KEEP_HOLES, panels, pose, real_dataset
from ascertain.errors import InputError

FEWEST_ROWS = 5  # of a class, so that each of the three parts can have one
MOST_CATEGORIES = 200  # a column with more is an identifier or free text
LARGEST = float(np.finfo(np.float32).max)


class _Column(NamedTuple):
    """The features that a column becomes: itself, or one for each of its categories."""

    features: tuple[str, ...]
    values: Float[np.ndarray, "instances features"]


def from_frame(
    dataframe: Any,
    *,
    target: Hashable,
    costs: Any = None,
    groups: Any = None,
    budget: float | None = None,
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
        Prices by the name of a column or of a group (a dict or Series); what is not listed costs 1.
    groups
        Panels (a dict): a name and the columns that are acquired together under it. A panel costs what
        `costs` says of its name or, where it says nothing, what its columns cost together.
    budget
        How much may be spent on one instance; by default, the price of everything.
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
    >>> dataset = from_frame(patients, target="sick", costs={"pain": 2.5})
    >>> dataset.problem.action_names, dataset.problem.feature_names
    (('age', 'pain'), ('age', 'pain=mild', 'pain=none', 'pain=severe'))
    >>> dataset.budgets
    (3.5,)
    """
    table = as_pandas(dataframe)
    classes, y = _classes(table, str(target))
    table = table.drop(columns=str(target))
    if table.columns.empty:
        raise InputError(f"the table has no column besides the target {str(target)!r}")
    members = members_of(by_name("groups", groups), table.columns, str(target))
    prices = prices_of(by_name("costs", costs), members, table.columns, str(target))
    columns = {column: _read(column, table[column]) for column in table.columns}

    features = [feature for column in columns.values() for feature in column.features]
    revealed = {
        action: [feature for column in together for feature in columns[column].features]
        for action, together in panels(list(columns), members).items()
    }
    limit = sum(prices[action] for action in revealed) if budget is None else budget
    return real_dataset(
        name,
        Rows(np.hstack([column.values for column in columns.values()]), y),
        pose(features, revealed, prices, limit, classes),
        (limit,),
        stratified=True,
        preprocessing=KEEP_HOLES,
        source="the caller's table",
        licence="the caller's",
    )


def _classes(table: pd.DataFrame, target: str) -> tuple[list[str], np.ndarray]:
    """Give the names of the classes and each row's class number."""
    if target not in table:
        raise InputError(
            f"the target {target!r} is no column of the table; there are {listed(table.columns)}"
        )
    column = table[target]
    unknown = np.flatnonzero(column.isna())
    if len(unknown):
        raise InputError(
            f"the target {target!r} is missing in {len(unknown)} of {len(table)} rows (first in row "
            f"{unknown[0]}); drop these rows"
        )
    codes, values = _codes(target, column)
    names = [value_name(value) for value in values]
    if len(names) == 1:
        raise InputError(f"the target {target!r} has one class, {names[0]!r}; there is nothing to predict")
    counts = np.bincount(codes)
    for rare in np.flatnonzero(counts < FEWEST_ROWS)[:1]:
        raise InputError(
            f"the class {names[rare]!r} of the target {target!r} has too few rows to split ({counts[rare]}); "
            f"merge or drop classes with fewer than {FEWEST_ROWS}"
        )
    return names, codes


def by_name(what: str, given: Any) -> dict[str, Any]:
    """Give what the caller lists by name, nothing for None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | pd.Series):
        raise InputError(f"{what} must be a dict by name, got {given!r}")
    return {str(name): value for name, value in given.items()}


def members_of(
    groups: dict[str, Any], columns: "pd.Index[str]", target: str | None
) -> dict[str, tuple[str, ...]]:
    """Give the columns of each panel; refuse unknown and shared ones, and the name of another column."""
    members = {}
    panel_of: dict[str, str] = {}
    for panel, given in groups.items():
        if isinstance(given, str) or not isinstance(given, Iterable) or not list(given):
            raise InputError(f"the group {panel!r} must list its columns, got {given!r}")
        members[panel] = tuple(map(str, given))
        for column in members[panel]:
            if column not in columns:
                raise _unknown(f"the group {panel!r} has", column, columns, target)
            if column in panel_of:
                both = dict.fromkeys((panel_of[column], panel))
                raise InputError(f"the column {column!r} is listed twice, in {listed(both)}; keep one")
            panel_of[column] = panel
        if panel in {target, *columns} - set(members[panel]):
            raise InputError(f"the group {panel!r} has the name of a column outside it; rename the group")
    return members


def prices_of(
    costs: dict[str, Any], groups: Mapping[str, Sequence[str]], columns: "pd.Index[str]", target: str | None
) -> dict[str, float]:
    """Give the price of each column and panel."""
    for name, price in costs.items():
        if name not in columns and name not in groups:
            raise _unknown("costs has", name, columns, target)
        check_costs(check_numbers(f"the cost of {name!r}", price, ndim=0)[None], [repr(name)])
    prices = {column: float(costs.get(column, 1.0)) for column in columns}
    return prices | {
        panel: float(costs.get(panel, sum(prices[column] for column in members)))
        for panel, members in groups.items()
    }


def _read(name: str, column: "pd.Series[Any]") -> _Column:
    """Give the features that a column becomes, NaN where it was not measured."""
    if column.isna().all():
        raise InputError(f"the column {name!r} was never measured; drop it")
    plain = _of_one_kind(name, column) if column.dtype == object else column
    kind = plain.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        read = _read_numbers(name, plain)
    elif isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_string_dtype(kind):
        read = read_categories(name, plain)
    else:
        raise InputError(
            f"the column {name!r} has the type {kind}, which cannot be used; "
            "turn it into numbers or text, or drop it"
        )
    if len(read.features) == 1 and np.nanmin(read.values) == np.nanmax(read.values):
        message = (
            f"the column {name!r} always holds {value_name(column.dropna().iloc[0])}; it can tell nothing"
        )
        warnings.warn(message, UserWarning, stacklevel=3)
    return read


def _read_numbers(name: str, column: "pd.Series[Any]") -> _Column:
    values = column.to_numpy(np.float64, na_value=np.nan)
    for row in np.flatnonzero(np.abs(values) > LARGEST)[:1]:
        raise InputError(
            f"the column {name!r} holds {values[row]:g} in row {row}; "
            "write NaN for a value that was not measured, or bring it within range"
        )
    return _Column((name,), values[:, None])


def read_categories(name: str, column: "pd.Series[Any]") -> _Column:
    """Give one feature for each category of a column."""
    codes, values = _codes(name, column)
    if len(values) > MOST_CATEGORIES:
        raise InputError(
            f"the column {name!r} holds {len(values)} different texts or categories, more than "
            f"{MOST_CATEGORIES}; drop it if it identifies rows, else merge some or turn it into numbers"
        )
    one_hot = np.where(codes[:, None] < 0, np.nan, codes[:, None] == np.arange(len(values)))
    return _Column(tuple(f"{name}={value_name(value)}" for value in values), one_hot)


def _of_one_kind(name: str, column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Give a column of Python objects as booleans, numbers or text; refuse others, and mixtures."""
    known = column[column.notna()]
    kinds = known.map(kind_of)
    for row in kinds.index[kinds.isna()][:1]:
        raise InputError(
            f"the column {name!r} holds a {type(column[row]).__name__} in row {row}; "
            "only numbers, booleans and text can be used"
        )
    for row in kinds.index[kinds != kinds.iloc[0]][:1]:
        raise InputError(
            f"the column {name!r} mixes {kinds.iloc[0]} (row {known.index[0]}) and {kinds[row]} (row {row}); "
            "make them one type"
        )
    if kinds.iloc[0] == "text":
        return column.astype("category")
    return known.astype(np.float64).reindex(column.index)


def kind_of(value: object) -> str | None:
    """Say what a cell holds; None for what cannot be used."""
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, int | float | np.integer | np.floating | Decimal):
        return "numbers"
    return "text" if isinstance(value, str) else None


def _codes(name: str, column: "pd.Series[Any]") -> tuple[np.ndarray, list[Any]]:
    """Give each row's place among the different values, -1 where missing, and these values in order."""
    try:
        categories = pd.Categorical(column).remove_unused_categories()
    except TypeError as error:  # what cannot be hashed
        raise InputError(f"the column {name!r} cannot be read as classes: {error}") from error
    return categories.codes.astype(np.int64), list(categories.categories)


def _unknown(where: str, column: str, columns: "pd.Index[str]", target: str | None) -> InputError:
    if column == target:
        return InputError(f"{where} the target {target!r}, which cannot be acquired; leave it out")
    return InputError(f"{where} {column!r}, which is no column; there are {listed(columns)}")
