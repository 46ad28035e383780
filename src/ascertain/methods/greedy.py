"""What GDFS and DIME share: a predictor of their own, its pretraining, plateaus, and what is legal."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.hashing import shuffled
from ascertain._core.networks import MLP, dropout_masks
from ascertain._core.training import class_weights, cross_entropy
from ascertain.methods.pretraining import mask_inputs, random_rate, random_subset
from ascertain.predictors.masked_mlp import MaskedMLP
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol

_DROP_FACTOR = 0.2  # of the learning rate
_LEAST_GAIN = 1e-4  # relative; what is less is no improvement
_LEAST_PRICE = 1e-12  # of actions, where prices divide

AnySettings = TypeVar("AnySettings", bound="GreedySettings")


@dataclass(frozen=True)
class GreedySettings:
    """Architecture and training that GDFS and DIME have in common; the defaults are the paper's."""

    steps: int | None = None  # acquisitions per training row; None: see `training_steps`
    batch_size: int = 128
    learning_rate: float = 1e-3
    epochs: int = 250
    pretraining_epochs: int = 100
    patience: int = 5
    hidden: tuple[int, ...] = (128, 128)
    dropout: float = 0.3
    least_learning_rate: float = 1e-5
    least_pretraining_rate: float = 1e-6

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


def training_steps(settings: GreedySettings, problem: Problem, protocol: Protocol) -> int:
    """Give the number of acquisitions per training row.

    By default as many as the budget can pay for or, in the reference's reading, the budget taken as a
    number of steps.
    """
    if settings.steps is not None:
        return settings.steps
    if protocol.greedy_horizon == "steps" and not isinstance(problem.budget, jax.core.Tracer):
        return min(max(1, int(problem.budget)), problem.n_actions)
    return problem.most_acquisitions()


def legal_in_training(
    problem: Problem,
    protocol: Protocol,
    acquired: Bool[Array, "rows actions"],
    available: Bool[Array, "rows actions"],
) -> Bool[Array, "rows actions"]:
    """Which actions a training row may take next."""
    left = available & ~acquired
    if protocol.greedy_horizon == "steps":
        return left
    return left & problem.affordable(acquired)


def positive_prices(
    problem: Problem, acquired: Bool[Array, "*batch actions"]
) -> Float[Array, "*batch actions"]:
    """What each action costs now; free ones next to nothing, as prices divide scores."""
    return jnp.maximum(problem.prices(acquired), _LEAST_PRICE)


def row_weights(
    problem: Problem, protocol: Protocol, available: Bool[Array, "rows actions"]
) -> Float[Array, " rows"]:
    """Weigh training rows: where only affordable actions are legal, rows without any are skipped."""
    if protocol.greedy_horizon == "steps":
        return jnp.ones(available.shape[0])
    nothing = jnp.zeros_like(available)
    return jnp.any(legal_in_training(problem, protocol, nothing, available), axis=1).astype(jnp.float32)


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
    """A learning rate that falls when the validation loss stays, and the count of epochs without a best."""

    learning_rate: Float[Array, ""]
    best: Float[Array, ""]
    stayed: Int[Array, ""]  # epochs that count towards the next fall of the learning rate
    waited: Int[Array, ""]  # epochs since the last best

    @classmethod
    def start(cls, learning_rate: float) -> "Plateau":
        """Begin with a loss that anything improves."""
        return cls(jnp.asarray(learning_rate), jnp.asarray(jnp.inf), jnp.asarray(0), jnp.asarray(0))

    def after(
        self, loss: Float[Array, ""], settings: GreedySettings, least_rate: float
    ) -> tuple["Plateau", Bool[Array, ""]]:
        """Look at a validation loss; also say whether it is the best (again)."""
        better = loss < self.best * (1 - _LEAST_GAIN)
        best = jnp.where(better, loss, self.best)
        stayed = jnp.where(better, 0, self.stayed + 1)
        falls = stayed > settings.patience
        lower = jnp.maximum(self.learning_rate * _DROP_FACTOR, least_rate)
        is_best = loss == best
        updated = Plateau(
            learning_rate=jnp.where(falls, lower, self.learning_rate),
            best=best,
            stayed=jnp.where(falls, 0, stayed),
            waited=jnp.where(is_best, 0, self.waited + 1),
        )
        return updated, is_best

    def exhausted(self, settings: GreedySettings) -> Bool[Array, ""]:
        """Whether it has gone on for too long without a best."""
        return self.waited > settings.patience + 1


