"""DIME: a value network that estimates how much each feature would tell about the label.

After Gadgil, Covert and Lee (2024), discriminative mutual information estimation. The value network shares
its hidden layers with the predictor and is trained on the reductions of the predictor's loss.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.networks import MLP, Linear, apply_layers
from ascertain._core.training import class_weights, cross_entropy
from ascertain.methods.greedy import (
    GreedySettings,
    Plateau,
    adopt_predictor,
    descend,
    epoch,
    keep_masks,
    legal_in_training,
    positive_prices,
    pretrain_predictor,
    row_weights,
    training_steps,
    where,
)
from ascertain.methods.pretraining import mask_inputs
from ascertain.methods.registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


@dataclass(frozen=True)
class Settings(GreedySettings):
    """Architecture and training of DIME; the defaults are the paper's."""

    pretraining_epochs: int = 200
    least_learning_rate: float = 1e-6
    epsilon: float = 0.05  # the rate of random choices in training
    epsilon_decay: float = 0.2
    epsilon_steps: int = 10  # how often it decays before training ends


class Networks(NamedTuple):
    """A predictor and a value network with the same hidden layers."""

    hidden: tuple[Linear, ...]
    to_classes: Linear
    to_values: Linear

    def logits(self, inputs: Float[Array, "*batch inputs"], **dropout: Any) -> Float[Array, "*batch classes"]:
        """Predict the class."""
        return apply_layers((*self.hidden, self.to_classes), inputs, **dropout)

    def share(self, inputs: Float[Array, "*batch inputs"], **dropout: Any) -> Float[Array, "*batch actions"]:
        """Estimate which part of the entropy of the prediction each action would take away."""
        return jax.nn.sigmoid(apply_layers((*self.hidden, self.to_values), inputs, **dropout))


def entropy(logits: Float[Array, "*batch classes"]) -> Float[Array, "*batch"]:
    """Give the entropy of a prediction in nats."""
    log_probability = jax.nn.log_softmax(logits)
    return -jnp.sum(jnp.exp(log_probability) * log_probability, axis=-1)


