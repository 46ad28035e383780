"""Running a study: missing jobs are grouped by program, computed in chunks, and saved as they finish."""

import math
import time
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ascertain.errors import AscertainError
from ascertain.evaluation._routes import route_structure
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import DERIVED
from ascertain.recipe._programs import Done, run_on_host
from ascertain.study._choice import choose_cell, chosen_record
from ascertain.study._costs import chunk_seconds, stage_rank, work_of
from ascertain.study._file import Study, study_text, write_study
from ascertain.study._grid import Grid
from ascertain.study._records import (
    TABLES,
    assemble,
    cell_record,
    check_provenance,
    details_of,
    routes_record,
)
from ascertain.study._runners import LocalRunner, OutOfMemoryError, Runner
from ascertain.study._store import Store

_POLL_SECONDS = 0.2  # for programs that finish compiling, and for results of other runs
_ASSEMBLE_SECONDS = 120.0  # between tables of what is done so far
_MOST_THREADS = 256  # chunks at once; a cluster may grow


class Progress(NamedTuple):
    """The progress of a run."""

    done: int  # of the jobs that were missing when it began
    total: int
    doing: str


class Summary(NamedTuple):
    """The outcome of a run."""

    cells: int
    finished: int
    failed: int
    seconds: float


@dataclass
class _Group:
    """Jobs that share a program."""

    name: tuple[Any, ...]
    label: str
    width: int
    on_host: bool  # computed on the host, without a program
    waiting: list[Job]
    running: set[str] = field(default_factory=set)  # the jobs' ids


class _Chunk(NamedTuple):
    """Jobs of a group that are computed together."""

    group: _Group
    jobs: list[Job]
    width: int


def run_study(
    study: Study,
    folder: Path,
    *,
    runner: Runner | None = None,
    data_dir: Path | None = None,
    mix: bool = False,
    stop_after: float | None = None,
    on_progress: Callable[[Progress], object] = lambda progress: None,
    on_warning: Callable[[str], object] = lambda message: None,
) -> Summary:
    """Compute what is missing of a study, and assemble its tables.

    May be stopped at any moment; the same call resumes. Several processes may work on one folder at once.

    Parameters
    ----------
    study
        What to run.
    folder
        The store.
    runner
        Where to compute; by default in this process.
    data_dir
        Where to look for data files.
    mix
        Whether to add to results that were computed at another width, on another kind of device or number of
        processor cores, or by other versions.
    stop_after
        Seconds after which no chunk is begun; those begun before are finished and saved.
    on_progress
        Called when a chunk begins or ends.
    on_warning
        Called with a message, such as that a program had to be narrowed.
    """
    start = time.perf_counter()
    runner = runner or LocalRunner()
    grid = Grid(study, data_dir, runner.width)
    store = Store(folder)
    store.open()
    try:
        run = _Run(grid, store, runner, mix, on_progress, on_warning)
        deadline = math.inf if stop_after is None else start + stop_after
        _write_study_file(study, folder)
        try:
            run.compute_until(deadline)
        finally:
            runner.close()
            assemble(store, grid)
        finished = sum(job.id in run.finished for job in grid.cells)
        return Summary(len(grid.cells), finished, len(run.failed), time.perf_counter() - start)
    finally:
        store.close()


