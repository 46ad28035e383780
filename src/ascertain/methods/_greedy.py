"""Shared by GDFS and DIME: settings, legal actions, epochs, plateaus, and the predictor's pretraining."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, runtime_checkable
from typing import Protocol as Structure

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.hashing import shuffled
from ascertain._core.networks import MLP, dropout_masks
from ascertain._core.row_draws import are_many, batch_rows
from ascertain._core.settings import Amount, AtOnce, Count, CountOrZero, Positive, ShareBelowOne, Sizes
from ascertain._core.training import class_weights, cross_entropy, some_completion
from ascertain.methods._pretraining import mask_inputs, random_rate, random_subset
from ascertain.predictors._masked_mlp import MaskedMLP
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol

_DROP_FACTOR = 0.2  # of the learning rate
_LEAST_GAIN = 1e-4  # relative; a smaller one is no improvement
_LEAST_PRICE = 1e-12  # of an action, as scores are divided by prices

AnySettings = TypeVar("AnySettings", bound="GreedySettings")


@runtime_checkable
class StepSettings(Structure):
    """Settings of a training that chooses step by step, and waits for improvements."""

    @property
    def steps(self) -> int | None:
        """The number of acquisitions; None: see `training_steps`."""

    @property
    def patience(self) -> int:
        """The epochs without an improvement before the learning rate falls."""


@dataclass(frozen=True)
class GreedySettings:
    """The common settings of GDFS and DIME; the defaults are the paper's."""

    steps: AtOnce | None = None  # acquisitions per training row; None: see `training_steps`
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    epochs: Count = 250
    pretraining_epochs: CountOrZero = 100
    patience: Count = 5
    hidden: Sizes = (128, 128)
    dropout: ShareBelowOne = 0.3
    least_learning_rate: Amount = 1e-5
    least_pretraining_rate: Amount = 1e-6
    passes: AtOnce = 1  # over the rows in an epoch; where rows have several completions, each draws its own

    def completed(self: AnySettings, problem: Problem, protocol: Protocol) -> AnySettings:
        """Fill in the number of steps."""
        return replace(self, steps=training_steps(self, problem, protocol))

    def shortened(self: AnySettings, effort: Effort, n_rows: int) -> AnySettings:
        """Train for at most as many updates as an effort allows."""
        policy = effort.epochs(effort.policy_updates, n_rows, self.batch_size)
        pretraining = effort.epochs(effort.pretraining_updates, n_rows, self.batch_size)
        return replace(
            self,
            epochs=min(self.epochs, policy),
            pretraining_epochs=min(self.pretraining_epochs, pretraining),
        )


def training_steps(settings: StepSettings, problem: Problem, protocol: Protocol) -> int:
    """The number of acquisitions per training row.

    By default as many as the budget can pay for or, in the reference's reading, the budget itself.
    """
    if settings.steps is not None:
        return settings.steps
    if protocol.greedy_horizon == "steps" and not isinstance(problem.budget, jax.core.Tracer):
        return min(max(1, int(problem.budget)), problem.n_actions)
    return problem.most_acquisitions()


def positive_prices(
    problem: Problem, acquired: Bool[Array, "*batch actions"]
) -> Float[Array, "*batch actions"]:
    """The price of each action after some were acquired; that of free ones is next to nothing."""
    return jnp.maximum(problem.prices(acquired), _LEAST_PRICE)


@dataclass(frozen=True)
class Setup(Generic[AnySettings]):
    """What stays the same throughout the training."""

    problem: Problem
    protocol: Protocol
    settings: AnySettings
    steps: int
    class_weights: Float[Array, " classes"]

    @classmethod
    def of(
        cls, problem: Problem, protocol: Protocol, settings: AnySettings, table: Table
    ) -> "Setup[AnySettings]":
        """Count the steps and weigh the classes of a training table."""
        steps = training_steps(settings, problem, protocol)
        return cls(problem, protocol, settings, steps, class_weights(table.y, problem.n_classes))

    def legal(
        self, acquired: Bool[Array, "rows actions"], available: Bool[Array, "rows actions"]
    ) -> Bool[Array, "rows actions"]:
        """Which actions a training row may take next."""
        left = available & ~acquired
        if self.protocol.greedy_horizon == "steps":
            return left
        return left & self.problem.affordable(acquired)

    def row_weights(self, available: Bool[Array, "rows actions"]) -> Float[Array, " rows"]:
        """Weights of training rows: zero without any legal action where only affordable ones are legal."""
        if self.protocol.greedy_horizon == "steps":
            return jnp.ones(available.shape[0])
        return jnp.any(self.legal(jnp.zeros_like(available), available), axis=1).astype(jnp.float32)

    def losses(
        self, logits: Float[Array, "states rows classes"], y: Int[Array, " rows"]
    ) -> Float[Array, "states rows"]:
        """The class-weighted cross-entropy of each row in each state."""
        n_states, n_rows, n_classes = logits.shape
        flat = cross_entropy(logits.reshape(-1, n_classes), jnp.tile(y, n_states), self.class_weights)
        return flat.reshape(n_states, n_rows)


