"""Running a study: missing jobs are grouped by program, computed in chunks, and saved as they finish."""

import math
import threading
import time
import traceback
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ascertain.errors import AscertainError
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import DERIVED
from ascertain.recipe._programs import Done, Trainee, run_on_host
from ascertain.study._derived import derive
from ascertain.study._file import Study
from ascertain.study._grid import Grid
from ascertain.study._groups import Chunk, Group, group_jobs, tracing_order
from ascertain.study._records import (
    assemble,
    cell_record,
    check_provenance,
    details_of,
    write_study_file,
)
from ascertain.study._runners import LocalRunner, OutOfMemoryError, Runner
from ascertain.study._store import Store
from ascertain.study._timeline import Timeline
from ascertain.study._unfinished import save_interrupted, trainee_of

_POLL_SECONDS = 0.2  # for programs that finish compiling, and for results of other runs
_ASSEMBLE_SECONDS = 120.0  # between tables of what is done so far
_FEW = 8  # an eighth of the places of a training may be free before jobs hurry to fill them
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


def run_study(
    study: Study,
    folder: Path,
    *,
    runner: Runner | None = None,
    data_dir: Path | None = None,
    mix: bool = False,
    stop_after: float | None = None,
    first: Collection[str] = (),
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
        processor cores, with other settings of XLA and JAX, or by other versions.
    stop_after
        Seconds after which no chunk is begun. Those begun before are finished and saved; long trainings
        (Partial VAEs) are interrupted, and the next run goes on with them.
    first
        Datasets to begin with. Programs of the others are compiled once nothing is left to do for these, so
        that several processes which begin with different datasets do not all compile everything.
    on_progress
        Called when a chunk begins or ends.
    on_warning
        Called with a message, such as that a program had to be narrowed.

    Examples
    --------
    `examples/several_completions.py` writes a study, runs it and looks at the results.
    """
    start = time.perf_counter()
    runner = runner or LocalRunner()
    store = Store(folder)
    grid = Grid(study, data_dir, runner.width, store.result_like)
    store.open()
    try:
        run = _Run(grid, store, runner, mix, first, on_progress, on_warning)
        deadline = math.inf if stop_after is None else start + stop_after
        write_study_file(study, folder)
        try:
            run.compute_until(deadline)
        finally:
            runner.close()
            run.write_tables()
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
        first: Collection[str],
        on_progress: Callable[[Progress], object],
        on_warning: Callable[[str], object],
    ):
        self.grid, self.materials = grid, grid.materials
        self.store, self.runner, self.mix = store, runner, mix
        self._on_progress, self._warn = on_progress, on_warning
        self._timeline = Timeline(store.folder, runner.device)
        self._lock = threading.RLock()  # of all that follows: chunks in training change it, too
        self._deadline = math.inf
        self.finished: set[str] = set()
        self.failed: dict[str, str] = {}
        for job in self.grid.jobs:
            self._accept(job)
        missing = self._missing()
        for job in missing:
            if store.is_damaged(job):
                on_warning(f"{store.path(job)} is damaged; it is computed again")
        self._total, self._left = len(missing), -1
        groups = group_jobs(missing, self.materials, runner)
        self._group_of = {job.id: group for group in groups for job in group.waiting}
        self._groups = [group for group in groups if not first or group.is_about(first)]
        self._later = [group for group in groups if group not in self._groups]

    def compute_until(self, deadline: float) -> None:
        """Compute all that can be computed; begin no job after the deadline of `time.perf_counter`."""
        self._deadline = deadline
        for group in tracing_order(self._groups):
            self._prepare(group)
        if not self._groups:
            self._take_up_the_rest()
        pending: dict[Future[None], Chunk] = {}
        idle = False  # nothing was begun or done in the last round, though every program is compiled
        threads = ThreadPoolExecutor(_MOST_THREADS)
        assembled = time.monotonic()
        try:
            self._report("")
            while self._groups:
                in_time = time.perf_counter() < deadline
                if not in_time and not pending:
                    break
                with self._lock:
                    chunks = self._next_chunks(list(pending.values()), idle) if in_time else []
                for chunk in chunks:
                    pending[threads.submit(self._compute, chunk)] = chunk
                    self._report(chunk.group.label)
                if not pending:
                    time.sleep(_POLL_SECONDS)
                done, _ = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                if time.monotonic() - assembled > _ASSEMBLE_SECONDS:
                    self.write_tables()
                    assembled = time.monotonic()
                with self._lock:
                    for future in done:
                        self._finish(pending.pop(future), future.exception())
                    idle = not pending and not done and all(self._is_ready(group) for group in self._groups)
                    if not pending and not done:
                        self._accept_from_other_runs(self._groups)
                    self._let_go_of_finished_groups()
                    if self._later and self._stuck():
                        self._take_up_the_rest()
                    self._timeline.lacks_program(self._lacks_program())
                    self._report("")
                if not pending and self._stuck():
                    break
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def write_tables(self) -> None:
        """Write the tables and the device's timeline, as far as the run is."""
        assemble(self.store, self.grid)
        self._timeline.write(self.runner.turns)

    def _missing(self) -> list[Job]:
        """The jobs to compute: unfinished cells and routes, and the unfinished jobs that they need."""
        wanted = {job.id for job in (*self.grid.cells, *self.grid.routes)}
        missing = []
        for job in reversed(self.grid.jobs):  # those that need a job come before it
            if job.id in wanted and job.id not in self.finished:
                missing.append(job)
                wanted.update(need.id for need in job.needs)
        return missing[::-1]

    def _prepare(self, group: Group) -> None:
        if not group.on_host:
            job = group.waiting[0]
            like = partial(self.materials.like, job)
            self.runner.prepare((group.name, group.width), self.materials.stage(job), like, group.width)

    def _let_go_of_finished_groups(self) -> None:
        """Drop the groups of which no job is left, and their programs."""
        for group in self._groups:
            if not group.waiting and not group.running and not group.on_host:
                self.runner.release((group.name, group.width))
        self._groups = [group for group in self._groups if group.waiting or group.running]

    def _take_up_the_rest(self) -> None:
        """Go on with datasets that were not to be begun with, as far as other runs have not finished them."""
        self._accept_from_other_runs(self._later)
        rest, self._later = [group for group in self._later if group.waiting], []
        for group in tracing_order(rest):
            self._prepare(group)
        self._groups += rest

    def _next_chunks(self, running: list[Chunk], idle: bool) -> list[Chunk]:
        """Chunks to compute now, of the first groups whose program and inputs are ready.

        If there is nothing else to do (`idle`), a chunk does not wait until it could be fuller.
        """
        slots = self.runner.slots
        slots -= sum(not chunk.group.on_host and not chunk.group.trains for chunk in running)
        # Measuring routes would hold up the tracing of programs, and no job needs its result.
        all_traced = all(self._is_ready(group) for group in self._groups)
        host_is_free = not any(chunk.group.on_host for chunk in running)
        wanted = self._wanted()
        chunks = []
        for group in self._groups:
            if not group.waiting or (group.trains and group.running):
                continue
            if group.on_host:
                wait_for_programs = group.waiting[0].stage == "routes" and not all_traced
                if wait_for_programs or not host_is_free:
                    continue
            elif (slots == 0 and not group.trains) or not self._is_ready(group):
                continue
            ready = self._inputs_ready(group)
            hurry = idle or any(job.id in wanted for job in ready)
            if not hurry and self._will_be_fuller(group, len(ready)):
                continue
            jobs = self._reserve(group, ready, group.width)
            if group.trains and not idle and len(jobs) < min(group.width, len(ready)):
                # Another run trains such models; these can join them there.
                self._give_back(group, jobs)
            elif jobs:
                chunks.append(Chunk(group, jobs, group.width))
                host_is_free &= not group.on_host
                slots -= not group.on_host and not group.trains
        return chunks

    def _wanted(self) -> set[str]:
        """The jobs that are needed to fill places of a training, where many are free."""
        hungry = (group for group in self._groups if group.free >= max(1, group.width // _FEW))
        return {need.id for group in hungry for job in group.waiting for need in job.all_needs()}

    def _will_be_fuller(self, group: Group, n_ready: int) -> bool:
        """Whether a chunk of the jobs that are ready has room for some that will be ready soon."""
        if n_ready >= group.width:
            return False
        coming = sum(not self._blocked(job) and not self._awaits(job, group) for job in group.waiting)
        return n_ready < min(group.width, coming)

    def _inputs_ready(self, group: Group) -> list[Job]:
        return [job for job in group.waiting if all(need.id in self.finished for need in job.needs)]

    def _reserve(self, group: Group, ready: list[Job], most: int) -> list[Job]:
        """Reserve jobs whose inputs are ready."""
        taken: list[Job] = []
        for job in ready:
            if len(taken) == most:
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

    def _give_back(self, group: Group, jobs: list[Job]) -> None:
        """Let jobs that were reserved wait again."""
        for job in jobs:
            self.store.unlock(job)
        group.running -= {job.id for job in jobs}
        group.waiting = jobs + group.waiting

    def _compute(self, chunk: Chunk) -> None:
        """Compute a chunk and save its results; runs in a thread."""
        if chunk.jobs[0].stage in DERIVED:
            derive(chunk.jobs[0], self.grid, self.store, self.runner, self._load)
            return
        name = (chunk.group.name, chunk.width)
        if chunk.group.trains:
            trainees = [self._trainee(chunk, job) for job in chunk.jobs]
            self.runner.train(name, trainees, partial(self._join, chunk), partial(self._leave, chunk))
            return
        inputs = [self.materials.inputs(job, self._load) for job in chunk.jobs]
        if chunk.group.on_host:
            self._save(chunk.jobs, run_on_host(self.materials.stage(chunk.jobs[0]), inputs[0]), 1)
        else:
            self._save(chunk.jobs, self.runner.run(name, inputs), chunk.width)

    def _trainee(self, chunk: Chunk, job: Job) -> Trainee:
        inputs = self.materials.inputs(job, self._load)
        return trainee_of(self.store, job, inputs, self.runner, chunk.width, self._warn)

    def _join(self, chunk: Chunk, free: int) -> list[Trainee] | None:
        """Let jobs that are ready join a chunk in training, while there is time; runs in its thread."""
        with self._lock:
            if time.perf_counter() >= self._deadline:
                return None
            jobs = self._reserve(chunk.group, self._inputs_ready(chunk.group), free)
            chunk.jobs.extend(jobs)
            chunk.group.free = free - len(jobs)
        return [self._trainee(chunk, job) for job in jobs]

    def _leave(self, chunk: Chunk, number: int, done: Done, has_stopped: bool) -> None:
        """Save the result of a job whose training has stopped, or its state; runs in its chunk's thread."""
        job = chunk.jobs[number]
        if not has_stopped:
            save_interrupted(self.store, job, done, self.runner, chunk.width)
            with self._lock:
                self._give_back(chunk.group, [job])
            return
        self._save([job], done, chunk.width)
        with self._lock:
            self._done(chunk.group, job)

    def _finish(self, chunk: Chunk, error: BaseException | None) -> None:
        """Record how a chunk ended."""
        group = chunk.group
        group.running -= {job.id for job in chunk.jobs}
        group.free = 0
        if error is None:
            for job in [] if group.trains else chunk.jobs:  # those trained have been dealt with one by one
                self._done(group, job)
        elif isinstance(error, OutOfMemoryError) and chunk.width > 1:
            self._narrow(chunk, error)
        elif isinstance(error, Exception) and not isinstance(error, OSError | AscertainError):
            self._fail(chunk, error)
        else:  # a full disk, a lost cluster: not the fault of these jobs, and others would fail too
            raise error

    def _fail(self, chunk: Chunk, error: Exception) -> None:
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

    def _narrow(self, chunk: Chunk, error: OutOfMemoryError) -> None:
        """Try again at half the width."""
        group = chunk.group
        self._give_back(group, [job for job in chunk.jobs if job.id not in self.finished])
        if chunk.width == group.width:  # not narrowed since it began
            group.width //= 2
            self._warn(f"{group.label}: too wide for the memory ({error}); now {group.width} at a time")
            self._prepare(group)

    def _save(self, jobs: list[Job], done: Done, width: int) -> None:
        """Save the results of jobs that were computed together."""
        details = details_of(done, self.runner, width)
        for job, result in zip(jobs, done.results, strict=True):
            if job.stage != "fit":
                self.store.save_artefact(job, result, details)
                continue
            record = cell_record(job, self.grid, result, self._load, details)
            followed = None if result.followed is None else result.followed.shortened()
            self.store.save_record(job, record, followed)

    def _load(self, job: Job) -> Any:
        return self.store.load_artefact(job, self.materials.result_like(job))

    def _done(self, group: Group, job: Job) -> None:
        self.store.unlock(job)
        self.finished.add(job.id)
        group.running.discard(job.id)
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

    def _awaits(self, job: Job, group: Group) -> bool:
        """Whether a job needs, directly or not, one of the same group that has not begun.

        For instance, a Partial VAE of restored data needs one of incomplete data, by the same program.
        """
        return any(
            need.id not in self.finished
            and need.id not in group.running
            and (self._group_of[need.id] is group or self._awaits(need, group))
            for need in job.needs
        )

    def _is_ready(self, group: Group) -> bool:
        return group.on_host or self.runner.ready((group.name, group.width))

    def _lacks_program(self) -> bool:
        """Whether jobs are ready to be computed, but not their program."""
        return any(not self._is_ready(group) and self._inputs_ready(group) for group in self._groups)

    def _stuck(self) -> bool:
        """Whether every job that is left of these groups needs one that has failed."""
        return all(self._blocked(job) for group in self._groups for job in group.waiting)

    def _accept_from_other_runs(self, groups: list[Group]) -> None:
        """Use what other runs on this store have finished."""
        for group in groups:
            for job in list(group.waiting):
                if self._accept(job):
                    self._done(group, job)

    def _report(self, doing: str) -> None:
        groups = (*self._groups, *self._later)
        left = sum(len(group.waiting) + len(group.running) for group in groups)
        if doing or left != self._left:
            self._left = left
            self._on_progress(Progress(self._total - left, self._total, doing))
