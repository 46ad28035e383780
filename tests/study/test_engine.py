"""The engine with real programs: what comes out, and that neither order nor company changes it."""

import json
import os
import shutil
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from ascertain import load
from ascertain.analysis import read_results
from ascertain.errors import InputError, StoreError
from ascertain.recipe import _programs as programs
from ascertain.recipe._jobs import Job
from ascertain.recipe._programs import Done, Trainee
from ascertain.recipe._rounding import usable_cores
from ascertain.recipe._stages import Inputs, Stage
from ascertain.restoration import fit_hotdeck, score_restorer
from ascertain.study import run_study
from ascertain.study._grid import Grid
from ascertain.study._records import agrees, details_of, write_study_file
from ascertain.study._runners import Keep, LocalRunner, More, OutOfMemoryError, run_program
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
    for column in ("restoration_rmse", "restoration_score"):
        assert results[column].notna().eq(results["treatment"] == "restored").all()
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


def test_a_study_file_in_another_encoding_is_written_anew(finished: Path, tmp_path: Path) -> None:
    """As an editor may have saved it."""
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    (folder / "study.toml").write_bytes("# größe".encode("latin-1"))
    write_study_file(tiny(), folder)
    assert (folder / "study.toml").read_bytes() == (finished / "study.toml").read_bytes()
    assert not (folder / "results.parquet").exists()


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


