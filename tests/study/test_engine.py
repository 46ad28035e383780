"""The engine with real programs: what comes out, and that neither order nor company changes it."""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ascertain import load
from ascertain.errors import InputError, StoreError
from ascertain.recipe import _programs as programs
from ascertain.recipe._programs import Done
from ascertain.recipe._stages import Inputs
from ascertain.study import run_study
from ascertain.study._grid import Grid
from ascertain.study._runners import LocalRunner, OutOfMemoryError
from ascertain.study._status import status_of
from ascertain.study._store import Store
from tests.study.studies import tiny


def _results(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "results.parquet")


def test_every_cell_has_a_row_per_budget(finished: Path) -> None:
    results = _results(finished)
    assert len(results) == 24 * 3
    assert results.groupby("cell").size().eq(3).all()
    complete = results["treatment"] == "complete"
    assert (results.loc[complete, ["mechanism", "restorer"]].to_numpy() == "").all()
    assert results.loc[complete, "rate"].eq(0).all()
    assert results.loc[results["treatment"] == "restored", "restorer"].eq("hotdeck").all()
    assert results["restoration_rmse"].notna().eq(results["treatment"] == "restored").all()
    assert results["shortened"].all()
    assert results["width"].eq(2).all()


def test_scores_are_those_of_the_policy(finished: Path) -> None:
    """The first ten features of CUBE in order, predicted with the study's own predictor, by hand."""
    grid = Grid(tiny())
    materials = grid.materials
    store = Store(finished)
    cell = next(
        job
        for job in grid.cells
        if (job.dataset, job.method, job.treatment, job.split) == ("cube", "sequential", "complete", 1)
    )
    predictor_job = cell.needed("predictor")
    assert predictor_job is not None
    predictor = store.load_artefact(predictor_job, materials.result_like(predictor_job))
    valid = load("cube").split(1).valid
    observed = jnp.broadcast_to(jnp.arange(20)[None] < 10, valid.x.shape)
    predicted = np.argmax(predictor(jnp.where(observed, valid.x, 0.0), observed), axis=1)
    record = store.record(cell)
    assert record is not None
    assert [row["budget"] for row in record["scores"]] == [3, 5, 10]
    assert record["scores"][2]["accuracy"] == pytest.approx(np.mean(predicted == np.asarray(valid.y)))
    assert record["scores"][2]["mean_cost"] == 10
    shares = np.asarray(record["shares"])
    np.testing.assert_array_equal(shares, np.eye(20)[:10])


def test_a_cell_does_not_depend_on_order_or_company(finished: Path, tmp_path: Path) -> None:
    alone = tiny(datasets=("cube_nuc",), methods=("sequential", "random"), splits=(1,))
    run_study(alone, tmp_path / "alone", runner=LocalRunner(width=2))
    few, all_of_them = _results(tmp_path / "alone"), _results(finished)
    same = all_of_them[all_of_them["cell"].isin(few["cell"])].reset_index(drop=True)
    assert len(few) == 2 * 3 * 3
    pd.testing.assert_frame_equal(few, same, check_exact=True)


def test_datasets_of_one_shape_share_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    original = programs.Program.compile

    def counting(self: programs.Program) -> None:
        compiled.append(self.stage.name)
        original(self)

    monkeypatch.setattr(programs.Program, "compile", counting)
    study = tiny(methods=("random",), treatments=("restricted",), protocol="afabench")
    run_study(study, tmp_path, runner=LocalRunner(width=4))
    assert sorted(compiled) == ["fit", "mask", "predictor"]


def test_a_finished_study_is_left_alone(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}
    summary = run_study(tiny(), finished, runner=LocalRunner(width=2))
    assert summary.finished == 24
    assert before == {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}


