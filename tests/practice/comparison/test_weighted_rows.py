"""Rows count by their weights, from the table to the scores."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from ascertain.practice.comparison._followed import follow
from ascertain.practice.comparison._leaderboard import Candidate, compare
from ascertain.practice.comparison._scoring import score
from ascertain.practice.comparison._subgroups import score_subgroups
from tests.fitted import BUDGET, fitted, held_out, user_table


def test_weights_go_with_their_rows() -> None:
    table = user_table()
    weights = np.arange(1.0, 1 + len(table.y))
    data = held_out(replace(table, weights=weights, weighted_by="w"))
    for places, rows in ((data.validated, data.selection), (data.tested, data.test)):
        np.testing.assert_array_equal(data.weights_of(places), weights[places])
        np.testing.assert_array_equal(table.y[places], np.asarray(rows.y))
    assert data.rows.weights is not None
    np.testing.assert_array_equal(data.rows.weights[data.rows.validated], weights[data.validated])
    assert held_out(table).weights_of(data.tested) is None


def test_scores_are_those_of_weighted_rows() -> None:
    data, board, _ = fitted()
    advisor, budgets = board.best.advisor, board.budgets
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(data.test.y))
    weights[:5] = 0.0
    given = advisor, data.test, budgets, (), advisor.restorer
    scores = score(*given, weights=weights).frame
    predicted = follow(advisor, data.test, data.habits)  # of which every row has what the policy asks for
    assert len(predicted.sample.row) == len(weights)
    y, chance = predicted.sample.y, predicted.sample.probabilities[:, 1].astype(float)
    expected = {
        "auroc": roc_auc_score(y, chance, sample_weight=weights),
        "log_loss": log_loss(y, chance, sample_weight=weights),
    }
    for metric, value in expected.items():
        found = scores.query(f"budget == {BUDGET} and metric == {metric!r} and estimator == 'restricted'")
        assert found["estimate"].item() == pytest.approx(value, abs=1e-5)
        assert found["n_rows"].item() == len(weights) - 5
        assert found["effective_rows"].item() == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    weighted = follow(advisor, data.test, data.habits, weights=weights).sample
    assert weighted.scores()["auroc"] == pytest.approx(expected["auroc"], abs=1e-5)


def test_equal_weights_change_no_score() -> None:
    data, board, _ = fitted()
    advisor = board.best.advisor
    given = advisor, data.test, (0.0, BUDGET), (BUDGET,), advisor.restorer
    plain, weighted = score(*given).frame, score(*given, weights=np.full(len(data.test.y), 7.0)).frame
    np.testing.assert_allclose(plain["estimate"], weighted["estimate"], atol=1e-9)
    np.testing.assert_allclose(plain["low"], weighted["low"], atol=1e-9)


def test_subgroups_are_weighted_by_their_own_rows() -> None:
    data, board, _ = fitted()
    column = data.table.columns.iloc[data.tested]["sex"].reset_index(drop=True)
    weights = np.where(np.asarray(data.test.y) == 1, 5.0, 1.0)
    advisor = board.best.advisor
    given = advisor, data.test, column, advisor.restorer
    plain, weighted = score_subgroups(*given), score_subgroups(*given, weights=weights)
    assert [each.name for each in plain.groups] == [each.name for each in weighted.groups]
    # The share of the ill is what accuracy depends on, and AUROC does not.
    for one, other in zip(plain.groups, weighted.groups, strict=True):
        assert one.auroc.estimate == pytest.approx(other.auroc.estimate, abs=1e-6)
    assert any(
        abs(one.accuracy.estimate - other.accuracy.estimate) > 1e-3
        for one, other in zip(plain.groups, weighted.groups, strict=True)
    )


@pytest.mark.slow
def test_a_predictor_learns_the_weighted_shares() -> None:
    table = user_table()
    weights = np.where(table.y == 1, 9.0, 1.0)
    candidates = (Candidate("sequential", "s", "restricted"),)
    means = []
    for each in (table, replace(table, weights=weights, weighted_by="w")):
        data = held_out(each)
        board = compare(data, candidates, restorer="hotdeck", effort="low")
        advisor = board.best.advisor
        x, available = np.asarray(data.test.x), np.zeros_like(np.asarray(data.test.available))
        means.append(advisor.predict(x, available)[0, 1])
    assert means[0] < 0.4  # of all rows, 31% are ill; of the weighted ones, 80%
    assert means[1] > means[0] + 0.2  # short training on 180 rows does not learn it all
