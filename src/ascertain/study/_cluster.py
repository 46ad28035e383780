"""Computing a study on a Dask cluster: chunks are its tasks, and their results come back to this process.

Only this process reads data files and writes the store, so workers need the package and nothing else: no
shared file system. A task that dies with its worker is run again by another one.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from typing import Any

import jax

from ascertain._core.checks import check_count
from ascertain._core.compilation import enable_cache, make_room
from ascertain.errors import AscertainError, InputError
from ascertain.recipe._programs import Done, Program, program_of, shape_key
from ascertain.recipe._rounding import numeric_options, usable_cores
from ascertain.recipe._stages import Inputs, Stage
from ascertain.study._runners import Runner, default_width, run_program

_GPU = "GPU"  # the resource that a worker with a GPU should be started with: --resources GPU=1
_CLOSING_SECONDS = 5
_AHEAD = 2  # chunks begun per worker, so that none waits for inputs
_PROGRAMS = 32  # kept by a worker; a process has no room for hundreds of them


class DaskRunner(Runner):
    """Computes on the workers of a Dask scheduler.

    Parameters
    ----------
    address
        Of the scheduler, such as `tcp://10.0.0.1:8786`; None starts workers on this machine.
    width
        Replicates per program; by default what suits the workers' devices.
    connect_seconds
        How long to wait for the scheduler.
    """

    def __init__(self, address: str | None = None, width: int | None = None, *, connect_seconds: float = 20):
        distributed = _distributed()
        self._lost = False
        # What it says when the connection is lost is said below, once and with what to do.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        if address is None and jax.default_backend() == "gpu":
            raise InputError(
                "workers with GPUs are started one by one, so that each has its own: "
                "CUDA_VISIBLE_DEVICES=0 dask worker ADDRESS --nthreads 1 --resources GPU=1, and so on; "
                "then give --address ADDRESS"
            )
        try:
            if address is None:
                # Processes, not threads: each has a device of its own and can die alone.
                cluster = distributed.LocalCluster(n_workers=_local_workers(), threads_per_worker=1)
                self._client = distributed.Client(cluster)
                self._cluster: Any = cluster
            else:
                self._client = distributed.Client(address, timeout=connect_seconds)
                self._cluster = None
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {address!r}: {error}") from error
        self._address = self._client.scheduler.address
        self._client.wait_for_workers(1, timeout=120)
        found = self._client.run(_describe)
        kinds = sorted({_kind(*worker[:3]) for worker in found.values()})
        if len(kinds) > 1:
            raise AscertainError(
                f"the workers have different devices or settings ({'; '.join(kinds)}), on which numbers are "
                "rounded differently; use workers of one kind"
            )
        self.device, self.cores, self.options, _ = next(iter(found.values()))
        self.width = check_count("width", width or min(usual for *_, usual in found.values()), least=1)
        self.host = "Dask workers"
        self._stages: dict[Hashable, tuple[Stage, int]] = {}
        self._needs_gpu = any(_GPU in worker.get("resources", {}) for worker in self._workers().values())

    def prepare(self, name: Hashable, stage: Stage, like: Callable[[], Inputs], width: int) -> None:
        """Remember the stage; workers compile it when they get a chunk."""
        del like
        self._stages[name] = stage, width

    def ready(self, name: Hashable) -> bool:
        """Whether a program is known."""
        return name in self._stages

    def run(self, name: Hashable, inputs: list[Inputs]) -> Done:
        """Send a chunk to a worker and wait for its results."""
        stage, width = self._stages[name]
        resources = {"resources": {_GPU: 1}} if self._needs_gpu else {}
        with self._connected():
            task = self._client.submit(run_chunk, stage, width, inputs, pure=False, **resources)
            done: Done = task.result()
        theirs = _kind(done.device, done.cores, done.options)
        ours = _kind(self.device, self.cores, self.options)
        if theirs != ours:
            raise AscertainError(
                f"a worker with another device or other settings has joined: {theirs}, not {ours}; numbers "
                "would be rounded differently there, so use workers of one kind"
            )
        return done

    @property
    def slots(self) -> int:
        """Two for each worker that is connected now."""
        return _AHEAD * max(1, len(self._workers()))

    def close(self) -> None:
        """Leave the cluster; one that was started here is stopped."""
        with suppress(Exception) if self._lost else nullcontext():
            self._client.close(timeout=_CLOSING_SECONDS)
        if self._cluster is not None:
            self._cluster.close()

    def _workers(self) -> dict[str, Any]:
        with self._connected():
            return dict(self._client.scheduler_info(n_workers=-1)["workers"])

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise one clear error if the scheduler is gone, in place of whatever Dask meets then."""
        try:
            yield
        except (CancelledError, asyncio.CancelledError) as error:
            raise self._gone() from error
        except Exception as error:
            if self._client.status == "running":
                raise
            raise self._gone() from error

    def _gone(self) -> ConnectionError:
        if not self._lost:
            self._lost = True
            for name in ("distributed", "tornado"):  # the same again, at length
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        return ConnectionError(
            f"the Dask scheduler at {self._address} is gone; what was finished is kept, and the same command "
            "goes on from there once there is a scheduler"
        )


def run_chunk(stage: Stage, width: int, inputs: list[Inputs]) -> Done:
    """Compute a chunk on a worker; programs are compiled once per worker."""
    structure, leaves = shape_key(inputs[0])
    return run_program(_program(stage, width, structure, leaves), inputs)


@cache
def _keep_programs() -> None:
    """Cache compiled programs on the worker's disk, so that its next process compiles none twice."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        with suppress(AscertainError):  # no folder for it: then they are compiled again
            enable_cache()


@lru_cache(_PROGRAMS)
def _program(stage: Stage, width: int, structure: Any, leaves: tuple[Any, ...]) -> Program:
    _keep_programs()
    make_room()
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves]
    program = program_of(stage, jax.tree.unflatten(structure, shapes), width)
    program.lower()
    program.compile()
    return program


def _describe() -> tuple[str, int | None, str, int]:
    return jax.devices()[0].device_kind, usable_cores(), numeric_options(), default_width()


def _kind(device: str, cores: int | None, options: str) -> str:
    number = "" if cores is None else f" with {cores} cores"
    return f"{device}{number} and {options}"


def _local_workers() -> int:
    """One worker per two cores."""
    return max(1, (os.cpu_count() or 1) // 2)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise InputError("the engine dask needs Dask: pip install 'ascertain[cluster]'") from error
    return distributed
