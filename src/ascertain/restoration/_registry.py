"""The restorers by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ascertain._core.checks import check_count
from ascertain.errors import InputError
from ascertain.registry import Function, NoSettings, Part, Registry, SharedModel


@dataclass(frozen=True, kw_only=True)
class RestorerPart(Part):
    """A registered restorer.

    Parameters
    ----------
    fit
        `fit(key, problem, train, valid, *, settings)`, which returns an object with `draw(key, table)`. Pure,
        so that it can be jitted and vmapped, unless `on_host`; `settings` is static.
    label_free
        Whether the fitted object has a method `label_free()`, which returns a restorer that draws without
        the labels. Completing a new row needs that.
    keeps_rows
        Whether the fitted object holds training rows themselves.
    stored
        Whether the fitted object can be saved: its arrays go to the file, and its structure comes from
        tracing `fit`. By default all that do not run on the host.
    shares
        The model that it starts from; `fit` then takes it as `pretrained=`.

    Examples
    --------
    >>> from ascertain import restoration
    >>> deck = restoration.get("hotdeck")
    >>> deck.label_free, deck.keeps_rows
    (True, True)
    """

    label_free: bool = False
    keeps_rows: bool = False
    stored: bool = True
    shares: SharedModel | None = None

    def check_label_free(self, purpose: str) -> None:
        """Raise unless it can draw without the label, which a purpose needs."""
        if not self.label_free:
            able = ", ".join(name for name in names() if get(name).label_free)
            raise InputError(
                f"the restorer {self.name!r} cannot draw without the label, which {purpose} needs; "
                f"use {able}. "
                "If it is your own and can, add a method label_free() and register it with label_free=True"
            )


_MOST_DIGITS = 9  # of a number of completions
_RESTORERS = Registry(
    "restorer",
    "ascertain.restoration",
    ("_pvae", "_hotdeck", "_nearest", "_miwae", "_impute", "_mixture", "_trees", "_ensemble"),
    RestorerPart,
)
get, names, find = _RESTORERS.get, _RESTORERS.names, _RESTORERS.find

MOST_COMPLETIONS = 100  # of every row


def check_completions(completions: int) -> int:
    """Return a number of completions of every row."""
    completions = check_count("completions", completions, least=1)
    if completions > MOST_COMPLETIONS:
        raise InputError(f"completions must be at most {MOST_COMPLETIONS}, got {completions}")
    return completions


class Restoring(NamedTuple):
    """What restores a table: a restorer by name, and the number of completions, as in `"ensemble:6"`."""

    name: str
    completions: int = 1

    @classmethod
    def parse(cls, text: str) -> "Restoring":
        """Read `"name"` or `"name:completions"`; raises if there is no such restorer.

        >>> Restoring.parse("hotdeck:6")
        Restoring(name='hotdeck', completions=6)
        """
        name, colon, number = text.partition(":")
        get(name)
        if not colon:
            return cls(name)
        if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS and int(number) >= 1):
            raise InputError(
                f"{text[:40]!r}: after the colon comes the number of completions, as in {name}:6; "
                f"not {number[:40]!r}"
            )
        return cls(name, check_completions(int(number)))

    def __str__(self) -> str:
        return self.name if self.completions == 1 else f"{self.name}:{self.completions}"


def register(
    name: str,
    *,
    summary: str,
    label: str | None = None,
    settings: Callable[[], Any] = NoSettings,
    label_free: bool = False,
    keeps_rows: bool = False,
    on_host: bool = False,
    stored: bool | None = None,
    shares: SharedModel | None = None,
) -> Callable[[Function], Function]:
    """Register a restorer under a name; decorates its `fit`.

    See `RestorerPart` for the parameters. An installed package makes its restorers known by an entry point in
    the group `ascertain.restoration` that names the module with the decorated function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ascertain import restoration
    >>> class Zeros:
    ...     def draw(self, key, table):
    ...         return jnp.zeros_like(table.x)
    >>> @restoration.register("zeros", summary="Fills holes with zeros.")
    ... def fit_zeros(key, problem, train, valid, *, settings):
    ...     return Zeros()
    >>> restoration.get("zeros").summary
    'Fills holes with zeros.'
    """
    return _RESTORERS.register(
        name,
        summary=summary,
        label=label,
        settings=settings,
        on_host=on_host,
        label_free=label_free,
        keeps_rows=keeps_rows,
        stored=not on_host if stored is None else stored,
        shares=shares,
    )
