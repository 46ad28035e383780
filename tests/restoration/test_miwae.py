"""MIWAE against closed forms: with linear networks, the model is a factor analysis."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain import Problem, Table
from ascertain._core.effort import EFFORTS
from ascertain._core.networks import MLP
from ascertain._core.training import Schedule
from ascertain.restoration import _miwae as module
from ascertain.restoration._miwae import MIWAE, MIWAERestorer, Row, Settings, fit_restorer
from ascertain.restoration._observed_values import keep_observed_values

D, K, LATENT = 4, 2, 2  # features, classes and codes' dimensions
PROBLEM = Problem(np.eye(D), np.ones(D), budget=2, n_classes=K)
SIGMAS = 4.5  # of Monte Carlo error: exceeded once in 10^5; the keys are fixed
NOTHING = np.zeros(D, bool)

LOADINGS = np.array([[1.0, 0.0], [0.8, 0.3], [-0.5, 1.0], [0.2, -0.7]])
BY_LABEL = np.array([[0.5, -0.5], [0.0, 1.0], [1.0, 0.0], [-0.3, 0.3]])
DEVIATIONS = np.array([0.4, 0.6, 0.5, 0.8])
SHORT = Settings(
    latent=2,
    hidden=(8,),
    training_codes=3,
    codes=4,
    schedule=Schedule(batch_size=16, batches_per_round=2, max_rounds=2),
)


_fit = eqx.filter_jit(fit_restorer)
_draw = eqx.filter_jit(lambda restorer, key, table: restorer.draw(key, table))


def inverse_softplus(value: np.ndarray) -> np.ndarray:
    return np.log(np.expm1(value))


def with_last_layer(network: MLP, weight: np.ndarray, bias: np.ndarray) -> MLP:
    changed: MLP = eqx.tree_at(
        lambda n: (n.layers[-1].weight, n.layers[-1].bias),
        network,
        (jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)),
    )
    return changed


@pytest.fixture(scope="module")
def linear() -> MIWAE:
    """Make a factor analysis whose codes are drawn from a slightly shifted and widened prior."""
    settings = Settings(latent=LATENT, hidden=(), least_deviation=0.1)
    model = MIWAE(D, K, settings, key=jr.key(0))
    means = np.vstack([LOADINGS.T, BY_LABEL.T, np.zeros((1, D))])
    decoder = with_last_layer(
        model.decoder,
        np.hstack([means, np.zeros_like(means)]),
        np.concatenate([np.zeros(D), inverse_softplus(DEVIATIONS - 0.1)]),
    )
    shape = model.encoder.layers[-1].weight.shape
    bias = np.concatenate([[0.2, -0.1], inverse_softplus(np.full(LATENT, 1.2 - 1e-3))])
    encoder = with_last_layer(model.encoder, np.zeros(shape), bias)
    changed: MIWAE = eqx.tree_at(lambda m: (m.encoder, m.decoder), model, (encoder, decoder))
    return changed


def gaussian(y: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the factor analysis, given the label."""
    return BY_LABEL[:, y], LOADINGS @ LOADINGS.T + np.diag(DEVIATIONS**2)


X = np.array([0.7, -0.4, 0.9, 0.2], np.float32)


@pytest.mark.parametrize(("available", "y"), [([1, 1, 0, 1], 0), ([0, 0, 1, 0], 1), ([0, 0, 0, 0], 1)])
def test_weights_estimate_the_likelihood_of_what_is_available(
    linear: MIWAE, available: list[int], y: int
) -> None:
    there = np.array(available, bool)
    label = np.append(np.eye(K)[y], 1)
    row = Row(jnp.asarray(X), jnp.asarray(there), jnp.asarray(label, jnp.float32))
    log_weights, _ = linear.weigh(row, jnp.asarray(NOTHING), jr.normal(jr.key(1), (20_000, LATENT)))
    weights = np.exp(np.asarray(log_weights, float))
    mean, covariance = gaussian(y)
    normal = scipy.stats.multivariate_normal
    exact = normal.pdf(X[there], mean[there], covariance[np.ix_(there, there)]) if there.any() else 1.0
    assert abs(weights.mean() - exact) < SIGMAS * weights.std() / np.sqrt(len(weights))
    # The bound of this many codes is the logarithm of that mean.
    bound = linear.bound(row, jnp.asarray(NOTHING), jr.normal(jr.key(1), (20_000, LATENT)))
    np.testing.assert_allclose(bound, np.log(weights.mean()), rtol=1e-4, atol=1e-5)


