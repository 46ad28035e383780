"""A plugin for pytest: which statements of the package the tests run, for coverage.py to report.

python -m pytest -p tests.statements && coverage combine && coverage report
"""

import os
from pathlib import Path

import pytest
from coverage.data import CoverageData
from jaxtyping import _import_hook

from tests.notes import RAN, Noting

PACKAGE = Path(__file__).parents[1] / "src" / "ascertain"
_import_hook.JaxtypingTransformer = Noting  # type: ignore[misc]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Write a data file of coverage.py, which also has the files that were never imported."""
    data = CoverageData(basename=".coverage", suffix=str(os.getpid()))
    data.add_lines(RAN)
    data.touch_files([str(path) for path in PACKAGE.rglob("*.py")])
    data.write()
