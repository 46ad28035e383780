"""Sums over a middle axis, which XLA computes several times slower on NVIDIA GPUs than these kernels do.

`sum_of_relus` picks its implementation by platform; users of `weighted_sum` pair it with a plain sum for
other devices. Tests run the kernels in interpret mode and compare them with the plain sums.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

_LANES = 128  # block size along hidden units, or along rows in `weighted_sum`
_ROWS = 16  # block size along the other axis in the sums of ReLUs
_UNROLL = 4  # terms added per loop iteration, so that their loads overlap
_WARPS = 4


@jax.custom_vjp
def sum_of_relus(
    x: Float[Array, "instances points"],
    seen: Float[Array, "instances points"],
    directions: Float[Array, "points hidden"],
    bias: Float[Array, " hidden"],
) -> Float[Array, "instances hidden"]:
    """Compute sum_j seen_j relu(x_j directions_j + bias) without keeping the terms for the gradient.

    There is no gradient for `x` and `seen`. On processor cores the sum goes point by point, so that the
    operands stay in the cache.
    """
    summed: Array = jax.lax.platform_dependent(
        x, seen, directions, bias, cpu=sum_by_point, cuda=sum_by_kernel, default=sum_at_once
    )
    return summed


def _forward(x: Array, seen: Array, directions: Array, bias: Array) -> tuple[Array, tuple[Array, ...]]:
    return sum_of_relus(x, seen, directions, bias), (x, seen, directions, bias)


def _backward(saved: tuple[Array, ...], gradient: Array) -> tuple[None, None, Array, Array]:
    to_directions, to_bias = jax.lax.platform_dependent(
        *saved, gradient, cpu=gradient_by_point, cuda=gradient_by_kernel, default=gradient_at_once
    )
    return None, None, to_directions, to_bias


sum_of_relus.defvjp(_forward, _backward)


def sum_at_once(x: Array, seen: Array, directions: Array, bias: Array) -> Array:
    """Compute `sum_of_relus` with all terms in memory."""
    terms = jax.nn.relu(x[:, :, None] * directions[None] + bias[None, None])
    return jnp.sum(seen[:, :, None] * terms, axis=1)


def gradient_at_once(
    x: Array, seen: Array, directions: Array, bias: Array, gradient: Array
) -> tuple[Array, Array]:
    """Compute the gradient of `sum_of_relus` for directions and bias with all terms in memory."""
    active = x[:, :, None] * directions[None] + bias[None, None] > 0
    passed = jnp.where(active, seen[:, :, None] * gradient[:, None, :], 0.0)
    return jnp.sum(x[:, :, None] * passed, axis=0), jnp.sum(passed, axis=(0, 1))


def sum_by_point(x: Array, seen: Array, directions: Array, bias: Array) -> Array:
    """Compute `sum_of_relus` by a loop over points."""

    def add(total: Array, point: tuple[Array, Array, Array]) -> tuple[Array, None]:
        x_j, seen_j, direction = point
        term = jax.nn.relu(x_j[:, None] * direction[None] + bias[None])
        return total + seen_j[:, None] * term, None

    zero = jnp.zeros((x.shape[0], bias.shape[0]))
    return jax.lax.scan(add, zero, (x.T, seen.T, directions))[0]


def gradient_by_point(
    x: Array, seen: Array, directions: Array, bias: Array, gradient: Array
) -> tuple[Array, Array]:
    """Compute the gradient of `sum_of_relus` for directions and bias by a loop over points."""

    def add(to_bias: Array, point: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        x_j, seen_j, direction = point
        active = x_j[:, None] * direction[None] + bias[None] > 0
        passed = jnp.where(active, seen_j[:, None] * gradient, 0.0)
        return to_bias + jnp.sum(passed, axis=0), x_j @ passed

    to_bias, to_directions = jax.lax.scan(add, jnp.zeros_like(bias), (x.T, seen.T, directions))
    return to_directions, to_bias


# Kernels are jitted to be traced once for each shape, however often a program calls them.
@partial(jax.jit, static_argnames="interpret")
def sum_by_kernel(
    x: Array, seen: Array, directions: Array, bias: Array, *, interpret: bool = False
) -> Float[Array, "instances hidden"]:
    """Compute `sum_of_relus` in a kernel; terms stay in registers."""
    n_rows, n_hidden = x.shape[0], bias.shape[0]
    x, seen = (_pad(each.T, _UNROLL, _ROWS) for each in (x, seen))
    directions, bias = _pad(directions, _UNROLL, _LANES), _pad(bias, _LANES)
    n_points = len(x)

    def kernel(x_ref: Any, seen_ref: Any, directions_ref: Any, bias_ref: Any, out_ref: Any) -> None:
        shift = bias_ref[...][None]

        def add(turn: Array, total: Array) -> Array:
            for point in (turn * _UNROLL + i for i in range(_UNROLL)):
                sums = x_ref[point, :][:, None] * directions_ref[point, :][None] + shift
                total = total + seen_ref[point, :][:, None] * jnp.maximum(sums, 0.0)
            return total

        out_ref[...] = jax.lax.fori_loop(0, n_points // _UNROLL, add, jnp.zeros(out_ref.shape))

    by_row = pl.BlockSpec((n_points, _ROWS), lambda row, lane: (0, row))
    by_lane = pl.BlockSpec((n_points, _LANES), lambda row, lane: (0, lane))
    summed: Array = pl.pallas_call(
        kernel,
        grid=(x.shape[1] // _ROWS, directions.shape[1] // _LANES),
        in_specs=[by_row, by_row, by_lane, pl.BlockSpec((_LANES,), lambda row, lane: (lane,))],
        out_specs=pl.BlockSpec((_ROWS, _LANES), lambda row, lane: (row, lane)),
        out_shape=jax.ShapeDtypeStruct((x.shape[1], directions.shape[1]), jnp.float32),
        **_options(interpret),
    )(x, seen, directions, bias)
    return summed[:n_rows, :n_hidden]


@partial(jax.jit, static_argnames="interpret")
def gradient_by_kernel(
    x: Array, seen: Array, directions: Array, bias: Array, gradient: Array, *, interpret: bool = False
) -> tuple[Float[Array, "points hidden"], Float[Array, " hidden"]]:
    """Compute the gradient of `sum_of_relus` for directions and bias in a kernel."""
    n_points, n_hidden = directions.shape
    x, seen = (_pad(each, _UNROLL, _ROWS) for each in (x, seen))
    directions, bias = _pad(directions, _ROWS, _LANES), _pad(bias, _LANES)
    gradient = _pad(gradient, _UNROLL, _LANES)
    n_rows = len(x)

    def kernel(*refs: Any) -> None:
        x_ref, seen_ref, directions_ref, bias_ref, gradient_ref, to_directions_ref, to_bias_ref = refs
        slope, shift = directions_ref[...], bias_ref[...][None]

        def add(turn: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
            to_directions, to_bias = totals
            for row in (turn * _UNROLL + i for i in range(_UNROLL)):
                value = x_ref[row, :][:, None]
                weighted = seen_ref[row, :][:, None] * gradient_ref[row, :][None]
                passed = jnp.where(value * slope + shift > 0, weighted, 0.0)
                to_directions, to_bias = to_directions + value * passed, to_bias + passed
            return to_directions, to_bias

        zero = jnp.zeros(slope.shape)
        totals = jax.lax.fori_loop(0, n_rows // _UNROLL, add, (zero, zero))
        to_directions_ref[...], to_bias_ref[...] = totals

    by_point = pl.BlockSpec((n_rows, _ROWS), lambda point, lane: (0, point))
    by_lane = pl.BlockSpec((n_rows, _LANES), lambda point, lane: (0, lane))
    block = pl.BlockSpec((_ROWS, _LANES), lambda point, lane: (point, lane))
    shape = jax.ShapeDtypeStruct(directions.shape, jnp.float32)
    to_directions, to_bias = pl.pallas_call(
        kernel,
        grid=(directions.shape[0] // _ROWS, directions.shape[1] // _LANES),
        in_specs=[by_point, by_point, block, pl.BlockSpec((_LANES,), lambda point, lane: (lane,)), by_lane],
        out_specs=(block, block),
        out_shape=(shape, shape),
        **_options(interpret),
    )(x, seen, directions, bias, gradient)
    return to_directions[:n_points, :n_hidden], to_bias.sum(axis=0)[:n_hidden]


@partial(jax.jit, static_argnames="interpret")
def weighted_sum(
    memory: Float[Array, "units features batch"],
    weights: Float[Array, "features batch"],
    *,
    interpret: bool = False,
) -> Float[Array, "units batch"]:
    """Compute sum_f weights_f memory_f for every unit and row in a kernel."""
    n_units, n_features, n_rows = memory.shape
    # Features are not padded, as this would copy the memory: the remainder is added after the loop.
    memory, weights = _pad(memory, 1, 1, _LANES), _pad(weights, 1, _LANES)

    def kernel(memory_ref: Any, weights_ref: Any, out_ref: Any) -> None:
        def term(feature: Array | int) -> Array:
            product: Array = memory_ref[feature, :] * weights_ref[feature, :]
            return product

        def add(turn: Array, total: Array) -> Array:
            return total + sum(term(turn * _UNROLL + i) for i in range(_UNROLL))

        turns = n_features // _UNROLL
        total = jax.lax.fori_loop(0, turns, add, jnp.zeros(out_ref.shape))
        for feature in range(turns * _UNROLL, n_features):
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
        **_options(interpret),
    )(memory, weights)
    return summed[:, :n_rows]


def _options(interpret: bool) -> dict[str, Any]:
    """Options of `pallas_call`; interpret mode is for tests without a GPU."""
    if interpret:
        return {"interpret": True}
    return {"compiler_params": triton.CompilerParams(num_warps=_WARPS)}


def _pad(array: Float[Array, "..."], *multiples: int) -> Float[Array, "..."]:
    """Pad every axis with zeros up to a multiple of the given number."""
    return jnp.pad(array, [(0, -size % of) for size, of in zip(array.shape, multiples, strict=True)])
