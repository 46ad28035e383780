"""JAFA: a set encoder shared by a classifier and a double-DQN agent, trained jointly.

After Shim, Hwang and Yang (2018). The reward is the classifier's log-likelihood at the end of an episode.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core import kernels
from ascertain._core.networks import LOWEST, MLP
from ascertain._core.training import Batch, Schedule, class_weights, cross_entropy, train
from ascertain.acquisition import Environment, Frames, Slots, Transitions, choice_costs
from ascertain.methods.dqn import DQNSettings, explore, lambda_returns, next_values, polyak, td_loss
from ascertain.methods.pretraining import SCHEDULE, random_rate, random_subset
from ascertain.methods.registry import Cost, State, register
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_PRETRAINING = replace(SCHEDULE, min_delta=1e-2)


@dataclass(frozen=True)
class Settings(DQNSettings):
    """Architecture and training of JAFA; the defaults are the paper's."""

    hidden: tuple[int, ...] = (32, 32)
    embedding: int = 16
    process_steps: int = 5
    pretraining: Schedule = _PRETRAINING
    cost_weight: float | None = None  # soft budget: the price of cost in the reward; None = hard budget
    most_observed: int | None = None  # features in an episode; None = all. What is not observed is not read.

    def completed(self, problem: Problem, protocol: Protocol) -> "Settings":
        """Fill in how many features an episode can have observed."""
        if self.most_observed is not None or self.cost_weight is not None:
            return self
        # In the reference's reading the choice that the budget cannot pay is still made.
        n_actions = problem.most_acquisitions() + (protocol.affordability == "blind")
        revealed = np.sort(np.asarray(problem.reveals).sum(axis=1))[::-1][:n_actions].sum()
        most = int(revealed + np.asarray(problem.known).sum())
        return replace(self, most_observed=min(most, problem.n_features))


class LSTMCell(eqx.Module):
    """A long short-term memory cell; its arrays have rows last."""

    weight: Float[Array, "input_and_state gates"]
    bias: Float[Array, "two gates"]  # the reference has one for the input and one for the state

    def __init__(self, size: int, *, key: PRNGKeyArray):
        bound = size**-0.5
        drawn = jr.uniform(key, (2 * size + 2, 4 * size), minval=-bound, maxval=bound)
        self.weight, self.bias = drawn[:-2], drawn[-2:]

    def __call__(
        self, input_and_state: Float[Array, "input_and_state batch"], cell: Float[Array, "size batch"]
    ) -> tuple[Float[Array, "size batch"], Float[Array, "size batch"]]:
        """Give the next state and cell."""
        gates = self.weight.T @ input_and_state + self.bias.sum(axis=0)[:, None]
        admit, forget, candidate, expose = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(admit) * jnp.tanh(candidate)
        return jax.nn.sigmoid(expose) * jnp.tanh(cell), cell


