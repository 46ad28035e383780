"""Following a policy through rows with holes: as far as each row goes, and from there on in draws.

What comes out are weighted predictions (`Sample`), from which every score can be estimated.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.acquisition import acquire
from ascertain.evaluation.propensity import Choices, propensities
from ascertain.evaluation.weighted_metrics import Sample, joined
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.predictors.predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.restoration import Restorer, restore

_AT_ONCE = 4096  # imagined rows in one call


class Situation(NamedTuple):
    """Whose decisions are followed, and under which rules."""

    policy: Policy
    problem: Problem  # without names, with the budget in question
    predictor: Predictor
    protocol: Protocol
    n_steps: int


class Paths(NamedTuple):
    """How far the policy could be followed in each row."""

    choices: Int[np.ndarray, "rows steps"]  # 1 + the action; what comes after a missing one is not real
    length: Int[np.ndarray, " rows"]  # how many choices the row had
    completed: Bool[np.ndarray, " rows"]  # whether it had all of them
    spent: Float[np.ndarray, " rows"]  # of rows that were completed
    forced_stop: Bool[np.ndarray, " rows"]  # the same

    @property
    def reached(self) -> Bool[np.ndarray, "rows steps"]:
        """Which choices the policy came to: those that the row had, and the first that it had not."""
        last = self.length + ~self.completed
        return np.arange(self.choices.shape[1])[None] < last[:, None]

    def acquired(self, n_actions: int) -> Bool[np.ndarray, "rows steps_and_start actions"]:
        """Give what has been acquired before the first step and after each one."""
        taken = self.choices[:, :, None] == 1 + np.arange(n_actions)
        nothing = np.zeros_like(taken[:, :1])
        return np.logical_or.accumulate(np.concatenate([nothing, taken], axis=1), axis=1)


class Resumed(Policy):
    """A policy that goes on from what has been acquired in the past: it first acquires all of this again."""

    policy: Policy
    past: Bool[Array, "instances actions"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score what is missing of the past above everything else, then as the policy does."""
        scores = self.policy(x, observed, acquired, available, key=key)
        again = self.past & ~acquired
        behind = jnp.any(again, axis=1, keepdims=True)
        first = jnp.concatenate([jnp.zeros_like(again[:, :1]), again], axis=1)
        return jnp.where(behind, jnp.where(first, jnp.inf, -jnp.inf), scores)


def follow(key: PRNGKeyArray, situation: Situation, table: Table) -> Paths:
    """Let the policy choose as if everything could be bought, and see how far each row goes along."""
    n_rows, padded = len(table.y), _padded(table)
    everything = jnp.ones_like(padded.available)
    choices, spent, forced = _acquire(key, situation, padded.with_cells(padded.x, everything))
    chosen = np.asarray(choices)[:n_rows]
    readable = np.asarray(situation.problem.readable(padded.available))[:n_rows]
    there = np.take_along_axis(readable, np.maximum(chosen - 1, 0), axis=1) | (chosen == 0)
    completed = there.all(axis=1)
    length = np.where(completed, (chosen > 0).sum(axis=1), there.argmin(axis=1))
    return Paths(chosen, length, completed, np.asarray(spent)[:n_rows, -1], np.asarray(forced)[:n_rows])


class Weights(NamedTuple):
    """What rows count for, and of which actions they had more or less than was to be expected."""

    through: Float[np.ndarray, "rows steps_and_start"]  # the start, and each step
    surplus: Float[np.ndarray, "rows kinds"]  # 1 or 0 less the probability, for each action in doubt


def step_weights(
    paths: Paths,
    problem: Problem,
    table: Table,
    always: Bool[np.ndarray, " features"],
    fold: Int[np.ndarray, " rows"],
    clip: float,
) -> Weights:
    """Give each row's inverse probability of having been followed to the start and through each step.

    Parameters
    ----------
    paths
        How far the rows go.
    problem, table
        The actions and the rows.
    always
        The features that every row has.
    fold
        The fold of each row, for fitting the probabilities.
    clip
        The least probability of one step that is believed.

    Returns
    -------
    weights
        Weights are 1 at the start; a row that misses what is chosen has weight 0 from there on, and one that
        is completed keeps its last.
    """
    row, step = np.nonzero(paths.reached)
    before = paths.acquired(problem.n_actions)[row, step]
    had = step < paths.length[row]
    probability = np.ones(paths.choices.shape)
    probability[row, step] = propensities(
        Choices(
            action=paths.choices[row, step] - 1,
            available=had,
            x=np.asarray(table.x, np.float64)[row],
            seen=_observed(problem, before) | always,
            acquired=before,
            y=np.asarray(table.y)[row],
            fold=fold[row],
        )
    )
    ratio = 1 / np.maximum(probability, clip)
    ratio[row[~had], step[~had]] = 0.0
    through = np.cumprod(np.concatenate([np.ones((len(ratio), 1)), ratio], axis=1), axis=1)
    return Weights(through, _surplus(had - probability[row, step], row, paths.choices[row, step], len(ratio)))


def _surplus(
    residual: Float[np.ndarray, " choices"],
    row: Int[np.ndarray, " choices"],
    choice: Int[np.ndarray, " choices"],
    n_rows: int,
) -> Float[np.ndarray, "rows kinds"]:
    """Put residuals into a table by row and action, those first that were chosen most."""
    unsure = residual != 0  # an action that no row lacks has none
    kinds, counts = np.unique(choice[unsure], return_counts=True)
    found = np.zeros((n_rows, len(kinds)))
    for place, kind in enumerate(kinds[np.argsort(-counts, kind="stable")]):
        found[row[choice == kind], place] = residual[choice == kind]
    return found


