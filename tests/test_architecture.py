"""The architecture, as a table that is checked: which room may import from which.

Data flow down the list. A room imports from the rooms beside its name and from the foundation, and from no
other; `ROOMS` is the whole map.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import ascertain

SOURCE = Path(str(ascertain.__file__)).parent

# Without a place in the flow, in this order: each may import from those before it.
FOUNDATION = (
    *("errors", "registry", "_core", "protocol", "decisions", "problem", "metrics", "policy"),
    "acquisition",
)

ROOMS: dict[str, set[str]] = {
    "exact": set(),  # small finite problems, solved
    "tables": set(),  # people's tables: columns, features, prices
    "datasets": {"tables"},  # rows, problem, budgets, splits
    "missingness": set(),  # what hides cells
    "predictors": set(),  # the class from any subset of the features
    "restoration": {"missingness"},  # what fills holes; treatments
    "methods": {"predictors", "restoration"},  # acquisition policies
    "evaluation": {"datasets", "predictors", "restoration", "methods"},  # what policies and routes achieve
    "models": {"predictors", "restoration", "methods"},  # on disk
    "recipe": {
        *("datasets", "missingness", "predictors", "restoration", "methods", "evaluation", "models")
    },  # the one pipeline
    "estimator": {
        *("tables", "missingness", "predictors", "restoration", "methods", "evaluation", "models", "recipe")
    },
    "scorers": {"evaluation", "estimator"},  # for model selection
    "study": {"datasets", "missingness", "predictors", "restoration", "methods", "evaluation", "recipe"},
    "reporting": {"datasets", "missingness", "restoration", "methods"},  # what all reports share
    "analysis": {"exact", "restoration", "methods", "study", "reporting"},  # from results to findings
    "practice": {
        *("tables", "missingness", "restoration", "methods", "evaluation"),
        *("estimator", "reporting"),
    },  # diagnose, fit, consult
    "serve": {"tables", "estimator"},  # the web page
    "testing": {"datasets", "missingness", "predictors", "restoration", "methods", "models"},
}
ANYTHING = ("cli", "ascertain", "__main__")  # the command line and the package's own list of names

MOST_MODULES_AT_THE_ROOT = 10


def _modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("ascertain", *path.relative_to(SOURCE).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _room(module: str) -> str:
    return [*module.split("."), "ascertain"][1]


MODULES = _modules()
ARROWS = sorted(
    {
        (_room(module), _room(target), module)
        for module, path in MODULES.items()
        for target in _imports(path)
        if target.split(".")[0] == "ascertain" and target != "ascertain"
    }
)


def test_every_room_is_on_the_map() -> None:
    assert {_room(module) for module in MODULES} == {*FOUNDATION, *ROOMS, *ANYTHING}


def test_no_arrow_goes_against_the_flow() -> None:
    wrong = []
    for room, target, module in ARROWS:
        if room in ANYTHING or room == target:
            continue
        known = FOUNDATION[: FOUNDATION.index(room)] if room in FOUNDATION else {*FOUNDATION, *ROOMS[room]}
        if target not in known:
            wrong.append(f"{module} imports from {target}, which is not among those of {room}")
    assert not wrong, "\n".join(wrong)


def test_the_map_has_no_arrow_that_nobody_needs() -> None:
    used = {(room, target) for room, target, _ in ARROWS}
    unused = [
        (room, target) for room, targets in ROOMS.items() for target in targets if (room, target) not in used
    ]
    assert not unused


def test_the_map_has_no_cycle() -> None:
    order = list(ROOMS)
    assert all(
        order.index(target) < order.index(room) for room, targets in ROOMS.items() for target in targets
    )


def test_few_modules_are_at_the_root() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= MOST_MODULES_AT_THE_ROOT


def test_what_is_not_listed_in_a_package_is_private() -> None:
    """Modules within rooms begin with an underscore: users import from the package, so modules may move."""
    public = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if len(path.relative_to(SOURCE).parts) > 1
        and path.relative_to(SOURCE).parts[0] != "_core"
        and not path.name.startswith("_")
    ]
    assert not public


def test_a_class_name_has_one_meaning() -> None:
    homes = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    homes.pop("Settings")  # each part's own, by design
    assert not {name: places for name, places in homes.items() if len(places) > 1}


@pytest.mark.parametrize("word", ["Give", "Gives"])
def test_summaries_say_what_a_function_does_or_is(word: str) -> None:
    found = [
        f"{module}: {line}"
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (line := (ast.get_docstring(node) or "").partition("\n")[0]).startswith(f"{word} ")
    ]
    assert not found
