"""Filling with means, and with scikit-learn's imputers."""

from typing import Any

import jax.random as jr
import numpy as np
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LinearRegression

from ascertain import InputError, Table
from ascertain.restoration import Restorer, SklearnImputer, fit_mean, fit_sklearn

NAN = float("nan")


def holes(seed: int, n: int = 40) -> np.ndarray:
    """Draw correlated columns with NaN in a third of the cells; the last column is empty."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 4))
    x[rng.random((n, 4)) < 1 / 3] = NAN
    x[:, 3] = NAN
    return x


def table(seed: int) -> Table:
    x = holes(seed)
    return Table(x, np.arange(len(x)) % 3, n_classes=3)


IMPUTERS = {
    "iterative": IterativeImputer(sample_posterior=True, max_iter=3),
    "knn": KNNImputer(n_neighbors=3),
}


def test_means_are_those_of_available_cells() -> None:
    filler = fit_mean(table(0))
    assert isinstance(filler, Restorer)
    np.testing.assert_allclose(filler.means[:3], np.nanmean(holes(0)[:, :3], axis=0), rtol=1e-5)
    drawn = filler.draw(jr.key(0), table(1))
    np.testing.assert_array_equal(drawn, np.tile(filler.means, (40, 1)))


def test_the_mean_of_a_column_without_values_is_zero() -> None:
    assert float(fit_mean(table(0)).means[3]) == 0


def test_iterative_draws_vary_by_key_and_only_by_key() -> None:
    filler = fit_sklearn(jr.key(0), IMPUTERS["iterative"], table(0))
    assert isinstance(filler, Restorer)
    first, again, other = (filler.draw(jr.key(key), table(1)) for key in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    missing = np.isnan(holes(1))
    assert np.all((first != other)[:, :3][missing[:, :3]])
    refitted = fit_sklearn(jr.key(0), IMPUTERS["iterative"], table(0))
    np.testing.assert_array_equal(refitted.draw(jr.key(5), table(1)), first)


def test_iterative_draws_follow_the_other_columns() -> None:
    """Given another column, which has nearly the same values, draws are nearer to the truth than the mean."""
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 2))
    x = truth.copy()
    x[rng.random(200) < 0.5, 1] = NAN
    incomplete = Table(x, rng.integers(0, 2, 200))
    drawn = fit_sklearn(jr.key(0), IMPUTERS["iterative"], incomplete).draw(jr.key(1), incomplete)
    missing = np.isnan(x[:, 1])
    error = np.sqrt(np.mean((np.asarray(drawn) - truth)[missing, 1] ** 2))
    # Twice the conditional variance, 2 * 0.1^2, and as much again for what 200 rows leave unknown.
    assert error < np.sqrt(2) * 0.2


def test_knn_is_scikit_learns_with_the_label_beside_the_features() -> None:
    filler = fit_sklearn(jr.key(0), IMPUTERS["knn"], table(0))
    labels = np.eye(3)[np.arange(40) % 3]
    own = KNNImputer(n_neighbors=3, keep_empty_features=True)
    own.fit(np.hstack([holes(0).astype(np.float32), labels]))
    expected = own.transform(np.hstack([holes(1).astype(np.float32), labels]))[:, :4]
    drawn = filler.draw(jr.key(0), table(1))
    np.testing.assert_allclose(drawn, expected, rtol=1e-6)
    np.testing.assert_array_equal(filler.draw(jr.key(7), table(1)), drawn)


@pytest.mark.parametrize("name", IMPUTERS)
def test_columns_without_values_are_kept(name: str) -> None:
    drawn = fit_sklearn(jr.key(0), IMPUTERS[name], table(0)).draw(jr.key(0), table(1))
    assert drawn.shape == (40, 4)
    assert np.all(np.isfinite(drawn))
    np.testing.assert_array_equal(drawn[:, 3], 0)


def test_the_imputer_that_is_given_stays_as_it_is() -> None:
    imputer = KNNImputer()
    fit_sklearn(jr.key(0), imputer, table(0))
    assert not hasattr(imputer, "_fit_X")
    assert not imputer.keep_empty_features


@pytest.mark.parametrize("imputer", [LinearRegression(), object(), "mean"])
def test_what_cannot_impute_is_refused(imputer: Any) -> None:
    message = f"{type(imputer).__name__} has no transform; use a scikit-learn imputer"
    with pytest.raises(InputError, match=message):
        fit_sklearn(jr.key(0), imputer, table(0))
    with pytest.raises(InputError, match=message):
        SklearnImputer(imputer, n_classes=3)
