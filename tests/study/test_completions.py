"""Studies with several completions of every training row."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain.datasets import load
from ascertain.recipe import Recipe, train_policy
from ascertain.study import run_study
from ascertain.study._file import Study, read_study, write_study
from ascertain.study._grid import Grid
from ascertain.study._plan import plan_study
from ascertain.study._runners import LocalRunner
from tests.study.studies import TOML, tiny

CUBE = {"datasets": ("cube",), "splits": (0,)}


def ids(study: Study) -> list[str]:
    return [job.id for job in Grid(study).jobs]


# Which cells there are.


def test_cells_of_one_completion_are_what_they_were() -> None:
    """The ids and random keys that results and checkpoints of earlier runs have."""
    before = {
        "predictor_cube_0_6c69f6a33759": [1359818204, 393865920],
        "random-s_cube_complete_0_82b60812ef7b": [1864725969, 2935176279],
        "mask_cube_mcar-0.5_0_24e58672f78a": [3844352350, 2822661135],
        "random-s_cube_mcar-0.5_restricted_0_fa76500376cd": [3736705520, 1201968345],
        "restore_cube_mcar-0.5_restored-hotdeck_0_79ce0a9734ba": [1107973712, 2641874911],
        "random-s_cube_mcar-0.5_restored-hotdeck_0_b2f300d3b12d": [1676774975, 2956692597],
    }
    for study in (
        tiny(**CUBE, methods=("random",)),
        tiny(**CUBE, methods=("random",), completions=1),
        tiny(**CUBE, methods=("random",), restorers=("hotdeck:1",), completions=3),
    ):
        assert {job.id: job.key.tolist() for job in Grid(study).jobs} == before


def test_shared_models_are_what_they_were() -> None:
    study = tiny(**CUBE, methods=("odin",), restorers=("pvae",), treatments=("restored",))
    before = {
        "vae_cube_mcar-0.5_restricted_0_070ec7c5f069",
        "restore_cube_mcar-0.5_restored-pvae_0_bcb64e5b5497",
        "vae_cube_mcar-0.5_restored-pvae_0_3990be8fd2ff",
        "odin-s_cube_mcar-0.5_restored-pvae_0_7f3540486a81",
        "odin-sm_cube_mcar-0.5_restored-pvae_0_9acdaa421f11",
    }
    assert before <= set(ids(study))
    # The restorer's own model is fitted to the rows with holes, whatever is made of it later.
    several = Grid(study.model_copy(update={"completions": 3})).jobs
    assert before & {job.id for job in several} == {"vae_cube_mcar-0.5_restricted_0_070ec7c5f069"}


def test_completions_are_named_with_the_restorer_or_once_for_all() -> None:
    named = ids(tiny(restorers=("hotdeck:3", "mean:3")))
    assert named == ids(tiny(restorers=("hotdeck", "mean"), completions=3))
    assert named == ids(tiny(restorers=("hotdeck", "mean:3"), completions=3))
    mixed = Grid(tiny(**CUBE, restorers=("hotdeck", "mean:2"), completions=6, treatments=("restored",)))
    assert {(job.restorer, job.completions) for job in mixed.cells} == {("hotdeck:6", 6), ("mean:2", 2)}


def test_another_number_of_completions_is_another_cell() -> None:
    cells = [{job.id for job in Grid(tiny(treatments=("restored",), completions=n)).cells} for n in (1, 2, 3)]
    assert len(set.union(*cells)) == 3 * len(cells[0])
    # What is not restored stays.
    others = [
        {job.id for job in Grid(tiny(treatments=("complete", "restricted"), completions=n)).jobs}
        for n in (1, 3)
    ]
    assert others[0] == others[1]


def test_names_are_safe_for_files() -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
    assert all(set(each) <= allowed for each in ids(tiny(completions=3)))


def test_settings_of_a_restorer_hold_for_its_completions() -> None:
    changed = {"miwae": {"codes": 3}}
    grid = Grid(tiny(**CUBE, restorers=("miwae:3",), treatments=("restored",), settings=changed))
    restoring = next(job for job in grid.jobs if job.stage == "restore")
    assert restoring.settings.codes == 3
    assert all(grid.shortened(job) for job in grid.cells)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('restorers = ["hotdek:3"]', "restorers: there is no 'hotdek'; did you mean 'hotdeck'"),
        ('restorers = ["hotdeck:x"]', "'hotdeck:x': after the colon comes the number of completions"),
        ('restorers = ["hotdeck:0"]', "as in hotdeck:6; not '0'"),
        ('restorers = ["hotdeck:101"]', "completions must be at most 100, got 101"),
        ('restorers = ["hotdeck:3", "hotdeck:3"]', "hotdeck:3"),
        ("completions = 0", "completions: Input should be greater than or equal to 1"),
        ("completions = -1", "completions: Input should be greater than or equal to 1"),
        ('completions = "6"', "completions: Input should be a valid integer"),
        ("completions = 1.5", "completions: Input should be a valid integer"),
        ("completions = 101", "completions: Input should be less than or equal to 100"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(TOML.replace('restorers = ["hotdeck"]', line))
    with pytest.raises(InputError, match=message):
        read_study(str(path))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    study = tiny(restorers=("hotdeck:3", "mean"), completions=2)
    write_study(study, tmp_path / "study.toml")
    assert read_study(tmp_path / "study.toml") == study


def test_a_plan_counts_the_work_of_completions() -> None:
    grown = [plan_study(tiny(**CUBE, restorers=(name,))) for name in ("hotdeck", "hotdeck:3", "ensemble:6")]
    assert len({len(plan.rows) for plan in grown}) == 1
    seconds = [next(row.seconds for row in plan.rows if row.stage == "restore") for plan in grown]
    memory = [next(row.memory for row in plan.rows if row.stage == "random") for plan in grown]
    assert seconds[0] <= seconds[1] < seconds[2]
    assert memory[0] < memory[1] < memory[2]


# What they compute.


SETTINGS = {"predictor": {"epochs": 1}, "aaco": {"candidates": 20}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = tiny(
        **CUBE,
        methods=("aaco",),
        treatments=("restored",),
        restorers=("hotdeck", "hotdeck:3", "knn:2"),
        settings=SETTINGS,
    )
    where = tmp_path_factory.mktemp("completions")
    summary = run_study(study, where, runner=LocalRunner(width=1))
    assert (summary.finished, summary.failed) == (3, 0)
    return where


@pytest.mark.slow
def test_a_cell_of_several_completions_is_a_row_of_its_own(folder: Path) -> None:
    results = pd.read_parquet(folder / "results.parquet")
    assert set(results["restorer"]) == {"hotdeck", "hotdeck:3", "knn:2"}
    losses = {name: rows["log_loss"].tolist() for name, rows in results.groupby("restorer")}
    assert losses["hotdeck"] != losses["hotdeck:3"]
    assert np.isfinite(results["restoration_rmse"]).all()
    assert np.isfinite(results["restoration_score"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("restorer", ["hotdeck:1", "hotdeck:3"])
def test_training_gives_the_score_of_the_studys_cell(folder: Path, restorer: str) -> None:
    recipe = Recipe("aaco", treatment="restored", rate=0.5, restorer=restorer, settings=SETTINGS)
    trained = train_policy(load("cube"), recipe)
    results = pd.read_parquet(folder / "results.parquet")
    cell = results[results["restorer"] == restorer.removesuffix(":1")].reset_index(drop=True)
    pd.testing.assert_frame_equal(trained.scores, cell[list(trained.scores.columns)], check_exact=True)
    completions = int(restorer.partition(":")[2] or 1)
    assert (trained.train.completions, trained.train.n_instances) == (completions, 600)
    assert trained.valid.completions == 1
