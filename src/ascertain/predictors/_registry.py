"""The predictors by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ascertain.registry import Function, NoSettings, Part, Registry


@dataclass(frozen=True, kw_only=True)
class PredictorPart(Part):
    """A registered predictor.

    Parameters
    ----------
    fit
        `fit(key, problem, train, valid, *, settings, weights)`, which returns a `Predictor`. Pure, so that it
        can be jitted and vmapped, unless `on_host`; `settings` is static. `weights` are those of the
        classes; None: the inverse of their frequencies.

    Examples
    --------
    >>> from ascertain import predictors
    >>> predictors.get("mlp").summary
    "The paper's fixed predictor: a network on values and mask."
    """


_PREDICTORS = Registry("predictor", "ascertain.predictors", ("_masked_mlp",), PredictorPart)
get, names, find = _PREDICTORS.get, _PREDICTORS.names, _PREDICTORS.find


def register(
    name: str,
    *,
    summary: str,
    label: str | None = None,
    settings: Callable[[], Any] = NoSettings,
    on_host: bool = False,
) -> Callable[[Function], Function]:
    """Register a predictor under a name; decorates its `fit`.

    See `PredictorPart`. An installed package makes its predictors known by an entry point in the group
    `ascertain.predictors` that names the module with the decorated function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ascertain import predictors
    >>> @predictors.register("even_odds", summary="The same probability for every class.")
    ... def fit_even_odds(key, problem, train, valid, *, settings, weights=None):
    ...     n = problem.n_classes
    ...     return lambda x, observed: jnp.full((len(x), n), 1 / n)
    >>> "even_odds" in predictors.names()
    True
    """
    return _PREDICTORS.register(name, summary=summary, label=label, settings=settings, on_host=on_host)
