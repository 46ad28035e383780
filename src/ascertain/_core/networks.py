"""Multilayer perceptrons, the building block of every network here."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from ascertain._core.hashing import random_words

# Used in place of minus infinity where that would lead to NaN.
LOWEST = float(np.finfo(np.float32).min)


class Linear(eqx.Module):
    """An affine layer on batches, initialised as in the reference: uniform within 1 / sqrt(inputs)."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, n_inputs: int, n_outputs: int, *, key: PRNGKeyArray):
        weight_key, bias_key = jr.split(key)
        bound = n_inputs**-0.5
        self.weight = jr.uniform(weight_key, (n_inputs, n_outputs), minval=-bound, maxval=bound)
        self.bias = jr.uniform(bias_key, (n_outputs,), minval=-bound, maxval=bound)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        """Apply the layer."""
        return x @ self.weight + jnp.expand_dims(self.bias, range(x.ndim - 1))


class MLP(eqx.Module):
    """Affine layers with ReLU between them and, in training, dropout before each ReLU."""

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray):
        keys = jr.split(key, len(sizes) - 1)
        pairs = zip(sizes, sizes[1:], keys, strict=False)
        self.layers = tuple(Linear(n_in, n_out, key=k) for n_in, n_out, k in pairs)

    def __call__(
        self,
        x: Float[Array, "*batch inputs"],
        *,
        keep: Sequence[Bool[Array, "..."]] | None = None,
        dropout: float = 0.0,
    ) -> Float[Array, "*batch outputs"]:
        """Apply the network; `keep` has a mask for every hidden layer, drawn with rate `dropout`."""
        return apply_layers(self.layers, x, keep=keep, dropout=dropout)


def apply_layers(
    layers: Sequence[Linear],
    x: Float[Array, "*batch inputs"],
    *,
    keep: Sequence[Bool[Array, "..."]] | None = None,
    dropout: float = 0.0,
) -> Float[Array, "*batch outputs"]:
    """Apply affine layers with ReLU between them, and dropout if masks are given."""
    *hidden, last = layers
    for i, layer in enumerate(hidden):
        x = layer(x)
        if keep is not None:
            x = jnp.where(keep[i], x / (1 - dropout), 0.0)
        x = jax.nn.relu(x)
    return last(x)


def dropout_masks(key: PRNGKeyArray, rate: float, shape: tuple[int, ...]) -> Bool[Array, "..."]:
    """Draw which units to keep, from single random bits at rate 1/2 and from 16-bit numbers otherwise.

    Dropout needs more random numbers than the rest of training, of no great quality. Hashed counters cost
    a fraction of JAX's generator.
    """
    n = math.prod(shape)
    seed = seed_of(key)
    if rate == 0.5:
        shifts = jnp.arange(32, dtype=jnp.uint32)
        kept = (random_words(seed, -(-n // 32))[:, None] >> shifts[None] & 1) == 1
    else:
        kept = jax.lax.bitcast_convert_type(random_words(seed, -(-n // 2)), jnp.uint16) >= round(rate * 2**16)
    return kept.reshape(-1)[:n].reshape(shape)


def seed_of(key: PRNGKeyArray) -> UInt32[Array, ""]:
    """The seed of the hashed counters that `dropout_masks` are drawn from."""
    return jr.bits(key, (), jnp.uint32)
