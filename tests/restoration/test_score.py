"""Scores of restorers: against a known Gaussian, and against slow NumPy formulas."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain import InputError, Problem, Table
from ascertain.evaluation import availability_weights
from ascertain.restoration import RestorationScore, draws, fit_hotdeck, fit_mean, restore, score_restorer
from ascertain.restoration import held_out_error as rmse
from ascertain.restoration._score import energy_scores, score_rows

ALPHA = 1e-4  # of each statistical test; the keys are fixed
KEY = jr.key(7)

# Five features: a group of two, two single ones, and one that is known from the start.
REVEALS = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]], bool)
PROBLEM = Problem(REVEALS, np.ones(3), budget=2, n_classes=2)
MEAN = np.array([1.0, -2.0, 0.0, 3.0, 0.5])
FACTORS = np.array([[1.0, 0.9, 0.8, 0.7, 0.9], [0.0, 0.5, -0.6, 0.6, 0.3]])
COVARIANCE = FACTORS.T @ FACTORS + 0.15 * np.eye(5)


class Gaussian(eqx.Module):
    """Draws from the normal distribution given a row's available cells, or from something close to it."""

    spread: float = 1.0  # the factor of draws' deviations from their mean
    blind: bool = False  # whether it draws without looking at the row

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        covariance, mean = jnp.asarray(COVARIANCE, jnp.float32), jnp.asarray(MEAN, jnp.float32)
        noise = jr.multivariate_normal(key, jnp.zeros(5), covariance, (table.x.shape[0],))
        seen = jnp.zeros_like(table.available) if self.blind else table.available

        def for_row(x: Array, seen: Array, noise: Array) -> Array:
            keep = jnp.diag(seen.astype(jnp.float32))
            among = keep @ covariance @ keep + jnp.eye(5) - keep
            gain = covariance @ keep @ jnp.linalg.inv(among) @ keep
            expected = mean + gain @ jnp.where(seen, x - mean, 0.0)
            return expected + self.spread * (noise - gain @ noise)

        return jax.vmap(for_row)(table.x, seen, noise)


def gaussian_rows(seed: int, n: int, missing: float = 0.4) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(MEAN, COVARIANCE, n)
    return Table(x, rng.integers(0, 2, n), rng.random((n, 5)) >= missing * (np.arange(5) < 4))


TRAIN, VALID = gaussian_rows(0, 2000), gaussian_rows(1, 1500)


def scored(restorer: Any, **more: Any) -> RestorationScore:
    return score_restorer(KEY, PROBLEM, restorer, TRAIN, VALID, **more)


@pytest.mark.slow
def test_the_true_distribution_wins_though_means_have_the_least_error() -> None:
    truth, means = Gaussian(), Gaussian(spread=0.0)
    best = scored(truth)
    for worse in (means, Gaussian(blind=True), Gaussian(spread=0.5), Gaussian(spread=1.5)):
        difference = best.minus(scored(worse))
        assert difference.mean < -4 * difference.standard_error
    # The root mean squared error prefers the means to the truth by far.
    error = rmse(KEY, PROBLEM, means, fit_mean(TRAIN), VALID).restorer
    assert error < 0.8 * rmse(KEY, PROBLEM, truth, fit_mean(TRAIN), VALID).restorer


@pytest.mark.slow
def test_blocks_see_that_cells_do_not_fit_together() -> None:
    """Cells that are right one by one, but drawn independently."""

    class Apart(eqx.Module):
        def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
            each = jnp.stack([Gaussian().draw(k, table) for k in jr.split(key, 5)])
            return each[jnp.arange(5), :, jnp.arange(5)].T

    together, apart = scored(Gaussian()), scored(Apart())
    single = np.asarray(together.single) - np.asarray(apart.single)
    alone = np.asarray(together.hidden[0, :, 1:].any(axis=1))  # actions of one feature
    assert scipy.stats.ttest_1samp(single[alone], 0.0).pvalue > ALPHA
    assert together.in_blocks.mean < apart.in_blocks.mean


