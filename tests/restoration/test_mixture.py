"""The mixture against Bayes' rule, scipy's densities, a marginal likelihood, and scikit-learn's mixture."""

from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from sklearn.mixture import GaussianMixture

from ascertain import Problem, Table
from ascertain._core.effort import effort
from ascertain.restoration import Mixture, fit_mixture
from ascertain.restoration import _mixture as module
from ascertain.restoration._mixture import Settings
from ascertain.restoration._observed_values import ObservedValues

ALPHA = 1e-4  # of each statistical test; the keys are fixed
SHORT = Settings(components=(1, 3), starts=2, wide_updates=10, updates=25)

D, K, C = 3, 2, 2
PROBLEM = Problem(np.eye(D), np.ones(D), budget=2, n_classes=C)


@jax.jit
def _draw(mixture: Mixture, key: jax.Array, table: Table) -> jax.Array:
    return mixture.draw(key, table)


def known_mixture() -> Mixture:
    """A mixture with parameters of our choice, whose draws are not replaced: nothing was observed."""
    rng = np.random.default_rng(0)
    nothing = Table(np.zeros((1, D)), [0], np.zeros((1, D), bool), n_classes=C)
    return Mixture(
        ObservedValues(PROBLEM, nothing),
        centre=jnp.array([0.0, 1.0, -1.0]),
        scale=jnp.array([1.0, 2.0, 0.5]),
        rounding=jnp.zeros(D),
        log_joint=jnp.log(jnp.array([[0.1, 0.4], [0.3, 0.2]])),
        means=jnp.asarray(rng.normal(size=(K, C, D)), jnp.float32),
        variances=jnp.asarray(rng.uniform(0.3, 1, (K, C, D)), jnp.float32),
    )


