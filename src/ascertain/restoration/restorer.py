"""What every restorer can do: fill the holes of a table, leaving what was observed as it was."""

from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain.problem import Table


@runtime_checkable
class Restorer(Protocol):
    """Draws values for all cells of a table from what it has learned of the training data."""

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw a value for every cell; only those of missing cells are used."""


def restore(key: PRNGKeyArray, restorer: Restorer, table: Table) -> Table:
    """Fill the holes of a table with one draw; observed cells are returned bit by bit as they were."""
    drawn = jnp.asarray(restorer.draw(key, table), table.x.dtype)
    return table.with_cells(jnp.where(table.available, table.x, drawn), jnp.ones_like(table.available))
