"""JAFA once more in plain NumPy, row by row and set by set, with gradients by finite differences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from ascertain import AFABENCH, Problem, Protocol, Table
from ascertain._core.networks import MLP
from ascertain.methods._jafa import JAFA, SetClassifier, Settings
from ascertain.methods._set_encoder import SetEncoder


def to_numpy(model: Any) -> Any:
    """Give a model's parameters in double precision."""
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), model)


def mlp(network: MLP, x: np.ndarray) -> np.ndarray:
    *hidden, last = network.layers
    for layer in hidden:
        x = np.maximum(x @ layer.weight + layer.bias, 0)
    return x @ last.weight + last.bias


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def embed(encoder: SetEncoder, x: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Embed one row's set of observed features: read, process, write (methods.md 6)."""
    elements = [np.concatenate([x[i : i + 1], np.eye(len(x))[i]]) for i in np.flatnonzero(observed)]
    if not elements:
        return np.asarray(encoder.empty)
    memories = [mlp(encoder.read, element) for element in elements]
    q = c = r = np.zeros(len(encoder.empty))
    # Rows of the cell's parameters: of the input, of the state, and two biases; columns: four gates.
    lstm = np.concatenate(jax.tree.leaves(encoder.process))
    for _ in range(encoder.process_steps):
        gates = np.concatenate([r, q, [1, 1]]) @ lstm
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        q = sigmoid(o) * np.tanh(c)
        weights = np.exp([memory @ q for memory in memories])
        r = sum(weight * memory for weight, memory in zip(weights / weights.sum(), memories, strict=True))
    return mlp(encoder.write, np.concatenate([q, r]))


def weighted_loss(
    own: SetClassifier, x: np.ndarray, observed: np.ndarray, y: int, weights: np.ndarray
) -> float:
    """Give a row's cross-entropy, weighted by its class."""
    logits = mlp(own.classifier, embed(own.encoder, x, observed))
    return float(weights[y] * (np.log(np.exp(logits).sum()) - logits[y]))


def agent_inputs(policy: JAFA, x: np.ndarray, observed: np.ndarray, still_open: np.ndarray) -> np.ndarray:
    """Give what Q sees; only the variant (s,m) sees which actions are available and not yet acquired."""
    embedding = embed(policy.own.encoder, x, observed)
    return np.concatenate([embedding, still_open]) if policy.sees_availability else embedding


def gradient(loss: Callable[[Any], float], model: Any) -> list[np.ndarray]:
    """Differentiate numerically, one parameter after the other."""
    leaves, structure = jax.tree.flatten(model)
    found = [np.zeros_like(leaf) for leaf in leaves]
    step = 1e-5
    for number, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            at = []
            for sign in (1, -1):
                moved = [each.copy() for each in leaves]
                moved[number][index] += sign * step
                at.append(loss(jax.tree.unflatten(structure, moved)))
            found[number][index] = (at[0] - at[1]) / (2 * step)
        found[number][np.abs(found[number]) < 1e-9] = 0  # rounding, which Adam would blow up
    return found


class Adam:
    """Adam with its default constants."""

    def __init__(self, rate: float, model: Any):
        self.rate, self.count = rate, 0
        self.moments = [(np.zeros_like(leaf), np.zeros_like(leaf)) for leaf in jax.tree.leaves(model)]

    def step(self, model: Any, gradients: list[np.ndarray]) -> Any:
        """Give the model after one step."""
        leaves, structure = jax.tree.flatten(model)
        self.count += 1
        moved = []
        for number, (leaf, slope) in enumerate(zip(leaves, gradients, strict=True)):
            first, second = self.moments[number]
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            self.moments[number] = (first, second)
            mean, square = first / (1 - 0.9**self.count), second / (1 - 0.999**self.count)
            moved.append(leaf - self.rate * mean / (np.sqrt(square) + 1e-8))
        return jax.tree.unflatten(structure, moved)


class Frame(NamedTuple):
    """A step: the state before and after, what was done, and what came of it."""

    row: int
    before: frozenset[int]
    choice: int
    after: frozenset[int]
    done: bool


@dataclass
class SlowJAFA:
    """The greedy learner: epsilon is zero, so that nothing is random within the first pass over the rows."""

    policy: JAFA  # in NumPy, with the initial parameters
    problem: Problem
    table: Table
    protocol: Protocol
    settings: Settings

    def __post_init__(self) -> None:
        self.target = self.policy
        self.soft = self.settings.cost_weight is not None
        self.reveals, self.costs = (
            np.asarray(self.problem.reveals),
            np.asarray(self.problem.costs, np.float64),
        )
        self.x, self.y = np.asarray(self.table.x, np.float64), np.asarray(self.table.y)
        self.available = [
            {a for a, group in enumerate(self.reveals) if cells[group].all()}
            for cells in np.asarray(self.table.available)
        ]
        inverse = np.array([1 / max(1, np.sum(self.y == k)) for k in range(self.problem.n_classes)])
        self.weights = inverse / inverse.sum()
        self.pile = [row for row in range(len(self.y)) if self.legal(row, frozenset())]
        self.slots = [(self.pile.pop(0), frozenset[int]()) for _ in range(self.settings.slots)]
        self.agent_adam = Adam(self.settings.learning_rate, self.policy.q)
        self.own_adam = Adam(self.settings.learning_rate, self.policy.own)
        self.ends = 0

    def legal(self, row: int, acquired: frozenset[int]) -> list[int]:
        """Give the actions that may be taken."""
        left = sorted(self.available[row] - acquired)
        if self.soft or self.protocol is AFABENCH:
            return left
        spent = sum(self.costs[a] for a in acquired)
        return [a for a in left if spent + self.costs[a] <= float(self.problem.budget) + 1e-6]

    def seen(self, row: int, acquired: frozenset[int]) -> tuple[np.ndarray, np.ndarray]:
        """Give values and which are observed."""
        observed = np.array([self.reveals[sorted(acquired), i].any() for i in range(self.x.shape[1])])
        return np.where(observed, self.x[row], 0), observed

    def inputs(self, policy: JAFA, row: int, acquired: frozenset[int]) -> np.ndarray:
        """Give what Q sees in a state."""
        still_open = np.array([float(a in self.available[row] - acquired) for a in range(len(self.costs))])
        return agent_inputs(policy, *self.seen(row, acquired), still_open)

    def best(self, row: int, acquired: frozenset[int]) -> int:
        """Give the legal choice of highest online value; 0 where there is none."""
        q = mlp(self.policy.q, self.inputs(self.policy, row, acquired))
        options = [0] * self.soft + [1 + a for a in self.legal(row, acquired)]
        return max(options, key=lambda choice: q[choice], default=0)

    def collect(self, slot: int) -> Frame:
        """Make one step in a slot, without replacing it."""
        row, before = self.slots[slot]
        choice = self.best(row, before)
        after = before | ({choice - 1} if choice else set())
        done = choice == 0 or not self.legal(row, after)
        if not self.soft:
            done = done or sum(self.costs[a] for a in after) > float(self.problem.budget) + 1e-6
        return Frame(row, before, choice, after, done)

    def reward(self, frame: Frame) -> float:
        """Minus the classifier's weighted loss in the end; costs only with a soft budget."""
        reward = 0.0
        if frame.done:
            x, observed = self.seen(frame.row, frame.after)
            reward -= weighted_loss(self.policy.own, x, observed, self.y[frame.row], self.weights)
        if self.settings.cost_weight is not None and frame.choice:
            reward -= self.settings.cost_weight * self.costs[frame.choice - 1] / self.costs.mean()
        return reward

    def goals(self, frames: list[Frame]) -> list[float]:
        """Give the TD(lambda) targets of a slot's steps."""
        goals: list[float] = []
        for frame in reversed(frames):
            reward = self.reward(frame)
            valued = mlp(self.target.q, self.inputs(self.target, frame.row, frame.after))
            value = valued[self.best(frame.row, frame.after)]
            later = goals[0] if goals else value
            decay = self.settings.td_lambda
            goals.insert(0, reward if frame.done else reward + (1 - decay) * value + decay * later)
        return goals

    def learn(self) -> None:
        """Collect a batch; then the agent's step, the target networks', the classifier's."""
        frames: list[list[Frame]] = [[] for _ in self.slots]
        for _ in range(self.settings.steps):
            for slot in range(len(self.slots)):
                frame = self.collect(slot)
                frames[slot].append(frame)
                self.ends += frame.done
                following = (self.pile.pop(0), frozenset[int]()) if frame.done else (frame.row, frame.after)
                self.slots[slot] = following
        goals = [goal for each in frames for goal in self.goals(each)]
        flat = [frame for each in frames for frame in each]
        inputs = [self.inputs(self.policy, f.row, f.before) for f in flat]

        def agent_loss(q: MLP) -> float:
            chosen = [mlp(q, each)[f.choice] for each, f in zip(inputs, flat, strict=True)]
            return float(np.mean(np.square(np.array(chosen) - goals)))

        def own_loss(own: SetClassifier) -> float:
            states = [(*self.seen(f.row, f.after), self.y[f.row]) for f in flat]
            return float(np.mean([weighted_loss(own, *state, self.weights) for state in states]))

        own_slope = gradient(own_loss, self.policy.own)
        q = self.agent_adam.step(self.policy.q, gradient(agent_loss, self.policy.q))
        flags = (self.policy.sees_availability, self.policy.may_stop)
        self.policy = JAFA(self.policy.own, q, *flags)
        rate = self.settings.target_rate
        self.target = jax.tree.map(lambda t, p: (1 - rate) * t + rate * p, self.target, self.policy)
        self.policy = JAFA(self.own_adam.step(self.policy.own, own_slope), q, *flags)
