"""The marker `needs`: skips by default, fails where ASCERTAIN_REQUIRE lists what is missing."""

from pathlib import Path

import pytest

SUITE = """
    import pytest

    @pytest.mark.needs("data")
    def test_reads_data():
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("ASCERTAIN_DATA", raising=False)
    monkeypatch.delenv("ASCERTAIN_REQUIRE", raising=False)
    root = Path(__file__).parents[1]
    pytester.makeconftest(root.joinpath("conftest.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(root))  # which it imports from
    pytester.makeini("[pytest]\nmarkers = needs(kind): what a test needs")
    pytester.makepyfile(SUITE)
    return pytester


@pytest.mark.slow
def test_skips_without_the_data(suite: pytest.Pytester) -> None:
    suite.runpytest_subprocess("-p", "no:xdist").assert_outcomes(skipped=1)


@pytest.mark.slow
def test_fails_where_the_data_are_required(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCERTAIN_REQUIRE", "browser,data")
    result = suite.runpytest_subprocess("-p", "no:xdist")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ASCERTAIN_REQUIRE lists data, but*"])


@pytest.mark.slow
def test_runs_with_the_data(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCERTAIN_REQUIRE", "data")
    monkeypatch.setenv("ASCERTAIN_DATA", str(suite.path))
    suite.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=1)
