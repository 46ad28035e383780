"""Partial rollouts of a policy in rows with missing values, and their importance weights.

The policy chooses as if every action were available; a row supports its rollout up to the first choice that
it lacks. Rows with a complete rollout are weighted by the inverse propensity of that. For a doubly robust
estimate, rollouts are also continued from every step in rows that a fitted outcome model (the restorer)
completes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.acquisition import Episodes
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._propensity import Choices, propensities
from ascertain.evaluation._rollouts import compiled_acquire
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.restoration import Restorer, restore

_ROWS_AT_ONCE = 4096  # of the outcome model's rollouts


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
    acquired: Bool[np.ndarray, "rows steps_and_start actions"]  # before the first step and after each one
    n_supported: Int[np.ndarray, " rows"]  # choices before that one
    complete: Bool[np.ndarray, " rows"]  # whether the row supports all choices
    spent: Float[np.ndarray, " rows"]  # valid if complete
    forced_stop: Bool[np.ndarray, " rows"]  # valid if complete

    @property
    def valid(self) -> Bool[np.ndarray, "rows steps"]:
        """Which choices the policy made: those that the row supports, and the first that it lacks."""
        n_valid = self.n_supported + ~self.complete
        return np.arange(self.choices.shape[1])[None] < n_valid[:, None]


class ImportanceWeights(NamedTuple):
    """Inverse propensities of partial rollouts, and the residuals of the propensity models.

    Weights are 1 at the start and 0 from the first choice that the row lacks; a complete rollout keeps its
    last weight. The residual of an action, 1 or 0 for available or not less the propensity, is the score
    function of its model's intercept; see `ascertain.evaluation._intervals`.
    """

    cumulative: Float[np.ndarray, "rows steps_and_start"]
    residuals: Float[np.ndarray, "rows models"]  # the action that was chosen most often first

    @property
    def effective_rows(self) -> float:
        """The effective sample size of the rows with complete rollouts."""
        weight = self.cumulative[:, -1]
        total = weight.sum()
        return float(total**2 / np.square(weight).sum()) if total > 0 else 0.0


class Resumed(Policy):
    """A policy that starts after given acquisitions: it first repeats them, then continues on its own."""

    policy: Policy
    given: Bool[Array, "instances actions"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score choices as the policy does, or infinity for given acquisitions that are not repeated yet."""
        scores = self.policy(x, observed, acquired, available, key=key)
        pending = self.given & ~acquired
        any_pending = jnp.any(pending, axis=1, keepdims=True)
        first = jnp.concatenate([jnp.zeros_like(pending[:, :1]), pending], axis=1)
        return jnp.where(any_pending, jnp.where(first, jnp.inf, -jnp.inf), scores)


