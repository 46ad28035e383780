"""Influences of rows on scores, against what scores do when a row counts a little more."""

import numpy as np
import pytest

from ascertain.evaluation._influence import influences
from ascertain.evaluation._intervals import WeightedPredictions, bootstrap_intervals, intervals


def sample(n_rows: int, n_classes: int, seed: int, *, weighted: bool = True) -> WeightedPredictions:
    """Up to three predictions for each row, some of negative weight and some tied."""
    rng = np.random.default_rng(seed)
    row = np.sort(rng.integers(0, n_rows, 2 * n_rows)) if weighted else np.arange(n_rows)
    y = rng.integers(0, n_classes, n_rows)[row]
    raw = rng.random((len(row), n_classes)) + 0.25 * np.eye(n_classes)[y]
    p = np.round(raw / raw.sum(axis=1, keepdims=True), 2) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    weight = rng.gamma(2.0, 0.5, len(row)) if weighted else np.ones(len(row))
    if weighted:
        weight[::9] *= -0.3
    return WeightedPredictions(row, weight, p, y, {"mean_cost": rng.random(len(row))})


@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_are_derivatives_by_the_weight_of_a_row(n_classes: int) -> None:
    found = sample(60, n_classes, n_classes)
    scores, step = found.scores(), 1e-6
    expected = influences(found, scores, 60)
    for row in range(60):
        moved = found._replace(weight=found.weight * (1 + step * (found.row == row))).scores()
        for name, score in scores.items():
            # Differences of double precision numbers of about 1, divided by the step.
            assert (moved[name] - score) / step == pytest.approx(expected[name][row], abs=2e-6), name


def test_standard_errors_are_those_of_a_bootstrap() -> None:
    n, resamples = 1500, 2000
    found = sample(n, 2, 5)
    scores = found.scores()
    low, high = intervals(found, scores, n, level=0.95)
    slow_low, slow_high = bootstrap_intervals(found, n, resamples=resamples, level=0.95, seed=0)
    # A resampled 2.5% quantile has a standard error of 0.06 deviations, and the width has two of them. Both
    # have errors of order 1 / sqrt(rows) besides; calibration errors are not smooth where a bin has none.
    tolerance = 4 * np.sqrt(2) * 0.06 / 3.92 + 2 / np.sqrt(n)
    for name in set(scores) - {"ece"}:
        assert high[name] - low[name] == pytest.approx(slow_high[name] - slow_low[name], rel=tolerance), name
        assert low[name] < scores[name] < high[name]


def test_delongs_variance_of_the_area() -> None:
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [80, 40])
    one = np.clip(rng.normal(0.4 + 0.2 * y, 0.15), 0.01, 0.99)
    plain = WeightedPredictions(np.arange(120), np.ones(120), np.stack([1 - one, one], 1), y, {})
    wins = (one[80:, None] > one[None, :80]) + 0.5 * (one[80:, None] == one[None, :80])
    by_hand = wins.mean(axis=1).var() / 40 + wins.mean(axis=0).var() / 80
    found = influences(plain, plain.scores(), 120)["auroc"]
    assert np.square(found).sum() == pytest.approx(by_hand)


def test_intervals_of_shares_stay_within_their_range_and_are_no_points() -> None:
    y = np.repeat([0, 1], [30, 30])
    one = np.where(y == 1, 0.9, 0.1)
    perfect = WeightedPredictions(np.arange(60), np.ones(60), np.stack([1 - one, one], 1), y, {})
    low, high = intervals(perfect, perfect.scores(), 60, level=0.95)
    # Wilson's interval for 60 of 60 begins at 0.94.
    assert low["accuracy"] == pytest.approx(0.94, abs=0.01)
    assert 0.9 < low["auroc"] < 0.96
    assert high["accuracy"] == high["auroc"] == 1.0
    beyond = perfect._replace(weight=np.where(np.arange(60) == 3, -0.5, 1.0))
    shifted = dict.fromkeys(perfect.scores(), 1.04)
    low, high = intervals(beyond, shifted, 60, level=0.95)
    assert 0.5 < low["auroc"] < high["auroc"] == 1.0
