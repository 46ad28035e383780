"""The difference of two policies is paired by rows."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ascertain.evaluation._intervals import WeightedPredictions, row_influences
from ascertain.practice.comparison._scoring import Difference, Scores, difference
from tests.fitted import BUDGET, fitted


def sample_of(score: np.ndarray, y: np.ndarray) -> WeightedPredictions:
    probability = 1 / (1 + np.exp(-score))
    return WeightedPredictions(
        np.arange(len(y)), np.ones(len(y)), np.stack([1 - probability, probability], axis=1), y, {}
    )


def test_its_standard_error_is_that_of_leaving_out_one_row_after_the_other() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.3).astype(int)
    latent = y + rng.normal(size=400)
    first, second = latent + 0.3 * rng.normal(size=400), latent + 0.5 * rng.normal(size=400)

    def gain(rows: np.ndarray) -> float:
        return float(roc_auc_score(y[rows], first[rows]) - roc_auc_score(y[rows], second[rows]))

    everything = np.arange(400)
    jackknife = np.array([gain(np.delete(everything, row)) for row in everything])
    expected = np.sqrt(399 / 400 * np.square(jackknife - jackknife.mean()).sum())
    moved = [
        row_influences(each, each.scores(), 400)["auroc"]
        for each in (sample_of(first, y), sample_of(second, y))
    ]
    assert np.linalg.norm(moved[0] - moved[1]) == pytest.approx(expected, rel=0.02)
    assert np.linalg.norm(moved[0]) > 1.5 * expected  # unpaired, it would say less


def test_the_policies_of_a_board_are_compared_with_its_panel() -> None:
    _, board, _ = fitted()
    ours, theirs = board.candidates[:2]
    found = difference(ours.tested, theirs.tested, BUDGET, "restricted")
    assert isinstance(found, Difference)
    scores = [each.score(BUDGET, "restricted").estimate for each in (ours, theirs)]
    assert found.estimate == pytest.approx(scores[0] - scores[1])
    assert found.low <= found.estimate <= found.high
    back = difference(theirs.tested, ours.tested, BUDGET, "restricted")
    assert back == found.reversed
    itself = difference(ours.tested, ours.tested, BUDGET, "restricted")
    assert itself is not None
    assert (itself.low, itself.high) == (0.0, 0.0)


def test_a_missing_score_has_no_difference() -> None:
    _, board, _ = fitted()
    frame = board.best.test_scores
    assert difference(board.best.tested, Scores(frame.iloc[:0], {}), BUDGET, "dr") is None
    assert difference(board.best.tested, Scores(frame, {}), BUDGET, "dr") is None
