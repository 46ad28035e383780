"""The columns of a table, read as numbers: what each kind of column takes, in training and later."""

import dataclasses
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64

from ascertain._core.frames import listed, short_number, value_name
from ascertain.errors import InputError
from ascertain.tables._dates import Order, date_shape, day_name, days, is_date, learn_order
from ascertain.tables._decimals import decimal_marks, read_number

Kind = Literal["number", "boolean", "category", "date", "empty"]  # empty: never measured in training
DatePart = Literal["month", "hour"]
LARGEST = float(np.finfo(np.float32).max)  # of a number in a cell
MOST_CATEGORIES = 200  # a column with more is an identifier or free text
MOSTLY = 0.8  # the share of numbers or dates beyond which other texts in a column are strays
_A_YEAR = 366.0  # days
_FEW_ROWS = 64  # up to here, reading cell by cell is quicker than asking pandas for each column
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


class InputTypeError(InputError, TypeError):
    """A cell holds an object of a type that no column can have."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the training table; `mean` and `scale` have one number for each of its features."""

    name: str
    kind: Kind
    categories: tuple[str, ...] | None
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    low: float | None  # of numbers, booleans and dates (in days since 1970)
    high: float | None
    order: Order | None = None  # how dates are written
    parts: tuple[DatePart, ...] = ()  # of dates, as features besides the day

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the column becomes: itself and parts of its dates, or each of its categories."""
        if self.categories is None:
            return (self.name, *(f"{self.name} ({part})" for part in self.parts))
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def constant(self) -> bool:
        """Whether training had one value only, so that the column can tell nothing."""
        return len(self.categories or ()) == 1 or (self.low is not None and self.low == self.high)

    @property
    def allowed(self) -> str:
        """What the column takes, in words."""
        if self.categories is not None:
            return f"one of {listed(self.categories, most=20)}"
        if self.kind == "empty":
            return "nothing, as it was never measured in training"
        if self.kind == "boolean":
            return "yes or no"
        if self.low is None or self.high is None:
            return f"a {self.kind}"
        if self.kind == "date":
            return f"a date ({day_name(self.low)} to {day_name(self.high)} in training)"
        return f"a number ({short_number(self.low)} to {short_number(self.high)} in training)"

    def parse(self, text: str) -> float | bool | str:
        """Read a value that a person typed."""
        typed = text.strip().replace("\N{MINUS SIGN}", "-")
        value: float | bool | str | None = None
        if self.kind == "category":
            value = self._category(text)
        elif self.kind == "boolean":
            value = _WORDS.get(typed.casefold())
        elif self.kind == "date":
            number = self._days(typed)
            value = None if number is None else day_name(number)
        elif self.kind == "number" and _THOUSANDS.fullmatch(typed):
            raise InputError(
                f"{text!r} may stand for {typed.replace(',', '')} or {typed.replace(',', '.')}; "
                f"give {self.name!r} without a comma"
            )
        elif self.kind == "number" and (marks := decimal_marks([typed])):
            amount = read_number(typed, marks[0])
            value = amount if abs(amount) <= LARGEST else None
        if value is None:
            raise InputError(f"{text!r} cannot be used: {self.name!r} takes {self.allowed}")
        return value

    def _category(self, text: str) -> str | None:
        """The category that a person means, None if there is none like it."""
        # The most exact spelling counts, so that "Pos" and "pos" can be told apart where both are there.
        for spelling in (str, str.strip, lambda typed: typed.strip().casefold()):
            meant = [each for each in self.categories or () if spelling(each) == spelling(text)]
            if len(meant) > 1:
                raise InputError(f"{text!r} may stand for {listed(meant)} of {self.name!r}; type it exactly")
            if meant:
                return meant[0]
        return None

    def outside(self, value: float | bool | str) -> bool:
        """Whether training had no such category, or no numbers as low or as high as this one."""
        if self.categories is not None:
            return value_name(value) not in self.categories
        number = self._days(value) if self.kind == "date" else float(value)
        known = self.low is not None and self.high is not None and number is not None
        return not known or not self.low <= number <= self.high  # type: ignore[operator]

    def _days(self, value: object) -> float | None:
        return days(value, self.order or "ymd")

    def check(self) -> None:
        """Raise where the parts do not fit together, as in files that were changed."""
        fits = (
            (self.categories is not None) == (self.kind == "category")
            and len(self.features) == len(self.mean) == len(self.scale) > 0
            and all(scale > 0 for scale in self.scale)
            and (self.low is not None) == (self.high is not None)
            and (self.low is not None) == (self.kind in ("number", "boolean", "date"))
            and (self.order is not None) == (self.kind == "date")
            and (self.kind == "date" or not self.parts)
            and (self.low is None or self.high is None or self.low <= self.high)
        )
        if not fits:
            raise InputError(f"the parts of the column {self.name!r} do not fit together")


def is_table(given: Any) -> bool:
    """Whether a caller passes a table of pandas or polars rather than an array."""
    return isinstance(given, pd.DataFrame) or hasattr(given, "to_pandas")


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless there are rows and columns, in the words that scikit-learn's checks look for."""
    if len(shape) != 2:
        raise InputError(
            f"Expected a 2D array or a DataFrame, got an array of shape {shape}. Reshape your data: one row "
            "is X.reshape(1, -1), one column X.reshape(-1, 1)"
        )
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InputError(f"Found 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def as_frame(given: Any) -> pd.DataFrame:
    """Turn a table into one of pandas; it must have rows and columns."""
    table = given if isinstance(given, pd.DataFrame) else given.to_pandas()
    check_shape(table.shape)
    return table


def as_array(given: Any) -> np.ndarray:
    """Turn anything that is no table into an array of numbers or of objects."""
    if hasattr(given, "toarray"):
        raise InputError("X is sparse, which leaves open what was measured; give X.toarray()")
    try:
        array = np.asarray(given)
        if array.dtype.kind in "SU" and not isinstance(given, np.ndarray):
            array = np.asarray(given, object)  # else the numbers of a mixed list would be text
    except ValueError as error:
        raise InputError(f"X is not a table: {error}") from error
    if isinstance(given, np.ma.MaskedArray):  # what is masked was not measured
        array = array.astype(object)
        array[np.ma.getmaskarray(given)] = None
    check_shape(array.shape)
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: give the parts as columns of their own")
    if array.dtype.kind not in "fiubOUT":
        raise InputError(f"X has the type {array.dtype}, which cannot be used; turn it into numbers or text")
    return array


def table_cells(table: pd.DataFrame) -> list[np.ndarray]:
    """The cells of each column: floats where it has a type of numbers, otherwise objects."""
    if all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in table.dtypes):
        return list(table.to_numpy(np.float64).T)
    if len(table) <= _FEW_ROWS:
        return list(table.to_numpy(object).T)
    return [_series_cells(column) for _, column in table.items()]