def completed_sample(
    situation: Situation, table: Table, paths: Paths, weights: Float[np.ndarray, "rows steps_and_start"]
) -> Sample:
    """Give the predictions for the rows that were followed to the end."""
    rows = np.flatnonzero(paths.completed)
    acquired = paths.acquired(situation.problem.n_actions)[:, -1]
    # Rows that were not completed are predicted along, for shapes that do not change.
    sets = jnp.asarray(acquired[_padding(len(acquired))][None])
    predicted = np.asarray(predict_sets(situation.predictor, situation.problem, _padded(table), sets))[0]
    return Sample(
        row=rows,
        weight=weights[rows, -1],
        probabilities=predicted[rows].astype(np.float64),
        y=np.asarray(table.y)[rows],
        amounts=_amounts(paths.spent[rows], acquired[rows], paths.forced_stop[rows]),
    )


def doubly_robust_sample(
    key: PRNGKeyArray,
    situation: Situation,
    table: Table,
    paths: Paths,
    weights: Float[np.ndarray, "rows steps_and_start"],
    restorer: Restorer,
    always: Bool[np.ndarray, " features"],
    draws: int,
    completed: Sample,
) -> Sample:
    """Give the completed rows' predictions, and imagined ones from every point on the way of every row.

    With w_t the weight of a row through step t and Q_t what is expected of it from there on, its value is
    Q_0 + sum_t w_t (Q_t - Q_(t-1)): the last Q is what really comes out, if the row is completed, and any
    other counts w_t - w_(t+1). The weights of a row add up to 1.

    Parameters
    ----------
    key
        The random key.
    situation, table, paths, weights, always
        As above.
    restorer
        Draws the values that are not known yet, without looking at labels. It sees those of a row's cells
        that were acquired by then and those that every row has: any others would be there for a reason.
    draws
        The number of draws for each point.
    completed
        What `completed_sample` gives.
    """
    change = -np.diff(weights, axis=1)  # not 0 only where a choice might have been missing
    row, step = np.nonzero(change)
    if not len(row):
        return completed
    origin = np.repeat(np.arange(len(row)), draws)
    past = paths.acquired(situation.problem.n_actions)[row, step][origin]
    imagined = imagine(key, situation, table, row[origin], past, restorer, always)
    return joined(completed, imagined._replace(weight=change[row, step][origin] / draws))


def imagine(
    key: PRNGKeyArray,
    situation: Situation,
    table: Table,
    row: Int[np.ndarray, " points"],
    past: Bool[np.ndarray, "points actions"],
    restorer: Restorer,
    always: Bool[np.ndarray, " features"],
) -> Sample:
    """Draw what is not known of rows, let the policy go on from their past, and predict; weights are 1.

    Parameters
    ----------
    key, situation
        As above.
    table
        The rows.
    row, past
        Which row to begin with, and what has been acquired for it. Only cells that this reveals, or that
        every row has, are looked at.
    restorer
        Draws what is not known; it sees rows whose labels are all 0.
    always
        The features that every row has.
    """
    x, y = np.asarray(table.x), np.asarray(table.y)[row]
    seen = _observed(situation.problem, past) | always
    found = []
    for number, first in enumerate(range(0, len(row), _AT_ONCE)):
        size = min(_AT_ONCE, len(row) - first)
        # The last call is as large as those before it, for which there is a program.
        here = first + _padding(size, least=_AT_ONCE if number else 1)
        blank = Table(x[row[here]], np.zeros(len(here), int), seen[here], n_classes=table.n_classes)
        drawing, acting = jr.split(jr.fold_in(key, number))
        filled = (_restore if isinstance(restorer, eqx.Module) else restore)(drawing, restorer, blank)
        resumed = situation._replace(policy=Resumed(situation.policy, jnp.asarray(past[here])))
        choices, spent, forced = _acquire(acting, resumed, filled)
        acquired = _sets(choices, situation.problem.n_actions)
        predicted = predict_sets(situation.predictor, situation.problem, filled, acquired[None])[0]
        outcome = (predicted, spent[:, -1], acquired, forced)
        found.append([np.asarray(each)[:size] for each in outcome])
    probabilities, *ends = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Sample(row, np.ones(len(row)), probabilities.astype(float), y, _amounts(*ends))


def _acquire(
    key: PRNGKeyArray, situation: Situation, table: Table
) -> tuple[Int[Array, "rows steps"], Float[Array, "rows steps"], Bool[Array, " rows"]]:
    policy, problem, _, protocol, n_steps = situation
    choices, spent, forced = _compiled_acquire(key, policy, problem, table, protocol, n_steps)
    return choices, spent, forced


def _padded(table: Table) -> Table:
    """Add rows, so that tables of similar sizes share a program."""
    rows = _padding(len(table.y))
    padded: Table = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[rows]), table)
    return padded


def _padding(size: int, least: int = 1) -> Int[np.ndarray, " rounded"]:
    """Give the numbers of the rows, with the first one repeated up to a power of two (and to `least`)."""
    rows = np.arange(max(least, 1 << (size - 1).bit_length()))
    return np.where(rows < size, rows, 0)


def _observed(
    problem: Problem, acquired: Bool[np.ndarray, "points actions"]
) -> Bool[np.ndarray, "points features"]:
    """Give what `Problem.observed` does without compiling it for every number of points."""
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


@partial(jax.jit, static_argnums=1)
def _sets(choices: Int[Array, "rows steps"], n_actions: int) -> Bool[Array, "rows actions"]:
    return jax.nn.one_hot(choices - 1, n_actions, dtype=bool).any(axis=1)


_compiled_acquire = eqx.filter_jit(acquire)
_restore = eqx.filter_jit(restore)
