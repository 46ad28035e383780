"""AACO-NN: a network that imitates AACO, so that acting needs neither a search nor the training rows.

After the behavioural cloning of Valancius, Lennon and Oliva (2024), with AFABench's network and training.
AACO acquires for each training row, which does not count among its own neighbours; the network learns to
predict what AACO chose from what was observed. Where nothing is observed, all rows are AACO's neighbours, the
row itself too: the network cannot tell rows apart there. Unlike AACO, the network knows only the budget that
it was fitted for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core import training
from ascertain._core.effort import Effort
from ascertain._core.networks import MLP, dropout_masks
from ascertain._core.settings import Amount, AtOnce, Count, Positive, ShareBelowOne, Sizes
from ascertain._core.training import Batch, Schedule, some_completion
from ascertain.acquisition import acquire
from ascertain.errors import InputError
from ascertain.methods import _aaco as aaco
from ascertain.methods._pretraining import mask_inputs
from ascertain.methods._registry import State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


@dataclass(frozen=True)
class Settings(aaco.Settings):
    """AACO's search, then the network and its training; the defaults are the reference's."""

    hidden: Sizes = (256, 256)
    dropout: ShareBelowOne = 0.1
    learning_rate: Positive = 1e-3
    weight_decay: Amount = 0.01
    batch_size: Count = 256
    epochs: Count = 100
    patience: Count = 10
    validation_share: ShareBelowOne = 0.1  # of the choices, to stop training early
    max_rows: Count | None = None  # training rows that AACO acquires for; None = all
    steps: AtOnce | None = None  # the most acquisitions for a row; None = all actions

    def completed(self, problem: Problem, protocol: Protocol) -> "Settings":
        """Fill in how many acquisitions the budget can pay for."""
        del protocol
        if self.steps is not None or self.may_stop:
            return self
        return replace(self, steps=max(1, problem.most_acquisitions()))

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Imitate AACO on fewer rows: its search takes the longest."""
        most = n_rows if self.max_rows is None else self.max_rows
        return replace(self, max_rows=min(most, effort.pretraining_updates))


class AACONN(Policy):
    """The fitted policy: a network on the observed values and the mask."""

    network: MLP
    may_stop: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the logit of each choice."""
        del acquired, available, key
        logits = self.network(mask_inputs(x, observed))
        return logits if self.may_stop else logits.at[:, 0].set(-jnp.inf)


class Teacher(Policy):
    """AACO on some of its own training rows, in their order; none is its own neighbour."""

    oracle: aaco.AACO
    rows: Int[Array, " instances"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score as AACO does, some rows at a time."""
        del available, key

        def one(query: tuple[Array, Array, Array, Array]) -> Float[Array, " choices"]:
            row, x, observed, acquired = query
            return self.oracle.scores(self._losses(row, x, observed), acquired)

        queries = (self.rows, x, observed, acquired)
        return jax.lax.map(one, queries, batch_size=aaco.ROWS_AT_ONCE)

    def _losses(
        self, row: Int[Array, ""], x: Float[Array, " features"], observed: Bool[Array, " features"]
    ) -> aaco.Losses:
        """AACO's losses on the nearest rows but this one: one more is found, and this or the last dropped."""
        oracle = self.oracle
        wanted = min(oracle.settings.neighbours, oracle.table.n_instances - 1)
        nearest, found = aaco.nearest_instances(x, observed, oracle.table, wanted + 1)
        others = found % oracle.table.n_instances != row % oracle.table.n_instances
        kept = others & (jnp.cumsum(others) <= wanted)
        if oracle.protocol.aaco_no_support == "exclude":
            kept = kept & jnp.isfinite(nearest)
        losses = oracle.mean_losses(oracle.table.take(found), kept.astype(jnp.float32), observed)
        if oracle.protocol.aaco_no_support == "infinite":
            return losses
        return jax.tree.map(partial(jnp.where, kept.any()), losses, oracle.from_nothing)


class Demonstrations(NamedTuple):
    """What AACO chose in each state that it met."""

    row: Int[Array, " choices"]
    acquired: Bool[Array, "choices actions"]
    chosen: Int[Array, " choices"]
    weight: Float[Array, " choices"]  # 0 once an episode is over


