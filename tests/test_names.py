"""What `from ascertain import ...` offers."""

import ast
import re
from pathlib import Path

import pytest

import ascertain


def test_every_name_is_there_and_is_listed() -> None:
    for module, names in ascertain._ON_FIRST_USE.items():
        for name in names:
            assert getattr(ascertain, name) is getattr(getattr(ascertain, module), name)
            assert name in dir(ascertain)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(str(ascertain.__file__)).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {
        (alias.name, str(node.module).removeprefix("ascertain.")) for node in imports for alias in node.names
    }
    assert seen == set(ascertain._HOME.items())


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ascertain.nonsense


def test_the_documentation_lists_every_public_name() -> None:
    root = Path(str(ascertain.__file__)).parent
    listed = set(re.findall(r"`([\w.]+)", (root.parents[1] / "docs" / "api.md").read_text()))
    exported = set(ascertain._HOME)
    for package in root.glob("*/__init__.py"):
        for node in ast.parse(package.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                exported |= {alias.asname for alias in node.names if alias.asname}
    missing = {name for name in exported if not name.startswith("_")} - listed
    assert not missing
