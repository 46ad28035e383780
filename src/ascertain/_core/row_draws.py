"""Drawing rows of a training table: passes in a random order, and single rows by weight.

Tables of up to `MANY` rows are shuffled and summed up as a whole. For larger ones, nothing here has an entry
for each row, so that rows can be split over devices and only batches are ever gathered.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from ascertain._core.hashing import shuffled
from ascertain._core.sharding import filled_up, on_every_device

MANY = 2**20  # rows
_BLOCK = 1024  # rows that are searched at once where there are many


def are_many(n_rows: int) -> bool:
    """Whether a table has too many rows for an entry for each of them on every device."""
    return n_rows > MANY


def batch_rows(
    seed: UInt32[Array, ""], batch: Int[Array, ""], size: int, n_rows: int
) -> tuple[Int[Array, " size"], Bool[Array, " size"]]:
    """The rows of one batch of a shuffled pass, and which are real: the last batch may be padded."""
    place = batch * size + jnp.arange(size)
    return shuffled(seed, jnp.minimum(place, n_rows - 1), jnp.asarray(n_rows)), place < n_rows


class WeightedRows(eqx.Module):
    """Draws rows of a fold in proportion to the weights of their classes."""

    up_to_row: Float[Array, "folds rows"]  # summed weights of a fold's rows

    def draw(self, key: PRNGKeyArray, fold: Int[Array, ""], n: int) -> Int[Array, " n"]:
        """Draw `n` rows of a fold."""
        return _search(self.up_to_row[fold], jr.uniform(key, (n,)))


class BlockedRows(eqx.Module):
    """The same for many rows: draws a block of consecutive rows by its weight, then a row in it."""

    fold: Int[Array, " rows"]
    y: Int[Array, " rows"]
    weights: Float[Array, " classes"]
    up_to_block: Float[Array, "folds blocks"]  # summed weights of a fold's rows in blocks

    def draw(self, key: PRNGKeyArray, fold: Int[Array, ""], n: int) -> Int[Array, " n"]:
        """Draw `n` rows of a fold."""
        of_block, of_row = jr.uniform(key, (2, n))
        first = _BLOCK * _search(self.up_to_block[fold], of_block)
        place = first[:, None] + jnp.arange(_BLOCK)[None]
        row = jnp.minimum(place, len(self.y) - 1)
        own = (place == row) & (self.fold[row] == fold)
        up_to_row = jnp.cumsum(jnp.where(own, self.weights[self.y[row]], 0.0), axis=1)
        return first + jax.vmap(_search)(up_to_row, of_row[:, None])[:, 0]


def weighted_rows(
    fold: Int[Array, " rows"], y: Int[Array, " rows"], weights: Float[Array, " classes"], n_folds: int
) -> WeightedRows | BlockedRows:
    """Prepare to draw rows of each fold, where a row weighs as much as its class."""
    if not are_many(len(y)):
        of_row, fold = on_every_device(weights[y]), on_every_device(fold)
        own = fold[None] == jnp.arange(n_folds)[:, None]
        return WeightedRows(jnp.cumsum(jnp.where(own, of_row[None], 0.0), axis=1))
    # Counts are whole numbers: their sums are the same in any order, on any number of devices.
    n_blocks = -(-len(y) // _BLOCK)
    place = (
        filled_up(fold, n_folds),
        filled_up(y, len(weights)),
        filled_up(jnp.arange(len(y)) // _BLOCK, n_blocks),
    )
    counts = jnp.zeros((n_folds, len(weights), n_blocks), jnp.int32).at[place].add(1)
    counts = on_every_device(counts)
    of_block = jnp.sum(counts * weights[None, :, None], axis=1)
    return BlockedRows(fold, y, weights, jnp.cumsum(of_block, axis=1))


def _search(up_to: Float[Array, " places"], share: Float[Array, " n"]) -> Int[Array, " n"]:
    """Where the summed weights exceed shares of the last sum."""
    found = jnp.searchsorted(up_to, share * up_to[-1], side="right")
    return jnp.minimum(found, len(up_to) - 1)
