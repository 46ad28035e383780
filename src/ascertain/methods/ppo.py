"""The clipped policy gradient and its critic: what ODIN learns with."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ascertain._core.networks import LOWEST


def log_probabilities(
    logits: Float[Array, "*batch choices"], legal: Bool[Array, "*batch choices"]
) -> Float[Array, "*batch choices"]:
    """Give the log-probabilities of the legal choices; those of the others are very low."""
    return jax.nn.log_softmax(jnp.where(legal, logits, LOWEST))


def actor_loss(
    log_probability: Float[Array, "*batch"],
    old_log_probability: Float[Array, "*batch"],
    advantage: Float[Array, "*batch"],
    clip: float,
) -> Float[Array, ""]:
    """Give PPO's clipped objective, negated."""
    ratio = jnp.exp(log_probability - old_log_probability)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))


def critic_loss(value: Float[Array, "*batch"], target: Float[Array, "*batch"]) -> Float[Array, ""]:
    """Give the mean smooth L1 distance: quadratic up to 1, linear beyond."""
    distance = jnp.abs(value - target)
    return jnp.mean(jnp.where(distance < 1, 0.5 * distance**2, distance - 0.5))


def mean_entropy(
    log_probability: Float[Array, "*batch choices"], legal: Bool[Array, "*batch choices"]
) -> Float[Array, ""]:
    """Give the mean entropy of the choices."""
    terms = jnp.where(legal, jnp.exp(log_probability) * log_probability, 0.0)
    return -jnp.mean(terms.sum(axis=-1))


def chosen(
    log_probability: Float[Array, "*batch choices"], choice: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Pick the log-probability of each choice."""
    return jnp.take_along_axis(log_probability, choice[..., None], axis=-1)[..., 0]
