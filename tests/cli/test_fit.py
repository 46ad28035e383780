"""The command `fit`."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from ascertain import AcquisitionClassifier
from ascertain._core.files import replacing
from ascertain.cli._fit import _candidates, _print_leaderboard, check_folder
from tests.cli.test_app import run
from tests.fitted import fitted_with_costs, patients, write_patients

QUICK = ["--method", "static", "--treatment", "restricted", "--restorer", "hotdeck", "--effort", "low"]


def arguments(table: Path, out: Path) -> list[str]:
    prices, panels = str(table.with_name("prices.csv")), str(table.with_name("panels.csv"))
    problem = [
        "--target",
        "sick",
        "--costs",
        prices,
        "--groups",
        panels,
        "--known",
        "age,sex",
        "--budget",
        "6",
    ]
    return [str(table), *problem, "--out", str(out)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_patients(tmp_path_factory.mktemp("table"))


def test_a_model_and_its_report_are_written(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "model"
    assert run(monkeypatch, "fit", *arguments(table, out), *QUICK, "--by", "sex,pain") == 0
    shown, told = (" ".join(each.split()) for each in capsys.readouterr())
    assert "the hot deck keeps the training rows" in told
    assert re.search(r"predictor: [0-9.]+ s", told)
    assert "Test rows, budget 6" in shown
    assert re.search(r"On test rows its AUROC is 0\.\d+ \(0\.\d+ to [01]\.\d+\)", shown)
    assert "What it does first (100% of rows do exactly this)" in shown
    assert "blood" in shown
    assert f"ascertain consult {out}" in shown
    assert {each.name for each in out.iterdir()} == {"model.safetensors", "report.html", "card.md"}
    model = AcquisitionClassifier.load(out)
    rows = patients().drop(columns="sick")
    sick = (patients()["sick"] == "yes").to_numpy()
    predicted = model.predict_proba(rows)[:, list(model.classes_).index("yes")]
    assert predicted[sick].mean() > predicted[~sick].mean() + 0.3
    _check_page(html.unescape((out / "report.html").read_text()), table)
    _check_card((out / "card.md").read_text(), table)
    assert "By pain, budget 6" in shown
    (out / "notes.txt").write_text("mine")
    check_folder(out, force=False)  # a model may be replaced, whatever else is there


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_all_that_is_found_can_be_had_as_json(
    weighted: bool,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, more = table, []
    if weighted:  # the old count three times, and one row not at all
        rows = patients()
        rows["weight"] = np.where(rows["age"] > 60, 3.0, 1.0)
        rows.loc[0, "weight"] = 0.0
        file, more = table.with_name("weighted.csv"), ["--weights", "weight"]
        rows.to_csv(file, index=False)
    out = tmp_path / "model"
    assert run(monkeypatch, "fit", *arguments(file, out), *QUICK, *more, "--json") == 0
    shown, told = capsys.readouterr()
    found = json.loads(shown)
    assert (found["target"], found["classes"], found["budget"]) == ("sick", ["no", "yes"], 6.0)
    assert sum(found["rows"].values()) == 240 - weighted
    (policy,) = found["policies"]
    assert (policy["method"], policy["chosen"], policy["name"]) == ("static", True, found["chosen"])
    (auroc,) = (
        each
        for each in policy["scores"]
        if (each["budget"], each["estimator"], each["metric"]) == (6.0, found["estimator"], "auroc")
    )
    assert 0.5 < auroc["low"] < auroc["estimate"] < auroc["high"] < 1
    assert (auroc["effective_rows"] < auroc["n_rows"] - 1) == weighted
    assert ("1 row is left out: its weight in 'weight' is 0" in " ".join(told.split())) == weighted
    assert ("Rows count by" in (out / "card.md").read_text()) == weighted
    assert "weight" not in AcquisitionClassifier.load(out).feature_names_in_


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--stop-early"], "--stop-early weighs prices against what wrong decisions cost"),
        (["--weights", "wieght"], "no column 'wieght' to say how much rows count"),
        (["--weights", "pain"], "(--weights) holds 'strong' in row 2"),
    ],
)
def test_mistakes_about_weights_and_stopping_are_found_first(
    more: list[str],
    message: str,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "fit", *arguments(table, tmp_path / "model"), *more) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def _check_page(page: str, table: Path) -> None:
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert str(table.parent) not in page  # a page that is passed on does not tell how a disk is laid out
    for title in (
        "Result: same panel for everybody (static route, restricted)",
        "What it does first",
        "Calibration",
        "Where it comes from",
    ):
        assert title in page
    for sentence in ("A person decides", "60 to test", "never bought: scan", "Effective rows"):
        assert sentence in page
    assert page.count("data:image/") == 4
    assert "[b]mi" in page


def _check_card(card: str, table: Path) -> None:
    """The card has what is known, in Markdown that no name of a column can break."""
    assert card.startswith("# Model card: what to measure next for 'sick'\n")
    assert str(table.parent) not in card
    for heading in (
        "## What it is for, and what not",
        "## Results",
        "### By sex",
        "### By pain",
        "## Data",
        "## Measurements, prices and holes",
        "## Method",
        "## Who may have it",
        "## Where it comes from",
    ):
        assert f"\n{heading}\n" in card
    rows = patients()
    ill = int((rows["sick"] == "yes").sum())
    assert re.search(rf"\| yes \| {ill} \| {ill / 240:.1%} \| \d+ \|", card)
    assert "- Rows: 240 with a class, 0 without" in card
    assert "\\[b\\]mi" in card
    assert "[b]mi" not in card
    assert re.search(r"On test rows its AUROC is 0\.\d+ \(0\.\d+ to [01]\.\d+\)", card)
    assert re.search(r"\n\| f \| \d+", card)
    assert "keeps the training rows" in card
    assert "- Seed: 0" in card
    assert "ascertain " in card
    assert card.count("\n\n\n") == 0
    for line in card.splitlines():  # every row of a table has as many cells as its head
        assert not line.startswith("|") or line.endswith("|")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--by", "sx"], "--by: there is no column 'sx'; did you mean 'sex'?"),
        (["--by", "sick"], "--by: 'sick' is the target"),
        (["--method", "gdsf"], "did you mean 'gdfs'"),
        (["--method", "gdfs", "--state", "sm"], "gdfs has the state variant 's'"),
        (["--treatment", "restricted"], "name it with --method"),
        (["--effort", "lots"], "no effort is called 'lots'; there are 'standard', 'low'"),
        (["--restorer", "hotdec"], "did you mean 'hotdeck'"),
        (["--test-fraction", "1"], "the test fraction must be above 0 and below 1"),
        (["--budget", "0.5"], "a budget of 0.5 buys nothing"),
        (["--target", "sik"], "did you mean 'sick'?"),
        (["--known", "agee"], "did you mean 'age'?"),
    ],
)
def test_bad_arguments_are_explained_before_anything_is_fitted(
    more: list[str],
    message: str,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "model"
    assert run(monkeypatch, "fit", *arguments(table, out), *more) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in shown
    assert "Traceback" not in shown
    assert not out.exists()


@pytest.mark.parametrize("content", [{"notes.txt": "mine"}, {"model.safetensors": "theirs"}])
def test_folders_of_other_things_are_left_alone(
    content: dict[str, str],
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    for name, text in content.items():
        (out / name).write_text(text)
    assert run(monkeypatch, "fit", *arguments(table, out), *QUICK) == 2
    assert "contains files but no model of ascertain" in " ".join(capsys.readouterr().err.split())
    assert {each.name: each.read_text() for each in out.iterdir()} == content
    (tmp_path / "file").touch()
    for name in ("file", "m.safetensors"):
        assert run(monkeypatch, "fit", *arguments(table, tmp_path / name), *QUICK, "--force") == 2
        assert "is a file; --out names a folder" in " ".join(capsys.readouterr().err.split())
    if "model.safetensors" in content:  # which is not overwritten, and that is said before anything is fitted
        assert run(monkeypatch, "fit", *arguments(table, out), *QUICK, "--force") == 2
        assert "is no model of this version" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("out", ["/proc/model", "/dev/null/model"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "fit", *arguments(tmp_path / "no_such.csv", Path(out)), *QUICK) == 2
    assert f"nothing can be written to {out}" in " ".join(capsys.readouterr().err.split())


def test_checking_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b", force=False)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_in_nobodys_way(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model-{}.safetensors", "report-{}.html", "card-{}.md"):
        (tmp_path / f".{name.format('a' * 32)}").touch()
    assert run(monkeypatch, "fit", *arguments(table, tmp_path), *QUICK) == 0
    assert {each.name for each in tmp_path.iterdir()} == {"model.safetensors", "report.html", "card.md"}


def test_an_interruption_writes_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ascertain.practice.comparison._leaderboard.fit_advisor", interrupt)
    assert run(monkeypatch, "fit", *arguments(table, tmp_path / "model"), *QUICK) == 130
    assert "Interrupted. Nothing was written." in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_names_are_wrapped_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, board = fitted_with_costs()
    _print_leaderboard(board)
    shown = capsys.readouterr().out
    assert "\u2026" not in shown  # the ellipsis of what is cut off
    for word in ("(sequential,", "(static", "restricted)", "decisions"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "fit", "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples" in shown
    for option in ("--target", "--out", "--method", "--treatment", "--effort", "--test-fraction", "--force"):
        assert option in shown


def test_auto_is_for_every_method() -> None:
    found = _candidates(None, "s", "auto", None, "standard")
    assert [(each.method, each.treatment) for each in found] == [
        (name, "auto") for name in ("planner", "gdfs", "dime", "static")
    ]
    assert [each.treatment for each in _candidates("gdfs", "s", "auto", None, "low")] == ["auto"]


@pytest.mark.slow
def test_auto_is_explained_on_the_terminal_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = write_patients(tmp_path), tmp_path / "model"
    quick = ["--method", "static", "--treatment", "auto", "--restorer", "hotdeck", "--effort", "low"]
    assert run(monkeypatch, "fit", *arguments(table, out), *quick) == 0
    shown, told = (" ".join(each.split()) for each in capsys.readouterr())
    assert "the hot deck keeps the training rows" in told  # the one for new rows, as it was asked for
    model = AcquisitionClassifier.load(out)
    assert (
        f"Treatment of the holes: same panel for everybody (static route, auto: {model.treatment_})" in shown
    )
    assert f"{model.treatment_} was chosen:" in shown
    page = html.unescape((out / "report.html").read_text())
    assert "Treatments of the holes, by method" in page
    for each in model.auto_["candidate"]:
        assert each in page


@pytest.mark.slow
def test_the_default_set_learns_from_rows_with_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_patients(tmp_path)
    holes = patients(600)
    some = holes["iron"].sample(frac=0.3, random_state=0).index
    holes.loc[some, ["iron", "tibc"]] = None
    with replacing(table) as temporary:
        holes.to_csv(temporary, index=False)
    assert run(monkeypatch, "fit", *arguments(table, tmp_path / "model"), "--effort", "low") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "interval, doubly robust estimate), the highest of all" in shown
    page = (tmp_path / "model" / "report.html").read_text()
    for name in (
        "plans ahead (planner, direct)",
        "same panel for everybody",
        "random order",
        "AUROC by budget",
    ):
        assert name in page