class _Run:
    """One run of a study: which jobs wait, run, have finished or failed."""

    def __init__(
        self,
        grid: Grid,
        store: Store,
        runner: Runner,
        mix: bool,
        on_progress: Callable[[Progress], object],
        on_warning: Callable[[str], object],
    ):
        self.grid, self.materials = grid, grid.materials
        self.store, self.runner, self.mix = store, runner, mix
        self._on_progress, self._warn = on_progress, on_warning
        self.finished: set[str] = set()
        self.failed: dict[str, str] = {}
        for job in self.grid.jobs:
            self._accept(job)
        missing = self._missing()
        for job in missing:
            if store.is_damaged(job):
                on_warning(f"{store.path(job)} is damaged; it is computed again")
        self._total = len(missing)
        self._groups = self._grouped(missing)
        self._group_of = {job.id: group for group in self._groups for job in group.waiting}

    def compute_until(self, deadline: float) -> None:
        """Compute all that can be computed; begin no chunk after the deadline of `time.perf_counter`."""
        for group in self._groups:
            self._prepare(group)
        pending: dict[Future[None], _Chunk] = {}
        idle = False  # nothing was begun or done in the last round, though every program is compiled
        threads = ThreadPoolExecutor(_MOST_THREADS)
        assembled = time.monotonic()
        try:
            self._report("")
            while self._groups:
                in_time = time.perf_counter() < deadline
                if not in_time and not pending:
                    break
                for chunk in self._next_chunks(list(pending.values()), idle) if in_time else ():
                    pending[threads.submit(self._compute, chunk)] = chunk
                    self._report(chunk.group.label)
                if not pending:
                    time.sleep(_POLL_SECONDS)
                done, _ = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    self._finish(pending.pop(future), future.exception())
                if done and time.monotonic() - assembled > _ASSEMBLE_SECONDS:
                    assemble(self.store, self.grid)
                    assembled = time.monotonic()
                idle = not pending and not done and all(self._is_ready(group) for group in self._groups)
                if not pending and not done:
                    self._accept_from_other_runs()
                self._groups = [group for group in self._groups if group.waiting or group.running]
                if not pending and self._stuck():
                    break
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _missing(self) -> list[Job]:
        """The jobs to compute: unfinished cells and routes, and the unfinished jobs that they need."""
        wanted = {job.id for job in (*self.grid.cells, *self.grid.routes)}
        missing = []
        for job in reversed(self.grid.jobs):  # those that need a job come before it
            if job.id in wanted and job.id not in self.finished:
                missing.append(job)
                wanted.update(need.id for need in job.needs)
        return missing[::-1]

    def _grouped(self, jobs: list[Job]) -> list[_Group]:
        """Group jobs by program: early stages first, as others need them, then the longest chunks first.

        While a device is busy with a long chunk, the programs of shorter ones are traced.
        """
        found: dict[tuple[Any, ...], _Group] = {}
        for job in jobs:
            on_host = self.materials.on_host(job)
            name = self.materials.group(job)
            if name not in found:
                found[name] = _Group(name, _label(job), 1 if on_host else self.runner.width, on_host, [])
            found[name].waiting.append(job)
        for group in found.values():
            # Jobs that others of the group need come first; the chunk is filled up with the rest.
            needed = {need.id for job in group.waiting for need in job.all_needs()}
            group.waiting.sort(key=lambda job: job.id not in needed)

        def rank(group: _Group) -> tuple[int, float]:
            job = group.waiting[0]
            return stage_rank(job), -chunk_seconds(job, self.materials, group.width)

        return sorted(found.values(), key=rank)

    def _prepare(self, group: _Group) -> None:
        if not group.on_host:
            job = group.waiting[0]
            like = partial(self.materials.like, job)
            self.runner.prepare((group.name, group.width), self.materials.stage(job), like, group.width)

    def _next_chunks(self, running: list[_Chunk], idle: bool) -> list[_Chunk]:
        """Chunks to compute now, of the first groups whose program and inputs are ready.

        If there is nothing else to do (`idle`), a chunk does not wait until it could be fuller.
        """
        slots = self.runner.slots - sum(not chunk.group.on_host for chunk in running)
        # Measuring routes would hold up the tracing of programs, and no job needs its result.
        all_traced = all(self._is_ready(group) for group in self._groups)
        host_is_free = not any(chunk.group.on_host for chunk in running)
        chunks = []
        for group in self._groups:
            if not group.waiting:
                continue
            if group.on_host:
                wait_for_programs = group.waiting[0].stage == "routes" and not all_traced
                if wait_for_programs or not host_is_free:
                    continue
            elif slots == 0 or not self._is_ready(group):
                continue
            jobs = self._reserve(group, idle)
            if jobs:
                chunks.append(_Chunk(group, jobs, group.width))
                host_is_free &= not group.on_host
                slots -= not group.on_host
        return chunks

    def _reserve(self, group: _Group, idle: bool) -> list[Job]:
        """Reserve jobs whose inputs are ready, at most the width; none yet if more will be ready soon."""
        ready = [job for job in group.waiting if all(need.id in self.finished for need in job.needs)]
        coming = sum(not self._blocked(job) and not self._awaits(job, group) for job in group.waiting)
        if len(ready) < min(group.width, coming) and not idle:
            return []
        taken: list[Job] = []
        for job in ready:
            if len(taken) == group.width:
                break
            if not self.store.lock(job):
                continue
            if self._accept(job):  # another run has finished it since
                self._done(group, job)
            else:
                taken.append(job)
                group.waiting.remove(job)
        group.running |= {job.id for job in taken}
        return taken

    def _compute(self, chunk: _Chunk) -> None:
        """Compute a chunk and save its results; runs in a thread."""
        if chunk.jobs[0].stage in DERIVED:
            derive = self._routes if chunk.jobs[0].stage == "routes" else self._choose
            derive(chunk.jobs[0])
            return
        inputs = [self.materials.inputs(job, self._load) for job in chunk.jobs]
        if chunk.group.on_host:
            self._save(chunk, run_on_host(self.materials.stage(chunk.jobs[0]), inputs[0]))
        else:
            self._save(chunk, self.runner.run((chunk.group.name, chunk.width), inputs))

    def _finish(self, chunk: _Chunk, error: BaseException | None) -> None:
        """Record how a chunk ended."""
        group = chunk.group
        group.running -= {job.id for job in chunk.jobs}
        if error is None:
            for job in chunk.jobs:
                self._done(group, job)
        elif isinstance(error, OutOfMemoryError) and chunk.width > 1:
            self._narrow(chunk, error)
        elif isinstance(error, Exception) and not isinstance(error, OSError | AscertainError):
            self._fail(chunk, error)
        else:  # a full disk, a lost cluster: not the fault of these jobs, and others would fail too
            raise error
        self._report("")

    def _fail(self, chunk: _Chunk, error: Exception) -> None:
        """Record why a chunk failed, for all of its jobs but those saved before."""
        message = "".join(traceback.format_exception_only(error)).strip()
        for job in chunk.jobs:
            if self._accept(job):
                self._done(chunk.group, job)
                continue
            self.failed[job.id] = message
            self.store.save_failure(job, message, "".join(traceback.format_exception(error)))
            self.store.unlock(job)
        self._warn(f"{chunk.group.label} failed: {message}")

    def _narrow(self, chunk: _Chunk, error: OutOfMemoryError) -> None:
        """Try again at half the width."""
        group = chunk.group
        for job in chunk.jobs:
            self.store.unlock(job)
        group.waiting = chunk.jobs + group.waiting
        if chunk.width == group.width:  # not narrowed since it began
            group.width //= 2
            self._warn(f"{group.label}: too wide for the memory ({error}); now {group.width} at a time")
            self._prepare(group)

    def _save(self, chunk: _Chunk, done: Done) -> None:
        """Save the results of a chunk."""
        details = details_of(done, len(chunk.jobs), self.runner, chunk.width)
        for job, result in zip(chunk.jobs, done.results, strict=True):
            if job.stage != "fit":
                self.store.save_artefact(job, result, details)
                continue
            record = cell_record(job, self.grid, result, self._load, details)
            followed = None if result.followed is None else result.followed.shortened()
            self.store.save_record(job, record, followed)

    def _choose(self, job: Job) -> None:
        """Choose a treatment by what was recorded of all, on the host."""
        start = time.perf_counter()
        cell, choice = choose_cell(job, self.materials, self.store, self._load)
        picked = self.store.record(cell)
        assert picked is not None
        done = self._on_host(time.perf_counter() - start)
        record = chosen_record(job, picked, choice, details_of(done, 1, self.runner, 1))
        self.store.save_record(job, record)

    def _routes(self, job: Job) -> None:
        """Measure the structure of a split's routes, on the host."""
        start = time.perf_counter()
        dataset = self.materials.datasets[job.dataset]
        split = dataset.split(job.split, self.materials.protocol)
        found = route_structure(dataset, split, self._load(job.needs[0]), job.split)
        seconds = time.perf_counter() - start
        details = details_of(self._on_host(seconds), 1, self.runner, 1)
        budget = float(dataset.budgets[-1])
        self.store.save_record(job, routes_record(job, found, budget, self.grid.study.protocol, details))

    def _on_host(self, seconds: float) -> Done:
        """How long something took that needs no program."""
        return Done([], seconds, 0.0, 0, self.runner.device, self.runner.cores)

    def _load(self, job: Job) -> Any:
        return self.store.load_artefact(job, self.materials.result_like(job))

    def _done(self, group: _Group, job: Job) -> None:
        self.store.unlock(job)
        self.finished.add(job.id)
        if job in group.waiting:
            group.waiting.remove(job)

    def _accept(self, job: Job) -> bool:
        """Whether a job's result is there, computed as this run would compute it."""
        details = self.store.details(job) if self.store.path(job).exists() else None
        if details is None:
            return False
        if not self.mix:
            check_provenance(self.store.folder, details, self.runner)
        self.finished.add(job.id)
        return True

    def _blocked(self, job: Job) -> bool:
        """Whether a job needs one that has failed."""
        return any(need.id in self.failed for need in job.all_needs())

    def _awaits(self, job: Job, group: _Group) -> bool:
        """Whether a job needs, directly or not, one of the same group that has not begun.

        For instance, a Partial VAE of restored data needs one of incomplete data, by the same program.
        """
        return any(
            need.id not in self.finished
            and need.id not in group.running
            and (self._group_of[need.id] is group or self._awaits(need, group))
            for need in job.needs
        )

    def _is_ready(self, group: _Group) -> bool:
        return group.on_host or self.runner.ready((group.name, group.width))

    def _stuck(self) -> bool:
        """Whether every job that is left needs one that has failed."""
        return all(self._blocked(job) for group in self._groups for job in group.waiting)

    def _accept_from_other_runs(self) -> None:
        """Use what other runs on this store have finished."""
        for group in self._groups:
            for job in list(group.waiting):
                if self._accept(job):
                    self._done(group, job)

    def _report(self, doing: str) -> None:
        left = sum(len(group.waiting) + len(group.running) for group in self._groups)
        self._on_progress(Progress(self._total - left, self._total, doing))


def _label(job: Job) -> str:
    """What a job's group does, for progress and warnings."""
    return f"{job.dataset}: {f'{job.method} ({job.state})' if job.stage == 'fit' else work_of(job)}"


def _write_study_file(study: Study, folder: Path) -> None:
    """Write the study file; tables of an earlier, different study are removed."""
    path = folder / "study.toml"
    if path.exists() and path.read_text(encoding="utf-8") != study_text(study):
        for name in TABLES:
            (folder / name).unlink(missing_ok=True)
    write_study(study, path)
