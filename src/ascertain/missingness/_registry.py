"""The missingness mechanisms by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ascertain.registry import Part, Registry

Fit = TypeVar("Fit", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class MechanismPart(Part):
    """What there is to know about a missingness mechanism.

    Parameters
    ----------
    fit
        `fit(key, problem, table, rate)`, which calibrates it on training data and returns an object with
        `sample(key, table)`: the table with cells hidden. Pure, so that it can be jitted and vmapped (`rate`
        is traced), unless `on_host`.
    """


_MECHANISMS: Registry[MechanismPart] = Registry("mechanism", "ascertain.missingness", ("_mechanisms",))
get, names, find = _MECHANISMS.get, _MECHANISMS.names, _MECHANISMS.find


def register(
    name: str, *, summary: str, label: str | None = None, on_host: bool = False
) -> Callable[[Fit], Fit]:
    """Register a mechanism under a name; decorates its `fit`, or a class with such a class method.

    See `MechanismPart`. An installed package makes its mechanisms known by an entry point in the group
    `ascertain.missingness` that names the module with the decorated function.
    """

    def add(fit: Fit) -> Fit:
        function = fit.fit if isinstance(fit, type) else fit  # type: ignore[attr-defined]
        _MECHANISMS.add(
            MechanismPart(name=name, summary=summary, label=label or name, fit=function, on_host=on_host)
        )
        return fit

    return add
