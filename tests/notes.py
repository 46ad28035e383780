"""Modules that note which of their statements run.

Up to Python 3.11 a tracer slows down every instruction of every library, which made the tests take half as
long again. Here each statement of the package makes a note when it begins. What counts as a statement is for
coverage.py to say. The head of an `except` or a `case` is noted when its body begins, so that never more is
found than by a tracer. Python caches modules with their notes: `make clean` after changes here.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile

from jaxtyping import _import_hook

RAN: dict[str, dict[int, None]] = defaultdict(dict)  # the lines where statements began, by file


class Noting(_import_hook.JaxtypingTransformer):
    """Adds the notes to what checks types."""

    def visit_Module(self, node: ast.Module) -> ast.Module:  # noqa: N802
        add_notes(node)
        super().visit_Module(node)
        return node


def add_notes(module: ast.Module) -> None:
    """Let every statement of a module note its line in `__ran__`."""
    for inner in ast.walk(module):
        heads = [inner.lineno] if isinstance(inner, ast.ExceptHandler) else []
        heads += [inner.pattern.lineno] if isinstance(inner, ast.match_case) else []
        for field in ("body", "orelse", "finalbody"):
            block = getattr(inner, field, None)
            if isinstance(block, list) and block:  # not the expression of a lambda
                block[:] = list(_noted(block, heads))
    place = len(_first(module.body))
    module.body[place:place] = ast.parse("from tests.notes import RAN as __ran__").body
    module.body[place + 1 : place + 1] = ast.parse("__ran__ = __ran__[__file__]").body


def _noted(block: list[ast.stmt], heads: list[int]) -> Iterator[ast.stmt]:
    first = len(_first(block))
    yield from block[:first]
    for statement in block[first:]:
        decorators = getattr(statement, "decorator_list", ())
        for line in (*heads, *(each.lineno for each in decorators), statement.lineno):
            for note in ast.parse(f"__ran__[{line}] = None").body:
                yield ast.copy_location(note, statement)
        yield statement


def _first(block: list[ast.stmt]) -> list[ast.stmt]:
    """What no note may precede: the docstring, and imports from `__future__`."""
    documented = isinstance(block[0], ast.Expr) and isinstance(getattr(block[0].value, "value", None), str)
    after = block[documented:]
    future = takewhile(lambda each: isinstance(each, ast.ImportFrom) and each.module == "__future__", after)
    return [*block[:documented], *future]
