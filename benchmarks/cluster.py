"""What limits a study on many workers: the real engine, scheduler and grid, with tasks that sleep.

Tasks sleep for the time that was measured for such work (`ascertain study plan` uses the same numbers),
scaled down, and return arrays of the right shapes. All else is real: jobs and what they need, the order,
inputs and results that are sent, policies that are scored, files that are written. Scheduler, workers and
engine are three processes, so that each one's processor time can be told.

    python benchmarks/cluster.py                       # 64 workers, the paper's grid, a twentieth of the time
    python benchmarks/cluster.py --workers 16 --scale 0.1 --datasets cube
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import dask
import distributed
import jax
import numpy as np
import psutil  # type: ignore[import-untyped]  # comes with Dask

from ascertain import methods
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import DERIVED, Materials
from ascertain.recipe._programs import Done, result_like
from ascertain.recipe._stages import Inputs, Stage, Values
from ascertain.study import read_study, run_study
from ascertain.study._cluster import DaskRunner
from ascertain.study._costs import chunk_seconds, cost_of
from ascertain.study._file import Study
from ascertain.study._grid import Grid

DATASETS = "cube,cube_nm,cube_nuc,actg175,heart_disease"
PATIENCE = "300s"
OUR_CORES_COMPILE = 2  # the measured processor seconds of a compilation are spread over so many cores


class Times(NamedTuple):
    """How long a chunk and its program take on a worker."""

    run: float
    compile: float


class SleepingRunner(DaskRunner):
    """Sends chunks to workers that sleep."""

    def __init__(self, address: str, width: int, materials: Materials, jobs: list[Job], scale: float):
        super().__init__(address, width)
        self.busy = self.compiling = 0.0  # seconds of all workers
        self.sent = self.received = 0  # bytes
        self.chunks = 0
        self.times = {}
        for job in jobs:
            if not materials.on_host(job):
                seconds = chunk_seconds(job, materials, width)
                compiling = cost_of(job).compiling / OUR_CORES_COMPILE
                self.times[materials.group(job)] = Times(seconds * scale, compiling * scale)
        self._results: dict[Hashable, Any] = {}
        self._counting = threading.Lock()
        self._likes: dict[Hashable, Callable[[], Any]] = {}

    def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Remember the stage, and what its result looks like."""
        super().prepare(name, stage, like, width)
        # The result of every policy has the shape of that of one which is quickly traced.
        quick = stage if stage.name != "fit" else _without_method(stage)
        self._likes[name] = lambda: result_like(quick, like()._replace(given=None), 1)

    def run(self, name: Any, inputs: list[Inputs]) -> Done:
        """Send a chunk to a worker and wait for its results."""
        times = self.times[name[0]]
        with self._connected():
            task = self._client.submit(
                _sleep, times, str(name), self._result(name, inputs), inputs, pure=False
            )
            done: Done = task.result()
        with self._counting:
            self.chunks += 1
            self.busy += times.run
            self.compiling += done.compile_seconds
            self.sent += _bytes(inputs)
            self.received += _bytes(done.results)
        return done._replace(device=self.device, cores=self.cores)

    def _result(self, name: Hashable, inputs: list[Inputs]) -> Any:
        """Ones of the right shapes."""
        with self._counting:
            if name not in self._results:
                restores = self._stages[name][0].name == "restore"
                like = _restored(inputs[0]) if restores else self._likes[name]()
                self._results[name] = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), like)
            return self._results[name]


def _sleep(times: Times, program: str, result: Any, inputs: list[Inputs]) -> Done:
    """What a worker does in place of a chunk."""
    # Kept by the worker: this function comes with every task, and so would a set beside it.
    compiled: set[str] = vars(distributed.get_worker()).setdefault("compiled", set())
    compiling = 0.0 if program in compiled else times.compile
    compiled.add(program)
    time.sleep(times.run + compiling)
    return Done([result] * len(inputs), times.run, compiling, 0, "", None, len(inputs))


def _without_method(stage: Stage) -> Stage:
    return replace(stage, part="random", settings=methods.get("random").settings(), state="s")


def _restored(inputs: Inputs) -> Any:
    return Values(inputs.train.x, inputs.valid.x, np.float32(0))


