"""Tables and lists of facts as the HTML templates take them; the templates do the escaping."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

NOTHING = "\u2013"  # a dash where a table has no value
_MINUS = "\u2212"


@dataclass(frozen=True)
class Fact:
    """One entry of a list of facts."""

    label: str
    text: str


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its text, whether it is a number, and a CSS class for its colour."""

    text: str
    number: bool = False
    tone: str = ""


@dataclass(frozen=True)
class HtmlTable:
    """A table; the first cell of each row is its heading."""

    headers: list[Cell]
    rows: list[list[Cell]]


def to_table(frame: pd.DataFrame) -> HtmlTable:
    """Turn a frame into a table: numbers to three decimals, a named index as columns."""
    named = any(name is not None for name in frame.index.names)
    flat = frame.reset_index() if named or not isinstance(frame.index, pd.RangeIndex) else frame
    columns = [[as_cell(value) for value in flat.iloc[:, place]] for place in range(flat.shape[1])]
    headers = [
        Cell(_header(name), number=any(cell.number for cell in column))
        for name, column in zip(flat.columns, columns, strict=True)
    ]
    return HtmlTable(headers, [list(row) for row in zip(*columns, strict=True)])


def as_cell(value: Any) -> Cell:
    """Format one value.

    Examples
    --------
    >>> as_cell(-0.0312)
    Cell(text='−0.031', number=True, tone='')
    >>> as_cell(float("nan"))
    Cell(text='–', number=False, tone='')
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return Cell(NOTHING)
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return Cell("yes" if value else "no")
    if isinstance(value, str):
        if _looks_numeric(value):
            return Cell(_MINUS + value[1:] if value[0] == "-" else value, number=True)
        return Cell(value or NOTHING)
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int):
        return Cell(number_text(value, 0), number=True)
    if isinstance(value, float):
        return Cell(NOTHING) if math.isnan(value) else Cell(number_text(value), number=True)
    return Cell(str(value))


def number_text(value: float, digits: int = 3, *, sign: bool = False) -> str:
    """Write a number with a fixed number of decimals and a true minus sign; zero has no sign.

    Examples
    --------
    >>> number_text(-0.0004), number_text(0.0312, sign=True), number_text(12345, 0)
    ('0.000', '+0.031', '12,345')
    """
    rounded = round(float(value), digits)
    text = f"{abs(rounded):,.{digits}f}"
    if rounded < 0:
        return f"{_MINUS}{text}"
    return f"+{text}" if sign and rounded > 0 else text


def _looks_numeric(text: str) -> bool:
    """Whether formatted text is a number, perhaps with its error: `+0.031 ± 0.002`."""
    start = text.lstrip(f"+-± {_MINUS}")
    return bool(start) and start[0].isdigit() and not any(c.isalpha() for c in start)


def _header(name: Any) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    text = " · ".join(str(part).replace("_", " ") for part in parts if str(part))
    return text[:1].upper() + text[1:]
