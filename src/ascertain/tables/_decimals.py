"""Decimal marks by column: a file may write one column with commas and another one with dots."""

import re
import warnings
from collections.abc import Collection, Iterable
from typing import Any

import pandas as pd

_THOUSANDS = {".": ",", ",": "."}  # by the mark that begins the decimals
_NUMBERS = {
    mark: re.compile(
        rf"[+-]?([0-9]+|[1-9][0-9]{{0,2}}(\{thousands}[0-9]{{3}})+|(?=\{mark}[0-9]))"
        rf"(\{mark}[0-9]*)?([eE][+-]?[0-9]+)?"
    )
    for mark, thousands in _THOUSANDS.items()
}


def read_decimals(table: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
    """Turn columns of texts into numbers where these can be read in one way only.

    Also returns the decimal marks of these columns. Columns that can be read in two ways, and those that mix
    two ways, stay as they are; a warning names them.
    """
    read, marks = table.copy(deep=False), set()
    for name, column in table.items():
        texts = column.dropna().unique().tolist()
        if not texts or not all(isinstance(text, str) for text in texts):
            continue
        possible = decimal_marks(texts)
        if len(possible) == 1:
            numbers = {text: read_number(text, possible[0]) for text in texts}
            read[name] = column.map(numbers).astype(float)
            marks.add(possible[0])
        elif possible:
            _warn(name, f"{_two_ways(texts)}; it is taken for categories: write thousands without a mark")
        elif all(decimal_marks([text]) for text in texts):
            _warn(name, "has numbers with decimal commas and with decimal dots; write all with dots")
    return read, marks


def warn_of_thousands(texts: pd.DataFrame, names: Collection[Any]) -> None:
    """Name the columns that were read as decimals, but may as well be thousands."""
    for name in names:
        cells = texts[name].dropna().str.strip().unique().tolist()
        if any(re.search("[.,]", cell) for cell in cells) and len(decimal_marks(cells)) == 2:
            _warn(name, f"{_two_ways(cells)}; it is read as the latter: write thousands without a mark")


def decimal_marks(texts: Iterable[str]) -> list[str]:
    """The marks that may begin the decimals if all of these texts are numbers; none if they are not.

    Examples
    --------
    >>> decimal_marks(["1234,5", "7"]), decimal_marks(["1.234", "5.678"]), decimal_marks(["25.10.2020"])
    ([','], ['.', ','], [])
    """
    cells = list(texts)
    return [mark for mark, number in _NUMBERS.items() if cells and all(map(number.fullmatch, cells))]


def read_number(text: str, mark: str) -> float:
    """Read a number whose decimals begin with this mark.

    Examples
    --------
    >>> read_number("1.234,5", ","), read_number("1,234.5", ".")
    (1234.5, 1234.5)
    """
    return float(text.replace(_THOUSANDS[mark], "").replace(mark, "."))


def _two_ways(texts: Iterable[str]) -> str:
    example = next(text for text in texts if re.search("[.,]", text))
    whole, small = re.sub("[.,]", "", example), example.replace(",", ".")
    return f"holds {example!r}, which may stand for {whole} or {small}"


def _warn(name: Any, what: str) -> None:
    warnings.warn(f"the column {str(name)!r} {what}", UserWarning, stacklevel=2)
