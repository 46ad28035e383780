"""Every implementation of a sum against a plain one; kernels run in interpret mode here."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain._core import kernels
from ascertain.methods import _set_encoder as set_encoder

_SHAPES = [(21, 6, 130)]  # multiples of nothing


@pytest.mark.parametrize(("n_rows", "n_points", "n_hidden"), _SHAPES)
def test_the_kernels_of_the_sum_of_relus(n_rows: int, n_points: int, n_hidden: int) -> None:
    x, seen, directions, bias, gradient = _drawn(n_rows, n_points, n_hidden)
    wanted = jax.vmap(kernels.sum_at_once)(x, seen, directions, bias)
    found = _interpreted(kernels.sum_by_kernel)(x, seen, directions, bias)
    assert jnp.allclose(found, wanted, rtol=1e-5, atol=1e-5 * n_points)

    given = (x, seen, directions, bias, gradient)
    plain_gradients = jax.vmap(kernels.gradient_at_once)(*given)
    gradients = _interpreted(kernels.gradient_by_kernel)(*given)
    assert [each.shape for each in gradients] == [each.shape for each in plain_gradients]
    for ours, plain in zip(gradients, plain_gradients, strict=True):
        assert jnp.allclose(ours, plain, rtol=1e-5, atol=1e-5 * n_rows * n_points)


@pytest.mark.parametrize(("n_units", "n_features", "n_rows"), [(3, 6, 130)])
def test_weighted_sum(n_units: int, n_features: int, n_rows: int) -> None:
    memory = jr.normal(jr.key(0), (2, n_units, n_features, n_rows))
    weights = jr.normal(jr.key(1), (2, n_features, n_rows))
    wanted = jax.vmap(set_encoder._sum_of_products)(memory, weights)
    found = _interpreted(kernels.weighted_sum)(memory, weights)
    assert jnp.allclose(found, wanted, rtol=1e-5, atol=1e-5 * n_features)


def test_kernels_compile_for_gpus() -> None:
    """As far as can be told without one: all of them can be translated for Triton."""
    x, seen, directions, bias, gradient = _drawn(*_SHAPES[0])
    calls: list[tuple[Callable[..., Any], tuple[jax.Array, ...]]] = [
        (kernels.sum_by_kernel, (x, seen, directions, bias)),
        (kernels.gradient_by_kernel, (x, seen, directions, bias, gradient)),
        (kernels.weighted_sum, (jnp.zeros((2, 3, 6, 130)), jnp.zeros((2, 6, 130)))),
    ]
    for kernel, arguments in calls:
        lowered = jax.jit(jax.vmap(kernel)).trace(*arguments).lower(lowering_platforms=("cuda",))
        assert "triton" in lowered.as_text()


def _interpreted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(lambda *arguments: kernel(*arguments, interpret=True)))


def _drawn(n_rows: int, n_points: int, n_hidden: int) -> tuple[jax.Array, ...]:
    keys = jr.split(jr.key(0), 5)
    seen = jr.bernoulli(keys[0], 0.7, (2, n_rows, n_points)).astype(jnp.float32)
    x = jr.normal(keys[1], seen.shape) * seen
    directions = jr.normal(keys[2], (2, n_points, n_hidden))
    bias, gradient = jr.normal(keys[3], (2, n_hidden)), jr.normal(keys[4], (2, n_rows, n_hidden))
    return x, seen, directions, bias, gradient


def plain_sum(x: Any, seen: Any, directions: Any, bias: Any) -> jax.Array:
    terms = jnp.maximum(x[:, :, None] * directions[None] + bias[None, None], 0)
    return jnp.einsum("np,nph->nh", seen, terms)


def sum_arguments(seed: int, replicates: tuple[int, ...] = ()) -> tuple[jax.Array, ...]:
    rng = np.random.default_rng(seed)
    seen = rng.random((*replicates, 9, 5)) < 0.6
    x = rng.normal(size=seen.shape) * seen
    drawn = (x, seen, rng.normal(size=(*replicates, 5, 7)), rng.normal(size=(*replicates, 7)))
    return tuple(jnp.asarray(a, jnp.float32) for a in drawn)


SUMS: dict[str, Callable[..., jax.Array]] = {
    "in use": kernels.sum_of_relus,
    "point by point": kernels.sum_by_point,
    "all points": kernels.sum_at_once,
}


@pytest.mark.parametrize("name", SUMS)
def test_the_sum_over_points(name: str) -> None:
    arguments = sum_arguments(0)
    np.testing.assert_allclose(jax.jit(SUMS[name])(*arguments), plain_sum(*arguments), rtol=1e-5, atol=1e-5)
    arguments = sum_arguments(1, (3,))
    expected = jax.vmap(plain_sum)(*arguments)
    np.testing.assert_allclose(jax.jit(jax.vmap(SUMS[name]))(*arguments), expected, rtol=1e-5, atol=1e-5)


def plain_gradients(x: Any, seen: Any, directions: Any, bias: Any, gradient: Any) -> tuple[Any, Any]:
    found: tuple[Any, Any] = jax.grad(
        lambda d, b: jnp.sum(gradient * plain_sum(x, seen, d, b)), argnums=(0, 1)
    )(directions, bias)
    return found


def gradients_in_use(x: Any, seen: Any, directions: Any, bias: Any, gradient: Any) -> tuple[Any, Any]:
    found: tuple[Any, Any] = jax.grad(
        lambda d, b: jnp.sum(gradient * kernels.sum_of_relus(x, seen, d, b)), argnums=(0, 1)
    )(directions, bias)
    return found


GRADIENTS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "in use": gradients_in_use,
    "point by point": kernels.gradient_by_point,
    "all points": kernels.gradient_at_once,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_the_sum_over_points(name: str) -> None:
    for replicates in ((), (3,)):
        arguments = sum_arguments(2, replicates)
        shape = (*replicates, 9, 7)
        arguments += (jnp.asarray(np.random.default_rng(3).normal(size=shape), jnp.float32),)
        ours, plain = GRADIENTS[name], plain_gradients
        if replicates:
            ours, plain = jax.vmap(ours), jax.vmap(plain)
        for found, expected in zip(jax.jit(ours)(*arguments), jax.jit(plain)(*arguments), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
