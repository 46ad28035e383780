"""Programs of many replicates for the benchmarks, compiled as those of a study and timed when run."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from ascertain._core.compilation import compiler_options


class Program:
    """A function of arrays that is compiled in the background."""

    def __init__(self, pool: ThreadPoolExecutor, function: Callable[..., Any], *arguments: Any):
        traced = jax.jit(function).trace(*jax.tree.map(shape_of, arguments))
        self.result = traced.out_info  # the shapes of what it gives, to trace what comes next
        self._compiled: Future[tuple[Any, float]] = pool.submit(_compile, traced)
        self.run_s = self.cpu_s = 0.0

    def __call__(self, *arguments: Any) -> Any:
        """Run it, adding to the time that it took."""
        program, _ = self._compiled.result()
        start, cpu_start = time.perf_counter(), time.process_time()
        result = jax.block_until_ready(program(*arguments))
        self.run_s += time.perf_counter() - start
        self.cpu_s += time.process_time() - cpu_start
        return result

    @property
    def compile_s(self) -> float:
        """Seconds to lower and compile; others may have been compiled at the same time."""
        return self._compiled.result()[1]

    @property
    def temporary_gb(self) -> float:
        """Memory besides arguments and results."""
        analysis = self._compiled.result()[0].memory_analysis()
        return float(analysis.temp_size_in_bytes / 1e9) if analysis else float("nan")


def shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _compile(traced: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    program = traced.lower().compile(compiler_options())
    return program, time.perf_counter() - start
