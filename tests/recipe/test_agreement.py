"""`ascertain train` is one cell of a study: the same score to the last bit, on one device at width 1."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ascertain.datasets import load
from ascertain.recipe import Recipe, train_policy
from ascertain.study import run_study
from ascertain.study._file import Study
from ascertain.study._runners import LocalRunner

SETTINGS: dict[str, dict[str, Any]] = {
    "predictor": {"epochs": 3},
    "gdfs": {"epochs": 2, "pretraining_epochs": 2, "temperatures": (1.0, 0.1)},
    "pvae": {"schedule": {"max_rounds": 2, "stop_from": 0}},
}
STUDY = Study.model_validate(
    {
        "name": "agreement",
        "datasets": ("cube_nuc",),
        "methods": ("gdfs",),
        "mechanisms": ("mar",),
        "rates": (0.5,),
        "restorers": ("pvae_noise",),
        "splits": (1,),
        "routes": False,
        "settings": SETTINGS,
    }
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("agreement")
    run_study(STUDY, folder, runner=LocalRunner(width=1))
    return pd.read_parquet(folder / "results.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("treatment", ["complete", "restricted", "restored"])
def test_training_gives_the_score_of_the_studys_cell(results: pd.DataFrame, treatment: str) -> None:
    recipe = Recipe(
        "gdfs",
        treatment=treatment,
        mechanism="mar",
        rate=0.5,
        restorer="pvae_noise",
        split=1,
        settings=SETTINGS,
    )
    trained = train_policy(load("cube_nuc"), recipe).scores
    cell = results[results["treatment"] == treatment].reset_index(drop=True)
    pd.testing.assert_frame_equal(trained, cell[list(trained.columns)], check_exact=True)


@pytest.mark.slow
def test_it_can_be_scored_on_test_rows(results: pd.DataFrame, tmp_path: Path) -> None:
    study = STUDY.model_copy(update={"scored": "test", "treatments": ("complete",)})
    run_study(study, tmp_path, runner=LocalRunner(width=1))
    cell = pd.read_parquet(tmp_path / "results.parquet")
    assert cell["scored"].eq("test").all()
    recipe = Recipe("gdfs", split=1, scored="test", settings=SETTINGS)
    trained = train_policy(load("cube_nuc"), recipe).scores
    pd.testing.assert_frame_equal(trained, cell[list(trained.columns)], check_exact=True)
    valid = results[results["treatment"] == "complete"]
    assert not trained["log_loss"].equals(valid["log_loss"].reset_index(drop=True))


@pytest.mark.slow
def test_both_kinds_of_rows_are_scored_as_each_alone(tmp_path: Path) -> None:
    """A baseline that ignores the rows' values acquires the same in either, so scores are equal."""
    usual = STUDY.model_copy(update={"methods": ("sequential",), "treatments": ("complete",)})
    found = {}
    for scored in ("valid", "test", "both"):
        study = usual.model_copy(update={"scored": scored})
        run_study(study, tmp_path / scored, runner=LocalRunner(width=1))
        found[scored] = pd.read_parquet(tmp_path / scored / "results.parquet")
    shared = [name for name in found["valid"] if name not in ("cell", "scored")]
    # Sums of costs are rounded differently where there are more rows.
    pd.testing.assert_frame_equal(found["both"][shared], found["valid"][shared], rtol=1e-6)
    assert found["both"]["test_score"].tolist() == found["test"]["score"].tolist()
