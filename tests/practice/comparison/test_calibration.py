"""Probabilities that are off are warned about, and those that only look so are not."""

import html
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from ascertain.evaluation._intervals import WeightedPredictions, intervals
from ascertain.practice.comparison._calibration import Calibration, calibration_sentences, measure_calibration
from ascertain.practice.comparison._card import render_card
from ascertain.practice.comparison._data import fit_data
from ascertain.practice.comparison._report import render, report_fit, result_sentences
from ascertain.practice.comparison._scoring import Score
from tests.fitted import fitted


class Distortion(NamedTuple):
    """Where the true logits lie, and how predicted ones are stretched and shifted."""

    middle: float = 0.0
    slope: float = 1.0
    shift: float = 0.0


def measured(n_rows: int, given: Distortion = Distortion(), seed: int = 0) -> Calibration:
    """Predictions for rows of which the truth is known."""
    rng = np.random.default_rng(seed)
    true = rng.normal(given.middle, 2.0, n_rows)
    y = (rng.random(n_rows) < expit(true)).astype(int)
    p = expit(given.slope * true + given.shift)
    sample = WeightedPredictions(np.arange(n_rows), np.ones(n_rows), np.stack([1 - p, p], axis=1), y, {})
    scores = sample.scores()
    low, high = (ends["ece"] for ends in intervals(sample, scores, n_rows, level=0.95))
    return measure_calibration(sample, Score(scores["ece"], low, high), seed=seed)


@pytest.mark.parametrize(
    ("given", "direction", "consequence"),
    [
        (Distortion(slope=0.4), "too cautious", "avoid the costlier mistake more often than pays"),
        (Distortion(slope=3.0), "too sure", "risk the costlier mistake more often than pays"),
        (Distortion(middle=-2.0, shift=2.0), "mixed", "can be wrong in either direction"),
    ],
)
def test_the_direction_the_size_and_what_follows_are_said(
    given: Distortion, direction: str, consequence: str
) -> None:
    found = measured(2000, given)
    assert found.off
    assert found.direction == direction
    (words,) = calibration_sentences(found)
    assert consequence in words
    assert f"{found.confidence:.0%} on average and was the true one in {found.right:.0%}" in words
    assert f"(calibration error {found.error.estimate:.3f} ({found.error.low:.3f} to" in words
    assert calibration_sentences(found, stop_early=True) != [words]


def test_the_difference_is_that_of_the_squeezed_probabilities() -> None:
    found = measured(200_000, Distortion(slope=0.4))
    true = np.random.default_rng(1).normal(scale=2.0, size=200_000)
    # By symmetry: the mean probability of the likeliest class, as it is said and as it is.
    assert found.confidence == pytest.approx(expit(0.4 * np.abs(true)).mean(), abs=0.005)
    assert found.right == pytest.approx(expit(np.abs(true)).mean(), abs=0.005)


@pytest.mark.parametrize("n_rows", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_true_probabilities_are_rarely_warned_about(n_rows: int) -> None:
    found = [measured(n_rows, seed=seed) for seed in range(100)]
    if n_rows == 60:  # where the error by itself would often warn
        assert np.mean([each.error.estimate for each in found]) > 0.08
    # At most 2.5% by construction: 8 or more of 100 with a probability of 0.4%.
    assert sum(each.off for each in found) < 8


def test_without_an_estimate_nothing_is_said() -> None:
    assert calibration_sentences(replace(measured(500), error=Score(np.nan, np.nan, np.nan))) == []


def test_the_page_the_card_the_terminal_and_the_data_warn() -> None:
    data, board, _ = fitted()
    report = replace(report_fit(data, board, "0" * 64), calibration=measured(2000, Distortion(slope=0.4)))
    words = "Be careful with its probabilities: they are too cautious"
    page = html.unescape(render(report))
    assert page.count(words) == 2  # in the result, and beside the figure
    assert words in render_card(report)
    assert words in " ".join(result_sentences(report))
    assert fit_data(report)["calibration"]["off"]
    calm = replace(report, calibration=replace(report.calibration, error=Score(0.03, 0.01, 0.06)))
    assert words not in html.unescape(render(calm))


def test_the_error_in_the_report_is_that_of_the_rows_in_the_figure() -> None:
    data, board, _ = fitted()
    report = report_fit(data, board, "0" * 64)
    assert report.calibration.error.estimate == pytest.approx(report.followed.sample.scores()["ece"])
    page = html.unescape(render(report))
    section = page[page.index('id="calibration"') : page.index('id="decisions"')]
    assert "Calibration error" in section
    assert "AUROC" not in section  # it would be another estimate than the headline's
