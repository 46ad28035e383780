"""Intervals where rows belong together, against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

from ascertain.evaluation._intervals import WeightedPredictions, bootstrap_intervals, intervals
from ascertain.evaluation._propensity import assign_folds


def sample_of(right: np.ndarray) -> WeightedPredictions:
    n = len(right)
    y = np.arange(n) % 2
    certain = np.where(right, 0.9, 0.1)
    p = np.where(y[:, None] == np.arange(2), certain[:, None], 1 - certain[:, None])
    return WeightedPredictions(np.arange(n), np.ones(n), p, y, {"mean_cost": right.astype(float)})


def clustered(n_clusters: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose predictions are all right or all wrong within a cluster."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.random(n_clusters) < 0.7, size), np.repeat(np.arange(n_clusters), size)


def test_copies_of_rows_add_no_certainty() -> None:
    """With clusters of identical rows, intervals are those of one row for each."""
    right, clusters = clustered(200, 6, 0)
    once, many = sample_of(right[::6]), sample_of(right)
    low, high = intervals(many, many.scores(), 1200, level=0.95, clusters=clusters)
    low_once, high_once = intervals(once, once.scores(), 200, level=0.95)
    for name in ("accuracy", "mean_cost", "brier"):
        assert (low[name], high[name]) == pytest.approx((low_once[name], high_once[name]))
    share = right.mean()
    error = np.sqrt(share * (1 - share) / 199)  # of a mean of 200
    wide = norm.ppf(0.975) * error
    assert (low["mean_cost"], high["mean_cost"]) == pytest.approx((share - wide, share + wide))
    narrow_low, narrow_high = intervals(many, many.scores(), 1200, level=0.95)
    ratio = (high["mean_cost"] - low["mean_cost"]) / (narrow_high["mean_cost"] - narrow_low["mean_cost"])
    assert ratio == pytest.approx(np.sqrt(6), rel=0.01)


def test_the_bootstrap_draws_whole_clusters() -> None:
    right, clusters = clustered(200, 6, 1)
    sample, share = sample_of(right), right.mean()
    low, high = bootstrap_intervals(sample, 1200, resamples=2000, level=0.95, seed=0, clusters=clusters)
    width = 2 * norm.ppf(0.975) * np.sqrt(share * (1 - share) / 200)
    # The end of a percentile interval of 2,000 resamples has a standard error of 3% of the width.
    assert high["mean_cost"] - low["mean_cost"] == pytest.approx(width, rel=0.12)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for seed in range(400):
        right, clusters = clustered(150, 5, seed)
        sample = sample_of(right)
        low, high = intervals(sample, sample.scores(), 750, level=0.95, clusters=clusters)
        held += low["accuracy"] <= 0.7 <= high["accuracy"]
    # Binomial(400, 0.95): below 365 or above 393 once in a thousand times.
    assert 365 <= held <= 393


def test_folds_keep_clusters_together() -> None:
    clusters = np.random.default_rng(0).integers(0, 40, 300)
    fold = assign_folds(300, 0, clusters)
    for cluster in np.unique(clusters):
        assert len(set(fold[clusters == cluster])) == 1
    assert set(fold) == {0, 1, 2, 3, 4}
