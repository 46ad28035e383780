"""The command `recommend`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier
from ascertain.practice import _recommend
from tests.cli.test_app import run
from tests.fitted import patients

Output = pytest.CaptureFixture[str]
MODEL_COLUMNS = ("action", "cost", "score", "why", "prediction", "probability", "low", "high")


def new_patients(n_rows: int = 12) -> pd.DataFrame:
    """Patients of whom age, sex and some of the rest are known, in another order, with a name each."""
    rng = np.random.default_rng(1)
    table = patients(n_rows).drop(columns="sick")
    for column in ("ecg", "iron", "tibc", "pain", "[b]mi"):
        table[column] = table[column].mask(rng.random(n_rows) < 0.6)
    table["scan"] = table["scan"].where(table.index == 2)
    return table[table.columns[::-1]].assign(patient=[f"P{row}" for row in range(n_rows)])


def told(printed: str) -> str:
    return " ".join(printed.replace("│", " ").split())


@pytest.mark.parametrize("name", ["next.csv", "next.parquet"])
def test_every_row_gets_what_the_classifier_recommends(
    name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table, out = new_patients(), tmp_path / name
    table.to_csv(tmp_path / "new.csv", index=False)
    given = [str(model), str(tmp_path / "new.csv"), "--id", "patient", "--out", str(out)]
    assert run(monkeypatch, "recommend", *given) == 0
    found = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
    loaded = AcquisitionClassifier.load(model)
    expected = loaded.recommend(table[loaded.feature_names_in_])
    assert found["patient"].tolist() == table["patient"].tolist()
    for column in MODEL_COLUMNS:
        if not pd.api.types.is_numeric_dtype(expected[column]):
            own = found[column].astype(object)
            assert own.where(own.notna(), None).tolist() == expected[column].tolist()
        else:
            np.testing.assert_allclose(found[column], expected[column], rtol=1e-5)
            if name.endswith("csv"):
                assert pd.read_csv(out, dtype=str)[column].dropna().str.len().max() <= len("-0.0001234567")
    shown = told(capsys.readouterr().out)
    assert "12 rows, budget 6" in shown
    asked = expected["action"].value_counts()
    assert len(asked) > 0
    for action, count in asked.items():
        assert f"{action} {count} {count / 12:.0%}" in shown
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_rows_are_handled_in_turns_and_numbered(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, table = AcquisitionClassifier.load(model), new_patients(60)
    whole = _recommend.recommend_rows(loaded, table).table
    monkeypatch.setattr(_recommend, "ROWS_AT_ONCE", 25)
    done: list[int] = []
    turns = _recommend.recommend_rows(loaded, table, on_rows=done.append).table
    assert done == [25, 60]  # the last turn is not smaller than the others
    assert turns["row"].tolist() == list(range(2, 62))
    pd.testing.assert_frame_equal(turns, whole, rtol=1e-5)


def test_a_budget_and_what_was_spent(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = new_patients().assign(paid=np.arange(12.0) / 4)
    file = tmp_path / "new.csv"
    table.to_csv(file, index=False)

    def recommended(*more: str) -> dict[str, Any]:
        assert run(monkeypatch, "recommend", str(model), str(file), "--json", *more) == 0
        content: dict[str, Any] = json.loads(capsys.readouterr().out)
        return content

    nothing = recommended("--budget", "0")
    assert nothing["budget"] == 0
    assert nothing["next"] == {}
    assert sum(nothing["stops"].values()) == 12
    paid = recommended("--spent", "paid", "--budget", "3")
    left = 3 - table["paid"]
    assert all(row["cost"] <= rest for row, rest in zip(paid["recommendations"], left, strict=True))
    assert any(row["cost"] > 0 for row in paid["recommendations"])
    assert paid["notes"] == ["Ignored, since the model does not know it: 'patient'."]
    assert any("counts as paid for" in note for note in nothing["notes"])


def test_prices_and_forbidden_tests_of_these_cases(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file = tmp_path / "new.csv"
    table = new_patients().assign(ecg=np.nan)
    table.to_csv(file, index=False)
    given = ["--json", "--cost", "[b]mi=0,25 EUR", "--forbid", "iron", "--forbid", "pain"]
    assert run(monkeypatch, "recommend", str(model), str(file), *given) == 0
    content = json.loads(capsys.readouterr().out)
    assert any("trained for other prices ([b]mi 0.25 instead of 1)" in note for note in content["notes"])
    rows = content["recommendations"]
    assert {row["action"] for row in rows} <= {"[b]mi", "ecg", None}
    assert all(row["cost"] == 0.25 for row in rows if row["action"] == "[b]mi")
    assert "note" not in rows[0]


def test_several_may_be_ordered_at_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file, out = tmp_path / "new.csv", tmp_path / "next.csv"
    table = new_patients().drop(columns=["patient", "scan"])
    table.to_csv(file, index=False)
    given = [str(model), str(file), "--batch", "2", "--spent", "0", "--out", str(out)]
    assert run(monkeypatch, "recommend", *given) == 0
    found = pd.read_csv(out)
    loaded = AcquisitionClassifier.load(model)
    expected = loaded.recommend(table.assign(scan=np.nan)[loaded.feature_names_in_], spent=0, batch=2)
    for place, column in enumerate(("action_1", "action_2")):
        own = found[column].astype(object)
        assert own.where(own.notna(), None).tolist() == [
            names[place] if place < len(names) else None for names in expected["actions"]
        ]
    assert found["action_2"].notna().any()
    assert "Mean cost of what is ordered" in told(capsys.readouterr().out)


def test_what_does_not_match_is_said(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = new_patients().drop(columns=["patient", "scan"]).rename(columns={"ecg": "ECG"})
    table.loc[3, "sex"] = "x"
    table.loc[4, "age"] = 150
    file, out = tmp_path / "new.csv", tmp_path / "next.csv"
    table.to_csv(file, index=False)
    assert run(monkeypatch, "recommend", str(model), str(file), "--out", str(out)) == 0
    shown, warned = map(told, capsys.readouterr())
    assert "Ignored, since the model does not know it: 'ECG'" in warned
    assert "Not in the table, and so taken as not measured: 'ecg', 'scan'" in warned
    assert "Did you mean 'ecg' by 'ECG'?" in warned
    assert "Column 'sex': 1 cell with a category that training did not have ('x')" in warned
    assert "2 rows with a value that training did not have" in shown
    found = pd.read_csv(out, keep_default_na=False)
    assert found["outside"].tolist() == ["", "", "", "sex", "age", *[""] * 7]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "name a file for the recommendations with --out, or add --json"),
        (["--out", "next.txt"], "must end in .csv or .parquet"),
        (["--out", "TABLE"], "is the table that is read"),
        (["--out", "nowhere/next.csv"], "there is no folder nowhere"),
        (["--json", "--id", "pateint"], "--id: there is no column 'pateint'; did you mean 'patient'?"),
        (["--json", "--spent", "much"], "--spent must be a number or a column, got 'much'"),
        (["--json", "--spent", "patient"], "the column 'patient' holds 'P0' in row 2"),
        (["--json", "--budget", "-1"], "greater than or equal to 0"),
    ],
)
def test_bad_arguments_are_explained(
    more: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    file = tmp_path / "new.csv"
    new_patients().to_csv(file, index=False)
    given = [str(file) if each == "TABLE" else each for each in more]
    assert run(monkeypatch, "recommend", str(model), str(file), *given) == 2
    shown = told(capsys.readouterr().err)
    assert message in shown
    assert "Traceback" not in shown


def test_rows_are_counted_as_in_a_spreadsheet(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file, out = tmp_path / "new.csv", tmp_path / "next.csv"
    table = new_patients().drop(columns="patient")
    table.to_csv(file, index=False)
    assert run(monkeypatch, "recommend", str(model), str(file), "--out", str(out)) == 0
    assert pd.read_csv(out)["row"].tolist() == list(range(2, 14))
    table.astype({"age": object}).assign(age=[*range(20, 30), "old", 40]).to_csv(file, index=False)
    assert run(monkeypatch, "recommend", str(model), str(file), "--out", str(out)) == 2
    shown = told(capsys.readouterr().err)
    assert "the column 'age' holds the text 'old' in row 12" in shown


def test_a_table_of_something_else_is_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("colour,size\nred,1\n")
    assert run(monkeypatch, "recommend", str(model), str(file), "--json") == 2
    assert "the table has none of the model's columns" in told(capsys.readouterr().err)
