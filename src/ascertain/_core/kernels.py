"""Kernels for NVIDIA GPUs: sums over a middle axis, which XLA computes several times slower.

Each has a plain counterpart beside its use, for other devices; tests compare the two.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

_LANES = 128  # hidden units, or rows, that a block works on side by side
_ROWS = 16  # instances, or points, that a block of a Partial VAE works on besides
_TURN = 4  # terms added in one turn of the loop: their loads overlap
_WARPS = 4


# Traced once for each shape, however often a program calls it.
@partial(jax.jit, static_argnames="interpret")
def sum_of_relus(
    x: Float[Array, "instances points"],
    seen: Float[Array, "instances points"],
    directions: Float[Array, "points hidden"],
    bias: Float[Array, " hidden"],
    *,
    interpret: bool = False,
) -> Float[Array, "instances hidden"]:
    """Give sum_j seen_j relu(x_j directions_j + bias); terms stay in registers."""
    n_rows, n_hidden = x.shape[0], bias.shape[0]
    x, seen = (_padded(each.T, _TURN, _ROWS) for each in (x, seen))
    directions, bias = _padded(directions, _TURN, _LANES), _padded(bias, _LANES)
    n_points = len(x)

    def kernel(x_ref: Any, seen_ref: Any, directions_ref: Any, bias_ref: Any, out_ref: Any) -> None:
        shift = bias_ref[...][None]

        def add(turn: Array, total: Array) -> Array:
            for point in (turn * _TURN + place for place in range(_TURN)):
                reached = x_ref[point, :][:, None] * directions_ref[point, :][None] + shift
                total = total + seen_ref[point, :][:, None] * jnp.maximum(reached, 0.0)
            return total

        out_ref[...] = jax.lax.fori_loop(0, n_points // _TURN, add, jnp.zeros(out_ref.shape))

    by_row = pl.BlockSpec((n_points, _ROWS), lambda row, lane: (0, row))
    summed: Array = pl.pallas_call(
        kernel,
        grid=(x.shape[1] // _ROWS, directions.shape[1] // _LANES),
        in_specs=[
            by_row,
            by_row,
            pl.BlockSpec((n_points, _LANES), lambda row, lane: (0, lane)),
            pl.BlockSpec((_LANES,), lambda row, lane: (lane,)),
        ],
        out_specs=pl.BlockSpec((_ROWS, _LANES), lambda row, lane: (row, lane)),
        out_shape=jax.ShapeDtypeStruct((x.shape[1], directions.shape[1]), jnp.float32),
        **_how(interpret),
    )(x, seen, directions, bias)
    return summed[:n_rows, :n_hidden]


@partial(jax.jit, static_argnames="interpret")
def gradient_of_relus(
    x: Float[Array, "instances points"],
    seen: Float[Array, "instances points"],
    directions: Float[Array, "points hidden"],
    bias: Float[Array, " hidden"],
    gradient: Float[Array, "instances hidden"],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, "points hidden"], Float[Array, " hidden"]]:
    """Give the gradient of `sum_of_relus` for directions and bias."""
    n_points, n_hidden = directions.shape
    x, seen = (_padded(each, _TURN, _ROWS) for each in (x, seen))
    directions, bias = _padded(directions, _ROWS, _LANES), _padded(bias, _LANES)
    gradient = _padded(gradient, _TURN, _LANES)
    n_rows = len(x)

    def kernel(
        x_ref: Any,
        seen_ref: Any,
        directions_ref: Any,
        bias_ref: Any,
        gradient_ref: Any,
        to_directions_ref: Any,
        to_bias_ref: Any,
    ) -> None:
        slope, shift = directions_ref[...], bias_ref[...][None]

        def add(turn: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
            to_directions, to_bias = totals
            for row in (turn * _TURN + place for place in range(_TURN)):
                value = x_ref[row, :][:, None]
                weighted = seen_ref[row, :][:, None] * gradient_ref[row, :][None]
                passed = jnp.where(value * slope + shift > 0, weighted, 0.0)
                to_directions, to_bias = to_directions + value * passed, to_bias + passed
            return to_directions, to_bias

        nothing = jnp.zeros(slope.shape)
        totals = jax.lax.fori_loop(0, n_rows // _TURN, add, (nothing, nothing))
        to_directions_ref[...], to_bias_ref[...] = totals

    by_point = pl.BlockSpec((n_rows, _ROWS), lambda point, lane: (0, point))
    block = pl.BlockSpec((_ROWS, _LANES), lambda point, lane: (point, lane))
    shape = jax.ShapeDtypeStruct(directions.shape, jnp.float32)
    to_directions, to_bias = pl.pallas_call(
        kernel,
        grid=(directions.shape[0] // _ROWS, directions.shape[1] // _LANES),
        in_specs=[
            by_point,
            by_point,
            block,
            pl.BlockSpec((_LANES,), lambda point, lane: (lane,)),
            pl.BlockSpec((n_rows, _LANES), lambda point, lane: (0, lane)),
        ],
        out_specs=(block, block),
        out_shape=(shape, shape),
        **_how(interpret),
    )(x, seen, directions, bias, gradient)
    return to_directions[:n_points, :n_hidden], to_bias.sum(axis=0)[:n_hidden]


@partial(jax.jit, static_argnames="interpret")
def weighted_sum(
    memory: Float[Array, "units features batch"],
    weights: Float[Array, "features batch"],
    *,
    interpret: bool = False,
) -> Float[Array, "units batch"]:
    """Give sum_f weights_f memory_f for every unit and row."""
    n_units, n_features, n_rows = memory.shape
    # Features are not padded, as this would copy the memory; the last turn is shorter.
    memory, weights = _padded(memory, 1, 1, _LANES), _padded(weights, 1, _LANES)

    def kernel(memory_ref: Any, weights_ref: Any, out_ref: Any) -> None:
        def term(feature: Array | int) -> Array:
            product: Array = memory_ref[feature, :] * weights_ref[feature, :]
            return product

        def add(turn: Array, total: Array) -> Array:
            return total + sum(term(turn * _TURN + place) for place in range(_TURN))

        turns = n_features // _TURN
        total = jax.lax.fori_loop(0, turns, add, jnp.zeros(out_ref.shape))
        for feature in range(turns * _TURN, n_features):
            total = total + term(feature)
        out_ref[...] = total

    summed: Array = pl.pallas_call(
        kernel,
        grid=(n_units, memory.shape[2] // _LANES),
        in_specs=[
            pl.BlockSpec((None, n_features, _LANES), lambda unit, lane: (unit, 0, lane)),
            pl.BlockSpec((n_features, _LANES), lambda unit, lane: (0, lane)),
        ],
        out_specs=pl.BlockSpec((None, _LANES), lambda unit, lane: (unit, lane)),
        out_shape=jax.ShapeDtypeStruct((n_units, memory.shape[2]), jnp.float32),
        **_how(interpret),
    )(memory, weights)
    return summed[:, :n_rows]


def _how(interpret: bool) -> dict[str, Any]:
    """Say how to compile a kernel; or not to, for tests without a GPU."""
    if interpret:
        return {"interpret": True}
    return {"compiler_params": triton.CompilerParams(num_warps=_WARPS)}


def _padded(array: Float[Array, "..."], *multiples: int) -> Float[Array, "..."]:
    """Fill up every axis with zeros, to a multiple of so many."""
    return jnp.pad(array, [(0, -size % of) for size, of in zip(array.shape, multiples, strict=True)])