def test_cells_that_are_hidden_are_not_encoded_but_count_in_the_likelihood() -> None:
    model = MIWAE(D, K, SHORT, key=jr.key(2))
    row = Row(jnp.asarray(X), jnp.asarray([True, True, True, False]), jnp.asarray([1.0, 0.0, 1.0]))
    noise = jr.normal(jr.key(3), (5, LATENT))
    hidden = jnp.asarray([False, True, False, False])
    before, decoded = model.weigh(row, hidden, noise)
    other = row._replace(x=row.x.at[1].add(1.0))
    after, same = model.weigh(other, hidden, noise)
    np.testing.assert_array_equal(decoded.mean, same.mean)
    change = scipy.stats.norm.logpdf(other.x[1], decoded.mean[:, 1], decoded.deviation[:, 1])
    change -= scipy.stats.norm.logpdf(row.x[1], decoded.mean[:, 1], decoded.deviation[:, 1])
    np.testing.assert_allclose(after - before, change, rtol=1e-3, atol=1e-4)


def restorer_of(model: MIWAE, codes: int) -> MIWAERestorer:
    """Restore with values as they are generated, since there are none to take."""
    nobody = Table(np.zeros((3, D)), [0, 1, 0], np.zeros((3, D), bool), n_classes=K)
    values = keep_observed_values(jr.key(0), PROBLEM, nobody)
    return MIWAERestorer(model, jnp.zeros(D), jnp.ones(D), values, K, codes)


def test_resampled_draws_follow_the_conditional_distribution(linear: MIWAE) -> None:
    n, there, y = 3000, np.array([True, False, True, False]), 1
    rows = Table(np.tile(X, (n, 1)), np.full(n, y), np.tile(there, (n, 1)), n_classes=K)
    # With 500 codes the bias, of the order of 1 / codes, is far below the error of 3,000 draws.
    drawn = np.asarray(_draw(restorer_of(linear, 500), jr.key(4), rows))
    mean, covariance = gaussian(y)
    gain = covariance[np.ix_(~there, there)] @ np.linalg.inv(covariance[np.ix_(there, there)])
    expected = mean[~there] + gain @ (X[there] - mean[there])
    spread = covariance[np.ix_(~there, ~there)] - gain @ covariance[np.ix_(there, ~there)]
    standard = np.linalg.solve(np.linalg.cholesky(spread), (drawn[:, ~there] - expected).T)
    assert np.abs(standard.mean(axis=1)).max() < SIGMAS / np.sqrt(n)
    second = standard @ standard.T / n  # whose entries have the variance 2 / n, or 1 / n off the diagonal
    assert np.abs(second - np.eye(2)).max() < SIGMAS * np.sqrt(2 / n)
    np.testing.assert_array_equal(drawn[:, there], np.asarray(rows.x)[:, there])


def fitted(train: Table, valid: Table, settings: Settings) -> MIWAERestorer:
    restorer: MIWAERestorer = _fit(jr.key(5), GROUPED, train, valid, settings=settings)
    return restorer


