"""The treatment `auto` in a study: what is chosen, by what, and that nothing else changes for it."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain.evaluation._followed import Followed
from ascertain.evaluation._partial_rollouts import common_importance_weights, support
from ascertain.evaluation._propensity import assign_folds
from ascertain.recipe._jobs import Job
from ascertain.restoration import restore
from ascertain.study import run_study
from ascertain.study._file import read_study, write_study
from ascertain.study._grid import Grid
from ascertain.study._plan import plan_study
from ascertain.study._runners import LocalRunner
from ascertain.study._status import status_of
from ascertain.study._store import Store
from tests.study.studies import tiny

TREATMENTS = ("complete", "restricted", "restored", "auto")
STUDY = tiny(
    datasets=("cube",),
    methods=("sequential", "static"),
    treatments=TREATMENTS,
    restorers=("hotdeck", "hotdeck:2", "mean"),
    rates=(0.3, 0.7),
    splits=(0,),
    settings={"predictor": {"epochs": 5}},
)
CELLS = 2 * (1 + 2 * (1 + 3 + 1))  # methods; complete; rates; restricted, restored, auto


class Finished(NamedTuple):
    """A finished study, its jobs and a way to read them."""

    folder: Path
    grid: Grid
    store: Store

    def load(self, job: Job) -> Any:
        return self.store.load_artefact(job, self.grid.materials.result_like(job))

    def record(self, job: Job) -> dict[str, Any]:
        record = self.store.record(job)
        assert record is not None
        return record

    @property
    def autos(self) -> list[Job]:
        return [job for job in self.grid.cells if job.stage == "auto"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("auto")
    summary = run_study(STUDY, folder, runner=LocalRunner(width=1))
    assert (summary.cells, summary.finished, summary.failed) == (CELLS, CELLS, 0)
    return Finished(folder, Grid(STUDY), Store(folder))


# What is chosen.


@pytest.mark.slow
def test_the_choice_follows_from_what_was_recorded(finished: Finished) -> None:
    """The rule once more, in loops: drop by scores, value by rows, take the simplest of the best."""
    estimators = set()
    for job in finished.autos:
        cells = [need for need in job.needs if need.stage == "fit"]
        left = [cell for cell in cells if not _dropped(finished, job, cell)]
        assert any(_dropped(finished, job, cell) for cell in cells)  # the mean is a poor draw
        values, estimator = _values(finished, job, left)
        estimators.add(estimator)
        best = max(values, key=lambda value: value.mean())
        close = []
        for cell, value in zip(left, values, strict=True):
            behind = best - value
            if behind.mean() <= behind.std(ddof=1) / np.sqrt(len(behind)):
                close.append((_complexity(cell), -value.mean(), cell.id))
        record, chosen = finished.record(job), min(close)[2]
        picked = next(finished.record(cell) for cell in cells if cell.id == chosen)
        assert record["scores"] == picked["scores"]
        assert record["shares"] == picked["shares"]
        assert record["picked"] == (picked["restorer"] or picked["treatment"])
        assert ("doubly robust" if estimator == "dr" else "whose holes nearest fills") in record["reason"]
    assert estimators == {"dr", "filled"}


def _dropped(finished: Finished, job: Job, cell: Job) -> bool:
    restored, nearest = cell.needed("restore"), job.needed("restore")
    if restored is None:
        return False
    assert nearest is not None
    assert nearest.restorer == "nearest"
    ours, theirs = (finished.load(each).paired for each in (restored, nearest))
    np.testing.assert_array_equal(ours.hidden, theirs.hidden)
    weight = np.asarray(ours.weight, float)
    difference = (ours.single + ours.block - theirs.single - theirs.block) / 2
    mean = np.average(difference, weights=weight)
    rows = int((weight > 0).sum())
    error = np.sqrt(((weight * (difference - mean)) ** 2).sum() * rows / (rows - 1)) / weight.sum()
    return bool(mean > 2 * error)


def _values(finished: Finished, job: Job, cells: list[Job]) -> tuple[list[np.ndarray], str]:
    """By row: Q_0 + sum of w_(t+1) (Q_(t+1) - Q_t), at the largest budget that has enough rows."""
    materials = finished.grid.materials
    table = materials.judged_rows(job, finished.load)
    problem = materials.datasets["cube"].problem
    followed = [finished.store.load_followed(cell) for cell in cells]
    fold = assign_folds(len(table.y), 0)
    nothing = np.zeros(len(table.y))
    for budget in np.arange(8, 0, -1) * 10 / 8:
        places = [np.flatnonzero(each.budgets == np.float32(budget)) for each in followed]
        if not all(len(place) for place in places):
            continue
        choices = [
            np.asarray(each.choices[place[0]], int) for each, place in zip(followed, places, strict=True)
        ]
        rollouts = [support(each, nothing, nothing > 0, np.asarray(table.available)) for each in choices]
        weights = common_importance_weights(rollouts, problem, table, fold, 0.02)
        alike = [np.where(each.valid, each.choices, 0).tolist() for each in rollouts]
        if min(each.effective_rows for each in weights) < 100 or all(each == alike[0] for each in alike):
            continue
        found = []
        for each, place, own in zip(followed, places, weights, strict=True):
            known = np.column_stack([each.futures[place[0]], each.ends[place[0]]]).astype(float)
            found.append(known[:, 0] + (own.cumulative[:, 1:] * np.diff(known, axis=1)).sum(axis=1))
        return found, "dr"
    return [np.asarray(each.filled, float) for each in followed], "filled"


def _complexity(cell: Job) -> int:
    order = {"direct": 0, "restricted": 1, "hotdeck": 2, "mean": 3, "hotdeck:2": 4}
    return order[cell.restorer or cell.treatment]


@pytest.mark.slow
def test_complete_rows_play_no_part(finished: Finished, tmp_path: Path) -> None:
    """Scores come from complete rows; with other ones the choice is the same."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    store = Store(folder)
    for job in finished.grid.cells:
        record = finished.record(job)
        if job.stage == "auto":
            store.path(job).unlink()
            continue
        for row in record["scores"]:
            row["score"] = row["accuracy"] = float(job.treatment == "restored")
        store.save_record(job, record)
    run_study(STUDY, folder, runner=LocalRunner(width=1))
    for job in finished.autos:
        changed = store.record(job)
        assert changed is not None
        for name in ("picked", "reason", "considered"):
            assert changed[name] == finished.record(job)[name]


