"""OL (opportunistic learning): a double-DQN agent rewarded by the change of the prediction per cost.

After Kachuee, Goldstein, Karkkainen, Darabi and Sarrafzadeh (2019). The prediction is the mean over dropout
masks of a classifier, whose hidden layers the agent's network also sees.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from ascertain._core import training
from ascertain._core.hashing import mix
from ascertain._core.networks import MLP, Linear, dropout_masks, seed_of
from ascertain._core.settings import AtOnce, Count, ShareBelowOne, Size
from ascertain._core.training import Batch, Schedule, class_weights, cross_entropy
from ascertain.acquisition import Environment, Slots, Transitions, View, choice_costs
from ascertain.methods._dqn import DQNSettings, explore, lambda_returns, next_values, polyak, td_loss
from ascertain.methods._dropout_passes import fits_kernel, mean_probability
from ascertain.methods._pretraining import SCHEDULE, mask_inputs, random_rate, random_subset
from ascertain.methods._registry import Cost, State, register
from ascertain.methods._replay import Replay
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_PASSES_AT_ONCE = 25  # dropout passes computed together: enough to be fast, few enough for a cache

_PRETRAINING = replace(SCHEDULE, min_delta=1e-3)
_REPLAY_SALT = 0x5BD1E995
_LEAST_COST = 1e-4  # of free actions, in units of the mean price


@dataclass(frozen=True)
class Settings(DQNSettings):
    """Architecture and training of OL; the defaults are the paper's."""

    batches: Count = 2000
    hidden: tuple[Size, Size, Size] = (64, 32, 16)
    dropout: ShareBelowOne = 0.5
    confidence_passes: AtOnce = 100  # dropout masks that a prediction is averaged over
    replay_slices: Count = 100_000
    sampled_slices: AtOnce = 512
    pretraining: Schedule = _PRETRAINING


class QNetwork(eqx.Module):
    """Q values; each layer also gets the classifier's hidden activations."""

    layers: tuple[Linear, Linear, Linear, Linear]

    def __init__(self, n_inputs: int, n_choices: int, hidden: tuple[int, int, int], *, key: PRNGKeyArray):
        first, second, third = hidden
        w1 = first
        w2 = first * second // (first + w1)
        w3 = second * third // (second + w2)
        sizes = ((n_inputs, w1), (w1 + first, w2), (w2 + second, w3), (w3 + third, n_choices))
        keys = jr.split(key, 4)
        a, b, c, d = (Linear(*size, key=k) for size, k in zip(sizes, keys, strict=True))
        self.layers = (a, b, c, d)

    def __call__(
        self, inputs: Float[Array, "batch inputs"], hidden: list[Float[Array, "batch _"]]
    ) -> Float[Array, "batch choices"]:
        """Q of each choice; no gradient flows into the classifier."""
        out = self.layers[0](inputs)
        for layer, beside in zip(self.layers[1:], hidden, strict=True):
            out = layer(jnp.concatenate([jax.nn.relu(out), jax.lax.stop_gradient(beside)], axis=1))
        return out


