"""The interface of restorers, which fill the holes of a table and leave observed cells as they were."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain.errors import InputError
from ascertain.problem import Table


@runtime_checkable
class Restorer(Protocol):
    """Draws values for all cells of a table, given the training data that it was fitted to.

    One that can draw without the labels has a method `label_free()`, which returns such a restorer. One that
    makes several completions otherwise than by one draw each has a method `draws(key, table, n)`. One that
    can draw from the same distribution more quickly after some preparation has a method `prepared()`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class Zeros:
    ...     def draw(self, key, table):
    ...         return jnp.zeros_like(table.x)
    >>> isinstance(Zeros(), Restorer)
    True
    """

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw a value for every cell; only missing cells use it."""


def restore(key: PRNGKeyArray, restorer: Restorer, table: Table) -> Table:
    """Fill the holes of a table with one draw; observed cells stay the same to the last bit.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain import fit_mean
    >>> restore(jr.key(0), fit_mean(table), table).x.tolist()
    [[0.5, 1.5], [1.5, 2.0], [0.0, 1.0]]
    """
    drawn = jnp.asarray(restorer.draw(key, table), table.x.dtype)
    return table.with_cells(jnp.where(table.available, table.x, drawn), jnp.ones_like(table.available))


def draws(
    key: PRNGKeyArray, restorer: Restorer, table: Table, n: int
) -> Float[Array, "completions instances features"]:
    """Draw a value for every cell several times.

    A restorer that does not draw all completions alike has a method `draws(key, table, n)`. One completion
    is the draw that `restore` makes with the same key.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain import fit_mean
    >>> draws(jr.key(1), fit_mean(table), table, 5).shape
    (5, 3, 2)
    """
    if n == 1:
        return jnp.asarray(restorer.draw(key, table))[None]
    own = getattr(restorer, "draws", None)
    if own is not None:
        several: Array = own(key, table, n)
        return several
    keys = jr.split(key, n)
    if isinstance(restorer, eqx.Module):
        mapped: Array = jax.lax.map(lambda k: restorer.draw(k, table), keys)
        return mapped
    return jnp.stack([jnp.asarray(restorer.draw(k, table)) for k in keys])  # on the host nothing is traced


def complete(key: PRNGKeyArray, restorer: Restorer, table: Table, completions: int = 1) -> Table:
    """Fill the holes of a table with draws: one for every row, or several completions of it.

    One completion is what `restore` gives. Several make a table of so many times the rows; those of the first
    completion come first, and `ids` say which rows show the same instance.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain import fit_mean
    >>> several = complete(jr.key(1), fit_mean(table), table, completions=2)
    >>> several.x.shape, several.ids.tolist()
    ((6, 2), [0, 1, 2, 0, 1, 2])
    """
    if completions == 1:
        return restore(key, restorer, table)
    return table.completed(jnp.asarray(draws(key, restorer, table, completions), table.x.dtype))


def label_free(restorer: Any) -> Restorer:
    """The variant of a restorer that does not use labels; raises an `InputError` if it has none.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain import fit_hotdeck
    >>> deck = label_free(fit_hotdeck(jr.key(0), problem, table))  # donors may be of any class
    >>> hasattr(deck, "draw")
    True
    """
    variant = getattr(restorer, "label_free", None)
    if variant is None:
        raise InputError(
            f"a {type(restorer).__name__} cannot draw without the label, which a new row does not have; "
            "use a restorer with a method label_free(), such as those of fit_hotdeck and fit_pvae"
        )
    free: Restorer = variant()
    return free


def prepared(restorer: Any) -> Restorer:
    """The restorer in the form that draws the quickest, for one that is used over and over."""
    prepare = getattr(restorer, "prepared", None)
    ready: Restorer = restorer if prepare is None else prepare()
    return ready
