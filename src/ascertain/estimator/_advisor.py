"""A fitted policy, predictor and restorer: what to measure next, and what to predict meanwhile."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ascertain._core.arrays import on_device
from ascertain.acquisition import choose
from ascertain.decisions import decide
from ascertain.errors import InputError, StoreError
from ascertain.estimator._completions import COMPLETIONS, FEW_ROWS, completions, for_each_draw
from ascertain.estimator._ranges import Ranges, unknown_columns
from ascertain.evaluation._auto import AutoChoice
from ascertain.methods._registry import State
from ascertain.missingness._label_signs import LabelSign
from ascertain.policy import LooksAhead, Policy, at_prices_of
from ascertain.predictors._calibration import Calibrated
from ascertain.problem import Problem
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer
from ascertain.restoration._restorer import prepared
from ascertain.tables._encoding import Discrete, Encoding

# Rows are handled in blocks of a few sizes, so that few programs are compiled.
_ROWS_AT_ONCE = 256


class Advice(NamedTuple):
    """Recommendations and predictions for partly known rows."""

    choice: Int[np.ndarray, " rows"]  # 0: to stop; 1 + a: to acquire action a
    scores: Float[np.ndarray, "rows actions"]  # of the policy; higher is better
    legal: Bool[np.ndarray, "rows actions"]  # not acquired yet, not closed, affordable
    probabilities: Float[np.ndarray, "rows classes"]  # predicted now
    low: Float[np.ndarray, "rows classes"]  # in 90% of rows, where they lie once everything is measured
    high: Float[np.ndarray, "rows classes"]
    # Of policies that look ahead; the others have NaN and -1.
    right_at_end: Float[np.ndarray, "rows actions"]  # the probability, after each legal action
    then: Int[np.ndarray, " rows"]  # the action that most likely follows the recommended one; -1: none
    then_share: Float[np.ndarray, " rows"]  # of the completions of the row, in which that follows
    # Once the recommended action is taken, in each completion; see `expected_outcomes`.
    results: Float[np.ndarray, "rows draws width"]  # of the features that it reveals, and padding
    after: Float[np.ndarray, "rows draws classes"]  # predicted with them
    following: Int[np.ndarray, "rows draws"]  # the next action; -1: to stop, -2: the policy does not say


class Consulted(NamedTuple):
    """Everything about one row."""

    advice: Advice
    benefits: Float[np.ndarray, " actions"]  # the expected information of each action, in bits
    course: Float[np.ndarray, "moments classes"]  # what was predicted earlier, and at last what is now


@dataclass(frozen=True)
class Origin:
    """What an advisor was fitted with, and to how many rows; fields as in `SavedModel`."""

    method: str
    state: State
    settings: Any
    train_rows: int
    valid_rows: int
    data_hash: str
    seed: int
    predictor_name: str = ""  # empty for a scikit-learn classifier
    predictor_settings: Any = None
    restorer_name: str = ""
    restorer_settings: Any = None
    completions: int = 1


@dataclass(frozen=True, eq=False)
class Advisor:
    """A policy, a predictor and a restorer, with the encoding of the table that they were fitted to."""

    encoding: Encoding
    classes: np.ndarray  # as in the training table
    problem: Problem
    policy: Policy
    predictor: Calibrated
    restorer: Restorer  # completes rows
    ranges: Ranges
    origin: Origin
    protocol: Protocol = PAPER
    auto: AutoChoice | None = None  # how its treatment was chosen, if it was
    target: str | None = None  # the column of classes, if it has a name
    table_rows: tuple[int, int] | None = None  # of the table, trained on and validated with, each once
    habits: tuple[LabelSign, ...] = ()  # what told the class by being measured, in the training table

    @cached_property
    def _completing(self) -> Restorer:
        if not isinstance(self.restorer, eqx.Module):
            raise InputError(
                f"the restorer {self.origin.restorer_name!r} runs outside compiled programs, so it cannot "
                "complete new rows; fit with another one, such as 'nearest'"
            )
        return prepared(self.restorer)

    @cached_property
    def parts(self) -> "AdvisorParts":
        """What programs take of it."""
        problem = self.problem.without_names()
        learned = self.policy, problem, self.predictor, self._completing, self.ranges
        columns = on_device(measurable_columns(self.encoding))
        return AdvisorParts(*learned, columns, _revealed(problem), self.encoding.discrete)

    @cached_property
    def _flat_parts(self) -> tuple[Hashable, list[Array]]:
        """The parts as a list of arrays, and what puts them together again.

        A program for one row is so short that it matters to take the tree of modules apart only once.
        """
        arrays, others = eqx.partition(self.parts, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        other_leaves, other_structure = jax.tree.flatten(others)
        return (structure, tuple(other_leaves), other_structure), jax.device_put(leaves)

    def priced(self, encoding: Encoding) -> "Advisor":
        """The same advisor at the prices of an encoding that differs in nothing else."""
        classes = [str(each) for each in self.classes]
        problem = self.problem.at_prices_of(encoding.problem(None, classes))
        return self._with(encoding=encoding, problem=problem, policy=at_prices_of(problem, self.policy))

    def _with(self, **changes: Any) -> "Advisor":
        other = replace(self, **changes)
        # A deck of many donors takes long to sort, and is the same at all prices.
        other.__dict__["_completing"] = self._completing
        return other

    def acquired(self, available: Bool[np.ndarray, "rows features"]) -> Bool[np.ndarray, "rows actions"]:
        """The actions of which a row has all features."""
        reveals = np.asarray(self.problem.reveals)
        return ~(~available @ reveals.T)

    def predict(
        self, x: Float[np.ndarray, "rows features"], available: Bool[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """Class probabilities from the known features of each row."""
        blocks = in_blocks(_ROWS_AT_ONCE, x, available)
        found = np.concatenate([np.asarray(_predict(self.predictor, *block), np.float64) for block in blocks])
        found = found[: len(x)]
        _check_numbers(found)
        return found / found.sum(axis=1, keepdims=True)

    def decide(self, probabilities: Float[np.ndarray, "*batch classes"]) -> Int[np.ndarray, "*batch"]:
        """The most probable class or, where decisions have costs, the one with the least expected cost."""
        costs = self.problem.decision_costs
        return decide(probabilities, None if costs is None else np.asarray(costs, probabilities.dtype))

    def advise(
        self,
        x: Float[np.ndarray, "rows features"],
        available: Bool[np.ndarray, "rows features"],
        spent: Float[np.ndarray, " rows"] | None = None,
        closed: Bool[np.ndarray, "rows actions"] | None = None,
        budget: Float[np.ndarray, " rows"] | None = None,
    ) -> Advice:
        """Recommend what to acquire next for each row, and predict.

        A row's numbers are those that it would have by itself, but for rounding: completions of every row are
        drawn with the same random numbers.

        Parameters
        ----------
        x, available
            The rows.
        spent
            What was spent on each; by default the cost of the acquired actions.
        closed
            Actions that cannot be taken.
        budget
            What may be spent on each, altogether; by default the advisor's budget.
        """
        acquired = self.acquired(available)
        if spent is None:
            spent = self.problem.price_list.total(acquired)
        if closed is None:
            closed = np.zeros_like(acquired)
        if budget is None:
            budget = np.full(len(x), self.problem.budget)
        size = 1 if len(x) == 1 else FEW_ROWS if len(x) <= FEW_ROWS else _ROWS_AT_ONCE
        spent, budget = np.asarray(spent, np.float32), np.asarray(budget, np.float32)
        blocks = in_blocks(size, x, available, acquired, spent, closed, budget)
        found = [_advise(self.parts, *block) for block in blocks]
        advice = Advice(
            *(np.concatenate(part)[: len(x)] for part in zip(*jax.device_get(found), strict=True))
        )
        _check_advice(advice)
        return advice

    def benefits(
        self, x: Float[np.ndarray, " features"], available: Bool[np.ndarray, " features"]
    ) -> Float[np.ndarray, " actions"]:
        """The expected information of each action about a row's class, in bits.

        This is the mutual information of the action's features and the class under restorer and predictor:
        the entropy of the mean prediction over draws of the features, less the mean of the entropies.
        """
        found = np.asarray(_benefits(self.parts, x[None], available[None]), np.float64)
        _check_numbers(found)
        return found

    def consult(
        self,
        x: Float[np.ndarray, "moments features"],
        available: Bool[np.ndarray, "moments features"],
        spent: float,
        closed: Bool[np.ndarray, " actions"],
        paid: Bool[np.ndarray, " actions"] | None = None,
        budget: float | None = None,
    ) -> Consulted:
        """`advise`, `benefits` and `track` for one row, by one program that draws completions once.

        Parameters
        ----------
        x, available
            The row as it was at earlier moments, and at last as it is now.
        spent, closed, budget
            As in `advise`.
        paid
            Actions that count as acquired, even if they did not reveal all of their features.
        """
        acquired = self.acquired(available[-1:])
        if paid is not None:
            acquired = acquired | paid[None]
        money = np.array([spent, self.problem.budget if budget is None else budget], np.float32)
        early = max(len(x) - FEW_ROWS, 0)  # as many as the program does not take
        block = in_blocks(FEW_ROWS, x[early:], available[early:])[0]
        found = _consult(*self._flat_parts, *block, acquired, money[:1], closed[None], money[1:])
        told, benefits, course = jax.tree.map(np.asarray, found)
        advice = Advice(*told)
        _check_advice(advice)
        _check_numbers(benefits, course)
        course = course[: len(x) - early].astype(np.float64)
        if early:
            course = np.concatenate([self.track(x[:early], available[:early]), course])
        return Consulted(advice, benefits.astype(np.float64), course)

    def track(
        self, x: Float[np.ndarray, "rows features"], available: Bool[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """As `predict`, by a program for few rows: faster for them, and rounded differently."""
        found = [_predict(self.predictor, *block) for block in in_blocks(FEW_ROWS, x, available)]
        return np.concatenate(jax.device_get(found))[: len(x)].astype(np.float64)


def _check_advice(advice: Advice) -> None:
    """Refuse advice that holds no numbers where people are shown some."""
    shown = advice.probabilities, advice.low, advice.high, advice.results, advice.after
    # Scores may be infinite, such as that of what a policy would never do, but not NaN where they count.
    scores = np.where(advice.legal & ~np.isinf(advice.scores), advice.scores, 0.0)
    _check_numbers(*shown, scores)


def _check_numbers(*shown: Float[np.ndarray, "..."]) -> None:
    """Raise where any number is NaN or infinite: then the numbers of a model make no sense.

    A look at the model's own numbers would not tell: each may be finite, and their products are not.
    """
    if not all(np.isfinite(each).all() for each in shown):
        raise StoreError(
            "the model predicts NaN or infinity: its training diverged, or its file was forged; fit it "
            "again, or get a fresh copy of the file"
        )


def measurable_columns(encoding: Encoding) -> Bool[np.ndarray, "columns features"]:
    """The features of each column; none of one that was never measured in training."""
    numbers = np.arange(len(encoding.columns))[:, None]
    measured = np.array([column.kind != "empty" for column in encoding.columns])
    return (encoding.discrete.column[None] == numbers) & measured[:, None]


def _revealed(problem: Problem) -> Int[Array, "actions width"]:
    """The features of each action; the shorter lists are padded."""
    lists = [np.flatnonzero(each) for each in np.asarray(problem.reveals)]
    width = max(map(len, lists))
    return on_device([np.pad(each, (0, width - len(each))) for each in lists], np.int32)


@eqx.filter_jit
def _predict(predictor: Calibrated, x: Any, available: Any) -> Array:
    return predictor(x, available)


class AdvisorParts(NamedTuple):
    """What programs take of an advisor."""

    policy: Policy
    problem: Problem
    predictor: Calibrated
    restorer: Restorer
    ranges: Ranges
    columns: Bool[Array, "columns features"]
    revealed: Int[Array, "actions width"]  # features, and padding
    discrete: Discrete


class CaseRows(NamedTuple):
    """Rows in the middle of their acquisition."""

    x: Float[Array, "rows features"]
    available: Bool[Array, "rows features"]
    acquired: Bool[Array, "rows actions"]
    spent: Float[Array, " rows"]
    closed: Bool[Array, "rows actions"]
    budget: Float[Array, " rows"]

    @property
    def open(self) -> Bool[Array, "rows actions"]:
        """Which actions are neither acquired nor closed."""
        return ~self.acquired & ~self.closed

    def legal(self, problem: Problem) -> Bool[Array, "rows actions"]:
        """Which of these the budget of a row still pays for; what is free fits even if it is overspent."""

        def affordable(budget: Array, acquired: Array, spent: Array) -> Bool[Array, " actions"]:
            return problem.at(budget).affordable(acquired, spent)

        fits = jax.vmap(affordable)(self.budget, self.acquired, self.spent)
        return (fits | (problem.prices(self.acquired) == 0)) & self.open

    def after(self, problem: Problem, action: Int[Array, " rows"], values: Array) -> "CaseRows":
        """The rows once an action has revealed its features, which have these values."""
        available = self.available | problem.reveals[action]
        price = jnp.take_along_axis(problem.prices(self.acquired), action[:, None], axis=1)[:, 0]
        return CaseRows(
            jnp.where(self.available, self.x, jnp.where(available, values, 0.0)),
            available,
            self.acquired | problem.readable(available),
            self.spent + price,
            self.closed,
            self.budget,
        )


@eqx.filter_jit
def _advise(parts: Any, *row: Any) -> Any:
    rows = CaseRows(*row)
    now, drawn = draw_completions(parts, rows.x, rows.available)
    return _advice(parts, now, drawn, rows)


@eqx.filter_jit
def _benefits(parts: Any, x: Any, available: Any) -> Float[Array, " actions"]:
    return _information(parts, draw_completions(parts, x, available)[1], available)


@partial(jax.jit, static_argnums=0)
def _consult(structure: Any, leaves: Any, x: Any, available: Any, *row: Any) -> Any:
    arrays, other_leaves, others = structure
    parts = eqx.combine(jax.tree.unflatten(arrays, leaves), jax.tree.unflatten(others, other_leaves))
    # Blocks are padded with their last row, so that it is at their end.
    rows = CaseRows(x[-1:], available[-1:], *row)
    now, drawn = draw_completions(parts, rows.x, rows.available)
    advice = _advice(parts, now, drawn, rows)
    return advice, _information(parts, drawn, rows.available), parts.predictor(x, available)


def _advice(
    parts: AdvisorParts,
    now: Float[Array, "rows classes"],
    drawn: Float[Array, "draws rows features"],
    rows: CaseRows,
) -> tuple[Array, ...]:
    policy, problem, predictor = parts.policy, parts.problem, parts.predictor
    legal = rows.legal(problem)
    scores = _ask(_scores, policy, problem, rows)
    everything = rows.available | parts.columns.any(axis=0)[None]
    possible = for_each_draw(
        lambda each: predictor(jnp.where(everything, each, 0.0), everything), drawn, len(now)
    )
    low, high = parts.ranges(now, possible, unknown_columns(parts.columns, ~rows.available))
    choice = choose(scores, legal)
    # Results can be ignored: with more of them, nobody is right less often.
    least = probability_of_decision(now, problem.decision_costs)[:, None]
    right = jnp.where(legal, jnp.maximum(_ask(_outlook, policy, problem, rows), least), jnp.nan)
    then = _continuation(parts, drawn, rows, choice)
    return choice, scores[:, 1:], legal, now, low, high, right, *then


def _ask(
    question: Callable[..., Array], policy: Policy, problem: Problem, rows: CaseRows
) -> Float[Array, "rows answers"]:
    """Ask a policy about rows; one that plans for a budget plans for what is really left of each row's."""
    seen = rows.x, rows.available, rows.acquired, rows.open
    if policy.at(problem.budget) is policy:
        return question(policy, *seen)
    # Policies take it that what is acquired was paid for at its price, and nothing else. Where the budget is
    # overspent, nothing is left, but no less: what is free can still be taken.
    paid = problem.total_cost(rows.acquired)
    budgets = jnp.maximum(rows.budget + (paid - rows.spent), paid)

    def one(budget: Array, closed: Array, *row: Array) -> Array:
        # No plan may count on what cannot be taken: it is as if nobody could pay for it.
        unpayable = eqx.tree_at(lambda p: p.costs, problem, jnp.where(closed, jnp.inf, problem.costs))
        asked = at_prices_of(unpayable, policy.at(budget))
        return question(asked, *(each[None] for each in row))[0]

    return jax.vmap(one)(budgets, rows.closed & ~rows.acquired, *seen)