class DIME(Policy):
    """The fitted policy, with its own predictor."""

    networks: Networks
    problem: Problem
    threshold: Float[Array, ""]  # stop once no action is worth this much information per cost

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the estimated information per cost."""
        del available, key
        inputs = mask_inputs(x, observed)
        information = self.networks.share(inputs) * entropy(self.networks.logits(inputs))[:, None]
        scores = information / positive_prices(self.problem, acquired)
        stop = jnp.full((x.shape[0], 1), self.threshold)
        return jnp.concatenate([stop, scores], axis=1)

    def stopping_at(self, threshold: float) -> "DIME":
        """Stop once no action promises this much information per cost (soft budgets)."""
        return eqx.tree_at(lambda p: p.threshold, self, jnp.asarray(threshold, jnp.float32))


class _State(NamedTuple):
    networks: Networks
    optimiser: tuple[Any, Any]  # of the hidden layers, of the heads
    plateau: Plateau
    best: Networks
    epsilon: Float[Array, ""]
    decays: Int[Array, ""]
    epoch: Int[Array, ""]


class _Fixed(NamedTuple):
    """What stays the same throughout the training."""

    problem: Problem
    protocol: Protocol
    settings: Settings
    steps: int
    weights: Float[Array, " classes"]


@register(
    "dime",
    summary="Greedy by estimated conditional mutual information with the label, per cost.",
    settings=Settings,
    label="DIME",
    color="#1777AE",
    kind="myopic",
    stops="at a threshold that you give (thresholds=)",
    costs={"gpu": Cost(0.5, 0.02, 14, 15e6), "cpu": Cost(0.0, 9.0, 12, 15e6)},
    pretraining_costs={"gpu": Cost(0.0, 0.0, 8), "cpu": Cost(0.0, 1.0, 5)},
    pretrain=pretrain_predictor,
    adopts=adopt_predictor,
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: MLP | None = None,
    settings: Settings = Settings(),  # noqa: B008
    state: State = "s",
    protocol: Protocol = PAPER,
) -> DIME:
    """Train DIME: its predictor (unless given), then predictor and value network together.

    Takes what every method takes (see `Method`). `predictor` is not used: DIME trains its own.
    """
    del predictor, state
    pretraining, building, training = jr.split(key, 3)
    if pretrained is None:
        pretrained = pretrain_predictor(
            pretraining, problem, train_table, valid_table, settings=settings, protocol=protocol
        )
    to_values = Linear(settings.hidden[-1], problem.n_actions, key=building)
    networks = Networks(pretrained.layers[:-1], pretrained.layers[-1], to_values)
    weights = class_weights(train_table.y, problem.n_classes)
    fixed = _Fixed(problem, protocol, settings, training_steps(settings, problem, protocol), weights)
    adam = optax.scale_by_adam()
    start = _State(
        networks=networks,
        optimiser=(adam.init(networks.hidden), adam.init(networks[1:])),
        plateau=Plateau.start(settings.learning_rate),
        best=networks,
        epsilon=jnp.asarray(settings.epsilon),
        decays=jnp.asarray(0),
        epoch=jnp.asarray(0),
    )

    def one_epoch(state: _State) -> _State:
        return _one_epoch(jr.fold_in(training, state.epoch), state, fixed, train_table, valid_table)

    def goes_on(state: _State) -> Bool[Array, ""]:
        return (state.epoch < settings.epochs) & (state.decays < settings.epsilon_steps)

    last = jax.lax.while_loop(goes_on, one_epoch, start)
    return DIME(last.best, problem.without_names(), jnp.asarray(-jnp.inf))


def _one_epoch(
    key: PRNGKeyArray, state: _State, fixed: _Fixed, train_table: Table, valid_table: Table
) -> _State:
    """Train for an epoch, validate, and explore less once the loss stays."""
    settings = fixed.settings

    def step(carry: tuple[Networks, Any], key: PRNGKeyArray, rows: Array) -> tuple[Networks, Any]:
        gradient = jax.grad(_batch_loss)(carry[0], key, train_table.take(rows), state.epsilon, fixed)
        return _update(gradient, carry[1], carry[0], state.plateau.learning_rate, fixed.protocol)

    networks, optimiser = epoch(
        key, (state.networks, state.optimiser), step, len(train_table.y), settings.batch_size
    )
    loss = _validation_loss(networks, valid_table, fixed)
    plateau, is_best = state.plateau.after(loss, settings, settings.least_learning_rate)
    stays = plateau.exhausted(settings)
    return _State(
        networks=networks,
        optimiser=optimiser,
        plateau=plateau._replace(
            learning_rate=jnp.where(stays, settings.learning_rate, plateau.learning_rate),
            waited=jnp.where(stays, 0, plateau.waited),
        ),
        best=where(is_best, networks, state.best),
        epsilon=jnp.where(stays, settings.epsilon_decay * state.epsilon, state.epsilon),
        decays=state.decays + stays,
        epoch=state.epoch + 1,
    )


def _update(
    gradient: Networks,
    optimiser: tuple[Any, Any],
    networks: Networks,
    learning_rate: Float[Array, ""],
    protocol: Protocol,
) -> tuple[Networks, tuple[Any, Any]]:
    """Make a step of Adam; the reference updates the shared layers twice, with the same gradient."""
    of_hidden, of_heads = optimiser
    hidden = networks.hidden
    for _ in range(protocol.dime_shared_updates):
        hidden, of_hidden = descend(gradient.hidden, of_hidden, hidden, learning_rate)
    heads, of_heads = descend(gradient[1:], of_heads, networks[1:], learning_rate)
    return Networks(hidden, *heads), (of_hidden, of_heads)


def _batch_loss(
    networks: Networks, key: PRNGKeyArray, rows: Table, epsilon: Float[Array, ""], fixed: _Fixed
) -> Float[Array, ""]:
    """Give the predictor's losses in all states that the rows pass through, and the error of the values.

    No gradient flows through the choices; so the states are visited first, and then all losses are computed
    at once, with the dropout masks that led to the choices.
    """
    problem, settings, steps = fixed.problem, fixed.settings, fixed.steps
    moving, dropping, predicting = jr.split(key, 3)
    n_rows = len(rows.y)
    available = problem.readable(rows.available)
    keep = keep_masks(dropping, settings, (steps, n_rows))
    acquired, choice, some_left = _visit(moving, networks, rows.x, available, keep, epsilon, fixed)
    x = jnp.broadcast_to(rows.x[None], (steps + 1, *rows.x.shape))
    inputs = mask_inputs(x, problem.observed(acquired))
    predictor_keep = keep_masks(predicting, settings, (steps + 1, n_rows))
    logits = networks.logits(inputs, keep=predictor_keep, dropout=settings.dropout)
    losses = _losses(logits, rows.y, fixed)
    worth = row_weights(problem, fixed.protocol, available)
    share = networks.share(inputs[:-1], keep=keep, dropout=settings.dropout)
    picked = jnp.take_along_axis(share, choice[..., None], axis=-1)[..., 0]
    estimate = picked * jax.lax.stop_gradient(entropy(logits[:-1]))
    return batch_objective(estimate, losses, some_left & (worth > 0)[None], worth)


def batch_objective(
    estimate: Float[Array, "steps rows"],
    losses: Float[Array, "steps_and_start rows"],
    counts: Bool[Array, "steps rows"],
    worth: Float[Array, " rows"],
) -> Float[Array, ""]:
    """Give the mean over states of the predictor's loss plus the squared error of the value estimate.

    What an acquisition was worth is how much it reduced the predictor's loss.
    """
    reduction = jax.lax.stop_gradient(losses[:-1] - losses[1:])
    errors = jnp.where(counts, (estimate - reduction) ** 2, 0.0)
    of_values = errors.sum(axis=1) / jnp.maximum(counts.sum(axis=1), 1)
    of_predictor = (losses @ worth) / jnp.maximum(worth.sum(), 1.0)
    return (of_values.sum() + of_predictor.sum()) / len(losses)


def _visit(
    key: PRNGKeyArray,
    networks: Networks,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows actions"],
    keep: tuple[Bool[Array, "steps rows _"], ...],
    epsilon: Float[Array, ""],
    fixed: _Fixed,
) -> tuple[Bool[Array, "steps_and_start rows actions"], Int[Array, "steps rows"], Bool[Array, "steps rows"]]:
    """Let rows acquire the best action, or any with probability epsilon.

    Gives the states, the choices, and where there was something to choose.
    """
    problem = fixed.problem

    def step(acquired: Array, inputs: tuple[PRNGKeyArray, Any]) -> tuple[Array, tuple[Array, Array, Array]]:
        key, keep = inputs
        legal = legal_in_training(problem, fixed.protocol, acquired, available)
        share = networks.share(
            mask_inputs(x, problem.observed(acquired)), keep=keep, dropout=fixed.settings.dropout
        )
        lots = jr.uniform(key, (len(x), problem.n_actions + 1))
        choice = jnp.where(
            lots[:, 0] > epsilon, _best(share, acquired, legal, problem), jnp.argmax(lots[:, 1:] - 2.0 * ~legal, axis=1)
        )
        after = acquired | (jax.nn.one_hot(choice, problem.n_actions, dtype=bool) & legal)
        return after, (after, choice, jnp.any(legal, axis=1))

    nothing = jnp.zeros_like(available)
    turns = (jr.split(key, fixed.steps), keep)
    _, (after, choice, some_left) = jax.lax.scan(step, nothing, turns)
    return jnp.concatenate([nothing[None], after]), choice, some_left


def _best(
    share: Float[Array, "rows actions"],
    acquired: Bool[Array, "rows actions"],
    legal: Bool[Array, "rows actions"],
    problem: Problem,
) -> Int[Array, " rows"]:
    """Take the most information per cost; the entropy is a common factor of all actions."""
    return jnp.argmax(jnp.where(legal, share / positive_prices(problem, acquired), -1.0), axis=1)


def _losses(
    logits: Float[Array, "states rows classes"], y: Int[Array, " rows"], fixed: _Fixed
) -> Float[Array, "states rows"]:
    n_states, n_rows, n_classes = logits.shape
    flat = cross_entropy(logits.reshape(-1, n_classes), jnp.tile(y, n_states), fixed.weights)
    return flat.reshape(n_states, n_rows)


def _validation_loss(networks: Networks, table: Table, fixed: _Fixed) -> Float[Array, ""]:
    """Give the mean loss over the states of greedy acquisition, without dropout."""
    problem = fixed.problem
    available = problem.readable(table.available)

    def step(acquired: Array, _: None) -> tuple[Array, Array]:
        legal = legal_in_training(problem, fixed.protocol, acquired, available)
        share = networks.share(mask_inputs(table.x, problem.observed(acquired)))
        chosen = jax.nn.one_hot(_best(share, acquired, legal, problem), problem.n_actions, dtype=bool)
        after = acquired | (chosen & legal)
        return after, after

    nothing = jnp.zeros_like(available)
    _, after = jax.lax.scan(step, nothing, length=fixed.steps)
    acquired = jnp.concatenate([nothing[None], after])
    x = jnp.broadcast_to(table.x[None], (fixed.steps + 1, *table.x.shape))
    logits = networks.logits(mask_inputs(x, problem.observed(acquired)))
    worth = row_weights(problem, fixed.protocol, available)
    return jnp.mean(_losses(logits, table.y, fixed) @ worth) / jnp.maximum(worth.sum(), 1.0)
