"""Prices are asked of the problem, given what is acquired: nothing keeps or reads a list of costs."""

import ast
from pathlib import Path

import pytest

import ascertain

SOURCE = Path(ascertain.__file__).parent
FILES = sorted(path for room in ("methods", "evaluation") for path in (SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_costs_are_never_read(path: Path) -> None:
    """What an action costs may depend on what was acquired before; only `Problem.prices` knows."""
    reads = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "costs"
    ]
    assert not reads, f"ask problem.prices(acquired) instead: {reads}"
