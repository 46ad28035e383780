"""AACO: acquires what would have helped the nearest training rows.

After Valancius, Lennon and Oliva (2024), acquisition conditioned oracle. Nothing is trained: the policy keeps
the training rows, finds the nearest ones, and searches random subsets of the features for the one after which
the fixed predictor does best on them, cost included. With incomplete rows, distances use the shared features
and predictions the available ones (appendix B).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.networks import LOWEST
from ascertain._core.settings import Amount, AtOnce, Count, CountOrZero
from ascertain.errors import InputError
from ascertain.methods._registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_LOG_GUARD = 1e-10
ROWS_AT_ONCE = 32  # rows that are scored together, to bound memory


@dataclass(frozen=True)
class Settings:
    """The search; the defaults are the paper's."""

    neighbours: Count = 5
    acquisition_cost: Amount = 0.05  # alpha: the weight of a unit of cost against the loss
    candidates: AtOnce = 100
    candidate_seed: CountOrZero = 0
    may_stop: bool = False  # for soft budgets: stopping competes with the candidates


class Losses(NamedTuple):
    """The predictor's mean loss on some training rows."""

    now: Float[Array, ""]  # without another acquisition
    subsets: Float[Array, " candidates"]
    single: Float[Array, " actions"]  # after one more action


class AACO(Policy):
    """The policy: training rows, predictor and candidate subsets."""

    table: Table
    problem: Problem
    predictor: Predictor
    subsets: Bool[Array, "candidates actions"]
    class_weights: Float[Array, " classes"]
    from_nothing: Losses  # on all training rows: for queries that no row shares a feature with
    settings: Settings = eqx.field(static=True)
    protocol: Protocol = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score an action by minus the objective of the best affordable candidate that contains it.

        AACO's choice scores highest, even where others have the same objective.
        """
        del available, key

        def one(row: tuple[Array, Array, Array]) -> Float[Array, " choices"]:
            x, observed, acquired = row
            return self.scores(self.losses(x, observed), acquired)

        return jax.lax.map(one, (x, observed, acquired), batch_size=ROWS_AT_ONCE)

    def at(self, budget: float | Float[Array, ""]) -> "AACO":
        """The policy for another budget; in the reference's reading it does not depend on the budget."""
        if self.protocol.aaco_groups == "one_step":
            return self
        return eqx.tree_at(lambda p: p.problem, self, self.problem.at(budget))

    def losses(self, x: Float[Array, " features"], observed: Bool[Array, " features"]) -> Losses:
        """The mean losses of the nearest training rows."""
        nearest, rows = nearest_instances(x, observed, self.table, self.settings.neighbours)
        if self.protocol.aaco_no_support == "infinite":
            return self.mean_losses(self.table.take(rows), jnp.ones(len(rows)), observed)
        supported = jnp.isfinite(nearest)
        found = self.mean_losses(self.table.take(rows), supported.astype(jnp.float32), observed)
        return jax.tree.map(partial(jnp.where, supported.any()), found, self.from_nothing)

    def scores(self, losses: Losses, acquired: Bool[Array, " actions"]) -> Float[Array, " choices"]:
        """Turn losses into scores."""
        alpha, prices = self.settings.acquisition_cost, self.problem.prices(acquired)
        new = self.subsets & ~acquired[None]
        price = self.problem.added_cost(jnp.broadcast_to(acquired[None], new.shape), new)  # of each subset
        of_subset = losses.subsets + alpha * price
        of_single = jnp.where(acquired, jnp.inf, losses.single + alpha * prices)
        if self.protocol.aaco_groups == "subsets":  # the rest of the budget must pay for them
            spent = self.problem.total_cost(acquired)
            of_subset = jnp.where(spent + price <= self.problem.limit, of_subset, jnp.inf)
            of_single = jnp.where(self.problem.affordable(acquired), of_single, jnp.inf)
        containing = jnp.min(jnp.where(new, of_subset[:, None], jnp.inf), axis=0, initial=jnp.inf)
        score = -jnp.minimum(containing, of_single)
        choice, nothing_new = self._decide(of_subset, of_single, new, losses)
        first = _above(jnp.max(score))
        score = score.at[choice].set(first)
        if not self.settings.may_stop:
            return jnp.concatenate([jnp.full(1, -jnp.inf), score])
        stop = jnp.where(nothing_new, _above(first), -losses.now)
        return jnp.concatenate([stop[None], score])

    def _decide(
        self,
        of_subset: Float[Array, " candidates"],
        of_single: Float[Array, " actions"],
        new: Bool[Array, "candidates actions"],
        losses: Losses,
    ) -> tuple[Int[Array, ""], Bool[Array, ""]]:
        """AACO's choice, and whether no candidate beats acquiring nothing."""
        best_single = jnp.argmin(of_single)
        if len(of_subset) == 0:  # the one-step search
            return best_single, losses.now <= of_single[best_single]
        if self.settings.may_stop:  # the first candidate is then to stop
            of_subset, new = of_subset.at[0].set(losses.now), new.at[0].set(False)
        best = jnp.argmin(of_subset)
        nothing_new = ~jnp.any(new[best]) | jnp.isinf(of_subset[best])
        within = jnp.argmin(jnp.where(new[best], losses.single, jnp.inf))
        lowest = jnp.argmax(jnp.isfinite(of_single))
        fallback = best_single if self.protocol.aaco_fallback == "best_action" else lowest
        return jnp.where(nothing_new, fallback, within), nothing_new

    def mean_losses(
        self, rows: Table, weight: Float[Array, " rows"], observed: Bool[Array, " features"]
    ) -> Losses:
        """The mean losses after each candidate, from what the rows have of it."""
        extra = jnp.concatenate([self.problem.observed(self.subsets), self.problem.reveals])
        masks = jnp.concatenate([observed[None], extra | observed[None]])
        seen = masks[:, None] & rows.available[None]
        x = jnp.broadcast_to(rows.x[None], seen.shape)
        n_features = seen.shape[-1]
        # A GPU may round products to fewer digits, and candidates differ by little.
        with jax.default_matmul_precision("highest"):
            probability = self.predictor(x.reshape(-1, n_features), seen.reshape(-1, n_features))
        of_label = jnp.take_along_axis(probability, jnp.tile(rows.y, len(masks))[:, None], axis=1)
        loss = -jnp.log(of_label.reshape(len(masks), -1) + _LOG_GUARD) * self.class_weights[rows.y][None]
        mean = jnp.sum(loss * weight[None], axis=1) / jnp.maximum(weight.sum(), 1.0)
        n_subsets = len(self.subsets)
        return Losses(mean[0], mean[1 : 1 + n_subsets], mean[1 + n_subsets :])


