"""SEFA: every action is encoded as noise of its own, and scored by how much the prediction depends on it.

After Norcliffe, Lee, Imrie, van der Schaar and Lio (2025), stochastic encodings for feature acquisition. An
encoder for each action maps what is observed of it to a normal distribution of a few latent components; an
action that was not acquired stays near a standard normal. A predictor on all components is trained through
random subsets of the actions, with a penalty on how far encodings are from standard normal. To acquire, it
draws components given what is observed, so that all actions vary at once: an action is worth acquiring if
the gradient of a likely class with respect to its components is a large share of the whole gradient. Hence
an action that only tells which others matter can come first, though it says nothing by itself.

The original is for single features at equal prices. Here an action that reveals several features has one
encoder for them, features known from the start have one that no action acquires, and scores are divided by
prices. The original has batch normalisation. Here training begins with little noise and without the penalty,
and goes on with it from there: otherwise actions that help only together are never used.
Also our own choices: class weights, as in all other methods here; fewer draws in training; validation by the
loss on random subsets, which is quicker than acquiring on all rows, and early stopping by it; and draws for
acting that are made once, so that a row's scores never change.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core import training
from ascertain._core.effort import Effort
from ascertain._core.networks import MLP
from ascertain._core.settings import Amount, AtOnce, Positive, Size, Sizes
from ascertain._core.training import Batch, Schedule, class_weights
from ascertain.methods._greedy import positive_prices
from ascertain.methods._pretraining import mask_inputs, random_subset
from ascertain.methods._registry import State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_LEAST_DEVIATION = 1e-3  # of latent components
# At first, components vary more between rows than between draws.
_MEAN_SCALE, _FIRST_WIDTH = 3.0, -2.0
_LEAST_GRADIENT = 1e-20  # in a share's denominator

# At most 60,000 batches: the paper's 120 epochs of 60,000 rows.
_SCHEDULE = Schedule(
    batch_size=128, batches_per_round=100, max_rounds=600, track_from=500, stop_from=500, patience=10
)


@dataclass(frozen=True)
class Settings:
    """Architecture and training of SEFA; sizes, penalty and draws are one of the paper's configurations.

    Only `training_draws` and `schedule` are ours: the paper has 100 draws and 120 epochs.
    """

    latent: Size = 4  # components of each action
    encoder: Sizes = (20, 20)  # hidden layers for each action
    hidden: Sizes = (100, 100)  # of the predictor
    bottleneck: Amount = 1e-3  # beta: the weight of the divergence from standard normal components
    training_draws: AtOnce = 20
    draws: AtOnce = 200  # when acting
    learning_rate: Positive = 1e-3
    schedule: Schedule = _SCHEDULE  # without the penalty, and again with it

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train for at most as many rounds as an effort allows."""
        del n_rows
        rounds = min(self.schedule.max_rounds, effort.pretraining_rounds // 2)
        return replace(self, schedule=replace(self.schedule, max_rounds=rounds))


class Blocks(eqx.Module):
    """An affine layer for each group, initialised as a single one of so many inputs would be."""

    weight: Float[Array, "groups inputs outputs"]
    bias: Float[Array, "groups outputs"]

    def __init__(
        self, n_inputs: int, n_outputs: int, inputs_used: Float[Array, " groups"], *, key: PRNGKeyArray
    ):
        weight_key, bias_key = jr.split(key)
        n_groups, bound = len(inputs_used), inputs_used[:, None] ** -0.5
        weight = jr.uniform(weight_key, (n_groups, n_inputs, n_outputs), minval=-1.0)
        self.weight = bound[..., None] * weight
        self.bias = bound * jr.uniform(bias_key, (n_groups, n_outputs), minval=-1.0)

    def __call__(self, x: Float[Array, "rows groups inputs"]) -> Float[Array, "rows groups outputs"]:
        """Apply each layer to the inputs of its group."""
        return jnp.einsum("rgi,gio->rgo", x, self.weight) + self.bias[None]


class SEFANetworks(eqx.Module):
    """An encoder for each group of features, and a predictor on all latent components."""

    groups: Bool[Array, "groups features"]  # what each action reveals, then what is known from the start
    encoders: tuple[Blocks, ...]  # layer by layer
    predictor: MLP

    def __init__(self, problem: Problem, settings: Settings, *, key: PRNGKeyArray):
        encoding, predicting = jr.split(key)
        self.groups = jnp.concatenate([problem.reveals, problem.known[None]])
        n_groups, n_features = self.groups.shape
        sizes = (2 * n_features, *settings.encoder, 2 * settings.latent)
        used = [jnp.full(n_groups, float(size)) for size in sizes[:-1]]
        used[0] = jnp.maximum(2.0 * self.groups.sum(axis=1), 1.0)
        layers = zip(pairwise(sizes), used, jr.split(encoding, len(used)), strict=True)
        self.encoders = tuple(Blocks(*pair, inputs, key=k) for pair, inputs, k in layers)
        predictor_sizes = (n_groups * settings.latent, *settings.hidden, problem.n_classes)
        self.predictor = MLP(predictor_sizes, key=predicting)

    def encode(
        self, x: Float[Array, "rows features"], observed: Bool[Array, "rows features"]
    ) -> tuple[Float[Array, "rows groups latent"], Float[Array, "rows groups latent"]]:
        """The means and standard deviations of the latent components."""
        first, *others = self.encoders
        own = jnp.where(jnp.tile(self.groups, (1, 2))[..., None], first.weight, 0.0)
        out = jnp.einsum("ri,gio->rgo", mask_inputs(x, observed), own) + first.bias[None]
        for layer in others:
            out = layer(jax.nn.relu(out))
        mean, width = jnp.split(out, 2, axis=-1)
        return _MEAN_SCALE * mean, jax.nn.softplus(width + _FIRST_WIDTH) + _LEAST_DEVIATION

    def log_probability(self, z: Float[Array, "*batch groups latent"]) -> Float[Array, "*batch classes"]:
        """The log-probabilities of the classes; a group without features is ignored."""
        some = jnp.any(self.groups, axis=1)[:, None]
        used = jnp.where(jnp.expand_dims(some, range(z.ndim - 2)), z, 0.0)
        return jax.nn.log_softmax(self.predictor(used.reshape(*z.shape[:-2], -1)))


class SEFA(Policy):
    """The fitted policy, with the draws that it scores by."""

    networks: SEFANetworks
    noise: Float[Array, "draws groups latent"]
    problem: Problem

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the expected share of the gradient per price."""
        del available, key
        relevance = relevances(self.networks, self.noise, x, observed)
        scores = relevance[:, : acquired.shape[1]] / positive_prices(self.problem, acquired)
        return jnp.concatenate([jnp.full((len(x), 1), -jnp.inf), scores], axis=1)


def relevances(
    networks: SEFANetworks,
    noise: Float[Array, "draws groups latent"],
    x: Float[Array, "rows features"],
    observed: Bool[Array, "rows features"],
) -> Float[Array, "rows groups"]:
    """Each group's mean share of the gradient of a class's probability, over draws and predicted classes."""
    mean, deviation = networks.encode(x, observed)
    n_rows, n_groups, _ = mean.shape
    n_classes = networks.predictor.layers[-1].bias.shape[0]
    each_class = jnp.broadcast_to(jnp.eye(n_classes)[:, None], (n_classes, n_rows, n_classes))

    def add_draw(sums: tuple[Array, Array], noise: Array) -> tuple[tuple[Array, Array], None]:
        # The gradient of the logarithm differs by a factor that cancels in a share, and does not vanish.
        log_probability, pull = jax.vjp(networks.log_probability, mean + deviation * noise[None])
        (gradient,) = jax.vmap(pull)(each_class)
        length = jnp.linalg.norm(gradient, axis=-1)
        share = length / jnp.maximum(length.sum(axis=-1, keepdims=True), _LEAST_GRADIENT)
        return (sums[0] + share, sums[1] + jnp.exp(log_probability)), None

    nothing = (jnp.zeros((n_classes, n_rows, n_groups)), jnp.zeros((n_rows, n_classes)))
    (share, probability), _ = jax.lax.scan(add_draw, nothing, noise)
    return jnp.einsum("crg,rc->rg", share, probability) / len(noise) ** 2


def divergence(
    mean: Float[Array, "rows groups latent"], deviation: Float[Array, "rows groups latent"]
) -> Float[Array, " rows"]:
    """The Kullback-Leibler divergence of each row's components from independent standard normal ones."""
    return jnp.sum(0.5 * (deviation**2 + mean**2 - 1) - jnp.log(deviation), axis=(1, 2))


@register(
    "sefa",
    summary="Stochastic encodings: what a likely class's probability depends on most, per cost.",
    settings=Settings,
    label="SEFA",
    kind="other",
    family="greedy",
    use_when="Some measurements only tell which others matter, and reinforcement learning is too unsteady.",
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
) -> SEFA:
    """Train encoders and predictor together on random subsets of the actions.

    Takes what every method takes (see `Method`). `predictor` is not used: SEFA trains its own.
    """
    del predictor, pretrained, state
    building, learning, validating, drawing = jr.split(key, 4)
    weights = class_weights(train.y, problem.n_classes)
    weights = weights / jnp.mean(weights[train.y])  # of mean one, so that the penalty weighs as in the paper

    def losses(
        networks: SEFANetworks, key: PRNGKeyArray, rows: Table, bottleneck: Float[Array, ""]
    ) -> Float[Array, " rows"]:
        rating, hiding, noising = jr.split(key, 3)
        rate = jr.uniform(rating, (len(rows.y), 1))
        kept = random_subset(hiding, problem, protocol, len(rows.y), rate)
        observed = kept & problem.observed(problem.readable(rows.available))
        mean, deviation = networks.encode(rows.x, observed)
        noise = jr.normal(noising, (settings.training_draws, *mean.shape))
        log_probability = networks.log_probability(mean[None] + deviation[None] * noise)
        likelihood = weights[rows.y] * mean_log_likelihood(log_probability, rows.y)
        return bottleneck * divergence(mean, deviation) - likelihood

    def stage(
        networks: SEFANetworks, inputs: tuple[PRNGKeyArray, Float[Array, ""]]
    ) -> tuple[SEFANetworks, None]:
        key, bottleneck = inputs

        def loss(networks: SEFANetworks, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
            return jnp.sum(batch.weight * losses(networks, key, train.take(batch.rows), bottleneck))

        def validate(networks: SEFANetworks, key: PRNGKeyArray) -> Float[Array, ""]:
            del key  # the same subsets and draws in every round
            return jnp.mean(losses(networks, validating, valid, bottleneck))

        trained = training.train(
            key,
            networks,
            loss,
            validate,
            train.n_instances,
            settings.schedule,
            settings.learning_rate,
            completions=train.completions,
        )
        return trained, None

    networks = SEFANetworks(problem, settings, key=building)
    bottlenecks = jnp.asarray([0.0, settings.bottleneck])
    networks, _ = jax.lax.scan(stage, networks, (jr.split(learning, 2), bottlenecks))
    noise = jr.normal(drawing, (settings.draws, len(networks.groups), settings.latent))
    return SEFA(networks, noise, problem.without_names())


def mean_log_likelihood(
    log_probability: Float[Array, "draws rows classes"], y: Int[Array, " rows"]
) -> Float[Array, " rows"]:
    """The logarithm of the true class's mean probability over draws."""
    right = jnp.take_along_axis(log_probability, y[None, :, None], axis=2)[..., 0]
    return jax.nn.logsumexp(right, axis=0) - math.log(len(right))