def keep_masks(
    key: PRNGKeyArray, settings: GreedySettings, shape: tuple[int, ...]
) -> tuple[Bool[Array, "..."], ...]:
    """Draw dropout masks for every hidden layer."""
    keys = jr.split(key, len(settings.hidden))
    return tuple(
        dropout_masks(k, settings.dropout, (*shape, width))
        for k, width in zip(keys, settings.hidden, strict=True)
    )


class Plateau(NamedTuple):
    """The learning rate, which falls on plateaus of the validation loss, and the epochs since its best."""

    learning_rate: Float[Array, ""]
    best: Float[Array, ""]
    bad_epochs: Int[Array, ""]  # without an improvement, since the last one or the last fall of the rate
    waited: Int[Array, ""]  # epochs since the best loss

    @classmethod
    def start(cls, learning_rate: float) -> "Plateau":
        """The state before the first epoch."""
        return cls(jnp.asarray(learning_rate), jnp.asarray(jnp.inf), jnp.asarray(0), jnp.asarray(0))

    def after(
        self, loss: Float[Array, ""], settings: StepSettings, least_rate: float
    ) -> tuple["Plateau", Bool[Array, ""]]:
        """The state after a validation loss, and whether that loss is the best so far or equals it."""
        better = loss < self.best * (1 - _LEAST_GAIN)
        best = jnp.where(better, loss, self.best)
        bad_epochs = jnp.where(better, 0, self.bad_epochs + 1)
        falls = bad_epochs > settings.patience
        lower = jnp.maximum(self.learning_rate * _DROP_FACTOR, least_rate)
        is_best = loss == best
        updated = Plateau(
            learning_rate=jnp.where(falls, lower, self.learning_rate),
            best=best,
            bad_epochs=jnp.where(falls, 0, bad_epochs),
            waited=jnp.where(is_best, 0, self.waited + 1),
        )
        return updated, is_best

    def exhausted(self, settings: StepSettings) -> Bool[Array, ""]:
        """Whether patience is used up."""
        return self.waited > settings.patience + 1


Step = Callable[[Any, PRNGKeyArray, Int[Array, " batch"]], Any]


