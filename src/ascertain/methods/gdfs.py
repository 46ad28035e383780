"""GDFS: a selector trained through relaxed one-hot choices to reduce the predictor's next loss.

After Covert, Qiu, Lu, Kim, White and Lee (2023), greedy dynamic feature selection.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.networks import MLP
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

_ILLEGAL = 1e6  # taken off the logits of illegal actions


@dataclass(frozen=True)
class Settings(GreedySettings):
    """Architecture and training of GDFS; the defaults are the paper's."""

    temperatures: tuple[float, ...] = tuple(np.geomspace(1.0, 0.1, 5).tolist())
    logit_scale: float = 0.2  # gamma: logits are divided by it


class Networks(NamedTuple):
    """What is trained together."""

    selector: MLP
    predictor: MLP


class GDFS(Policy):
    """The fitted policy, with its own predictor."""

    networks: Networks
    problem: Problem
    threshold: Float[Array, ""]  # stop once the own prediction's entropy, in nats, is below this
    divide_by_price: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the selector's logits, costs taken into account."""
        del available, key
        inputs = mask_inputs(x, observed)
        logits, price = self.networks.selector(inputs), positive_prices(self.problem, acquired)
        scores = logits / price if self.divide_by_price else logits - jnp.log(price)
        log_probability = jax.nn.log_softmax(self.networks.predictor(inputs))
        entropy = -jnp.sum(jnp.exp(log_probability) * log_probability, axis=1, keepdims=True)
        stop = jnp.where(entropy < self.threshold, jnp.inf, -jnp.inf)
        return jnp.concatenate([stop, scores], axis=1)

    def stopping_at(self, threshold: float) -> "GDFS":
        """Stop once the entropy of the own prediction is below a threshold (soft budgets)."""
        return eqx.tree_at(lambda p: p.threshold, self, jnp.asarray(threshold, jnp.float32))


def concrete(
    key: PRNGKeyArray, logits: Float[Array, "*batch actions"], scale: float, temperature: Float[Array, ""]
) -> Float[Array, "*batch actions"]:
    """Draw a relaxed one-hot choice from the softmax of scaled logits (the Concrete distribution)."""
    log_probability = jax.nn.log_softmax(logits / scale)
    return jax.nn.softmax((log_probability + jr.gumbel(key, logits.shape)) / temperature)


class _Trajectory(NamedTuple):
    """The states that training rows pass through, steps first."""

    acquired: Bool[Array, "steps rows actions"]  # before each step
    legal: Bool[Array, "steps rows actions"]


class _State(NamedTuple):
    networks: Networks
    optimiser: Any
    plateau: Plateau
    best: Networks  # at this temperature, by the loss of relaxed choices
    epoch: Int[Array, ""]  # at this temperature
    stage: Int[Array, ""]  # the number of the temperature
    champion: Networks  # of all, by the loss of hard choices
    champion_loss: Float[Array, ""]


class _Fixed(NamedTuple):
    """What stays the same throughout the training."""

    problem: Problem
    protocol: Protocol
    settings: Settings
    steps: int
    weights: Float[Array, " classes"]


@register(
    "gdfs",
    summary="Greedy dynamic feature selection: a selector trained through relaxed choices.",
    settings=Settings,
    label="GDFS",
    color="#00825F",
    kind="myopic",
    stops="at a threshold that you give (thresholds=)",
    costs={"gpu": Cost(0.5, 0.02, 15, 15e6), "cpu": Cost(0.0, 11.0, 14, 15e6)},
    pretraining_costs={"gpu": Cost(0.0, 0.0, 8), "cpu": Cost(0.0, 1.0, 6)},
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
) -> GDFS:
    """Train GDFS: its predictor (unless given), then selector and predictor, temperature by temperature.

    Takes what every method takes (see `Method`). `predictor` is not used: GDFS trains its own.
    """
    del predictor, state
    pretraining, building, training = jr.split(key, 3)
    if pretrained is None:
        pretrained = pretrain_predictor(
            pretraining, problem, train_table, valid_table, settings=settings, protocol=protocol
        )
    sizes = (2 * problem.n_features, *settings.hidden, problem.n_actions)
    networks = Networks(MLP(sizes, key=building), pretrained)
    weights = class_weights(train_table.y, problem.n_classes)
    fixed = _Fixed(problem, protocol, settings, training_steps(settings, problem, protocol), weights)
    temperatures = jnp.asarray(settings.temperatures)
    start = _State(
        networks=networks,
        optimiser=optax.scale_by_adam().init(networks),
        plateau=Plateau.start(settings.learning_rate),
        best=networks,
        epoch=jnp.asarray(0),
        stage=jnp.asarray(0),
        champion=networks,
        champion_loss=jnp.asarray(jnp.inf),
    )

    def one_epoch(state: _State) -> _State:
        epoch_key = jr.fold_in(jr.fold_in(training, state.stage), state.epoch)
        return _one_epoch(epoch_key, state, temperatures[state.stage], fixed, train_table, valid_table)

    # All temperatures in one loop, so that replicates under vmap wait for each other only at the end.
    last = jax.lax.while_loop(lambda s: s.stage < len(settings.temperatures), one_epoch, start)
    divide = protocol.gdfs_cost == "log_then_divide"
    return GDFS(last.champion, problem.without_names(), jnp.asarray(-jnp.inf), divide)


