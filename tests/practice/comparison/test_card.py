"""The card and the page say what a model was fitted with."""

import html
from dataclasses import replace

import numpy as np
import pytest

from ascertain.practice.comparison._card import render_card
from ascertain.practice.comparison._leaderboard import FLOOR, rank
from ascertain.practice.comparison._report import FitReport, left_out_sentences, render, report_fit
from tests.fitted import fitted, fitted_with_costs

from .test_leaderboard import fitted_candidate


@pytest.fixture(scope="module")
def told() -> FitReport:
    """A report on rows that belong together, decisions that cost something, and stopping early."""
    data, board = fitted_with_costs()
    table = replace(data.table, rows_of="patient", instances=np.arange(len(data.table.y)))
    return report_fit(replace(data, table=table), replace(board, stop_early=True), "0" * 64)


def test_they_say_how_it_decides_stops_and_which_rows_belong_together(told: FitReport) -> None:
    card, page = render_card(told), html.unescape(render(told))
    for text in (card, page):
        assert "least expected cost" in text
        assert "all rows with the same 'patient', in training, validation and test" in text
        assert "Stops early" in text
    assert "no: this method cannot" in card  # a fixed panel does not weigh prices
    assert "| True class | Decided: no | Decided: yes |" in card
    assert "| yes | 9 | 0 |" in card


def test_they_say_nothing_of_what_was_not_asked_for() -> None:
    data, board, _ = fitted()
    card = render_card(report_fit(data, board, "0" * 64))
    for words in ("expected cost", "Stops early", "kept together", "What decisions cost"):
        assert words not in card


def test_a_quick_look_says_what_it_leaves_out() -> None:
    data, _, _ = fitted()
    quick = [fitted_candidate(name, dr=0.8) for name in ("planner", "static")]
    floor = replace(fitted_candidate("random", dr=0.5), candidate=FLOOR)
    words = " ".join(left_out_sentences(data, rank([*quick, floor], (0.0, 1.0))))
    assert "GDFS and DIME, which a quick look (low effort) leaves out" in words
    longer = [*quick, *(fitted_candidate(name, dr=0.8) for name in ("gdfs", "dime")), floor]
    words = " ".join(left_out_sentences(data, rank(longer, (0.0, 1.0))))
    assert "GDFS" not in words
    assert "AACO" in words
