"""What would have followed where a row's rollout was cut short: the outcome model of doubly robust estimates.

A restorer completes a row from what was acquired before a step, and the policy continues in the completed
row. It sees the row's class: who is ill has other values than who is not, so that without the class futures
would say that further measurements tell nothing. Weights correct what it gets wrong, as far as rows have what
the policy asks for.

Futures take most of the time. So there are at most `most` of them: several draws for each row and step in
small tables, one in larger ones. In very large ones futures are drawn in a sample of the rows, with weights
of one over the probability of being in it (Horvitz & Thompson, 1952), which is larger for rows whose futures
weigh more. Each class has the same share of the draws, as far as it needs them.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.arrays import on_device
from ascertain._core.padding import row_blocks
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._partial_rollouts import (
    ImportanceWeights,
    PartialRollouts,
    Target,
    acquired_before,
    always_available,
    amounts_of,
    observed_features,
)
from ascertain.evaluation._rollouts import ROWS_AT_ONCE
from ascertain.policy import Policy
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Table
from ascertain.restoration import HotDeck, Restorer, restore

MOST_FUTURES = 65_536  # at one budget
_MOST_DONORS = 4096  # a deck is sorted for every block of rows


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


class Futures(NamedTuple):
    """Where the outcome model continues rollouts, and with which weight each future counts."""

    row: Int[np.ndarray, " points"]
    step: Int[np.ndarray, " points"]
    weight: Float[np.ndarray, " points"]

    @classmethod
    def chosen(
        cls,
        weights: ImportanceWeights,
        y: Int[np.ndarray, " rows"],
        *,
        draws: int,
        most: int,
        rng: np.random.Generator,
    ) -> "Futures":
        """Choose up to `draws` futures of every row and step that needs any, and not more than `most`.

        With w_t the cumulative weight of a row at step t and Q_t the outcome expected from there on, the
        row's value is Q_0 + sum_t w_t (Q_t - Q_(t-1)). The last Q of a complete rollout is its real outcome,
        and every other Q_t has the weight w_t - w_(t+1), which is 0 where a choice could not be missing.
        """
        difference = -np.diff(weights.cumulative, axis=1)
        points = (difference != 0).sum(axis=1)
        classes = np.unique(y[points > 0])
        found = [cls(*(np.zeros(0, kind) for kind in (int, int, float)))]
        # The rarest class first, which leaves what it does not need to the others.
        for place, label in enumerate(sorted(classes.tolist(), key=lambda each: points[y == each].sum())):
            share = (most - sum(len(each.row) for each in found)) // (len(classes) - place)
            rows = np.flatnonzero(y == label)
            found.append(_of_rows(rows, difference[rows], draws=draws, most=max(1, share), rng=rng))
        return cls(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _of_rows(
    rows: Int[np.ndarray, " rows"],
    difference: Float[np.ndarray, "rows steps"],
    *,
    draws: int,
    most: int,
    rng: np.random.Generator,
) -> Futures:
    """Choose futures of the rows of one class."""
    points = (difference != 0).sum(axis=1)
    n_points = int(points.sum())
    chance = np.ones(len(rows))
    if n_points > most:
        chance = inclusion_chances(np.sqrt(np.square(difference).sum(axis=1)), points, most)
    place, step = np.nonzero(difference * systematic_sample(chance, rng)[:, None])
    each = int(np.clip(most // max(1, n_points), 1, draws))
    weight = difference[place, step] / chance[place] / each
    return Futures(*(np.repeat(part, each) for part in (rows[place], step, weight)))


def inclusion_chances(
    size: Float[np.ndarray, " rows"], points: Int[np.ndarray, " rows"], most: int
) -> Float[np.ndarray, " rows"]:
    """Chances in proportion to `size`, none above 1, so that about `most` points are expected."""
    certain = np.zeros(len(size), bool)
    while True:
        left = most - points[certain].sum()
        scale = left / (size * points)[~certain].sum()
        chance = np.where(certain, 1.0, size * scale)
        more = (chance >= 1.0) & ~certain
        if not more.any() or left <= 0:
            return np.clip(chance, 0.0, 1.0)
        certain |= more


def systematic_sample(
    chance: Float[np.ndarray, " rows"], rng: np.random.Generator
) -> Bool[np.ndarray, " rows"]:
    """Draw rows with given chances: every time that their sum, in random order, passes a whole number."""
    order = rng.permutation(len(chance))
    passed = np.floor(np.cumsum(chance[order]) + rng.random())
    drawn = np.zeros(len(chance), bool)
    drawn[order] = np.diff(passed, prepend=0.0) > 0
    return drawn | (chance >= 1.0)


def doubly_robust_predictions(
    key: PRNGKeyArray,
    target: Target,
    table: Table,
    rollouts: PartialRollouts,
    futures: Futures,
    restorer: Restorer,
    complete: WeightedPredictions,
) -> WeightedPredictions:
    """Add predictions of the outcome model to those of complete rollouts.

    The weights of a row sum to 1, or do so on average where futures are drawn in a sample of the rows.
    """
    if not len(futures.row):
        return complete
    given = rollouts.acquired(futures.row, futures.step)
    modelled = model_predictions(key, target, table, futures.row, given, restorer)
    return complete.concatenate(modelled._replace(weight=futures.weight))


def model_predictions(
    key: PRNGKeyArray,
    target: Target,
    table: Table,
    row: Int[np.ndarray, " points"],
    given: Bool[np.ndarray, "points actions"],
    restorer: Restorer,
) -> WeightedPredictions:
    """Complete rows by draws of the outcome model, continue the policy in them, and predict with weight 1.

    Each point starts from a row and what is given as acquired in it. The model, which is a restorer, sees the
    row's class, and only the values that these acquisitions reveal or that every row has: which others a row
    has may depend on unseen values.
    """
    if isinstance(restorer, HotDeck):
        restorer = restorer.thinned(_MOST_DONORS)
    x, y = np.asarray(table.x), np.asarray(table.y)[row]
    common = always_available(table)
    n_steps = np.full(ROWS_AT_ONCE, target.n_steps)
    parts = []
    for number, block in enumerate(row_blocks(len(row), ROWS_AT_ONCE)):
        here = block.places
        observed = observed_features(target.problem, given[here]) | common
        rows = Table(x[row[here]], y[here], observed, n_classes=table.n_classes)
        drawing, acting = jr.split(jr.fold_in(key, number))
        completed = (_restore if isinstance(restorer, eqx.Module) else restore)(drawing, restorer, rows)
        resumed = target._replace(policy=Resumed(target.policy, on_device(given[here])))
        choices, spent, forced = resumed.roll_out(acting, completed)
        acquired = acquired_before(np.asarray(choices), n_steps[: len(here)], target.problem.n_actions)
        predicted = predict_sets(target.predictor, target.problem, completed, on_device(acquired[None]))[0]
        parts.append([np.asarray(each)[: block.size] for each in (predicted, spent[:, -1], acquired, forced)])
    probabilities, *ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    return WeightedPredictions(row, np.ones(len(row)), probabilities.astype(float), y, amounts_of(*ends))


_restore = eqx.filter_jit(restore)
