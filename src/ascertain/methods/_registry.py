"""The registry of acquisition methods: ours, and those that users add."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from ascertain.errors import InputError
from ascertain.policy import Policy
from ascertain.problem import Problem
from ascertain.protocol import Protocol
from ascertain.registry import Part, Registry, SharedModel

State = Literal["s", "sm"]
Kind = Literal["myopic", "intermediate", "terminal", "baseline", "other"]
Family = Literal["plans ahead", "greedy", "reinforcement learning", "static", "baseline", "other"]
Fit = TypeVar("Fit", bound=Callable[..., Policy])


class Cost(NamedTuple):
    """Time and memory of a program, as measured on one dataset and device."""

    start: float  # seconds of a chunk, whatever its width
    each: float  # seconds per replicate, in addition
    compiling: float  # processor seconds
    memory: float = 10e6  # bytes per replicate


@dataclass(frozen=True, kw_only=True)
class Method(Part):
    """A registered method.

    Parameters
    ----------
    fit
        `fit(key, problem, train, valid, *, predictor, pretrained, settings, state, protocol) -> Policy`,
        pure, so that it can be jitted and vmapped; `settings`, `state` and `protocol` are static.
    kind
        What it is rewarded for, or that it is a baseline; figures group methods by this.
    family
        How it decides; `ascertain methods list` groups methods by this.
    use_when
        When to choose it, in one sentence for a practitioner.
    color
        Its colour in figures; by default one of a fixed list.
    stops
        When it stops by itself under soft budgets, in a few words; empty if never.
    pretrain
        `pretrain(key, problem, train, valid, *, settings, protocol)`: a first stage that the state variants
        share; `fit` takes its result as `pretrained`.
    shares
        A model that other parts begin with too, in place of a pretraining of its own; one field of the
        method's settings holds that model's settings.
    adopts
        `adopts(predictor, settings)`: a fitted predictor's network to use in place of pretraining, or None
        if it does not match.
    states
        Its state variants.
    keeps_rows
        Whether the fitted policy holds the training rows themselves.
    learns_directly
        Whether it can learn from holes directly, without restoration: its settings have a field `direct`.
    weighs_prices
        Whether it can stop where a measurement costs more than it saves: its settings have a field `money`,
        what a unit of its price must save of what decisions cost.
    splits_rows
        Whether it can learn from rows that are split over devices (`ascertain.tables.shard`): no device ever
        holds all of them.
    costs, pretraining_costs
        Time and memory on a GPU (`gpu`) and on processor cores (`cpu`), for `ascertain study plan`.

    Examples
    --------
    >>> from ascertain import methods
    >>> planner = methods.get("planner")
    >>> planner.states
    ('s', 'sm')
    """

    kind: Kind = "other"
    family: Family = "other"
    use_when: str = ""
    color: str | None = None
    stops: str = ""
    pretrain: Callable[..., Any] | None = None
    shares: SharedModel | None = None
    adopts: Callable[[Any, Any], Any] | None = None
    states: tuple[State, ...] = ("s",)
    keeps_rows: bool = False
    learns_directly: bool = False
    weighs_prices: bool = False
    splits_rows: bool = False
    costs: Mapping[str, Cost] = field(default_factory=dict, hash=False)
    pretraining_costs: Mapping[str, Cost] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.states or not set(self.states) <= {"s", "sm"}:
            raise InputError(f"states of {self.name!r} are {self.states}; state variants are 's' and 'sm'")

    def check_state(self, state: str) -> None:
        """Raise unless the method has this state variant."""
        if state not in self.states:
            known = " and ".join(repr(each) for each in self.states)
            raise InputError(f"{self.name} has the state variant {known}, not {state!r}")

    def check_splits_rows(self) -> None:
        """Raise unless the method can learn from rows that are split over devices."""
        if not self.splits_rows:
            able = ", ".join(name for name in names() if get(name).splits_rows)
            raise InputError(
                f"{self.name} cannot learn from rows that are split over devices; use {able}, or a Table"
            )

    def treating(self, settings: Any, treatment: str) -> Any:
        """The settings for a treatment of incomplete training data; raises where the method has none."""
        if treatment != "direct":
            return settings
        if not self.learns_directly:
            able = ", ".join(name for name in names() if get(name).learns_directly)
            raise InputError(
                f"{self.name} cannot learn from holes directly; "
                f"train it on 'restricted' or 'restored' data, or use {able}"
            )
        return replace(settings, direct=True)

    def stopping_early(self, settings: Any) -> Any:
        """The settings to stop where a measurement costs more than it saves; raises where it cannot."""
        if not self.weighs_prices:
            able = ", ".join(name for name in names() if get(name).weighs_prices)
            raise InputError(
                f"{self.name} spends the budget, whatever a measurement is worth; to stop early, use {able}"
            )
        return replace(settings, money=1.0)

    def completed(self, settings: Any, problem: Problem, protocol: Protocol) -> Any:
        """The settings after their own method `completed(problem, protocol)`, if they have one.

        It fills in what depends on the problem, such as numbers of steps, which compilation needs to know.
        """
        complete = getattr(settings, "completed", None)
        return settings if complete is None else complete(problem, protocol)


FAMILIES: tuple[Family, ...] = get_args(Family)

_METHODS = Registry(
    "method",
    "ascertain.methods",
    (
        "_planner",
        "_dime",
        "_gdfs",
        "_eddi",
        "_sefa",
        "_aaco",
        "_aaco_nn",
        "_jafa",
        "_ol",
        "_odin",
        "_odin_mb",
        "_cwcf",
        "_static",
        "_permutation",
        "_concrete_autoencoder",
        "_baselines",
    ),
    Method,
)
get, names, find = _METHODS.get, _METHODS.names, _METHODS.find


def register(name: str, *, summary: str, label: str | None = None, **more: Any) -> Callable[[Fit], Fit]:
    """Register a method under a name; decorates its `fit`.

    See `Method` for the other arguments. An installed package makes its methods known by an entry point in
    the group `ascertain.methods` that names the module with the decorated function.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ascertain import Policy, methods
    >>> class Never(Policy):
    ...     def __call__(self, x, observed, acquired, available, *, key, budget=None):
    ...         stop, acquire = jnp.ones((len(x), 1)), jnp.zeros(acquired.shape)
    ...         return jnp.concatenate([stop, acquire], axis=1)  # scores of stopping and of each action
    >>> @methods.register("never", summary="Buys nothing.")
    ... def fit_never(key, problem, train, valid, *, predictor, pretrained, settings, state, protocol):
    ...     return Never()
    >>> methods.get("never").summary
    'Buys nothing.'

    `examples/own_method.py` registers a method, checks it and compares it with others.
    """
    return _METHODS.register(name, summary=summary, label=label, **more)
