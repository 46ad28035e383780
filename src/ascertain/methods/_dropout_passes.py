"""The mean prediction of a small classifier over dropout masks, in a kernel for NVIDIA GPUs.

One pass needs little arithmetic but, in XLA, writes every hidden layer to memory and reads it again, as the
next product. Here a block of rows goes through all passes, and only the mean is written.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, UInt32

from ascertain._core.hashing import random_words_at
from ascertain._core.kernels import kernel_options
from ascertain._core.networks import LOWEST, Linear

_ROWS = 64  # of a block
_WARPS = 4
_BITS = 32  # of a random word, each of which decides about one unit
_LEAST = 16  # the smallest side of a matrix that tensor cores multiply


def fits_kernel(layers: tuple[Linear, ...], dropout: float) -> bool:
    """Whether the kernel can compute this: the units of a row must not straddle random words."""
    sizes = [len(layer.weight) for layer in layers]
    few_classes = len(layers[-1].bias) <= _BITS
    return dropout == 0.5 and few_classes and all(size == _LEAST or size % _BITS == 0 for size in sizes)


# Jitted to be traced once for each shape, however often a program calls it.
@partial(jax.jit, static_argnames=("passes", "per_round", "interpret"))
def mean_probability(
    hidden: Float[Array, "batch units"],
    layers: tuple[Linear, ...],
    seeds: UInt32[Array, "rounds layers"],
    passes: int,
    per_round: int,
    *,
    interpret: bool = False,
) -> Float[Array, "batch classes"]:
    """Compute the mean over dropout masks at rate 1/2; those of a round share their seeds.

    Parameters
    ----------
    hidden
        The first hidden layer, after its ReLU.
    layers
        The layers that follow it.
    seeds
        Of the random words, for every round of passes and every layer, as `dropout_masks` has them.
    passes, per_round
        How many masks there are, and how many in a round; the last may have fewer.
    interpret
        Run the kernel step by step on any device, for tests.
    """
    n_rows, n_classes = len(hidden), len(layers[-1].bias)
    parameters = [leaf for layer in _with_padded_classes(layers) for leaf in (layer.weight, layer.bias)]
    hidden = jnp.pad(hidden, ((0, -n_rows % _ROWS), (0, 0)))
    rows = jnp.arange(len(hidden), dtype=jnp.uint32)

    def kernel(rows_ref: Any, hidden_ref: Any, seeds_ref: Any, *refs: Any) -> None:
        *parameter_refs, out_ref = refs
        pairs = list(zip(parameter_refs[::2], parameter_refs[1::2], strict=True))
        row = rows_ref[...]
        first = [hidden_ref[:, each] for each in _slices(hidden_ref.shape[1])]

        def add(number: Array, total: Array) -> Array:
            turn, index = jax.lax.div(number, per_round), jax.lax.rem(number, per_round).astype(jnp.uint32)
            parts = first
            for layer, (weight_ref, bias_ref) in enumerate(pairs):
                place = (index * jnp.uint32(n_rows) + row) * jnp.uint32(weight_ref.shape[0])
                dropped = _drop(parts, place, seeds_ref[turn, layer])
                parts = [_product(dropped, weight_ref, bias_ref, each) for each in _slices(len(bias_ref))]
            (logits,) = parts
            odds = jnp.exp(logits - logits.max(axis=1)[:, None])
            return total + odds / odds.sum(axis=1)[:, None]

        out_ref[...] = jax.lax.fori_loop(0, passes, add, jnp.zeros(out_ref.shape)) / passes

    whole = [pl.BlockSpec(each.shape, lambda row, n=each.ndim: (0,) * n) for each in (seeds, *parameters)]
    mean: Array = pl.pallas_call(
        kernel,
        grid=(len(hidden) // _ROWS,),
        in_specs=[
            pl.BlockSpec((_ROWS,), lambda row: (row,)),
            pl.BlockSpec((_ROWS, hidden.shape[1]), lambda row: (row, 0)),
            *whole,
        ],
        out_specs=pl.BlockSpec((_ROWS, len(parameters[-1])), lambda row: (row, 0)),
        out_shape=jax.ShapeDtypeStruct((len(hidden), len(parameters[-1])), jnp.float32),
        **kernel_options(interpret, _WARPS),
    )(rows, hidden, seeds, *parameters)
    return mean[:n_rows, :n_classes]


def _drop(parts: list[Array], place: Array, seed: Array) -> list[Array]:
    """Drop units of a layer; `place` is where the bit of a row's first unit is among all random bits."""
    dropped, bits = [], jnp.uint32(_BITS)
    for number, part in enumerate(parts):
        word = random_words_at(seed, jax.lax.div(place, bits) + jnp.uint32(number))
        units = jnp.arange(part.shape[1], dtype=jnp.uint32)
        bit = jax.lax.rem(place, bits)[:, None] + units[None]
        kept = (word[:, None] >> bit) & 1 == 1
        dropped.append(jnp.where(kept, 2 * jnp.maximum(part, 0.0), 0.0))
    return dropped


def _product(parts: list[Array], weight_ref: Any, bias_ref: Any, units: slice) -> Array:
    """Some units of the next layer."""
    out = jnp.broadcast_to(bias_ref[units][None], (len(parts[0]), units.stop - units.start))
    for part, rows in zip(parts, _slices(len(weight_ref)), strict=True):
        out = out + part @ weight_ref[rows, units]
    return out


def _slices(units: int) -> list[slice]:
    """Slices of units that share a random word of every row."""
    size = min(units, _BITS)
    return [slice(start, start + size) for start in range(0, units, size)]


def _with_padded_classes(layers: tuple[Linear, ...]) -> tuple[Linear, ...]:
    """Add classes that no row has, up to a power of two, of which kernels need the sizes to be."""
    *others, last = layers
    n_classes = len(last.bias)
    more = max(_LEAST, 1 << (n_classes - 1).bit_length()) - n_classes
    weight = jnp.pad(last.weight, ((0, 0), (0, more)))
    bias = jnp.pad(last.bias, (0, more), constant_values=LOWEST)
    return (*others, eqx.tree_at(lambda layer: (layer.weight, layer.bias), last, (weight, bias)))
