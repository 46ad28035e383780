"""DIME: a value network that estimates how informative each feature is about the label.

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
from ascertain._core.settings import Amount, Count, CountOrZero, Share, SomeSizes
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


@dataclass(frozen=True)
class Settings(GreedySettings):
    """Architecture and training of DIME; the defaults are the paper's."""

    pretraining_epochs: CountOrZero = 200
    hidden: SomeSizes = (128, 128)
    least_learning_rate: Amount = 1e-6
    epsilon: Share = 0.05  # the rate of random choices in training
    epsilon_decay: Share = 0.2
    epsilon_steps: Count = 10  # how often it decays before training ends


class DIMENetworks(NamedTuple):
    """A predictor and a value network with the same hidden layers."""

    hidden: tuple[Linear, ...]
    to_classes: Linear
    to_values: Linear

    def logits(self, inputs: Float[Array, "*batch inputs"], **dropout: Any) -> Float[Array, "*batch classes"]:
        """Predict the class."""
        return apply_layers((*self.hidden, self.to_classes), inputs, **dropout)

    def share(self, inputs: Float[Array, "*batch inputs"], **dropout: Any) -> Float[Array, "*batch actions"]:
        """Estimate which share of the prediction's entropy each action would remove."""
        return jax.nn.sigmoid(apply_layers((*self.hidden, self.to_values), inputs, **dropout))


def entropy(logits: Float[Array, "*batch classes"]) -> Float[Array, "*batch"]:
    """The entropy of a prediction, in nats."""
    log_probability = jax.nn.log_softmax(logits)
    return -jnp.sum(jnp.exp(log_probability) * log_probability, axis=-1)