def _scores(policy: Policy, *seen: Array) -> Float[Array, "rows choices"]:
    return policy(*seen, key=jr.key(0))


def _outlook(policy: Policy, *seen: Array) -> Float[Array, "rows actions"]:
    return policy.outlook(*seen) if isinstance(policy, LooksAhead) else jnp.full_like(seen[2], jnp.nan, float)


def _continuation(
    parts: AdvisorParts,
    drawn: Float[Array, "draws rows features"],
    rows: CaseRows,
    choice: Int[Array, " rows"],
) -> tuple[Array, ...]:
    """What most likely follows a choice, in which share of the completions, and what each leads to."""
    policy, problem, action = parts.policy, parts.problem, jnp.maximum(choice - 1, 0)
    looks_ahead = isinstance(policy, LooksAhead)

    def outcome(values: Float[Array, "rows features"]) -> tuple[Array, Array, Array]:
        after = rows.after(problem, action, nearest_values(parts.discrete, values))
        results = jnp.take_along_axis(after.x, parts.revealed[action], axis=1)
        following = jnp.full_like(choice, -2)
        if looks_ahead:
            found = choose(_ask(_scores, policy, problem, after), after.legal(problem))
            following = jnp.where(choice == 0, 0, found) - 1
        return results, parts.predictor(after.x, after.available), following

    outcomes = for_each_draw(outcome, drawn, len(choice))
    results, after, following = (jnp.swapaxes(each, 0, 1) for each in outcomes)
    if not looks_ahead:
        return jnp.full_like(choice, -1), jnp.full(choice.shape, jnp.nan), results, after, following
    shares = jax.nn.one_hot(following + 1, problem.n_actions + 1).mean(axis=1)
    return jnp.argmax(shares, axis=1) - 1, jnp.max(shares, axis=1), results, after, following


