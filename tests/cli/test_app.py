"""The command line as a user meets it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import ascertain
from ascertain.cli import main

SMALL = [
    "--dims",
    "6",
    "--budgets",
    "2",
    "--rates",
    "0.6",
    "--sizes",
    "10,1e2",
    "--replicates",
    "2",
    "--jobs",
    "1",
]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command in this process and give its exit code."""
    monkeypatch.setattr(sys, "argv", ["ascertain", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def ascertain_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ascertain", *arguments]


def test_both_spellings_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("ascertain")
    for command in ([str(script)], ascertain_command()):
        answer = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True).stdout
        assert answer == f"ascertain {ascertain.__version__}\n"


def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "exact", "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples" in shown
    assert "ascertain exact --replicates 20" in shown
    for option in ("--dims", "--budgets", "--rates", "--sizes", "--replicates", "--seed", "--jobs", "--out"):
        assert option in shown


def test_help_begins_with_the_commands_for_a_table_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    named = re.findall(r"^│ (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert named[:6] == ["diagnose", "fit", "consult", "recommend", "evaluate", "serve"]
    assert {"train", "study", "data", "demo"} <= set(named)


@pytest.mark.slow
def test_exact_writes_a_table_and_figures_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(monkeypatch, "exact", *SMALL, "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "restoration" in shown
    for name in (
        "regret.parquet",
        "exact-study.png",
        "exact-collapse.png",
        "planning-effect.pdf",
        "availability.pdf",
    ):
        assert (out / name).is_file()
        assert str(out / name) in shown.replace("\n", "")
    assert len(pd.read_parquet(out / "regret.parquet")) == 2 * 2 * 8


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--dims", "six", "not a list of numbers"),
        ("--dims", "6.5", "Invalid value for --dims: 6.5 in '6.5' is not a whole number"),
        ("--dims", "inf", "not a whole number"),
        ("--dims", "3", "d must be"),
        ("--dims", "6,6", "lists a value twice"),
        ("--dims", "30", "2^30 atoms"),
        ("--dims", "3e9", "2^3000000000 atoms"),
        ("--sizes", "1e16", "sizes must be at most"),
        ("--sizes", "10.5", "Invalid value for --sizes"),
        ("--replicates", "99999999999999999999", "replicates must be at most"),
        ("--budgets", "1", "budget must be"),
        ("--budgets", "4", "d must be at least twice the budget"),
        ("--budgets", "", "not a list of numbers"),
        ("--rates", "1.5", "rate must be"),
        ("--rates", "nan", "rate must be"),
        ("--sizes", "0", "sizes must be"),
        ("--sizes", "10,,20", "not a list of numbers"),
        ("--replicates", "0", "replicates must be"),
        ("--replicates", "many", "--replicates"),
        ("--seed", "-1", "seed must be"),
        ("--jobs", "0", "jobs must be"),
        ("--jobz", "2", "No such option"),
    ],
)
def test_a_bad_option_is_explained_and_nothing_is_written(
    option: str,
    value: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    arguments = [*SMALL, "--out", str(out), option, value]
    assert run(monkeypatch, "exact", *arguments) == 2
    shown = capsys.readouterr().err
    assert message in " ".join(shown.replace("│", " ").split())
    assert "Traceback" not in shown
    assert not out.exists()


def test_an_out_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["exact", *SMALL], ["demo"]):
        (tmp_path / "file").write_text("kept")
        assert run(monkeypatch, *command, "--out", str(tmp_path / "file")) == 2
        assert "cannot write to" in capsys.readouterr().err
        assert (tmp_path / "file").read_text() == "kept"


def test_a_figure_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exact-study.png").mkdir()
    assert run(monkeypatch, "exact", *SMALL, "--out", str(tmp_path)) == 2
    assert "exact-study.png" in capsys.readouterr().err


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        command = ascertain_command("exact", *SMALL, "--jobs", jobs, "--out", str(tmp_path / jobs))
        subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "1/regret.parquet").read_bytes() == (tmp_path / "2/regret.parquet").read_bytes()


@pytest.mark.slow
def test_an_interrupted_run_leaves_what_is_done_and_goes_on(tmp_path: Path) -> None:
    def arguments(replicates: int, out: str) -> list[str]:
        fixed = ["--dims", "6", "--budgets", "2", "--rates", "0.6", "--sizes", "10", "--jobs", "2"]
        return ascertain_command(
            "exact", *fixed, "--replicates", str(replicates), "--out", str(tmp_path / out)
        )

    # Far more replicates than can be done before the interrupt, which comes once the workers have begun.
    long_run = subprocess.Popen(
        arguments(10**5, "a"), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "a/regret.parquet").exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # the first result is saved at once
    time.sleep(0.5)
    os.killpg(long_run.pid, signal.SIGINT)  # as Ctrl-C does: to the whole group
    _, shown = long_run.communicate(timeout=60)
    assert long_run.returncode == 130
    assert "the same command continues from there" in " ".join(shown.split())
    done = pd.read_parquet(tmp_path / "a/regret.parquet")
    assert 0 < done["replicate"].nunique() < 10**5

    wanted = 20
    for out in ("a", "b"):
        subprocess.run(arguments(wanted, out), check=True, capture_output=True)
    resumed, fresh = (pd.read_parquet(tmp_path / out / "regret.parquet") for out in ("a", "b"))
    pd.testing.assert_frame_equal(resumed[resumed["replicate"] < wanted].reset_index(drop=True), fresh)


@pytest.mark.slow
def test_the_demo_ends_with_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "demo", "--out", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path / "report.html") in shown.replace("\n", "")
    assert "first: machine" in shown  # the policy's first step
    assert "machine" in (tmp_path / "own-table/model/report.html").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "Shortened settings" in page
    assert "Exact study" in page