def posterior(mixture: Mixture, x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Probabilities of components and classes given a row's cells, by Bayes' rule and scipy's density."""
    joint = np.exp(np.asarray(mixture.log_joint, float))
    centre, scale = np.asarray(mixture.centre), np.asarray(mixture.scale)
    for k, c, j in product(range(K), range(C), np.flatnonzero(seen)):
        mean = centre[j] + scale[j] * float(mixture.means[k, c, j])
        deviation = scale[j] * float(mixture.variances[k, c, j]) ** 0.5
        joint[k, c] *= scipy.stats.norm.pdf(x[j], mean, deviation)
    return joint / joint.sum()


@pytest.mark.parametrize("see_label", [True, False])
def test_draws_follow_the_exact_conditional_distribution(see_label: bool) -> None:
    mixture, n = known_mixture(), 4000
    mixture = mixture if see_label else mixture.label_free()
    x, seen, y = np.array([0.3, 0.5, 0.0]), np.array([True, True, False]), 1
    rows = Table(np.tile(x, (n, 1)), np.full(n, y), np.tile(seen, (n, 1)), n_classes=C)
    drawn = np.asarray(_draw(mixture, jr.key(0), rows), float)
    np.testing.assert_array_equal(drawn[:, :2], np.tile(x[:2].astype(np.float32), (n, 1)))
    weights = posterior(mixture, x, seen)
    if see_label:
        weights = weights * (np.arange(C) == y)
    weights /= weights.sum()

    def distribution(value: np.ndarray) -> np.ndarray:
        total = np.zeros_like(value)
        for k, c in product(range(K), range(C)):
            mean = -1 + 0.5 * float(mixture.means[k, c, 2])
            deviation = 0.5 * float(mixture.variances[k, c, 2]) ** 0.5
            total += weights[k, c] * scipy.stats.norm.cdf(value, mean, deviation)
        return total

    assert scipy.stats.kstest(drawn[:, 2], distribution).pvalue > ALPHA
    if see_label:  # the other label's distribution is told from this one
        other = _draw(mixture, jr.key(0), eqx.tree_at(lambda t: t.y, rows, 1 - rows.y))
        assert scipy.stats.kstest(np.asarray(other, float)[:, 2], distribution).pvalue < ALPHA


@pytest.mark.parametrize("effect", [1.0, 0.3, 0.02])
def test_the_variance_of_a_prior_maximises_the_marginal_likelihood(effect: float) -> None:
    """Class means with known sampling variances: they are N(0, prior + variance / n) under the prior."""
    rng = np.random.default_rng(1)
    classes, number, variance = 6, np.array([5.0, 9, 14, 30, 8, 20]), 1.3
    true = effect * rng.normal(size=classes)
    means = rng.normal(true, np.sqrt(variance / number))

    def surprise(prior: float) -> float:
        return -float(scipy.stats.norm.logpdf(means, 0, np.sqrt(prior + variance / number)).sum())

    best = scipy.optimize.minimize_scalar(surprise, bounds=(0, 10), method="bounded", options={"xatol": 1e-9})
    shape = (1, classes, 1)
    n, zeros = jnp.asarray(number, jnp.float32).reshape(shape), jnp.zeros(shape)
    sums = module._Sums(n, n * jnp.asarray(means, jnp.float32).reshape(shape), zeros)
    spread = jnp.full(shape, variance)

    @jax.jit
    def iterated() -> module._Effect:
        start = module._Effect(zeros, zeros, jnp.ones((1, 1, 1)))
        step = lambda _, e: module._updated(e, sums, zeros, spread, jnp.array(True))  # noqa: E731
        return jax.lax.fori_loop(0, 2000, step, start)

    found = iterated()
    np.testing.assert_allclose(float(found.prior[0, 0, 0]), max(best.x, 1e-6), rtol=1e-3, atol=1e-4)
    shrunk = means * best.x / (best.x + variance / number)
    np.testing.assert_allclose(np.asarray(found.mean).ravel(), shrunk, rtol=1e-3, atol=1e-3)


def test_variances_are_shrunk_as_much_as_the_marginal_likelihood_says() -> None:
    """A Gaussian whose variance has a scaled inverse chi-squared prior is a multivariate t."""
    rng = np.random.default_rng(2)
    cells, each = 40, 6
    alike = np.ones((cells, 1))
    unlike = rng.choice([0.05, 3.0], (cells, 1))
    values = np.stack([rng.normal(0, np.sqrt(v), (cells, each)) for v in (alike, unlike)], axis=1)
    squares = (values**2).sum(axis=2)
    sums = module._Sums(
        *(
            jnp.asarray(each_sum, jnp.float32)[None]
            for each_sum in (np.full((cells, 2), each), np.zeros((cells, 2)), squares)
        )
    )
    found = np.asarray(module._variances(sums, jnp.zeros((1, cells, 2)), jnp.zeros((1, cells, 2))))[0]
    pooled = squares.sum(axis=0) / (cells * each)
    chosen = []
    for column in (0, 1):

        def evidence(freedom: float, column: int = column) -> float:
            shape = pooled[column] * np.eye(each)
            return float(scipy.stats.multivariate_t.logpdf(values[:, column], shape=shape, df=freedom).sum())

        freedom = max(module._FREEDOM, key=evidence)
        chosen.append(freedom)
        expected = (squares[:, column] + freedom * pooled[column]) / (each + freedom)
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-4)
    assert chosen[0] > chosen[1]


def test_rounding_is_a_twelfth_of_the_square_of_the_least_difference() -> None:
    rng = np.random.default_rng(3)
    x = np.column_stack(
        [rng.integers(0, 2, 50), 3 * rng.poisson(4, 50), np.full(50, 2.0), rng.normal(size=50)]
    )
    table = Table(x, np.zeros(50, int), rng.random(x.shape) < 0.7, n_classes=C)
    binary, counts, constant, continuous = np.asarray(module._rounding(table))
    assert binary == pytest.approx(1 / 12)
    assert counts == pytest.approx(9 / 12)
    assert constant == 0
    assert continuous < 1e-3


def test_the_smallest_number_that_is_not_clearly_worse_is_chosen() -> None:
    rng = np.random.default_rng(4)
    base = rng.normal(size=100)
    noise = rng.normal(0, 0.1, (3, 2, 100))
    scores = base + noise + np.array([[-1.0, -1.0], [-0.5, 0.0], [-0.5, 0.001]])[:, :, None]
    assert int(module._choose(jnp.asarray(scores, jnp.float32))) == 3  # the second number, second start
    assert int(module._choose(jnp.zeros((3, 2, 100)))) == 0


