"""Where chunks of a study are computed: in this process, on its device.

A runner compiles programs ahead of their use and computes chunks of jobs; the engine decides which, and saves
the results. `ascertain.study._cluster` has a runner for other machines.
"""

import math
import os
import platform
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax

from ascertain._core.checks import check_count
from ascertain._core.compilation import is_crowded, make_room
from ascertain._core.threads import Turns
from ascertain.recipe._programs import Done, Program, Trainee, TrainingProgram, program_of
from ascertain.recipe._rounding import numeric_options, usable_cores
from ascertain.recipe._stages import Inputs, Stage

# Replicates of one program. On a GPU, enough to fill it and few enough that short groups waste little; on
# processor cores one replicate keeps them busy.
WIDTHS = {"gpu": 64, "cpu": 1}
_USABLE_MEMORY = 0.9  # of a GPU's, for one program
_LONGEST_WAIT = 600  # seconds until a program is compiled although the process is crowded


class OutOfMemoryError(Exception):
    """A program does not fit into the device's memory at its width."""


More = Callable[[int], list[Trainee] | None]
Keep = Callable[[int, Done, bool], None]


class Turn(NamedTuple):
    """A time in which the device was busy, by `time.perf_counter`."""

    start: float
    end: float
    work: str


class Runner(ABC):
    """Computes chunks, in the background."""

    width: int  # replicates per program
    device: str  # its kind
    cores: int | None = None  # that compiled programs share; None if the device is another one
    options: str = ""  # of XLA and JAX that change numbers
    host: str
    turns: Sequence[Turn] = ()  # of the device so far, if it is this process's

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

    def release(self, name: Hashable) -> None:
        """Forget a program that is not needed any more; by default nothing is kept of it here."""
        del name

    @abstractmethod
    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        """Compute a chunk; raises `OutOfMemoryError` where a smaller width may do. Called from threads."""

    def trains(self, stage: Stage) -> bool:
        """Whether `train` can be asked to compute a stage; by default not."""
        del stage
        return False

    def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
        """Train models, and further ones as soon as some have stopped, until there are no more.

        Parameters
        ----------
        name
            Of the program.
        trainees
            The first to train, at most the width.
        more
            Called with a number of free places, returns at most as many models to train; None to interrupt
            those in training.
        keep
            Called with the number of a model, in the order of coming, what came out, and whether that is the
            model, or the state of a training that was interrupted.
        """
        raise NotImplementedError

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
        self.device, self.cores, self.options = device.device_kind, usable_cores(), numeric_options()
        self.host = platform.node()
        # Python traces one program after the other, in the order in which they are needed.
        self._tracer = ThreadPoolExecutor(1)
        on_gpu = jax.default_backend() == "gpu"
        self._compilers = ThreadPoolExecutor(
            threads or min(os.cpu_count() or 1, 16), initializer=_give_way if on_gpu else None
        )
        # A GPU computes in the order in which it is asked. It is asked for the next chunk before the last one
        # is there, as Python's threads hold each other up. Processor cores would compute both at once.
        self._device = Turns(2 if on_gpu else 1)
        self._memory, self._in_use = threading.Condition(), 0  # bytes of programs
        self._noting, self._ended = threading.Lock(), 0.0
        self.turns: list[Turn] = []
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

    def release(self, name: Hashable) -> None:
        """Forget a program."""
        self._programs.pop(name, None)

    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        """Compute a chunk when the device is free."""
        program = self._programs[name].result()
        with enough_memory(program):
            stacked = program.stacked(inputs)
            outcome, seconds = self._compute(program, lambda: program.begin(stacked))
        return program.done(outcome, len(inputs), seconds)

    def trains(self, stage: Stage) -> bool:
        """Whether a stage is a training that can be interrupted."""
        return stage.trains

    def train(self, name: Hashable, trainees: list[Trainee], more: More, keep: Keep) -> None:
        """Train models; after every few rounds, other programs have their turn on the device."""
        program = self._programs[name].result()
        assert isinstance(program, TrainingProgram)
        with enough_memory(program):
            places = program.places()
            places.fill(trainees)
            while places.taken:
                _, seconds = self._compute(program, places.begin)
                for number, done in places.leave(seconds).items():
                    keep(number, done, True)
                coming = more(places.free)
                if coming is None:
                    for number, done in places.interrupt().items():
                        keep(number, done, False)
                else:
                    places.fill(coming)

    def close(self) -> None:
        """Stop compiling."""
        self._tracer.shutdown(wait=False, cancel_futures=True)
        self._compilers.shutdown(wait=False, cancel_futures=True)

    def _compute(self, program: Program, begin: Callable[[], Any]) -> tuple[Any, float]:
        """Let the device compute, and wait for it; also returns the seconds in which it did nothing else."""
        with self._device, self._room_for(program):
            asked = time.perf_counter()
            outcome = jax.block_until_ready(begin())
            with self._noting:
                start, end = max(asked, self._ended), time.perf_counter()
                self._ended = end
                self.turns.append(Turn(start, end, f"{program.stage.name} {program.stage.part}".strip()))
        return outcome, end - start

    @contextmanager
    def _room_for(self, program: Program) -> Iterator[None]:
        """Wait until the device has memory for a program beside the one that it computes."""
        needed, usable = program.total_bytes, _USABLE_MEMORY * device_memory()
        with self._memory:
            self._memory.wait_for(lambda: not self._in_use or self._in_use + needed <= usable)
            self._in_use += needed
        try:
            yield
        finally:
            with self._memory:
                self._in_use -= needed
                self._memory.notify()

    def _build(self, ready: Future[Program], stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Trace a program and pass it to the compilers; errors are raised when it is run."""

        def compile_it() -> None:
            try:
                program.compile()
                ready.set_result(program)
            except Exception as error:
                ready.set_exception(error)

        try:
            _wait_for_room()
            program = program_of(stage, like(), width)
            program.lower()
            self._compilers.submit(compile_it)
        except Exception as error:
            ready.set_exception(error)


def _give_way() -> None:
    """Let threads that feed a GPU go before this one, which compiles; only Linux orders threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def _wait_for_room() -> None:
    """Wait until programs were released, where the process has not much room for more; but not for good."""
    for _ in range(_LONGEST_WAIT):
        make_room()
        if not is_crowded():
            break
        time.sleep(1)


def default_width() -> int:
    """Replicates per program that suit this process's device."""
    return WIDTHS.get(jax.default_backend(), WIDTHS["cpu"])


def device_memory() -> float:
    """The bytes of the device's memory; infinity where it does not say, as processor cores do not."""
    return float((jax.devices()[0].memory_stats() or {}).get("bytes_limit", math.inf))


def run_program(program: Program, inputs: list[Inputs]) -> Done:
    """Run a program; raises `OutOfMemoryError` if memory does not suffice."""
    with enough_memory(program):
        return program.run(inputs)


@contextmanager
def enough_memory(program: Program) -> Iterator[None]:
    """Raise an `OutOfMemoryError` if memory does not suffice for a program, before or while it is run."""
    memory = device_memory()
    # Of the total memory, not of what is free now: the width should not depend on the moment.
    if program.width > 1 and program.total_bytes > _USABLE_MEMORY * memory:
        raise OutOfMemoryError(f"{program.total_bytes / 2**30:.1f} GiB of {memory / 2**30:.1f} GiB")
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise OutOfMemoryError(str(error).splitlines()[0]) from error
        raise