def test_the_score_of_one_cell_is_the_crps() -> None:
    """Against the integral of the squared difference of distribution functions, which has a bias of its own.

    With all pairs, also of a draw with itself, the energy score of the draws is this integral. The unbiased
    one divides the sum of the distances by n (n - 1), not n n.
    """
    rng = np.random.default_rng(3)
    drawn, x = rng.normal(size=(12, 6)), rng.normal(size=6)
    found = energy_scores(
        jnp.asarray(drawn, jnp.float32)[..., None],
        jnp.asarray(x, jnp.float32)[:, None],
        jnp.ones((6, 1), bool),
    )
    for column, truth, score in zip(drawn.T, x, np.asarray(found), strict=True):
        points = np.sort([*column, truth])
        below = (column[None] <= points[:-1, None]).mean(axis=1)
        integral = np.sum(np.diff(points) * (below - (points[:-1] >= truth)) ** 2)
        distances = np.abs(column[:, None] - column[None])
        crps = integral + distances.mean() / 2 - distances.sum() / (12 * 11) / 2
        assert score == pytest.approx(crps, abs=1e-5)


def test_the_score_of_several_cells_is_that_of_a_naive_loop() -> None:
    rng = np.random.default_rng(4)
    drawn, x, cells = rng.normal(size=(7, 5, 4)), rng.normal(size=(5, 4)), rng.random((5, 4)) < 0.6
    cells[2] = False
    found = energy_scores(jnp.asarray(drawn, jnp.float32), jnp.asarray(x, jnp.float32), jnp.asarray(cells))
    for row in range(5):
        part = drawn[:, row, cells[row]]
        size = max(1, np.sqrt(cells[row].sum()))
        away = np.mean([np.linalg.norm(one - x[row, cells[row]]) for one in part])
        pairs = [np.linalg.norm(part[i] - part[j]) for i in range(7) for j in range(7) if i != j]
        assert found[row] == pytest.approx((away - np.mean(pairs) / 2) / size, abs=1e-5)


def test_the_estimate_of_a_score_has_no_bias() -> None:
    """Few draws give the same score on average as many, which the biased estimate would not."""
    few, many = (scored(Gaussian(), n_draws=n) for n in (2, 60))
    difference = few.minus(many)
    assert abs(difference.mean) < 4 * difference.standard_error
    # The biased estimate from two draws would be larger by a quarter of their mean distance.
    assert difference.standard_error < 0.02


def test_units_do_not_matter() -> None:
    # Powers of two, so that nothing is rounded otherwise.
    units, shift = np.array([1.0, 1024.0, 2.0**-10, 4.0, 1.0]), np.array([0.0, 0.0, 0.0, 64.0, 0.0])

    def changed(table: Table) -> Table:
        x = np.asarray(table.x, np.float64) * units + shift
        return Table(x, table.y, table.available, n_classes=2)

    plain, other = TRAIN, changed(TRAIN)
    one = score_restorer(KEY, PROBLEM, fit_hotdeck(KEY, PROBLEM, plain), plain, VALID)
    two = score_restorer(KEY, PROBLEM, fit_hotdeck(KEY, PROBLEM, other), other, changed(VALID))
    np.testing.assert_allclose(np.asarray(one.by_row), np.asarray(two.by_row), rtol=1e-3, atol=1e-4)


def test_a_column_without_variance_does_not_count() -> None:
    train = TRAIN.with_cells(TRAIN.x.at[:, 2].set(0.1), TRAIN.available)
    found = score_restorer(KEY, PROBLEM, fit_hotdeck(KEY, PROBLEM, train), train, VALID)
    alone = np.asarray(found.hidden[0, :, 1])
    np.testing.assert_array_equal(np.asarray(found.single)[alone], 0)
    assert np.isfinite(found.by_row).all()


