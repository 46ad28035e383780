"""Set-ups that tests share, as people keep them in a small file or in the price list."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from ascertain.errors import InputError
from ascertain.tables._amounts import read_amounts
from ascertain.tables._files import read_text
from ascertain.tables._reading import likely_separator
from ascertain.tables._setups import SHAPE, cost_and_members

_TESTS = ("name", "column", "feature", "action", "test")
_SETUPS = ("setup", "set-up", "set up", "setup name")
# The cost of the set-up is in the first of these that is there.
_COSTS = ("setup cost", "setup_cost", "set-up cost", "setup price", "cost", "price")


def read_setups(path: Path, encoding: str | None = None) -> dict[str, dict[str, Any]]:
    """Read set-ups from a file.

    A CSV file has a line for each test with the columns `name`, `setup` and `cost` (the cost of the set-up,
    which may be left empty after its first line). It may be the price list itself, with the columns `setup`
    and `setup cost` beside the price; tests without a set-up leave both empty. A JSON file maps set-ups to
    their cost and columns.
    """
    if path.suffix == ".json":
        return _read_json(path, encoding)
    lines = _lines(path, encoding)
    places = _places(path, lines[0][1]) if lines else None
    if places is None:
        raise InputError(
            f"{path.name} lists no set-ups; its first line must name the columns name,setup,cost, and each "
            "other line has a test, its set-up and what that costs"
        )
    members: dict[str, list[str]] = {}
    written: dict[str, dict[int, str]] = {}  # by set-up and line
    for line, cells in lines[1:]:
        test, setup, cost = (cells[place] if place < len(cells) else "" for place in places)
        if not setup:
            continue
        if not test:
            raise InputError(f"{path.name}, line {line}: the set-up {setup!r} needs the name of a test")
        members.setdefault(setup, []).append(test)
        if cost:
            written.setdefault(setup, {})[line] = cost
    costs = _amounts(path, written)
    for setup in members:
        if setup not in costs:
            raise InputError(f"{path.name}: the set-up {setup!r} has no cost; write it on one of its lines")
    return {setup: {"cost": costs[setup], "columns": tests} for setup, tests in members.items()}


def lists_setups(path: Path, encoding: str | None = None) -> bool:
    """Whether the first line of a price list names a column of set-ups."""
    lines = _lines(path, encoding)
    return bool(lines) and any(cell.casefold() in _SETUPS for cell in lines[0][1])


def _lines(path: Path, encoding: str | None) -> list[tuple[int, list[str]]]:
    """The cells of each line that is not empty, with its number."""
    text = read_text(path, encoding)
    reader = csv.reader(io.StringIO(text), delimiter=likely_separator(text.partition("\n")[0]))
    return [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]


def _places(path: Path, header: list[str]) -> tuple[int, int, int] | None:
    """Where the test, its set-up and the cost of that are; None where no column is called a set-up."""
    folded = [cell.casefold() for cell in header]
    setups = [place for place, cell in enumerate(folded) if cell in _SETUPS]
    if not setups:
        return None
    tests = [place for place, cell in enumerate(folded) if cell in _TESTS]
    costs = [folded.index(title) for title in _COSTS if title in folded]
    if not tests or not costs:
        lacking = "the tests (name)" if not tests else "what a set-up costs (setup cost)"
        raise InputError(f"{path.name} has no column for {lacking}; its first line is {', '.join(header)}")
    return tests[0], setups[0], costs[0]


def _amounts(path: Path, written: dict[str, dict[int, str]]) -> dict[str, float]:
    """What each set-up costs; raises where two of its lines differ."""
    called = {
        (setup, line): f"{path.name}, line {line}: the cost of the set-up {setup!r}"
        for setup, by_line in written.items()
        for line in by_line
    }
    texts = {name: written[setup][line] for (setup, line), name in called.items()}
    read = read_amounts(texts, decimal=".")
    costs: dict[str, float] = {}
    for (setup, _), name in called.items():
        if costs.setdefault(setup, read[name]) != read[name]:
            raise InputError(f"{name} is {read[name]:g}, but {costs[setup]:g} above; write it once")
    return costs


def _read_json(path: Path, encoding: str | None) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(read_text(path, encoding))
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path.name} must map set-ups to their cost and columns, as {SHAPE} does")
    try:
        read = {name: cost_and_members(name, entry) for name, entry in content.items()}
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error
    return {name: {"cost": cost, "columns": members} for name, (cost, members) in read.items()}
