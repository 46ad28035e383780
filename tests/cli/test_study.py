"""The study commands as a user meets them."""

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from ascertain.cli._app import console
from ascertain.cli._processes import shares
from tests.cli.test_app import ascertain_command, run
from tests.study.studies import write_tiny

OWN_PARTS = Path(__file__).parents[2] / "examples" / "own_parts"


@pytest.fixture(scope="module")
def finished_by_command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that the command line has run."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        arguments = (
            "study",
            "run",
            str(write_tiny(folder)),
            "--out",
            str(folder / "out"),
            "--datasets",
            "cube",
        )
        assert run(patch, *arguments) == 0
    return folder / "out"


def test_run_writes_tables(finished_by_command: Path) -> None:
    results = pd.read_parquet(finished_by_command / "results.parquet")
    assert set(results["dataset"]) == {"cube"}
    assert results["cell"].nunique() == 12
    assert results["width"].eq(1).all()


def test_status_counts_cells(
    finished_by_command: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "study", "status", str(finished_by_command)) == 0
    shown = capsys.readouterr().out
    assert "tiny: 12 of 12 cells" in shown
    assert "12 cells were computed on cpu at width 1" in shown


def test_timeline_says_what_the_device_did(
    finished_by_command: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_width", 200)
    assert run(monkeypatch, "study", "timeline", str(finished_by_command)) == 0
    shown = capsys.readouterr().out
    for words in ("busy", "waits for programs", "idle", "fit random", "mask mcar"):
        assert words in shown
    assert run(monkeypatch, "study", "timeline", str(finished_by_command / "figures")) == 2


def test_a_folder_without_a_timeline_is_named_without_its_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "study", "timeline", "\x1b[31mX") == 2
    shown = capsys.readouterr().err
    assert r"\x1b[31mX has no timeline of a run" in shown
    assert "\x1b" not in shown


@pytest.mark.slow
def test_a_study_of_own_parts_runs_as_its_page_says(tmp_path: Path) -> None:
    """`docs/extend.md` goes through it; in a process of its own, since a plugin registers parts for good."""
    folder = tmp_path / "own_parts"
    shutil.copytree(OWN_PARTS, folder, ignore=shutil.ignore_patterns("own-parts", "__pycache__"))
    command = ascertain_command("--plugin", "mine.py", "study", "run", "study.toml")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = pd.read_parquet(folder / "own-parts" / "results.parquet")
    assert results["cell"].nunique() == 32
    assert results.groupby("cell")["budget"].nunique().eq(2).all()
    assert len(results) == 64
    assert results["score"].between(0, 1).all()
    assert set(results["dataset"]) == {"rings", "machines"}
    assert set(results["restorer"].dropna()) >= {"class_normal", "hotdeck"}


@pytest.mark.slow
def test_two_processes_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processor cores, with a folder that looks as if the multi-process service were running."""
    (tmp_path / "control").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    arguments = (
        "study",
        "run",
        str(write_tiny(tmp_path)),
        "--out",
        str(tmp_path / "out"),
        "--processes",
        "2",
    )
    assert run(monkeypatch, *arguments) == 0
    assert pd.read_parquet(tmp_path / "out" / "results.parquet")["cell"].nunique() == 24
    assert len(list((tmp_path / "out" / "timelines").glob("*.json"))) >= 1


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, [["a", "c"], ["b"]]),
        (3, [["a"], ["b"], ["c"]]),
        (4, [["a"], ["b"], ["c"], ["a"]]),
    ],
)
def test_processes_begin_with_different_datasets(count: int, expected: list[list[str]]) -> None:
    assert shares(["a", "b", "c"], count) == expected


def test_figures_and_report_are_written(
    finished_by_command: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "figures", str(finished_by_command), "budget-curves") == 0
    assert (finished_by_command / "figures" / "budget-curves.png").stat().st_size > 5000
    assert run(monkeypatch, "report", str(finished_by_command)) == 0
    shown = capsys.readouterr().out
    assert shown.strip().endswith("report.html")
    assert "Study tiny" in (finished_by_command / "report.html").read_text()


def test_an_unknown_figure_names_the_nearest(
    finished_by_command: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "figures", str(finished_by_command), "budget-curve") == 2
    assert "budget-curves" in capsys.readouterr().err


def test_plan_runs_nothing_and_says_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "study", "plan", str(write_tiny(tmp_path)), "--width", "4") == 0
    shown = capsys.readouterr().out
    assert "24 cells" in shown
    assert "at width 4" in shown
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.toml"}


def test_list_names_what_comes_along(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "study", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("paper", "paper-main", "small", "quick"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("study", "run", "no-such-study"), "no study file no-such-study"),
        (("study", "run", "quick", "--engine", "dusk"), "dusk"),
        (("study", "run", "quick", "--address", "tcp://127.0.0.1:1"), "--engine dask"),
        (("study", "run", "quick", "--datasets", "cubee"), "did you mean"),
        (("study", "run", "quick", "--processes", "2"), "nvidia-cuda-mps-control -d"),
        (("study", "run", "quick", "--processes", "2", "--engine", "dask"), "--engine local"),
        (("study", "run", "quick", "--processes", "2", "--first", "cube_nm"), "without --processes"),
        (("study", "run", "quick", "--first", "cube_mn"), "did you mean"),
        (("study", "status", "."), "no study.toml"),
        (("report", "."), "results.parquet"),
    ],
)
def test_mistakes_are_short_messages(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert run(monkeypatch, *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
