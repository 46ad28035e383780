"""From the host's arrays to the device's, without compiling.

`jnp.asarray` and indexing compile a program for every shape that they have not met. That takes ten
milliseconds or more, and tables come in all shapes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Int

Tree = TypeVar("Tree")


def on_device(values: Any, dtype: type | None = None) -> Array:
    """Copy values to the device, as an array of that type."""
    # The copy is the device's own: on processor cores it would share memory with the original.
    moved: Array = jax.device_put(np.array(values, dtype))
    return moved


def take_rows(tree: Tree, rows: Int[Array | np.ndarray, "*taken"]) -> Tree:
    """Select rows of arrays: on the host, or as part of a program where one is traced."""
    leaves: list[Any] = jax.tree.leaves(tree)
    taken: Tree
    if any(isinstance(each, jax.core.Tracer) for each in (rows, *leaves)):
        taken = jax.tree.map(lambda leaf: leaf[rows], tree)
    else:
        places = np.asarray(rows)
        taken = jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[places]), tree)
    return taken


@contextmanager
def on_cores() -> Iterator[None]:
    """Compute on processor cores, where JAX may use them: a busy device answers when it has done the rest."""
    try:
        cores = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was told to use another kind of device only
        yield
        return
    with jax.default_device(cores):
        yield
