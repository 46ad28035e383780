"""What the documentation site has besides docs/: pages made of the repository's own files and docstrings.

`mkdocs.yml` loads this file as a hook of MkDocs.
"""

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ascertain"
# Pages that are files of the repository: what they are called on the site.
PAGES = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}


# Methods of a registry under the names of functions, which have their docstrings there.
OF_REGISTRY = ("register", "get", "names")
# Modules at the root that are public in part; docs/api.md says so.
MODULES = {
    "ascertain.registry": ["Part", "Registry", "NoSettings", "SharedModel", "load_plugin"],
    "ascertain.acquisition": ["legal_actions", "choose", "Episodes"],
    "ascertain.decisions": ["decide", "net_benefit"],
    "ascertain.metrics": ["measure"],
    "ascertain.protocol": ["protocol"],
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a page of reference for every public package to the navigation."""
    reference = next(each["Reference"] for each in config.nav or [] if "Reference" in each)
    reference += [{name: page_of(name)} for name in public_names()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=linked((ROOT / source).read_text())))
    for module, names in public_names().items():
        files.append(File.generated(config, page_of(module), content=reference(module, names)))
    return files


def public_names() -> dict[str, list[str]]:
    """What can be imported from where, by package: what its `__init__` imports under the same name."""
    found = {"ascertain": _exported(PACKAGE / "__init__.py")}
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        names = _exported(path)
        if names and not path.parent.name.startswith("_") and path.parent.name != "cli":
            found[f"ascertain.{path.parent.name}"] = names
    return found | MODULES


def reference(module: str, names: list[str]) -> str:
    """A page on which the docstrings of a package and of its names come."""
    registered = [name for name in names if name in OF_REGISTRY]
    note = ""
    if registered:
        functions = ", ".join(f"`{name}`" for name in registered)
        note = (
            f"{functions}: methods of a [`Registry`](ascertain.registry.md#ascertain.registry.Registry).\n\n"
        )
    others = [name for name in names if name not in registered]
    docstrings = "\n".join(f"::: {module}.{name}\n" for name in others)
    return f"# `{module}`\n\n{_summary(module)}\n\n{note}{docstrings}"


def page_of(module: str) -> str:
    """The page of a package."""
    return f"reference/{module}.md"


def linked(text: str) -> str:
    """Let links between files of the repository lead to pages; what is no page stays as text."""
    by_source = {source: page for page, source in PAGES.items()}

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match["label"], match["target"], match["anchor"] or ""
        if ":" in target:
            return match[0]
        page = by_source.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        return f"[{label}]({page}{anchor})" if page.endswith(".md") else label

    text = text.replace("](docs/images/", "](images/")
    return re.sub(r"(?<!!)\[(?P<label>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)", link, text)


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


def _summary(module: str) -> str:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text())) or ""
