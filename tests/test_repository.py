"""Files of the repository that must agree with the package."""

import re
from pathlib import Path

import ascertain

ROOT = Path(__file__).parents[1]
_OF_THE_REPOSITORY = ("tests", "docs", "examples", "tools", "benchmarks")


def test_the_citation_has_the_version() -> None:
    found = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == ascertain.__version__


def test_the_site_has_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert pages
    assert [page for page in pages if f": {page}\n" not in navigation] == []


def test_every_folder_of_the_package_is_described() -> None:
    described = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [path.parent.name for path in (ROOT / "src" / "ascertain").glob("*/__init__.py")]
    folders += [path.name for path in ROOT.iterdir() if path.is_dir() and path.name in _OF_THE_REPOSITORY]
    assert [folder for folder in folders if f"`{folder}/`" not in described] == []
