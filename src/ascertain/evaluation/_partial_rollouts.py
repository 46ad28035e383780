"""Partial rollouts of a policy in rows with missing values, and their importance weights.

The policy chooses as if every action were available; a row supports its rollout up to the first choice that
it lacks. Rows with a complete rollout are weighted by the inverse propensity of that.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from ascertain._core.arrays import on_device, take_rows
from ascertain._core.padding import Block, row_blocks
from ascertain.acquisition import Episodes
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._propensity import Choices, propensities
from ascertain.evaluation._rollouts import ROWS_AT_ONCE, compiled_acquire
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol

_HARDLY_ANY = 0.01  # of the rows with what is known at a step
_ENOUGH_TO_TELL = 20  # rows of a class, none of which has an action
_MOST_UNSUPPORTED = 0.1  # of a class


class Target(NamedTuple):
    """The policy under evaluation, and the rules that it acts under."""

    policy: Policy
    problem: Problem  # without names, with the budget in question
    predictor: Predictor
    protocol: Protocol
    n_steps: int

    def roll_out(self, key: PRNGKeyArray, table: Table) -> Episodes:
        """Roll out the policy for every row of a table."""
        found: Episodes = compiled_acquire(key, self.policy, self.problem, table, self.protocol, self.n_steps)
        return found


class PartialRollouts(NamedTuple):
    """How far each row supports the rollout of the policy."""

    choices: Int[np.ndarray, "rows steps"]  # 1 + the action; invalid after the first that the row lacks
    n_actions: int
    n_supported: Int[np.ndarray, " rows"]  # choices before that one
    complete: Bool[np.ndarray, " rows"]  # whether the row supports all choices
    spent: Float[np.ndarray, " rows"]  # valid if complete
    forced_stop: Bool[np.ndarray, " rows"]  # valid if complete

    @property
    def valid(self) -> Bool[np.ndarray, "rows steps"]:
        """Which choices the policy made: those that the row supports, and the first that it lacks."""
        n_valid = self.n_supported + ~self.complete
        return np.arange(self.choices.shape[1])[None] < n_valid[:, None]

    def acquired(
        self, row: Int[np.ndarray, " points"], step: Int[np.ndarray, " points"]
    ) -> Bool[np.ndarray, "points actions"]:
        """What was acquired in a row before a step, from 0; the number of steps means after the last."""
        return acquired_before(self.choices[row], step, self.n_actions)

    def acquired_at_end(self) -> Bool[np.ndarray, "rows actions"]:
        """What was acquired in each row when its rollout was over."""
        n_rows, n_steps = self.choices.shape
        return acquired_before(self.choices, np.full(n_rows, n_steps), self.n_actions)


class SupportGap(NamedTuple):
    """An action that the policy asks for in rows of a class, although hardly any of them has it."""

    action: int
    label: int
    rows: int  # of the class, in which the policy asks for it
    share: float  # of the class: what these rows weigh


class ImportanceWeights(NamedTuple):
    """Inverse propensities of partial rollouts, and the residuals of the propensity models.

    Weights are 1 at the start and 0 from the first choice that the row lacks; a complete rollout keeps its
    last weight. The residual of an action, 1 or 0 for available or not less the propensity, is the score
    function of its model's intercept; see `ascertain.evaluation._intervals`.
    """

    cumulative: Float[np.ndarray, "rows steps_and_start"]
    residuals: Float[np.ndarray, "rows models"]  # the action that was chosen most often first
    gaps: tuple["SupportGap", ...] = ()

    def scaled(self, sample_weight: Float[np.ndarray, " rows"] | None) -> "ImportanceWeights":
        """The same where rows count in proportion to these weights; None: all the same."""
        if sample_weight is None:
            return self
        shares = sample_weight / sample_weight.mean()
        return self._replace(cumulative=self.cumulative * shares[:, None])

    @property
    def effective_rows(self) -> float:
        """The effective sample size of the rows with complete rollouts."""
        weight = self.cumulative[:, -1]
        total = weight.sum()
        return float(total**2 / np.square(weight).sum()) if total > 0 else 0.0

    def effective_rows_of(self, y: Int[np.ndarray, " rows"]) -> Float[np.ndarray, " classes"]:
        """The effective sample size of each class that occurs."""
        weight = self.cumulative[:, -1]
        total, squares = np.bincount(y, weight), np.bincount(y, weight**2)
        found: np.ndarray = total**2 / np.where(squares > 0, squares, 1.0)
        return found[np.bincount(y) > 0]


def roll_out_partially(key: PRNGKeyArray, target: Target, table: Table) -> PartialRollouts:
    """Roll out the policy as if every action were available, and find how far each row supports that.

    Rows are rolled out in blocks of one size, so that memory does not grow with the table.
    """
    parts = []
    for number, block in enumerate(row_blocks(len(table.y), ROWS_AT_ONCE)):
        part = taken(table, block)
        episodes = target.roll_out(
            jr.fold_in(key, number) if number else key,
            part.with_cells(part.x, jnp.ones_like(part.available)),
        )
        parts.append([np.asarray(each)[: block.size] for each in episodes])
    choices, spent, forced = (np.concatenate(each) for each in zip(*parts, strict=True))
    readable = readable_actions(target.problem, np.asarray(table.available))
    return support(choices, spent[:, -1], forced, readable)


def support(
    choices: Int[np.ndarray, "rows steps"],
    spent: Float[np.ndarray, " rows"],
    forced_stop: Bool[np.ndarray, " rows"],
    readable: Bool[np.ndarray, "rows actions"],
) -> PartialRollouts:
    """Find how far each row supports the choices of a policy that acted as if every action were available."""
    supported = np.take_along_axis(readable, np.maximum(choices - 1, 0), axis=1) | (choices == 0)
    complete = supported.all(axis=1)
    n_supported = np.where(complete, (choices > 0).sum(axis=1), supported.argmin(axis=1))
    return PartialRollouts(choices, readable.shape[1], n_supported, complete, spent, forced_stop)


def importance_weights(
    rollouts: PartialRollouts,
    problem: Problem,
    table: Table,
    fold: Int[np.ndarray, " rows"],
    clip: float,
) -> ImportanceWeights:
    """Fit propensities to the valid choices, across folds, and multiply their inverses along rollouts.

    A propensity below `clip` counts as `clip`.
    """
    return common_importance_weights([rollouts], problem, table, fold, clip)[0]


def common_importance_weights(
    rollouts: Sequence[PartialRollouts],
    problem: Problem,
    table: Table,
    fold: Int[np.ndarray, " rows"],
    clip: float,
) -> list[ImportanceWeights]:
    """As `importance_weights` for several policies in the same rows, with the same propensities for all.

    They are fitted to the choices of all policies together; a choice that several of them make in the same
    row and state counts once.
    """
    parts = [_made_choices(each, problem, table, fold) for each in rollouts]
    row = np.concatenate([part.row for part in parts])
    choices = Choices(*(np.concatenate(each) for each in zip(*(part.choices for part in parts), strict=True)))
    if len(parts) == 1:  # a policy makes no choice twice
        fitted = propensities(choices)
    else:
        kept, place = _first_of_each(np.column_stack([row, choices.action, choices.acquired]))
        fitted = propensities(Choices(*(each[kept] for each in choices)))[place]
    ends = np.cumsum([len(part.row) for part in parts])[:-1]
    pairs = zip(rollouts, parts, np.split(fitted, ends), strict=True)
    return [_weights(each, part, own, clip) for each, part, own in pairs]


class _MadeChoices(NamedTuple):
    """The valid choices of a policy, by row and step."""

    row: Int[np.ndarray, " choices"]
    step: Int[np.ndarray, " choices"]
    choices: Choices


def _made_choices(
    rollouts: PartialRollouts, problem: Problem, table: Table, fold: Int[np.ndarray, " rows"]
) -> _MadeChoices:
    row, step = np.nonzero(rollouts.valid)
    acquired = rollouts.acquired(row, step)
    choices = Choices(
        action=rollouts.choices[row, step] - 1,
        available=step < rollouts.n_supported[row],
        x=np.asarray(table.x)[row].astype(np.float64),
        observed=observed_features(problem, acquired) | always_available(table),
        acquired=acquired,
        y=np.asarray(table.y)[row],
        fold=fold[row],
    )
    return _MadeChoices(row, step, choices)


def _first_of_each(
    keys: Int[np.ndarray, "choices parts"],
) -> tuple[Int[np.ndarray, " distinct"], Int[np.ndarray, " choices"]]:
    """Where each distinct key first occurs, in this order, and which of them each key is."""
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return np.sort(first), np.argsort(np.argsort(first))[which.ravel()]


def _weights(
    rollouts: PartialRollouts, made: _MadeChoices, fitted: Float[np.ndarray, " choices"], clip: float
) -> ImportanceWeights:
    row, action, supported = made.row, made.choices.action, made.choices.available
    ratio = np.ones(rollouts.choices.shape)
    ratio[row, made.step] = np.where(supported, 1 / np.maximum(fitted, clip), 0.0)
    cumulative = np.cumprod(np.concatenate([np.ones((len(ratio), 1)), ratio], axis=1), axis=1)
    residual = supported - fitted
    actions, counts = np.unique(action[residual != 0], return_counts=True)  # without those that no row lacks
    residuals = np.zeros((len(ratio), len(actions)))
    for column, chosen in enumerate(actions[np.argsort(-counts, kind="stable")]):
        residuals[row[action == chosen], column] = residual[action == chosen]
    gaps = _support_gaps(made.choices, cumulative[row, made.step], fitted < _HARDLY_ANY)
    return ImportanceWeights(cumulative, residuals, gaps)


def _support_gaps(
    choices: Choices, weight: Float[np.ndarray, " choices"], improbable: Bool[np.ndarray, " choices"]
) -> tuple[SupportGap, ...]:
    """Find the actions that no row of a class has, or hardly any with what was known at that step.

    `weight` is that of each choice's row at its step, and `improbable` marks very small propensities.
    """
    found = []
    first = choices.acquired.sum(axis=1) == 0
    for label in np.unique(choices.y):
        of_class = choices.y == label
        size = weight[of_class & first].sum()
        for action in np.unique(choices.action[of_class & ~choices.available]):
            here = of_class & (choices.action == action)
            never = here.sum() >= _ENOUGH_TO_TELL and not choices.available[here].any()
            lacking = here if never else here & improbable
            share = weight[lacking].sum() / max(size, 1.0)
            if share > _MOST_UNSUPPORTED:
                found.append(SupportGap(int(action), int(label), int(lacking.sum()), float(share)))
    return tuple(found)


def complete_predictions(
    target: Target, table: Table, rollouts: PartialRollouts, weights: ImportanceWeights
) -> WeightedPredictions:
    """Predict for the rows with complete rollouts."""
    rows, acquired = np.flatnonzero(rollouts.complete), rollouts.acquired_at_end()
    # All rows are predicted, whether complete or not, so that shapes do not change.
    predicted = np.concatenate(
        [
            np.asarray(
                predict_sets(
                    target.predictor,
                    target.problem,
                    taken(table, block),
                    on_device(acquired[block.places][None]),
                )
            )[0, : block.size]
            for block in row_blocks(len(acquired), ROWS_AT_ONCE)
        ]
    )
    return WeightedPredictions(
        row=rows,
        weight=weights.cumulative[rows, -1],
        probabilities=predicted[rows].astype(np.float64),
        y=np.asarray(table.y)[rows],
        amounts=amounts_of(rollouts.spent[rows], acquired[rows], rollouts.forced_stop[rows]),
    )


def always_available(table: Table) -> Bool[np.ndarray, " features"]:
    """Which features every row has."""
    return np.logical_and.reduce(np.asarray(table.available))


def taken(table: Table, block: Block) -> Table:
    """The rows of a block, with those that pad it."""
    return take_rows(table, block.places)


def observed_features(
    problem: Problem, acquired: Bool[np.ndarray, "points actions"]
) -> Bool[np.ndarray, "points features"]:
    """Compute `Problem.observed` in NumPy, which need not be compiled for every number of points."""
    revealed = acquired.astype(np.float32) @ np.asarray(problem.reveals, np.float32) > 0
    return revealed | np.asarray(problem.known)


def readable_actions(
    problem: Problem, available: Bool[np.ndarray, "rows features"]
) -> Bool[np.ndarray, "rows actions"]:
    """Compute `Problem.readable` in NumPy, for the same reason."""
    return (~available).astype(np.float32) @ np.asarray(problem.reveals, np.float32).T == 0


def amounts_of(
    spent: Float[np.ndarray, " rows"],
    acquired: Bool[np.ndarray, "rows actions"],
    forced_stop: Bool[np.ndarray, " rows"],
) -> dict[str, Float[np.ndarray, " rows"]]:
    """What is averaged besides the scores."""
    return {
        "mean_cost": spent.astype(float),
        "mean_acquisitions": acquired.sum(axis=1).astype(float),
        "forced_stop_rate": forced_stop.astype(float),
    }


def acquired_before(
    choices: Int[np.ndarray, "points steps"], step: Int[np.ndarray, " points"], n_actions: int
) -> Bool[np.ndarray, "points actions"]:
    """What the choices before a step have acquired."""
    found = np.zeros((len(choices), n_actions), bool)
    for number, chosen in enumerate(choices.T):
        made = np.flatnonzero((chosen > 0) & (number < step))
        found[made, chosen[made] - 1] = True
    return found
