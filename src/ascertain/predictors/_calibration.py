"""Calibration of probabilities by one temperature, fitted on rows that were not trained on."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy.optimize import minimize_scalar

from ascertain._core.arrays import on_device
from ascertain._core.networks import LOWEST
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table

_LARGEST_LOG = 3.0  # temperatures from 1/20 to 20
_COPIES = 8  # of each row, with different features hidden


class Calibrated(eqx.Module):
    """A predictor whose log-probabilities are divided by a temperature (Guo et al., 2017).

    The most probable class stays the same.
    """

    predictor: Predictor
    temperature: Float[Array, ""]

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Class probabilities."""
        return tempered(self.predictor(x, observed), self.temperature)


def tempered(
    probabilities: Float[Array, "instances classes"], temperature: Float[Array, ""]
) -> Float[Array, "instances classes"]:
    """Flatten probabilities by a temperature above 1, or sharpen them by one below."""
    return jax.nn.softmax(jnp.maximum(jnp.log(probabilities), LOWEST) / temperature)


def fit_calibration(
    key: PRNGKeyArray,
    problem: Problem,
    predictor: Predictor,
    table: Table,
    weights: Float[np.ndarray, " classes"] | None = None,
) -> Calibrated:
    """Fit the temperature to rows with random subsets of their features, as they occur during acquisition.

    Parameters
    ----------
    key
        The random key, to hide features.
    problem
        Which features come together, and which are known from the start.
    predictor
        The predictor, written in JAX or not.
    table
        Validation rows; holes are ignored.
    weights
        The weights of classes, if the predictor was trained with any.
    """
    hiding, rates = jr.split(key)
    n_rows = table.x.shape[0]
    shown = jr.uniform(hiding, (_COPIES, n_rows, problem.n_actions)) > jr.uniform(rates, (_COPIES, n_rows, 1))
    observed = table.available[None] & problem.observed(shown)
    # One call for all copies, since each call of a predictor that is not written in JAX is expensive.
    x = jnp.tile(table.x, (_COPIES, 1))
    flat = observed.reshape(-1, problem.n_features)
    probabilities = np.asarray(predictor(jnp.where(flat, x, 0.0), flat))
    y = np.asarray(table.y)
    counts = np.full(n_rows, 1.0) if weights is None else weights[y] * n_rows / weights[y].sum()
    temperature = fit_temperature(probabilities, np.tile(y, _COPIES), np.tile(counts / _COPIES, _COPIES))
    return Calibrated(predictor, on_device(temperature, np.float32))


def fit_temperature(
    probabilities: Float[np.ndarray, "instances classes"],
    y: Int[np.ndarray, " instances"],
    counts: Float[np.ndarray, " instances"] | None = None,
) -> float:
    """The temperature with the lowest log loss.

    A penalty on its squared logarithm, worth one row, keeps it finite if all of a few rows are predicted
    right or all wrong. `counts` is the weight of each prediction in rows, since copies of a row tell less
    than as many rows; by default 1.
    """
    counts = np.ones(len(y)) if counts is None else counts
    logits = np.log(np.maximum(probabilities.astype(np.float64), np.finfo(np.float64).tiny))

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        largest = scaled.max(axis=1, keepdims=True)
        total = largest[:, 0] + np.log(np.exp(scaled - largest).sum(axis=1))
        return float(np.sum(counts * (total - scaled[np.arange(len(y)), y])) + log_temperature**2)

    found = minimize_scalar(loss, bounds=(-_LARGEST_LOG, _LARGEST_LOG), method="bounded")
    return float(np.exp(found.x))
