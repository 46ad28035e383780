"""How a GPU is asked for chunks, with a thread in its place."""

import queue
import threading
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from ascertain.recipe._programs import Program
from ascertain.recipe._stages import Stage
from ascertain.study import _runners as runners
from ascertain.study._runners import LocalRunner

SECONDS = 0.05  # of a chunk on the device


class Sized(Program):
    """A program that needs so many bytes."""

    def __init__(self, size: int):
        self.stage = Stage("fit", "ol")
        self.total_bytes = size


class Gpu(threading.Thread):
    """Computes in the order in which it is asked."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.asked: queue.Queue[threading.Event] = queue.Queue()
        self.ahead: list[int] = []  # how many chunks were asked for before each, and not yet there
        self.start()

    def run(self) -> None:
        while True:
            finished = self.asked.get()
            time.sleep(SECONDS)
            finished.set()
            self.asked.task_done()

    def ask(self) -> Any:
        self.ahead.append(self.asked.unfinished_tasks)
        finished = threading.Event()
        self.asked.put(finished)
        return SimpleNamespace(block_until_ready=finished.wait)


def _compute(gpu: Gpu, sizes: list[int], memory: float, monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    """Compute chunks of these sizes, each asked for by a thread of its own."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(runners, "device_memory", lambda: memory)
    runner = LocalRunner(width=1, threads=1)

    def chunk(size: int) -> None:
        runner._compute(Sized(size), gpu.ask)

    threads = [threading.Thread(target=chunk, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runner.close()
    return runner


def test_a_gpu_is_asked_for_one_chunk_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    runner = _compute(gpu, [1] * 6, 100, monkeypatch)
    assert len(gpu.ahead) == 6
    assert max(gpu.ahead) == 1
    turns = sorted(runner.turns)
    assert all(before.end <= after.start for before, after in pairwise(turns))
    assert sum(turn.end - turn.start for turn in turns) >= 6 * SECONDS


def test_programs_that_do_not_fit_beside_each_other_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    _compute(gpu, [60] * 4, 100, monkeypatch)
    assert gpu.ahead == [0] * 4


def test_a_program_of_any_size_is_asked_for_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it fits at all is checked before; the device may also do with less than was thought."""
    gpu = Gpu()
    _compute(gpu, [500, 1, 500], 100, monkeypatch)
    assert len(gpu.ahead) == 3