def epoch(key: PRNGKeyArray, carry: Any, step: Step, table: Table, batch_size: int, passes: int = 1) -> Any:
    """One pass or several over the shuffled rows."""
    if passes == 1:
        return _one_pass(key, carry, step, table, batch_size)

    def one(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        return _one_pass(key, carry, step, table, batch_size), None

    return jax.lax.scan(one, carry, jr.split(key, passes))[0]


def _one_pass(key: PRNGKeyArray, carry: Any, step: Step, table: Table, batch_size: int) -> Any:
    """One pass over the shuffled rows in batches, without the last incomplete one.

    Where rows have several completions, a pass takes one of each.
    """
    n_rows = table.n_instances
    size = min(batch_size, n_rows)
    n_batches = n_rows // size
    ordering, stepping = jr.split(key)
    seed = jr.bits(ordering, (), jnp.uint32)

    def one(carry: Any, batch: tuple[PRNGKeyArray, Array]) -> tuple[Any, None]:
        return step(carry, *batch), None

    def one_of_many(carry: Any, batch: tuple[PRNGKeyArray, Array]) -> tuple[Any, None]:
        key, number = batch
        rows, _ = batch_rows(seed, number, size, n_rows)
        return step(carry, key, some_completion(key, rows, n_rows, table.completions)), None

    if are_many(n_rows):
        return jax.lax.scan(one_of_many, carry, (jr.split(stepping, n_batches), jnp.arange(n_batches)))[0]
    rows = shuffled(seed, jnp.arange(n_batches * size), jnp.asarray(n_rows)).reshape(n_batches, size)
    rows = some_completion(ordering, rows, n_rows, table.completions)
    return jax.lax.scan(one, carry, (jr.split(stepping, n_batches), rows))[0]


def where(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    """Select one of two PyTrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def descend(gradient: Any, optimiser: Any, model: Any, learning_rate: Float[Array, ""]) -> tuple[Any, Any]:
    """A step of Adam with a learning rate that varies."""
    update, optimiser = optax.scale_by_adam().update(gradient, optimiser)
    moved = jax.tree.map(lambda leaf, direction: leaf - learning_rate * direction, model, update)
    return moved, optimiser


class _Pretraining(NamedTuple):
    predictor: MLP
    optimiser: Any
    plateau: Plateau
    best: MLP
    epoch: Int[Array, ""]


def adopt_predictor(predictor: Any, settings: GreedySettings) -> MLP | None:
    """The network of a masked MLP with the same layers, which is trained much as in `pretrain_predictor`."""
    if not isinstance(predictor, MaskedMLP):
        return None
    hidden = tuple(layer.weight.shape[1] for layer in predictor.network.layers[:-1])
    return predictor.network if hidden == settings.hidden else None


def pretrain_predictor(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: GreedySettings,
    protocol: Protocol,
) -> MLP:
    """Train a predictor on random subsets of the available features, until its loss stops falling."""
    building, training = jr.split(key)
    weights = class_weights(train.y, problem.n_classes)

    def loss(predictor: MLP, key: PRNGKeyArray, rows: Array) -> Float[Array, ""]:
        choosing, hiding, dropping = jr.split(key, 3)
        part = train.take(rows)
        kept = random_subset(hiding, problem, protocol, len(rows), random_rate(choosing))
        keep = keep_masks(dropping, settings, (len(rows),))
        inputs = mask_inputs(part.x, kept & _supported(problem, part))
        losses = cross_entropy(predictor(inputs, keep=keep, dropout=settings.dropout), part.y, weights)
        return losses.sum() / weights[part.y].sum()

    def validate(predictor: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        choosing, hiding = jr.split(key)
        n_rows = valid.x.shape[0]
        n_batches = -(-n_rows // settings.batch_size)
        rates = jax.vmap(random_rate)(jr.split(choosing, n_batches))
        rate = jnp.repeat(rates, settings.batch_size)[:n_rows, None]
        kept = random_subset(hiding, problem, protocol, n_rows, rate)
        inputs = mask_inputs(valid.x, kept & _supported(problem, valid))
        losses = cross_entropy(predictor(inputs), valid.y, weights)
        return losses.sum() / weights[valid.y].sum()

    def one_epoch(state: _Pretraining) -> _Pretraining:
        shuffling, validating = jr.split(jr.fold_in(training, state.epoch))

        def step(carry: tuple[MLP, Any], key: PRNGKeyArray, rows: Array) -> tuple[MLP, Any]:
            gradient = jax.grad(loss)(carry[0], key, rows)
            return descend(gradient, carry[1], carry[0], state.plateau.learning_rate)

        predictor, optimiser = epoch(
            shuffling, (state.predictor, state.optimiser), step, train, settings.batch_size, settings.passes
        )
        loss_now = validate(predictor, validating)
        plateau, is_best = state.plateau.after(loss_now, settings, settings.least_pretraining_rate)
        best = where(is_best, predictor, state.best)
        return _Pretraining(predictor, optimiser, plateau, best, state.epoch + 1)

    def continues(state: _Pretraining) -> Bool[Array, ""]:
        return (state.epoch < settings.pretraining_epochs) & ~state.plateau.exhausted(settings)

    predictor = MLP((2 * problem.n_features, *settings.hidden, problem.n_classes), key=building)
    optimiser = optax.scale_by_adam().init(predictor)
    plateau = Plateau.start(settings.learning_rate)
    start = _Pretraining(predictor, optimiser, plateau, predictor, jnp.asarray(0))
    return jax.lax.while_loop(continues, one_epoch, start).best


def _supported(problem: Problem, table: Table) -> Bool[Array, "rows features"]:
    """Which cells are revealed by an action that the row supports."""
    return problem.observed(problem.readable(table.available))
