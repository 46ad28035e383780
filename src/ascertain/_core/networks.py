"""The one network shape that everything here is built from."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.hashing import words

# Stands for minus infinity where that would give NaN.
LOWEST = float(np.finfo(np.float32).min)


class Linear(eqx.Module):
    """An affine layer on batches, initialised as in the reference: uniform within 1 / sqrt(inputs)."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, n_inputs: int, n_outputs: int, *, key: PRNGKeyArray):
        weighing, shifting = jr.split(key)
        bound = n_inputs**-0.5
        self.weight = jr.uniform(weighing, (n_inputs, n_outputs), minval=-bound, maxval=bound)
        self.bias = jr.uniform(shifting, (n_outputs,), minval=-bound, maxval=bound)

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
    """Apply affine layers with ReLU, and dropout where masks are given, between them."""
    *hidden, last = layers
    for i, layer in enumerate(hidden):
        x = layer(x)
        if keep is not None:
            x = jnp.where(keep[i], x / (1 - dropout), 0.0)
        x = jax.nn.relu(x)
    return last(x)


def dropout_masks(key: PRNGKeyArray, rate: float, shape: tuple[int, ...]) -> Bool[Array, "..."]:
    """Draw which units to keep: the bits of hashed counters at rate 1/2, else 16-bit numbers out of them.

    Dropout takes more random numbers than anything else in training and asks little of them; hashing costs
    a fraction of JAX's counter-based generator.
    """
    n = math.prod(shape)
    seed = jr.bits(key, (), jnp.uint32)
    if rate == 0.5:
        places = jnp.arange(32, dtype=jnp.uint32)
        kept = (words(seed, -(-n // 32))[:, None] >> places[None] & 1) == 1
    else:
        kept = jax.lax.bitcast_convert_type(words(seed, -(-n // 2)), jnp.uint16) >= round(rate * 2**16)
    return kept.reshape(-1)[:n].reshape(shape)
