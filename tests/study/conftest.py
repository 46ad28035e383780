"""One finished study that the tests look at."""

from pathlib import Path

import pytest

from ascertain.study import run_study
from ascertain.study._runners import LocalRunner
from tests.study.studies import tiny


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished tiny study at width 2."""
    folder = tmp_path_factory.mktemp("study") / "tiny"
    summary = run_study(tiny(), folder, runner=LocalRunner(width=2))
    assert (summary.cells, summary.finished, summary.failed) == (24, 24, 0)
    return folder
