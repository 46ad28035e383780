"""GDFS: a selector, trained through relaxed one-hot choices, of what will reduce the predictor's loss.

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
from ascertain._core.settings import Positive, Temperatures
from ascertain.methods._greedy import (
    GreedySettings,
    Plateau,
    Setup,
    adopt_predictor,
    descend,
    epoch,
    keep_masks,
    positive_prices,
    pretrain_predictor,
    where,
)
from ascertain.methods._pretraining import mask_inputs
from ascertain.methods._registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_ILLEGAL = 1e6  # taken off the logits of illegal actions


@dataclass(frozen=True)
class Settings(GreedySettings):
    """Architecture and training of GDFS; the defaults are the paper's."""

    temperatures: Temperatures = tuple(np.geomspace(1.0, 0.1, 5).tolist())
    logit_scale: Positive = 0.2  # gamma: logits are divided by it


class GDFSNetworks(NamedTuple):
    """What is trained together."""

    selector: MLP
    predictor: MLP


class GDFS(Policy):
    """The fitted policy, with its own predictor."""

    networks: GDFSNetworks
    problem: Problem
    threshold: Float[Array, ""]  # stop once the entropy of its own prediction, in nats, is below this
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
        """Score by the selector's logits, adjusted for prices."""
        del available, key
        inputs = mask_inputs(x, observed)
        logits, price = self.networks.selector(inputs), positive_prices(self.problem, acquired)
        scores = logits / price if self.divide_by_price else logits - jnp.log(price)
        log_probability = jax.nn.log_softmax(self.networks.predictor(inputs))
        entropy = -jnp.sum(jnp.exp(log_probability) * log_probability, axis=1, keepdims=True)
        stop = jnp.where(entropy < self.threshold, jnp.inf, -jnp.inf)
        return jnp.concatenate([stop, scores], axis=1)

    def stopping_at(self, threshold: float) -> "GDFS":
        """The policy for soft budgets: it stops once its own prediction's entropy is below a threshold."""
        return eqx.tree_at(lambda p: p.threshold, self, jnp.asarray(threshold, jnp.float32))


def concrete(
    key: PRNGKeyArray, logits: Float[Array, "*batch actions"], scale: float, temperature: Float[Array, ""]
) -> Float[Array, "*batch actions"]:
    """Draw relaxed one-hot choices from the Concrete distribution of the scaled logits."""
    log_probability = jax.nn.log_softmax(logits / scale)
    return jax.nn.softmax((log_probability + jr.gumbel(key, logits.shape)) / temperature)


class _Path(NamedTuple):
    """The states that training rows pass through, steps first."""

    acquired: Bool[Array, "steps rows actions"]  # before each step
    legal: Bool[Array, "steps rows actions"]


class _State(NamedTuple):
    networks: GDFSNetworks
    optimiser: Any
    plateau: Plateau
    best_soft: GDFSNetworks  # at this temperature, by the validation loss of relaxed choices
    epoch: Int[Array, ""]  # at this temperature
    stage: Int[Array, ""]  # the number of the temperature
    best: GDFSNetworks  # of all temperatures, by the validation loss of hard choices
    best_loss: Float[Array, ""]


