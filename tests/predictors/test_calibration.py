"""Temperatures against closed forms and known truth."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array

from ascertain import Problem, Table
from ascertain.predictors._calibration import Calibrated, fit_calibration, fit_temperature, tempered


def _softmax(logits: np.ndarray) -> np.ndarray:
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("truth", [0.4, 1.0, 2.5])
def test_a_known_temperature_is_found(truth: float) -> None:
    """Labels are drawn from probabilities; what is predicted is sharper or flatter by a known factor."""
    rng = np.random.default_rng(0)
    n = 20_000
    logits = rng.normal(size=(n, 3)) * 2
    probabilities = _softmax(logits)
    y = (rng.random((n, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    found = fit_temperature(_softmax(logits * truth), y)
    # Fisher's information about log T at the truth is the summed variance of the logits under the model.
    mean = (probabilities * logits).sum(axis=1)
    information = ((probabilities * logits**2).sum(axis=1) - mean**2).sum()
    assert abs(np.log(found / truth)) < 5 / np.sqrt(information)  # five standard errors: fails once in 10^6


def test_two_classes_in_closed_form() -> None:
    """If 80% of rows predicted at 90% are right, the temperature is log-odds over log-odds."""
    n = 100_000  # so many that the prior does not matter
    probabilities = np.tile([[0.9, 0.1]], (n, 1))
    y = np.repeat([0, 1], [8 * n // 10, 2 * n // 10])
    assert fit_temperature(probabilities, y) == pytest.approx(np.log(9) / np.log(4), rel=1e-3)


@pytest.mark.parametrize("right", [True, False])
def test_few_rows_that_agree_do_not_make_it_certain(right: bool) -> None:
    probabilities = np.tile([[0.7, 0.3]], (3, 1))
    found = fit_temperature(probabilities, np.zeros(3, int) if right else np.ones(3, int))
    assert 0.3 < found < 4
    assert (found < 1) == right


def test_zeros_are_survived() -> None:
    assert np.isfinite(fit_temperature(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1, 0])))


@settings(deadline=None)  # the first of each size compiles
@given(st.floats(0.1, 10), st.lists(st.floats(0.001, 1), min_size=2, max_size=5))
def test_tempering_keeps_the_order_and_sums_to_one(temperature: float, weights: list[float]) -> None:
    probabilities = np.array([weights]) / sum(weights)
    found = np.asarray(tempered(jnp.asarray(probabilities, jnp.float32), jnp.asarray(temperature)))
    assert found.sum() == pytest.approx(1, abs=1e-5)
    best = probabilities.argmax()
    assert found[0, best] >= found.max() - 1e-6


class _Overconfident(eqx.Module):
    """Predicts from the first feature, three times as surely as it should; knows nothing without it."""

    def __call__(self, x: Array, observed: Array) -> Array:
        logit = jnp.where(observed[:, 0], 3 * x[:, 0], 0.0)
        one = jnp.reciprocal(1 + jnp.exp(-logit))
        return jnp.stack([1 - one, one], axis=1)


def test_rows_are_seen_in_part() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2)) * 2
    y = (rng.random(4000) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    problem = Problem(np.eye(2), np.ones(2), 2, 2)
    table = Table(x, y, rng.random(x.shape) < 0.7)
    calibrated = fit_calibration(jr.key(0), problem, _Overconfident(), table)
    assert float(calibrated.temperature) == pytest.approx(3, rel=0.15)
    everything = jnp.ones((1, 2), bool)
    assert float(calibrated(jnp.asarray([[1.0, 0.0]]), everything)[0, 1]) == pytest.approx(
        1 / (1 + np.exp(-1)), abs=0.03
    )


def test_it_is_a_predictor_like_any_other() -> None:
    plain = Calibrated(_Overconfident(), jnp.asarray(1.0))
    x, observed = jnp.asarray([[0.3, 0.0]]), jnp.asarray([[True, False]])
    np.testing.assert_allclose(plain(x, observed), _Overconfident()(x, observed), rtol=1e-6)
