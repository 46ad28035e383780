"""The engine's scheduling, with a runner that computes nothing: every stage, failures, progress."""

import time
from collections.abc import Callable, Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from ascertain.errors import StoreError
from ascertain.recipe._programs import Done, Trainee, result_like
from ascertain.recipe._stages import Inputs, Stage
from ascertain.study import _engine as engine
from ascertain.study import run_study
from ascertain.study._engine import Progress
from ascertain.study._grid import Grid
from ascertain.study._groups import group_jobs
from ascertain.study._runners import Keep, More, Runner
from ascertain.study._status import status_of
from ascertain.study._store import Store
from tests.study.studies import tiny

EVERYTHING = tiny(
    datasets=("cube",),
    methods=("dime", "random", "odin"),
    restorers=("pvae", "hotdeck"),
    rates=(0.3, 0.7),
    settings={},
)


class Idle(Runner):
    """Gives ones of the right shapes, at once."""

    def __init__(self, width: int, fails: Callable[[Stage], bool] = lambda stage: False):
        self.width, self.device, self.host = width, "none", "nowhere"
        self.fails = fails
        self.chunks: list[tuple[Stage, int]] = []
        self.prepared: list[Stage] = []
        self.released: list[Hashable] = []
        self._stages: dict[Hashable, tuple[Stage, Callable[[], Inputs]]] = {}

    @property
    def slots(self) -> int:
        return 3

    def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        self._stages[name] = stage, like
        self.prepared.append(stage)

    def ready(self, name: Hashable) -> bool:
        return name in self._stages

    def release(self, name: Hashable) -> None:
        self.released.append(name)

    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        stage, like = self._stages[name]
        self.chunks.append((stage, len(inputs)))
        if self.fails(stage):
            raise ValueError(f"no {stage.name} today")
        ones = jax.tree.map(
            lambda leaf: np.ones(leaf.shape, leaf.dtype), result_like(stage, like(), self.width)
        )
        return Done([ones] * len(inputs), 1.0, 2.0, 3, self.device)

    def close(self) -> None:
        pass


class Trainer(Idle):
    """Also trains, for a time that differs from model to model, and notes how many are in training."""

    def __init__(self, width: int):
        super().__init__(width)
        self.trained: list[list[int]] = []  # for each chunk, how many places were taken in each round
        self.gone_on: list[float] = []  # states of those that had been interrupted

    def trains(self, stage: Stage) -> bool:
        return stage.name == "share"

    def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
        stage, like = self._stages[name]
        left, taken, came = dict[int, int](), list[int](), 0
        self.trained.append(taken)
        model = jax.tree.map(
            lambda leaf: np.ones(leaf.shape, leaf.dtype), result_like(stage, like(), self.width)
        )
        coming: list[Trainee] | None = trainees
        while coming or left:
            for each in coming or []:
                left[came] = self._rounds(each.inputs)
                self.gone_on += [] if each.begun is None else [float(leaf) for leaf in each.begun.state]
                came += 1
            taken.append(len(left))
            time.sleep(0.3)  # longer than the engine takes to begin what the next models need
            for number in list(left):
                left[number] -= 1
                if left[number] == 0:
                    del left[number]
                    keep(number, Done([model], 1.0, 2.0, 3, self.device, jobs=len(taken)), True)
            coming = more(self.width - len(left))
            if coming is None:
                for number in left:
                    state = [np.array(number, np.float32)]
                    keep(number, Done([state], 1.0, 2.0, 3, self.device, jobs=1.5), False)
                return

    def _rounds(self, inputs: Inputs) -> int:
        return 2 + int(inputs.key[0]) % 5


