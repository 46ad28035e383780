"""The command `evaluate`, against scikit-learn's scores of the policy's own predictions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from ascertain import AcquisitionClassifier
from ascertain.cli._evaluate import _print_scores
from ascertain.practice._evaluate import Evaluation
from ascertain.practice.comparison._summary import cost_text
from tests.cli.test_app import run
from tests.cli.test_recommend import told
from tests.fitted import BUDGET, fitted, fitted_with_costs, patients

Output = pytest.CaptureFixture[str]


def others(n_rows: int = 160) -> pd.DataFrame:
    """Patients that no model has seen, in another order of columns, with a column of its own."""
    table = patients(n_rows, seed=9)
    ward = np.where(
        np.arange(n_rows) % 8 == 0, "small", np.where(np.arange(n_rows) % 3 == 0, "north", "south")
    )
    return table[table.columns[::-1]].assign(ward=ward)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("others") / "test.csv"
    others().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def final(model: Path) -> pd.DataFrame:
    """The prediction for every row after the policy's acquisitions, and what they cost."""
    loaded = AcquisitionClassifier.load(model)
    steps = loaded.acquire(others()[loaded.feature_names_in_]).groupby("row").last()
    right = steps["prediction"] == "yes"
    steps["sick"] = np.where(right, steps["probability"], 1 - steps["probability"])
    return steps


