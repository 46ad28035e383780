"""Weighted scores against those of repeated rows, and their intervals against known standard errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import InputError
from ascertain.evaluation.weighted_metrics import (
    Sample,
    intervals,
    joined,
    measure_sample,
    measure_weighted,
    resample,
)
from ascertain.metrics import measure

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def weighted(draw: st.DrawFn) -> Drawn:
    """Draw probabilities of few values, so that most are tied and some are 0 or 1, labels and counts."""
    n_rows, n_classes = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = rng.integers(0, 4, (n_rows, n_classes)) + 1e-9 * np.eye(n_classes)[0]
    counts = rng.integers(0, 4, n_rows)
    counts[0] += 1
    y = rng.integers(0, rng.integers(1, n_classes + 1), n_rows)
    return (parts / parts.sum(axis=1, keepdims=True)).astype(np.float32), y, counts


def assert_same(found: dict[str, float], expected: dict[str, float]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name


@settings(max_examples=40, deadline=None)
@given(weighted())
def test_equal_weights_give_the_plain_scores(drawn: Drawn) -> None:
    p, y, _ = drawn
    for weight in (1.0, 0.25):
        assert_same(measure_weighted(p, y, np.full(len(y), weight)), measure(p, y))


@settings(max_examples=40, deadline=None)
@given(weighted())
def test_a_weight_counts_as_so_many_rows(drawn: Drawn) -> None:
    p, y, counts = drawn
    assert_same(
        measure_weighted(p, y, 1.0 * counts), measure(np.repeat(p, counts, axis=0), np.repeat(y, counts))
    )


@settings(max_examples=25, deadline=None)
@given(weighted())
def test_a_negative_weight_takes_a_row_away(drawn: Drawn) -> None:
    p, y, counts = drawn
    twice = np.concatenate([p, p]), np.concatenate([y, y])
    found = measure_weighted(*twice, np.concatenate([counts + 2.0, np.full(len(y), -2.0)]))
    assert_same(found, measure(np.repeat(p, counts, axis=0), np.repeat(y, counts)))


@settings(max_examples=25, deadline=None)
@given(weighted())
def test_resamples_are_the_scores_of_the_rows_that_were_drawn(drawn: Drawn) -> None:
    p, y, counts = drawn
    n = len(y)
    sample = Sample(np.arange(n), np.ones(n), p.astype(float), y, {"cost": np.arange(n, dtype=float)})
    # Against the sample in which every row occurs: rankings are moved by their error in it, which is 0.
    found = resample(sample, np.stack([counts, np.ones(n)]).astype(float))
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
    sample = Sample(row, weight, p, y, {})
    counts = rng.integers(0, 3, 20)
    taken = np.repeat(np.arange(60), counts[row])
    found = resample(sample, counts[None].astype(float))
    expected = measure_weighted(p[taken], y[taken], weight[taken])
    assert {name: float(each[0]) for name, each in found.items()} == pytest.approx(expected)


def test_rankings_of_many_rows_are_resampled_at_enough_thresholds() -> None:
    rng = np.random.default_rng(1)
    n = 5000
    y = rng.integers(0, 2, n)
    one = 1 / (1 + np.exp(-rng.normal(1.5 * y - 0.75, 1)))
    p = np.stack([1 - one, one], axis=1)
    counts = np.bincount(rng.integers(0, n, n), minlength=n)
    found = resample(Sample(np.arange(n), np.ones(n), p, y, {}), counts[None].astype(float))
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
    sample = Sample(np.arange(n), np.ones(n), p, y, {"cost": rng.normal(size=n)})
    low, high = intervals(sample, n, resamples, 0.9, seed=0)
    # The standard error of a resampled 5% quantile, in standard deviations, is
    # sqrt(0.05 * 0.95 / resamples) / density = 0.033; a width has two, and is 3.29 of them.
    tolerance = 4 * np.sqrt(2) * 0.033 / 3.29
    share = right.mean()
    assert high["accuracy"] - low["accuracy"] == pytest.approx(
        3.29 * np.sqrt(share * (1 - share) / n), rel=tolerance + 0.02
    )  # the quantiles of a count are whole: one row in 2,000 of a width of 59 rows
    spread = sample.amounts["cost"].std()
    assert high["cost"] - low["cost"] == pytest.approx(3.29 * spread / np.sqrt(n), rel=tolerance)
    assert low["auroc"] < measure_sample(sample)["auroc"] < high["auroc"]


def test_scores_of_one_class_have_no_ranking() -> None:
    p = np.array([[0.4, 0.6], [0.2, 0.8]])
    sample = Sample(np.arange(2), np.ones(2), p, np.ones(2, int), {})
    low, high = intervals(sample, 2, 50, 0.95, seed=0)
    assert np.isnan([low["auroc"], high["auprc"], measure_sample(sample)["auroc"]]).all()
    assert low["accuracy"] == high["accuracy"] == 1


def test_joined_samples_add_up() -> None:
    rng = np.random.default_rng(3)
    one = rng.random(40)
    p, y, weight = np.stack([1 - one, one], axis=1), rng.integers(0, 2, 40), rng.random(40)
    parts = [Sample(np.arange(20), weight[at], p[at], y[at], {}) for at in (slice(20), slice(20, 40))]
    assert measure_sample(joined(*parts)) == pytest.approx(measure_weighted(p, y, weight))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights has 1 entries for 2 predictions"),
        ([1.0, -1.0], "their sum above 0"),
        ([1.0, float("nan")], "finite"),
    ],
)
def test_refuses_weights_that_cannot_be(weights: list[float], message: str) -> None:
    p = np.array([[0.4, 0.6], [0.2, 0.8]])
    with pytest.raises(InputError, match=message):
        measure_weighted(p, np.array([0, 1]), np.array(weights))


def test_what_fitted_weights_make_up_for_is_no_uncertainty() -> None:
    rng = np.random.default_rng(6)
    n, resamples = 300, 400
    p = rng.random(n)
    sample = Sample(np.arange(n), np.ones(n), np.stack([1 - p, p], axis=1), rng.integers(0, 2, n), {})
    right = ((p > 0.5) == sample.y).astype(float)
    plain, unrelated, explained = (
        intervals(sample, n, resamples, 0.95, seed=0, surplus=surplus)
        for surplus in (None, rng.normal(size=(n, 1)), (right - right.mean())[:, None])
    )
    # In a resample the share that is right is its mean and the surplus's: nothing is left of the interval.
    width = [high["accuracy"] - low["accuracy"] for low, high in (plain, unrelated, explained)]
    assert width[0] == pytest.approx(2 * 1.96 * right.std() / n**0.5, rel=0.15)
    assert width[1] == pytest.approx(width[0], rel=0.05)
    assert width[2] == pytest.approx(0, abs=1e-9)
    # More columns than a regression on so few resamples can bear are left out.
    many = np.concatenate([np.zeros((n, resamples // 20)), (right - right.mean())[:, None]], axis=1)
    low, high = intervals(sample, n, resamples, 0.95, seed=0, surplus=many)
    assert high["accuracy"] - low["accuracy"] == pytest.approx(width[0], rel=0.05)