class SetEncoder(eqx.Module):
    """Embeds the set of observed features, in no order: read, process by attention, write.

    Inside, arrays have rows last: sets and units are small, and only the rows make long vectors.
    """

    read: MLP
    process: LSTMCell
    write: MLP
    empty: Float[Array, " embedding"]  # of the empty set
    process_steps: int = eqx.field(static=True)

    def __init__(self, n_features: int, settings: Settings, *, key: PRNGKeyArray):
        reading, processing, writing = jr.split(key, 3)
        size = settings.embedding
        self.read = MLP((n_features + 1, *settings.hidden, size), key=reading)
        self.process = LSTMCell(size, key=processing)
        self.write = MLP((2 * size, *settings.hidden, size), key=writing)
        self.empty = jnp.zeros(size)
        self.process_steps = settings.process_steps

    def __call__(
        self,
        x: Float[Array, "batch features"],
        observed: Bool[Array, "batch features"],
        most: int | None = None,
    ) -> Float[Array, "batch embedding"]:
        """Embed the observed features of each row; there are at most `most` of them, if this is given."""
        known = _transposed(jnp.where(observed, x, 0.0))
        there = _transposed(observed.astype(x.dtype)) > 0
        names = self._names()
        if most is None or most >= len(known):
            return self._attend(self._memories(known, names[:, :, None]), there)
        # Each row's features move to the front, so that no more than these are read.
        place = jnp.cumsum(there, axis=0) - 1
        moved = (there[:, None] & (place[:, None] == jnp.arange(most)[None, :, None])).astype(x.dtype)
        names_moved = (names @ moved.reshape(len(known), -1)).reshape(-1, *moved.shape[1:])
        known = jnp.sum(moved * known[:, None], axis=0)
        return self._attend(self._memories(known, names_moved), jnp.any(moved > 0, axis=0))

    def _names(self) -> Float[Array, "units features"]:
        """Give what the first layer makes of a feature's one-hot number."""
        first = self.read.layers[0]
        return (first.weight[1:] + first.bias[None]).T

    def _memories(
        self, x: Float[Array, "features batch"], names: Float[Array, "units features _"]
    ) -> Float[Array, "embedding features batch"]:
        """Read each feature by itself: its input is its value and its one-hot number."""
        first, *rest = self.read.layers
        hidden = x[None] * first.weight[0][:, None, None] + names
        for layer in rest:
            flat = jax.nn.relu(hidden).reshape(hidden.shape[0], -1)
            hidden = (layer.weight.T @ flat + layer.bias[:, None]).reshape(-1, *x.shape)
        return hidden

    def _attend(
        self, memory: Float[Array, "embedding features batch"], observed: Bool[Array, "features batch"]
    ) -> Float[Array, "batch embedding"]:
        """Attend to the memories of the observed features some times over, and write the embedding."""
        cell = jnp.zeros((memory.shape[0], memory.shape[2]))
        read_and_state = jnp.concatenate([cell, cell])
        for _ in range(self.process_steps):
            state, cell = self.process(read_and_state, cell)
            attention = jax.nn.softmax(jnp.where(observed, _match(memory, state), LOWEST), axis=0)
            read_and_state = jnp.concatenate([_blend(memory, attention), state])
        read_out, state = jnp.split(read_and_state, 2)
        written = self.write(jnp.concatenate([state, read_out]).T)
        return jnp.where(observed.any(axis=0)[:, None], written, self.empty[None])


def _transposed(x: Float[Array, "batch features"]) -> Float[Array, "features batch"]:
    """Transpose by a product with the identity.

    A product is computed before what it goes into. A mere transpose would be fused into that, with all that
    led to it (random masks, looked-up rows), and be computed once for every unit of the next layer.
    """
    return jnp.matmul(jnp.eye(x.shape[1]), x.T, precision=jax.lax.Precision.HIGHEST)


# The two products of attention. What is small is finished before it is spread over the memory: fused into
# that, the compiler would compute it once for every unit. The gradients are written out for the same reason.


def _sum_over_units(
    memory: Float[Array, "units features batch"], vector: Float[Array, "units batch"]
) -> Float[Array, "features batch"]:
    """Give the inner products, by additions that fuse into one pass."""
    vector = jax.lax.optimization_barrier(vector)
    total = memory[0] * vector[0][None]
    for unit in range(1, memory.shape[0]):
        total = total + memory[unit] * vector[unit][None]
    return total


def _sum_over_features(
    memory: Float[Array, "units features batch"], weights: Float[Array, "features batch"]
) -> Float[Array, "units batch"]:
    weights = jax.lax.optimization_barrier(weights)
    summed: Array = jax.lax.platform_dependent(
        memory, weights, cuda=kernels.weighted_sum, default=_sum_of_products
    )
    return summed


def _sum_of_products(
    memory: Float[Array, "units features batch"], weights: Float[Array, "features batch"]
) -> Float[Array, "units batch"]:
    return jnp.sum(weights[None] * memory, axis=1)


def _outer(
    vector: Float[Array, "units batch"], weights: Float[Array, "features batch"]
) -> Float[Array, "units features batch"]:
    vector, weights = jax.lax.optimization_barrier((vector, weights))
    return vector[:, None] * weights[None]


@jax.custom_vjp
def _match(
    memory: Float[Array, "units features batch"], state: Float[Array, "units batch"]
) -> Float[Array, "features batch"]:
    """Give each memory's inner product with the state."""
    return _sum_over_units(memory, state)