@pytest.mark.slow
def test_the_judge_saw_rows_with_holes_only(finished: Finished) -> None:
    """What a policy is worth in rows whose holes are filled, by hand for the actions in order."""
    materials = finished.grid.materials
    for job in finished.autos:
        if job.method != "sequential":
            continue
        cell = job.needs[-1]
        judge, complete = cell.needed("judge"), cell.needed("predictor")
        assert judge is not None
        assert complete is not None
        mask = judge.needed("mask")
        assert mask is not None
        fitted_to = materials.inputs(judge, finished.load).train.available
        np.testing.assert_array_equal(fitted_to, finished.load(mask).train)
        table = jax.tree.map(jnp.asarray, materials.judged_rows(job, finished.load))
        observed = jnp.broadcast_to(jnp.arange(20) < 10, table.x.shape)
        fillings = jr.split(jr.fold_in(jr.wrap_key_data(jnp.asarray(judge.key)), 0), 16)
        futures = jax.tree.map(jnp.asarray, finished.load(judge).futures)
        filled = [restore(jr.split(each)[0], futures, table).x for each in fillings]
        found = finished.store.load_followed(cell).filled
        for predictor, expected in ((finished.load(judge).predictor, True), (finished.load(complete), False)):
            chances = [predictor(jnp.where(observed, x, 0.0), observed) for x in filled]
            errors = np.stack(chances) - np.eye(8)[np.asarray(table.y)]
            value = 1 - (errors**2).sum(axis=2).mean(axis=0) / 2
            assert np.allclose(found, value, atol=1e-5) == expected


# What else is recorded.


@pytest.mark.slow
def test_results_say_what_was_chosen_and_why(finished: Finished) -> None:
    results = pd.read_parquet(finished.folder / "results.parquet")
    auto = results["treatment"] == "auto"
    assert len(results[auto]) == 2 * 2 * 3  # methods, rates, budgets
    assert results.loc[auto, "restorer"].eq("").all()
    assert results.loc[auto, "picked"].isin(["restricted", "hotdeck", "hotdeck:2"]).all()
    assert results.loc[auto, "reason"].str.contains("was chosen").all()
    assert set(results.loc[~auto, "picked"]) == set(results.loc[~auto, "reason"]) == {""}
    acquisitions = pd.read_parquet(finished.folder / "acquisitions.parquet")
    assert set(acquisitions["treatment"]) == set(TREATMENTS)
    timings = pd.read_parquet(finished.folder / "timings.parquet")
    assert timings["stage"].value_counts()[["auto", "judge", "availability"]].tolist() == [4, 2, 2]