def _series_cells(column: "pd.Series[Any]") -> np.ndarray:
    kind = column.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return column.to_numpy(np.float64, na_value=np.nan)
    return column.to_numpy(object)


def read(
    columns: Sequence[Column], cells: Sequence[np.ndarray], unseen: str
) -> Float64[np.ndarray, "rows features"]:
    """Read the features of the columns, in their own units and NaN where not measured."""
    owners = [column for column in columns for _ in column.mean]
    raw = np.full((len(cells[0]), len(owners)), np.nan)
    start = 0
    for column, held in zip(columns, cells, strict=True):
        if column.categories is not None:
            raw[:, start : start + len(column.categories)] = _one_hot(column, held, unseen)
        elif column.kind == "date":
            raw[:, start : start + len(column.mean)] = _date_features(column, held)
        elif column.kind != "empty":
            raw[:, start] = held if held.dtype != object else _numbers(column.name, held)
        start += len(column.mean)
    for row, feature in np.argwhere(np.abs(raw) > LARGEST)[:1]:
        raise InputError(
            f"the column {owners[feature].name!r} holds {raw[row, feature]:g} in row {row}; "
            "write NaN for a value that was not measured, or bring it within range"
        )
    flags = [place for place, column in enumerate(owners) if column.kind == "boolean"]
    held = raw[:, flags]
    for row, flag in np.argwhere(~(np.isnan(held) | (held == 0) | (held == 1)))[:1]:
        raise InputError(
            f"the column {owners[flags[flag]].name!r} holds {raw[row, flags[flag]]:g} in row {row}, but "
            "training had true (1) and false (0) there"
        )
    return raw


