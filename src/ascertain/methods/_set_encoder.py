"""JAFA's set encoder: embeds the set of observed features, in no order (Shim, Hwang and Yang 2018).

Arrays have rows last: sets and units are small, and only the rows make long vectors. Where a compiler would
compute small things many times over, products and barriers keep it from doing so.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core import kernels
from ascertain._core.networks import LOWEST, MLP


class LSTMCell(eqx.Module):
    """A long short-term memory cell."""

    weight: Float[Array, "input_and_state gates"]
    bias: Float[Array, "two gates"]  # the reference has one for the input and one for the state

    def __init__(self, size: int, *, key: PRNGKeyArray):
        bound = size**-0.5
        drawn = jr.uniform(key, (2 * size + 2, 4 * size), minval=-bound, maxval=bound)
        self.weight, self.bias = drawn[:-2], drawn[-2:]

    def __call__(
        self, input_and_state: Float[Array, "input_and_state batch"], cell: Float[Array, "size batch"]
    ) -> tuple[Float[Array, "size batch"], Float[Array, "size batch"]]:
        """The next state and cell."""
        gates = self.weight.T @ input_and_state + self.bias.sum(axis=0)[:, None]
        i, f, g, o = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


class SetEncoder(eqx.Module):
    """Reads each observed feature, processes their memories by attention, and writes an embedding."""

    read: MLP
    process: LSTMCell
    write: MLP
    empty: Float[Array, " embedding"]  # of the empty set
    process_steps: int = eqx.field(static=True)

    def __init__(
        self, n_features: int, hidden: Sequence[int], size: int, process_steps: int, *, key: PRNGKeyArray
    ):
        reading, processing, writing = jr.split(key, 3)
        self.read = MLP((n_features + 1, *hidden, size), key=reading)
        self.process = LSTMCell(size, key=processing)
        self.write = MLP((2 * size, *hidden, size), key=writing)
        self.empty = jnp.zeros(size)
        self.process_steps = process_steps

    def __call__(
        self,
        x: Float[Array, "batch features"],
        observed: Bool[Array, "batch features"],
        most: int | None = None,
    ) -> Float[Array, "batch embedding"]:
        """Embed the observed features of each row, of which there are at most `most`."""
        values = _transposed(jnp.where(observed, x, 0.0))
        seen = _transposed(observed.astype(x.dtype)) > 0
        # A feature's input is its value and its one-hot number. This is the number's part of the first layer.
        first = self.read.layers[0]
        numbers = (first.weight[1:] + first.bias[None]).T
        if most is None or most >= len(values):
            return self._attend(self._memories(values, numbers[:, :, None]), seen)
        # Each row's observed features move to the front, so that no more than these are read.
        place = jnp.cumsum(seen, axis=0) - 1
        moved = (seen[:, None] & (place[:, None] == jnp.arange(most)[None, :, None])).astype(x.dtype)
        numbers_moved = (numbers @ moved.reshape(len(values), -1)).reshape(-1, *moved.shape[1:])
        values = jnp.sum(moved * values[:, None], axis=0)
        return self._attend(self._memories(values, numbers_moved), jnp.any(moved > 0, axis=0))

    def _memories(
        self, values: Float[Array, "features batch"], numbers: Float[Array, "units features _"]
    ) -> Float[Array, "embedding features batch"]:
        """Read each feature by itself."""
        first, *rest = self.read.layers
        hidden = values[None] * first.weight[0][:, None, None] + numbers
        for layer in rest:
            flat = jax.nn.relu(hidden).reshape(hidden.shape[0], -1)
            hidden = (layer.weight.T @ flat + layer.bias[:, None]).reshape(-1, *values.shape)
        return hidden

    def _attend(
        self, memory: Float[Array, "embedding features batch"], observed: Bool[Array, "features batch"]
    ) -> Float[Array, "batch embedding"]:
        """Attend to the memories of the observed features, `process_steps` times, and write the embedding."""
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

    XLA computes a product before its consumers. A plain transpose would be fused into them, together with
    what led to it (random masks, looked-up rows), and be computed again for every unit of the next layer.
    """
    return jnp.matmul(jnp.eye(x.shape[1]), x.T, precision=jax.lax.Precision.HIGHEST)


# The two products of attention. Barriers finish the small operand before it is broadcast over the memory:
# fused, XLA would compute it again for every unit. The gradients are written out for the same reason.


def _sum_over_units(
    memory: Float[Array, "units features batch"], vector: Float[Array, "units batch"]
) -> Float[Array, "features batch"]:
    """Inner products, by additions that fuse into one pass."""
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
    """Each memory's inner product with the state."""
    return _sum_over_units(memory, state)


@jax.custom_vjp
def _blend(
    memory: Float[Array, "units features batch"], attention: Float[Array, "features batch"]
) -> Float[Array, "units batch"]:
    """The mean of the memories, weighted by attention."""
    return _sum_over_features(memory, attention)


_match.defvjp(
    lambda memory, state: (_sum_over_units(memory, state), (memory, state)),
    lambda saved, gradient: (_outer(saved[1], gradient), _sum_over_features(saved[0], gradient)),
)
_blend.defvjp(
    lambda memory, attention: (_sum_over_features(memory, attention), (memory, attention)),
    lambda saved, gradient: (_outer(gradient, saved[1]), _sum_over_units(saved[0], gradient)),
)
