"""Networks against NumPy, and dropout's cheap random bits against what independent coins would do."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain._core.networks import MLP, Linear, dropout_masks

apply = eqx.filter_jit(lambda network, *inputs, **options: network(*inputs, **options))


def network_of(*sizes: int) -> MLP:
    """Build a network with random parameters, drawn by NumPy to avoid compilation."""
    rng = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(MLP, sizes, key=jr.key(0))
    drawn: MLP = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), shapes)
    return drawn


# Every statistical test below errs once in at least 10^5 runs on the worst key; the keys are fixed.
ALPHA = 1e-5


@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(25, 400), (1, 3000)])
def test_initial_parameters_are_uniform_within_one_over_the_root_of_the_inputs(
    n_inputs: int, n_outputs: int
) -> None:
    layer = Linear(n_inputs, n_outputs, key=jr.key(n_inputs))
    assert layer.weight.shape == (n_inputs, n_outputs)
    assert layer.bias.shape == (n_outputs,)
    bound = 1 / np.sqrt(n_inputs)
    for drawn in (np.asarray(layer.weight).ravel(), np.asarray(layer.bias)):
        assert np.all(np.abs(drawn) <= bound)
        assert scipy.stats.kstest(drawn, "uniform", args=(-bound, 2 * bound)).pvalue > ALPHA


def test_layers_and_parameters_are_drawn_independently() -> None:
    network = MLP((50, 50, 50), key=jr.key(0))
    first, second = (np.asarray(layer.weight).ravel() for layer in network.layers)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))
    assert not np.isin(np.asarray(network.layers[0].bias), first).any()


def test_the_network_is_affine_relu_affine() -> None:
    network = network_of(3, 5, 4, 2)
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    (w1, b1), (w2, b2), (w3, b3) = (
        (np.asarray(layer.weight), np.asarray(layer.bias)) for layer in network.layers
    )
    expected = np.maximum(np.maximum(x @ w1 + b1, 0) @ w2 + b2, 0) @ w3 + b3
    np.testing.assert_allclose(apply(network, jnp.asarray(x)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(apply(network, jnp.asarray(x[0, 0])), expected[0, 0], rtol=1e-5, atol=1e-6)
    assert np.any(x @ w1 + b1 < 0), "or else the test would not see the ReLU"


def test_a_network_without_hidden_layers_is_affine() -> None:
    network = network_of(3, 2)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = x @ np.asarray(network.layers[0].weight) + np.asarray(network.layers[0].bias)
    np.testing.assert_allclose(apply(network, jnp.asarray(x)), expected, rtol=1e-6)


def test_dropout_comes_before_the_relu_and_keeps_the_mean() -> None:
    network = network_of(3, 6, 5, 2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3)).astype(np.float32)
    keep = [rng.random((4, 6)) < 0.75, rng.random((4, 5)) < 0.75]
    hidden = x
    for layer, kept in zip(network.layers[:2], keep, strict=True):
        hidden = np.maximum((hidden @ np.asarray(layer.weight) + np.asarray(layer.bias)) * kept / 0.75, 0)
    expected = hidden @ np.asarray(network.layers[2].weight) + np.asarray(network.layers[2].bias)
    found = apply(network, jnp.asarray(x), keep=[jnp.asarray(k) for k in keep], dropout=0.25)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (64, 128), (3, 3, 3), (0,)])
def test_dropout_masks_have_the_shape_asked_for(shape: tuple[int, ...]) -> None:
    masks = dropout_masks(jr.key(0), 0.3, shape)
    assert masks.shape == shape
    assert masks.dtype == bool


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
def test_dropout_drops_at_its_rate(rate: float) -> None:
    n = 201 * 499
    dropped = int(np.sum(~np.asarray(dropout_masks(jr.key(1), rate, (201, 499)))))
    # 16 bits resolve the rate to 2^-17, a thirtieth of the standard error here.
    assert scipy.stats.binomtest(dropped, n, rate).pvalue > ALPHA


def test_nothing_is_dropped_at_rate_zero() -> None:
    assert np.all(dropout_masks(jr.key(0), 0.0, (100, 101)))


def test_dropout_is_reproducible_and_jittable() -> None:
    jitted = jax.jit(dropout_masks, static_argnums=(1, 2))
    np.testing.assert_array_equal(jitted(jr.key(3), 0.3, (9, 11)), dropout_masks(jr.key(3), 0.3, (9, 11)))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropped_units_do_not_depend_on_their_neighbours(rate: float) -> None:
    """Serially: units of one word, of the next words, of the same place in the next rows and layers."""
    masks = np.asarray(dropout_masks(jr.key(2), rate, (1001, 128))).ravel().astype(float)
    for lag in (1, 2, 3, 4, 8, 64, 128, 256):
        correlation = np.corrcoef(masks[:-lag], masks[lag:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(len(masks) - lag), lag


def test_rows_and_columns_of_units_vary_as_coins_do() -> None:
    """A lattice in the hashed counter would make whole rows or columns alike."""
    masks = np.asarray(dropout_masks(jr.key(4), 0.5, (512, 512)))
    for axis in (0, 1):
        totals = masks.sum(axis=axis)
        statistic = np.sum((totals - 256) ** 2 / 128)
        assert ALPHA < scipy.stats.chi2(512).cdf(statistic) < 1 - ALPHA


def test_dropout_is_independent_between_keys() -> None:
    keys = jnp.concatenate([jr.split(jr.key(0), 20), jax.vmap(jr.key)(jnp.arange(20))])
    masks = np.asarray(jax.vmap(lambda key: dropout_masks(key, 0.2, (99, 101)))(keys))
    correlations = np.corrcoef(masks.reshape(40, -1))
    assert np.abs(correlations[np.triu_indices(40, 1)]).max() < 5 / np.sqrt(99 * 101)
