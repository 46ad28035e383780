"""Price lists and lists of panels, as people keep them in small files."""

import csv
import io
import json
from pathlib import Path

from ascertain.errors import InputError
from ascertain.tables._amounts import read_amounts
from ascertain.tables._files import is_workbook, read_text

_NAMES = ("name", "column", "feature", "action", "test")
_COSTS = ("cost", "price")
_GROUPS = ("group", "panel")


def read_prices(path: Path, encoding: str | None = None) -> dict[str, float]:
    """Read prices by name from a CSV file or the first sheet of a workbook.

    It has a line for each price: a name and an amount (`15.5`, `$1`, `1,50 EUR`), in this order, or under a
    header such as `name,cost` among other columns. A name with an empty amount has no price.
    """
    texts: dict[str, str] = {}
    first: dict[str, int] = {}
    separator, pairs = _pairs(path, _COSTS, encoding)
    for line, name, text in pairs:
        if name in first:
            raise InputError(f"{path.name}, line {line}: {name!r} has a price already, on line {first[name]}")
        first[name] = line
        if text:
            texts[name] = text
    called = {name: f"{path.name}, line {first[name]}: the cost of {name!r}" for name in texts}
    try:
        # Where commas separate cells, those that begin decimals would have to be in quotes.
        decimal = "." if separator == "," else None
        amounts = read_amounts({called[name]: text for name, text in texts.items()}, decimal=decimal)
    except InputError as error:
        at_top = str(error).startswith(f"{path.name}, line 1:") and str(error).endswith("no number")
        hint = f"; a first line of titles must have {_NAMES[0]!r} or {_COSTS[0]!r}" if at_top else ""
        raise InputError(f"{error}{hint}") from error
    if not amounts:
        raise InputError(f"{path.name} holds no prices; write a line such as 'ecg,15.5' for each")
    return {name: amounts[called[name]] for name in texts}


def read_panels(path: Path, encoding: str | None = None) -> dict[str, list[str]]:
    """Read which columns are acquired together.

    A JSON file maps panels to columns, `{"blood": ["iron", "TIBC"]}`. A CSV file has a line for each column:
    its name and the name of its group, in this order or under the header `column,group`.
    """
    if path.suffix != ".json":
        panels: dict[str, list[str]] = {}
        for line, column, group in _pairs(path, _GROUPS, encoding)[1]:
            if not group:
                raise InputError(f"{path.name}, line {line}: {column!r} has no group")
            panels.setdefault(group, []).append(column)
        return panels
    try:
        content = json.loads(read_text(path, encoding))
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f'{path.name} must map groups to columns, as {{"blood": ["iron", "TIBC"]}} does')
    for group, columns in content.items():
        if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
            raise InputError(f"{path.name}: the group {group!r} must list names of columns, got {columns!r}")
    return content


def _pairs(
    path: Path, wanted: tuple[str, ...], encoding: str | None
) -> tuple[str, list[tuple[int, str, str]]]:
    """The separator; and the line number, name and value of each line, the value perhaps empty."""
    text = read_text(path, encoding)
    separator = "," if is_workbook(path) else _separator(text)
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    name, value, width = 0, 1, 2
    # Only by its words: a first line without a number may be one whose price is misspelt.
    if lines and {cell.casefold() for cell in lines[0][1]} & {*_NAMES, *wanted}:
        width = len(lines[0][1])
        name, value = _places(path, lines[0][1], wanted)
        lines = lines[1:]
    for line, cells in lines:
        if len(cells) <= max(name, value) or not cells[name]:
            raise InputError(
                f"{path.name}, line {line}: a name and a {wanted[0]} are needed, got {','.join(cells)!r}"
            )
        if len(cells) > width:
            raise InputError(
                f"{path.name}, line {line}: {len(cells)} cells where {width} belong; put one that has a "
                f'{separator!r} into quotes ("1{separator}50"), or separate cells by semicolons'
            )
    return separator, [(line, cells[name], cells[value]) for line, cells in lines]


def _separator(text: str) -> str:
    """What separates names from values: in each line, and rarer in names and amounts than a comma."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((mark for mark in "\t;|" if lines and all(mark in line for line in lines)), ",")


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