def three_groups(seed: int, n: int, missing: float) -> Table:
    """Draw two informative columns, with groups that the class does not tell, and a column of noise."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, 3, n), rng.integers(0, C, n)
    centres = np.array([[-4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [4.0, -4.0, 0.0]])
    x = centres[group] + rng.normal(size=(n, D))
    x[:, 0] += 2.0 * y * (group == 0)  # the class matters within one group
    return Table(x, y, rng.random(x.shape) >= missing, n_classes=C)


@jax.jit
def _fit(key: jax.Array, train: Table, valid: Table) -> Mixture:
    return fit_mixture(key, PROBLEM, train, valid, settings=SHORT)


def log_likelihood(mixture: Mixture, table: Table) -> float:
    """The mean log density of complete rows and labels, by scipy."""
    x = (np.asarray(table.x, float) - np.asarray(mixture.centre)) / np.asarray(mixture.scale)
    means, deviations = np.asarray(mixture.means, float), np.sqrt(np.asarray(mixture.variances, float))
    of_class = np.asarray(table.y)
    densities = scipy.stats.norm.logpdf(
        x[:, None], means[:, of_class].swapaxes(0, 1), deviations[:, of_class].swapaxes(0, 1)
    )
    joint = densities.sum(axis=2) + np.asarray(mixture.log_joint, float)[:, of_class].T
    return float(scipy.special.logsumexp(joint, axis=1).mean() - np.log(np.asarray(mixture.scale)).sum())


@pytest.fixture(scope="module")
def fitted() -> Mixture:
    return _fit(jr.key(0), three_groups(0, 600, 0.0), three_groups(1, 300, 0.0))


def test_complete_rows_are_fitted_as_well_as_by_scikit_learn(fitted: Mixture) -> None:
    train, test = three_groups(0, 600, 0.0), three_groups(2, 2000, 0.0)
    assert int(fitted.n_components) == 3
    # One mixture to a class; theirs has no prior, and shares nothing between classes.
    theirs = 0.0
    for c in range(C):
        own = GaussianMixture(3, covariance_type="diag", n_init=5, random_state=0)
        own.fit(np.asarray(train.x)[np.asarray(train.y) == c])
        rows = np.asarray(test.x)[np.asarray(test.y) == c]
        theirs += (own.score_samples(rows) + np.log(np.mean(np.asarray(train.y) == c))).sum() / 2000
    # 20 parameters of 600 rows cost 20 / 1200 nats; ours must not be worse by more than chance.
    assert log_likelihood(fitted, test) > theirs - 0.02


def test_what_does_not_differ_is_shrunk_to_the_common_mean(fitted: Mixture) -> None:
    means = np.asarray(fitted.means)
    # The mean of a group of a class, 100 rows, would vary by 0.1 without shrinkage.
    assert np.ptp(means[:, :, 2]) < 0.1
    assert np.ptp(means[:, :, 0]) > 1


def test_holes_are_filled_from_the_rows_own_group() -> None:
    train = three_groups(0, 600, 0.4)
    mixture = _fit(jr.key(0), train, three_groups(1, 300, 0.4))
    complete = three_groups(0, 600, 0.0)
    drawn = np.asarray(_draw(mixture, jr.key(1), train))
    told = np.asarray(train.available)[:, 0] & ~np.asarray(train.available)[:, 1]
    error = drawn[told, 1] - np.asarray(complete.x)[told, 1]
    # Two independent draws about the group's mean differ by a variance of 2; of the whole column's, by 23.
    # The first column leaves some rows' groups open (4 standard deviations apart): 1 in 20 errs by 4 to 8.
    assert np.mean(error**2) < 2 + 36 / 20 + 3 * 2 * np.sqrt(2 / told.sum())
    values = set(np.asarray(train.x)[np.asarray(train.available)[:, 1], 1].tolist())
    assert set(drawn[told, 1].tolist()) <= values


def test_a_low_effort_starts_once() -> None:
    assert Settings().shortened(effort("low"), 1000) == replace(Settings(), starts=1)
    assert Settings().shortened(effort("standard"), 1000) == Settings()


def test_only_some_rows_of_a_large_table_are_learned_from() -> None:
    """With few rows to learn from, the fit is that of some of the rows."""
    train, valid = three_groups(5, 400, 0.2), three_groups(6, 50, 0.2)
    settings = replace(SHORT, components=(1,), starts=1, most_rows=40)
    mixture = jax.jit(lambda *tables: fit_mixture(jr.key(0), PROBLEM, *tables, settings=settings))(
        train, valid
    )
    whole = np.asarray(jnp.sum(train.x, axis=0) / train.available.sum(axis=0))
    distance = np.abs(np.asarray(mixture.centre) - whole)
    assert np.all(distance > 0)
    # 32 cells of a standard deviation up to 3.7
    assert np.all(distance < 4 * 3.7 / np.sqrt(32))