def _one_epoch(
    key: PRNGKeyArray,
    state: _State,
    temperature: Float[Array, ""],
    fixed: _Fixed,
    train_table: Table,
    valid_table: Table,
) -> _State:
    """Train for an epoch, validate, and go on to the next temperature once this one is exhausted."""
    settings = fixed.settings
    shuffling, validating = jr.split(key)

    def step(carry: tuple[Networks, Any], key: PRNGKeyArray, rows: Array) -> tuple[Networks, Any]:
        part = train_table.take(rows)
        gradient = jax.grad(_batch_loss)(carry[0], key, part, temperature, fixed)
        return descend(gradient, carry[1], carry[0], state.plateau.learning_rate)

    networks, optimiser = epoch(
        shuffling, (state.networks, state.optimiser), step, len(train_table.y), settings.batch_size
    )
    soft, hard = _validation_losses(validating, networks, valid_table, temperature, fixed)
    plateau, is_best = state.plateau.after(soft, settings, settings.least_learning_rate)
    best = where(is_best, networks, state.best)
    wins = hard < state.champion_loss
    ends = plateau.exhausted(settings) | (state.epoch + 1 >= settings.epochs)
    return _State(
        networks=where(ends, best, networks),
        optimiser=where(ends, optax.scale_by_adam().init(networks), optimiser),
        plateau=where(ends, Plateau.start(settings.learning_rate), plateau),
        best=best,
        epoch=jnp.where(ends, 0, state.epoch + 1),
        stage=state.stage + ends,
        champion=where(wins, networks, state.champion),
        champion_loss=jnp.where(wins, hard, state.champion_loss),
    )


def _logits(
    selector: MLP,
    x: Float[Array, "*batch features"],
    acquired: Bool[Array, "*batch actions"],
    legal: Bool[Array, "*batch actions"],
    problem: Problem,
    **dropout: Any,
) -> Float[Array, "*batch actions"]:
    """Give the selector's logits, less the log of the costs, with illegal actions out of reach."""
    raw = selector(mask_inputs(x, problem.observed(acquired)), **dropout)
    return raw - jnp.log(positive_prices(problem, acquired)) - _ILLEGAL * ~legal


def _batch_loss(
    networks: Networks, key: PRNGKeyArray, rows: Table, temperature: Float[Array, ""], fixed: _Fixed
) -> Float[Array, ""]:
    """Give the loss after a relaxed choice in every state that the rows pass through.

    The states are reached by hard choices, through which no gradient flows; so they are visited first, and
    then all losses are computed at once, with the dropout masks that led to the choices.
    """
    problem, settings = fixed.problem, fixed.settings
    moving, choosing, dropping, predicting = jr.split(key, 4)
    n_rows = len(rows.y)
    available = problem.readable(rows.available)
    keep = keep_masks(dropping, settings, (fixed.steps, n_rows))
    path = _visit(moving, networks.selector, rows.x, available, keep, fixed)
    x = jnp.broadcast_to(rows.x[None], (fixed.steps, *rows.x.shape))
    logits = _logits(
        networks.selector, x, path.acquired, path.legal, problem, keep=keep, dropout=settings.dropout
    )
    choice = concrete(choosing, logits, settings.logit_scale, temperature)
    inputs = _soft_inputs(x, path, choice, problem)
    keep = keep_masks(predicting, settings, (fixed.steps, n_rows))
    predicted = networks.predictor(inputs, keep=keep, dropout=settings.dropout)
    worth = row_weights(problem, fixed.protocol, available)
    return _weighted_loss(predicted, rows.y, worth, fixed)


