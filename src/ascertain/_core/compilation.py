"""Compiling functions, batching them over replicates, and caching compiled programs on disk."""

import os
import time
from collections.abc import Callable
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import pooch

from ascertain.errors import InputError, StoreError

_MAPPINGS = Path("/proc/self/maps")  # a line each; only Linux has these files
_MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")


def enable_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Cache compiled programs on disk, so that they compile once per machine and not once per process.

    The command line calls this. In a library, call it once before the first computation; importing the
    package does not. Cached programs are code that will run: a new folder is private to its owner (mode
    0700), and a folder that is open to others or belongs to another user is refused.

    Parameters
    ----------
    folder
        Where to keep the programs; by default `xla` in the user's cache directory for `ascertain`.

    Returns
    -------
    Path
        The folder in use.

    Examples
    --------
    Call it once, before anything is computed, as `examples/cube_nm.py` does.
    """
    if folder is not None and not str(folder):
        raise InputError("the compilation cache needs a folder's name, got an empty one")
    path = Path(folder).expanduser() if folder is not None else Path(pooch.os_cache("ascertain")) / "xla"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid != os.getuid():
            raise StoreError(f"the compilation cache {path} belongs to another user; name another folder")
        if found.st_mode & 0o077:
            raise StoreError(
                f"the compilation cache {path} is open to others; close it with: chmod 700 {path}"
            )
    except OSError as error:
        raise StoreError(
            f"the compilation cache {path} cannot be used ({error.strerror}); name another folder"
        ) from error
    jax.config.update("jax_compilation_cache_dir", str(path))
    return path


def compiler_options() -> dict[str, bool | str]:
    """Options for XLA that make compilation fast and its results reproducible.

    On a GPU, XLA by default times several algorithms for every matrix product and keeps the fastest. This
    autotuning takes most of the compile time (a factor of five in processor seconds, measured). Timings
    vary, so the same program may round differently when it is compiled again, and a resumed study would
    give other numbers. Without autotuning cuBLAS chooses by a fixed rule. On processor cores, optimisation
    levels 2 and 3 take up to half of the compile time and gain nothing measurable.
    """
    if jax.default_backend() == "gpu":
        return {"xla_gpu_autotune_level": "0", "xla_gpu_enable_triton_gemm": False}
    return {"xla_backend_optimization_level": "1"}


def replicated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function of arrays into one of replicates, stacked along a new first axis.

    On a GPU this is `vmap`. On processor cores it is `lax.map`, one replicate after the other: batched
    products of small matrices are several times slower there than plain ones, even in a batch of one.
    """
    if jax.default_backend() == "gpu":
        return jax.vmap(function)
    return lambda *stacked: jax.lax.map(lambda arguments: function(*arguments), stacked)


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for each shape of its arrays, with `compiler_options`.

    Do not call this at import time: it initialises JAX's backend.
    """
    options: dict[str, Any] = {"compiler_options": compiler_options()}  # missing from Equinox's annotations
    jitted: Callable[..., Any] = eqx.filter_jit(function, **options)

    @wraps(function)
    def in_a_process_with_room(*arguments: Any, **named: Any) -> Any:
        make_room()
        return jitted(*arguments, **named)

    return in_a_process_with_room


def make_room() -> None:
    """Forget compiled programs, where the process has not much room for more.

    JAX keeps what it has compiled, so a process that fits models to tables of many shapes has ever more
    programs. Those in use stay; another one is compiled again when it is needed.
    """
    if is_crowded():
        jax.clear_caches()
        _is_crowded_in.cache_clear()


def is_crowded() -> bool:
    """Whether half of the mappings of memory are used that a process may have.

    On processor cores a compiled program has about a thousand, Linux allows 65,530 by default, and XLA
    crashes for want of one.
    """
    return _is_crowded_in(int(time.monotonic()))


@lru_cache(maxsize=1)
def _is_crowded_in(second: int) -> bool:
    """The same, looked up once a second at most: this takes 60 ms where there are 30,000 mappings."""
    del second
    try:
        return 2 * _MAPPINGS.read_bytes().count(b"\n") > int(_MOST_MAPPINGS.read_text())
    except OSError:
        return False
