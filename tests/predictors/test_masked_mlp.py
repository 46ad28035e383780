"""The predictor on problems whose answer is known, and that it looks only at what it may see."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from ascertain import InputError, Problem, Table
from ascertain.predictors._masked_mlp import (
    MaskedMLP,
    Predictor,
    Settings,
    SklearnPredictor,
    fit_predictor,
)
from tests.compiler import NOT_OPTIMISED, XLAS_OWN

SMALL = Settings(epochs=25, batch_size=64, dropout=0.1, hidden=(16,), learning_rate=1e-2)
PROBLEM = Problem(np.eye(4), np.ones(4), budget=2, n_classes=2)


def separable(seed: int, n: int, missing: float = 0.0) -> Table:
    """Draw rows whose first two features tell the class, which is 1 for one row in four."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 4 == 0).astype(int)
    x = rng.normal(size=(n, 4))
    x[:, :2] = rng.normal(np.where(y[:, None] == 1, 1.0, -1.0), 0.3, (n, 2))
    return Table(x, y, rng.random((n, 4)) >= missing)


def with_x(table: Table, x: object) -> Table:
    """Write into a table also where nothing is available, which `Table` would set to zero."""
    changed: Table = eqx.tree_at(lambda t: t.x, table, jnp.asarray(x, jnp.float32))
    return changed


