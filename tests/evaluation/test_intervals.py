"""Bootstrap scores against those of repeated rows, and intervals against known standard errors."""

import numpy as np
import pytest
from hypothesis import given, settings

from ascertain.evaluation._intervals import WeightedPredictions, bootstrap_intervals
from ascertain.metrics import measure
from tests.evaluation_cases import Weighted, assert_same, weighted


@settings(max_examples=25, deadline=None)
@given(weighted())
def test_resamples_are_the_scores_of_the_rows_that_were_drawn(drawn: Weighted) -> None:
    p, y, counts = drawn
    n = len(y)
    sample = WeightedPredictions(
        np.arange(n), np.ones(n), p.astype(float), y, {"cost": np.arange(n, dtype=float)}
    )
    # Against the sample in which every row occurs: rankings are moved by their error in it, which is 0.
    found = sample.resampled_scores(np.stack([counts, np.ones(n)]).astype(float))
    rows = np.repeat(np.arange(n), counts)
    if len(np.unique(y)) > 1:
        expected = measure(p[rows], y[rows])
        assert_same({name: float(found[name][0]) for name in expected}, expected)
    assert found["cost"] == pytest.approx([rows.mean(), (n - 1) / 2])
    assert found["brier"][1] == pytest.approx(measure(p, y)["brier"])


def test_a_row_with_several_predictions_is_drawn_as_one() -> None:
    rng = np.random.default_rng(0)
    one = rng.random(60)
    p, row = np.stack([1 - one, one], axis=1), np.repeat(np.arange(20), 3)
    y, weight = np.repeat(rng.integers(0, 2, 20), 3), rng.normal(1, 1, 60)
    sample = WeightedPredictions(row, weight, p, y, {})
    counts = rng.integers(0, 3, 20)
    taken = np.repeat(np.arange(60), counts[row])
    found = sample.resampled_scores(counts[None].astype(float))
    expected = measure(p[taken], y[taken], weight[taken])
    assert {name: float(each[0]) for name, each in found.items()} == pytest.approx(expected)


def test_rankings_of_many_rows_are_resampled_at_enough_thresholds() -> None:
    rng = np.random.default_rng(1)
    n = 5000
    y = rng.integers(0, 2, n)
    one = 1 / (1 + np.exp(-rng.normal(1.5 * y - 0.75, 1)))
    p = np.stack([1 - one, one], axis=1)
    counts = np.bincount(rng.integers(0, n, n), minlength=n)
    sample = WeightedPredictions(np.arange(n), np.ones(n), p, y, {})
    found = sample.resampled_scores(counts[None].astype(float))
    expected = measure(np.repeat(p, counts, axis=0), np.repeat(y, counts))
    # Rows that share a threshold are 1 / 512 of all, and only their order among themselves is lost.
    assert found["auroc"][0] == pytest.approx(expected["auroc"], abs=1 / 512)
    assert found["auprc"][0] == pytest.approx(expected["auprc"], abs=1 / 512)


def test_intervals_are_as_wide_as_standard_errors_say() -> None:
    rng = np.random.default_rng(2)
    n, resamples = 2000, 4000
    right = rng.random(n) < 0.8
    p = np.where(right[:, None], [[0.3, 0.7]], [[0.7, 0.3]])
    y = np.ones(n, int)
    y[:100] = 0
    p[:100] = p[:100, ::-1]
    sample = WeightedPredictions(np.arange(n), np.ones(n), p, y, {"cost": rng.normal(size=n)})
    low, high = bootstrap_intervals(sample, n, resamples=resamples, level=0.9, seed=0)
    # The standard error of a resampled 5% quantile, in standard deviations, is
    # sqrt(0.05 * 0.95 / resamples) / density = 0.033; a width has two, and is 3.29 of them.
    tolerance = 4 * np.sqrt(2) * 0.033 / 3.29
    share = right.mean()
    assert high["accuracy"] - low["accuracy"] == pytest.approx(
        3.29 * np.sqrt(share * (1 - share) / n), rel=tolerance + 0.02
    )  # the quantiles of a count are whole: one row in 2,000 of a width of 59 rows
    spread = sample.amounts["cost"].std()
    assert high["cost"] - low["cost"] == pytest.approx(3.29 * spread / np.sqrt(n), rel=tolerance)
    assert low["auroc"] < sample.scores()["auroc"] < high["auroc"]


def test_scores_of_one_class_have_no_ranking() -> None:
    p = np.array([[0.4, 0.6], [0.2, 0.8]])
    sample = WeightedPredictions(np.arange(2), np.ones(2), p, np.ones(2, int), {})
    low, high = bootstrap_intervals(sample, 2, resamples=50, level=0.95, seed=0)
    assert np.isnan([low["auroc"], high["auprc"], sample.scores()["auroc"]]).all()
    assert low["accuracy"] == high["accuracy"] == 1


def test_concatenated_predictions_are_scored_together() -> None:
    rng = np.random.default_rng(3)
    one = rng.random(40)
    p, y, weight = np.stack([1 - one, one], axis=1), rng.integers(0, 2, 40), rng.random(40)
    parts = [
        WeightedPredictions(np.arange(20), weight[at], p[at], y[at], {}) for at in (slice(20), slice(20, 40))
    ]
    assert parts[0].concatenate(parts[1]).scores() == pytest.approx(measure(p, y, weight))


def test_what_the_score_functions_of_propensities_explain_is_no_uncertainty() -> None:
    rng = np.random.default_rng(6)
    n, resamples = 300, 400
    p = rng.random(n)
    sample = WeightedPredictions(
        np.arange(n), np.ones(n), np.stack([1 - p, p], axis=1), rng.integers(0, 2, n), {}
    )
    right = ((p > 0.5) == sample.y).astype(float)
    plain, unrelated, explained = (
        bootstrap_intervals(sample, n, residuals, resamples=resamples, level=0.95, seed=0)
        for residuals in (None, rng.normal(size=(n, 1)), (right - right.mean())[:, None])
    )
    # In a resample accuracy is its mean plus the residuals': nothing is left of the interval.
    width = [high["accuracy"] - low["accuracy"] for low, high in (plain, unrelated, explained)]
    assert width[0] == pytest.approx(2 * 1.96 * right.std() / n**0.5, rel=0.15)
    assert width[1] == pytest.approx(width[0], rel=0.05)
    assert width[2] == pytest.approx(0, abs=1e-9)
    # More columns than a regression on so few resamples can bear are left out.
    many = np.concatenate([np.zeros((n, resamples // 20)), (right - right.mean())[:, None]], axis=1)
    low, high = bootstrap_intervals(sample, n, many, resamples=resamples, level=0.95, seed=0)
    assert high["accuracy"] - low["accuracy"] == pytest.approx(width[0], rel=0.05)
