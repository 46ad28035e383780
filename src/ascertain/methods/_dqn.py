"""Double DQN with TD(lambda) targets, as JAFA and OL use it; ODIN and the planner share parts of it."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.networks import LOWEST
from ascertain._core.settings import AtOnce, Count, Positive, Share
from ascertain._core.training import Schedule
from ascertain.errors import InputError

Model = TypeVar("Model")
AnySettings = TypeVar("AnySettings", bound="DQNSettings")


@dataclass(frozen=True)
class EpisodeSettings:
    """How to learn from episodes; the defaults are the reference's."""

    batches: Count = 4000
    frames_per_batch: AtOnce = 256
    slots: AtOnce = 128  # episodes side by side
    learning_rate: Positive = 1e-3
    td_lambda: Share = 0.75

    @property
    def steps(self) -> int:
        """Steps in every slot per batch."""
        frames, slots = self.frames_per_batch, self.slots
        if frames < 1 or slots < 1 or frames % slots:
            raise InputError(f"frames_per_batch ({frames}) must be a multiple of slots ({slots})")
        return frames // slots


@dataclass(frozen=True)
class DQNSettings(EpisodeSettings):
    """Also how to explore, and how fast the target networks follow; the defaults are the reference's."""

    target_rate: Share = 0.005  # of the target networks' moving average
    first_epsilon: Share = 1.0
    last_epsilon: Share = 0.1
    exploring_share: Share = 0.5  # the part of the batches over which epsilon falls

    def shortened(self: AnySettings, effort: Effort, n_rows: int) -> AnySettings:
        """Train on the share of the batches that an effort allows, and pretrain for fewer rounds."""
        del n_rows
        pretraining: Schedule = self.pretraining  # type: ignore[attr-defined]  # each method has its own
        rounds = min(pretraining.max_rounds, effort.pretraining_rounds)
        changes: dict[str, Any] = {
            "batches": max(1, round(effort.share_of_batches * self.batches)),
            "pretraining": replace(pretraining, max_rounds=rounds),
        }
        return replace(self, **changes)

    def epsilon(self, batch: Int[Array, ""]) -> Float[Array, ""]:
        """The rate of random choices in a batch: it falls linearly, then stays."""
        falling = max(1, int(self.exploring_share * self.batches))
        done = jnp.minimum(batch / falling, 1.0)
        return self.first_epsilon + done * (self.last_epsilon - self.first_epsilon)


def best_choice(
    q: Float[Array, "*batch choices"], legal: Bool[Array, "*batch choices"]
) -> Int[Array, "*batch"]:
    """The legal choice of highest value, the first among equals."""
    return jnp.argmax(jnp.where(legal, q, LOWEST), axis=-1)


def explore(
    key: PRNGKeyArray,
    q: Float[Array, "slots choices"],
    legal: Bool[Array, "slots choices"],
    epsilon: Float[Array, ""],
) -> Int[Array, " slots"]:
    """Epsilon-greedy choices: any legal one with probability epsilon, else the best."""
    uniform = jr.uniform(key, (q.shape[0], q.shape[1] + 1))
    anything = jnp.argmax(jnp.where(legal, uniform[:, 1:], -1.0), axis=1)
    return jnp.where(uniform[:, 0] < epsilon, anything, best_choice(q, legal))


def next_values(
    online: Float[Array, "*batch choices"],
    target: Float[Array, "*batch choices"],
    legal: Bool[Array, "*batch choices"],
) -> Float[Array, "*batch"]:
    """Values of the next states by double DQN: the online network chooses, the target network values."""
    chosen = best_choice(online, legal)
    return jnp.take_along_axis(target, chosen[..., None], axis=-1)[..., 0]


def lambda_returns(
    reward: Float[Array, "steps *batch"],
    done: Bool[Array, "steps *batch"],
    next_value: Float[Array, "steps *batch"],
    decay: float,
) -> Float[Array, "steps *batch"]:
    """TD(lambda) targets within a window of steps, bootstrapped at its end, without discount.

    G_t = r_t + (1 - done_t) ((1 - lambda) V(s'_t) + lambda G_{t+1}), with V(s'_t) for G_{t+1} in the end.
    """
    later, targets = next_value[-1], []
    for t in reversed(range(reward.shape[0])):
        blend = (1 - decay) * next_value[t] + decay * later
        later = reward[t] + jnp.where(done[t], 0.0, blend)
        targets.append(later)
    return jnp.stack(targets[::-1])


def td_loss(
    q: Float[Array, "*batch choices"],
    choice: Int[Array, "*batch"],
    target: Float[Array, "*batch"],
    weight: Float[Array, "*batch"],
) -> Float[Array, ""]:
    """The weighted squared error of the chosen values; `weight` sums to 1."""
    chosen = jnp.take_along_axis(q, choice[..., None], axis=-1)[..., 0]
    return jnp.sum(weight * (chosen - target) ** 2)


def polyak(target: Model, online: Model, rate: float | Float[Array, ""]) -> Model:
    """Move the target networks towards the online ones."""
    moved: Model = jax.tree.map(lambda t, o: t + rate * (o - t), target, online)
    return moved
