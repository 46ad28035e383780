"""The command `consult`."""

import io
from pathlib import Path

import pytest

from tests.cli.test_app import run


def consult(monkeypatch: pytest.MonkeyPatch, lines: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    return run(monkeypatch, "consult", *arguments)


def test_lines_from_a_pipe_are_answered_and_shown(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "case.json"
    assert consult(monkeypatch, f"40\nf\niron=1\nsave {file}\nstop\n", str(model)) == 0
    shown = capsys.readouterr().out
    assert "empty if not known > 40\n" in shown
    assert "Measure next:" in shown
    assert "Spent 3 of 6." in shown
    told = shown.replace("\n", "")
    assert f"Continue with: ascertain consult {model} --case {file}" in told
    assert consult(monkeypatch, "stop\n", str(model), "--case", str(file), "--budget", "4") == 0
    shown = capsys.readouterr().out
    assert "age 40, sex f, iron 1" in shown
    assert "Spent 3 of 4." in shown


def test_prices_and_forbidden_tests_of_the_case(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--cost", "ecg=$4.50", "--cost", "[b]mi = 5", "--forbid", "iron")
    assert consult(monkeypatch, "\n\nlist\nstop\n", str(model), *given) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "trained for other prices (ecg 4.5 instead of 2, [b]mi 5 instead of 1)" in shown
    assert "Forbidden blood" in shown


def test_the_end_of_the_pipe_is_no_error_and_says_what_is_lost(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert consult(monkeypatch, "40\n", str(model)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The case was not saved. Next time, `save FILE` keeps it" in shown
    assert consult(monkeypatch, "", str(model)) == 0
    assert "not saved" not in capsys.readouterr().out  # nothing was entered


def test_an_interruption_ends_with_its_own_code(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    assert run(monkeypatch, "consult", str(model)) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["MODEL", "--budget", "-1"], "greater than or equal to 0"),
        (["MODEL", "--case", "nowhere.json"], "there is no file nowhere.json"),
        (["MODEL", "--cost", "ecg"], "--cost takes NAME=AMOUNT, such as scan=30, got 'ecg'"),
        (["MODEL", "--cost", "egc=3"], "costs has 'egc', which cannot be bought; did you mean 'ecg'"),
        (["MODEL", "--cost", "age=3"], "'age', which is known from the start and costs nothing"),
        (["MODEL", "--forbid", "egc"], "forbid has 'egc', which cannot be measured"),
    ],
)
def test_bad_arguments_are_explained(
    arguments: list[str],
    message: str,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(model) if each == "MODEL" else each for each in arguments]
    assert consult(monkeypatch, "", *given) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in shown
    assert "Traceback" not in shown
