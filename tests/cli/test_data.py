"""The commands `data` and `routes`."""

import json

import pytest

from ascertain.datasets import names
from tests.cli.test_app import run

REAL = pytest.mark.needs("data")


def test_data_list_names_every_dataset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "data", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in names())


def test_data_show_gives_the_facts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "data", "show", "cube_nm", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["features"], len(facts["actions"])) == (1000, 55, 51)
    assert facts["budgets"] == [3, 5, 7, 10, 14]
    assert facts["actions"][0] == {
        "name": "context",
        "cost": 1.0,
        "reveals": [f"context{i}" for i in range(5)],
        "missing": 0.0,
    }
    assert sum(facts["classes"].values()) == 1000
    assert facts["missing"] == 0
    assert run(monkeypatch, "data", "show", "cube_nm") == 0
    assert "block4.9" in capsys.readouterr().out


@REAL
def test_data_show_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "data", "show", "physionet2012", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["missing"] == pytest.approx(0.262, abs=0.0005)
    assert facts["complete_rows"] == 0
    assert facts["missing_is"] == "kept as unavailable"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "show", "cub"], "did you mean 'cube'?"),
        (["routes", "cub"], "did you mean 'cube'?"),
        (["routes", "cube", "--protocol", "papper"], "no protocol is called 'papper'"),
        (["routes", "cube", "--budget", "0.5"], "a budget of 0.5 buys nothing"),
        (["routes", "cube", "--splits", "6"], "--splits"),
        (["routes", "cube", "--splits", "0"], "--splits"),
        (["routes"], "Missing argument"),
        (["data", "show", "cube", "--data-dir", "/nowhere"], None),
    ],
)
def test_bad_arguments_are_explained(
    arguments: list[str],
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(monkeypatch, *arguments)
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    if message is None:  # synthetic data need no folder
        assert code == 0
    else:
        assert code == 2
        assert message in shown
        assert "Traceback" not in shown


@REAL
@pytest.mark.slow
def test_routes_give_a_row_of_table_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "routes", "heart_disease", "--splits", "2", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {
        "dataset",
        "v_static",
        "v_static_se",
        "sensitivity",
        "sensitivity_se",
        "overlap",
        "overlap_se",
    } <= set(row)
    # At most 7 dollars: age, sex, cp and trestbps, or fbs with one of them, so pairs overlap by 1/5 or 1/3.
    assert row["routes"] == 5
    assert 0.2 <= row["overlap"] <= 1 / 3
    assert 0.5 < row["v_static"] < 0.95


@REAL
@pytest.mark.slow
def test_one_split_has_no_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "routes", "heart_disease", "--splits", "1", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # NaN is not JSON
    assert row["v_static_se"] is None


@REAL
def test_routes_refuse_incomplete_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "routes", "heart_sites") == 2
    assert "routes are scored on complete rows" in " ".join(capsys.readouterr().err.split())
