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
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.problem import Table
from ascertain.restoration import Restorer, restore

COMPLETIONS = 32  # draws of a row's unknown features
FEW_ROWS = 16


def completions(
    restorer: Restorer,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows features"],
    prediction: Float[Array, "rows classes"],
    *,
    seed: int = 0,
    draws: int = COMPLETIONS,
) -> Float[Array, "draws rows features"]:
    """Complete each row as if it were the only one, so that its completions do not depend on the others."""
    n_rows, n_features = x.shape
    blank = Table(np.zeros((1, n_features)), [0], n_classes=prediction.shape[1])

    def complete(place: Array, x: Array, available: Array, shares: Array) -> Array:
        row = eqx.tree_at(lambda table: table.y, blank, _labels(place, shares[None], draws))
        key = jr.fold_in(jr.key(seed), place)
        return restore(key, restorer, row.with_cells(x[None], available[None])).x[0]

    each = jax.vmap(complete, in_axes=(None, 0, 0, 0))
    rows = x, available, prediction
    drawn: Array = for_each_draw(lambda place: each(place, *rows), jnp.arange(draws), n_rows)
    return drawn


def joint_completions(
    key: PRNGKeyArray, restorer: Restorer, table: Table, prediction: Float[Array, "rows classes"]
) -> Float[Array, "draws rows features"]:
    """Complete the rows of a table together, each with random numbers of its own: quicker for many rows.

    The table's labels are not used.
    """

    def complete(given: tuple[Array, PRNGKeyArray]) -> Float[Array, "rows features"]:
        place, key = given
        labels = _labels(place, prediction, COMPLETIONS)
        return restore(key, restorer, eqx.tree_at(lambda rows: rows.y, table, labels)).x

    drawn: Array = jax.lax.map(complete, (jnp.arange(COMPLETIONS), jr.split(key, COMPLETIONS)))
    return drawn


def _labels(
    place: Int[Array, ""], prediction: Float[Array, "rows classes"], draws: int
) -> Int[Array, " rows"]:
    """The class of each row's completion, by its place among all: stratified, not left to chance."""
    below = jnp.cumsum(prediction, axis=1) < (place + 0.5) / draws
    return jnp.minimum(below.sum(axis=1), prediction.shape[1] - 1).astype(jnp.int32)


def for_each_draw(function: Callable[[Any], Any], draws: Any, n_rows: int) -> Any:
    """Map over draws: all at once for few rows, as that is quicker; one by one for many, to save memory."""
    return jax.vmap(function)(draws) if n_rows <= FEW_ROWS else jax.lax.map(function, draws)
