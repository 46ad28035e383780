"""Every public name has an example: in its docstring, or in a script or page that its docstring points at."""

import ast
import doctest
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tools import lookups, public

ROOT = Path(__file__).parents[1]
NAMES = [(module, name) for module, names in public.names().items() for name in names]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{module}.{name}" for module, name in NAMES])
def test_a_public_name_has_an_example(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    text = docstring(module, name, found)
    assert text, f"{module}.{name} has no docstring"
    if ">>> " in text and is_tested(found):
        return
    assert any(
        re.search(rf"\b({'|'.join({name, *named(text)})})\b", code) for code in places(module, text)
    ), f"{module}.{name} has no example, and its docstring names no script, page or public name with one"


@pytest.mark.parametrize("name", ["get", "names"])
@pytest.mark.parametrize("module", lookups.OF_REGISTRY)
def test_names_that_look_parts_up_have_an_entry_whose_example_runs(module: str, name: str) -> None:
    assert lookups.is_lookup(module, name)
    assert name in public.names()[module]
    entry = lookups.entry(module, name)
    program = "\n".join(re.findall(r"```python\n(>>> .*?)```", entry, re.DOTALL))
    example = doctest.DocTestParser().get_doctest(program, {}, f"{module}.{name}", None, None)
    assert len(example.examples) == 2
    ran = doctest.DocTestRunner().run(example)
    assert (ran.attempted, ran.failed) == (2, 0)


@pytest.mark.parametrize("module", [module for module in public.names() if module not in public.MODULES])
def test_the_page_of_public_names_lists_them(module: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set(re.findall(r"`(\w+)`", page))
    assert [name for name in public.names()[module] if name not in listed] == []


def test_the_page_of_public_names_lists_no_others() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    first = re.findall(r"^\| (`[^|]*) \| (?!`)", page, re.MULTILINE)  # of tables of names and what they are
    listed = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    public_names = {name for names in public.names().values() for name in names}
    assert "__version__" in listed
    assert sorted(listed - public_names) == ["__version__"]  # which is no name of something imported


def docstring(module: str, name: str, found: Any) -> str:
    """The docstring; of a constant, the text below its definition."""
    if inspect.ismodule(found) or inspect.isclass(found) or inspect.isroutine(found):
        return inspect.getdoc(found) or ""
    for path in sorted((ROOT / "src").joinpath(*module.split(".")).rglob("*.py")) or [
        (ROOT / "src").joinpath(*module.split(".")).with_suffix(".py")
    ]:
        body = ast.parse(path.read_text()).body
        for node, following in pairwise(body):
            if name in _assigned(node) and isinstance(following, ast.Expr):
                return str(ast.literal_eval(following.value))
    return ""


def is_tested(found: Any) -> bool:
    """Whether pytest collects the docstring, as it does for all but constants."""
    return inspect.ismodule(found) or inspect.isclass(found) or inspect.isroutine(found)


def named(text: str) -> set[str]:
    """The names in a docstring's words on examples, such as that of the function which returns a class."""
    return set(re.findall(r"`(?:\w+\.)?(\w+)`", text.partition("--------\n")[2] or text))


def places(module: str, text: str) -> list[str]:
    """The code that a docstring points at: of scripts, of pages, and of examples of other public names."""
    files = re.findall(r"`((?:examples/\w+\.py)|(?:docs/[\w-]+\.md))`", text)
    others = [getattr(importlib.import_module(module), each, None) for each in named(text)]
    docstrings = [inspect.getdoc(other) or "" for other in others if is_tested(other)]
    return [examples_in(ROOT / file) for file in files] + [runnable(each) for each in docstrings]


def examples_in(path: Path) -> str:
    """The code of a script, or of the tested examples of a page."""
    text = path.read_text()
    if path.suffix == ".py":
        return text
    return runnable(text)


def runnable(text: str) -> str:
    """The lines of a text that run as a test."""
    return "\n".join(line for line in text.splitlines() if line.startswith((">>> ", "... ")))


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]