def probability_of_decision(
    probabilities: Float[Array, "rows classes"], costs: Float[Array, "classes classes"] | None
) -> Float[Array, " rows"]:
    """The probability of the class that is decided for; without costs of decisions, of the likeliest."""
    decided = decide(probabilities, costs)
    return jnp.take_along_axis(probabilities, decided[:, None], axis=1)[:, 0]


def nearest_values(discrete: Discrete, x: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
    """Turn draws of categories and booleans, which may lie between them, into what was likely meant."""
    raw = x * discrete.scale[None] + discrete.mean[None]
    largest = jax.ops.segment_max(raw.T, discrete.column, num_segments=x.shape[1]).T[:, discrete.column]
    chosen = raw >= jnp.maximum(largest, discrete.threshold[None])
    return jnp.where(discrete.is_discrete[None], (chosen - discrete.mean[None]) / discrete.scale[None], x)


def _information(
    parts: AdvisorParts, drawn: Float[Array, "draws 1 features"], available: Bool[Array, "1 features"]
) -> Float[Array, " actions"]:
    """Mutual information of each action's features and the class of one row, in bits."""
    problem, predictor = parts.problem, parts.predictor
    draws = drawn[:, 0]
    shown = jnp.broadcast_to((available | problem.reveals)[:, None], (problem.n_actions, *draws.shape))
    rows = jnp.where(shown, draws[None], 0.0)
    after = predictor(rows.reshape(-1, problem.n_features), shown.reshape(-1, problem.n_features))
    after = after.reshape(problem.n_actions, len(draws), -1)
    return _entropy(after.mean(axis=1)) - _entropy(after).mean(axis=1)


def draw_completions(
    parts: AdvisorParts, x: Array, available: Array, *, seed: int = 0, draws: int = COMPLETIONS
) -> tuple[Float[Array, "rows classes"], Float[Array, "draws rows features"]]:
    """Predict from what is known, and complete the rows."""
    now = parts.predictor(x, available)
    return now, completions(parts.restorer, x, available, now, seed=seed, draws=draws)


def _entropy(probabilities: Float[Array, "*batch classes"]) -> Float[Array, "*batch"]:
    safe = jnp.maximum(probabilities, np.finfo(np.float32).tiny)
    return -jnp.sum(probabilities * jnp.log2(safe), axis=-1)


def in_blocks(size: int, *arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Split rows into blocks of one size, for one program; the last block is padded with the last row."""
    n_rows = len(arrays[0])
    places = np.arange(-(-n_rows // size) * size).reshape(-1, size)
    return [tuple(array[np.minimum(block, n_rows - 1)] for array in arrays) for block in places]