@jax.custom_vjp
def _blend(
    memory: Float[Array, "units features batch"], attention: Float[Array, "features batch"]
) -> Float[Array, "units batch"]:
    """Give the mean of the memories, weighted by attention."""
    return _sum_over_features(memory, attention)


_match.defvjp(
    lambda memory, state: (_sum_over_units(memory, state), (memory, state)),
    lambda saved, gradient: (_outer(saved[1], gradient), _sum_over_features(saved[0], gradient)),
)
_blend.defvjp(
    lambda memory, attention: (_sum_over_features(memory, attention), (memory, attention)),
    lambda saved, gradient: (_outer(gradient, saved[1]), _sum_over_units(saved[0], gradient)),
)


class SetClassifier(eqx.Module):
    """The set encoder and a classifier on its embedding: what is pretrained, and gives the rewards."""

    encoder: SetEncoder
    classifier: MLP

    def __init__(self, problem: Problem, settings: Settings, *, key: PRNGKeyArray):
        encoding, classifying = jr.split(key)
        self.encoder = SetEncoder(problem.n_features, settings, key=encoding)
        sizes = (settings.embedding, *settings.hidden, problem.n_classes)
        self.classifier = MLP(sizes, key=classifying)

    def __call__(
        self, x: Float[Array, "batch features"], observed: Bool[Array, "batch features"]
    ) -> Float[Array, "batch classes"]:
        """Give logits."""
        return self.classifier(self.encoder(x, observed))


class JAFA(Policy):
    """The fitted policy, with its own classifier."""

    own: SetClassifier
    q: MLP
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
        """Score by the value of each choice."""
        del key
        q = self.values(self.own.encoder(x, observed), available & ~acquired)
        return q if self.may_stop else q.at[:, 0].set(-jnp.inf)

    def values(
        self, embedding: Float[Array, "batch embedding"], open_actions: Bool[Array, "batch actions"]
    ) -> Float[Array, "batch choices"]:
        """Give Q; the embedding gets no gradient from it."""
        inputs = jax.lax.stop_gradient(embedding)
        if self.sees_availability:
            inputs = jnp.concatenate([inputs, open_actions.astype(inputs.dtype)], axis=1)
        return self.q(inputs)


