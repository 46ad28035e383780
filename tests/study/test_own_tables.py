"""Studies on a table of the user's own, complete or with holes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain.errors import InputError
from ascertain.study import read_study, run_study
from ascertain.study._file import study_text
from ascertain.study._grid import Grid

STUDY = """
name = "own"
datasets = ["whole", "holes", "cube"]
methods = ["sequential"]
restorers = ["hotdeck"]
rates = [0.3]
splits = [0]

[settings.predictor]
epochs = 30

[tables.whole]
path = "whole.csv"
target = "fails"
budgets = [1, 2]
known = ["age"]

[tables.holes]
path = "holes.csv"
target = "fails"
costs = "prices.csv"
budgets = [2, 3.5]
groups = {both = ["c", "d"]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 5)), columns=["a", "b", "c", "d", "age"])
    table["fails"] = np.where(table["a"] + table["b"] > 0, "yes", "no")
    table.to_csv(folder / "whole.csv", index=False)
    table = table.drop(columns="age")
    # Of two measurements that the budget pays for, more than 200 rows have both; so scores can be estimated.
    table.mask(rng.random(table.shape) < [0.15] * 4 + [0.0]).to_csv(folder / "holes.csv", index=False)
    prices = pd.DataFrame({"name": ["a", "b", "both"], "cost": [1, 1, 1.5]})
    prices.to_csv(folder / "prices.csv", index=False)
    (folder / "study.toml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> pd.DataFrame:
    summary = run_study(read_study(folder / "study.toml"), folder / "out")
    assert summary.finished == summary.cells
    return pd.read_parquet(folder / "out" / "results.parquet")


def test_complete_rows_are_treated_like_any_dataset(results: pd.DataFrame) -> None:
    whole, cube = (results[results["dataset"] == name] for name in ("whole", "cube"))
    own = ["treatment", "restorer", "mechanism", "rate"]
    assert set(map(tuple, whole[own].values)) == set(map(tuple, cube[own].values))
    assert sorted(whole["budget"].unique()) == [1, 2]
    # Both columns that decide are acquired first.
    assert whole.loc[whole["budget"] == 2, "score"].min() > 0.75


def test_holes_are_scored_by_estimates_on_test_rows(results: pd.DataFrame) -> None:
    holes = results[results["dataset"] == "holes"]
    assert set(holes["treatment"]) == {"restricted", "restored"}  # no complete rows to train on
    assert holes["mechanism"].eq("").all()  # no further holes unless a mechanism is asked for
    assert holes["scored"].eq("test").all()
    assert set(holes["estimator"]) == {"ipw", "dr"}
    assert (holes["score_low"] <= holes["score"]).all()
    assert (holes["score"] <= holes["score_high"]).all()
    assert set(holes["train_budget"]) == {3.5}


def test_a_mechanism_makes_further_holes_if_asked_for(folder: Path) -> None:
    (folder / "more.toml").write_text(STUDY.replace("rates", 'mechanisms = ["mcar"]\nrates'))
    cells = [job for job in Grid(read_study(folder / "more.toml")).cells if job.dataset == "holes"]
    assert {job.mechanism for job in cells} == {"mcar"}


@pytest.mark.slow
def test_a_treatment_is_chosen_for_a_table_with_holes_of_its_own(folder: Path) -> None:
    text = STUDY.replace('"whole", "holes", "cube"', '"holes"').replace('"sequential"', '"static"')
    text = text.replace('"hotdeck"', '"hotdeck", "knn"')
    text = text.replace("splits", 'treatments = ["restricted", "restored", "auto"]\nsplits')
    before, _, after = text.partition("[tables.whole]")
    (folder / "auto.toml").write_text(before + after[after.index("[tables.holes]") :])
    summary = run_study(read_study(folder / "auto.toml"), folder / "auto")
    assert (summary.cells, summary.finished) == (4, 4)
    found = pd.read_parquet(folder / "auto" / "results.parquet").set_index(["budget", "estimator"])
    auto = found[found["treatment"] == "auto"]
    assert auto["mechanism"].eq("").all()
    picked = auto["picked"].unique().item()
    assert picked in ("restricted", "hotdeck", "knn")
    same = found[(found["restorer"] == picked) | (found["treatment"] == picked)]
    columns = ["score", "score_low", "score_high"]
    pd.testing.assert_frame_equal(auto[columns], same[columns], check_exact=True)


def test_paths_hold_from_anywhere(folder: Path, tmp_path: Path) -> None:
    study = read_study(folder / "study.toml")
    (tmp_path / "study.toml").write_text(study_text(study))
    assert read_study(tmp_path / "study.toml") == study
    assert study.tables["whole"].path == str(folder / "whole.csv")


def test_set_ups_are_part_of_the_problem(folder: Path, tmp_path: Path) -> None:
    (folder / "draws.csv").write_text("name,setup,cost\na,visit,0.5\nboth,visit,\n")
    dicts = "setup.visit = { cost = 0.5, columns = ['a', 'both'] }\nbudgets = [2, 3.5]"
    for number, setup in enumerate((dicts, "setup = 'draws.csv'\nbudgets = [2, 3.5]")):
        file = folder / f"setup{number}.toml"
        file.write_text(STUDY.replace("budgets = [2, 3.5]", setup))
        study = read_study(file)
        assert study.load()["holes"].problem.price_list.first.tolist() == [1.5, 1, 2]
        (tmp_path / "study.toml").write_text(study_text(study))
        assert read_study(tmp_path / "study.toml") == study
    assert "setup" not in study_text(read_study(folder / "study.toml"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('target = "fails"\nbudgets = [1', 'target = "fail"\nbudgets = [1', "did you mean 'fails'"),
        ("whole.csv", "hole.csv", "there is no file"),
        ("budgets = [1, 2]", "budgets = [-1]", "tables.whole.budgets must be one or more positive numbers"),
        ("budgets = [1, 2]", "budget = 2", "no key is called 'tables.whole.budget'; did you mean 'budgets'"),
        ("known =", "setup.x = { cost = 1 }\nknown =", "tables.whole.setup"),
        ("[tables.whole]", "[tables.cube]", "tables.cube: there is a dataset of this name"),
        ('["whole", "holes", "cube"]', '["whole", "cube"]', "tables.holes is not used"),
        ("rates", 'treatments = ["complete"]\nrates', "holes has missing cells of its own"),
    ],
)
def test_mistakes_name_the_key_and_the_fix(folder: Path, old: str, new: str, says: str) -> None:
    (folder / "wrong.toml").write_text(STUDY.replace(old, new, 1))
    with pytest.raises(InputError, match=says):
        Grid(read_study(folder / "wrong.toml"))


@pytest.mark.slow
def test_too_few_rows_make_no_estimate_and_no_failure(folder: Path, tmp_path: Path) -> None:
    table = pd.read_csv(folder / "holes.csv").iloc[:60]
    table.to_csv(tmp_path / "holes.csv", index=False)
    (tmp_path / "prices.csv").write_text((folder / "prices.csv").read_text())
    one = STUDY.replace('["whole", "holes", "cube"]', '["holes"]').replace(
        '["hotdeck", "knn"]', '["hotdeck"]'
    )
    start, end = one.index("[tables.whole]"), one.index("[tables.holes]")
    (tmp_path / "study.toml").write_text(one[:start] + one[end:])
    summary = run_study(read_study(tmp_path / "study.toml"), tmp_path / "out")
    assert (summary.finished, summary.failed) == (2, 0)
    assert pd.read_parquet(tmp_path / "out" / "results.parquet")["score"].isna().all()