def _visit(
    key: PRNGKeyArray,
    selector: MLP,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows actions"],
    keep: tuple[Bool[Array, "steps rows _"], ...],
    fixed: _Fixed,
) -> _Trajectory:
    """Let rows make hard choices, drawn in proportion to the softmax of the scaled logits."""
    problem, settings = fixed.problem, fixed.settings

    def step(acquired: Array, inputs: tuple[PRNGKeyArray, Any]) -> tuple[Array, _Trajectory]:
        key, keep = inputs
        legal = legal_in_training(problem, fixed.protocol, acquired, available)
        logits = _logits(selector, x, acquired, legal, problem, keep=keep, dropout=settings.dropout)
        choice = jr.categorical(key, logits / settings.logit_scale)
        after = acquired | (jax.nn.one_hot(choice, problem.n_actions, dtype=bool) & legal)
        return after, _Trajectory(acquired, legal)

    nothing = jnp.zeros_like(available)
    _, path = jax.lax.scan(step, nothing, (jr.split(key, fixed.steps), keep))
    return path


def _soft_inputs(
    x: Float[Array, "steps rows features"],
    path: _Trajectory,
    choice: Float[Array, "steps rows actions"],
    problem: Problem,
) -> Float[Array, "steps rows inputs"]:
    """Give the predictor's inputs after a relaxed choice; rows that have none left stay as they are."""
    some_left = jnp.any(path.legal, axis=-1, keepdims=True)
    revealed = jnp.clip((choice * some_left) @ problem.reveals.astype(jnp.float32), 0.0, 1.0)
    mask = jnp.maximum(problem.observed(path.acquired).astype(jnp.float32), revealed)
    return jnp.concatenate([x * mask, mask], axis=-1)


def _weighted_loss(
    logits: Float[Array, "steps rows classes"],
    y: Int[Array, " rows"],
    worth: Float[Array, " rows"],
    fixed: _Fixed,
) -> Float[Array, ""]:
    """Give the class-weighted mean over rows and steps."""
    n_steps, n_rows, n_classes = logits.shape
    losses = cross_entropy(logits.reshape(-1, n_classes), jnp.tile(y, n_steps), fixed.weights)
    total = jnp.sum(losses.reshape(n_steps, n_rows) * worth[None])
    return total / jnp.maximum(n_steps * jnp.sum(fixed.weights[y] * worth), 1e-12)


def _validation_losses(
    key: PRNGKeyArray, networks: Networks, table: Table, temperature: Float[Array, ""], fixed: _Fixed
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Give the losses after relaxed choices and after hard ones, the largest entries of the same draws."""
    problem, settings = fixed.problem, fixed.settings
    available = problem.readable(table.available)

    def step(acquired: Array, key: PRNGKeyArray) -> tuple[Array, tuple[_Trajectory, Array, Array]]:
        legal = legal_in_training(problem, fixed.protocol, acquired, available)
        logits = _logits(networks.selector, table.x, acquired, legal, problem)
        choice = concrete(key, logits, settings.logit_scale, temperature)
        hard = jax.nn.one_hot(jnp.argmax(choice, axis=1), problem.n_actions, dtype=bool)
        after = acquired | (hard & legal)
        return after, (_Trajectory(acquired, legal), choice, after)

    nothing = jnp.zeros_like(available)
    _, (path, choice, after) = jax.lax.scan(step, nothing, jr.split(key, fixed.steps))
    x = jnp.broadcast_to(table.x[None], (fixed.steps, *table.x.shape))
    worth = row_weights(problem, fixed.protocol, available)
    soft = networks.predictor(_soft_inputs(x, path, choice, problem))
    hard = networks.predictor(mask_inputs(x, problem.observed(after)))
    return _weighted_loss(soft, table.y, worth, fixed), _weighted_loss(hard, table.y, worth, fixed)
