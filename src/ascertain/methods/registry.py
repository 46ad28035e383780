"""The acquisition methods by name: ours, and those that users register."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from ascertain.errors import InputError
from ascertain.policy import Policy
from ascertain.problem import Problem
from ascertain.protocol import Protocol
from ascertain.registry import Part, Registry, SharedModel

State = Literal["s", "sm"]
Kind = Literal["myopic", "intermediate", "terminal", "baseline", "other"]
Fit = TypeVar("Fit", bound=Callable[..., Policy])


class Cost(NamedTuple):
    """What a program takes on the dataset and device that it was measured on."""

    start: float  # seconds of a chunk, however wide
    each: float  # further seconds per replicate
    compiling: float  # processor seconds
    memory: float = 10e6  # bytes per replicate


@dataclass(frozen=True, kw_only=True)
class Method(Part):
    """What there is to know about a method before it is fitted.

    Parameters
    ----------
    fit
        `fit(key, problem, train, valid, *, predictor, pretrained, settings, state, protocol) -> Policy`,
        pure, so that it can be jitted and vmapped; `settings`, `state` and `protocol` are static.
    kind
        How figures tell methods apart: by what they are rewarded for, or as a baseline.
    color
        Its colour in figures; others get one of a fixed list.
    stops
        How it comes to stop by itself under soft budgets, in a few words; empty where it does not.
    pretrain
        `pretrain(key, problem, train, valid, *, settings, protocol)`: what both state variants share and
        `fit` takes as `pretrained`; None where there is no such stage.
    shares
        The model that it begins with in place of a pretraining of its own; one field of its settings holds
        that model's settings.
    adopts
        `adopts(predictor, settings)`: what it can take over of an already fitted predictor in place of its
        pretraining, or None.
    states
        The state variants that it has.
    keeps_rows
        Whether the fitted policy holds the training rows themselves.
    costs, pretraining_costs
        What it takes on a GPU (`gpu`) and on processor cores (`cpu`), for `ascertain study plan`.
    """

    kind: Kind = "other"
    color: str | None = None
    stops: str = ""
    pretrain: Callable[..., Any] | None = None
    shares: SharedModel | None = None
    adopts: Callable[[Any, Any], Any] | None = None
    states: tuple[State, ...] = ("s",)
    keeps_rows: bool = False
    costs: Mapping[str, Cost] = field(default_factory=dict, hash=False)
    pretraining_costs: Mapping[str, Cost] = field(default_factory=dict, hash=False)

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


_METHODS: Registry[Method] = Registry(
    "method", "ascertain.methods", ("dime", "gdfs", "aaco", "jafa", "ol", "odin", "static", "baselines")
)
get, names, find = _METHODS.get, _METHODS.names, _METHODS.find


def register(name: str, *, summary: str, label: str | None = None, **more: Any) -> Callable[[Fit], Fit]:
    """Register a method under a name; decorates its `fit`.

    See `Method` for what may be given. An installed package makes its methods known by an entry point in the
    group `ascertain.methods` that names the module with the decorated function.
    """

    def add(fit: Fit) -> Fit:
        method = Method(name=name, summary=summary, label=label or name, fit=fit, **more)
        if not method.states or not set(method.states) <= {"s", "sm"}:
            raise InputError(f"states of {name!r} are {method.states}; state variants are 's' and 'sm'")
        _METHODS.add(method)
        return fit

    return add
