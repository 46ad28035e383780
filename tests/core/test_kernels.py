"""The GPU's kernels give what the plain sums beside their use give; here they are interpreted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from ascertain._core import kernels
from ascertain.methods import set_encoder
from ascertain.restoration import pvae

_SHAPES = [(21, 6, 130)]  # multiples of nothing


@pytest.mark.parametrize(("n_rows", "n_points", "n_hidden"), _SHAPES)
def test_sum_of_relus(n_rows: int, n_points: int, n_hidden: int) -> None:
    x, seen, directions, bias, gradient = _drawn(n_rows, n_points, n_hidden)
    wanted = jax.vmap(pvae._sum_all_points)(x, seen, directions, bias)
    found = _interpreted(kernels.sum_of_relus)(x, seen, directions, bias)
    assert jnp.allclose(found, wanted, rtol=1e-5, atol=1e-5 * n_points)

    given = (x, seen, directions, bias, gradient)
    plain_gradients = jax.vmap(pvae._gradient_all_points)(*given)
    gradients = _interpreted(kernels.gradient_of_relus)(*given)
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


def _interpreted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(lambda *arguments: kernel(*arguments, interpret=True)))


def _drawn(n_rows: int, n_points: int, n_hidden: int) -> tuple[jax.Array, ...]:
    keys = jr.split(jr.key(0), 5)
    seen = jr.bernoulli(keys[0], 0.7, (2, n_rows, n_points)).astype(jnp.float32)
    x = jr.normal(keys[1], seen.shape) * seen
    directions = jr.normal(keys[2], (2, n_points, n_hidden))
    bias, gradient = jr.normal(keys[3], (2, n_hidden)), jr.normal(keys[4], (2, n_rows, n_hidden))
    return x, seen, directions, bias, gradient
