"""What is said about a comparison follows from its numbers."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from ascertain.practice.comparison._leaderboard import (
    FLOOR,
    Candidate,
    FittedCandidate,
    Leaderboard,
    rank,
    with_floor,
)
from ascertain.practice.comparison._report import _treatments, leaderboard_table
from ascertain.practice.comparison._scoring import Score
from ascertain.practice.comparison._summary import (
    _against_random,
    choice_sentences,
    mean_cost_text,
    score_text,
    support_text,
)
from ascertain.reporting._tables import NOTHING
from tests.fitted import fitted

from .test_leaderboard import chosen_automatically, fitted_candidate


def said(board: Leaderboard) -> str:
    return " ".join(choice_sentences(fitted()[0], board))


def test_scores_come_with_intervals_or_with_the_reason_for_none() -> None:
    assert score_text(Score(0.8, 0.75, 0.86, 40.0)) == "0.80 (0.75 to 0.86)"
    assert score_text(Score(0.8, 0.783, 0.8204, 40.0)) == "0.800 (0.783 to 0.820)"
    assert score_text(Score(np.nan, np.nan, np.nan, 12.3)) == "too few rows (12)"
    assert score_text(Score(np.nan, np.nan, np.nan, np.nan)) == "too few rows"


def test_the_choice_and_the_rows_behind_it_are_named() -> None:
    words = said(fitted()[1])
    assert "was chosen on 36 validation rows" in words
    assert "(lower end of the 95% interval, doubly robust estimate)" in words
    assert "60 test rows that were used neither for training nor for choosing" in words
    assert "as they are" not in words


@pytest.mark.parametrize(
    ("panel", "moved", "verdict"),
    [
        (0.5, 0.1, "is better than the same panel for everybody by 0.400 (0.204 to 0.596)"),
        (0.88, 0.1, "by 0.020 (-0.176 to 0.216) on test rows (AUROC, doubly robust estimate, 95% interval"),
        (0.88, 0.1, "do not tell which of the two is better"),
        (0.92, 0.001, "is worse than the same panel for everybody by 0.020 (0.018 to 0.022)"),
        (0.92, 0.001, "these test rows tell that it is worse"),
    ],
)
def test_a_policy_must_be_better_than_one_panel_for_all(panel: float, moved: float, verdict: str) -> None:
    ours, panels = (
        fitted_candidate("gdfs", moved=(moved, 0.3), dr=0.9, restricted=0.9),
        fitted_candidate("static", moved=(0.0, 0.3), dr=panel, restricted=0.5),
    )
    # What the second row does to both scores is no part of their difference.
    assert verdict in said(Leaderboard((ours, panels), "dr", (0.0, 1.0)))
    enough = "the same panel for everybody is enough"
    assert enough in said(Leaderboard((panels, ours), "dr", (0.0, 1.0)))
    assert verdict in said(Leaderboard((panels, ours), "dr", (0.0, 1.0)))
    assert enough not in said(Leaderboard((panels,), "dr", (0.0, 1.0)))
    unchecked = fitted_candidate("gdfs", restricted=0.4)
    assert enough not in said(Leaderboard((panels, unchecked), "dr", (0.0, 1.0)))


def test_a_policy_that_does_what_the_panel_does_is_said_to() -> None:
    ours, panel = (fitted_candidate(name, moved=(0.1, 0.3), dr=0.9) for name in ("gdfs", "static"))
    words = said(Leaderboard((ours, panel), "dr", (0.0, 1.0)))
    assert "does the same as the same panel for everybody on these test rows" in words
    assert "by 0.000" not in words


def test_scores_of_rows_as_they_are_come_with_a_caveat() -> None:
    blind = fitted_candidate("gdfs", dr=np.nan, restricted=0.9)
    words = said(Leaderboard((blind, fitted_candidate("dime", restricted=0.8)), "restricted", (0.0, 1.0)))
    assert "(lower end of the 95% interval, rows as they are)" in words
    assert "may be too low or too high for a policy that can buy everything" in words


def spending(candidate: FittedCandidate, **costs: float) -> FittedCandidate:
    """A candidate with mean costs by estimator."""
    scores = candidate.test_scores
    spent = [
        scores[scores["estimator"] == name].assign(metric="mean_cost", estimate=cost)
        for name, cost in costs.items()
    ]
    tested = dataclasses.replace(candidate.tested, frame=pd.concat([scores, *spent]))
    return dataclasses.replace(candidate, tested=tested)


def test_a_random_order_without_an_estimate_leaves_that_of_the_others() -> None:
    ours, panel = (
        spending(
            fitted_candidate(name, moved=(moved, 0.3), dr=score, restricted=0.7), dr=12.0, restricted=9.08
        )
        for name, moved, score in (("gdfs", 0.01, 0.9), ("static", 0.0, 0.8))
    )
    floor = spending(
        fitted_candidate("random", moved=(0.0, 0.3), dr=np.nan, restricted=0.5), dr=np.nan, restricted=6.74
    )
    floor = dataclasses.replace(floor, candidate=FLOOR)
    board = rank([ours, panel, floor], (0.0, 1.0))
    costs = {each.candidate.method: mean_cost_text(board, each) for each in board.candidates}
    assert costs == {"gdfs": "12", "static": "12", "random": "6.74, as they are"}
    words = said(board)
    assert "for 12 spent on average" in words
    assert "by 0.100 (0.080 to 0.120) on test rows (AUROC, doubly robust estimate" in words
    assert "as they are" not in words
    table = leaderboard_table(board)
    assert table is not None
    assert [row[5].text for row in table.rows] == [
        "0.100 (0.080 to 0.120)",
        NOTHING,
        "-0.200 (-0.200 to -0.200), as they are",
    ]


def test_a_learned_policy_without_an_estimate_is_named() -> None:
    ours, blind = fitted_candidate("gdfs", dr=0.9), fitted_candidate("dime", dr=np.nan, restricted=0.8)
    words = said(rank([ours, blind], (0.0, 1.0)))
    assert "asked for by one step at a time (DIME, restored), so what is said of it is about rows as" in words


def test_policies_that_cannot_be_followed_are_named() -> None:
    board = Leaderboard(
        (fitted_candidate("gdfs", dr=0.7), fitted_candidate("dime", restricted=0.9)), "dr", (0.0, 1.0)
    )
    assert "(DIME, restored) could not be chosen: in fewer than 30 rows" in said(board)


def test_the_choice_of_a_treatment_is_explained() -> None:
    board = Leaderboard((chosen_automatically("gdfs", dr=0.7, restricted=0.7),), "dr", (0.0, 1.0))
    assert "Treatment of the holes: nearest was chosen: best value, on 2 validation rows by the" in said(
        board
    )
    assert "Treatment of the holes" not in said(fitted()[1])


def test_the_page_has_what_was_considered_for_every_method() -> None:
    boards = chosen_automatically("gdfs", dr=0.7), chosen_automatically("dime", dr=0.6)
    table = _treatments(Leaderboard(boards, "dr", (0.0, 1.0)))
    assert table is not None
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        ["one step at a time (GDFS, auto: nearest)", "restricted"],
        ["one step at a time (GDFS, auto: nearest)", "nearest"],
        ["one step at a time (DIME, auto: nearest)", "restricted"],
        ["one step at a time (DIME, auto: nearest)", "nearest"],
    ]
    assert _treatments(fitted()[1]) is None


def test_without_a_comparison_it_says_so() -> None:
    nothing = [fitted_candidate(name, restricted=np.nan) for name in ("gdfs", "dime")]
    assert "do not allow any comparison" in said(Leaderboard(tuple(nothing), None, (0.0, 1.0)))


def test_numbers_that_rest_on_few_rows_of_a_class_are_warned_about() -> None:
    words = said(fitted()[1])  # 60 test rows, of which some 20 are ill
    assert "Be careful: these scores rest on fewer than 30 effective rows of a class (on validation" in words
    score = Score(0.8, 0.7, 0.9, 1505.2, 23.7, "yes", "rests on 24 effective rows of class 'yes'", "")
    assert support_text(score) == "1,505 (24 of yes, few!)"


def test_a_random_order_is_never_chosen_and_is_named_if_it_does_no_worse() -> None:
    ours, floor = fitted_candidate("gdfs", dr=0.6), fitted_candidate("random", dr=0.7)
    floor = dataclasses.replace(floor, candidate=FLOOR)
    board = rank([ours, floor], (0.0, 1.0))
    assert board.candidates[0] is floor
    assert board.best is ours
    assert "A random order does no worse" in said(board)
    worse = dataclasses.replace(fitted_candidate("random", dr=0.5), candidate=FLOOR)
    assert "A random order" not in said(rank([ours, worse], (0.0, 1.0)))


@pytest.mark.parametrize(("cost", "named"), [(3.0, True), (9.0, False)])
def test_where_decisions_have_costs_a_random_order_is_judged_by_them(cost: float, named: bool) -> None:
    ours = fitted_candidate("gdfs", metric="decision_cost", restricted=4.0)
    floor = dataclasses.replace(
        fitted_candidate("random", metric="decision_cost", restricted=cost), candidate=FLOOR
    )
    words = " ".join(_against_random(rank([ours, floor], (0.0, 1.0))))
    assert (
        "A random order does no worse: 3 (3 to 3) against 4 (4 to 4) (mean cost of deci" in words
    ) == named


def test_what_only_the_random_order_has_does_not_rank_the_others() -> None:
    one, two = (
        fitted_candidate(name, dr=np.nan, restricted=score) for name, score in (("a", 0.6), ("b", 0.7))
    )
    floor = dataclasses.replace(fitted_candidate("random", dr=0.5, restricted=0.5), candidate=FLOOR)
    board = rank([one, two, floor], (0.0, 1.0))
    assert board.ranked_by == "restricted"
    assert board.best is two
    assert "at least nan" not in said(board)


def test_the_random_order_joins_where_several_are_compared() -> None:
    two = (Candidate("gdfs", "s", "restored"), Candidate("dime", "s", "restored"))
    assert with_floor(two) == (*two, FLOOR)
    assert with_floor(two[:1]) == two[:1]
    assert with_floor((*two, FLOOR)) == (*two, FLOOR)