def test_lost_and_broken_files_are_made_again(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    whole = (finished / "results.parquet").read_bytes()
    cells = sorted((folder / "cells").iterdir())
    cells[0].unlink()
    cells[1].write_bytes(cells[1].read_bytes()[:100])
    for artefact in (folder / "artefacts").glob("restore*"):
        artefact.unlink()
    run_study(tiny(), folder, runner=LocalRunner(width=2))
    assert (folder / "results.parquet").read_bytes() == whole


def test_another_width_is_refused_unless_asked_for(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    next((folder / "cells").glob("random-s_cube_*")).unlink()
    with pytest.raises(StoreError, match=r"at width 2.*--width 2.*--mix"):
        run_study(tiny(), folder, runner=LocalRunner(width=1))
    run_study(tiny(), folder, runner=LocalRunner(width=1), mix=True)
    assert sorted(_results(folder)["width"].unique()) == [1, 2]
    assert "1 cells were computed on cpu at width 1" in status_of(folder).notes


class _SmallMemory(LocalRunner):
    """Has no room for more than one replicate."""

    def run(self, name: tuple[object, int], inputs: list[Inputs]) -> Done:  # type: ignore[override]
        if name[1] > 1:
            raise OutOfMemoryError("full")
        return super().run(name, inputs)


def test_a_chunk_that_does_not_fit_is_halved(tmp_path: Path) -> None:
    warnings: list[str] = []
    study = tiny(datasets=("cube",), methods=("sequential",), treatments=("complete",), splits=(0, 1, 2))
    summary = run_study(study, tmp_path, runner=_SmallMemory(width=4), on_warning=warnings.append)
    assert summary.finished == summary.cells == 3
    assert any("now 2 at a time" in each for each in warnings)
    assert any("now 1 at a time" in each for each in warnings)
    assert _results(tmp_path)["width"].eq(1).all()
    # Another run would narrow in the same way, so it may go on.
    assert run_study(study, tmp_path, runner=_SmallMemory(width=4)).finished == 3


def test_a_changed_study_adds_cells_and_keeps_the_others(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    changed = tiny(datasets=("cube",), settings={"predictor": {"epochs": 2}}, methods=("sequential",))
    run_study(changed, folder, runner=LocalRunner(width=2))
    assert len(_results(folder)["cell"].unique()) == 6
    assert any("24 records of other settings" in note for note in status_of(folder).notes)
    run_study(tiny(), folder, runner=LocalRunner(width=2))
    assert (folder / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"treatments": ("complete", "restricted")}, "'complete' in treatments cannot be had"),
        ({"routes": True}, "routes = true cannot be had"),
    ],
)
@pytest.mark.needs("data")
def test_data_with_holes_have_no_complete_rows(asked: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=f"heart_sites has missing cells of its own.*{says}"):
        Grid(tiny(datasets=("heart_sites",), **asked))


@pytest.mark.needs("data")
def test_data_with_holes_are_trained_on_as_they_are() -> None:
    grid = Grid(tiny(datasets=("heart_sites",), methods=("random",), splits=(0,), routes=None))
    own = [(job.treatment, job.restorer, job.mechanism, job.rate) for job in grid.cells]
    assert own == [("restricted", "", "", 0.0), ("restored", "hotdeck", "", 0.0)]
    assert not grid.routes


def test_timings_say_what_each_job_took(finished: Path) -> None:
    timings = pd.read_parquet(finished / "timings.parquet")
    assert timings["stage"].value_counts().to_dict() == {"fit": 24, "predictor": 4, "mask": 4, "restore": 4}
    np.testing.assert_allclose(timings["seconds"] * timings["width"], timings["chunk_seconds"])
    assert timings["chunk_jobs"].le(2).all()


def test_records_can_be_read_without_the_package(finished: Path) -> None:
    record = json.loads(next((finished / "cells").glob("random-s_cube_mcar-0.5_restored*")).read_text())
    assert record["dataset"] == "cube"
    assert {"accuracy", "f1", "log_loss"} <= set(record["scores"][0])
