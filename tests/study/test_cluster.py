"""A study on a real Dask scheduler with two worker processes, one of which dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ascertain._core.compilation import compiler_options
from ascertain.errors import InputError
from ascertain.recipe import _programs as programs
from ascertain.recipe._programs import Done
from ascertain.recipe._stages import Inputs
from ascertain.study import run_study
from ascertain.study._cluster import DaskRunner, _program
from ascertain.study._engine import Progress
from ascertain.study._runners import LocalRunner
from tests.study.studies import tiny, write_tiny

distributed = pytest.importorskip("distributed")

STUDY = tiny(
    datasets=("cube",), methods=("random",), treatments=("complete", "restricted"), splits=(0, 1, 2, 3)
)

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, about ports and clients that go away


@pytest.fixture(scope="module")
def cluster() -> Any:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as found:
        yield found


class Counting(DaskRunner):
    """Notes the keys of what it is asked to compute."""

    keys: list[bytes]

    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        self.keys.extend(each.key.tobytes() for each in inputs)
        return super().run(name, inputs)


def _programs() -> int:
    """How many programs a worker has compiled; runs there."""
    return _program.cache_info().currsize


@pytest.mark.slow
def test_two_workers_share_the_work_and_no_job_is_computed_twice(cluster: Any, tmp_path: Path) -> None:
    runner = Counting(cluster.scheduler_address, width=1)
    runner.keys = []
    summary = run_study(STUDY, tmp_path, runner=runner)
    jobs = 4 * (1 + 1 + 2)  # splits x (predictor, mask, two cells)
    assert (summary.finished, summary.failed) == (8, 0)
    assert len(runner.keys) == len(set(runner.keys)) == jobs
    with distributed.Client(cluster) as client:
        assert all(count > 0 for count in client.run(_programs).values())


@pytest.mark.slow
def test_a_worker_that_joins_late_is_used(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as growing:
        joined: list[int] = []
        with distributed.Client(growing) as client:

            def grow(progress: Progress) -> None:
                if progress.done >= 2 and not joined:
                    joined.append(progress.done)
                    growing.scale(2)
                    client.wait_for_workers(2, timeout=120)

            runner = DaskRunner(growing.scheduler_address, width=1)
            assert runner.slots == 2
            summary = run_study(STUDY, tmp_path, runner=runner, on_progress=grow)
            assert joined
            assert (summary.finished, summary.failed) == (8, 0)
            used = client.run(_programs)
            assert len(used) == 2
            assert all(count > 0 for count in used.values())


@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Options of the compiler change how numbers are rounded; workers have the usual ones.
    monkeypatch.setattr(programs, "compiler_options", compiler_options)
    run_study(STUDY, tmp_path / "local", runner=LocalRunner(width=2))
    runner = DaskRunner(cluster.scheduler_address, width=2)
    assert runner.slots == 4
    victims = [worker.pid for worker in cluster.workers.values()][:1]

    def kill_one(progress: Progress) -> None:
        if progress.done >= 2 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    summary = run_study(STUDY, tmp_path / "dask", runner=runner, on_progress=kill_one)
    assert not victims
    assert (summary.finished, summary.failed) == (8, 0)
    results = (tmp_path / "dask" / "results.parquet").read_bytes()
    assert results == (tmp_path / "local" / "results.parquet").read_bytes()


def test_a_scheduler_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        DaskRunner("tcp://127.0.0.1:1", connect_seconds=2)


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _scheduler_and_worker(port: str) -> Iterator[subprocess.Popen[str]]:
    own = ("--port", port, "--host", "127.0.0.1", "--no-dashboard")
    worker = (f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard")
    with (
        _process("distributed.cli.dask_scheduler", *own) as scheduler,
        _process("distributed.cli.dask_worker", *worker),
    ):
        yield scheduler


@pytest.mark.slow
def test_a_scheduler_that_dies_is_one_clear_error_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address, out = f"tcp://127.0.0.1:{port}", tmp_path / "out"
    run = ("ascertain", "study", "run", str(write_tiny(tmp_path)), "--width", "1", "--out")
    on_cluster = (*run, str(out), "--engine", "dask", "--address", address)
    with _scheduler_and_worker(port) as scheduler, _process(*on_cluster) as runner:
        while runner.poll() is None and len(list(out.glob("cells/[!.]*"))) < 2:
            time.sleep(0.1)
        scheduler.kill()
        _, said = runner.communicate(timeout=120)
    assert runner.returncode == 2
    assert f"the Dask scheduler at {address} is gone" in " ".join(said.split())
    assert "Traceback" not in said
    assert "distributed" not in said
    # The same command, once there is a scheduler: what was finished is not computed again.
    kept = {
        path: path.stat().st_mtime_ns for part in ("cells", "artefacts") for path in out.glob(f"{part}/[!.]*")
    }
    assert 2 <= len(list(out.glob("cells/[!.]*"))) < 24
    with _scheduler_and_worker(port), _process(*on_cluster) as again:
        _, said = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    with _process(*run, str(tmp_path / "local")) as local:
        local.communicate(timeout=300)
    results = (out / "results.parquet").read_bytes()
    assert results == (tmp_path / "local" / "results.parquet").read_bytes()
