"""An ensemble: several completions of a table that come from different restorers.

Different restorers err in different ways. A method that learns from completions by several of them relies
less on what one of them made up.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import AfterValidator

from ascertain._core.effort import Effort, shortened
from ascertain.errors import InputError
from ascertain.problem import Problem, Table
from ascertain.restoration._registry import get, register
from ascertain.restoration._restorer import Restorer, draws, label_free, prepared

_NAME = "ensemble"


def _checked(members: tuple[str, ...]) -> tuple[str, ...]:
    """Raise unless there are members, and each can be one."""
    if not members:
        raise InputError("an ensemble needs at least one member; name restorers in members=")
    for name in members:
        part = get(name)
        if part.on_host or name == _NAME:
            why = "runs outside compiled programs" if part.on_host else "is the ensemble itself"
            raise InputError(f"the restorer {name!r} {why}, so it cannot be a member of an ensemble")
        part.check_label_free("an ensemble")
    return members


@dataclass(frozen=True)
class Settings:
    """The members by name, each with its own settings, shortened if an effort is given."""

    members: Annotated[tuple[str, ...], AfterValidator(_checked)] = ("nearest", "miwae", "hotdeck")
    effort: Effort | None = None

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Shorten the members' training."""
        del n_rows
        return replace(self, effort=effort)


class Ensemble(eqx.Module):
    """Draws each row from a member chosen at random, or several completions from the members in turn.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain.restoration import MeanFill
    >>> both = Ensemble((MeanFill(table.x[0]), MeanFill(table.x[1])))
    >>> both.draws(jr.key(1), table, 4).shape  # two completions by each
    (4, 3, 2)
    """

    members: tuple[Restorer, ...]

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw with every member, and choose one for each row."""
        choosing, *drawing = jr.split(key, 1 + len(self.members))
        drawn = jnp.stack([member.draw(k, table) for k, member in zip(drawing, self.members, strict=True)])
        chosen = jr.randint(choosing, (table.x.shape[0],), 0, len(self.members))
        return jnp.take_along_axis(drawn, chosen[None, :, None], axis=0)[0]

    def draws(
        self, key: PRNGKeyArray, table: Table, n: int
    ) -> Float[Array, "completions instances features"]:
        """Draw several completions; number i comes from member i modulo the number of members."""
        size = len(self.members)
        keys = jr.split(key, size)
        by_member = [
            draws(keys[place], member, table, len(range(place, n, size)))
            for place, member in enumerate(self.members[:n])
        ]
        return jnp.stack([by_member[number % size][number // size] for number in range(n)])

    def label_free(self) -> "Ensemble":
        """The members' variants that do not use labels."""
        return Ensemble(tuple(label_free(member) for member in self.members))

    def prepared(self) -> "Ensemble":
        """The members in the form that draws the quickest."""
        return Ensemble(tuple(prepared(member) for member in self.members))


@register(
    _NAME,
    summary="Nearest hot deck, MIWAE and hot deck in turn: for several completions of every row.",
    label=_NAME,
    settings=Settings,
    label_free=True,
    keeps_rows=True,
)
def fit_ensemble(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
) -> Ensemble:
    """Fit every member.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> settings = Settings(members=("hotdeck", "mean"))
    >>> len(fit_ensemble(jr.key(0), problem, table, table, settings=settings).members)
    2
    """
    keys = jr.split(key, len(_checked(settings.members)))
    members = zip(keys, settings.members, strict=True)
    return Ensemble(
        tuple(_fit_member(k, name, problem, train, valid, settings.effort) for k, name in members)
    )


def _fit_member(
    key: PRNGKeyArray, name: str, problem: Problem, train: Table, valid: Table, effort: Effort | None
) -> Restorer:
    part = get(name)
    settings = part.settings()
    if effort is not None:
        settings = shortened(settings, effort, train.x.shape[0])
    fitted: Restorer = part.fit(key, problem, train, valid, settings=settings)
    return fitted