class Spy:
    """A restorer of the host: draws numbers of NumPy, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Table] = []

    def draw(self, key: PRNGKeyArray, table: Table) -> Any:
        self.shown.append(table)
        return np.random.default_rng(np.asarray(jr.key_data(key))).normal(size=table.x.shape)


def test_whole_actions_of_a_row_are_hidden_one_and_half_of_them() -> None:
    spy = Spy()
    found = scored(spy, n_draws=3)
    assert len(spy.shown) == 3
    shown = spy.shown[0]
    x, available = np.asarray(VALID.x), np.asarray(VALID.available)
    has = (~available @ REVEALS.T) == 0
    sizes = has.sum(axis=1)
    np.testing.assert_array_equal(np.asarray(found.weight) > 0, sizes > 0)
    assert int(found.n_rows) == (sizes > 0).sum() < len(x)
    expected = (np.minimum(sizes, 1), np.maximum(sizes // 2, np.minimum(sizes, 1)))
    halves = zip(*(np.split(np.asarray(each), 2) for each in (shown.x, shown.available)), strict=True)
    for hidden, (shown_x, seen), size in zip(np.asarray(found.hidden), halves, expected, strict=True):
        assert not np.any(hidden & ~has)
        np.testing.assert_array_equal(hidden.sum(axis=1), size)
        np.testing.assert_array_equal(seen, available & ~(hidden @ REVEALS))
        np.testing.assert_array_equal(shown_x, np.where(seen, x, 0))


def test_actions_are_hidden_in_proportion_to_their_weights() -> None:
    n, weights = 6000, np.array([1.0, 2.0, 5.0])
    whole = Table(np.random.default_rng(0).normal(size=(n, 5)), np.arange(n) % 2)
    found = score_restorer(
        KEY, PROBLEM, fit_mean(whole), whole, whole, weights=np.tile(weights, (n, 1)), n_draws=2, max_rows=n
    )
    counts = np.asarray(found.hidden[0]).sum(axis=0)
    assert scipy.stats.chisquare(counts, n * weights / 8).pvalue > ALPHA
    np.testing.assert_allclose(np.asarray(found.weight), 8 / 3, rtol=1e-5)


# Weights.

ONE = Problem([[1, 0, 0], [0, 1, 0]], np.ones(2), budget=1, n_classes=2)


def selected(n: int) -> tuple[Table, Table, np.ndarray]:
    """Rows with and without holes: what the known third column says is noisy is measured less often."""
    rng = np.random.default_rng(5)
    noisy = rng.random(n) < 0.5
    x = np.column_stack([rng.normal(size=(n, 2)) * np.where(noisy, 3.0, 0.3)[:, None], noisy])
    chance = np.where(noisy, 0.25, 0.9)[:, None] * np.ones(2)
    available = np.column_stack([rng.random((n, 2)) < chance, np.ones(n, bool)])
    return Table(x, rng.integers(0, 2, n)), Table(x, rng.integers(0, 2, n), available), chance


@pytest.mark.parametrize("how", ["known", "estimated"])
def test_weights_undo_the_selection_of_rows(how: str) -> None:
    """The score is that without holes; cells of the third column decide what is missing (MAR)."""
    whole, holes, chance = selected(4000)
    filler = fit_mean(whole)

    def by(table: Table, weights: Any = None) -> RestorationScore:
        return score_restorer(KEY, ONE, filler, whole, table, weights=weights, max_rows=4000, n_draws=2)

    truth, plain = by(whole), by(holes)
    fair = by(holes, 1 / chance if how == "known" else availability_weights(ONE, holes))
    assert plain.mean < truth.mean - 10 * truth.standard_error
    for part in ("singly", "in_blocks"):
        there, here = getattr(truth, part), getattr(fair, part)
        error = np.hypot(there.standard_error, here.standard_error)
        # The actions of a row have the same weight here, so that this holds for blocks, too.
        assert abs(there.mean - here.mean) < 4 * error
    assert fair.weight.mean() == pytest.approx(1.0, abs=0.05)  # as often as if nothing were missing


def test_estimated_weights_are_inverse_probabilities() -> None:
    _, holes, chance = selected(4000)
    found = availability_weights(ONE, holes)
    # A group of 2,000 rows tells a share within 0.01, and four slopes of the regression within as much.
    assert np.abs(1 / found - chance).mean() < 0.03
    assert availability_weights(ONE, holes, clip=0.5).max() == 2


def test_actions_that_nobody_lacks_have_weight_one() -> None:
    whole, _, _ = selected(50)
    np.testing.assert_array_equal(availability_weights(ONE, whole), 1)


@pytest.mark.parametrize("weights", [np.ones((5, 3)), np.zeros((1500, 3)), np.full((1500, 3), np.nan)])
def test_bad_weights_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(InputError, match="weights must be 1500 x 3 finite numbers above 0"):
        scored(fit_mean(TRAIN), weights=weights)


# Comparisons.


def test_a_difference_is_paired_by_rows() -> None:
    one, other = scored(Gaussian()), scored(Gaussian(spread=0.8))
    difference = one.minus(other)
    np.testing.assert_allclose(difference.mean, one.mean - other.mean, atol=1e-5)
    apart = np.hypot(one.standard_error, other.standard_error)
    assert difference.standard_error < 0.5 * apart
    # The weights are almost all alike in these rows: about the standard error of a plain mean.
    rows = np.asarray(one.weight) > 0
    plain = scipy.stats.sem(np.asarray(one.by_row)[rows])
    assert one.standard_error == pytest.approx(plain, rel=0.3)
    itself = one.minus(one)
    assert itself.mean == itself.standard_error == 0


def test_only_scores_of_the_same_cells_are_compared() -> None:
    one = scored(fit_mean(TRAIN))
    other = score_restorer(jr.key(8), PROBLEM, fit_mean(TRAIN), TRAIN, VALID)
    with pytest.raises(InputError, match="score both restorers with the same key"):
        one.minus(other)


def test_a_restorer_on_the_host_is_compared_with_one_in_jax() -> None:
    found = scored(Gaussian()).minus(scored(Spy()))
    assert found.mean < -4 * found.standard_error


# Shapes.


@pytest.mark.slow
def test_few_rows_of_a_large_table_are_scored() -> None:
    spy = Spy()
    found = scored(spy, max_rows=40, n_draws=2)
    assert {len(table.y) for table in spy.shown} == {2 * 40}
    rows = np.asarray(found.rows)
    assert len(np.unique(rows)) == 40
    assert not np.array_equal(rows, np.arange(40))
    np.testing.assert_array_equal(np.asarray(spy.shown[0].y), np.tile(np.asarray(VALID.y)[rows], 2))


@pytest.mark.slow
def test_it_can_be_compiled_and_replicated() -> None:
    tables = [VALID.take(jnp.arange(start, start + 60)) for start in (0, 60)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tables)
    keys = jr.split(KEY)

    def score(key: PRNGKeyArray, valid: Table) -> RestorationScore:
        return score_rows(key, PROBLEM, fit_hotdeck(key, PROBLEM, TRAIN), TRAIN, valid, n_draws=4)

    both = jax.jit(jax.vmap(score))(keys, stacked)
    for place, (key, table) in enumerate(zip(keys, tables, strict=True)):
        deck = fit_hotdeck(key, PROBLEM, TRAIN)
        alone = score_restorer(key, PROBLEM, deck, TRAIN, table, n_draws=4)
        one = jax.tree.map(lambda leaf, place=place: leaf[place], both)
        np.testing.assert_allclose(one.by_row, alone.by_row, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(one.hidden, alone.hidden)


def test_something_must_be_there_to_hide() -> None:
    nothing = VALID.with_cells(VALID.x, VALID.available & (jnp.arange(5) == 4)[None])
    with pytest.raises(InputError, match="no validation row has an action"):
        score_restorer(KEY, PROBLEM, fit_mean(TRAIN), TRAIN, nothing)


@pytest.mark.parametrize("bad", [{"n_draws": 1}, {"max_rows": 0}])
def test_bad_numbers_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(bad))} must be a whole number of at least"):
        scored(fit_mean(TRAIN), **bad)


# Draws.


@pytest.mark.parametrize("restorer", [Gaussian(), Spy()])
def test_several_draws(restorer: Any) -> None:
    table = VALID.take(jnp.arange(9))
    (one,) = draws(KEY, restorer, table, 1)
    np.testing.assert_array_equal(
        np.where(table.available, table.x, one), np.asarray(restore(KEY, restorer, table).x)
    )
    several = draws(KEY, restorer, table, 4)
    assert several.shape == (4, 9, 5)
    assert len(np.unique(several, axis=0)) == 4