def _above(score: Float[Array, ""]) -> Float[Array, ""]:
    """A slightly higher score. The next float would not do: near zero it might be flushed to zero."""
    step = jnp.maximum(jnp.abs(score) * 2**-22, float(np.finfo(np.float32).tiny))
    return jnp.where(jnp.isneginf(score), LOWEST, score + step)


def shared_distance(
    x: Float[Array, " features"], observed: Bool[Array, " features"], table: Table
) -> Float[Array, " rows"]:
    """The mean squared distance over the features that the query and each row share."""
    shared = table.available & observed[None]
    n_shared = shared.sum(axis=1)
    total = jnp.sum(jnp.where(shared, (table.x - x[None]) ** 2, 0.0), axis=1)
    return jnp.where(n_shared > 0, total / jnp.maximum(n_shared, 1), jnp.inf)


def nearest_instances(
    x: Float[Array, " features"], observed: Bool[Array, " features"], table: Table, wanted: int
) -> tuple[Float[Array, " nearest"], Int[Array, " nearest"]]:
    """Minus the distances of the nearest rows, and their numbers: the nearest completion of each instance."""
    distance = shared_distance(x, observed, table)
    if table.completions == 1:
        nearest, rows = jax.lax.top_k(-distance, min(wanted, len(distance)))
        return nearest, rows
    of_completion = distance.reshape(table.completions, table.n_instances)
    nearest, instance = jax.lax.top_k(-of_completion.min(axis=0), min(wanted, table.n_instances))
    return nearest, jnp.argmin(of_completion, axis=0)[instance] * table.n_instances + instance


def random_subsets(settings: Settings, n_actions: int) -> Bool[np.ndarray, "candidates actions"]:
    """Draw the candidates: a size uniform from 0 to one less than all, then a random subset of that size."""
    rng = np.random.default_rng(settings.candidate_seed)
    subsets = np.zeros((settings.candidates, n_actions), bool)
    for subset in subsets:
        subset[:] = rng.permutation(n_actions) < rng.integers(n_actions)
    return rng.permutation(subsets)


@register(
    "aaco",
    summary="Nonparametric: the subset after which the predictor does best on the nearest training rows.",
    settings=Settings,
    label="AACO",
    color="#BB5300",
    kind="terminal",
    family="plans ahead",
    use_when="Small complete tables; nothing is trained, but every row of the table is kept.",
    stops="if it is fitted with may_stop",
    costs={"gpu": Cost(0.1, 0.01, 6, 50e6), "cpu": Cost(0.0, 4.0, 6, 200e6)},
    keeps_rows=True,
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> AACO:
    """Keep the training rows and draw candidates; nothing is trained.

    Takes what every method takes (see `Method`); the `predictor` judges the candidates.
    """
    del key, valid, pretrained, state
    if predictor is None:
        raise InputError("AACO judges candidates by the fixed predictor; give it with predictor=")
    one_step = protocol.aaco_groups == "one_step" and problem.n_actions != problem.n_features
    searched = replace(settings, candidates=0) if one_step else settings
    # Unlike elsewhere, the weights do not sum to 1: the loss is traded off against the cost.
    weights = len(train.y) / jnp.maximum(jnp.bincount(train.y, length=problem.n_classes), 1)
    policy = AACO(
        table=train,
        problem=problem,
        predictor=predictor,
        subsets=jnp.asarray(random_subsets(searched, problem.n_actions)),
        class_weights=weights.astype(jnp.float32),
        from_nothing=Losses(jnp.asarray(0.0), jnp.zeros(searched.candidates), jnp.zeros(problem.n_actions)),
        settings=settings,
        protocol=protocol,
    )
    if protocol.aaco_no_support == "infinite":
        return policy
    return eqx.tree_at(lambda p: p.from_nothing, policy, _from_nothing(policy))


def _from_nothing(policy: AACO) -> Losses:
    """The mean losses of all training rows when nothing is observed, some rows at a time."""

    def one(row: Table) -> Losses:
        nothing = jnp.zeros(policy.problem.n_features, bool)
        return policy.mean_losses(jax.tree.map(lambda leaf: leaf[None], row), jnp.ones(1), nothing)

    of_rows = jax.lax.map(one, policy.table, batch_size=ROWS_AT_ONCE)
    return jax.tree.map(lambda leaf: leaf.mean(axis=0), of_rows)
