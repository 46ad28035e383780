"""A study on a real Dask scheduler with two worker processes, one of which dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ascertain._core.compilation import compiler_options
from ascertain.errors import InputError
from ascertain.recipe import _programs as programs
from ascertain.study import read_study, run_study
from ascertain.study._cluster import DaskRunner
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


@pytest.mark.slow
def test_a_scheduler_that_dies_is_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address, out = f"tcp://127.0.0.1:{port}", tmp_path / "out"
    own = ("--port", port, "--host", "127.0.0.1", "--no-dashboard")
    run = ("ascertain", "study", "run", str(write_tiny(tmp_path)), "--out", str(out), "--engine", "dask")
    with (
        _process("distributed.cli.dask_scheduler", *own) as scheduler,
        _process("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"),
        _process(*run, "--address", address) as runner,
    ):
        while runner.poll() is None and len(list(out.glob("cells/[!.]*"))) < 2:
            time.sleep(0.1)
        scheduler.kill()
        _, said = runner.communicate(timeout=120)
    assert runner.returncode == 2
    assert f"the Dask scheduler at {address} is gone" in " ".join(said.split())
    assert "Traceback" not in said
    assert "distributed" not in said
    # What was finished is kept, and goes on without a cluster.
    assert run_study(read_study(tmp_path / "tiny.toml"), out, mix=True).finished == 24
