"""What is said of a table's holes, against holes that we made and know."""

import numpy as np
import pytest
from scipy import stats

from ascertain import Problem, Table
from ascertain.missingness import Diagnosis, diagnose, little_test
from ascertain.missingness._diagnosis import MAX_ROWS, _normal_by_em

NAN = float("nan")


def normal(rng: np.random.Generator, n: int, d: int = 3, correlation: float = 0.6) -> np.ndarray:
    covariance = np.full((d, d), correlation) + (1 - correlation) * np.eye(d)
    return rng.multivariate_normal(np.arange(d), covariance, n)


def few_patterns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the holes of rows from five patterns, independently of everything."""
    patterns = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]], bool)
    return patterns[rng.choice(5, n, p=[0.4, 0.2, 0.2, 0.1, 0.1])]


# Little's test


def test_p_values_are_uniform_under_mcar() -> None:
    # Kolmogorov-Smirnov at 1e-3: of 200 p-values it rejects where the distribution function is off by 0.14,
    # so a function that is truly off by 0.2 is seen with probability 0.95. Degrees of freedom: 3 + 2 + 2 + 1
    # + 1 cells in the patterns, less 3 columns.
    p_values = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        result = little_test(normal(rng, 300), few_patterns(rng, 300))
        assert result is not None
        assert result.degrees_of_freedom == 6
        assert result.p_value == pytest.approx(stats.chi2.sf(result.statistic, 6))
        p_values.append(result.p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_missingness_by_another_column_is_rejected(correlation: float) -> None:
    rng = np.random.default_rng(0)
    x = normal(rng, 500, correlation=correlation)
    available = np.ones_like(x, bool)
    available[:, 2] = rng.random(500) < 1 / (1 + np.exp(-2 * x[:, 0]))
    result = little_test(x, available)
    assert result is not None
    assert result.p_value < 1e-10  # means of column 0 differ by more than 1 deviation between 250 rows each


def test_the_statistic_is_a_t_test_where_one_column_is_complete() -> None:
    # Two patterns, two columns: the second column's mean fits perfectly (the regression estimate), so only
    # the first column's two means count: sum over patterns of n_j (mean_j - mean)^2 / variance.
    rng = np.random.default_rng(1)
    x = normal(rng, 400, d=2)
    available = np.column_stack([np.ones(400, bool), rng.random(400) < 0.6])
    both = available[:, 1]
    first = x[:, 0]
    expected = sum(
        rows.sum() * (first[rows].mean() - first.mean()) ** 2 / first.var() for rows in (both, ~both)
    )
    # Little's statistic also has the second column's mean in the complete pattern given the first: its
    # residual mean there is zero by least squares.
    result = little_test(x, available)
    assert result is not None
    assert result.degrees_of_freedom == 1
    assert result.statistic == pytest.approx(expected, rel=1e-3)


def test_the_fit_of_a_monotone_pattern_is_the_regression_estimate() -> None:
    # Anderson (1957): the first column from all rows, the second by its regression on the first. Missing
    # where the first is large, so that the mean of what is there is far off. Steps of EM below 1e-4 with a
    # rate of convergence near 1/2 leave about 1e-4.
    rng = np.random.default_rng(2)
    x = normal(rng, 2000, d=2, correlation=0.8)
    both = rng.random(2000) < 1 / (1 + np.exp(2 * x[:, 0]))
    groups = [x[both], x[~both][:, :1]]
    mean, covariance = _normal_by_em(groups, np.array([[True, True], [True, False]]))
    inside = np.cov(x[both].T, ddof=0)
    slope = inside[0, 1] / inside[0, 0]
    variance = x[:, 0].var()
    shift = x[:, 0].mean() - x[both, 0].mean()
    assert abs(shift) > 0.4
    np.testing.assert_allclose(mean, [x[:, 0].mean(), x[both, 1].mean() + slope * shift], atol=2e-3)
    expected = [
        [variance, slope * variance],
        [slope * variance, inside[1, 1] + slope**2 * (variance - inside[0, 0])],
    ]
    np.testing.assert_allclose(covariance, expected, atol=4e-3)


def test_there_is_no_test_without_patterns_to_compare() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    assert little_test(x, np.ones_like(x, bool)) is None
    assert little_test(x, np.tile([True, False], (50, 1))) is None
    assert little_test(x, np.arange(100).reshape(50, 2) % 2 == 0) is None  # the second is never there
    apart = np.arange(50)[:, None] % 2 == np.arange(2)[None]  # each row has one column: no degree of freedom
    assert little_test(x, apart) is None
    assert little_test(np.ones_like(x), apart) is None


def test_constant_columns_and_empty_rows_are_left_out() -> None:
    rng = np.random.default_rng(3)
    x, available = normal(rng, 300), few_patterns(rng, 300)
    plain = little_test(x, available)
    constant = np.column_stack([x, np.full(300, 2.0)])
    with_constant = np.column_stack([available, rng.random(300) < 0.5])
    assert little_test(constant, with_constant) == plain
    empty = np.concatenate([available, np.zeros((20, 3), bool)])
    assert little_test(np.concatenate([x, np.ones((20, 3))]), empty) == plain


# The diagnosis

N = 3000


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(
        [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]],
        [1.0, 2.0, 5.0, 0.5],
        5,
        2,
        action_names=["age", "a$e", "panel", "<scan>"],
        feature_names=["age", "a$e", "panel.0", "panel.1", "<scan>"],
    )


@pytest.fixture(scope="module")
def table() -> Table:
    """Column 1 is missing by column 0, columns 2 and 3 together and by chance, column 4 in three rows."""
    rng = np.random.default_rng(4)
    x = normal(rng, N, d=5, correlation=0.0)
    x[rng.random(N) < 1 / (1 + np.exp(-2 * x[:, 0])), 1] = NAN
    x[rng.random(N) < 0.4, 2:4] = NAN
    x[:3, 4] = NAN
    return Table(x, rng.integers(0, 2, N))


@pytest.fixture(scope="module")
def diagnosis(table: Table, problem: Problem) -> Diagnosis:
    return diagnose(table, problem)


def test_shares_are_counts(diagnosis: Diagnosis, table: Table, problem: Problem) -> None:
    missing = ~np.asarray(table.available)
    assert list(diagnosis.columns.index) == list(problem.feature_names or ())
    assert list(diagnosis.actions.index) == list(problem.action_names or ())
    np.testing.assert_allclose(diagnosis.columns["missing"], missing.sum(axis=0) / N)
    by_action = [missing[:, 0], missing[:, 1], missing[:, 2], missing[:, 4]]
    np.testing.assert_allclose(diagnosis.actions["missing"], [each.sum() / N for each in by_action])
    assert diagnosis.actions["cost"].tolist() == [1, 2, 5, 0.5]


def test_an_action_is_missing_if_one_of_its_columns_is() -> None:
    x = [[1.0, NAN, NAN], [NAN, 2.0, 3.0], [1.0, 2.0, 3.0], [NAN, NAN, NAN]]
    result = diagnose(Table(x, [0, 1, 0, 1]), Problem([[1, 1, 0], [0, 0, 1]], [1, 1], 1, 2))
    assert result.columns["missing"].tolist() == [0.5, 0.5, 0.5]
    assert result.actions["missing"].tolist() == [0.75, 0.5]
    assert result.rows.tolist() == [2, 1, 1]  # rows with 0, 1, 2 actions
    assert list(result.columns.index) == ["x0", "x1", "x2"]
    assert list(result.actions.index) == ["action0", "action1"]


def test_rows_are_counted_by_what_they_have(diagnosis: Diagnosis, table: Table) -> None:
    has = np.asarray(table.available)[:, [0, 1, 2, 4]].sum(axis=1)
    assert diagnosis.rows.to_dict() == {count: int((has == count).sum()) for count in range(5)}
    assert diagnosis.rows.sum() == N


def test_columns_of_a_group_are_missing_together(diagnosis: Diagnosis, table: Table) -> None:
    together = diagnosis.together
    assert together.loc["panel.0", "panel.1"] == pytest.approx(1)
    # Independent: within five standard errors of zero.
    assert abs(together["panel.0"]["a$e"]) < 5 / np.sqrt(N)
    assert together["age"].isna().all()  # never missing
    missing = ~np.asarray(table.available)
    expected = np.corrcoef(missing[:, 1], missing[:, 4])[0, 1]
    assert together.loc["a$e", "<scan>"] == pytest.approx(expected)
    np.testing.assert_array_equal(together, together.T)


def test_opposite_holes_are_anticorrelated() -> None:
    x = np.where(np.arange(60)[:, None] % 2 == np.arange(2)[None], 1.0, NAN)
    together = diagnose(Table(x, [0, 1] * 30), Problem(np.eye(2), [1, 1], 1, 2)).together
    np.testing.assert_allclose(together, [[1, -1], [-1, 1]])


def test_only_what_is_missing_at_random_is_predictable(diagnosis: Diagnosis, table: Table) -> None:
    predictable = diagnosis.columns["predictable"]
    # The best that can be done with column 0: the logit is twice a standard normal.
    x, missing = np.asarray(table.x, float), ~np.asarray(table.available)
    best = stats.mannwhitneyu(x[missing[:, 1], 0], x[~missing[:, 1], 0]).statistic
    best /= missing[:, 1].sum() * (~missing[:, 1]).sum()
    assert best > 0.8
    assert predictable["a$e"] == pytest.approx(best, abs=0.01)
    # By chance: the AUROC of N rows has a standard error of about 0.011; five of them.
    assert abs(predictable["panel.0"] - 0.5) < 0.055
    assert np.isnan(predictable["age"])  # never missing
    assert np.isnan(predictable["<scan>"])  # too rarely


def test_little_rejects_the_table_and_not_its_random_part(
    diagnosis: Diagnosis, table: Table, problem: Problem
) -> None:
    assert diagnosis.little is not None
    assert diagnosis.little.p_value < 1e-10
    x = np.where(table.available, table.x, NAN)[:, [0, 2, 3, 4]][3:]
    some = diagnose(
        Table(x, table.y[3:]), Problem([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], [1, 1, 1], 2, 2)
    )
    assert some.little is not None
    assert some.little.degrees_of_freedom == 2
    assert some.little.p_value > 1e-4


def test_a_complete_table_has_no_holes_to_speak_of() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    result = diagnose(Table(x, [0, 1] * 20), Problem(np.eye(2), [1, 1], 1, 2))
    assert result.little is None
    assert result.columns["missing"].tolist() == [0, 0]
    assert result.columns["predictable"].isna().all()
    assert result.rows.tolist() == [0, 0, 40]


def test_a_large_table_is_counted_whole_and_tested_in_part() -> None:
    rng = np.random.default_rng(5)
    n = 4 * MAX_ROWS
    x = normal(rng, n, d=2, correlation=0.0)
    x[rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0])), 1] = NAN
    table, problem = Table(x, rng.integers(0, 2, n)), Problem(np.eye(2), [1, 1], 1, 2)
    result = diagnose(table, problem)
    assert result.columns["missing"].tolist() == [0, np.isnan(x[:, 1]).sum() / n]
    assert result.rows.sum() == n
    # The statistic grows with the rows: a quarter of them gives a quarter of it, about 1,850, with a standard
    # error of 2 sqrt(1850), 5%; five of them.
    assert result.little is not None
    whole = little_test(np.asarray(table.x, float), np.asarray(table.available))
    assert whole is not None
    assert result.little.statistic == pytest.approx(whole.statistic / 4, rel=0.25)
    assert result.columns["predictable"].iloc[1] > 0.8
    again, other = diagnose(table, problem), diagnose(table, problem, seed=1)
    assert again.little == result.little
    assert other.little != result.little
