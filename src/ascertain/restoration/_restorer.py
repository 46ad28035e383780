"""What every restorer can do: fill the holes of a table, leaving what was observed as it was."""

from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain.errors import InputError
from ascertain.problem import Table


@runtime_checkable
class Restorer(Protocol):
    """Draws values for all cells of a table from what it has learned of the training data.

    One that can do so without looking at labels has a method `label_free()`, which returns such a restorer.
    """

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw a value for every cell; only those of missing cells are used."""


def restore(key: PRNGKeyArray, restorer: Restorer, table: Table) -> Table:
    """Fill the holes of a table with one draw; observed cells are returned bit by bit as they were."""
    drawn = jnp.asarray(restorer.draw(key, table), table.x.dtype)
    return table.with_cells(jnp.where(table.available, table.x, drawn), jnp.ones_like(table.available))


def label_free(restorer: Any) -> Restorer:
    """The variant of a restorer that does not look at labels; one that has none is refused."""
    variant = getattr(restorer, "label_free", None)
    if variant is None:
        raise InputError(
            f"a {type(restorer).__name__} cannot draw without the label, which a new row does not have; "
            "use a restorer with a method label_free(), such as those of fit_hotdeck and fit_pvae"
        )
    free: Restorer = variant()
    return free
