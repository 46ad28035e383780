"""Restorers that impute: by the column's mean, or by any scikit-learn imputer."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from sklearn.base import clone

from ascertain._core.arrays import on_device
from ascertain.errors import InputError
from ascertain.problem import Problem, Table
from ascertain.registry import NoSettings
from ascertain.restoration._registry import register


class MeanFill(eqx.Module):
    """Fills each column with the mean of its available training values (0 where there are none).

    Examples
    --------
    >>> from ascertain import Table
    >>> fit_mean(Table([[0.5, float("nan")], [1.5, 2.0], [1.0, 1.0]], y=[0, 1, 0])).means.tolist()
    [1.0, 1.5]
    """

    means: Float[Array, " features"]

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Return the means."""
        del key
        return jnp.broadcast_to(self.means[None], table.x.shape)

    def label_free(self) -> "MeanFill":
        """Means do not depend on labels."""
        return self


def fit_mean(table: Table) -> MeanFill:
    """Take the means of the available cells.

    Examples
    --------
    >>> from ascertain import Table
    >>> fit_mean(Table([[2.0], [4.0], [float("nan")]], y=[0, 1, 0])).means.tolist()
    [3.0]
    """
    return MeanFill(_means(table.x, table.available))


@partial(jax.jit, inline=True)  # one program, where it is called outside of any
def _means(
    x: Float[Array, "instances features"], available: Bool[Array, "instances features"]
) -> Float[Array, " features"]:
    counts = available.sum(axis=0)
    return jnp.where(available, x, 0.0).sum(axis=0) / jnp.maximum(counts, 1)


@register(
    "mean",
    summary="The mean of each column's available training values.",
    label="mean",
    label_free=True,
)
def fit_mean_restorer(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, *, settings: NoSettings
) -> MeanFill:
    """Take the means of the available cells."""
    del key, problem, valid, settings
    return fit_mean(train)


class SklearnImputer:
    """Fills with a scikit-learn imputer, such as `IterativeImputer(sample_posterior=True)` or `KNNImputer`.

    The imputer gets the label as one more column per class, as the paper's restorer does.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from sklearn.impute import KNNImputer
    >>> fitted = fit_sklearn(jr.key(0), KNNImputer(n_neighbors=1), table)
    >>> fitted.draw(jr.key(1), table).tolist()  # the value of the nearest row
    [[0.5, 1.0], [1.5, 2.0], [0.0, 1.0]]
    """

    def __init__(self, imputer: Any, n_classes: int):
        if not hasattr(imputer, "transform"):
            raise InputError(f"{type(imputer).__name__} has no transform; use a scikit-learn imputer")
        self.imputer = imputer
        self.n_classes = n_classes

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Impute the missing cells."""
        if hasattr(self.imputer, "random_state_"):
            seed = int(jr.randint(key, (), 0, 2**31 - 1))
            self.imputer.random_state_ = np.random.RandomState(seed)  # scikit-learn draws from this
        filled = self.imputer.transform(_rows(table, self.n_classes))
        return on_device(filled[:, : table.x.shape[1]], np.float32)


def fit_sklearn(key: PRNGKeyArray, imputer: Any, table: Table) -> SklearnImputer:
    """Fit a copy of an imputer to the training data.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from sklearn.impute import SimpleImputer
    >>> fit_sklearn(jr.key(0), SimpleImputer(), table).draw(jr.key(1), table)[0].tolist()
    [0.5, 1.5]
    """
    fitted = SklearnImputer(imputer, table.n_classes)  # raises if it is no imputer
    fitted.imputer = copy = clone(imputer)
    if "random_state" in copy.get_params():
        copy.set_params(random_state=int(jr.randint(key, (), 0, 2**31 - 1)))
    if "keep_empty_features" in copy.get_params():
        copy.set_params(keep_empty_features=True)  # else columns would be dropped
    copy.fit(_rows(table, table.n_classes))
    return fitted


@register(
    "iterative",
    summary="scikit-learn's IterativeImputer: chained Bayesian regressions, drawn from posteriors.",
    label="iterative imputer",
    on_host=True,
)
def fit_iterative(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, *, settings: NoSettings
) -> SklearnImputer:
    """Fit scikit-learn's chained regressions."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    del problem, valid, settings
    return fit_sklearn(key, IterativeImputer(sample_posterior=True, tol=0.0), train)


@register(
    "knn",
    summary="scikit-learn's KNNImputer: the mean of the nearest rows that have the value.",
    label="nearest neighbours' mean",
    on_host=True,
)
def fit_knn(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, *, settings: NoSettings
) -> SklearnImputer:
    """Keep the training rows for scikit-learn's nearest neighbours."""
    from sklearn.impute import KNNImputer

    del problem, valid, settings
    return fit_sklearn(key, KNNImputer(), train)


def _rows(table: Table, n_classes: int) -> Float[np.ndarray, "instances columns"]:
    holes = np.where(np.asarray(table.available), np.asarray(table.x), np.nan)
    return np.column_stack([holes, np.eye(n_classes)[np.asarray(table.y)]])
