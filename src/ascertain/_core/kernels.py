"""Sums over a middle axis, which XLA computes several times slower on NVIDIA GPUs than these kernels do.

`sum_of_relus` picks its implementation by platform; users of `weighted_sum` pair it with a plain sum for
other devices. Tests run the kernels in interpret mode and compare them with the plain sums.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

_LANES = 128  # block size along hidden units, or along rows in `weighted_sum`
_UNROLL = 4  # terms added per loop iteration, so that their loads overlap
_WARPS = 4


class _Tiles(NamedTuple):
    """How a sum of ReLUs is cut into blocks; measured on an H200: 128 rows, 63 points, 500 units."""

    across: int  # block size along rows, or along points in the gradient
    lanes: int  # block size along hidden units
    unroll: int
    warps: int


_FORWARD = _Tiles(across=16, lanes=128, unroll=4, warps=2)
_BACKWARD = _Tiles(across=4, lanes=512, unroll=8, warps=4)


@jax.custom_vjp
def sum_of_relus(
    x: Float[Array, "instances points"],
    seen: Float[Array, "instances points"],
    directions: Float[Array, "points hidden"],
    bias: Float[Array, " hidden"],
) -> Float[Array, "instances hidden"]:
    """Compute sum_j seen_j relu(x_j directions_j + bias) without keeping the terms for the gradient.

    `x` has to be zero where `seen` is. There is no gradient for either. On processor cores the sum goes
    point by point, so that the operands stay in the cache.
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


# The kernels sum over all points, as it costs less than to look which are seen. A point that is not has the
# term relu(bias), since its x is zero; as many of these are subtracted as there are such points, with those
# that fill up the blocks. Kernels are jitted to be traced once for each shape, however often a program calls
# them.
@partial(jax.jit, static_argnames="interpret")
def sum_by_kernel(
    x: Array, seen: Array, directions: Array, bias: Array, *, interpret: bool = False
) -> Float[Array, "instances hidden"]:
    """Compute `sum_of_relus` in a kernel; terms stay in registers."""
    (n_rows, _), n_hidden, tiles = x.shape, bias.shape[0], _FORWARD
    x = _pad(x.T, tiles.unroll, tiles.across)
    directions, shifts = _pad(directions, tiles.unroll, tiles.lanes), _pad(bias, tiles.lanes)
    n_points = len(x)

    def kernel(x_ref: Any, directions_ref: Any, bias_ref: Any, out_ref: Any) -> None:
        shift = bias_ref[...][None]

        def add(turn: Array, total: Array) -> Array:
            for point in (turn * tiles.unroll + i for i in range(tiles.unroll)):
                sums = x_ref[point, :][:, None] * directions_ref[point, :][None] + shift
                total = total + jnp.maximum(sums, 0.0)
            return total

        out_ref[...] = jax.lax.fori_loop(0, n_points // tiles.unroll, add, jnp.zeros(out_ref.shape))

    summed: Array = pl.pallas_call(
        kernel,
        grid=(x.shape[1] // tiles.across, directions.shape[1] // tiles.lanes),
        in_specs=[
            pl.BlockSpec((n_points, tiles.across), lambda row, lane: (0, row)),
            pl.BlockSpec((n_points, tiles.lanes), lambda row, lane: (0, lane)),
            pl.BlockSpec((tiles.lanes,), lambda row, lane: (lane,)),
        ],
        out_specs=pl.BlockSpec((tiles.across, tiles.lanes), lambda row, lane: (row, lane)),
        out_shape=jax.ShapeDtypeStruct((x.shape[1], directions.shape[1]), jnp.float32),
        **kernel_options(interpret, tiles.warps),
    )(x, directions, shifts)
    unseen = n_points - seen.sum(axis=1)
    return summed[:n_rows, :n_hidden] - unseen[:, None] * jax.nn.relu(bias)[None]


@partial(jax.jit, static_argnames="interpret")
def gradient_by_kernel(
    x: Array, seen: Array, directions: Array, bias: Array, gradient: Array, *, interpret: bool = False
) -> tuple[Float[Array, "points hidden"], Float[Array, " hidden"]]:
    """Compute the gradient of `sum_of_relus` for directions and bias in a kernel."""
    (n_points, n_hidden), tiles = directions.shape, _BACKWARD
    directions, shifts = _pad(directions, tiles.across, tiles.lanes), _pad(bias, tiles.lanes)
    unseen = len(directions) - seen.sum(axis=1)
    of_unseen = jnp.where(bias > 0, jnp.sum(unseen[:, None] * gradient, axis=0), 0.0)
    x, gradient = _pad(x, tiles.unroll, tiles.across), _pad(gradient, tiles.unroll, tiles.lanes)
    n_rows = len(x)

    def kernel(*refs: Any) -> None:
        x_ref, directions_ref, bias_ref, gradient_ref, to_directions_ref, to_bias_ref = refs
        slope, shift = directions_ref[...], bias_ref[...][None]

        def add(turn: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
            to_directions, to_bias = totals
            for row in (turn * tiles.unroll + i for i in range(tiles.unroll)):
                value = x_ref[row, :][:, None]
                passed = jnp.where(value * slope + shift > 0, gradient_ref[row, :][None], 0.0)
                to_directions, to_bias = to_directions + value * passed, to_bias + passed
            return to_directions, to_bias

        zero = jnp.zeros(slope.shape)
        totals = jax.lax.fori_loop(0, n_rows // tiles.unroll, add, (zero, zero))
        to_directions_ref[...], to_bias_ref[...] = totals

    block = pl.BlockSpec((tiles.across, tiles.lanes), lambda point, lane: (point, lane))
    shape = jax.ShapeDtypeStruct(directions.shape, jnp.float32)
    to_directions, to_bias = pl.pallas_call(
        kernel,
        grid=(directions.shape[0] // tiles.across, directions.shape[1] // tiles.lanes),
        in_specs=[
            pl.BlockSpec((n_rows, tiles.across), lambda point, lane: (0, point)),
            block,
            pl.BlockSpec((tiles.lanes,), lambda point, lane: (lane,)),
            pl.BlockSpec((n_rows, tiles.lanes), lambda point, lane: (0, lane)),
        ],
        out_specs=(block, block),
        out_shape=(shape, shape),
        **kernel_options(interpret, tiles.warps),
    )(x, directions, shifts, gradient)
    return to_directions[:n_points, :n_hidden], to_bias.sum(axis=0)[:n_hidden] - of_unseen


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
        **kernel_options(interpret, _WARPS),
    )(memory, weights)
    return summed[:, :n_rows]


def kernel_options(interpret: bool, warps: int) -> dict[str, Any]:
    """Options of `pallas_call`; interpret mode is for tests without a GPU."""
    if interpret:
        return {"interpret": True}
    return {"compiler_params": triton.CompilerParams(num_warps=warps)}


def _pad(array: Float[Array, "..."], *multiples: int) -> Float[Array, "..."]:
    """Pad every axis with zeros up to a multiple of the given number."""
    return jnp.pad(array, [(0, -size % of) for size, of in zip(array.shape, multiples, strict=True)])