@register(
    "aaco_nn",
    summary="A network that imitates AACO: fast to act, and keeps no training rows.",
    settings=Settings,
    label="AACO-NN",
    kind="terminal",
    family="plans ahead",
    use_when="As AACO, where acting must be fast or the training rows must not be shared.",
    stops="if it is fitted with may_stop",
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
) -> AACONN:
    """Let AACO acquire for training rows, then train the network on its choices.

    Takes what every method takes (see `Method`); the `predictor` judges AACO's candidates. Validation rows
    are not used: a share of the choices is held out.
    """
    del pretrained, state
    if predictor is None:
        raise InputError("AACO-NN imitates AACO, which needs the fixed predictor; give it with predictor=")
    imitating, learning = jr.split(key)
    oracle = aaco.fit(key, problem, train, valid, predictor=predictor, settings=settings, protocol=protocol)
    return AACONN(clone(learning, oracle, imitate(imitating, oracle, settings), settings), settings.may_stop)


def imitate(key: PRNGKeyArray, oracle: aaco.AACO, settings: Settings) -> Demonstrations:
    """Roll out AACO on its training rows, or on some of them, and record its choices."""
    problem, table = oracle.problem, oracle.table
    choosing, acting = jr.split(key)
    rows = some_completion(choosing, jnp.arange(table.n_instances), table.n_instances, table.completions)
    if settings.max_rows is not None:
        rows = jr.permutation(choosing, rows)[: settings.max_rows]
    if settings.may_stop:
        oracle = oracle.at(problem.total_cost(jnp.ones(problem.n_actions, bool)))
    queries = oracle.table.take(rows)
    episodes = acquire(
        acting,
        Teacher(oracle, rows),
        problem,
        queries,
        oracle.protocol,
        n_steps=problem.n_actions if settings.steps is None else settings.steps,
        hard=not settings.may_stop,
    )
    chosen = episodes.choices.T  # steps x rows
    acquired = episodes.acquired(problem.n_actions)[:-1]
    counts = chosen > 0
    if settings.may_stop:  # the first 0 of an episode is a choice, too, unless nothing was left
        before = jnp.concatenate([jnp.ones_like(counts[:1]), counts[:-1]])
        left = problem.readable(queries.available)[None] & ~acquired
        counts = before & jnp.any(left, axis=-1)
    return Demonstrations(
        row=jnp.broadcast_to(rows[None], chosen.shape).reshape(-1),
        acquired=acquired.reshape(-1, problem.n_actions),
        chosen=chosen.reshape(-1),
        weight=counts.reshape(-1).astype(jnp.float32),
    )


def clone(key: PRNGKeyArray, oracle: aaco.AACO, shown: Demonstrations, settings: Settings) -> MLP:
    """Train a network to choose as shown; the weights with the lowest held-out loss are kept."""
    building, holding, learning = jr.split(key, 3)
    n_choices, n_actions = shown.acquired.shape
    n_held_out = min(max(1, round(settings.validation_share * n_choices)), n_choices - 1)
    held_out, learnt = jnp.split(jr.permutation(holding, n_choices), [n_held_out])

    def mean_loss(
        network: MLP, at: Array, weight: Array, keep: Sequence[Array] | None = None
    ) -> Float[Array, ""]:
        state: Demonstrations = jax.tree.map(lambda leaf: leaf[at], shown)
        inputs = mask_inputs(oracle.table.x[state.row], oracle.problem.observed(state.acquired))
        logits = network(inputs, keep=keep, dropout=settings.dropout)
        likely = jnp.take_along_axis(jax.nn.log_softmax(logits), state.chosen[:, None], axis=1)[:, 0]
        counted = weight * state.weight
        return -jnp.sum(counted * likely) / jnp.maximum(counted.sum(), 1e-6)

    def loss(network: MLP, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        shapes = zip(jr.split(key, len(settings.hidden)), settings.hidden, strict=True)
        keep = [dropout_masks(k, settings.dropout, (len(batch.rows), width)) for k, width in shapes]
        return mean_loss(network, learnt[batch.rows], batch.weight, keep)

    def validate(network: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        return mean_loss(network, held_out, jnp.ones(n_held_out))

    def decay(network: MLP) -> MLP:
        """The weight decay of AdamW, which does not go through Adam's moments."""
        kept = 1 - settings.learning_rate * settings.weight_decay
        decayed: MLP = jax.tree.map(lambda leaf: leaf * kept, network)
        return decayed

    network = MLP((2 * oracle.problem.n_features, *settings.hidden, n_actions + 1), key=building)
    schedule = Schedule(settings.batch_size, max_rounds=settings.epochs, patience=settings.patience)
    return training.train(
        learning, network, loss, validate, len(learnt), schedule, settings.learning_rate, decay
    )
