"""A fixed set of actions, chosen while a classifier is trained through relaxed choices (CAE-S of AFABench).

After Balin, Abid and Zou (2019), concrete autoencoders, whose decoder is a classifier here. As many picks as
the budget pays are distributions over the actions. Every batch draws a relaxed one-hot vector from each; what
the classifier sees of an action is the largest entry that it got. The temperature falls until the choices
are hard. The set is acquired in the order of the problem, and ignores prices.

The original is for single features. Here an action lets through all that it reveals, features known from the
start always pass, and missing cells are zeros.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.networks import MLP
from ascertain._core.settings import Amount, AtOnce, Count, Positive, Sizes, Temperatures
from ascertain._core.training import class_weights, cross_entropy
from ascertain.methods._gdfs import concrete
from ascertain.methods._greedy import Plateau, descend, epoch, training_steps, where
from ascertain.methods._registry import State, register
from ascertain.methods._static import Static
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_HARD = 1e-6  # the temperature of choices that are as good as hard


@dataclass(frozen=True)
class Settings:
    """Architecture and training; the defaults are AFABench's."""

    steps: AtOnce | None = None  # picks; None: as many as the budget can pay for
    hidden: Sizes = (128, 128)
    temperatures: Temperatures = tuple(np.geomspace(10.0, 0.01, 10).tolist())
    logit_scale: Positive = 0.2  # gamma: logits are divided by it
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    least_learning_rate: Amount = 1e-5
    epochs: Count = 250  # at each temperature
    patience: Count = 5

    def completed(self, problem: Problem, protocol: Protocol) -> "Settings":
        """Fill in the number of picks."""
        return replace(self, steps=training_steps(self, problem, protocol))

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for at most as many updates at each temperature as an effort allows."""
        epochs = effort.epochs(effort.policy_updates, n_rows, self.batch_size)
        return replace(self, epochs=min(self.epochs, epochs))


class Networks(NamedTuple):
    """What is trained together."""

    logits: Float[Array, "picks actions"]
    classifier: MLP


class _State(NamedTuple):
    networks: Networks
    optimiser: Any
    plateau: Plateau
    best_soft: Networks  # at this temperature, by the validation loss of relaxed choices
    epoch: Int[Array, ""]  # at this temperature
    stage: Int[Array, ""]  # the number of the temperature
    best: Networks  # of all temperatures, by the validation loss of hard choices
    best_loss: Float[Array, ""]


@register(
    "concrete",
    summary="A fixed set: a concrete autoencoder's choice for a classifier.",
    settings=Settings,
    label="concrete autoencoder",
    kind="baseline",
    family="static",
    use_when="A fixed set of many actions, of which static cannot try all sets.",
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
) -> Policy:
    """Train picks and classifier together, temperature by temperature.

    Takes what every method takes (see `Method`). `predictor` is not used: the classifier is another one.
    """
    del predictor, pretrained, state
    train, valid = (table.with_cells(table.x, table.available) for table in (train, valid))
    choosing, building, learning = jr.split(key, 3)
    shape = (training_steps(settings, problem, protocol), problem.n_actions)
    classifier = MLP((problem.n_features, *settings.hidden, problem.n_classes), key=building)
    networks = Networks(jr.normal(choosing, shape), classifier)
    weights = class_weights(train.y, problem.n_classes)
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

    def mean_loss(
        networks: Networks, key: PRNGKeyArray, rows: Table, temperature: float | Float[Array, ""]
    ) -> Float[Array, ""]:
        logits = jnp.broadcast_to(networks.logits[None], (len(rows.y), *shape))
        choice = concrete(key, logits, settings.logit_scale, jnp.asarray(temperature))
        losses = cross_entropy(networks.classifier(rows.x * passed(choice, problem)), rows.y, weights)
        return losses.sum() / weights[rows.y].sum()

    def one_epoch(state: _State) -> _State:
        epoch_key = jr.fold_in(jr.fold_in(learning, state.stage), state.epoch)
        stepping, softly, hardly = jr.split(epoch_key, 3)
        temperature = temperatures[state.stage]

        def step(carry: tuple[Networks, Any], key: PRNGKeyArray, rows: Array) -> tuple[Networks, Any]:
            gradient = jax.grad(mean_loss)(carry[0], key, train.take(rows), temperature)
            return descend(gradient, carry[1], carry[0], state.plateau.learning_rate)

        begun = (state.networks, state.optimiser)
        trained, optimiser = epoch(stepping, begun, step, train, settings.batch_size)
        networks = trained._replace(logits=without_repeats(trained.logits))
        soft = mean_loss(networks, softly, valid, temperature)
        hard = mean_loss(networks, hardly, valid, _HARD)
        return _after(state, networks, optimiser, soft, hard, settings)

    # One loop over all temperatures, so that replicates under vmap wait for each other only at the end.
    last = jax.lax.while_loop(lambda s: s.stage < len(settings.temperatures), one_epoch, start)
    return Static(order(last.best.logits))


def _after(
    state: _State,
    networks: Networks,
    optimiser: Any,
    soft: Float[Array, ""],
    hard: Float[Array, ""],
    settings: Settings,
) -> _State:
    """Keep the best, and move to the next temperature once patience is used up."""
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


def passed(choice: Float[Array, "rows picks actions"], problem: Problem) -> Float[Array, "rows features"]:
    """How much of each feature relaxed choices let through: all of what is known from the start."""
    revealed = jnp.clip(choice @ problem.reveals.astype(jnp.float32), 0.0, 1.0)
    return jnp.maximum(jnp.max(revealed, axis=1), problem.known[None])


def without_repeats(logits: Float[Array, "picks actions"]) -> Float[Array, "picks actions"]:
    """Let picks whose favourite is that of an earlier one start again, with equal logits."""
    favourite = jnp.argmax(logits, axis=1)
    earlier = jnp.tri(len(favourite), k=-1, dtype=bool)
    repeats = jnp.any((favourite[:, None] == favourite[None]) & earlier, axis=1)
    return jnp.where(repeats[:, None], 0.0, logits)


def order(logits: Float[Array, "picks actions"]) -> Float[Array, " actions"]:
    """The place of each action: first the favourites of the picks, then the others, each by number."""
    n_actions = logits.shape[1]
    chosen: Bool[Array, " actions"] = jnp.zeros(n_actions, bool).at[jnp.argmax(logits, axis=1)].set(True)
    return jnp.arange(n_actions) + jnp.where(chosen, 0.0, n_actions)