def with_a_category(seed: int, n_rows: int) -> Table:
    """Draw a table of two correlated numbers, a category in three columns that follows them, and holes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    first = rng.normal(2.0 * y, 1.0)
    second = first + 0.3 * rng.normal(size=n_rows)
    category = np.eye(3)[np.digitize(first, [0.0, 2.0])]
    x = np.column_stack([first, second, category])
    there = (rng.random((n_rows, 3)) < 0.6)[:, [0, 1, 2, 2, 2]]
    return Table(x, y, there, n_classes=2)


GROUPED = Problem([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1]], np.ones(3), budget=2, n_classes=2)


@pytest.fixture(scope="module")
def trained() -> MIWAERestorer:
    settings = replace(Settings(), hidden=(32,), latent=3, training_codes=8, learning_rate=5e-3)
    settings = replace(settings, schedule=replace(settings.schedule, max_rounds=20))
    return fitted(with_a_category(0, 600), with_a_category(1, 200), settings)


@pytest.mark.slow
def test_a_fitted_model_knows_columns_categories_and_labels(trained: MIWAERestorer) -> None:
    n = 400
    # Rows of the first class at 0 and of the second at 2, who lack all else.
    y = np.arange(n) % 2
    x = np.column_stack([2.0 * y, np.zeros((n, 4))])
    seen = np.zeros((n, 5), bool)
    seen[:, 0] = True
    drawn = np.asarray(_draw(trained, jr.key(6), Table(x, y, seen, n_classes=2)))
    # The second number is the first one with noise of 0.3; by the label alone, it would be off by 1.04.
    assert np.sqrt(np.mean((drawn[:, 1] - x[:, 0]) ** 2)) < 0.85  # after short training
    # Values are a training row's, and categories are whole.
    observed = np.asarray(trained.values.donors.x)[np.asarray(trained.values.donors.available)[:, 1], 1]
    assert np.isin(drawn[:, 1], observed).all()
    np.testing.assert_array_equal(np.sort(drawn[:, 2:], axis=1), np.tile([0, 0, 1], (n, 1)))
    assert drawn[y == 1, 2].mean() < 0.1  # below 0, by rows at 2
    # Without any feature, the label tells the mean; without the label, nothing does.
    empty = Table(x, y, np.zeros((n, 5), bool), n_classes=2)
    gap, free = (
        np.asarray(_draw(restorer, jr.key(7), empty))[:, 0] for restorer in (trained, trained.label_free())
    )
    error = np.sqrt(2 * 1.1 / (n / 2))  # of a difference of means of n / 2 rows each
    assert abs(gap[y == 1].mean() - gap[y == 0].mean() - 2) < SIGMAS * error + 0.3  # a model's error
    assert abs(free[y == 1].mean() - free[y == 0].mean()) < SIGMAS * np.sqrt(2 * 2.1 / (n / 2))


@pytest.mark.slow
def test_units_do_not_matter() -> None:
    train, valid = with_a_category(2, 60), with_a_category(3, 30)
    # Powers of two, so that rounding is the same.
    units = np.array([1024.0, 0.125, 1.0, 1.0, 1.0], np.float32)

    def in_units(table: Table) -> Table:
        return table.with_cells(table.x * units[None], table.available)

    one = _draw(fitted(train, valid, SHORT), jr.key(8), train)
    other = _draw(fitted(in_units(train), in_units(valid), SHORT), jr.key(8), in_units(train))
    np.testing.assert_array_equal(other, one * units[None])


def test_columns_are_standardised_by_what_is_available() -> None:
    train = with_a_category(4, 60)
    there = np.asarray(train.available).copy()
    there[:, 1] = False
    train = Table(np.where(there, train.x, 7.0), train.y, there, n_classes=2)
    x = np.asarray(train.x)
    centre, scale = module._location(train)
    for column in (0, 2, 3, 4):
        np.testing.assert_allclose(centre[column], x[there[:, column], column].mean(), rtol=1e-5)
        np.testing.assert_allclose(scale[column], x[there[:, column], column].std(), rtol=1e-5)
    assert (float(centre[1]), float(scale[1])) == (0, 1)


def test_an_effort_bounds_the_number_of_updates() -> None:
    for n_rows in (50, 5000):
        for effort in EFFORTS.values():
            schedule = Settings().shortened(effort, n_rows).schedule
            assert schedule.batches_per_round is not None
            most = schedule.batches_per_round * schedule.max_rounds
            assert most < 1.1 * effort.restorer_updates
            assert most < 1.1 * effort.most_epochs * np.ceil(n_rows / schedule.batch_size)


def test_few_rows_of_a_large_table_are_validated_on() -> None:
    large = with_a_category(9, module._MOST_VALIDATION_ROWS + 5)
    assert len(module._some_rows(jr.key(0), large).y) == module._MOST_VALIDATION_ROWS
    small = with_a_category(10, 20)
    assert module._some_rows(jr.key(0), small) is small
