"""The missingness mechanisms by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass

from ascertain.registry import Function, Part, Registry


@dataclass(frozen=True, kw_only=True)
class MechanismPart(Part):
    """A registered missingness mechanism.

    Parameters
    ----------
    fit
        `fit(key, problem, table, rate)`, which calibrates it on training data and returns an object with
        `sample(key, table)`: the table with cells hidden. Pure, so that it can be jitted and vmapped (`rate`
        is traced), unless `on_host`.

    Examples
    --------
    >>> from ascertain import missingness
    >>> missingness.get("mnar_self").label
    'MNAR (self-masking)'
    """


_MECHANISMS = Registry("mechanism", "ascertain.missingness", ("_mechanisms",), MechanismPart)
get, names, find = _MECHANISMS.get, _MECHANISMS.names, _MECHANISMS.find


def register(
    name: str, *, summary: str, label: str | None = None, on_host: bool = False
) -> Callable[[Function], Function]:
    """Register a mechanism under a name; decorates its `fit`, or a class with such a class method.

    See `MechanismPart`. An installed package makes its mechanisms known by an entry point in the group
    `ascertain.missingness` that names the module with the decorated function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ascertain import missingness
    >>> @missingness.register("half", summary="Half of the cells, whatever the rate.")
    ... class Half(missingness.MCAR):
    ...     def probabilities(self, x):
    ...         return jnp.full((len(x), len(self.reveals)), 0.5)
    >>> "half" in missingness.names()
    True
    """
    return _MECHANISMS.register(name, summary=summary, label=label, on_host=on_host)