def _numbers(name: str, cells: np.ndarray) -> list[float]:
    numbers = []
    for row, value in enumerate(cells.tolist()):
        if type(value) is float:  # nearly all are, and need no further look
            numbers.append(value)
            continue
        if _is_hole(value):
            numbers.append(np.nan)
            continue
        kind = _cell_kind(value)
        if kind == "text":
            raise InputError(f"the column {name!r} holds the text {value!r} in row {row}; it takes numbers")
        if kind in (None, "dates"):
            raise _wrong_type(name, row, value)
        try:
            numbers.append(float(value))
        except OverflowError:  # a whole number of hundreds of digits
            numbers.append(np.inf)
    return numbers


def _date_features(column: Column, cells: np.ndarray) -> np.ndarray:
    """The days since 1970, and the parts of dates that are features besides."""
    numbers = np.full(len(cells), np.nan)
    for row, value in enumerate(cells.tolist() if cells.dtype.kind != "M" else cells.astype(object)):
        if not _is_hole(value):
            number = days(value, column.order or "ymd")
            if number is None:
                raise InputError(f"the column {column.name!r} holds {value!r} in row {row}, which is no date")
            numbers[row] = number
    months = np.full(len(cells), np.nan)
    if "month" in column.parts:
        there = ~np.isnan(numbers)
        months[there] = numbers[there].astype("datetime64[D]").astype("datetime64[M]").astype(int) % 12 + 1
    parts = {"month": months, "hour": numbers % 1 * 24}
    return np.column_stack([numbers, *(parts[part] for part in column.parts)])


def _one_hot(column: Column, cells: np.ndarray, unseen: str) -> np.ndarray:
    assert column.categories is not None
    places = {category: place for place, category in enumerate(column.categories)}
    codes = np.full(len(cells), -1)
    for row, value in enumerate(cells.tolist()):
        if not _is_hole(value):
            codes[row] = places.get(value if isinstance(value, str) else value_name(value), -1)
            if codes[row] < 0 and unseen != "missing":
                raise InputError(
                    f"the column {column.name!r} holds {value!r} in row {row}, unseen in training: it takes "
                    f"{column.allowed}; correct it, empty the cell, or pass unseen='missing'"
                )
    return np.where(codes[:, None] < 0, np.nan, codes[:, None] == np.arange(len(places)))


def _is_hole(value: object) -> bool:
    # Not `value != value` of anything: cells may be arrays, which have no single answer.
    unknown = value is None or value is pd.NA or value is pd.NaT
    unknown = unknown or (isinstance(value, np.datetime64) and bool(np.isnat(value)))
    return unknown or (isinstance(value, float | np.floating | Decimal) and value != value)


def _wrong_type(name: str, row: int, value: object) -> InputTypeError:
    # In words that scikit-learn's checks look for.
    return InputTypeError(
        f"the column {name!r} holds a {type(value).__name__} in row {row}; the argument must be a table of "
        "string, boolean or number cells"
    )


def learn(name: str, column: "pd.Series[Any]") -> Column:
    """Describe a column of the training table."""
    kind = _kind(name, column)
    categories = _categories(name, column) if kind == "category" else None
    width = len(categories or (name,))
    order = _order(name, column) if kind == "date" else None
    blank = Column(name, kind, categories, (0.0,) * width, (1.0,) * width, low=None, high=None, order=order)
    if kind == "empty":
        return blank
    cells = _series_cells(column)
    raw = read([blank], [cells], "error")
    if kind == "date":
        parts = _useful_parts(raw[:, 0])
        blank = dataclasses.replace(
            blank, parts=parts, mean=(0.0,) * (1 + len(parts)), scale=(1.0,) * (1 + len(parts))
        )
        raw = read([blank], [cells], "error")
    measured = raw[~np.isnan(raw[:, 0])]
    mean, variance = measured.mean(axis=0), measured.var(axis=0)
    rounding = np.finfo(np.float64).eps * len(measured)
    # As in scikit-learn's StandardScaler: what rounding alone can explain is no deviation.
    scale = np.where(variance <= rounding * variance + (rounding * mean) ** 2, 1.0, np.sqrt(variance))
    low, high = (None, None) if categories else (float(measured[:, 0].min()), float(measured[:, 0].max()))
    return dataclasses.replace(
        blank, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()), low=low, high=high
    )