@register(
    "gdfs",
    summary="Greedy dynamic feature selection: a selector trained through relaxed choices.",
    settings=Settings,
    label="GDFS",
    color="#00825F",
    kind="myopic",
    family="greedy",
    use_when="A strong quick choice where no measurement is needed only to decide on others.",
    stops="at a threshold that you give (thresholds=)",
    costs={"gpu": Cost(0.5, 0.02, 15, 15e6), "cpu": Cost(0.0, 11.0, 14, 15e6)},
    pretraining_costs={"gpu": Cost(0.0, 0.0, 8), "cpu": Cost(0.0, 1.0, 6)},
    pretrain=pretrain_predictor,
    adopts=adopt_predictor,
    splits_rows=True,
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: MLP | None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> GDFS:
    """Train the predictor (unless given), then selector and predictor together, temperature by temperature.

    Takes what every method takes (see `Method`). `predictor` is not used: GDFS trains its own.
    """
    del predictor, state
    pretraining, building, training = jr.split(key, 3)
    if pretrained is None:
        pretrained = pretrain_predictor(
            pretraining, problem, train, valid, settings=settings, protocol=protocol
        )
    sizes = (2 * problem.n_features, *settings.hidden, problem.n_actions)
    networks = GDFSNetworks(MLP(sizes, key=building), pretrained)
    setup = Setup.of(problem, protocol, settings, train)
    temperatures = jnp.asarray(settings.temperatures)
    start = _State(
        networks=networks,
        optimiser=optax.scale_by_adam().init(networks),
        plateau=Plateau.start(settings.learning_rate),
        best_soft=networks,
        epoch=jnp.asarray(0),
        stage=jnp.asarray(0),
        best=networks,
        best_loss=jnp.asarray(jnp.inf),
    )

    def one_epoch(state: _State) -> _State:
        epoch_key = jr.fold_in(jr.fold_in(training, state.stage), state.epoch)
        return _one_epoch(epoch_key, state, temperatures[state.stage], setup, train, valid)

    # One loop over all temperatures, so that replicates under vmap wait for each other only at the end.
    last = jax.lax.while_loop(lambda s: s.stage < len(settings.temperatures), one_epoch, start)
    divide = protocol.gdfs_cost == "log_then_divide"
    return GDFS(last.best, problem.without_names(), jnp.asarray(-jnp.inf), divide)


def _one_epoch(
    key: PRNGKeyArray,
    state: _State,
    temperature: Float[Array, ""],
    setup: Setup[Settings],
    train: Table,
    valid: Table,
) -> _State:
    """Train for an epoch, validate, and move to the next temperature once patience is used up."""
    settings = setup.settings
    shuffling, validating = jr.split(key)

    def step(carry: tuple[GDFSNetworks, Any], key: PRNGKeyArray, rows: Array) -> tuple[GDFSNetworks, Any]:
        gradient = jax.grad(_batch_loss)(carry[0], key, train.take(rows), temperature, setup)
        return descend(gradient, carry[1], carry[0], state.plateau.learning_rate)

    networks, optimiser = epoch(
        shuffling, (state.networks, state.optimiser), step, train, settings.batch_size, settings.passes
    )
    soft, hard = _validation_losses(validating, networks, valid, temperature, setup)
    plateau, is_best = state.plateau.after(soft, settings, settings.least_learning_rate)
    best_soft = where(is_best, networks, state.best_soft)
    better = hard < state.best_loss
    ends = plateau.exhausted(settings) | (state.epoch + 1 >= settings.epochs)
    return _State(
        networks=where(ends, best_soft, networks),
        optimiser=where(ends, optax.scale_by_adam().init(networks), optimiser),
        plateau=where(ends, Plateau.start(settings.learning_rate), plateau),
        best_soft=best_soft,
        epoch=jnp.where(ends, 0, state.epoch + 1),
        stage=state.stage + ends,
        best=where(better, networks, state.best),
        best_loss=jnp.where(better, hard, state.best_loss),
    )


def _batch_loss(
    networks: GDFSNetworks,
    key: PRNGKeyArray,
    rows: Table,
    temperature: Float[Array, ""],
    setup: Setup[Settings],
) -> Float[Array, ""]:
    """The loss after a relaxed choice in every state that the rows pass through.

    The states are reached by hard choices, through which no gradient flows. So they are visited first, and
    then all losses are computed at once, with the dropout masks that led to the choices.
    """
    problem, settings = setup.problem, setup.settings
    moving, choosing, dropping, predicting = jr.split(key, 4)
    shape = (setup.steps, len(rows.y))
    available = problem.readable(rows.available)
    keep = keep_masks(dropping, settings, shape)
    path = _visit(moving, networks.selector, rows.x, available, keep, setup)
    x = jnp.broadcast_to(rows.x[None], (setup.steps, *rows.x.shape))
    logits = _logits(
        networks.selector, x, path.acquired, path.legal, problem, keep=keep, dropout=settings.dropout
    )
    choice = concrete(choosing, logits, settings.logit_scale, temperature)
    inputs = _soft_inputs(x, path, choice, problem)
    keep = keep_masks(predicting, settings, shape)
    predicted = networks.predictor(inputs, keep=keep, dropout=settings.dropout)
    return _mean_loss(predicted, rows.y, available, setup)


def _visit(
    key: PRNGKeyArray,
    selector: MLP,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows actions"],
    keep: tuple[Bool[Array, "steps rows _"], ...],
    setup: Setup[Settings],
) -> _Path:
    """Roll out hard choices, drawn from the softmax of the scaled logits."""
    problem, settings = setup.problem, setup.settings

    def step(acquired: Array, inputs: tuple[PRNGKeyArray, Any]) -> tuple[Array, _Path]:
        key, keep = inputs
        legal = setup.legal(acquired, available)
        logits = _logits(selector, x, acquired, legal, problem, keep=keep, dropout=settings.dropout)
        choice = jr.categorical(key, logits / settings.logit_scale)
        after = acquired | (jax.nn.one_hot(choice, problem.n_actions, dtype=bool) & legal)
        return after, _Path(acquired, legal)

    _, path = jax.lax.scan(step, jnp.zeros_like(available), (jr.split(key, setup.steps), keep))
    return path


def _validation_losses(
    key: PRNGKeyArray,
    networks: GDFSNetworks,
    table: Table,
    temperature: Float[Array, ""],
    setup: Setup[Settings],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The losses after relaxed choices and after hard ones, which are the largest entries of the former."""
    problem, settings = setup.problem, setup.settings
    available = problem.readable(table.available)

    def step(acquired: Array, key: PRNGKeyArray) -> tuple[Array, tuple[_Path, Array, Array]]:
        legal = setup.legal(acquired, available)
        logits = _logits(networks.selector, table.x, acquired, legal, problem)
        choice = concrete(key, logits, settings.logit_scale, temperature)
        hard = jax.nn.one_hot(jnp.argmax(choice, axis=1), problem.n_actions, dtype=bool)
        after = acquired | (hard & legal)
        return after, (_Path(acquired, legal), choice, after)

    _, (path, choice, after) = jax.lax.scan(step, jnp.zeros_like(available), jr.split(key, setup.steps))
    x = jnp.broadcast_to(table.x[None], (setup.steps, *table.x.shape))
    soft = networks.predictor(_soft_inputs(x, path, choice, problem))
    hard = networks.predictor(mask_inputs(x, problem.observed(after)))
    return _mean_loss(soft, table.y, available, setup), _mean_loss(hard, table.y, available, setup)


def _logits(
    selector: MLP,
    x: Float[Array, "*batch features"],
    acquired: Bool[Array, "*batch actions"],
    legal: Bool[Array, "*batch actions"],
    problem: Problem,
    **dropout: Any,
) -> Float[Array, "*batch actions"]:
    """The selector's logits minus the log of the prices; those of illegal actions are very low."""
    raw = selector(mask_inputs(x, problem.observed(acquired)), **dropout)
    return raw - jnp.log(positive_prices(problem, acquired)) - _ILLEGAL * ~legal


def _soft_inputs(
    x: Float[Array, "steps rows features"],
    path: _Path,
    choice: Float[Array, "steps rows actions"],
    problem: Problem,
) -> Float[Array, "steps rows inputs"]:
    """The predictor's inputs after a relaxed choice; rows without a legal action stay as they are."""
    some_legal = jnp.any(path.legal, axis=-1, keepdims=True)
    revealed = jnp.clip((choice * some_legal) @ problem.reveals.astype(jnp.float32), 0.0, 1.0)
    mask = jnp.maximum(problem.observed(path.acquired).astype(jnp.float32), revealed)
    return jnp.concatenate([x * mask, mask], axis=-1)


def _mean_loss(
    logits: Float[Array, "steps rows classes"],
    y: Int[Array, " rows"],
    available: Bool[Array, "rows actions"],
    setup: Setup[Settings],
) -> Float[Array, ""]:
    """The class-weighted mean loss over rows and steps."""
    weight = setup.row_weights(available)
    total = jnp.sum(setup.losses(logits, y) * weight[None])
    return total / jnp.maximum(len(logits) * jnp.sum(setup.class_weights[y] * weight), 1e-12)
