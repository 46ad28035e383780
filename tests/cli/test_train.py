"""The commands `methods` and `train`."""

from pathlib import Path

import pandas as pd
import pytest

from ascertain import load_model, methods
from tests.cli.test_app import run

REAL = pytest.mark.needs("data")


def test_methods_list_names_every_method(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "methods", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in methods.names())
    assert "(s), (s,m)" in shown


@REAL
def test_train_prints_scores_and_writes_model_scores_and_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "trained"
    assert run(monkeypatch, "train", "sequential", "heart_disease", "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "sequential (s), complete; split 0, paper protocol" in " ".join(shown.split())
    scores = pd.read_csv(out / "scores.csv")
    assert scores["budget"].tolist() == [2, 4, 7]
    # age, sex, cp and trestbps cost a dollar each, and nothing else is as cheap.
    assert scores["mean_cost"].tolist() == [2, 4, 4]
    shares = pd.read_csv(out / "acquisitions.csv").pivot(index="step", columns="action", values="share")
    assert [shares.loc[step].idxmax() for step in (1, 2, 3, 4)] == ["age", "sex", "cp", "trestbps"]
    assert load_model(out / "model").method == "sequential"
    assert (out / "acquisitions.png").stat().st_size > 5000


@pytest.mark.slow
def test_train_learns_from_several_completions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("train", "sequential", "cube", "--set", "predictor.epochs=1", "--out", str(tmp_path / "a"))
    assert run(monkeypatch, *arguments, "--treatment", "restored", "--restorer", "hotdeck:3") == 0
    assert "restored after mcar 0.7 by hotdeck:3;" in " ".join(capsys.readouterr().out.split())
    model = load_model(tmp_path / "a" / "model")
    assert (model.train_rows, model.completions) == (600, 3)


@REAL
@pytest.mark.slow
def test_saving_training_rows_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("train", "aaco", "heart_disease", "--treatment", "restricted", "--out", str(tmp_path / "a"))
    assert run(monkeypatch, *arguments) == 0
    assert "training rows themselves" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "gdsf", "cube"), "did you mean 'gdfs'"),
        (("train", "gdfs", "cube", "--treatment", "restord"), "did you mean 'restored'"),
        (("train", "gdfs", "cube", "--protocol", "papr"), "did you mean 'paper'"),
        (("train", "gdfs", "cube", "--restorer", "hotdeck:x"), "the number of completions, as in hotdeck:6"),
        (("train", "gdfs", "cube", "--restorer", "hotdek:3"), "did you mean 'hotdeck'"),
        (("train", "gdfs", "cube", "--state", "sm"), "has the state variant 's'"),
        (("train", "gdfs", "cube", "--set", f"gdfs.epochs={'9' * 5000}"), "999... is not of the form"),
        (("train", "gdfs", "cube", "--set", f"gdfs.epochs={'[' * 5000}"), "nested deeper"),
        (("train", "gdfs", "cube", "--set", ".".join(["a"] * 2_000) + "=1"), "nested deeper"),
    ],
)
def test_what_does_not_exist_is_a_short_message(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert says in " ".join(capsys.readouterr().err.split())
