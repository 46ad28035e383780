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

from ascertain._core import training
from ascertain._core.networks import MLP
from ascertain._core.settings import Amount, AtOnce, Sizes, Unrolled
from ascertain._core.training import Batch, Schedule, class_weights, cross_entropy
from ascertain.acquisition import Environment, Frames, Slots, Transitions, choice_costs
from ascertain.methods._dqn import DQNSettings, explore, lambda_returns, next_values, polyak, td_loss
from ascertain.methods._pretraining import SCHEDULE, random_rate, random_subset
from ascertain.methods._registry import Cost, State, register
from ascertain.methods._set_encoder import SetEncoder
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_PRETRAINING = replace(SCHEDULE, min_delta=1e-2)


@dataclass(frozen=True)
class Settings(DQNSettings):
    """Architecture and training of JAFA; the defaults are the paper's."""

    hidden: Sizes = (32, 32)
    embedding: Unrolled = 16
    process_steps: Unrolled = 5
    pretraining: Schedule = _PRETRAINING
    cost_weight: Amount | None = None  # of costs in the reward, for soft budgets; None = hard budget
    most_observed: AtOnce | None = None  # features in an episode, so that no more are read; None = all

    def completed(self, problem: Problem, protocol: Protocol) -> "Settings":
        """Fill in how many features an episode can observe."""
        if self.most_observed is not None or self.cost_weight is not None:
            return self
        # In the reference's reading the choice that exceeds the budget is still made.
        n_actions = problem.most_acquisitions() + (protocol.affordability == "blind")
        revealed = np.sort(np.asarray(problem.reveals).sum(axis=1))[::-1][:n_actions].sum()
        most = int(revealed + np.asarray(problem.known).sum())
        return replace(self, most_observed=min(most, problem.n_features))


class SetClassifier(eqx.Module):
    """A classifier on the set encoder's embedding, which is pretrained and gives the rewards."""

    encoder: SetEncoder
    classifier: MLP

    def __init__(self, problem: Problem, settings: Settings, *, key: PRNGKeyArray):
        encoding, classifying = jr.split(key)
        hidden, size = settings.hidden, settings.embedding
        self.encoder = SetEncoder(problem.n_features, hidden, size, settings.process_steps, key=encoding)
        self.classifier = MLP((size, *hidden, problem.n_classes), key=classifying)

    def __call__(
        self, x: Float[Array, "batch features"], observed: Bool[Array, "batch features"]
    ) -> Float[Array, "batch classes"]:
        """The logits of the classes."""
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
        """Q of each choice; no gradient flows into the embedding."""
        inputs = jax.lax.stop_gradient(embedding)
        if self.sees_availability:
            inputs = jnp.concatenate([inputs, open_actions.astype(inputs.dtype)], axis=1)
        return self.q(inputs)


def pretrain(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
    protocol: Protocol = PAPER,
) -> SetClassifier:
    """Train encoder and classifier on random subsets of the available features."""
    building, learning = jr.split(key)
    weights = class_weights(train.y, problem.n_classes)

    def loss(model: SetClassifier, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        choosing, hiding = jr.split(key)
        rows = train.take(batch.rows)
        kept = random_subset(hiding, problem, protocol, len(batch.rows), random_rate(choosing))
        logits = model(rows.x, kept & rows.available)
        return jnp.sum(batch.weight * cross_entropy(logits, rows.y, weights))

    def validate(model: SetClassifier, key: PRNGKeyArray) -> Float[Array, ""]:
        del key
        logits = model(valid.x, valid.available)
        return jnp.mean(cross_entropy(logits, valid.y, weights))

    model = SetClassifier(problem, settings, key=building)
    return training.train(
        learning,
        model,
        loss,
        validate,
        train.n_instances,
        settings.pretraining,
        settings.learning_rate,
        completions=train.completions,
    )


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
    family="reinforcement learning",
    use_when="To compare with the literature; trains for long and needs no predictor.",
    stops="if it is fitted with a cost_weight",
    costs={"gpu": Cost(3.0, 0.09, 20), "cpu": Cost(0.0, 32.0, 12)},
    pretraining_costs={"gpu": Cost(2.5, 0.1, 15), "cpu": Cost(0.0, 20.0, 9)},
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
    pretrained: SetClassifier | None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> JAFA:
    """Pretrain (unless given), then train agent and classifier jointly.

    Takes what every method takes (see `Method`). `predictor` is not used: JAFA is rewarded by its own
    classifier.
    """
    del predictor
    pretraining, building, shuffling, acting = jr.split(key, 4)
    if pretrained is None:
        pretrained = pretrain(pretraining, problem, train, valid, settings=settings, protocol=protocol)
    may_stop, sees = settings.cost_weight is not None, state == "sm"
    n_inputs = settings.embedding + (problem.n_actions if sees else 0)
    q = MLP((n_inputs, *settings.hidden, problem.n_actions + 1), key=building)
    policy = JAFA(pretrained, q, sees, may_stop)
    environment = Environment(shuffling, problem, train, protocol, may_stop=may_stop)
    adam = optax.adam(settings.learning_rate)
    weights = class_weights(train.y, problem.n_classes)
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
    """The classifier's mean loss on the states reached; also the embeddings and the losses of each row."""
    embedding = own.encoder(seen.after.x, seen.after.observed, most)
    losses = cross_entropy(own.classifier(embedding), seen.y, weights)
    return losses.mean(), (embedding, losses)


def _rewards(
    problem: Problem, frames: Frames, losses: Float[Array, " batch"], settings: Settings
) -> Float[Array, "steps slots"]:
    """Minus the classifier's loss at the end of an episode; with a soft budget, minus each step's cost."""
    reward = jnp.where(frames.done, -losses.reshape(frames.done.shape), 0.0)
    if settings.cost_weight is None:
        return reward
    return reward - settings.cost_weight * choice_costs(problem, frames.acquired, frames.choice)
