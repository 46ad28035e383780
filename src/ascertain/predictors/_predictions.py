"""Class probabilities from sets of acquisitions, by predictors in JAX or not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ascertain._core.arrays import on_device
from ascertain.acquisition import Episodes
from ascertain.errors import InputError
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table


def predictions(
    predictor: Predictor, problem: Problem, table: Table, episodes: Episodes
) -> Float[Array, "steps_and_start instances classes"]:
    """Predict class probabilities before the first step and after each one."""
    return predict_sets(predictor, problem, table, _acquired(episodes, problem.n_actions))


def predict_sets(
    predictor: Predictor, problem: Problem, table: Table, acquired: Bool[Array, "points instances actions"]
) -> Float[Array, "points instances classes"]:
    """Predict class probabilities from several sets of acquisitions of every row.

    A predictor that is not written in JAX (no Equinox module) is called only for rows that change.
    """
    if isinstance(predictor, eqx.Module):
        return _predict_in_jax(predictor, problem.without_names(), table, acquired)
    x = np.asarray(table.x)
    known = np.zeros(x.shape, bool)
    # A predictor cannot tell apart rows of which nothing is known.
    probabilities = np.repeat(_call(predictor, problem, x[:1], known[:1]), len(x), axis=0)
    found = []
    for observed in np.asarray(problem.observed(acquired)):
        changed = np.flatnonzero((observed != known).any(axis=1))
        if len(changed):
            probabilities = probabilities.copy()
            probabilities[changed] = _call(predictor, problem, x[changed], observed[changed])
        known = observed
        found.append(probabilities)
    return on_device(np.stack(found))


def predict_in_jax(
    predictor: Predictor, problem: Problem, table: Table, acquired: Bool[Array, "points instances actions"]
) -> Float[Array, "points instances classes"]:
    """Predict from several sets of acquisitions of every row. Can be jitted and vmapped."""

    def predict(acquired: Bool[Array, "instances actions"]) -> Float[Array, "instances classes"]:
        observed = problem.observed(acquired)
        return predictor(jnp.where(observed, table.x, 0.0), observed)

    return jax.lax.map(predict, acquired)  # one after the other, to save memory


def _call(
    predictor: Predictor,
    problem: Problem,
    x: Float[np.ndarray, "instances features"],
    observed: Bool[np.ndarray, "instances features"],
) -> Float[np.ndarray, "instances classes"]:
    """Call a predictor that is not written in JAX, and check what it returns."""
    probabilities = np.asarray(
        predictor(on_device(np.where(observed, x, 0.0)), on_device(observed)), np.float32
    )
    shape = (len(x), problem.n_classes)
    if probabilities.shape != shape:
        raise InputError(
            f"the predictor returned probabilities of shape {probabilities.shape} for {len(x)} rows; "
            f"there should be one for each of the {problem.n_classes} classes: {shape}"
        )
    return probabilities


_acquired = jax.jit(Episodes.acquired, static_argnums=1)
_predict_in_jax = eqx.filter_jit(predict_in_jax)
