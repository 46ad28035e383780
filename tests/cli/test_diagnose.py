"""The command `diagnose`."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_app import run

REAL = pytest.mark.needs("data")


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    sick = np.where(np.arange(120) % 3 == 0, "yes", "no")
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=["ecg", "scan", "[b]lood"])
    table = table.mask(rng.random(table.shape) < 0.4).assign(age=rng.integers(20, 90, 120), sick=sick)
    table.loc[3, "sick"] = None
    path = tmp_path / "patients.csv"
    table.to_csv(path, index=False, na_rep="?")
    (tmp_path / "prices.csv").write_text("name,cost\necg,$2\nscan,$10\nmri,$99\n")
    (tmp_path / "panels.json").write_text('{"imaging": ["ecg", "scan"]}')
    return path


@pytest.mark.filterwarnings("default")  # the command line prints them
def test_it_prints_a_summary_and_writes_a_page(
    patients: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = str(patients.with_name("prices.csv"))
    options = [
        "--target",
        "sick",
        "--costs",
        prices,
        "--default-cost",
        "1",
        "--budget",
        "3",
        "--known",
        "age",
    ]
    assert run(monkeypatch, "diagnose", str(patients), *options) == 0
    shown, told = capsys.readouterr()
    told = " ".join(told.split())
    words = " ".join(shown.split())
    assert "1 rows have no 'sick' and were dropped; 119 are left." in told
    assert told.count("costs: 'mri' is no column and is ignored") == 1
    assert "3 that can be bought" in words
    assert "[b]lood" in words  # not taken for markup
    assert "Advice" in words
    assert "These cost more than the budget: 'scan' (10)." in words
    assert "set-up" not in words
    assert "Which restorer suits this table: add --restorers all" in words
    page = patients.with_name("patients-diagnosis.html")
    assert str(page) in shown.replace("\n", "")
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_json_is_all_that_is_printed(
    patients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "elsewhere" / "page.html"
    panels = str(patients.with_name("panels.json"))
    options = ["--target", "sick", "--groups", panels, "--out", str(out), "--json"]
    assert run(monkeypatch, "diagnose", str(patients), *options) == 0
    content = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # NaN is not JSON
    assert set(content) == {"table", "holes", "support", "routes", "advice"}
    assert set(content["holes"]["missing"]) == {"imaging", "[b]lood", "age"}
    assert content["table"]["unlabelled"] == 1
    assert {each["kind"] for each in content["advice"]} == {"do", "care", "limit"}
    assert out.is_file()


def test_set_ups_are_shown_with_prices(
    patients: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = patients.with_name("prices.csv")
    prices.write_text("name,cost,setup,setup cost\necg,2,,\nscan,1,[room],5\n[b]lood,1,,\n")
    options = [str(patients), "--target", "sick", "--costs", str(prices), "--budget", "4", "--known", "age"]
    assert run(monkeypatch, "diagnose", *options) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "cost set-up, once" in words
    assert "% 1 5 for '[room]'" in words
    assert "These cost more than the budget: 'scan' (1 and 5 for '[room]')." in words
    page = patients.with_name("patients-diagnosis.html").read_text()
    assert "Set-up, once" in page
    assert "5 for &#39;[room]&#39;" in page
    assert run(monkeypatch, "diagnose", *options, "--json") == 0
    columns = {each["name"]: each for each in json.loads(capsys.readouterr().out)["table"]["columns"]}
    assert (columns["scan"]["cost"], columns["scan"]["setups"]) == (1, {"[room]": 5})
    assert columns["ecg"]["setups"] == {}


def test_restorers_are_scored_if_asked_for(
    patients: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "diagnose", str(patients), "--target", "sick", "--restorers", "hotdeck,mean") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "restorer score difference standard error seconds" in words
    assert re.search(r" mean \d\.\d{4} \+\d", words)  # worse than draws
    assert "cannot see values that are missing because of what they are" in words
    assert "--restorers" not in words
    assert "Scores of restorers" in patients.with_name("patients-diagnosis.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "sick", "--restorers", "hotdek"], "did you mean 'hotdeck'"),
        (["--target", "sik"], "no column 'sik'; did you mean 'sick'?"),
        ([], "Missing option"),
        (["--target", "sick", "--budget", "0.5"], "a budget of 0.5 buys nothing"),
        (["--target", "sick", "--known", "agee"], "did you mean 'age'?"),
        (["--target", "sick", "--costs", "nowhere.csv"], "there is no file"),
        (["--target", "sick", "--costs", "BAD"], "bad.csv, line 2: the cost of 'scan' is 'dear'"),
        (["--target", "sick", "--costs", "OTHER"], "lacks 3 of 4 columns: 'scan', '[b]lood', 'age'; list"),
        (["--target", "sick", "--default-cost", "-1"], "(default_cost) is -1.0; costs are finite"),
        (["--target", "sick", "--sep", "::"], "a separator is a single character"),
    ],
)
def test_bad_arguments_are_explained(
    arguments: list[str],
    message: str,
    patients: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {"BAD": ("bad.csv", "ecg,1\nscan,dear\n"), "OTHER": ("other.csv", "ecg,1\n")}
    for name, (file, text) in files.items():
        patients.with_name(file).write_text(text)
        arguments = [str(patients.with_name(file)) if each == name else each for each in arguments]
    assert run(monkeypatch, "diagnose", str(patients), *arguments) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in shown
    assert "Traceback" not in shown
    assert not patients.with_name("patients-diagnosis.html").exists()


def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "diagnose", "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples" in shown
    for option in (
        "--target",
        "--costs",
        "--budget",
        "--known",
        "--groups",
        "--sep",
        "--na",
        "--out",
        "--restorers",
        "--json",
    ):
        assert option in shown


@REAL
@pytest.mark.slow
def test_physionet_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(os.environ["ASCERTAIN_DATA"]) / "physionet2012" / "physionet.csv.gz"
    options = ["--target", "Outcome", "--budget", "5", "--out", str(tmp_path / "page.html"), "--json"]
    assert run(monkeypatch, "diagnose", str(file), *options) == 0
    content = json.loads(capsys.readouterr().out)
    table = pd.read_csv(file)
    gaps = table.drop(columns=["Outcome", "MechVent"]).isna()  # who is ventilated has a 1, others nothing
    assert content["holes"]["rate"] == pytest.approx(gaps.to_numpy().mean())
    assert content["support"]["complete"] == 0
    assert content["support"]["expected_path"] == pytest.approx(12000 * (1 - gaps.to_numpy().mean()) ** 5)
    assert content["support"]["pairs_apart"] == []


def test_shares_and_scores_are_of_weighted_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    old = rng.random(600) < 0.5
    table = pd.DataFrame(rng.normal(size=(600, 2)), columns=["scan", "blood"])
    table["sick"] = np.where(table["scan"] + rng.normal(size=600) > 0, "yes", "no")
    table["scan"] = table["scan"].mask(old & (rng.random(600) < 0.8))  # hardly measured in the old
    path = tmp_path / "survey.csv"
    table.assign(w=np.where(old, 9.0, 1.0)).to_csv(path, index=False)
    given = [str(path), "--target", "sick", "--budget", "1", "--json"]
    assert run(monkeypatch, "diagnose", *given, "--weights", "w") == 0
    weighted = json.loads(capsys.readouterr().out)
    share = float(np.average(table["scan"].isna(), weights=np.where(old, 9.0, 1.0)))
    assert weighted["holes"]["missing"]["scan"] == pytest.approx(share)
    assert weighted["holes"]["missing"].keys() == {"scan", "blood"}
    assert (weighted["table"]["rows"], weighted["table"]["weighted_by"]) == (600, "w")
    assert weighted["table"]["effective_rows"] == pytest.approx(600 / 2 * 100 / 82, rel=0.1)
    assert weighted["routes"]["best"] == ["scan"]
