"""Names and values with control characters: shown as escapes in the terminal and on pages."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain._core.text import visible
from tests.cli.test_app import run

RED, TITLE, BACKWARDS = "\x1b[31m", "\x1b]0;owned\x07", "\u202e"
SCAN, ILL, NOTE = f"scan{RED}", f"ill{TITLE}", f"odd{BACKWARDS}"
QUICK = ["--method", "static", "--treatment", "restricted", "--restorer", "hotdeck", "--effort", "low"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    scan = rng.normal(size=200).round(3)
    rows = pd.DataFrame({SCAN: scan, NOTE: "x\x9b2J", "hat": rng.choice([f"red{RED}", "blue"], 200)})
    rows[f"more{RED}"] = rng.normal(size=200).round(3)
    rows["target"] = np.where(scan + 0.5 * rng.normal(size=200) > 0, ILL, "well")
    path = tmp_path_factory.mktemp("hostile") / f"mine{RED}.csv"
    rows.mask(rng.random(rows.shape) < [[0.2, 0.2, 0.2, 0.2, 0]]).to_csv(path, index=False)
    return path


def harmless(text: str) -> bool:
    return not any(mark in text for mark in ("\x1b", "\x07", "\x9b", BACKWARDS))


def test_line_breaks_and_letters_stay() -> None:
    assert visible("größe\t1\n\N{HEBREW LETTER ALEF}") == "größe\t1\n\N{HEBREW LETTER ALEF}"
    assert visible("a\x1bb\r\x7f\u2066\ud800") == r"a\x1bb\x0d\x7f\u2066\ud800"


def test_diagnose_shows_them(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "diagnose", str(table), "--target", "target") == 0
    out, err = capsys.readouterr()
    page = table.with_name(f"mine{RED}-diagnosis.html").read_text()
    assert harmless(out)
    assert harmless(err)
    assert harmless(page)
    assert r"scan\x1b[31m" in out
    assert r"scan\x1b[31m" in page
    assert r"ill\x1b]0;owned\x07" in out
    assert r"odd\u202e" in err  # constant, so set aside with a line
    assert run(monkeypatch, "diagnose", str(table), "--target", "nothing") == 2
    assert harmless(capsys.readouterr().err)


@pytest.mark.slow
def test_fit_and_consult_show_them(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / f"model{RED}"
    arguments = [str(table), "--target", "target", "--budget", "2", *QUICK, "--out", str(model)]
    assert run(monkeypatch, "fit", *arguments) == 0
    out, err = capsys.readouterr()
    page = (model / "report.html").read_text()
    assert harmless(out)
    assert harmless(err)
    assert harmless(page)
    assert r"scan\x1b[31m" in page
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SCAN}=1\noptions\nhat=red{RED}\nstop\n"))
    assert run(monkeypatch, "consult", str(model)) == 0
    out, err = capsys.readouterr()
    assert harmless(out)
    assert harmless(err)
    assert r"scan\x1b[31m" in out
    assert r"ill\x1b]0;owned\x07" in out
