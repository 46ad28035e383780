"""What the API sends, as pydantic models: they make both the replies and the OpenAPI document."""

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ascertain._core.networks import LOWEST
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Case, Consultation
from ascertain.serve._about import About
from ascertain.tables._columns import Kind

# Bounds are documented but not enforced: a reply is never refused for a rounding error.
Share = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Amount = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0})]
# Some policies score what they would never do as minus infinity, which JSON cannot write, or as good as that.
Score = Annotated[
    float | None, BeforeValidator(lambda score: score if math.isfinite(score) and score > LOWEST else None)
]


class Reply(BaseModel):
    """Has exactly its own fields; reads them from objects, too."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class HealthReply(Reply):
    """The server is up."""

    status: Literal["ok"]
    version: str


class ErrorReply(Reply):
    """Why a request was refused."""

    error: str = Field(description="what is wrong, and what to do")


class ColumnReply(Reply):
    """A column of the table."""

    name: str
    kind: Kind
    categories: tuple[str, ...] | None
    low: float | None = Field(description="the smallest value in training")
    high: float | None = Field(description="the largest value in training")
    known: bool = Field(description="observed from the start, at no cost")
    action: str | None = Field(description="the action that acquires it")


class ActionReply(Reply):
    """A measurement: the columns that it reveals, and its cost."""

    name: str
    columns: tuple[str, ...]
    cost: Amount = Field(description="without set-ups")


class SetupReply(Reply):
    """A set-up that actions share: the first one that needs it pays for it."""

    name: str
    cost: Amount
    columns: tuple[str, ...] = Field(description="the columns that need it")


class ModelReply(About):
    """The model: what it is for, and what it takes."""

    classes: tuple[str, ...]
    budget: Amount
    columns: tuple[ColumnReply, ...]
    actions: tuple[ActionReply, ...]
    setups: tuple[SetupReply, ...]


class OptionReply(Reply):
    """An action that was not taken yet."""

    action: str
    columns: tuple[str, ...]
    cost: Amount = Field(description="with set-ups that are still to be paid")
    setup: Amount = Field(description="what the set-ups are of the cost")
    setups: tuple[str, ...] = Field(description="the set-ups that are still to be paid for it")
    score: Score = Field(description="the policy's: the higher, the sooner")
    benefit: Amount = Field(description="information that it is expected to give about the class, in bits")
    removed: Share = Field(description="the same as a share of the present uncertainty about the class")
    affordable: bool
    skipped: bool
    forbidden: bool


class AheadReply(Reply):
    """What the policy expects after the recommended action."""

    right_at_end: Share = Field(
        description="the probability that the prediction is right once the budget is spent"
    )
    then: str | None = Field(description="the action that most likely follows; null: stop")
    then_share: Share = Field(description="the probability that this follows")
    budget: Amount = Field(
        description="that is spent in the end: the case's, but not more than the policy was trained for"
    )


class OutcomeReply(Reply):
    """Results of the recommended action, and what would be predicted with them."""

    column: str | None = Field(description="that has the result; null: all columns of a panel together")
    result: str = Field(description="in words")
    above: float | None = Field(
        description="of numbers (dates: days since 1970): results are larger; null: no bound"
    )
    up_to: float | None = Field(description="of numbers and dates: results are at most this")
    share: Share = Field(description="the probability of such a result")
    prediction: str
    probabilities: dict[str, Share]
    then: str | None = Field(
        description="the action that most likely follows; null: stop, or the policy does not look ahead"
    )


class AnswerReply(Reply):
    """What to measure next for a case, and what to predict."""

    recommended: str | None = Field(description="an action; null: stop")
    why: Literal["policy", "budget", "nothing left"] | None = Field(description="the reason to stop")
    ahead: AheadReply | None = Field(
        description="along the best continuation; null: stop, or the policy does not look ahead"
    )
    outcomes: tuple[OutcomeReply, ...] = Field(
        description="which results of the recommended action would change the prediction, and to what"
    )
    options: tuple[OptionReply, ...] = Field(description="the best first")
    prediction: str
    probabilities: dict[str, Share]
    ranges: dict[str, tuple[Share, Share]] = Field(
        description="of each probability, once everything is known (90%)"
    )
    spent: Amount
    budget: Amount
    left: Amount
    over: Amount = Field(description="what was spent beyond the budget")
    outside: tuple[str, ...] = Field(description="columns whose value is outside the training range")
    notes: tuple[str, ...] = Field(description="where the case is not what the policy was trained for")
    course: tuple[dict[str, Share], ...] = Field(
        description="the probabilities at the start and after each step"
    )
    case: Case = Field(description="the case as it was understood")


def describe(advisor: Advisor, about: About) -> ModelReply:
    """Describe a model."""
    encoding = advisor.encoding
    owner = {column: action.name for action in encoding.actions for column in action.columns}
    columns = (
        ColumnReply(
            name=column.name,
            kind=column.kind,
            categories=column.categories,
            low=column.low,
            high=column.high,
            known=column.name in encoding.known,
            action=owner.get(column.name),
        )
        for column in encoding.columns
    )
    return ModelReply(
        **vars(about),
        classes=tuple(map(str, advisor.classes)),
        budget=float(advisor.problem.budget),
        columns=tuple(columns),
        actions=tuple(ActionReply(name=a.name, columns=a.columns, cost=a.price) for a in encoding.actions),
        setups=tuple(map(SetupReply.model_validate, encoding.setups)),
    )


def answer_case(consultation: Consultation) -> AnswerReply:
    """Answer a case."""
    answer = consultation.answer()
    options = [vars(option) | {"removed": answer.removed(option)} for option in answer.options]
    more = {"left": answer.left, "over": answer.over, "options": options, "case": consultation.case}
    return AnswerReply.model_validate(vars(answer) | more)