@pytest.mark.slow
def test_all_restorers_are_scored_on_the_same_cells(finished: Finished) -> None:
    results = pd.read_parquet(finished.folder / "results.parquet")
    for job in finished.grid.jobs:
        if job.stage != "restore" or job.restorer == "nearest":
            continue
        paired = finished.load(job).paired
        mean = np.average((paired.single + paired.block) / 2, weights=paired.weight)
        own = results[(results["restorer"] == job.restorer) & (results["rate"] == job.rate)]
        np.testing.assert_allclose(own["restoration_score"], mean, rtol=1e-5)


@pytest.mark.slow
def test_auto_trains_nothing_and_changes_no_key(finished: Finished) -> None:
    """Cells are trained with the keys that they have without it; those of complete data are the same jobs."""
    without = Grid(STUDY.model_copy(update={"treatments": TREATMENTS[:3]}))
    keys = {tuple(job.identity().items()): job.key.tolist() for job in without.cells}
    own = {tuple(job.identity().items()): job.key.tolist() for job in finished.grid.cells}
    assert keys.items() <= own.items()
    before, after = ({job.id for job in each.jobs} for each in (without, finished.grid))
    kept = [job for job in without.jobs if job.treatment == "complete" or job.stage in ("mask", "predictor")]
    assert {job.id for job in kept} <= after
    assert not any(job.stage in ("judge", "availability") for job in without.jobs)
    # Those of which more is recorded have a place of their own.
    assert not before & after - {job.id for job in kept}


@pytest.mark.slow
def test_plan_and_status_count_it(finished: Finished) -> None:
    plan = plan_study(STUDY)
    jobs = {row.stage: row.jobs for row in plan.rows}
    assert (jobs["auto"], jobs["judge"], jobs["availability"]) == (4, 2, 2)
    assert plan.summary.startswith(f"{CELLS} cells")
    status = status_of(finished.folder)
    assert status.title == f"tiny: {CELLS} of {CELLS} cells"
    assert [row.done for row in status.rows] == [CELLS // 2] * 2
    assert status.notes == [f"{CELLS - 4} cells were computed on cpu at width 1"]


# Interrupted, damaged, mistaken.


@pytest.mark.slow
def test_what_is_lost_is_made_again(finished: Finished, tmp_path: Path) -> None:
    """Choices, a cell, what was recorded of a cell, and a restored table: as a kill may leave them."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder)
    store = Store(folder)
    first, second = finished.autos[:2]
    for job in (first, second, first.needs[-1]):
        store.path(job).unlink()
    followed = folder / "artefacts" / f"{second.needs[-1].id}.safetensors"
    content = followed.read_bytes()
    followed.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    restored = next(need for need in second.needs if need.restorer == "mean")
    store.path(restored).unlink()
    assert status_of(folder).title == f"tiny: {CELLS - 4} of {CELLS} cells"
    assert run_study(STUDY, folder, runner=LocalRunner(width=1)).finished == CELLS
    whole = (finished.folder / "results.parquet").read_bytes()
    assert (folder / "results.parquet").read_bytes() == whole


@pytest.mark.slow
def test_what_is_written_is_read_back(finished: Finished, tmp_path: Path) -> None:
    write_study(STUDY, tmp_path / "study.toml")
    assert read_study(tmp_path / "study.toml") == STUDY


@pytest.mark.parametrize(
    "treatments", [("auto",), ("complete", "auto"), ("restored", "auto"), ("restricted", "auto")]
)
def test_there_must_be_a_choice(tmp_path: Path, treatments: tuple[str, ...]) -> None:
    write_study(STUDY.model_copy(update={"treatments": treatments}), tmp_path / "study.toml")
    with pytest.raises(InputError, match=r"auto chooses among the other treatments.*list restricted"):
        read_study(tmp_path / "study.toml")


def test_budgets_without_enough_rows_are_not_kept() -> None:
    ones = np.ones((2, 3, 4))
    followed = Followed(np.array([1.0, 2.0]), ones, ones, ones[..., 0], np.array([100, 99]), ones[0, :, 0])
    kept = followed.shortened()
    assert kept.budgets.tolist() == [1.0]
    assert kept.choices.shape == (1, 3, 4)
    assert kept.filled.shape == (3,)
