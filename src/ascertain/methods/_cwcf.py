"""CwCF (classification with costly features): a dueling double-DQN agent that also learns to classify.

After Janisch, Pevny and Lisy (2019; 2020 for hard budgets). To classify is an action like any other: each
class has a value, and an episode ends when one is chosen. An acquisition is rewarded by minus its cost, a
wrong class by -1. The scores of choices are these values, and to stop is worth as much as the best class.

As in the paper, classes are pretrained on random subsets of the features, and the weights with the highest
reward on validation rows are kept. Targets are those of Retrace for the greedy policy: the rewards that
followed, as far as the agent acted greedily, then the value of the next state. The paper's target policy
becomes greedy in the course of training; ours is from the start, so that it does not matter how probable a
choice was. As labels are known, all classes are learned in every state, not only the one that was chosen.

Under a hard budget there are no costs to pay, and the agent classifies when nothing affordable is left. An
action that reveals several features is one acquisition.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core import training
from ascertain._core.hashing import mix
from ascertain._core.networks import MLP, Linear
from ascertain._core.settings import Amount, AtOnce, Count, Positive, Share, SomeSizes
from ascertain._core.training import Batch, Schedule
from ascertain.acquisition import Environment, Slots, Transitions, View, acquire, choice_costs, mean_price
from ascertain.methods._dqn import DQNSettings, best_choice, explore, next_values, polyak, td_loss
from ascertain.methods._pretraining import mask_inputs
from ascertain.methods._registry import State, register
from ascertain.methods._replay import Replay, Sample
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_REPLAY_SALT = 0x7FEB352D
_PRETRAINING = Schedule(batch_size=128, batches_per_round=100, max_rounds=100, patience=5)


@dataclass(frozen=True)
class Settings(DQNSettings):
    """Architecture and training of CwCF; network, optimiser and pretraining are the paper's."""

    slots: AtOnce = 64
    learning_rate: Positive = 5e-4
    target_rate: Share = 0.01
    hidden: SomeSizes = (128, 128, 128)
    gradient_norm: Positive = 1.0  # longer gradients are clipped
    replay_slices: Count = 40_000
    sampled_slices: AtOnce = 256
    validate_every: Count = 200  # batches
    pretraining: Schedule = _PRETRAINING
    pretraining_rate: Positive = 1e-3
    cost_weight: Amount | None = None  # lambda, for soft budgets; None = hard budget


