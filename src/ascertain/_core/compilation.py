"""How programs are made of functions, compiled, and kept in JAX's persistent cache for later processes."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import pooch

from ascertain.errors import InputError, StoreError


def enable_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs on disk, so that they compile once per machine and not once per process.

    A cached program is code that will run, so the folder is readable and writable by its owner only
    (mode 0700), and one that is open or belongs to somebody else is refused. The command line calls this; a
    library user who wants it does so once, before the first computation. Importing the package
    never does.

    Parameters
    ----------
    folder
        Where to keep them; by default `xla` in the user's cache directory for `ascertain`.

    Returns
    -------
    Path
        The folder in use.
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
    """Give the options that programs of many replicates are compiled with.

    On a GPU XLA by default times several ways to multiply matrices and keeps the fastest. That takes most of
    the time to compile (five times as many processor seconds, measured), and since timings vary, the same
    program may round differently when it is compiled again: a study that goes on later would not give the
    same numbers. So matrices are multiplied by cuBLAS, which chooses by a rule. On processor cores the
    compiler's second and third level of optimisation take up to half of the time and gain nothing measurable.
    """
    if jax.default_backend() == "gpu":
        return {"xla_gpu_autotune_level": "0", "xla_gpu_enable_triton_gemm": False}
    return {"xla_backend_optimization_level": "1"}


def replicated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make of a function of arrays one of many replicates, stacked along a first axis.

    On a GPU by `vmap`. On processor cores one replicate after the other: they have no room for more at once,
    and products of many small matrices, even if there is but one of them, are several times slower there than
    plain products.
    """
    if jax.default_backend() == "gpu":
        return jax.vmap(function)
    return lambda *stacked: jax.lax.map(lambda arguments: function(*arguments), stacked)


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for each shape of its arrays, with `compiler_options`.

    Not to be called while a module is imported, as it asks what devices there are.
    """
    options: dict[str, Any] = {"compiler_options": compiler_options()}  # unknown to Equinox's annotations
    jitted: Callable[..., Any] = eqx.filter_jit(function, **options)
    return jitted