Step = Callable[[Any, PRNGKeyArray, Int[Array, " batch"]], Any]


def epoch(key: PRNGKeyArray, carry: Any, step: Step, n_rows: int, batch_size: int) -> Any:
    """Go once over the shuffled rows in batches, leaving out the last incomplete one."""
    size = min(batch_size, n_rows)
    n_batches = n_rows // size
    ordering, stepping = jr.split(key)
    seed = jr.bits(ordering, (), jnp.uint32)
    rows = shuffled(seed, jnp.arange(n_batches * size), jnp.asarray(n_rows)).reshape(n_batches, size)

    def one(carry: Any, batch: tuple[PRNGKeyArray, Array]) -> tuple[Any, None]:
        return step(carry, *batch), None

    return jax.lax.scan(one, carry, (jr.split(stepping, n_batches), rows))[0]


def where(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    """Choose between two PyTrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def descend(gradient: Any, optimiser: Any, model: Any, learning_rate: Float[Array, ""]) -> tuple[Any, Any]:
    """Make a step of Adam with a learning rate that varies."""
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
    """Begin with a masked MLP of the same layers, which is trained much as `pretrain_predictor` does."""
    if not isinstance(predictor, MaskedMLP):
        return None
    hidden = tuple(layer.weight.shape[1] for layer in predictor.network.layers[:-1])
    return predictor.network if hidden == settings.hidden else None


def pretrain_predictor(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    settings: GreedySettings,
    protocol: Protocol,
) -> MLP:
    """Train a predictor on random subsets of what each row has, until its loss stays."""
    building, training = jr.split(key)
    weights = class_weights(train_table.y, problem.n_classes)

    def loss(predictor: MLP, key: PRNGKeyArray, rows: Array) -> Float[Array, ""]:
        choosing, hiding, dropping = jr.split(key, 3)
        part = train_table.take(rows)
        kept = random_subset(hiding, problem, protocol, len(rows), random_rate(choosing))
        keep = keep_masks(dropping, settings, (len(rows),))
        inputs = mask_inputs(part.x, kept & _whole(problem, part))
        losses = cross_entropy(predictor(inputs, keep=keep, dropout=settings.dropout), part.y, weights)
        return losses.sum() / weights[part.y].sum()

    def validate(predictor: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        choosing, hiding = jr.split(key)
        n_rows = valid_table.x.shape[0]
        n_batches = -(-n_rows // settings.batch_size)
        rates = jax.vmap(random_rate)(jr.split(choosing, n_batches))
        rate = jnp.repeat(rates, settings.batch_size)[:n_rows, None]
        kept = random_subset(hiding, problem, protocol, n_rows, rate)
        inputs = mask_inputs(valid_table.x, kept & _whole(problem, valid_table))
        losses = cross_entropy(predictor(inputs), valid_table.y, weights)
        return losses.sum() / weights[valid_table.y].sum()

    def one_epoch(state: _Pretraining) -> _Pretraining:
        shuffling, validating = jr.split(jr.fold_in(training, state.epoch))

        def step(carry: tuple[MLP, Any], key: PRNGKeyArray, rows: Array) -> tuple[MLP, Any]:
            gradient = jax.grad(loss)(carry[0], key, rows)
            return descend(gradient, carry[1], carry[0], state.plateau.learning_rate)

        predictor, optimiser = epoch(
            shuffling, (state.predictor, state.optimiser), step, len(train_table.y), settings.batch_size
        )
        found = validate(predictor, validating)
        plateau, is_best = state.plateau.after(found, settings, settings.least_pretraining_rate)
        best = where(is_best, predictor, state.best)
        return _Pretraining(predictor, optimiser, plateau, best, state.epoch + 1)

    def goes_on(state: _Pretraining) -> Bool[Array, ""]:
        return (state.epoch < settings.pretraining_epochs) & ~state.plateau.exhausted(settings)

    predictor = MLP((2 * problem.n_features, *settings.hidden, problem.n_classes), key=building)
    optimiser = optax.scale_by_adam().init(predictor)
    start = _Pretraining(
        predictor, optimiser, Plateau.start(settings.learning_rate), predictor, jnp.asarray(0)
    )
    return jax.lax.while_loop(goes_on, one_epoch, start).best


def _whole(problem: Problem, table: Table) -> Bool[Array, "rows features"]:
    """Which cells belong to an action that the row supports as a whole."""
    return problem.observed(problem.readable(table.available))
