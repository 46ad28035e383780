"""Completions of rows that are partly known: draws of what is not known, as the class is predicted now.

Every completion has a class of its own, in the proportions of the prediction from what is known. Restorers
then draw the rest given this class. So completions agree with the prediction, and things that are unknown
hang together through the class, even where a restorer (a hot deck) draws each of them by itself.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ascertain.problem import Table
from ascertain.restoration import Restorer, restore

COMPLETIONS = 32  # draws of a row's unknown features
FEW_ROWS = 16


def completions(
    restorer: Restorer,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows features"],
    prediction: Float[Array, "rows classes"],
    numbers: Int[Array, " rows"] | None = None,
    *,
    seed: int = 0,
    draws: int = COMPLETIONS,
) -> Float[Array, "draws rows features"]:
    """Complete each row as if it were the only one, so that its completions do not depend on the others.

    Rows with the same number, by default all, are completed with the same random numbers.
    """
    n_rows, n_features = x.shape
    blank = Table(np.zeros((1, n_features)), [0], n_classes=prediction.shape[1])
    if numbers is None:
        numbers = jnp.zeros(n_rows, jnp.int32)

    def complete(place: Array, number: Array, x: Array, available: Array, shares: Array) -> Array:
        # Stratified: classes come as often as they should, but for rounding.
        share = (place + 0.5) / draws
        label = jnp.minimum(jnp.sum(jnp.cumsum(shares) < share), len(shares) - 1)
        row = eqx.tree_at(lambda table: table.y, blank, label[None].astype(jnp.int32))
        key = jr.fold_in(jr.fold_in(jr.key(seed), place), number)
        return restore(key, restorer, row.with_cells(x[None], available[None])).x[0]

    rows = numbers, x, available, prediction
    each = jax.vmap(complete, in_axes=(None, 0, 0, 0, 0))
    drawn: Array = for_each_draw(lambda place: each(place, *rows), jnp.arange(draws), n_rows)
    return drawn


def for_each_draw(function: Callable[[Any], Any], draws: Any, n_rows: int) -> Any:
    """Map over draws: all at once for few rows, as that is quicker; one by one for many, to save memory."""
    return jax.vmap(function)(draws) if n_rows <= FEW_ROWS else jax.lax.map(function, draws)
