"""The methods by name: ours, and those that users add with one decorator or an entry point."""

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from ascertain.errors import InputError
from ascertain.policy import Policy
from ascertain.problem import Problem
from ascertain.protocol import Protocol

State = Literal["s", "sm"]
ENTRY_POINTS = "ascertain.methods"

_OURS = ("aaco", "baselines", "dime", "gdfs", "jafa", "odin", "ol", "static")


@dataclass(frozen=True)
class NoSettings:
    """For methods that have nothing to set."""


@dataclass(frozen=True)
class Method:
    """What there is to know about a method before it is fitted.

    Parameters
    ----------
    name
        What users call it.
    fit
        `fit(key, problem, train, valid, *, predictor, pretrained, settings, state, protocol) -> Policy`,
        pure, so that it can be jitted and vmapped; `settings`, `state` and `protocol` are static.
    summary
        One line.
    settings
        The dataclass of its settings, with the paper's values as defaults.
    settings_for
        Gives the settings for a problem, a protocol and perhaps the name of a dataset.
    pretrain
        `pretrain(key, problem, train, valid, *, settings, protocol)`: what both state variants share and
        `fit` takes as `pretrained`; None where there is no such stage.
    states
        The state variants that it has.
    keeps_rows
        Whether the fitted policy holds the training rows themselves.
    """

    name: str
    fit: Callable[..., Policy]
    summary: str
    settings: Callable[[], Any]
    settings_for: Callable[[Problem, Protocol, str | None], Any]
    pretrain: Callable[..., Any] | None
    states: tuple[State, ...]
    keeps_rows: bool

    def check_state(self, state: str) -> None:
        """Raise unless the method has this state variant."""
        if state not in self.states:
            known = " and ".join(repr(each) for each in self.states)
            raise InputError(f"{self.name} has the state variant {known}, not {state!r}")

    def completed(self, settings: Any, problem: Problem, protocol: Protocol) -> Any:
        """Fill in what only the problem can say, for settings that have a method `completed`.

        Such are numbers of steps, which must be known before compilation.
        """
        complete = getattr(settings, "completed", None)
        return settings if complete is None else complete(problem, protocol)


_METHODS: dict[str, Method] = {}


def register(
    name: str,
    *,
    summary: str,
    settings: Callable[[], Any] = NoSettings,
    settings_for: Callable[[Problem, Protocol, str | None], Any] | None = None,
    pretrain: Callable[..., Any] | None = None,
    states: tuple[State, ...] = ("s",),
    keeps_rows: bool = False,
) -> Callable[[Callable[..., Policy]], Callable[..., Policy]]:
    """Add a method under a name; decorates its `fit`.

    See `Method` for the parameters. An installed package makes its methods known by an entry point in the
    group `ascertain.methods` that names the module with the decorated function.
    """

    def add(fit: Callable[..., Policy]) -> Callable[..., Policy]:
        def same_for_all(problem: Problem, protocol: Protocol, dataset: str | None) -> Any:
            del problem, protocol, dataset
            return settings()

        if not states or not set(states) <= {"s", "sm"}:
            raise InputError(f"states of {name!r} are {states}; state variants are 's' and 'sm'")
        known = _METHODS.get(name)
        origin = (fit.__module__, fit.__qualname__)
        if known is not None and (known.fit.__module__, known.fit.__qualname__) != origin:
            raise InputError(f"a method {name!r} is there already, from {known.fit.__module__}")
        _METHODS[name] = Method(
            name, fit, summary, settings, settings_for or same_for_all, pretrain, states, keeps_rows
        )
        return fit

    return add


def get(name: str) -> Method:
    """Give a method by its name."""
    _load_all()
    if name not in _METHODS:
        near = difflib.get_close_matches(name, _METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names())}"
        raise InputError(f"no method is called {name!r}; {hint}")
    return _METHODS[name]


def names() -> tuple[str, ...]:
    """Give the names of all methods."""
    _load_all()
    return tuple(sorted(_METHODS))


@cache
def _load_all() -> None:
    for module in _OURS:
        import_module(f"ascertain.methods.{module}")
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # whatever is wrong with a plugin, the other methods work
            package = entry.dist.name if entry.dist is not None else entry.value
            warnings.warn(f"the methods of {package} could not be loaded: {error!r}", stacklevel=2)
