"""One instance, step by step: what is known of it, what to measure next, what to predict meanwhile.

A `Consultation` does not change: each step returns another one, so that a step can be undone. It can be
written as plain data, which a page or a file can hold.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import or_
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field, ValidationError, model_serializer

from ascertain._core.checks import LARGEST_BUDGET, spending_limit
from ascertain._core.frames import value_name
from ascertain._core.json import Strict, first_finding
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advice, Advisor
from ascertain.estimator._case_prices import at_prices, case_notes, check_case_costs, forbidden_actions
from ascertain.estimator._outcomes import Outcome, expected_outcomes
from ascertain.tables._encoding import Action, Encoding

Value = float | bool | str
MOST_STEPS = 10_000  # in a file; more must be a mistake


class Entry(Strict):
    """A step: values that were entered together, or an action that cannot be taken now."""

    values: dict[str, Value] = Field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True)
class Option:
    """An action that was not taken yet."""

    action: str
    columns: tuple[str, ...]
    cost: float  # with set-ups that are still to be paid
    setup: float  # what these are of it
    setups: tuple[str, ...]  # their names
    score: float  # the policy's; higher is better
    benefit: float  # expected information about the class, in bits
    affordable: bool
    skipped: bool
    forbidden: bool

    @property
    def open(self) -> bool:
        """Whether it can be taken."""
        return not (self.skipped or self.forbidden)


@dataclass(frozen=True)
class Ahead:
    """What a policy that looks ahead expects after the recommended action."""

    right_at_end: float  # the probability that the prediction is right once the budget is spent
    then: str | None  # the action that most likely follows; None: to stop
    then_share: float  # the probability that this follows
    budget: float  # that is spent in the end: the case's, but not more than the policy was trained for


@dataclass(frozen=True)
class Answer:
    """The recommendation and the prediction at one step of a consultation."""

    recommended: str | None  # an action; None: to stop
    why: str | None  # the reason to stop: "policy", "budget" or "nothing left"
    ahead: Ahead | None  # None: to stop, or the policy does not look ahead
    outcomes: tuple[Outcome, ...]  # of the recommended action; none if it is to stop
    options: tuple[Option, ...]  # the best first
    prediction: str
    probabilities: dict[str, float]
    ranges: dict[str, tuple[float, float]]  # of each probability once everything is measured (90%)
    spent: float
    budget: float
    outside: tuple[str, ...]  # columns with a value that training did not have
    course: tuple[dict[str, float], ...]  # the class probabilities at the start and after each step
    notes: tuple[str, ...] = ()  # where the case is not what the policy was trained for

    @property
    def left(self) -> float:
        """What may still be spent."""
        return max(self.budget - self.spent, 0.0)

    @property
    def over(self) -> float:
        """What was spent beyond the budget, if it is more than rounding."""
        return self.spent - self.budget if self.spent > spending_limit(self.budget) else 0.0

    def removed(self, option: Option) -> float:
        """The share of the present uncertainty (entropy) that an action's result is expected to remove."""
        chances = [chance for chance in self.probabilities.values() if chance > 0]
        entropy = -sum(chance * math.log2(chance) for chance in chances)
        return min(option.benefit / entropy, 1.0) if entropy > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Consultation:
    """What is known of one instance, and in which steps it was entered."""

    advisor: Advisor
    entries: tuple[Entry, ...] = ()
    budget: float | None = None  # None: the one that the policy was trained for
    costs: Mapping[str, float] = field(
        default_factory=dict
    )  # of actions and set-ups, where not as in training
    forbid: tuple[str, ...] = ()  # actions, columns or set-ups that are out of the question in this case

    def __post_init__(self) -> None:
        """Check prices and forbidden actions."""
        object.__setattr__(self, "costs", check_case_costs(self.advisor.encoding, self.costs))
        object.__setattr__(self, "forbid", tuple(dict.fromkeys(map(str, self.forbid))))
        forbidden_actions(self.advisor.encoding, self.forbid)

    @property
    def values(self) -> dict[str, Value]:
        """What is known, by column."""
        return {column: value for entry in self.entries for column, value in entry.values.items()}

    @property
    def skipped(self) -> tuple[str, ...]:
        """The actions that cannot be taken now."""
        return tuple(entry.skipped for entry in self.entries if entry.skipped is not None)

    @property
    def taken(self) -> tuple[Action, ...]:
        """The actions with any value entered: they are paid for, and not offered again."""
        known = set(self.values)
        return tuple(action for action in self.advisor.encoding.actions if known & set(action.columns))

    def enter(self, values: Mapping[str, Any]) -> "Consultation":
        """Add values by column, as typed or as numbers; raises an `InputError` where one cannot be used."""
        read = {column: self.parse(column, value_name(value)) for column, value in values.items()}
        return self._with(Entry(values=read)) if read else self

    def parse(self, column: str, text: str) -> Value:
        """Read the value of a column that is not known yet."""
        known = self.values
        if column in known:
            raise InputError(f"{column!r} is known already, as {value_name(known[column])}; undo it first")
        return self.advisor.encoding.parse(column, text)

    def skip(self, action: str) -> "Consultation":
        """Mark an action as one that cannot be taken now."""
        names = self.advisor.encoding.action_names
        if action not in names:
            raise InputError(f"there is no action {action!r}; {did_you_mean(action, names)}")
        if action in self.skipped:
            raise InputError(f"{action!r} is skipped already")
        if action in (each.name for each in self.taken):
            raise InputError(f"{action!r} is known already, so it cannot be skipped")
        return self._with(Entry(skipped=action))

    def undo(self) -> "Consultation":
        """Take the last step back."""
        if not self.entries:
            raise InputError("there is nothing to undo")
        return replace(self, entries=self.entries[:-1])

    def answer(self) -> Answer:
        """What to measure next, and what to predict."""
        advisor = at_prices(self.advisor, self.costs)
        encoding = advisor.encoding
        x, available = encoding.transform(self._rows())
        names = {action.name for action in self.taken}
        taken = np.array([name in names for name in encoding.action_names])
        skipped = np.array([name in self.skipped for name in encoding.action_names])
        closed = taken | skipped | forbidden_actions(encoding, self.forbid)
        spent = float(encoding.price_list.total(taken))
        budget = float(np.float32(advisor.problem.budget if self.budget is None else self.budget))
        advice, benefits, course = advisor.consult(x, available, spent, closed, taken, budget)
        options = self._options(encoding, advice, benefits, taken, spending_limit(budget) - spent)
        choice = int(advice.choice[0])
        why = None
        if choice == 0:
            open_now = any(option.open for option in options)
            why = "nothing left" if not open_now else "policy" if advice.legal[0].any() else "budget"
        classes, probabilities = self._classes, advice.probabilities[0].astype(float)
        ranges = zip(advice.low[0].astype(float).tolist(), advice.high[0].astype(float).tolist(), strict=True)
        return Answer(
            recommended=None if choice == 0 else encoding.action_names[choice - 1],
            why=why,
            ahead=self._ahead(advice, budget),
            outcomes=expected_outcomes(advisor, advice)[0],
            options=tuple(options),
            prediction=classes[int(advisor.decide(probabilities))],
            probabilities=dict(zip(classes, probabilities.tolist(), strict=True)),
            ranges=dict(zip(classes, ranges, strict=True)),
            spent=spent,
            budget=budget,
            outside=tuple(column for column, value in self.values.items() if encoding.outside(column, value)),
            course=tuple(dict(zip(classes, row, strict=True)) for row in course.tolist()),
            notes=case_notes(self.advisor, self.costs, budget),
        )

    @property
    def case(self) -> "Case":
        """The case, apart from the model."""
        return Case(
            budget=self.budget, entries=list(self.entries), costs=dict(self.costs), forbid=list(self.forbid)
        )

    def to_json(self) -> dict[str, Any]:
        """The case as plain data."""
        return self.case.model_dump(mode="json")

    @classmethod
    def from_json(cls, advisor: Advisor, content: object) -> "Consultation":
        """Read what `to_json` wrote, step by step; one that does not fit the model raises an `InputError`."""
        try:
            case = Case.model_validate(content)
        except ValidationError as error:
            raise InputError(f"the case cannot be used: {first_finding(error)}") from error
        found = cls(advisor, budget=case.budget, costs=case.costs, forbid=tuple(case.forbid))
        for entry in case.entries:
            if entry.skipped is not None:
                found = found.skip(entry.skipped)
            found = found.enter(entry.values)
        return found

    def _options(
        self,
        encoding: Encoding,
        advice: Advice,
        benefits: Float[np.ndarray, " actions"],
        taken: Bool[np.ndarray, " actions"],
        left: float,
    ) -> list[Option]:
        """The actions that were not taken, the best first."""
        forbidden, skipped = forbidden_actions(encoding, self.forbid), self.skipped
        prices, setups = encoding.price_list.prices(taken), encoding.price_list.setups(taken)
        paid = {column for place in np.flatnonzero(taken) for column in encoding.actions[place].columns}
        unpaid = [each for each in encoding.setups if not paid & {*each.columns}]
        options = [
            Option(
                action=action.name,
                columns=action.columns,
                cost=float(prices[place]),
                setup=float(setups[place]),
                setups=tuple(each.name for each in unpaid if {*each.columns} & {*action.columns}),
                score=float(advice.scores[0, place]),
                benefit=max(float(benefits[place]), 0.0),
                affordable=bool(prices[place] <= max(left, 0.0)),
                skipped=action.name in skipped,
                forbidden=bool(forbidden[place]),
            )
            for place, action in enumerate(encoding.actions)
            if not taken[place]
        ]
        return sorted(options, key=lambda option: (not option.open, not option.affordable, -option.score))

    def _ahead(self, advice: Advice, budget: float) -> Ahead | None:
        choice, then = int(advice.choice[0]), int(advice.then[0])
        if choice == 0 or np.isnan(advice.right_at_end[0, choice - 1]):
            return None
        return Ahead(
            right_at_end=float(advice.right_at_end[0, choice - 1]),
            then=None if then < 0 else self.advisor.encoding.action_names[then],
            then_share=float(advice.then_share[0]),
            budget=min(budget, float(self.advisor.problem.budget)),
        )

    def _with(self, entry: Entry) -> "Consultation":
        return replace(self, entries=(*self.entries, entry))

    def _rows(self) -> np.ndarray:
        """What was known at the start and after each step."""
        nothing: dict[str, Value] = {}
        moments = accumulate((entry.values for entry in self.entries), or_, initial=nothing)
        # Rows of objects are the quickest to encode.
        names = self.advisor.encoding.table_columns
        return np.array([[moment.get(name) for name in names] for moment in moments], object)

    @property
    def _classes(self) -> list[str]:
        return [str(each) for each in self.advisor.classes]


class Case(Strict):
    """A case as a file or a request holds it: the steps so far, the budget, and this case's prices."""

    budget: float | None = Field(default=None, ge=0, le=LARGEST_BUDGET)
    entries: list[Entry] = Field(default_factory=list, max_length=MOST_STEPS)
    costs: dict[str, float] = Field(
        default_factory=dict, description="prices that are not those of training, by action or set-up"
    )
    forbid: list[str] = Field(
        default_factory=list,
        max_length=MOST_STEPS,
        description="actions, columns or set-ups that are out of the question",
    )

    @model_serializer(mode="wrap")
    def _as_short_as_it_can_be(self, serialise: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Leave out prices and forbidden actions where there are none."""
        content = serialise(self)
        return {name: each for name, each in content.items() if each or name not in ("costs", "forbid")}