@pytest.mark.slow
def test_models_that_have_stopped_leave_their_place_to_others(tmp_path: Path) -> None:
    """Also to those of restored data, which need a restored table, which needs one of the models first."""
    runner = Trainer(4)
    summary = run_study(EVERYTHING, tmp_path, runner=runner)
    assert (summary.finished, summary.failed) == (summary.cells, 0)
    assert not any(stage.name == "share" for stage, _ in runner.chunks)
    models = 2 * (1 + 2 + 4)  # splits x (complete, restricted, restored twice): ODIN needs one for each
    assert len(list((tmp_path / "artefacts").glob("vae_*"))) == models
    # Everything in one chunk. In turn, two chunks of incomplete data and two of restored data at least.
    assert len(runner.trained) == 1
    taken = runner.trained[0]
    assert sum(places == 4 for places in taken) > len(taken) / 2, taken
    # What models of restored data need is not computed for each of them alone.
    restored = [size for stage, size in runner.chunks if stage.name == "restore"]
    assert sum(restored) == 2 * 2 * 2


@pytest.mark.slow
def test_models_in_training_when_a_run_has_no_more_time_are_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    class Late(Trainer):
        def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
            nonlocal now
            now = 2.0
            super().train(name, trainees, more, keep)

    clock = SimpleNamespace(perf_counter=lambda: now, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(engine, "time", clock)
    summary = run_study(EVERYTHING, tmp_path, runner=Late(2), stop_after=1.0)
    assert (summary.finished, summary.failed) == (0, 0)
    assert not list((tmp_path / "artefacts").glob("vae_*"))
    states = tmp_path / "unfinished"
    assert len(list(states.glob("vae_*"))) == 2
    damaged = sorted(states.iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    runner, warnings = Trainer(2), list[str]()
    summary = run_study(EVERYTHING, tmp_path, runner=runner, on_warning=warnings.append)
    assert summary.finished == 4 * 2 * (1 + 2 + 4)
    assert len(runner.gone_on) == 1
    assert warnings == [f"{damaged} is damaged; its training begins anew"]
    assert not list(states.iterdir())


@pytest.mark.slow
def test_a_training_of_another_width_begins_anew(tmp_path: Path) -> None:
    class Interrupted(Trainer):
        def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
            super().train(name, trainees, lambda free: None, keep)

    run_study(EVERYTHING, tmp_path, runner=Interrupted(2), stop_after=2.0)
    states = sorted((tmp_path / "unfinished").iterdir())
    assert states
    runner = Trainer(4)
    run_study(EVERYTHING, tmp_path, runner=runner, mix=True)
    assert runner.gone_on == []


def _cells(stage: Stage) -> bool:
    return stage.name == "fit"


@pytest.mark.parametrize("width", [pytest.param(3, marks=pytest.mark.slow), 64])
def test_every_job_is_computed_once_in_chunks_as_full_as_can_be(tmp_path: Path, width: int) -> None:
    """At width 64 Partial VAEs must not wait for one another: those of restored data need the others."""
    runner = Idle(width)
    summary = run_study(EVERYTHING, tmp_path, runner=runner)
    variants, training_sets = 4, 2 * (1 + 2 + 4)  # splits x (complete, restricted, restored twice)
    assert summary.finished == summary.cells == variants * training_sets
    computed: dict[Any, list[int]] = {}
    for stage, size in runner.chunks:
        computed.setdefault(stage, []).append(size)
    for stage, sizes in computed.items():
        total = sum(sizes)
        fewest = -(-total // width)
        # Partial VAEs come in two rounds at least: of complete and incomplete data, then of restored data.
        assert len(sizes) == max(fewest, 1 + (stage.name == "share")), (stage.name, sizes)
    assert sum(size for stage, size in runner.chunks if _cells(stage)) == summary.cells
    # A process has no room for the programs of a large study; it keeps none that is done with.
    assert len(runner.released) == len(set(runner.released)) == len(runner.prepared)


def test_models_that_leave_their_places_have_fewer_of_them() -> None:
    """At width 125 half of the places would be empty: as many models wait for what others restore."""
    grid = Grid(EVERYTHING, None)
    groups = group_jobs(grid.jobs, grid.materials, Idle(125))
    assert {(group.waiting[0].shared is not None, group.width) for group in groups} == {
        (True, 64),
        (False, 125),
    }
    assert {group.width for group in group_jobs(grid.jobs, grid.materials, Idle(20))} == {20}


def test_a_failure_stops_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    warnings: list[str] = []
    runner = Idle(64, fails=lambda stage: stage.name == "share")
    summary = run_study(EVERYTHING, tmp_path, runner=runner, on_warning=warnings.append)
    # Whatever is not ODIN and is not restored by the Partial VAE.
    assert summary.finished == 2 * 2 * (1 + 2 + 2)
    assert summary.failed > 0
    assert any("no share today" in each for each in warnings)
    status = status_of(tmp_path)
    assert sum(row.done for row in status.rows) == summary.finished
    assert sum(row.failed for row in status.rows) == summary.cells - summary.finished
    assert any("no share today" in note for note in status.notes)
    again = run_study(EVERYTHING, tmp_path, runner=Idle(64))
    assert (again.finished, again.failed) == (summary.cells, 0)
    assert all("failed" not in note for note in status_of(tmp_path).notes)


def test_only_what_missing_cells_need_is_computed(tmp_path: Path) -> None:
    run_study(EVERYTHING, tmp_path, runner=Idle(64))
    for path in (tmp_path / "artefacts").glob("*"):
        path.unlink()
    next((tmp_path / "cells").glob("dime-s_cube_mcar-0.7_restored-hotdeck_1_*")).unlink()
    runner = Idle(64)
    run_study(EVERYTHING, tmp_path, runner=runner)
    stages = sorted(stage.name for stage, _ in runner.chunks)
    assert stages == ["fit", "mask", "predictor", "pretrain", "restore"]


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run_study(tiny(), tmp_path, runner=Idle(4), on_progress=seen.append)
    done = [each.done for each in seen]
    assert done == sorted(done)
    assert (done[0], done[-1], seen[-1].total) == (0, 36, 36)
    assert any("cube: random (s)" in each.doing for each in seen)


def test_restricted_and_restored_rows_reach_the_program(tmp_path: Path) -> None:
    """Holes are holes in what a program is given, and restored tables have none."""
    given: list[tuple[str, float]] = []

    class Watching(Idle):
        def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
            stage, _ = self._stages[name]
            if stage.name == "restore" or stage.name == "fit":
                given.extend((stage.name, float(np.mean(each.train.available))) for each in inputs)
            done = super().run(name, inputs)
            if stage.name != "mask":
                return done
            rng = np.random.default_rng(0)
            hidden = [jax.tree.map(lambda leaf: rng.random(leaf.shape) < 0.5, each) for each in done.results]
            return done._replace(results=hidden)

    run_study(tiny(methods=("random",)), tmp_path, runner=Watching(4))
    restoring = [share for stage, share in given if stage == "restore"]
    fitting = sorted(round(share, 1) for stage, share in given if stage == "fit")
    assert all(abs(share - 0.5) < 0.05 for share in restoring)
    assert fitting == [0.5] * 4 + [1.0] * 8


def test_after_its_time_a_run_finishes_what_it_began_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    class Late(Idle):
        def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
            nonlocal now
            now = 2.0
            return super().run(name, inputs)

    clock = SimpleNamespace(perf_counter=lambda: now, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(engine, "time", clock)
    runner = Late(4)
    summary = run_study(tiny(), tmp_path, runner=runner, stop_after=1.0)
    assert 0 < len(runner.chunks) <= runner.slots
    assert (summary.finished, summary.failed) == (0, 0)
    kept = list((tmp_path / "artefacts").glob("*.safetensors"))
    assert len(kept) == sum(size for _, size in runner.chunks)
    assert run_study(tiny(), tmp_path, runner=Idle(4)).finished == 24


def test_programs_of_long_chunks_are_compiled_first(tmp_path: Path) -> None:
    """While those run, the others' are traced."""
    runner = Idle(64)
    methods = ("random", "dime", "ol")
    run_study(tiny(datasets=("cube",), methods=methods, settings={}), tmp_path, runner=runner)
    assert [stage.part for stage in runner.prepared if _cells(stage)] == ["ol", "ol", "dime", "random"]


def test_long_trainings_are_compiled_first_with_what_they_need(tmp_path: Path) -> None:
    """They keep the device busy while the rest is traced and compiled."""
    runner = Idle(64)
    run_study(EVERYTHING.model_copy(update={"restorers": ("pvae",)}), tmp_path, runner=runner)
    assert [stage.name for stage in runner.prepared[:4]] == ["share", "mask", "restore", "predictor"]


def test_datasets_to_begin_with_are_finished_before_programs_of_others_are_compiled(tmp_path: Path) -> None:
    """CUBE-NM has 55 columns, so that it shares no program with CUBE."""
    computed: list[str] = []

    class Noting(Idle):
        def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
            if like().train.x.shape[1] == 55:
                computed.append(f"{sum(size for _, size in self.chunks)} jobs before")
            super().prepare(name, stage, like, width)

    study = tiny(datasets=("cube_nm", "cube"), methods=("random",))
    runner = Noting(64)
    assert run_study(study, tmp_path, runner=runner, first=("cube",)).finished == 12
    jobs = 2 * (1 + 1 + 1 + 3)  # splits x (predictor, mask, restored table, cells)
    assert computed
    assert set(computed) == {f"{jobs} jobs before"}


def test_what_other_runs_have_finished_meanwhile_is_not_compiled(tmp_path: Path) -> None:
    """The results of another run appear in the folder while this one computes its first dataset."""
    study = tiny(datasets=("cube_nm", "cube"), methods=("random",))

    class Interrupting(Idle):
        def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
            if self.chunks == []:  # another process, which this one has not seen when it began
                for path in elsewhere.rglob("*.*"):
                    if path.is_file() and "cube_nm" in path.name:
                        target = tmp_path / "store" / path.relative_to(elsewhere)
                        target.write_bytes(path.read_bytes())
            return super().run(name, inputs)

    elsewhere = tmp_path / "elsewhere"
    run_study(study, elsewhere, runner=Idle(64))
    runner = Interrupting(64)
    assert run_study(study, tmp_path / "store", runner=runner, first=("cube",)).finished == 12
    assert sum(size for _, size in runner.chunks) == 12  # cube's jobs alone


def test_a_failure_among_the_first_datasets_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    study = tiny(datasets=("cube_nm", "cube"), methods=("random",))
    runner = Idle(64, fails=lambda stage: stage.name == "mask")
    summary = run_study(study, tmp_path, runner=runner, first=("cube",))
    assert summary.finished == 2 * 2  # complete data need no mask, in either


def test_a_full_disk_ends_the_run_and_blames_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store, *arguments: object) -> None:
        raise OSError(28, "No space left on device")

    runner = Idle(4)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_record", full)
        with pytest.raises(OSError, match="No space left"):
            run_study(tiny(), tmp_path, runner=runner)
    assert not list((tmp_path / "failures").iterdir())
    assert run_study(tiny(), tmp_path, runner=Idle(4)).finished == 24


@pytest.mark.slow
def test_waiting_does_not_keep_a_core_busy(tmp_path: Path) -> None:
    """While programs compile, Python has better things to do than to look whether they are ready."""

    class Slow(Idle):
        looks = 0
        began = time.monotonic()

        def ready(self, name: Hashable) -> bool:
            self.looks += 1
            return time.monotonic() - self.began > 2

    runner = Slow(4)
    run_study(tiny(), tmp_path, runner=runner)
    assert runner.looks < 1000


def test_one_folder_has_one_run_of_a_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    with pytest.raises(StoreError, match="at work"):
        run_study(tiny(), tmp_path, runner=Idle(4))
    store.close()
    assert run_study(tiny(), tmp_path, runner=Idle(4)).finished == 24


def test_shared_work_of_another_width_is_refused_too(tmp_path: Path) -> None:
    run_study(tiny(), tmp_path, runner=Idle(4, fails=_cells))
    with pytest.raises(StoreError, match="width 4"):
        run_study(tiny(), tmp_path, runner=Idle(8))


def test_tables_of_another_study_are_not_left_beside_the_file(tmp_path: Path) -> None:
    run_study(tiny(), tmp_path, runner=Idle(4))
    run_study(tiny(seed=1), tmp_path, runner=Idle(4, fails=_cells))
    assert not (tmp_path / "results.parquet").exists()
