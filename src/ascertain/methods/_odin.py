"""ODIN, model-free: an actor and a critic on the latent code of a frozen Partial VAE.

After Zannone, Hernandez-Lobato, Zhang and Palla (2019). Every step is rewarded by the probability that the
VAE's classifier gives to the true class, so longer episodes collect more.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.networks import LOWEST, Linear
from ascertain._core.settings import Amount, Positive
from ascertain.acquisition import Environment, Frames, Slots, mean_price
from ascertain.methods._dqn import EpisodeSettings, lambda_returns
from ascertain.methods._registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import _pvae as pvae


@dataclass(frozen=True)
class Settings(EpisodeSettings):
    """Training of ODIN; the defaults are the paper's."""

    clip: Positive = 0.2
    critic_weight: Amount = 1.0
    entropy_weight: Amount = 0.01
    cost_weight: Amount | None = None  # of costs in the reward, for soft budgets; None = hard budget
    vae: pvae.Settings = field(default_factory=pvae.Settings)

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Train on the share of the batches that an effort allows, and shorten the VAE's training too."""
        batches = max(1, round(effort.share_of_batches * self.batches))
        return replace(self, batches=batches, vae=self.vae.shortened(effort, n_rows))


class ODIN(Policy):
    """The fitted policy, with the VAE that encodes rows."""

    vae: pvae.PVAE
    actor: Linear
    critic: Linear
    sees_availability: bool = eqx.field(static=True)
    may_stop: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the logit of each choice."""
        del key
        labels = jnp.zeros((x.shape[0], self.vae.n_classes))
        points = jnp.concatenate([x, labels], axis=1)
        visible = jnp.concatenate([observed, labels > 0], axis=1)
        logits = self.actor(self.inputs(self.vae.encode(points, visible).mean, available & ~acquired))
        return logits if self.may_stop else logits.at[:, 0].set(-jnp.inf)

    def inputs(
        self, code: Float[Array, "*batch latent"], open_actions: Bool[Array, "*batch actions"]
    ) -> Float[Array, "*batch inputs"]:
        """The inputs of actor and critic."""
        if not self.sees_availability:
            return code
        return jnp.concatenate([code, open_actions.astype(code.dtype)], axis=-1)


def pretrain(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    protocol: Protocol = PAPER,
) -> pvae.PVAE:
    """Fit the Partial VAE, as the restorer of the same table does."""
    del protocol
    return pvae.fit_pvae(key, problem, train, valid, settings.vae)


class _Learner(NamedTuple):
    actor: Linear
    critic: Linear
    optimiser: Any
    slots: Slots


class _Chosen(NamedTuple):
    """What is kept of acting, to learn from."""

    inputs: Float[Array, "steps slots inputs"]
    legal: Bool[Array, "steps slots choices"]
    log_probability: Float[Array, "steps slots"]


@register(
    "odin",
    summary="Actor-critic on the latent code of a Partial VAE; rewarded by the true class's probability.",
    settings=Settings,
    label="ODIN",
    color="#6F69AF",
    kind="intermediate",
    family="reinforcement learning",
    use_when="To compare with the literature; starts from a generative model of the rows.",
    stops="if it is fitted with a cost_weight",
    costs={"gpu": Cost(0.7, 0.02, 10, 6e6), "cpu": Cost(0.0, 6.0, 7, 6e6)},
    pretrain=pretrain,
    shares=pvae.MODEL,
    states=("s", "sm"),
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: pvae.PVAE | None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> ODIN:
    """Train the VAE (unless given), then actor and critic on its code.

    Takes what every method takes (see `Method`). `predictor` is not used: ODIN is rewarded by the VAE's own
    classifier.
    """
    del predictor
    pretraining, building, criticising, shuffling, acting = jr.split(key, 5)
    if pretrained is None:
        pretrained = pretrain(pretraining, problem, train, valid, settings=settings, protocol=protocol)
    may_stop, sees = settings.cost_weight is not None, state == "sm"
    environment = Environment(shuffling, problem, train, protocol, may_stop=may_stop)
    latent = pretrained.decoder.layers[0].weight.shape[0]
    n_inputs = latent + (problem.n_actions if sees else 0)
    actor = Linear(n_inputs, problem.n_actions + 1, key=building)
    critic = Linear(n_inputs, 1, key=criticising)
    policy = ODIN(pretrained, actor, critic, sees, may_stop)
    parts = point_parts(pretrained, train.x)
    adam = optax.adam(settings.learning_rate)
    start = _Learner(actor, critic, adam.init((actor, critic)), environment.start(settings.slots))

    def batch(learner: _Learner, number: Array) -> tuple[_Learner, None]:
        current = eqx.tree_at(lambda p: (p.actor, p.critic), policy, (learner.actor, learner.critic))
        return _learn(jr.fold_in(acting, number), current, learner, environment, parts, settings), None

    learner, _ = jax.lax.scan(batch, start, jnp.arange(settings.batches))
    return eqx.tree_at(lambda p: (p.actor, p.critic), policy, (learner.actor, learner.critic))


def _learn(
    key: PRNGKeyArray,
    policy: ODIN,
    learner: _Learner,
    environment: Environment,
    parts: Float[Array, "instances features pooled"],
    settings: Settings,
) -> _Learner:
    """Collect a batch; update actor and critic on it once."""

    def choose(key: PRNGKeyArray, row: Array, acquired: Array) -> tuple[Array, _Chosen]:
        view = environment.view(row, acquired)
        inputs = policy.inputs(latent_code(policy.vae, parts[row], view.observed), view.open)
        legal = environment.legal(row, acquired)
        log_probability = log_probabilities(policy.actor(inputs), legal)
        choice = jr.categorical(key, log_probability)
        return choice, _Chosen(inputs, legal, chosen(log_probability, choice))

    slots, frames, acted = environment.collect(key, learner.slots, choose, settings.steps)
    seen = environment.transitions(frames)
    code = latent_code(policy.vae, parts[frames.row.reshape(-1)], seen.after.observed)
    probability = jax.nn.softmax(policy.vae.classifier(code))
    right = jnp.take_along_axis(probability, seen.y[:, None], axis=1).reshape(frames.done.shape)
    reward = right - _charge(environment.problem, frames, settings)
    next_value = policy.critic(policy.inputs(code, seen.after.open)).reshape(frames.done.shape)
    goal = lambda_returns(reward, frames.done, next_value, settings.td_lambda)

    def loss(networks: tuple[Linear, Linear]) -> Float[Array, ""]:
        actor, critic = networks
        value = critic(acted.inputs)[..., 0]
        log_probability = log_probabilities(actor(acted.inputs), acted.legal)
        advantage = jax.lax.stop_gradient(goal - value)
        picked = chosen(log_probability, frames.choice)
        return (
            actor_loss(picked, acted.log_probability, advantage, settings.clip)
            + settings.critic_weight * critic_loss(value, goal)
            - settings.entropy_weight * mean_entropy(log_probability, acted.legal)
        )

    networks = (policy.actor, policy.critic)
    gradient = jax.grad(loss)(networks)
    update, optimiser = optax.adam(settings.learning_rate).update(gradient, learner.optimiser)
    actor, critic = optax.apply_updates(networks, update)
    return _Learner(actor, critic, optimiser, slots)


def _charge(problem: Problem, frames: Frames, settings: Settings) -> Float[Array, "steps slots"]:
    """With a soft budget, every step pays for all that has been acquired by then."""
    if settings.cost_weight is None:
        return jnp.zeros(frames.done.shape)
    after = frames.acquired | jax.nn.one_hot(frames.choice - 1, problem.n_actions, dtype=bool)
    return settings.cost_weight * problem.total_cost(after) / mean_price(problem)


def log_probabilities(
    logits: Float[Array, "*batch choices"], legal: Bool[Array, "*batch choices"]
) -> Float[Array, "*batch choices"]:
    """The log-probabilities of the legal choices; those of the others are very low."""
    return jax.nn.log_softmax(jnp.where(legal, logits, LOWEST))


def actor_loss(
    log_probability: Float[Array, "*batch"],
    old_log_probability: Float[Array, "*batch"],
    advantage: Float[Array, "*batch"],
    clip: float,
) -> Float[Array, ""]:
    """Minus the clipped objective of PPO."""
    ratio = jnp.exp(log_probability - old_log_probability)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))


def critic_loss(value: Float[Array, "*batch"], target: Float[Array, "*batch"]) -> Float[Array, ""]:
    """The mean Huber loss: quadratic up to 1, linear beyond."""
    distance = jnp.abs(value - target)
    return jnp.mean(jnp.where(distance < 1, 0.5 * distance**2, distance - 0.5))


def mean_entropy(
    log_probability: Float[Array, "*batch choices"], legal: Bool[Array, "*batch choices"]
) -> Float[Array, ""]:
    """The mean entropy of the choices."""
    terms = jnp.where(legal, jnp.exp(log_probability) * log_probability, 0.0)
    return -jnp.mean(terms.sum(axis=-1))


def chosen(
    log_probability: Float[Array, "*batch choices"], choice: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The log-probability of each choice."""
    return jnp.take_along_axis(log_probability, choice[..., None], axis=-1)[..., 0]


def point_parts(
    vae: pvae.PVAE, x: Float[Array, "instances features"]
) -> Float[Array, "instances features pooled"]:
    """What each feature of each row adds to the frozen encoder's input.

    The encoder sums over points. So this is computed once, and encoding any subset is a masked sum.
    """
    directions = vae.embedding[: x.shape[1]] @ vae.point_hidden.weight

    def one_feature(feature: tuple[Array, Array]) -> Float[Array, "instances pooled"]:
        values, direction = feature
        return vae.point_out(jax.nn.relu(values[:, None] * direction[None] + vae.point_hidden.bias[None]))

    return jnp.moveaxis(jax.lax.map(one_feature, (x.T, directions)), 0, 1)


def latent_code(
    vae: pvae.PVAE,
    parts: Float[Array, "batch features pooled"],
    observed: Bool[Array, "batch features"],
) -> Float[Array, "batch latent"]:
    """The mean latent code of partially observed rows."""
    pooled = jnp.sum(jnp.where(observed[:, :, None], parts, 0.0), axis=1)
    mean, _ = jnp.split(vae.encoder(pooled), 2, axis=1)
    return mean
