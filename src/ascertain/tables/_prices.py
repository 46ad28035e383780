"""Price lists and lists of panels, as people keep them in small files."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ascertain.errors import InputError
from ascertain.tables._reading import likely_separator, read_text

_NAMES = ("name", "column", "feature", "action", "test")
_COSTS = ("cost", "price")
_GROUPS = ("group", "panel")


def read_prices(path: Path) -> dict[str, float]:
    """Read prices by name from a CSV file.

    It has a line for each price: a name and a number, in this order, or under a header such as `name,cost`
    among other columns.
    """
    prices: dict[str, float] = {}
    first: dict[str, int] = {}
    for line, name, text in _pairs(path, _COSTS):
        if name in prices:
            raise InputError(f"{path.name}, line {line}: {name!r} has a price already, on line {first[name]}")
        try:
            price = float(text)
        except ValueError as error:
            hint = f"; a first line of titles must have {_NAMES[0]!r} or {_COSTS[0]!r}" if line == 1 else ""
            raise InputError(
                f"{path.name}, line {line}: the cost of {name!r} is {text!r}, no number{hint}"
            ) from error
        if not (np.isfinite(price) and price >= 0):
            raise InputError(
                f"{path.name}, line {line}: the cost of {name!r} is {text}; costs are finite and not negative"
            )
        prices[name], first[name] = price, line
    if not prices:
        raise InputError(f"{path.name} holds no prices; write a line such as 'ecg,15.5' for each")
    return prices


def read_panels(path: Path) -> dict[str, list[str]]:
    """Read which columns are acquired together.

    A JSON file maps panels to columns, `{"blood": ["iron", "TIBC"]}`. A CSV file has a line for each column:
    its name and the name of its group, in this order or under the header `column,group`.
    """
    if path.suffix != ".json":
        panels: dict[str, list[str]] = {}
        for _, column, group in _pairs(path, _GROUPS):
            panels.setdefault(group, []).append(column)
        return panels
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f'{path.name} must map groups to columns, as {{"blood": ["iron", "TIBC"]}} does')
    for group, columns in content.items():
        if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
            raise InputError(f"{path.name}: the group {group!r} must list names of columns, got {columns!r}")
    return content


def _pairs(path: Path, wanted: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """The line number, name and value of each line."""
    text = read_text(path)
    reader = csv.reader(io.StringIO(text), delimiter=likely_separator(text.partition("\n")[0]))
    lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    name, value = 0, 1
    # Only by its words: a first line without a number may be one whose price is misspelt.
    if lines and {cell.casefold() for cell in lines[0][1]} & {*_NAMES, *wanted}:
        name, value = _places(path, lines[0][1], wanted)
        lines = lines[1:]
    for line, cells in lines:
        if len(cells) <= max(name, value) or not cells[name] or not cells[value]:
            raise InputError(
                f"{path.name}, line {line}: a name and a {wanted[0]} are needed, got {','.join(cells)!r}"
            )
        yield line, cells[name], cells[value]


def _places(path: Path, header: list[str], wanted: tuple[str, ...]) -> tuple[int, int]:
    folded = [cell.casefold() for cell in header]
    names = [place for place, cell in enumerate(folded) if cell in _NAMES]
    values = [place for place, cell in enumerate(folded) if cell in wanted]
    if len(header) == 2:  # in order, unless the header itself says otherwise
        return (1, 0) if values == [0] or names == [1] else (0, 1)
    if not names or not values:
        raise InputError(
            f"{path.name} needs columns called {_NAMES[0]!r} and {wanted[0]!r}; its first line has "
            f"{', '.join(map(repr, header))}"
        )
    return names[0], values[0]