class DIME(Policy):
    """The fitted policy, with its own predictor."""

    networks: DIMENetworks
    problem: Problem
    threshold: Float[Array, ""]  # stop once no action promises this much information per price

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the estimated information per price."""
        del available, key
        inputs = mask_inputs(x, observed)
        information = self.networks.share(inputs) * entropy(self.networks.logits(inputs))[:, None]
        scores = information / positive_prices(self.problem, acquired)
        stop = jnp.full((x.shape[0], 1), self.threshold)
        return jnp.concatenate([stop, scores], axis=1)

    def stopping_at(self, threshold: float) -> "DIME":
        """The policy for soft budgets: it stops once no action promises this much information per price."""
        return eqx.tree_at(lambda p: p.threshold, self, jnp.asarray(threshold, jnp.float32))


class _State(NamedTuple):
    networks: DIMENetworks
    optimiser: tuple[Any, Any]  # of the hidden layers, of the heads
    plateau: Plateau
    best: DIMENetworks
    epsilon: Float[Array, ""]
    decays: Int[Array, ""]
    epoch: Int[Array, ""]


@register(
    "dime",
    summary="Greedy by estimated conditional mutual information with the label, per cost.",
    settings=Settings,
    label="DIME",
    color="#1777AE",
    kind="myopic",
    family="greedy",
    use_when="Information per price, one step ahead; for many classes or calibrated gains.",
    stops="at a threshold that you give (thresholds=)",
    costs={"gpu": Cost(0.5, 0.02, 14, 15e6), "cpu": Cost(0.0, 9.0, 12, 15e6)},
    pretraining_costs={"gpu": Cost(0.0, 0.0, 8), "cpu": Cost(0.0, 1.0, 5)},
    pretrain=pretrain_predictor,
    adopts=adopt_predictor,
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
) -> DIME:
    """Train the predictor (unless given), then predictor and value network together.

    Takes what every method takes (see `Method`). `predictor` is not used: DIME trains its own.
    """
    del predictor, state
    pretraining, building, training = jr.split(key, 3)
    if pretrained is None:
        pretrained = pretrain_predictor(
            pretraining, problem, train, valid, settings=settings, protocol=protocol
        )
    to_values = Linear(settings.hidden[-1], problem.n_actions, key=building)
    networks = DIMENetworks(pretrained.layers[:-1], pretrained.layers[-1], to_values)
    setup = Setup.of(problem, protocol, settings, train)
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
        return _one_epoch(jr.fold_in(training, state.epoch), state, setup, train, valid)

    def continues(state: _State) -> Bool[Array, ""]:
        return (state.epoch < settings.epochs) & (state.decays < settings.epsilon_steps)

    last = jax.lax.while_loop(continues, one_epoch, start)
    return DIME(last.best, problem.without_names(), jnp.asarray(-jnp.inf))


def _one_epoch(
    key: PRNGKeyArray, state: _State, setup: Setup[Settings], train: Table, valid: Table
) -> _State:
    """Train for an epoch, validate, and explore less once patience is used up."""
    settings = setup.settings

    def step(carry: tuple[DIMENetworks, Any], key: PRNGKeyArray, rows: Array) -> tuple[DIMENetworks, Any]:
        gradient = jax.grad(_batch_loss)(carry[0], key, train.take(rows), state.epsilon, setup)
        return _update(gradient, carry[1], carry[0], state.plateau.learning_rate, setup.protocol)

    networks, optimiser = epoch(
        key, (state.networks, state.optimiser), step, train, settings.batch_size, settings.passes
    )
    loss = _validation_loss(networks, valid, setup)
    plateau, is_best = state.plateau.after(loss, settings, settings.least_learning_rate)
    decays = plateau.exhausted(settings)
    return _State(
        networks=networks,
        optimiser=optimiser,
        plateau=plateau._replace(
            learning_rate=jnp.where(decays, settings.learning_rate, plateau.learning_rate),
            waited=jnp.where(decays, 0, plateau.waited),
        ),
        best=where(is_best, networks, state.best),
        epsilon=jnp.where(decays, settings.epsilon_decay * state.epsilon, state.epsilon),
        decays=state.decays + decays,
        epoch=state.epoch + 1,
    )


def _update(
    gradient: DIMENetworks,
    optimiser: tuple[Any, Any],
    networks: DIMENetworks,
    learning_rate: Float[Array, ""],
    protocol: Protocol,
) -> tuple[DIMENetworks, tuple[Any, Any]]:
    """A step of Adam; the reference updates the shared layers twice, with the same gradient."""
    of_hidden, of_heads = optimiser
    hidden = networks.hidden
    for _ in range(protocol.dime_shared_updates):
        hidden, of_hidden = descend(gradient.hidden, of_hidden, hidden, learning_rate)
    heads, of_heads = descend(gradient[1:], of_heads, networks[1:], learning_rate)
    return DIMENetworks(hidden, *heads), (of_hidden, of_heads)


def _batch_loss(
    networks: DIMENetworks, key: PRNGKeyArray, rows: Table, epsilon: Float[Array, ""], setup: Setup[Settings]
) -> Float[Array, ""]:
    """The predictor's loss in all states that the rows pass through, and the error of the values.

    No gradient flows through the choices. So the states are visited first, and then all losses are computed
    at once, with the dropout masks that led to the choices.
    """
    problem, settings, steps = setup.problem, setup.settings, setup.steps
    moving, dropping, predicting = jr.split(key, 3)
    n_rows = len(rows.y)
    available = problem.readable(rows.available)
    keep = keep_masks(dropping, settings, (steps, n_rows))
    acquired, choice, some_legal = _visit(moving, networks, rows.x, available, keep, epsilon, setup)
    x = jnp.broadcast_to(rows.x[None], (steps + 1, *rows.x.shape))
    inputs = mask_inputs(x, problem.observed(acquired))
    predictor_keep = keep_masks(predicting, settings, (steps + 1, n_rows))
    logits = networks.logits(inputs, keep=predictor_keep, dropout=settings.dropout)
    losses = setup.losses(logits, rows.y)
    weight = setup.row_weights(available)
    share = networks.share(inputs[:-1], keep=keep, dropout=settings.dropout)
    of_choice = jnp.take_along_axis(share, choice[..., None], axis=-1)[..., 0]
    estimate = of_choice * jax.lax.stop_gradient(entropy(logits[:-1]))
    return batch_objective(estimate, losses, some_legal & (weight > 0)[None], weight)


def batch_objective(
    estimate: Float[Array, "steps rows"],
    losses: Float[Array, "steps_and_start rows"],
    counts: Bool[Array, "steps rows"],
    weight: Float[Array, " rows"],
) -> Float[Array, ""]:
    """The mean over states of the predictor's loss plus the squared error of the value estimate.

    The value of an acquisition is how much it reduced the predictor's loss.
    """
    reduction = jax.lax.stop_gradient(losses[:-1] - losses[1:])
    errors = jnp.where(counts, (estimate - reduction) ** 2, 0.0)
    of_values = errors.sum(axis=1) / jnp.maximum(counts.sum(axis=1), 1)
    of_predictor = (losses @ weight) / jnp.maximum(weight.sum(), 1.0)
    return (of_values.sum() + of_predictor.sum()) / len(losses)


def _visit(
    key: PRNGKeyArray,
    networks: DIMENetworks,
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows actions"],
    keep: tuple[Bool[Array, "steps rows _"], ...],
    epsilon: Float[Array, ""],
    setup: Setup[Settings],
) -> tuple[Bool[Array, "steps_and_start rows actions"], Int[Array, "steps rows"], Bool[Array, "steps rows"]]:
    """Roll out epsilon-greedy choices; returns the states, the choices, and where any action was legal."""
    problem = setup.problem

    def step(acquired: Array, inputs: tuple[PRNGKeyArray, Any]) -> tuple[Array, tuple[Array, Array, Array]]:
        key, keep = inputs
        legal = setup.legal(acquired, available)
        inputs_now = mask_inputs(x, problem.observed(acquired))
        share = networks.share(inputs_now, keep=keep, dropout=setup.settings.dropout)
        uniform = jr.uniform(key, (len(x), problem.n_actions + 1))
        anything = jnp.argmax(uniform[:, 1:] - 2.0 * ~legal, axis=1)
        choice = jnp.where(uniform[:, 0] > epsilon, _best(share, acquired, legal, problem), anything)
        after = acquired | (jax.nn.one_hot(choice, problem.n_actions, dtype=bool) & legal)
        return after, (after, choice, jnp.any(legal, axis=1))

    nothing = jnp.zeros_like(available)
    _, (after, choice, some_legal) = jax.lax.scan(step, nothing, (jr.split(key, setup.steps), keep))
    return jnp.concatenate([nothing[None], after]), choice, some_legal


def _best(
    share: Float[Array, "rows actions"],
    acquired: Bool[Array, "rows actions"],
    legal: Bool[Array, "rows actions"],
    problem: Problem,
) -> Int[Array, " rows"]:
    """The action of most information per price; the entropy is a factor that all actions share."""
    return jnp.argmax(jnp.where(legal, share / positive_prices(problem, acquired), -1.0), axis=1)


def _validation_loss(networks: DIMENetworks, table: Table, setup: Setup[Settings]) -> Float[Array, ""]:
    """The mean loss over the states of greedy acquisition, without dropout."""
    problem = setup.problem
    available = problem.readable(table.available)

    def step(acquired: Array, _: None) -> tuple[Array, Array]:
        legal = setup.legal(acquired, available)
        share = networks.share(mask_inputs(table.x, problem.observed(acquired)))
        best = _best(share, acquired, legal, problem)
        after = acquired | (jax.nn.one_hot(best, problem.n_actions, dtype=bool) & legal)
        return after, after

    nothing = jnp.zeros_like(available)
    _, after = jax.lax.scan(step, nothing, length=setup.steps)
    acquired = jnp.concatenate([nothing[None], after])
    x = jnp.broadcast_to(table.x[None], (setup.steps + 1, *table.x.shape))
    logits = networks.logits(mask_inputs(x, problem.observed(acquired)))
    weight = setup.row_weights(available)
    return jnp.mean(setup.losses(logits, table.y) @ weight) / jnp.maximum(weight.sum(), 1.0)