def same(one: MaskedMLP, other: MaskedMLP) -> bool:
    """Whether two predictors have the same parameters, bit by bit."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


class Fit:
    """The fit, compiled once for all tests: three replicates, of which the companions may be chosen."""

    def __init__(self, settings: Settings, *, optimised: bool) -> None:
        self.traces = 0

        def fit(key: jax.Array, problem: Problem, train: Table, valid: Table) -> MaskedMLP:
            self.traces += 1
            return fit_predictor(key, problem, train, valid, settings)

        options = XLAS_OWN if optimised else NOT_OPTIMISED
        self.fit_all = jax.jit(jax.vmap(fit, in_axes=(0, None, 0, 0)), compiler_options=options)

    def __call__(
        self,
        seed: int,
        train: Table,
        valid: Table,
        *,
        place: int = 0,
        companions: tuple[int, int] = (50, 51),
        problem: Problem = PROBLEM,
    ) -> MaskedMLP:
        runs = [(jr.key(other), separable(other, 250), separable(100 + other, 100)) for other in companions]
        runs.insert(place, (jr.key(seed), train, valid))
        keys, trains, valids = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)
        fitted = self.fit_all(keys, problem, trains, valids)
        taken: MaskedMLP = jax.tree.map(lambda leaf: leaf[place], fitted)
        return taken


@pytest.fixture(scope="module")
def fit() -> Fit:
    return Fit(SMALL, optimised=False)  # which compiles in a third of the time


@pytest.fixture(scope="module")
def fitted(fit: Fit) -> MaskedMLP:
    return fit(0, separable(0, 250), separable(1, 100))


def test_separable_classes_are_learned(fitted: MaskedMLP) -> None:
    test = separable(2, 400)
    assert isinstance(fitted, Predictor)
    probabilities = np.asarray(fitted(test.x, test.available))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    # The means of a feature are 6.7 deviations apart: hardly a row of 400 is on the wrong side of 0.
    assert np.mean(probabilities.argmax(axis=1) == test.y) > 0.98
    # One of the two features is enough; those that tell nothing are not.
    alone = jnp.zeros_like(test.available).at[:, 1].set(True)
    assert np.mean(np.asarray(fitted(test.x, alone)).argmax(axis=1) == test.y) > 0.95


def test_with_nothing_observed_the_classes_are_as_probable_as_their_weights_make_them(
    fitted: MaskedMLP,
) -> None:
    """Inverse frequencies as weights make three to one an even prior."""
    nothing = jnp.zeros((1, 4), bool)
    np.testing.assert_allclose(fitted(jnp.zeros((1, 4)), nothing), [[0.5, 0.5]], atol=0.1)


def test_features_that_tell_nothing_leave_the_prior(fitted: MaskedMLP) -> None:
    test = separable(3, 400)
    useless = jnp.zeros_like(test.available).at[:, 2:].set(True)
    assert float(jnp.mean(jnp.abs(fitted(test.x, useless) - 0.5))) < 0.15


def test_the_prediction_does_not_look_at_unobserved_cells(fitted: MaskedMLP) -> None:
    test = separable(4, 64, missing=0.5)
    before = fitted(test.x, test.available)
    for junk in (1e30, np.nan, np.inf):
        np.testing.assert_array_equal(fitted(jnp.where(test.available, test.x, junk), test.available), before)
    # And it does look at the others, and at which they are.
    assert not np.allclose(fitted(-test.x, test.available), before)
    assert not np.allclose(fitted(jnp.zeros((64, 4)), ~test.available), fitted(0 * test.x, test.available))


def test_training_and_validation_do_not_look_at_unavailable_cells(fit: Fit) -> None:
    train, valid = separable(5, 250, missing=0.4), separable(6, 100, missing=0.4)
    junk = np.random.default_rng(0).normal(0, 100, (250, 4))
    expected = fit(1, train, valid)
    in_train = with_x(train, jnp.where(train.available, train.x, junk))
    in_valid = with_x(valid, jnp.where(valid.available, valid.x, junk[:100]))
    assert same(fit(1, in_train, in_valid), expected)


def test_training_and_validation_look_at_available_cells(fit: Fit) -> None:
    train, valid = separable(5, 250, missing=0.4), separable(6, 100, missing=0.4)
    expected = fit(1, train, valid)
    # Validation rows with signs that say the contrary make an early checkpoint the best.
    assert not same(fit(1, train, with_x(valid, -valid.x)), expected)
    assert not same(fit(1, with_x(train, -train.x), valid), expected)


def check_replicates(fit: Fit) -> None:
    train, valid = separable(0, 250), separable(1, 100)
    expected = fit(0, train, valid)
    assert same(fit(0, train, valid, place=1, companions=(3, 4)), expected)
    assert same(fit(0, train, valid, place=2, companions=(0, 50)), expected)
    assert not same(fit(1, train, valid), expected)


def test_a_replicate_does_not_depend_on_its_place_or_companions(fit: Fit) -> None:
    check_replicates(fit)


@pytest.mark.slow
def test_nor_does_one_of_full_size_when_optimised() -> None:
    check_replicates(Fit(Settings(epochs=10), optimised=True))


def test_one_compilation_per_shape(fit: Fit) -> None:
    costly = Problem(np.eye(4), 3 * np.ones(4), budget=9, n_classes=2)
    for seed, problem in ((0, PROBLEM), (1, costly)):
        fit(seed, separable(seed, 250, missing=0.5), separable(seed, 100), problem=problem)
    assert fit.traces == 1


# Scikit-learn's classifiers.


def test_a_classifier_that_takes_nan_is_a_predictor() -> None:
    chosen = SklearnPredictor(HistGradientBoostingClassifier(max_iter=5, learning_rate=0.5), n_classes=2)
    predictor = chosen.fit(jr.key(0), separable(0, 100), copies=2)
    assert isinstance(predictor, Predictor)
    test = separable(1, 100)
    probabilities = predictor(test.x, test.available)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(probabilities.argmax(axis=1) == test.y) > 0.95
    alone = np.zeros((100, 4), bool)
    alone[:, 0] = True
    assert np.mean(predictor(test.x, alone).argmax(axis=1) == test.y) > 0.9
    junk = np.where(alone, test.x, 1e6)
    np.testing.assert_array_equal(predictor(junk, alone), predictor(test.x, alone))


def test_classifiers_are_fitted_to_available_cells_reproducibly() -> None:
    class Spy(HistGradientBoostingClassifier):  # type: ignore[misc]
        def fit(self, x: np.ndarray, y: np.ndarray) -> "Spy":
            self.seen = x, y
            self.classes_ = np.array([0, 1])
            return self

    table = separable(0, 50, missing=0.3)
    spies = [SklearnPredictor(Spy(), 2).fit(jr.key(key), table, copies=3).estimator.seen for key in (0, 0, 1)]
    np.testing.assert_array_equal(spies[0][0], spies[1][0])
    assert not np.array_equal(spies[0][0], spies[2][0], equal_nan=True)
    rows, y = spies[0]
    assert rows.shape == (4 * 50, 4)
    np.testing.assert_array_equal(y, np.tile(table.y, 4))
    copies = rows.reshape(4, 50, 4)
    available, x = np.asarray(table.available), np.asarray(table.x)
    np.testing.assert_array_equal(copies[0], np.where(available, x, np.nan))
    for copy in copies:
        shown = ~np.isnan(copy)
        assert not np.any(shown & ~available)
        np.testing.assert_array_equal(copy[shown], x[shown])
    # A rate uniform up to 0.9 hides 0.45 of the cells: five standard errors, with rows as the units.
    hidden = 1 - (~np.isnan(copies[1:])).sum() / (3 * available.sum())
    assert abs(hidden - 0.45) < 5 * 0.35 / np.sqrt(150)


def test_classes_that_training_lacks_get_no_probability() -> None:
    table = Table(np.array([[0.0], [1.0]] * 40), [0, 2] * 40, n_classes=4)
    estimator = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
    predictor = SklearnPredictor(estimator, n_classes=4).fit(jr.key(0), table, copies=1)
    probabilities = predictor(np.array([[1.0]]), np.array([[True]]))
    assert probabilities.shape == (1, 4)
    assert probabilities[0, 1] == probabilities[0, 3] == 0
    assert probabilities[0, 2] > 0.5


def test_a_classifier_without_probabilities_is_refused() -> None:
    with pytest.raises(InputError, match="LinearSVC has no predict_proba"):
        SklearnPredictor(LinearSVC(), n_classes=2)


def test_a_classifier_that_cannot_take_nan_is_refused() -> None:
    predictor = SklearnPredictor(LogisticRegression(), n_classes=2)
    with pytest.raises(InputError, match="LogisticRegression cannot be fitted to rows with NaN"):
        predictor.fit(jr.key(0), separable(0, 40))