class DuelingNetwork(eqx.Module):
    """A dueling network: the value of the state, and the advantage of each class and action."""

    body: MLP
    value: Linear
    advantage: Linear

    def __init__(self, n_inputs: int, hidden: tuple[int, ...], n_outputs: int, *, key: PRNGKeyArray):
        body, value, advantage = jr.split(key, 3)
        self.body = MLP((n_inputs, *hidden), key=body)
        self.value = Linear(hidden[-1], 1, key=value)
        self.advantage = Linear(hidden[-1], n_outputs, key=advantage)

    def __call__(self, inputs: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
        """Q of each class, then of each action."""
        hidden = jax.nn.relu(self.body(inputs))
        advantage = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(axis=1, keepdims=True)


class CwCF(Policy):
    """The fitted policy."""

    q: DuelingNetwork
    n_classes: int = eqx.field(static=True)
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
        q = self.choice_values(self.values(View(x, observed, available & ~acquired)))
        return q if self.may_stop else q.at[:, 0].set(-jnp.inf)

    def values(self, view: View) -> Float[Array, "batch outputs"]:
        """Q of each class, then of each action."""
        inputs = mask_inputs(view.x, view.observed)
        if self.sees_availability:
            inputs = jnp.concatenate([inputs, view.open.astype(inputs.dtype)], axis=1)
        return self.q(inputs)

    def choice_values(self, q: Float[Array, "batch outputs"]) -> Float[Array, "batch choices"]:
        """Q of each choice: to stop is to choose the best class."""
        classes, actions = q[:, : self.n_classes], q[:, self.n_classes :]
        return jnp.concatenate([classes.max(axis=1, keepdims=True), actions], axis=1)

    def class_rewards(
        self, q: Float[Array, "batch outputs"], y: Int[Array, " batch"]
    ) -> Float[Array, " batch"]:
        """The reward of choosing the best class: 0 if it is the true one, else -1."""
        return (jnp.argmax(q[:, : self.n_classes], axis=1) == y) - 1.0

    def class_loss(self, q: Float[Array, "batch outputs"], y: Int[Array, " batch"]) -> Float[Array, " batch"]:
        """The mean squared error of the classes' values."""
        truth = jax.nn.one_hot(y, self.n_classes) - 1.0
        return jnp.mean((q[:, : self.n_classes] - truth) ** 2, axis=1)


class _Learner(NamedTuple):
    policy: CwCF
    target: CwCF
    optimiser: Any
    slots: Slots
    replay: Replay


class _Best(NamedTuple):
    policy: CwCF
    reward: Float[Array, ""]  # on validation rows


@register(
    "cwcf",
    summary="Dueling double DQN whose actions are features and classes; rewarded by the class less costs.",
    settings=Settings,
    label="CwCF",
    kind="terminal",
    family="reinforcement learning",
    use_when="A reinforcement learner that trades errors off against costs and stops row by row.",
    stops="if it is fitted with a cost_weight",
    states=("s", "sm"),
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
) -> CwCF:
    """Pretrain the classes, then train the agent.

    Takes what every method takes (see `Method`). `predictor` is not used: the agent classifies by itself.
    """
    del predictor, pretrained
    building, pretraining, shuffling, acting = jr.split(key, 4)
    may_stop, sees = settings.cost_weight is not None, state == "sm"
    n_inputs = 2 * problem.n_features + (problem.n_actions if sees else 0)
    q = DuelingNetwork(n_inputs, settings.hidden, problem.n_classes + problem.n_actions, key=building)
    environment, judge = (
        Environment(shuffling, problem, table, protocol, may_stop=may_stop) for table in (train, valid)
    )
    untrained = CwCF(q, problem.n_classes, sees, may_stop)
    policy = _pretrain(pretraining, untrained, environment, judge, settings)
    kept_batches = max(1, min(settings.replay_slices // settings.slots, settings.batches))
    start = _Learner(
        policy,
        policy,
        _optimiser(settings).init(policy.q),
        environment.start(settings.slots),
        Replay.empty(kept_batches, settings.slots, settings.steps, problem.n_actions),
    )
    rounds = max(1, settings.batches // settings.validate_every)
    numbers = jnp.arange(settings.batches // rounds * rounds).reshape(rounds, -1)

    def batch(learner: _Learner, number: Array) -> tuple[_Learner, None]:
        return _learn(jr.fold_in(acting, number), learner, number, environment, settings), None

    def one_round(carry: tuple[_Learner, _Best], numbers: Array) -> tuple[tuple[_Learner, _Best], None]:
        learner, best = carry
        learner, _ = jax.lax.scan(batch, learner, numbers)
        found = _Best(learner.policy, _mean_reward(learner.policy, judge, settings))
        better = found.reward > best.reward
        return (learner, jax.tree.map(lambda new, old: jnp.where(better, new, old), found, best)), None

    nothing_yet = _Best(policy, jnp.asarray(-jnp.inf))
    (_, best), _ = jax.lax.scan(one_round, (start, nothing_yet), numbers)
    return best.policy


def _pretrain(
    key: PRNGKeyArray, policy: CwCF, environment: Environment, judge: Environment, settings: Settings
) -> CwCF:
    """Train the values of the classes on random acquisitions, mostly few."""
    learning, judging = jr.split(key)

    def losses(policy: CwCF, key: PRNGKeyArray, environment: Environment, rows: Array) -> Array:
        sharing, acquiring = jr.split(key)
        available = environment.available[rows]
        share = jr.uniform(sharing, (len(rows), 1)) ** 3
        view = environment.view(rows, available & (jr.uniform(acquiring, available.shape) < share))
        return policy.class_loss(policy.values(view), environment.table.y[rows])

    def loss(policy: CwCF, key: PRNGKeyArray, batch: Batch) -> Float[Array, ""]:
        return jnp.sum(batch.weight * losses(policy, key, environment, batch.rows))

    def validate(policy: CwCF, key: PRNGKeyArray) -> Float[Array, ""]:
        del key  # the same acquisitions every time
        return jnp.mean(losses(policy, judging, judge, jnp.arange(len(judge.table.y))))

    return training.train(
        learning,
        policy,
        loss,
        validate,
        environment.table.n_instances,
        settings.pretraining,
        settings.pretraining_rate,
        completions=environment.table.completions,
    )


def _optimiser(settings: Settings) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(settings.gradient_norm), optax.adam(settings.learning_rate))


def _learn(
    key: PRNGKeyArray,
    learner: _Learner,
    number: Int[Array, ""],
    environment: Environment,
    settings: Settings,
) -> _Learner:
    """Collect a batch, then update the agent on replayed slices, and the target network."""
    policy, epsilon = learner.policy, settings.epsilon(number)

    def choose(key: PRNGKeyArray, row: Array, acquired: Array) -> tuple[Array, None]:
        q = policy.choice_values(policy.values(environment.view(row, acquired)))
        return explore(key, q, environment.legal(row, acquired), epsilon), None

    slots, frames, _ = environment.collect(key, learner.slots, choose, settings.steps)
    cost = choice_costs(environment.problem, frames.acquired, frames.choice)
    replay = learner.replay.push(number, frames, -(settings.cost_weight or 0.0) * cost)
    gradient = jax.grad(_agent_loss)(policy.q, policy, learner.target, replay, number, environment, settings)
    update, optimiser = _optimiser(settings).update(gradient, learner.optimiser)
    policy = eqx.tree_at(lambda p: p.q, policy, optax.apply_updates(policy.q, update))
    return _Learner(policy, polyak(learner.target, policy, settings.target_rate), optimiser, slots, replay)


def _agent_loss(
    q: DuelingNetwork,
    policy: CwCF,
    target: CwCF,
    replay: Replay,
    number: Int[Array, ""],
    environment: Environment,
    settings: Settings,
) -> Float[Array, ""]:
    """The squared errors of the chosen actions and of all classes, on replayed slices."""
    n_actions = environment.problem.n_actions
    seed = mix(environment.seed ^ jnp.uint32(_REPLAY_SALT))  # another than that of the environment
    sample = replay.sample(seed, number, settings.sampled_slices, settings.slots, n_actions)
    seen = environment.transitions(sample.frames)
    policy = eqx.tree_at(lambda p: p.q, policy, q)
    both = jax.tree.map(lambda *views: jnp.concatenate(views), seen.before, seen.after)
    before, after = jnp.split(policy.values(both), 2)
    goal = _goals(jax.lax.stop_gradient(after), policy, target, seen, sample)
    weight = jnp.broadcast_to(sample.weight[None] / len(goal), goal.shape).reshape(-1)
    of_classes = (policy.class_loss(before, seen.y) + policy.class_loss(after, seen.y)) / 2
    # Not by way of choice_values: the derivative of a maximum is NaN where its rounding differs.
    output, acquiring = policy.n_classes + seen.choice - 1, weight * (seen.choice > 0)
    of_actions = td_loss(before, output, goal.reshape(-1), acquiring)
    return of_actions + jnp.sum(weight * of_classes)


def _goals(
    after: Float[Array, "batch outputs"], policy: CwCF, target: CwCF, seen: Transitions, sample: Sample
) -> Float[Array, "steps sampled"]:
    """What the chosen actions should be worth, from the values of the states that they led to."""
    done, choice = sample.frames.done, sample.frames.choice
    stop, actions = seen.legal_after[:, :1], seen.legal_after[:, 1:]
    legal = jnp.concatenate([jnp.repeat(stop, policy.n_classes, axis=1), actions], axis=1)
    value = next_values(after, target.values(seen.after), legal).reshape(done.shape)
    greedy = best_choice(policy.choice_values(after), seen.legal_after).reshape(done.shape)
    classified = policy.class_rewards(after, seen.y).reshape(done.shape)
    reward = sample.reward + jnp.where(done, classified, 0.0)
    # No reward is positive, so no value is.
    return jnp.minimum(greedy_returns(reward, done, value, choice[1:] == greedy[:-1]), 0.0)


def greedy_returns(
    reward: Float[Array, "steps *batch"],
    done: Bool[Array, "steps *batch"],
    next_value: Float[Array, "steps *batch"],
    next_is_greedy: Bool[Array, "..."],  # one step less
) -> Float[Array, "steps *batch"]:
    """Retrace's targets for the greedy policy within a window of steps, without discount.

    Retrace (Munos, Stepleton, Harutyunyan and Bellemare, 2016) follows a step with weight min(1, pi / mu).
    For a greedy policy pi this is 1 if the step was greedy and else 0, whatever policy mu made it.
    """
    targets = [reward[-1] + jnp.where(done[-1], 0.0, next_value[-1])]
    for t in reversed(range(len(next_is_greedy))):
        follow = jnp.where(next_is_greedy[t], targets[-1], next_value[t])
        targets.append(reward[t] + jnp.where(done[t], 0.0, follow))
    return jnp.stack(targets[::-1])


def _mean_reward(policy: CwCF, environment: Environment, settings: Settings) -> Float[Array, ""]:
    """The mean reward of the greedy policy on all rows."""
    problem, table = environment.problem, environment.table
    hard = settings.cost_weight is None
    key = jr.key(0)  # the policy does not use it
    episodes = acquire(key, policy, problem, table, environment.protocol, problem.n_actions, hard=hard)
    view = environment.view(jnp.arange(len(table.y)), episodes.acquired(problem.n_actions)[-1])
    cost = episodes.spent[:, -1] / mean_price(problem)
    reward = policy.class_rewards(policy.values(view), table.y) - (settings.cost_weight or 0.0) * cost
    return jnp.mean(reward)