class OL(Policy):
    """The fitted policy, with its own classifier."""

    own: MLP
    q: QNetwork
    sees_availability: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the value of each action; OL never stops by itself."""
        del key
        q = self.values(View(x, observed, available & ~acquired))
        return q.at[:, 0].set(-jnp.inf)

    def values(self, view: View) -> Float[Array, "batch choices"]:
        """Q of each choice, without dropout."""
        inputs = mask_inputs(view.x, view.observed)
        hidden = _hidden(self.own, inputs)
        if self.sees_availability:
            inputs = jnp.concatenate([inputs, view.open.astype(inputs.dtype)], axis=1)
        return self.q(inputs, hidden)


def pretrain(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    protocol: Protocol = PAPER,
) -> MLP:
    """Train the classifier on random subsets of the features."""
    building, learning = jr.split(key)
    weights = class_weights(train.y, problem.n_classes)

    def seen(table: Table, kept: Bool[Array, "rows features"]) -> Bool[Array, "rows features"]:
        # The reference takes missing cells for observed zeros here.
        return kept if protocol.ol_availability == "ignore" else kept & table.available

    def loss(own: MLP, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        choosing, hiding, dropping = jr.split(key, 3)
        rows = train.take(batch.rows)
        kept = random_subset(hiding, problem, protocol, len(batch.rows), random_rate(choosing))
        losses = _dropped_out_loss(own, dropping, rows.x, seen(rows, kept), rows.y, weights, settings)
        return jnp.sum(batch.weight * losses)

    def validate(own: MLP, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        everything = jnp.ones_like(valid.available)
        logits = own(mask_inputs(valid.x, seen(valid, everything)))
        return jnp.mean(cross_entropy(logits, valid.y, weights))

    own = MLP((2 * problem.n_features, *settings.hidden, problem.n_classes), key=building)
    return training.train(
        learning,
        own,
        loss,
        validate,
        train.n_instances,
        settings.pretraining,
        settings.learning_rate,
        completions=train.completions,
    )


class _Learner(NamedTuple):
    policy: OL
    target: OL
    agent_optimiser: Any
    own_optimiser: Any
    slots: Slots
    replay: Replay


@register(
    "ol",
    summary="Opportunistic learning: double DQN rewarded by the change of the prediction per cost.",
    settings=Settings,
    label="OL",
    color="#976800",
    kind="intermediate",
    family="reinforcement learning",
    use_when="To compare with the literature; often the best of the reinforcement learners.",
    costs={"gpu": Cost(0.6, 0.036, 17, 12e6), "cpu": Cost(0.0, 14.0, 10, 12e6)},
    pretraining_costs={"gpu": Cost(0.7, 0.03, 10), "cpu": Cost(0.0, 3.0, 5)},
    pretrain=pretrain,
    states=("s", "sm"),
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
) -> OL:
    """Pretrain (unless given), then train agent and classifier jointly.

    Takes what every method takes (see `Method`). `predictor` is not used: OL is rewarded by its own
    classifier.
    """
    del predictor
    pretraining, building, shuffling, acting = jr.split(key, 4)
    if pretrained is None:
        pretrained = pretrain(pretraining, problem, train, valid, settings=settings, protocol=protocol)
    sees = state == "sm"
    n_inputs = 2 * problem.n_features + (problem.n_actions if sees else 0)
    q = QNetwork(n_inputs, problem.n_actions + 1, settings.hidden, key=building)
    policy = OL(pretrained, q, sees)
    environment = Environment(shuffling, problem, train, protocol)
    adam = optax.adam(settings.learning_rate)
    weights = class_weights(train.y, problem.n_classes)
    kept_batches = max(1, min(settings.replay_slices // settings.slots, settings.batches))
    start = _Learner(
        policy,
        policy,
        adam.init(q),
        adam.init(pretrained),
        environment.start(settings.slots),
        Replay.empty(kept_batches, settings.slots, settings.steps, problem.n_actions),
    )

    def batch(learner: _Learner, number: Array) -> tuple[_Learner, None]:
        return _learn(jr.fold_in(acting, number), learner, number, environment, settings, weights), None

    learner, _ = jax.lax.scan(batch, start, jnp.arange(settings.batches))
    return learner.policy


def _learn(
    key: PRNGKeyArray,
    learner: _Learner,
    number: Int[Array, ""],
    environment: Environment,
    settings: Settings,
    weights: Float[Array, " classes"],
) -> _Learner:
    """Collect a batch; update agent (on replayed slices), target networks and classifier, in this order."""
    policy, epsilon = learner.policy, settings.epsilon(number)
    acting, trusting, dropping = jr.split(key, 3)

    def choose(key: PRNGKeyArray, row: Array, acquired: Array) -> tuple[Array, None]:
        q = policy.values(environment.view(row, acquired))
        return explore(key, q, environment.legal(row, acquired), epsilon), None

    slots, frames, _ = environment.collect(acting, learner.slots, choose, settings.steps)
    seen = environment.transitions(frames)
    cost = jnp.maximum(choice_costs(environment.problem, frames.acquired, frames.choice), _LEAST_COST)
    change = confidence_change(trusting, policy.own, seen, settings)
    replay = learner.replay.push(number, frames, change.reshape(cost.shape) / cost)
    adam = optax.adam(settings.learning_rate)
    gradient = jax.grad(_agent_loss)(policy.q, policy, learner.target, replay, number, environment, settings)
    q_update, agent_optimiser = adam.update(gradient, learner.agent_optimiser)
    policy = eqx.tree_at(lambda p: p.q, policy, optax.apply_updates(policy.q, q_update))
    target = polyak(learner.target, policy, settings.target_rate)

    def own_loss(own: MLP) -> Float[Array, ""]:
        after = seen.after
        return jnp.mean(_dropped_out_loss(own, dropping, after.x, after.observed, seen.y, weights, settings))

    own_update, own_optimiser = adam.update(jax.grad(own_loss)(policy.own), learner.own_optimiser)
    policy = eqx.tree_at(lambda p: p.own, policy, optax.apply_updates(policy.own, own_update))
    return _Learner(policy, target, agent_optimiser, own_optimiser, slots, replay)


def _agent_loss(
    q: QNetwork,
    policy: OL,
    target: OL,
    replay: Replay,
    number: Int[Array, ""],
    environment: Environment,
    settings: Settings,
) -> Float[Array, ""]:
    """The squared error against TD(lambda) targets on replayed slices."""
    n_actions = environment.problem.n_actions
    seed = mix(environment.seed ^ jnp.uint32(_REPLAY_SALT))  # another than that of the environment
    sample = replay.sample(seed, number, settings.sampled_slices, settings.slots, n_actions)
    seen = environment.transitions(sample.frames)
    value = next_values(policy.values(seen.after), target.values(seen.after), seen.legal_after)
    done = sample.frames.done
    goal = lambda_returns(sample.reward, done, value.reshape(done.shape), settings.td_lambda)
    weight = jnp.broadcast_to(sample.weight[None] / len(done), done.shape)
    values = eqx.tree_at(lambda p: p.q, policy, q).values(seen.before)
    return td_loss(values, seen.choice, goal.reshape(-1), weight.reshape(-1))


def confidence_change(
    key: PRNGKeyArray, own: MLP, seen: Transitions, settings: Settings
) -> Float[Array, " batch"]:
    """The L1 distance of the predictions before and after each step, two independent Monte Carlo means."""
    states = jax.tree.map(lambda *both: jnp.concatenate(both), seen.before, seen.after)
    trusted = confidence(key, own, mask_inputs(states.x, states.observed), settings)
    before, after = jnp.split(trusted, 2)
    return jnp.sum(jnp.abs(before - after), axis=1)


def confidence(
    key: PRNGKeyArray, own: MLP, inputs: Float[Array, "batch inputs"], settings: Settings
) -> Float[Array, "batch classes"]:
    """The classifier's mean probabilities over dropout masks; the layer before the first is computed once."""
    first, *others = own.layers
    hidden, rest = jax.nn.relu(first(inputs)), tuple(others)
    passes = settings.confidence_passes
    at_once = min(_PASSES_AT_ONCE, passes)
    rounds = jr.split(key, -(-passes // at_once))
    keys = jax.vmap(lambda k: jr.split(k, len(rest)))(rounds)

    def in_rounds(hidden: Array, rest: tuple[Linear, ...], keys: Array) -> Array:
        return _mean_probability(hidden, rest, keys, at_once, settings)

    def in_kernel(hidden: Array, rest: tuple[Linear, ...], keys: Array) -> Array:
        return mean_probability(hidden, rest, jax.vmap(jax.vmap(seed_of))(keys), passes, at_once)

    if not fits_kernel(rest, settings.dropout):
        return in_rounds(hidden, rest, keys)
    mean: Array = jax.lax.platform_dependent(hidden, rest, keys, cuda=in_kernel, default=in_rounds)
    return mean


def _mean_probability(
    hidden: Float[Array, "batch units"],
    layers: tuple[Linear, ...],
    keys: Key[Array, "rounds layers"],
    at_once: int,
    settings: Settings,
) -> Float[Array, "batch classes"]:
    """The mean over dropout masks; `keys` has one for every round of passes and every layer."""

    def some_passes(total: Array, turn: tuple[Array, Array]) -> tuple[Array, None]:
        keys, wanted = turn
        out = jnp.broadcast_to(hidden[None], (at_once, *hidden.shape))
        for layer, k in zip(layers, keys, strict=True):
            kept = dropout_masks(k, settings.dropout, out.shape)
            out = layer(jax.nn.relu(jnp.where(kept, out / (1 - settings.dropout), 0.0)))
        probability = jax.nn.softmax(out) * wanted[:, None, None]
        return total + probability.sum(axis=0), None

    # The last round may count fewer passes than it computes.
    wanted = (jnp.arange(len(keys) * at_once) < settings.confidence_passes).reshape(-1, at_once)
    nothing = jnp.zeros((hidden.shape[0], layers[-1].bias.shape[0]))
    total, _ = jax.lax.scan(some_passes, nothing, (keys, wanted))
    return total / settings.confidence_passes


def _hidden(own: MLP, inputs: Float[Array, "batch inputs"]) -> list[Float[Array, "batch _"]]:
    """The classifier's hidden activations, without dropout."""
    activations = []
    for layer in own.layers[:-1]:
        inputs = jax.nn.relu(layer(inputs))
        activations.append(inputs)
    return activations


def _dropped_out_loss(
    own: MLP,
    key: PRNGKeyArray,
    x: Float[Array, "batch features"],
    observed: Bool[Array, "batch features"],
    y: Int[Array, " batch"],
    weights: Float[Array, " classes"],
    settings: Settings,
) -> Float[Array, " batch"]:
    shapes = zip(jr.split(key, len(settings.hidden)), settings.hidden, strict=True)
    keep = [dropout_masks(k, settings.dropout, (len(x), width)) for k, width in shapes]
    logits = own(mask_inputs(x, observed), keep=keep, dropout=settings.dropout)
    return cross_entropy(logits, y, weights)