def pretrain(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    settings: Settings = Settings(),  # noqa: B008
    protocol: Protocol = PAPER,
) -> SetClassifier:
    """Train encoder and classifier on random subsets of what each row has."""
    building, training = jr.split(key)
    weights = class_weights(train_table.y, problem.n_classes)

    def loss(model: SetClassifier, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        choosing, hiding = jr.split(key)
        rows = train_table.take(batch.rows)
        kept = random_subset(hiding, problem, protocol, len(batch.rows), random_rate(choosing))
        logits = model(rows.x, kept & rows.available)
        return jnp.sum(batch.weight * cross_entropy(logits, rows.y, weights))

    def validate(model: SetClassifier, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        logits = model(valid_table.x, valid_table.available)
        return jnp.mean(cross_entropy(logits, valid_table.y, weights))

    model = SetClassifier(problem, settings, key=building)
    n_rows = train_table.x.shape[0]
    return train(training, model, loss, validate, n_rows, settings.pretraining, settings.learning_rate)


class _Learner(NamedTuple):
    policy: JAFA
    target: JAFA
    agent_optimiser: Any
    own_optimiser: Any
    slots: Slots


@register(
    "jafa",
    summary="Joint set encoder, classifier and double-DQN agent; rewarded by the final log-likelihood.",
    settings=Settings,
    label="JAFA",
    color="#882255",
    kind="terminal",
    stops="if it is fitted with a cost_weight",
    costs={"gpu": Cost(3.0, 0.09, 20), "cpu": Cost(0.0, 32.0, 12)},
    pretraining_costs={"gpu": Cost(2.5, 0.1, 15), "cpu": Cost(0.0, 20.0, 9)},
    pretrain=pretrain,
    states=("s", "sm"),
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: SetClassifier | None = None,
    settings: Settings = Settings(),  # noqa: B008
    state: State = "s",
    protocol: Protocol = PAPER,
) -> JAFA:
    """Train JAFA: pretraining (unless given), then agent and classifier side by side.

    Takes what every method takes (see `Method`). `predictor` is not used: JAFA is rewarded by its own
    classifier.
    """
    del predictor
    pretraining, building, shuffling, acting = jr.split(key, 4)
    if pretrained is None:
        pretrained = pretrain(
            pretraining, problem, train_table, valid_table, settings=settings, protocol=protocol
        )
    may_stop, sees = settings.cost_weight is not None, state == "sm"
    n_inputs = settings.embedding + (problem.n_actions if sees else 0)
    q = MLP((n_inputs, *settings.hidden, problem.n_actions + 1), key=building)
    policy = JAFA(pretrained, q, sees, may_stop)
    environment = Environment(shuffling, problem, train_table, protocol, may_stop=may_stop)
    adam = optax.adam(settings.learning_rate)
    weights = class_weights(train_table.y, problem.n_classes)
    start = _Learner(policy, policy, adam.init(q), adam.init(pretrained), environment.start(settings.slots))

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
    """Collect a batch; update agent, target networks and classifier, in this order."""
    policy, epsilon = learner.policy, settings.epsilon(number)

    def choose(key: PRNGKeyArray, row: Array, acquired: Array) -> tuple[Array, Array]:
        view = environment.view(row, acquired)
        embedding = policy.own.encoder(view.x, view.observed, settings.most_observed)
        q = policy.values(embedding, view.open)
        return explore(key, q, environment.legal(row, acquired), epsilon), embedding

    slots, frames, embedding = environment.collect(key, learner.slots, choose, settings.steps)
    seen = environment.transitions(frames)
    most = settings.most_observed
    own_gradient, (embedding_after, losses) = jax.grad(_own_loss, has_aux=True)(
        policy.own, seen, weights, most
    )
    reward = _rewards(environment.problem, frames, losses, settings)
    target_embedding = learner.target.own.encoder(seen.after.x, seen.after.observed, most)
    value = next_values(
        policy.values(embedding_after, seen.after.open),
        learner.target.values(target_embedding, seen.after.open),
        seen.legal_after,
    ).reshape(reward.shape)
    goal = lambda_returns(reward, frames.done, value, settings.td_lambda).reshape(-1)

    def agent_loss(q: MLP) -> Float[Array, ""]:
        flat = embedding.reshape(-1, embedding.shape[-1])
        values = eqx.tree_at(lambda p: p.q, policy, q).values(flat, seen.before.open)
        return td_loss(values, seen.choice, goal, jnp.full(goal.shape, 1 / goal.size))

    adam = optax.adam(settings.learning_rate)
    q_update, agent_optimiser = adam.update(jax.grad(agent_loss)(policy.q), learner.agent_optimiser)
    own_update, own_optimiser = adam.update(own_gradient, learner.own_optimiser)
    policy = eqx.tree_at(lambda p: p.q, policy, optax.apply_updates(policy.q, q_update))
    target = polyak(learner.target, policy, settings.target_rate)
    policy = eqx.tree_at(lambda p: p.own, policy, optax.apply_updates(policy.own, own_update))
    return _Learner(policy, target, agent_optimiser, own_optimiser, slots)


def _own_loss(
    own: SetClassifier, seen: Transitions, weights: Float[Array, " classes"], most: int | None
) -> tuple[Float[Array, ""], tuple[Float[Array, "batch embedding"], Float[Array, " batch"]]]:
    """Give the classifier's loss on the states that were reached, and what it is made of."""
    embedding = own.encoder(seen.after.x, seen.after.observed, most)
    losses = cross_entropy(own.classifier(embedding), seen.y, weights)
    return losses.mean(), (embedding, losses)


def _rewards(
    problem: Problem, frames: Frames, losses: Float[Array, " batch"], settings: Settings
) -> Float[Array, "steps slots"]:
    """Reward the end of an episode by minus the classifier's loss and, with a soft budget, charge costs."""
    reward = jnp.where(frames.done, -losses.reshape(frames.done.shape), 0.0)
    if settings.cost_weight is None:
        return reward
    return reward - settings.cost_weight * choice_costs(problem, frames.acquired, frames.choice)
