"""The public names: what can be imported from where."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ascertain"
# Modules at the root that are public in part; docs/api.md says so.
MODULES = {
    "ascertain.registry": ["Part", "Registry", "NoSettings", "SharedModel", "load_plugin"],
    "ascertain.acquisition": ["legal_actions", "choose", "Episodes"],
    "ascertain.decisions": ["decide", "net_benefit"],
    "ascertain.metrics": ["measure"],
    "ascertain.protocol": ["protocol"],
}


def names() -> dict[str, list[str]]:
    """The public names by package: what its `__init__` imports under the same name."""
    found = {"ascertain": _exported(PACKAGE / "__init__.py")}
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        exported = _exported(path)
        if exported and not path.parent.name.startswith("_") and path.parent.name != "cli":
            found[f"ascertain.{path.parent.name}"] = exported
    return found | MODULES


def _exported(path: Path) -> list[str]:
    body = ast.parse(path.read_text()).body
    # What type checkers see of names that are imported on first use.
    hidden = [each for node in body if isinstance(node, ast.If) for each in node.body]
    names = {
        alias.asname
        for node in (*body, *hidden)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname and not alias.asname.startswith("_")
    }
    return sorted(names, key=str.casefold)
