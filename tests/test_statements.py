"""The notes of statements against coverage.py's own tracer."""

import ast
import runpy
from pathlib import Path

from coverage.control import Coverage

from tests.notes import RAN, add_notes

PROGRAM = '''"""A docstring."""
from __future__ import annotations

import functools


@functools.cache
@functools.lru_cache(
    maxsize=3,
)
def half(number: int) -> int:
    """Another."""
    if number % 2:
        raise ValueError(
            "odd"
        )
    elif number > 100:
        return 50
    else:
        return number // 2


class Point:
    x: int = 1
    """What x is."""

    def never(self):
        return [
            1,
            2,
        ]


for value in (2, 3):
    try:
        result = half(value); last = result
    except KeyError:
        pass
    except ValueError as error:
        with open("/dev/null") as file:
            file.read()
    else:
        result += 1
    finally:
        result = None
    while result:
        break
match last:
    case 2:
        last = 0
    case 1 if value:
        last = (lambda: 5)()
    case _:
        pass
'''


UNNOTED = ("except KeyError:", "case 2:", "from __future__ import annotations")


def test_the_same_statements_are_found_as_by_a_tracer(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    traced = Coverage(data_file=None, include=[str(path)], config_file=False)
    with traced.collect():
        runpy.run_path(str(path))
    tree = ast.parse(PROGRAM)
    add_notes(tree)
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), {"__file__": str(path)})
    noted = Coverage(data_file=None, config_file=False)
    noted.get_data().add_lines({str(path): RAN.pop(str(path))})
    (_, statements, _, missed, _), (*_, not_noted, _) = (
        each.analysis2(str(path)) for each in (traced, noted)
    )
    for each in (traced, noted):
        each.get_data().close(force=True)  # or the garbage collector complains, in whichever test it runs
    assert len(statements) > 30
    assert PROGRAM.splitlines()[missed[0] - 1].strip() == "return 50"
    # Two heads that were tried in vain, and what must come first.
    heads = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.strip() in UNNOTED}
    assert set(not_noted) == set(missed) | heads