def test_a_damaged_artefact_is_made_again_and_said(finished: Path, tmp_path: Path) -> None:
    """One flipped bit in a predictor, and cells that would be computed with it."""
    folder, warnings = tmp_path / "copy", list[str]()
    shutil.copytree(finished, folder)
    damaged = sorted((folder / "artefacts").glob("predictor_cube_0*"))[0]
    content = bytearray(damaged.read_bytes())
    content[-2] ^= 64
    damaged.write_bytes(content)
    for cell in (folder / "cells").glob("sequential-s_cube_*_0_*"):
        cell.unlink()
    run_study(tiny(), folder, runner=LocalRunner(width=2), on_warning=warnings.append)
    assert warnings == [f"{damaged} is damaged; it is computed again"]
    assert (folder / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


def test_predictors_that_were_swapped_are_made_again_and_said(finished: Path, tmp_path: Path) -> None:
    folder, warnings = tmp_path / "copy", list[str]()
    shutil.copytree(finished, folder)
    one, other = (next((folder / "artefacts").glob(f"predictor_cube_{split}_*")) for split in (0, 1))
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    for cell in (folder / "cells").glob("sequential-s_cube_*"):
        cell.unlink()
    run_study(tiny(), folder, runner=LocalRunner(width=2), on_warning=warnings.append)
    assert sorted(warnings) == sorted(f"{path} is damaged; it is computed again" for path in (one, other))
    assert (folder / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


def test_a_damaged_record_is_made_again_and_said(finished: Path, tmp_path: Path) -> None:
    folder, warnings = tmp_path / "copy", list[str]()
    shutil.copytree(finished, folder)
    record = sorted((folder / "cells").glob("random-s_cube_*"))[0]
    record.write_text(record.read_text().replace('"score": 0.', '"score": 1.'))
    run_study(tiny(), folder, runner=LocalRunner(width=2), on_warning=warnings.append)
    assert warnings == [f"{record} is damaged; it is computed again"]
    assert (folder / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


def test_another_number_of_cores_is_refused_unless_asked_for(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, cores = tmp_path / "copy", usable_cores()
    assert cores is not None
    shutil.copytree(finished, folder)
    next((folder / "cells").glob("random-s_cube_*")).unlink()
    monkeypatch.setenv("NPROC", str(cores + 1))
    there, here = (f"on cpu with {n} cores? at width 2" for n in (cores, cores + 1))
    with pytest.raises(StoreError, match=f"{there}.* would continue {here}.*taskset -c 0-{cores - 1}.*--mix"):
        run_study(tiny(), folder, runner=LocalRunner(width=2))
    assert run_study(tiny(), folder, runner=LocalRunner(width=2), mix=True).finished == 24


def test_other_options_of_xla_are_refused_unless_asked_for(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    next((folder / "cells").glob("random-s_cube_*")).unlink()
    flags = os.environ.get("XLA_FLAGS", "")
    monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_cpu_max_isa=AVX --xla_dump_to=somewhere")
    with pytest.raises(
        StoreError, match=r"would continue on cpu .* with xla_cpu_max_isa=AVX, where.*same settings.*--mix"
    ):
        run_study(tiny(), folder, runner=LocalRunner(width=2))
    assert run_study(tiny(), folder, runner=LocalRunner(width=2), mix=True).finished == 24
    monkeypatch.setenv("XLA_FLAGS", flags)
    with pytest.raises(StoreError, match=r"computed on cpu .* with xla_cpu_max_isa=AVX; this run"):
        run_study(tiny(), folder, runner=LocalRunner(width=2))


def test_a_result_that_does_not_say_its_options_is_gone_on_with() -> None:
    """Versions before 0.2 recorded neither cores nor options."""
    runner = LocalRunner(width=2)
    done = Done([], 1.0, 0.0, 0, runner.device, runner.cores, options=runner.options)
    details = details_of(done, runner, 2)
    assert agrees(details, runner)
    assert agrees({k: v for k, v in details.items() if k not in ("cores", "options")}, runner)
    assert not agrees({**details, "options": "jax_enable_x64=True"}, runner)


def test_a_study_without_scores_of_restorers_goes_on(finished: Path, tmp_path: Path) -> None:
    """As versions before 0.2 wrote it: neither restored tables nor records have the score."""
    folder, score = tmp_path / "copy", "restoration_score"
    shutil.copytree(finished, folder)
    store, grid = Store(folder), Grid(tiny(), width=2)
    for job in grid.jobs:
        if job.stage == "restore":
            values = store.load_artefact(job, grid.materials.result_like(job))
            details = store.details(job)
            assert details is not None
            store.save_artefact(job, values[:2], details)
    for job in grid.cells:
        record = store.record(job)
        assert record is not None
        del record[score]
        store.save_record(job, record)
    next((folder / "cells").glob("random-s_cube_mcar-0.5_restored*")).unlink()
    assert run_study(tiny(), folder, runner=LocalRunner(width=2)).finished == 24
    found, before = _results(folder), _results(finished)
    assert found[score].isna().all()
    pd.testing.assert_frame_equal(found.drop(columns=score), before.drop(columns=score), check_exact=True)
    # The table of such a study has no column at all.
    found.drop(columns=score).to_parquet(folder / "results.parquet")
    assert read_results(folder).results[score].isna().all()


def test_the_score_of_a_restorer_is_that_of_its_own_key(finished: Path) -> None:
    """Computed anew outside of the study's program."""
    grid, store = Grid(tiny(), width=2), Store(finished)
    materials = grid.materials
    job = next(job for job in grid.jobs if job.stage == "restore")

    def read(each: Job) -> Any:
        return store.load_artefact(each, materials.result_like(each))

    inputs = jax.tree.map(jnp.asarray, materials.inputs(job, read))
    key = jr.wrap_key_data(inputs.key)
    deck = fit_hotdeck(jr.split(key, 3)[0], inputs.problem, inputs.train)
    score = score_restorer(jr.fold_in(key, 100), inputs.problem, deck, inputs.train, inputs.valid)
    assert float(read(job).score.item()) == pytest.approx(float(score.mean), rel=1e-4)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_partial_vaes_are_the_same_whether_they_wait_for_the_slowest_or_not(tmp_path: Path) -> None:
    """ODIN needs one for each training set, those of restored data after those of incomplete data."""

    class Waiting(LocalRunner):
        def trains(self, stage: Stage) -> bool:
            return False

        def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
            return run_program(self._programs[name].result(), inputs)

    class Interrupting(LocalRunner):
        """Interrupts every training after its first rounds, again and again."""

        def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
            interrupted.extend(each for each in trainees if each.begun is not None)
            super().train(name, trainees, lambda free: None, keep)

    interrupted: list[Trainee] = []
    schedule = {"batches_per_round": 2, "max_rounds": 80, "track_from": 4, "stop_from": 8, "patience": 20}
    settings = {"predictor": {"epochs": 1}, "odin": {"batches": 5}, "pvae": {"schedule": schedule}}
    study = tiny(datasets=("cube",), methods=("odin:s",), restorers=("pvae",), settings=settings)
    runners = {
        "waiting": Waiting(width=2),
        "leaving": LocalRunner(width=2),
        "interrupted": Interrupting(width=2),
    }
    for name, runner in runners.items():
        assert run_study(study, tmp_path / name, runner=runner).failed == 0
    assert interrupted
    one, *others = (sorted((tmp_path / name / "artefacts").glob("vae_*")) for name in runners)
    assert len(one) == 2 * 3
    for other in others:
        assert [path.name for path in one] == [path.name for path in other]
        for left, right in zip(one, other, strict=True):
            arrays, theirs = load_file(left), load_file(right)
            assert arrays.keys() == theirs.keys()
            assert all(np.array_equal(arrays[key], theirs[key]) for key in arrays)
    assert len({(tmp_path / name / "results.parquet").read_bytes() for name in runners}) == 1
