"""The predictors by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ascertain.registry import NoSettings, Part, Registry

Fit = TypeVar("Fit", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class PredictorPart(Part):
    """What there is to know about a predictor before it is fitted.

    Parameters
    ----------
    fit
        `fit(key, problem, train, valid, *, settings, weights)`, which returns a `Predictor`. Pure, so that it
        can be jitted and vmapped, unless `on_host`; `settings` is static. `weights` says what a row of each
        class counts; None: the inverse of its frequency.
    """


_PREDICTORS: Registry[PredictorPart] = Registry("predictor", "ascertain.predictors", ("_masked_mlp",))
get, names, find = _PREDICTORS.get, _PREDICTORS.names, _PREDICTORS.find


def register(
    name: str,
    *,
    summary: str,
    label: str | None = None,
    settings: Callable[[], Any] = NoSettings,
    on_host: bool = False,
) -> Callable[[Fit], Fit]:
    """Register a predictor under a name; decorates its `fit`.

    See `PredictorPart`. An installed package makes its predictors known by an entry point in the group
    `ascertain.predictors` that names the module with the decorated function.
    """

    def add(fit: Fit) -> Fit:
        _PREDICTORS.add(
            PredictorPart(
                name=name, summary=summary, label=label or name, fit=fit, settings=settings, on_host=on_host
            )
        )
        return fit

    return add