def _order(name: str, column: "pd.Series[Any]") -> Order:
    """In which order the dates of a column are written."""
    texts = [value for value in column.dropna().unique() if isinstance(value, str)]
    return learn_order(name, texts) if texts else "ymd"


def _useful_parts(numbers: np.ndarray) -> tuple[DatePart, ...]:
    """The month where dates cover more than a year, the hour where they have a time of day."""
    there = numbers[~np.isnan(numbers)]
    month: tuple[DatePart, ...] = ("month",) if np.ptp(there) > _A_YEAR else ()
    return (*month, "hour") if (there % 1 != 0).any() else month


def mostly_dates(texts: "pd.Series[Any]") -> bool:
    """Whether most of a column's texts are written as dates."""
    return len(no_dates(texts)) < (1 - MOSTLY) * len(texts)


def no_dates(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Those of the texts that are not written as dates."""
    some = texts.iloc[:_FEW_ROWS]
    if all(date_shape(text) is None for text in some):  # as nearly always
        return texts
    shapes = {text: date_shape(text) for text in texts.unique()}
    return texts[texts.map(lambda text: shapes[text] is None)]


def number_classes(name: str, column: "pd.Series[Any]") -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the different values of a column, in order, and each row's number (-1 where missing)."""
    try:
        values = pd.Categorical(column).remove_unused_categories()
    except TypeError as error:  # what cannot be hashed
        raise InputError(f"the column {name!r} cannot be read as classes: {error}") from error
    return tuple(map(value_name, values.categories)), values.codes.astype(np.int64)


def _categories(name: str, column: "pd.Series[Any]") -> tuple[str, ...]:
    names, _ = number_classes(name, column)
    if len(names) > MOST_CATEGORIES:
        raise InputError(
            f"the column {name!r} holds {len(names)} different texts or categories, more than "
            f"{MOST_CATEGORIES}; drop it if it identifies rows, else merge some or turn it into numbers"
        )
    return names


def _kind(name: str, column: "pd.Series[Any]") -> Kind:
    """What a column of the training table holds."""
    dtype = column.dtype
    if column.isna().all():
        return "empty"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_complex_dtype(dtype):
        raise InputError(f"Complex data not supported: give the parts of {name!r} as columns of their own")
    if pd.api.types.is_object_dtype(dtype):
        return _kind_of_objects(name, column)
    if pd.api.types.is_numeric_dtype(dtype):
        return "boolean" if pd.api.types.is_bool_dtype(dtype) else "number"
    if pd.api.types.is_string_dtype(dtype):
        return "date" if mostly_dates(column.dropna()) else "category"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date"
    raise InputError(
        f"the column {name!r} has the type {dtype}, which cannot be used; "
        "turn it into numbers or text, or drop it"
    )


def _kind_of_objects(name: str, column: "pd.Series[Any]") -> Kind:
    """What a column of Python objects holds; mixtures, and what cannot be used, are refused."""
    first: dict[str, int] = {}  # the row where each kind was first seen
    for row, value in enumerate(column):
        if not _is_hole(value):
            kind = _cell_kind(value)
            if kind is None:
                raise _wrong_type(name, row, value)
            first.setdefault(kind, row)
    if len(first) > 1:
        (one, row), (other, other_row) = list(first.items())[:2]
        raise InputError(
            f"the column {name!r} mixes {one} (row {row}) and {other} (row {other_row}); make them one type"
        )
    kinds: dict[str, Kind] = {
        "booleans": "boolean",
        "numbers": "number",
        "dates": "date",
        "text": "date" if "text" in first and mostly_dates(column.dropna()) else "category",
    }
    return kinds[next(iter(first))]


def _cell_kind(value: object) -> str | None:
    """What a cell holds; None for what cannot be used."""
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, int | float | np.integer | np.floating | Decimal):
        return "numbers"
    if is_date(value):
        return "dates"
    return "text" if isinstance(value, str) else None
