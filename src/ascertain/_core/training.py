"""The training loop: shuffled minibatches, validation in rounds, early stopping, the best checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.row_draws import are_many, batch_rows
from ascertain._core.settings import Amount, Count, CountOrZero
from ascertain._core.sharding import filled_up

Model = TypeVar("Model")


class Batch(NamedTuple):
    """Rows to train on; the last batch of an epoch is padded with rows of weight zero."""

    rows: Int[Array, " batch"]
    weight: Float[Array, " batch"]  # sums to 1


@dataclass(frozen=True)
class Schedule:
    """How long to train, and when to validate."""

    batch_size: Count = 128
    batches_per_round: Count | None = None  # between validations; None = an epoch
    max_rounds: Count = 100
    track_from: CountOrZero = 0  # batches before the first checkpoint
    stop_from: CountOrZero = 0  # batches before early stopping starts to count
    patience: Count | None = None  # rounds without an improvement before training stops; None = never
    min_delta: Amount = 0.0  # the least improvement that early stopping counts


class TrainingState(NamedTuple):
    """What changes while a model is trained."""

    model: Any  # its array leaves
    optimiser: Any
    best: Any
    best_loss: Float[Array, ""]
    stop_loss: Float[Array, ""]  # the loss that early stopping wants improved by min_delta
    waited: Int[Array, ""]  # rounds since it was
    round: Int[Array, ""]


class Training(Generic[Model]):
    """Training with Adam that can be interrupted: begin, advance until it has stopped, take the best model.

    Everything can be jitted and vmapped. The state is all that changes, so a program may advance it by some
    rounds, return it, and go on from there when it is called again.

    Parameters
    ----------
    key
        The random key.
    model
        The initial model.
    loss
        The loss of a batch.
    validate
        The validation loss, computed after every round.
    n_rows
        The number of training rows; with several completions, of each.
    schedule
        How long to train. A round is an epoch, or a number of batches; each starts with a new shuffle.
    learning_rate
        Adam's learning rate.
    project
        Applied to the parameters after every update, to keep them within bounds.
    completions
        How many completions of the rows there are, one after the other. Each epoch takes every row once, by
        one of its completions, so that it costs the same.
    """

    def __init__(
        self,
        key: PRNGKeyArray,
        model: Model,
        loss: Callable[[Model, PRNGKeyArray, Batch], Float[Array, ""]],
        validate: Callable[[Model, PRNGKeyArray], Float[Array, ""]],
        n_rows: int,
        schedule: Schedule,
        learning_rate: float = 1e-3,
        project: Callable[[Model], Model] = lambda model: model,
        completions: int = 1,
    ):
        self.schedule = schedule
        self._key, self._loss, self._validate, self._project = key, loss, validate, project
        self._n_rows, self._completions = n_rows, completions
        self._parameters, self._static = eqx.partition(model, eqx.is_inexact_array)
        self._adam = optax.adam(learning_rate)
        per_epoch = -(-n_rows // schedule.batch_size)
        self._per_round = schedule.batches_per_round or per_epoch

    def begin(self) -> TrainingState:
        """The state before the first round."""
        infinity, zero = jnp.asarray(jnp.inf), jnp.asarray(0)
        own = self._parameters
        return TrainingState(own, self._adam.init(own), own, infinity, infinity, zero, zero)

    def has_stopped(self, state: TrainingState) -> Bool[Array, ""]:
        """Whether patience has ended, or all rounds are done."""
        stopped = state.round >= self.schedule.max_rounds
        return (
            stopped if self.schedule.patience is None else stopped | (state.waited >= self.schedule.patience)
        )

    def advance(self, state: TrainingState, end: Int[Array, ""] | int) -> TrainingState:
        """Train until it has stopped, at most up to round `end`."""
        return jax.lax.while_loop(lambda s: ~self.has_stopped(s) & (s.round < end), self._one_round, state)

    def trained(self, state: TrainingState) -> Model:
        """The model with the lowest validation loss so far."""
        found: Model = eqx.combine(state.best, self._static)
        return found

    def run(self) -> Model:
        """Train to the end; under `vmap`, replicates that have stopped early wait for the others."""
        state, rounds = self.begin(), self.schedule.max_rounds
        if self.schedule.patience is not None:
            return self.trained(self.advance(state, rounds))
        state, _ = jax.lax.scan(lambda s, _: (self._one_round(s), None), state, length=rounds)
        return self.trained(state)

    def _one_round(self, state: TrainingState) -> TrainingState:
        schedule, per_round, n_rows = self.schedule, self._per_round, self._n_rows
        shuffling, stepping, validating = jr.split(jr.fold_in(self._key, state.round), 3)
        batches = _batches(shuffling, n_rows, schedule.batch_size, per_round)
        batches = batches._replace(rows=some_completion(shuffling, batches.rows, n_rows, self._completions))
        steps = (jr.split(stepping, per_round), batches)
        (parameters, optimiser), _ = jax.lax.scan(self._step, (state.model, state.optimiser), steps)
        found = self._validate(eqx.combine(parameters, self._static), validating)
        done = (state.round + 1) * per_round  # batches
        better = (done >= schedule.track_from) & (found < state.best_loss)
        counting = done >= schedule.stop_from
        improved = counting & (found < state.stop_loss - schedule.min_delta)
        kept = better | jnp.isinf(state.best_loss)  # before the first checkpoint, the newest parameters
        return TrainingState(
            model=parameters,
            optimiser=optimiser,
            best=jax.tree.map(lambda new, old: jnp.where(kept, new, old), parameters, state.best),
            best_loss=jnp.where(better, found, state.best_loss),
            stop_loss=jnp.where(improved, found, state.stop_loss),
            waited=jnp.where(improved | ~counting, 0, state.waited + 1),
            round=state.round + 1,
        )

    def _step(
        self, carry: tuple[Any, Any], inputs: tuple[PRNGKeyArray, Batch]
    ) -> tuple[tuple[Any, Any], None]:
        parameters, optimiser = carry
        gradient = jax.grad(lambda p: self._loss(eqx.combine(p, self._static), *inputs))(parameters)
        updates, optimiser = self._adam.update(gradient, optimiser)
        moved = self._project(eqx.combine(optax.apply_updates(parameters, updates), self._static))
        return (eqx.filter(moved, eqx.is_inexact_array), optimiser), None


def train(
    key: PRNGKeyArray,
    model: Model,
    loss: Callable[[Model, PRNGKeyArray, Batch], Float[Array, ""]],
    validate: Callable[[Model, PRNGKeyArray], Float[Array, ""]],
    n_rows: int,
    schedule: Schedule,
    learning_rate: float = 1e-3,
    project: Callable[[Model], Model] = lambda model: model,
    completions: int = 1,
) -> Model:
    """Train with Adam and return the parameters with the lowest validation loss; arguments of `Training`."""
    own = (key, model, loss, validate, n_rows, schedule, learning_rate, project, completions)
    return Training(*own).run()


def some_completion(
    key: PRNGKeyArray, rows: Int[Array, "*batch"], n_rows: int, completions: int
) -> Int[Array, "*batch"]:
    """Where one completion of each row is, drawn at random, if all of the first completion come first."""
    if completions == 1:
        return rows
    drawing = jr.fold_in(key, completions)  # the key itself is used for the order of rows
    return rows + n_rows * jr.randint(drawing, rows.shape, 0, completions)


def class_weights(y: Int[Array, " instances"], n_classes: int) -> Float[Array, " classes"]:
    """Weights inversely proportional to the frequency of each class, which sum to 1."""
    number = jnp.int32 if are_many(len(y)) else jnp.float32  # which cannot count beyond 2^24
    counts = jnp.zeros(n_classes, number).at[filled_up(y, n_classes)].add(1)
    inverse = jnp.where(counts > 0, 1 / jnp.maximum(counts, 1.0), 0.0)
    return inverse / inverse.sum()


def cross_entropy(
    logits: Float[Array, "batch classes"], y: Int[Array, " batch"], weights: Float[Array, " classes"]
) -> Float[Array, " batch"]:
    """Cross-entropy of each row, weighted by its class."""
    log_probability = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]
    return -weights[y] * log_probability


def _batches(key: PRNGKeyArray, n_rows: int, batch_size: int, wanted: int) -> Batch:
    """Cut shuffled epochs into batches; the last batch of each is padded."""
    per_epoch = -(-n_rows // batch_size)
    epochs = -(-wanted // per_epoch)
    if are_many(n_rows):
        seeds, batch = jr.bits(key, (epochs,), jnp.uint32), jnp.arange(wanted)
        rows, is_real = jax.vmap(lambda seed, b: batch_rows(seed, b, batch_size, n_rows))(
            seeds[batch // per_epoch], batch % per_epoch
        )
        return Batch(rows, is_real / is_real.sum(axis=1, keepdims=True))
    rows = jax.vmap(lambda k: jr.permutation(k, n_rows))(jr.split(key, epochs))
    padding = per_epoch * batch_size - n_rows
    rows = jnp.pad(rows, ((0, 0), (0, padding))).reshape(-1, batch_size)[:wanted]
    real = jnp.pad(jnp.ones((epochs, n_rows)), ((0, 0), (0, padding))).reshape(-1, batch_size)[:wanted]
    return Batch(rows, real / real.sum(axis=1, keepdims=True))
