"""Weights of rows: zero leaves a row out, equal ones change nothing, a whole number repeats a row."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain._core.checks import check_sample_weight
from ascertain.estimator._weights import repeat_in_proportion, weigh_classes
from tests.estimator_cases import patients, quick

NOTHING = pd.DataFrame({"age": [np.nan], "hat": [None], "smoker": [None], "scan": [np.nan]})


def test_whole_weights_repeat_rows_exactly() -> None:
    weights = np.array([1.0, 3.0, 2.0, 4.0])
    for seed in range(20):
        rng = np.random.RandomState(seed)
        drawn = repeat_in_proportion(rng, np.array([5, 6, 7, 8]), weights, np.array([0, 0, 1, 1]), 20)
        assert np.unique(drawn, return_counts=True)[1].tolist() == [2, 6, 4, 8]


def test_other_weights_are_rounded_up_or_down_and_right_in_the_mean() -> None:
    weights = np.array([0.2, 1.5, 0.9, 2.4])
    expected, n = weights / weights.sum() * 7, 2000
    counts = np.zeros((n, 4))
    for seed in range(n):
        rng = np.random.RandomState(seed)
        drawn = repeat_in_proportion(rng, np.arange(4), weights, np.zeros(4, int), 7)
        counts[seed] = np.bincount(drawn, minlength=4)
    assert ((counts == np.floor(expected)) | (counts == np.ceil(expected))).all()
    # A count is one of two neighbours, so its variance is at most 1/4: five standard errors.
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=5 * 0.5 / np.sqrt(n))


def test_a_class_of_hardly_any_weight_keeps_a_row() -> None:
    weights, y = np.array([1.0, 1.0, 1e-9]), np.array([0, 0, 1])
    drawn = repeat_in_proportion(np.random.RandomState(0), np.arange(3), weights, y, 64)
    assert (drawn == 2).sum() == 1


def test_balanced_classes_count_weights() -> None:
    labels, weights = np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0])
    repeated = weigh_classes("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]), None)
    np.testing.assert_allclose(weigh_classes("balanced", np.array(["a", "b"]), labels, weights), repeated)


def test_rows_of_weight_zero_are_as_if_they_were_not_there() -> None:
    table, y = patients(150)
    absurd = pd.DataFrame({"age": [1e5, -1e5], "hat": ["plaid", "blue"], "smoker": [True, True], "scan": 9.0})
    both = pd.concat([table, absurd], ignore_index=True)
    weights = np.r_[np.full(150, 2.5), 0.0, 0.0]
    plain = quick().fit(table, y)
    weighted = quick().fit(both, np.r_[y, ["dead", "ill"]], sample_weight=weights)
    assert weighted.classes_.tolist() == ["ill", "well"]
    np.testing.assert_array_equal(weighted.predict_proba(table), plain.predict_proba(table))
    assert weighted.recommend(table).equals(plain.recommend(table))


@pytest.mark.slow
def test_weights_count_like_repetitions() -> None:
    table, y = patients(400, seed=1)
    ill = y == "ill"
    counts = np.where(ill, 3, 1)
    weighted = quick().fit(table, y, sample_weight=counts / 7)
    repeated = quick().fit(table.loc[np.repeat(table.index, counts)], np.repeat(y, counts))
    expected = counts[ill].sum() / counts.sum()
    # 80 validation rows calibrate the prediction from nothing: three standard errors of their share.
    error = 3 * np.sqrt(expected * (1 - expected) / 80)
    for model in (weighted, repeated):
        assert model.predict_proba(NOTHING)[0, 0] == pytest.approx(expected, abs=error)
    assert quick().fit(table, y).predict_proba(NOTHING)[0, 0] < expected - error


@pytest.mark.slow
def test_the_policy_serves_the_rows_that_count() -> None:
    """Half of the rows are decided by one column, half by another one."""
    rng = np.random.default_rng(0)
    x, first = rng.normal(size=(400, 3)), np.arange(400) < 200
    y = (np.where(first, x[:, 0], x[:, 2]) > 0).astype(int)
    for kind, best in ((first, "x0"), (~first, "x2")):
        model = quick(method="static", budget=1).fit(x, y, sample_weight=np.where(kind, 20.0, 1.0))
        assert model.recommend(np.full((1, 3), np.nan))["action"].tolist() == [best]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "sample_weight is -1.0 in row 1; weights are finite and not negative"),
        ([1.0, 2.0], r"sample_weight must be 3 numbers, one for each row; it has shape \(2,\)"),
        ([[1.0], [2.0], [1.0]], "sample_weight must be 3 numbers"),
        ([0.0, 0.0, 0.0], "sample_weight is zero in every row"),
        (["a", 1.0, 1.0], r"sample_weight\[0\] is .*a.*, not a number"),
        ([np.nan, 1.0, 1.0], "sample_weight is nan in row 0"),
    ],
)
def test_mistakes_are_named(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_sample_weight(weights, 3)


# Scores


@pytest.mark.slow
def test_whole_weights_score_as_repetitions_do() -> None:
    model = quick(budget=2).fit(*patients(150))
    table, y = patients(70, seed=3, missing=0.0)
    counts = np.random.default_rng(0).integers(0, 4, 70)
    repeated = table.loc[np.repeat(table.index, counts)], np.repeat(y, counts)
    weighted, plain = (
        frame.query("estimator == 'ipw'").set_index(["budget", "metric"])["estimate"]
        for frame in (
            model.evaluate(table, y, [1.0, 2.0], sample_weight=counts),
            model.evaluate(*repeated, [1.0, 2.0]),
        )
    )
    pd.testing.assert_series_equal(weighted, plain)
    for metric in ("accuracy", "auroc", "log_loss", "mean_cost"):
        assert model.score(table, y, counts, metric=metric) == pytest.approx(
            model.score(*repeated, metric=metric)
        )
    assert model.score(table, y, counts) != model.score(table, y)
