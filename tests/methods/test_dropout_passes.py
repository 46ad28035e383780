"""The kernel of OL's dropout passes: in interpret mode against the plain passes, with the same masks."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain._core.networks import MLP, Linear, seed_of
from ascertain.methods._dropout_passes import fits_kernel, mean_probability
from ascertain.methods._ol import Settings, _mean_probability


def layers_of(*sizes: int) -> tuple[Linear, ...]:
    return MLP(sizes, key=jr.key(0)).layers


@pytest.mark.parametrize(
    ("sizes", "n_rows", "passes"),
    [
        ((64, 32, 16, 5), 70, 30),
        ((96, 64, 32, 17), 33, 3),
    ],  # the last round has fewer passes; slices of layers
)
def test_the_kernel_has_the_masks_and_mean_of_the_plain_passes(
    sizes: tuple[int, ...], n_rows: int, passes: int
) -> None:
    layers, at_once = layers_of(*sizes), min(25, passes)
    hidden = jax.nn.relu(jr.normal(jr.key(1), (2, n_rows, sizes[0])))
    keys = jr.split(jr.key(2), (2, -(-passes // at_once), len(layers)))
    settings = Settings(confidence_passes=passes)
    plain = jax.vmap(lambda h, k: _mean_probability(h, layers, k, at_once, settings))(hidden, keys)
    seeds = jax.vmap(jax.vmap(jax.vmap(seed_of)))(keys)
    found = jax.vmap(lambda h, s: mean_probability(h, layers, s, passes, at_once, interpret=True))(
        hidden, seeds
    )
    # One mask more or less would change a mean of 30 passes by far more than rounding does.
    np.testing.assert_allclose(found, plain, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "rate", "fits"),
    [
        ((64, 32, 16, 8), 0.5, True),
        ((64, 32, 16, 33), 0.5, False),  # classes in more than one slice
        ((64, 32, 24, 8), 0.5, False),  # a random word for the units of two rows
        ((64, 32, 16, 8), 0.4, False),
    ],
)
def test_what_the_kernel_cannot_compute_is_left_to_xla(
    sizes: tuple[int, ...], rate: float, fits: bool
) -> None:
    assert fits_kernel(layers_of(*sizes), rate) == fits


def test_it_compiles_for_gpus() -> None:
    """As far as can be told without one: all of it can be translated for Triton."""
    layers = layers_of(64, 32, 16, 8)
    traced = jax.jit(jax.vmap(lambda h, s: mean_probability(h, layers, s, 100, 25))).trace(
        jnp.zeros((3, 70, 64)), jnp.zeros((3, 4, 3), jnp.uint32)
    )
    assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text()