def evaluated(monkeypatch: pytest.MonkeyPatch, capsys: Output, *given: str) -> dict[str, Any]:
    assert run(monkeypatch, "evaluate", *given, "--effort", "low", "--json") == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_scores_are_those_of_the_policys_predictions(
    model: Path, file: Path, final: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    content = evaluated(monkeypatch, capsys, str(model), str(file), "--by", "ward,sex")
    table, y = others(), others()["sick"] == "yes"
    assert (content["target"], content["rows"]) == ("sick", 160)
    assert content["rarest_rows"] == min(y.sum(), (~y).sum())
    assert content["notes"] == []  # ward is used, though the model does not know it
    found = {
        each["metric"]: each
        for each in content["scores"]
        if each["budget"] == 6 and each["estimator"] == "restricted"
    }
    assert found["auroc"]["estimate"] == pytest.approx(roc_auc_score(y, final["sick"]), abs=1e-4)
    assert found["accuracy"]["estimate"] == pytest.approx(accuracy_score(y, final["sick"] > 0.5))
    assert found["mean_cost"]["estimate"] == pytest.approx(final["spent"].mean())
    assert found["auroc"]["low"] < found["auroc"]["estimate"] < found["auroc"]["high"]
    groups = {(each["column"], each["group"]): each for each in content["subgroups"]}
    assert list(groups) == [
        *[("ward", name) for name in ("north", "small", "south")],
        *[("sex", name) for name in ("f", "m")],
    ]
    for (column, name), group in groups.items():
        own = (table[column] == name).to_numpy()
        assert group["rows"] == own.sum()
        assert group["rarest_rows"] == min(y[own].sum(), (~y[own]).sum())
        # Nothing that the policy asks for is missing, so that both ways to score agree.
        assert group["auroc_estimate"] == pytest.approx(roc_auc_score(y[own], final["sick"][own]), abs=2e-3)
        assert group["cost_estimate"] == pytest.approx(final["spent"][own].mean(), rel=1e-5)
        assert group["auroc_low"] < group["auroc_estimate"] < group["auroc_high"]
        assert group["acquisitions_estimate"] == pytest.approx(final["step"][own].mean(), rel=1e-5)
    assert groups["ward", "small"]["rows"] == 20
    assert "20 rows, fewer than 30" in groups["ward", "small"]["warning"]
    assert groups["sex", "f"]["warning"] == ""


def test_they_are_printed_and_written(
    model: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    out = tmp_path / "scores.csv"
    given = [str(model), str(file), "--by", "ward", "--budgets", "6,0", "--effort", "low", "--out", str(out)]
    assert run(monkeypatch, "evaluate", *given) == 0
    shown, warned = map(told, capsys.readouterr())
    assert "160 rows, " in shown
    assert "of the rarest class" in shown
    assert "By ward, budget 6" in shown
    assert "20, few!" in shown
    assert "ward small: 20 rows, fewer than 30: scored as they are, and that says little." in warned
    written = pd.read_csv(out)
    assert sorted(written["budget"].unique()) == [0, 6]
    assert {"estimate", "low", "high", "n_rows", "rarest_class"} <= set(written)


@pytest.mark.slow
def test_amounts_are_cut_into_quarters_and_holes_are_a_group(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = others()
    table.loc[:39, "age"] = None
    table.to_csv(tmp_path / "test.csv", index=False)
    content = evaluated(
        monkeypatch, capsys, str(model), str(tmp_path / "test.csv"), "--by", "age", "--budgets", "6"
    )
    names = [each["group"] for each in content["subgroups"]]
    assert len(names) == 5
    assert names[-1] == "not recorded"
    lows = [float(name.split(" to ")[0]) for name in names[:-1]]
    assert lows == sorted(lows)
    assert sum(each["rows"] for each in content["subgroups"]) == 160


def test_rows_of_one_class_have_no_auroc(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = others()
    table["half"] = np.where(table["sick"] == "yes", "a", "b")
    table.to_csv(tmp_path / "test.csv", index=False)
    content = evaluated(
        monkeypatch, capsys, str(model), str(tmp_path / "test.csv"), "--by", "half", "--budgets", "6"
    )
    for group in content["subgroups"]:
        assert group["auroc_estimate"] is None
        assert "all of one class" in group["warning"]
        assert group["accuracy_estimate"] is not None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "sik"], "did you mean 'sick'?"),
        (["--target", "ward"], "has the class 'north' in 'ward', which the model does not know"),
        (["--by", "wrad"], "--by: there is no column 'wrad'; did you mean 'ward'?"),
        (["--by", "sick"], "--by: 'sick' is the target"),
        (["--budgets", "a"], "'a' is not a list of numbers"),
        (["--budgets", "-1"], "-1 is no budget"),
        (["--effort", "lots"], "no effort is called 'lots'"),
        (["--out", "x.txt"], "must end in .csv or .parquet"),
    ],
)
def test_bad_arguments_are_explained(
    more: list[str],
    message: str,
    model: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    assert run(monkeypatch, "evaluate", str(model), str(file), *more) == 2
    shown = told(capsys.readouterr().err)
    assert message in shown
    assert "Traceback" not in shown


def test_probabilities_that_do_not_hold_in_other_rows_are_warned_about(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = others(800)
    table["sick"] = np.where(np.random.default_rng(0).random(800) < 0.5, "yes", "no")  # whatever is measured
    table.to_csv(tmp_path / "test.csv", index=False)
    content = evaluated(monkeypatch, capsys, str(model), str(tmp_path / "test.csv"), "--budgets", "6")
    (warning,) = (note for note in content["notes"] if "probabilities" in note)
    assert warning.startswith("Be careful with its probabilities: they are too sure")
    (error,) = (
        each for each in content["scores"] if (each["metric"], each["estimator"]) == ("ece", "restricted")
    )
    assert f"calibration error {error['estimate']:.3f}" in warning  # nothing that is asked for is missing


def test_texts_with_many_values_make_no_subgroups(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    others().assign(name=[f"n{row}" for row in range(160)]).to_csv(tmp_path / "test.csv", index=False)
    given = [str(model), str(tmp_path / "test.csv"), "--by", "name", "--budgets", "6"]
    assert run(monkeypatch, "evaluate", *given) == 2
    assert "'name' has 160 different values, more than 12" in told(capsys.readouterr().err)


@pytest.mark.slow
def test_habits_of_measuring_are_said_and_evened_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    table = others(400)
    well = table.index[table["sick"] == "no"]
    table.loc[well[: int(0.9 * len(well))], "ecg"] = None  # the ill are measured more
    table.to_csv(tmp_path / "test.csv", index=False)
    content = evaluated(monkeypatch, capsys, str(model), str(tmp_path / "test.csv"), "--budgets", "6")
    assert any("Being measured tells the class in this table: 'ecg'" in note for note in content["notes"])


def test_what_decisions_cost_is_printed_where_it_is_known(capsys: Output) -> None:
    _, board = fitted_with_costs()
    found = Evaluation("sick", {"no": 30, "yes": 30}, board.budgets, board.best.test_scores, (), ())
    _print_scores(found)
    shown = told(capsys.readouterr().out)
    assert "decisions" in shown  # the heading may be wrapped
    assert cost_text(board.best.score(BUDGET, "dr", "decision_cost")).split()[0] in shown
    plain = replace(found, scores=fitted()[1].best.test_scores)
    _print_scores(plain)
    assert "decisions" not in told(capsys.readouterr().out)


def test_rows_that_belong_together_count_less(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Four copies of every row, said to be so, tell no more than one."""
    once = others(120).assign(case=range(120))
    pd.concat([once] * 4).to_csv(tmp_path / "copies.csv", index=False)
    once.to_csv(tmp_path / "once.csv", index=False)
    widths = {}
    for file, more in (("once", []), ("copies", []), ("copies", ["--rows-of", "case"])):
        content = evaluated(
            monkeypatch, capsys, str(model), str(tmp_path / f"{file}.csv"), "--budgets", "6", *more
        )
        found = next(
            each
            for each in content["scores"]
            if each["metric"] == "accuracy" and each["estimator"] == "restricted"
        )
        widths[file, *more] = found["high"] - found["low"]
    assert widths["copies", "--rows-of", "case"] == pytest.approx(widths["once",], rel=0.05)
    assert widths["copies",] == pytest.approx(widths["once",] / 2, rel=0.1)


def test_rows_count_by_their_weights(
    model: Path, final: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 160)
    weights[0] = 0.0
    file = tmp_path / "survey.csv"
    others().assign(w=weights).to_csv(file, index=False)
    content = evaluated(monkeypatch, capsys, str(model), str(file), "--budgets", "6", "--weights", "w")
    assert content["rows"] == 159
    assert content["notes"] == [
        "Ignored, since the model does not know it: 'ward'.",
        "1 row of weight 0 in 'w' was left out.",
    ]
    (found,) = (
        each for each in content["scores"] if (each["metric"], each["estimator"]) == ("auroc", "restricted")
    )
    expected = roc_auc_score(others()["sick"] == "yes", final["sick"], sample_weight=weights)
    assert found["estimate"] == pytest.approx(expected, abs=1e-4)
