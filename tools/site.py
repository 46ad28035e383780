"""What the documentation site has besides docs/: pages made of the repository's own files and docstrings.

`mkdocs.yml` loads this file as a hook of MkDocs.
"""

import ast
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from tools import gallery, lookups, public  # noqa: E402

# Pages that are files of the repository: what they are called on the site.
PAGES = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
# The scripts of examples/, from the first steps on.
GALLERY = (
    *("first_table", "prices", "several_at_once", "wrong_decisions", "rare_outcome", "subgroups"),
    *("planner_and_greedy", "choose_treatment", "score_restorers", "grid_search", "own_method", "own_page"),
    *("shortcut", "several_completions", "cube_nm", "heart_sites", "physionet2012"),
)
GALLERY_TEXT = """
Each example is a script that runs as it stands, most of them in less than a minute on two processor cores.
`python examples/first_table.py` runs one; editors that know `# %%` run it cell by cell. Below each cell is
what it printed when it was last recorded; other machines round differently, so the last digits may differ.
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the gallery, and of reference for every public package, to the navigation."""
    examples = next(each["Gallery"] for each in config.nav or [] if "Gallery" in each)
    examples += [
        {gallery.Example.read(name).introduction[0].split(":")[0]: f"gallery/{name}.md"} for name in GALLERY
    ]
    reference = next(each["Reference"] for each in config.nav or [] if "Reference" in each)
    reference += [{name: page_of(name)} for name in public.names()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=linked((ROOT / source).read_text())))
    files.append(File.generated(config, "gallery/index.md", content=gallery_index()))
    for name in gallery.names():
        files.append(File.generated(config, f"gallery/{name}.md", content=gallery.Example.read(name).page()))
    for picture in gallery.RECORDED.glob("*.png"):
        files.append(File.generated(config, f"gallery/{picture.name}", content=picture.read_bytes()))
    for module, names in public.names().items():
        files.append(File.generated(config, page_of(module), content=reference(module, names)))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let names of scripts and pages, as texts and docstrings have them, lead to these."""

    def link(match: re.Match[str]) -> str:
        folder, name = match["folder"], match["name"]
        target = f"gallery/{name}.html" if folder == "examples" else f"{name}.html"
        known = files.get_file_from_path(target.replace(".html", ".md"))
        if known is None or target == page.url:
            return match[0]
        return f'<a href="{get_relative_url(target, page.url)}">{match[0]}</a>'

    pattern = r"<code>(?P<folder>examples|docs)/(?P<name>[\w-]+)\.(?:py|md)</code>(?!</a>)"
    return re.sub(pattern, link, html)


def gallery_index() -> str:
    """The list of examples, with the first sentence of each."""
    lines = ["# Gallery", GALLERY_TEXT.strip()]
    for name in GALLERY:
        title, text = gallery.Example.read(name).introduction
        first = re.split(r"(?<=[.?])\s", text.replace("\n", " "))[0]
        lines.append(f"- **[{title}]({name}.md)**. {first}")
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:]) + "\n"


def reference(module: str, names: list[str]) -> str:
    """A page on which the docstrings of a package and of its names come."""
    entries = [
        lookups.entry(module, name) if lookups.is_lookup(module, name) else f"::: {module}.{name}\n"
        for name in names
    ]
    return f"# `{module}`\n\n{_summary(module)}\n\n" + "\n".join(entries)


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


def _summary(module: str) -> str:
    path = public.PACKAGE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text())) or ""
