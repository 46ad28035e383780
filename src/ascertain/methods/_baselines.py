"""Policies that learn nothing: random, sequential, and stopping at once."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.settings import Share
from ascertain.methods._registry import register
from ascertain.policy import Policy

STOPS = "at a threshold that you give (thresholds=)"


@dataclass(frozen=True)
class Settings:
    """Settings for soft budgets."""

    stop_probability: Share = 0.0  # of stopping, at each step


class Blind(Policy):
    """Acquires in random order, or in the order of the actions."""

    stop_probability: Float[Array, ""]
    at_random: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score at random, or by minus the number of the action."""
        del x, observed, available
        uniform = jr.uniform(key, (acquired.shape[0], acquired.shape[1] + 1))
        in_order = jnp.broadcast_to(-jnp.arange(acquired.shape[1], dtype=jnp.float32)[None], acquired.shape)
        stop = jnp.where(uniform[:, :1] < self.stop_probability, jnp.inf, -jnp.inf)
        return jnp.concatenate([stop, uniform[:, 1:] if self.at_random else in_order], axis=1)

    def stopping_at(self, threshold: float) -> "Blind":
        """The policy for soft budgets: it stops with this probability at each step."""
        return eqx.tree_at(lambda p: p.stop_probability, self, jnp.asarray(threshold, jnp.float32))


class Stop(Policy):
    """Stops at once: the prediction from nothing."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score stopping above everything else."""
        del x, observed, available, key
        scores = jnp.full((acquired.shape[0], acquired.shape[1] + 1), -jnp.inf)
        return scores.at[:, 0].set(jnp.inf)


@register(
    "random",
    summary="Any action, in random order.",
    kind="baseline",
    family="baseline",
    use_when="As the floor in a comparison.",
    stops=STOPS,
    settings=Settings,
)
def fit_random(*_: Any, settings: Settings = Settings(), **__: Any) -> Blind:
    """The random policy; it learns nothing from the tables."""
    return Blind(jnp.asarray(settings.stop_probability, jnp.float32), at_random=True)


@register(
    "sequential",
    summary="The actions in the order of the problem.",
    kind="baseline",
    family="baseline",
    use_when="As the order that you have today: list the actions in it.",
    stops=STOPS,
    settings=Settings,
)
def fit_sequential(*_: Any, settings: Settings = Settings(), **__: Any) -> Blind:
    """The sequential policy; it learns nothing from the tables."""
    return Blind(jnp.asarray(settings.stop_probability, jnp.float32), at_random=False)


@register(
    "stop",
    summary="Nothing at all: the prediction without any feature.",
    label="no acquisition",
    kind="baseline",
    family="baseline",
    use_when="To see what is known before anything is measured.",
)
def fit_stop(*_: Any, **__: Any) -> Stop:
    """The policy that stops at once."""
    return Stop()