def roll_out_partially(key: PRNGKeyArray, target: Target, table: Table) -> PartialRollouts:
    """Roll out the policy as if every action were available, and find how far each row supports that."""
    n_rows, padded = len(table.y), _padded(table)
    everything = jnp.ones_like(padded.available)
    episodes = target.roll_out(key, padded.with_cells(padded.x, everything))
    choices, spent, forced = (np.asarray(each)[:n_rows] for each in episodes)
    readable = np.asarray(target.problem.readable(padded.available))[:n_rows]
    supported = np.take_along_axis(readable, np.maximum(choices - 1, 0), axis=1) | (choices == 0)
    complete = supported.all(axis=1)
    n_supported = np.where(complete, (choices > 0).sum(axis=1), supported.argmin(axis=1))
    acquired = _acquired_after(choices, target.problem.n_actions)
    return PartialRollouts(choices, acquired, n_supported, complete, spent[:, -1], forced)


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
    acquired = rollouts.acquired[row, step]
    choices = Choices(
        action=rollouts.choices[row, step] - 1,
        available=step < rollouts.n_supported[row],
        x=np.asarray(table.x, np.float64)[row],
        observed=_observed(problem, acquired) | _always_available(table),
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
    return ImportanceWeights(cumulative, residuals)


def complete_predictions(
    target: Target, table: Table, rollouts: PartialRollouts, weights: ImportanceWeights
) -> WeightedPredictions:
    """Predict for the rows with complete rollouts."""
    rows = np.flatnonzero(rollouts.complete)
    acquired = rollouts.acquired[:, -1]
    # All rows are predicted, whether complete or not, so that shapes do not change.
    sets = jnp.asarray(acquired[_padded_places(len(acquired))][None])
    predicted = np.asarray(predict_sets(target.predictor, target.problem, _padded(table), sets))[0]
    return WeightedPredictions(
        row=rows,
        weight=weights.cumulative[rows, -1],
        probabilities=predicted[rows].astype(np.float64),
        y=np.asarray(table.y)[rows],
        amounts=_amounts(rollouts.spent[rows], acquired[rows], rollouts.forced_stop[rows]),
    )


def doubly_robust_predictions(
    key: PRNGKeyArray,
    target: Target,
    table: Table,
    rollouts: PartialRollouts,
    weights: ImportanceWeights,
    restorer: Restorer,
    draws: int,
    complete: WeightedPredictions,
) -> WeightedPredictions:
    """Add predictions of the outcome model, from every step of every row, to those of complete rollouts.

    With w_t the cumulative weight of a row at step t and Q_t the outcome expected from there on, its value is
    Q_0 + sum_t w_t (Q_t - Q_(t-1)). The last Q of a complete rollout is its real outcome, and every other Q_t
    is weighted by w_t - w_(t+1) and estimated by some draws. The weights of a row sum to 1.
    """
    difference = -np.diff(weights.cumulative, axis=1)  # 0 where a choice could not have been missing
    row, step = np.nonzero(difference)
    if not len(row):
        return complete
    point = np.repeat(np.arange(len(row)), draws)
    given = rollouts.acquired[row, step][point]
    modelled = model_predictions(key, target, table, row[point], given, restorer)
    return complete.concatenate(modelled._replace(weight=difference[row, step][point] / draws))


def model_predictions(
    key: PRNGKeyArray,
    target: Target,
    table: Table,
    row: Int[np.ndarray, " points"],
    given: Bool[np.ndarray, "points actions"],
    restorer: Restorer,
) -> WeightedPredictions:
    """Complete rows by draws of the outcome model, continue the policy in them, and predict with weight 1.

    Each point starts from a row and what is given as acquired in it. The model, which is a restorer, sees no
    label (all are 0) and only the values that these acquisitions reveal or that every row has: which others a
    row has may depend on unseen values.
    """
    x, y = np.asarray(table.x), np.asarray(table.y)[row]
    observed = _observed(target.problem, given) | _always_available(table)
    parts = []
    for number, start in enumerate(range(0, len(row), _ROWS_AT_ONCE)):
        size = min(_ROWS_AT_ONCE, len(row) - start)
        # The last part is padded to the size of those before it, for which there is a program.
        here = start + _padded_places(size, least=_ROWS_AT_ONCE if number else 1)
        unlabelled = Table(x[row[here]], np.zeros(len(here), int), observed[here], n_classes=table.n_classes)
        drawing, acting = jr.split(jr.fold_in(key, number))
        completed = (_restore if isinstance(restorer, eqx.Module) else restore)(drawing, restorer, unlabelled)
        resumed = target._replace(policy=Resumed(target.policy, jnp.asarray(given[here])))
        choices, spent, forced = resumed.roll_out(acting, completed)
        acquired = _acquired_after(np.asarray(choices), target.problem.n_actions)[:, -1]
        predicted = predict_sets(target.predictor, target.problem, completed, jnp.asarray(acquired[None]))[0]
        parts.append([np.asarray(each)[:size] for each in (predicted, spent[:, -1], acquired, forced)])
    probabilities, *ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    return WeightedPredictions(row, np.ones(len(row)), probabilities.astype(float), y, _amounts(*ends))


def _always_available(table: Table) -> Bool[np.ndarray, " features"]:
    """Which features every row has."""
    return np.logical_and.reduce(np.asarray(table.available))


def _padded(table: Table) -> Table:
    """Add rows, so that tables of similar sizes share a program."""
    places = _padded_places(len(table.y))
    padded: Table = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[places]), table)
    return padded


def _padded_places(size: int, least: int = 1) -> Int[np.ndarray, " padded"]:
    """Number the rows, and repeat the first one up to a power of two (and at least `least`)."""
    places = np.arange(max(least, 1 << (size - 1).bit_length()))
    return np.where(places < size, places, 0)


def _observed(
    problem: Problem, acquired: Bool[np.ndarray, "points actions"]
) -> Bool[np.ndarray, "points features"]:
    """Compute `Problem.observed` in NumPy, which need not be compiled for every number of points."""
    revealed = acquired.astype(np.float32) @ np.asarray(problem.reveals, np.float32) > 0
    return revealed | np.asarray(problem.known)


def _amounts(
    spent: Float[np.ndarray, " rows"],
    acquired: Bool[np.ndarray, "rows actions"],
    forced_stop: Bool[np.ndarray, " rows"],
) -> dict[str, Float[np.ndarray, " rows"]]:
    return {
        "mean_cost": spent.astype(float),
        "mean_acquisitions": acquired.sum(axis=1).astype(float),
        "forced_stop_rate": forced_stop.astype(float),
    }


def _acquired_after(
    choices: Int[np.ndarray, "rows steps"], n_actions: int
) -> Bool[np.ndarray, "rows steps_and_start actions"]:
    """What has been acquired before the first step and after each one."""
    taken = choices[:, :, None] == 1 + np.arange(n_actions)
    nothing = np.zeros_like(taken[:, :1])
    return np.logical_or.accumulate(np.concatenate([nothing, taken], axis=1), axis=1)


_restore = eqx.filter_jit(restore)
