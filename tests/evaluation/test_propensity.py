"""Availability models against scikit-learn, closed forms and simulated truth."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from ascertain.evaluation._propensity import (
    FOLDS,
    Choices,
    assign_folds,
    cross_fit,
    fit_logistic,
    propensities,
)


def simulated(n: int, slopes: list[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw covariates, an outcome that depends on them, and its true probability."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(slopes)))
    truth = expit(0.4 + x @ np.array(slopes))
    return x, rng.random(n) < truth, truth


@pytest.mark.parametrize("penalty", [1.0, 30.0])
def test_logistic_regressions_are_scikit_learns(penalty: float) -> None:
    x, outcome, _ = simulated(300, [1.5, -0.5, 0.0])
    design = np.column_stack([np.ones(300), x])
    weight = np.random.default_rng(1).random((3, 300)) < 0.7
    start = np.zeros((3, 4))
    start[:, 0] = logit(outcome.mean())
    found = fit_logistic(design, outcome, weight, penalty, start)
    for rows, coefficients in zip(weight, found, strict=True):
        reference = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=1000).fit(x[rows], outcome[rows])
        expected = [*reference.intercept_, *reference.coef_[0]]
        assert coefficients == pytest.approx(expected, abs=1e-5)


def test_separable_outcomes_have_finite_coefficients() -> None:
    x = np.linspace(-3, 3, 200)
    design, outcome = np.column_stack([np.ones(200), x]), x > 2.7
    found = fit_logistic(design, outcome, np.ones((1, 200), bool), 1.0, np.array([[logit(0.05), 0.0]]))
    gradient = (outcome - expit(design @ found[0])) @ design - [0, found[0, 1]]
    assert gradient == pytest.approx([0, 0], abs=1e-4)  # the maximum, whose gradient vanishes


def test_probabilities_come_near_the_truth() -> None:
    x, outcome, truth = simulated(4000, [1.0, -0.6, 0.0, 0.0])
    found = cross_fit(x, outcome, assign_folds(4000, 0))
    # A fitted logit has variance x' I^-1 x, on average 5 coefficients / (3200 rows * p (1 - p)), and a
    # probability p (1 - p) <= 1/4 times its error.
    expected = np.sqrt(5 / 3200 / 4)
    assert np.sqrt(np.mean((found - truth) ** 2)) < 2 * expected
    assert np.std(truth) > 10 * expected


def test_without_covariates_it_is_the_rate_in_the_other_folds() -> None:
    outcome = np.random.default_rng(0).random(103) < 0.3
    fold = assign_folds(103, 1)
    found = cross_fit(np.zeros((103, 0)), outcome, fold)
    for number in range(FOLDS):
        others = outcome[fold != number]
        expected = (others.sum() + 0.5) / (len(others) + 1)
        assert found[fold == number] == pytest.approx(np.full((fold == number).sum(), expected))


def test_few_rows_have_a_rate_between_zero_and_one() -> None:
    outcome = np.array([True, True, True, False])
    found = cross_fit(np.arange(4.0)[:, None], outcome, np.array([0, 1, 2, 3]))
    assert found == pytest.approx([2.5 / 4, 2.5 / 4, 2.5 / 4, 3.5 / 4])


@pytest.mark.slow
def test_covariates_that_tell_nothing_do_not_spoil_the_rate() -> None:
    errors, unpenalised = [], np.sqrt(81 / 320 / 4)  # see above, with 81 coefficients from 320 rows
    for seed in range(8):
        rng = np.random.default_rng(seed)
        outcome = rng.random(400) < 0.6
        found = cross_fit(rng.normal(size=(400, 80)), outcome, assign_folds(400, seed))
        errors.append(np.sqrt(np.mean((found - 0.6) ** 2)))
    assert np.median(errors) < unpenalised / 4


def test_folds_are_of_equal_size() -> None:
    assert np.bincount(assign_folds(52, 3)).tolist() == [11, 11, 10, 10, 10]
    assert (assign_folds(52, 3) != assign_folds(52, 4)).any()


def test_each_action_has_a_model_of_what_was_known_when_it_was_chosen() -> None:
    rng = np.random.default_rng(3)
    n = 6000
    x = rng.normal(size=(n, 3))
    action = rng.integers(0, 3, n)
    seen = np.column_stack([np.ones(n, bool), rng.random(n) < 0.5, np.zeros(n, bool)])
    acquired = seen & ~np.eye(3, dtype=bool)[action]
    y = rng.integers(0, 3, n)
    # Action 0 is always there; action 1 by class and feature 0, which is always known; action 2 by feature 1,
    # if known.
    first = 1.2 * x[:, 0] + np.array([0.0, 0.8, -0.8])[y]
    drives = np.stack([np.full(n, np.inf), first, np.where(seen[:, 1], 1.5 * x[:, 1], 0.7)])
    truth = expit(drives[action, np.arange(n)])
    available = rng.random(n) < truth
    found = propensities(Choices(action, available, x, seen, acquired, y, assign_folds(n, 0)))
    assert (found[action == 0] == 1).all()
    # 9 coefficients at most, from 1,600 rows: see above.
    for each in (1, 2):
        error = found[action == each] - truth[action == each]
        assert np.sqrt(np.mean(error**2)) < 2 * np.sqrt(9 / 1600 / 4)


def test_values_that_are_not_known_are_not_looked_at() -> None:
    rng = np.random.default_rng(4)
    n = 400
    x, seen = rng.normal(size=(n, 2)), rng.random((n, 2)) < 0.6
    available = rng.random(n) < 0.7
    fold, action = assign_folds(n, 0), np.zeros(n, int)
    other = np.where(seen, x, 1000 * rng.normal(size=x.shape))
    y = rng.integers(0, 2, n)
    found = [propensities(Choices(action, available, each, seen, seen, y, fold)) for each in (x, other)]
    assert (found[0] == found[1]).all()


def test_of_many_features_those_that_are_observed_most_often_are_used() -> None:
    rng = np.random.default_rng(4)
    n, d = 3000, 30
    observed = rng.random((n, d)) < 0.3
    observed[:, [3, 21]] = True
    x = rng.normal(size=(n, d))
    available = rng.random(n) < expit(x[:, 3] - x[:, 21])
    fold = assign_folds(n, 0)
    choices = Choices(
        np.zeros(n, int), available, x, observed, np.zeros((n, d), bool), rng.integers(0, 2, n), fold
    )
    found = propensities(choices)
    truth = expit(x[:, 3] - x[:, 21])
    # Sixteen values, two of which matter: a root mean squared error of sqrt(17 / 3,000) in logits, or 0.02.
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.04
