"""Where chunks of a study are computed: in this process, on its device.

A runner compiles programs ahead of their use and computes chunks of jobs; the engine decides which, and saves
the results. `ascertain.study._cluster` has a runner for other machines.
"""

import os
import platform
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor

import jax

from ascertain._core.checks import check_count
from ascertain.recipe._programs import Done, Program, usable_cores
from ascertain.recipe._stages import Inputs, Stage

# Replicates of one program. On a GPU, enough to fill it and few enough that short groups waste little; on
# processor cores one replicate keeps them busy.
WIDTHS = {"gpu": 64, "cpu": 1}
_USABLE_MEMORY = 0.9  # of a GPU's, for one program


class OutOfMemoryError(Exception):
    """A program does not fit into the device's memory at its width."""


class Runner(ABC):
    """Computes chunks, in the background."""

    width: int  # replicates per program
    device: str  # its kind
    cores: int | None = None  # that compiled programs share; None if the device is another one
    host: str

    @property
    @abstractmethod
    def slots(self) -> int:
        """The most chunks to have begun at a time."""

    @abstractmethod
    def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Begin to compile a program under a name; `like` returns the shapes of its inputs."""

    @abstractmethod
    def ready(self, name: Hashable) -> bool:
        """Whether a program can be run without waiting."""

    @abstractmethod
    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        """Compute a chunk; raises `OutOfMemoryError` where a smaller width may do. Called from threads."""

    @abstractmethod
    def close(self) -> None:
        """Start nothing new."""


class LocalRunner(Runner):
    """Computes in this process.

    Parameters
    ----------
    width
        Replicates per program; by default what suits the device.
    threads
        Programs compiled at the same time; by default one per processor core, at most 16.
    """

    def __init__(self, width: int | None = None, threads: int | None = None):
        device = jax.devices()[0]
        self.width = check_count("width", width or default_width(), least=1)
        self.device, self.cores = device.device_kind, usable_cores()
        self.host = platform.node()
        # Python traces one program after the other, in the order in which they are needed.
        self._tracer = ThreadPoolExecutor(1)
        self._compilers = ThreadPoolExecutor(threads or min(os.cpu_count() or 1, 16))
        self._on_device = threading.Semaphore(1)
        self._programs: dict[Hashable, Future[Program]] = {}

    @property
    def slots(self) -> int:
        """Three: one is computed, while another's inputs are made and a third's results are written."""
        return 3

    def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Begin to compile a program in a thread."""
        ready: Future[Program] = Future()
        self._programs[name] = ready
        self._tracer.submit(self._build, ready, stage, like, width)

    def ready(self, name: Hashable) -> bool:
        """Whether a program is compiled."""
        return self._programs[name].done()

    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        """Compute a chunk when the device is free."""
        program = self._programs[name].result()
        with self._on_device:
            return run_program(program, inputs)

    def close(self) -> None:
        """Stop compiling."""
        self._tracer.shutdown(wait=False, cancel_futures=True)
        self._compilers.shutdown(wait=False, cancel_futures=True)

    def _build(self, ready: Future[Program], stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Trace a program and pass it to the compilers; errors are raised when it is run."""

        def compile_it() -> None:
            try:
                program.compile()
                ready.set_result(program)
            except Exception as error:
                ready.set_exception(error)

        try:
            program = Program(stage, like(), width)
            program.lower()
            self._compilers.submit(compile_it)
        except Exception as error:
            ready.set_exception(error)


def default_width() -> int:
    """Replicates per program that suit this process's device."""
    return WIDTHS.get(jax.default_backend(), WIDTHS["cpu"])


def run_program(program: Program, inputs: list[Inputs]) -> Done:
    """Run a program; raises `OutOfMemoryError` if memory does not suffice."""
    memory = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    # Of the total memory, not of what is free now: the width should not depend on the moment.
    if memory is not None and program.width > 1 and program.total_bytes > _USABLE_MEMORY * memory:
        raise OutOfMemoryError(f"{program.total_bytes / 2**30:.1f} GiB of {memory / 2**30:.1f} GiB")
    try:
        return program.run(inputs)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise OutOfMemoryError(str(error).splitlines()[0]) from error
        raise
