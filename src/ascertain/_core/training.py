"""The training loop: shuffled minibatches, validation in rounds, early stopping, the best checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ascertain._core.settings import Amount, Count, CountOrZero

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


class _State(NamedTuple):
    model: Any  # its array leaves
    optimiser: Any
    best: Any
    best_loss: Float[Array, ""]
    stop_loss: Float[Array, ""]  # the loss that early stopping wants improved by min_delta
    waited: Int[Array, ""]  # rounds since it was
    round: Int[Array, ""]


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
    """Train with Adam and return the parameters with the lowest validation loss.

    Can be jitted and vmapped. Under `vmap`, replicates that have stopped early wait for the others.

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
    parameters, static = eqx.partition(model, eqx.is_inexact_array)
    adam = optax.adam(learning_rate)
    per_epoch = -(-n_rows // schedule.batch_size)
    per_round = schedule.batches_per_round or per_epoch

    def step(carry: tuple[Any, Any], inputs: tuple[PRNGKeyArray, Batch]) -> tuple[tuple[Any, Any], None]:
        parameters, optimiser = carry
        gradient = jax.grad(lambda p: loss(eqx.combine(p, static), *inputs))(parameters)
        updates, optimiser = adam.update(gradient, optimiser)
        moved = project(eqx.combine(optax.apply_updates(parameters, updates), static))
        return (eqx.filter(moved, eqx.is_inexact_array), optimiser), None

    def one_round(state: _State) -> _State:
        shuffling, stepping, validating = jr.split(jr.fold_in(key, state.round), 3)
        batches = _batches(shuffling, n_rows, schedule.batch_size, per_round)
        batches = batches._replace(rows=some_completion(shuffling, batches.rows, n_rows, completions))
        steps = (jr.split(stepping, per_round), batches)
        (parameters, optimiser), _ = jax.lax.scan(step, (state.model, state.optimiser), steps)
        found = validate(eqx.combine(parameters, static), validating)
        done = (state.round + 1) * per_round  # batches
        better = (done >= schedule.track_from) & (found < state.best_loss)
        counting = done >= schedule.stop_from
        improved = counting & (found < state.stop_loss - schedule.min_delta)
        kept = better | jnp.isinf(state.best_loss)  # before the first checkpoint, the newest parameters
        return _State(
            model=parameters,
            optimiser=optimiser,
            best=jax.tree.map(lambda new, old: jnp.where(kept, new, old), parameters, state.best),
            best_loss=jnp.where(better, found, state.best_loss),
            stop_loss=jnp.where(improved, found, state.stop_loss),
            waited=jnp.where(improved | ~counting, 0, state.waited + 1),
            round=state.round + 1,
        )

    infinity = jnp.asarray(jnp.inf)
    zero = jnp.asarray(0)
    state = _State(parameters, adam.init(parameters), parameters, infinity, infinity, zero, zero)
    if schedule.patience is None:
        state, _ = jax.lax.scan(lambda s, _: (one_round(s), None), state, length=schedule.max_rounds)
    else:
        patience = schedule.patience
        state = jax.lax.while_loop(
            lambda s: (s.waited < patience) & (s.round < schedule.max_rounds), one_round, state
        )
    trained: Model = eqx.combine(state.best, static)
    return trained


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
    counts = jnp.zeros(n_classes).at[y].add(1.0)
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
    rows = jax.vmap(lambda k: jr.permutation(k, n_rows))(jr.split(key, epochs))
    padding = per_epoch * batch_size - n_rows
    rows = jnp.pad(rows, ((0, 0), (0, padding))).reshape(-1, batch_size)[:wanted]
    real = jnp.pad(jnp.ones((epochs, n_rows)), ((0, 0), (0, padding))).reshape(-1, batch_size)[:wanted]
    return Batch(rows, real / real.sum(axis=1, keepdims=True))