def _bytes(tree: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def longest_chain(grid: Grid, times: dict[Any, Times]) -> float:
    """Seconds of the jobs that have to follow each other, compiled before."""
    ends: dict[str, float] = {}
    for job in grid.jobs:
        own = 0.0 if job.stage in DERIVED else times[grid.materials.group(job)].run
        ends[job.id] = own + max((ends[need.id] for need in job.needs), default=0.0)
    return max(ends.values())


def simulate(study: Study, n_workers: int, width: int, scale: float, address: str) -> None:
    """Run a study with workers that sleep, and print what limited it."""
    grid = Grid(study, width=width)
    runner = SleepingRunner(address, width, grid.materials, grid.jobs, scale)
    client = runner._client
    client.wait_for_workers(n_workers, timeout=120)
    scheduler = psutil.Process(client.run_on_scheduler(os.getpid))
    workers = psutil.Process(next(iter(client.run(os.getpid).values())))
    before = {"scheduler": _cpu(scheduler), "engine": time.process_time(), "workers": _cpu(workers)}
    transitions = client.run_on_scheduler(_transitions)
    start = time.perf_counter()
    last, transitions_after, after = start, transitions, before

    def note(progress: Any) -> None:
        nonlocal last, transitions_after, after
        last = time.perf_counter()
        if progress.done == progress.total:
            transitions_after = client.run_on_scheduler(_transitions)
            after = {"scheduler": _cpu(scheduler), "engine": time.process_time(), "workers": _cpu(workers)}

    with tempfile.TemporaryDirectory() as folder:
        summary = run_study(study, Path(folder), runner=runner, on_progress=note, on_warning=print)
    makespan = last - start
    used = {name: after[name] - before[name] for name in before}
    moved = transitions_after - transitions
    print(f"{summary.finished} of {summary.cells} cells, {runner.chunks} chunks at width {width}")
    print(f"workers               {n_workers}, each {1 / scale:g} times as fast as measured")
    print(f"work                  {runner.busy:.0f} s, and {runner.compiling:.0f} s of compilation")
    print(f"makespan              {makespan:.1f} s")
    print(f"efficiency            {runner.busy / (n_workers * makespan):.0%}")
    print(f"  with compilation    {(runner.busy + runner.compiling) / (n_workers * makespan):.0%}")
    print(f"longest chain         {longest_chain(grid, runner.times):.1f} s")
    for name, seconds in used.items():
        each = 1000 * seconds / max(1, runner.chunks)
        print(f"{name:<21} {seconds:.1f} s of a core ({seconds / makespan:.0%}), {each:.1f} ms per chunk")
    print(f"transitions           {moved}, {moved / makespan:.0f} per second")
    megabytes = [count / 1e6 for count in (runner.sent, runner.received)]
    print(f"sent and received     {megabytes[0]:.0f} MB and {megabytes[1]:.0f} MB")
    mean = runner.busy / runner.chunks / scale
    print(
        f"At full length a chunk takes {mean:.1f} s: the engine alone could serve "
        f"{mean * runner.chunks / used['engine']:.0f} workers, the scheduler "
        f"{mean * runner.chunks / used['scheduler']:.0f}"
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _transitions(dask_scheduler: Any) -> int:
    return int(dask_scheduler.transition_counter)


async def work(address: str, count: int) -> None:
    """Be many workers, in one process."""
    workers = [distributed.Worker(address, nthreads=1, name=str(number)) for number in range(count)]
    await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in workers))  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="paper")
    parser.add_argument("--datasets", default=DATASETS)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--work-for", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work_for:
        asyncio.run(work(asked.work_for, asked.workers))
        return
    warnings.filterwarnings("ignore", module="distributed")
    study = read_study(asked.study).narrowed(asked.datasets.split(","), None)
    port = 8786
    address = f"tcp://127.0.0.1:{port}"
    scheduler = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard")
    commands = [
        (*scheduler, "--host", "127.0.0.1", "--port", str(port)),
        (sys.executable, __file__, "--work-for", address, "--workers", str(asked.workers)),
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started here is ended, too
    # 64 workers on a few cores: what is slow to answer is not lost.
    dask.config.set(
        {"distributed.comm.timeouts.tcp": PATIENCE, "distributed.comm.timeouts.connect": PATIENCE}
    )
    patient = {f"DASK_DISTRIBUTED__COMM__TIMEOUTS__{kind}": PATIENCE for kind in ("TCP", "CONNECT")}
    quiet = {**os.environ, **patient, "JAX_PLATFORMS": "cpu", "DASK_LOGGING__DISTRIBUTED": "critical"}
    started = [subprocess.Popen(command, env=quiet, stderr=subprocess.DEVNULL) for command in commands]
    try:
        simulate(study, asked.workers, asked.width, asked.scale, address)
    finally:
        for process in started:
            process.terminate()


if __name__ == "__main__":
    main()
