"""Costs of decisions on the leaderboard, in the sentences and on the page."""

import html
from dataclasses import replace

import numpy as np
import pytest

from ascertain import evaluate
from ascertain.decisions import decide, net_benefit
from ascertain.evaluation._decision_scores import net_benefit_name
from ascertain.practice.comparison._decisions import _own_threshold, draw_decision_curves
from ascertain.practice.comparison._leaderboard import (
    FittedCandidate,
    as_classifier,
    rank,
)
from ascertain.practice.comparison._report import render, report_fit
from ascertain.practice.comparison._scoring import THRESHOLDS, Scores
from ascertain.practice.comparison._summary import choice_sentences
from tests.fitted import BUDGET, fitted, fitted_with_costs

MATRIX = np.array([[0.0, 1.0], [9.0, 0.0]])


@pytest.mark.slow
def test_the_cheapest_decisions_win() -> None:
    _, board = fitted_with_costs()
    assert board.knows_decision_costs
    assert not fitted()[1].knows_decision_costs

    def costing(name: str, low: float, high: float) -> FittedCandidate:
        scores = board.best.validation_scores.copy()
        scores.loc[scores["metric"] == "decision_cost", ["low", "high"]] = low, high
        candidate = replace(board.best.candidate, method=name)
        return replace(board.best, candidate=candidate, validated=Scores(scores, {}))

    unsure, dear, sure = costing("gdfs", 0.1, 0.8), costing("dime", 0.6, 0.9), costing("ol", 0.5, 0.7)
    ordered = rank([unsure, dear, sure], board.budgets).candidates
    assert [each.candidate.method for each in ordered] == ["ol", "gdfs", "dime"]


def test_rows_as_they_are_cost_what_the_plain_evaluation_says() -> None:
    data, board = fitted_with_costs()
    advisor = board.best.advisor
    plain = evaluate(advisor.policy, advisor.problem, data.test, advisor.predictor, budgets=[BUDGET])
    for metric in ("decision_cost", "total_cost"):
        found = board.best.score(BUDGET, "restricted", metric)
        assert found.estimate == pytest.approx(plain[metric][0], abs=1e-6)
        assert found.low < found.estimate < found.high


def test_buying_nothing_has_the_net_benefit_of_its_predictions() -> None:
    data, board = fitted_with_costs()
    x, known = np.asarray(data.test.x), np.asarray(data.problem.known)[None]
    p = board.best.advisor.predict(x * known, np.broadcast_to(known, x.shape))
    expected = net_benefit(p[:, 1], np.asarray(data.test.y) == 1, THRESHOLDS)
    found = [board.best.score(0.0, "restricted", net_benefit_name(t)).estimate for t in THRESHOLDS]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_sentences_say_what_decisions_cost() -> None:
    data, board = fitted_with_costs()
    chosen, _, decisions, *_ = choice_sentences(data, board)
    assert "its decisions at a budget of 6 cost at most" in chosen
    y = np.asarray(data.test.y)
    same = min((9 * (y == 1).mean(), "no"), ((y == 0).mean(), "yes"))
    assert f"decide {same[1]!r} for everybody, the cheapest such rule, costs {same[0]:.2g}." in decisions
    assert not any("decide" in each for each in choice_sentences(*fitted()[:2]))


def test_the_page_has_the_costs_and_the_curve() -> None:
    data, board = fitted_with_costs()
    page = html.unescape(render(report_fit(data, board, "0" * 64)))
    assert "What its decisions are worth" in page
    assert "Decided: yes" in page
    assert "Sorted by: decisions cost at most" in page
    assert "Net benefit at the full budget" in page
    without = html.unescape(render(report_fit(*fitted()[:2], "0" * 64)))
    assert "Net benefit at the full budget" in without
    assert "Decided: yes" not in without


def test_the_curve_shows_the_policy_all_and_none() -> None:
    data, board = fitted_with_costs()
    (axes,) = draw_decision_curves(data, board, "restricted").axes
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    everybody = lines["yes for everybody"]
    at = np.asarray(everybody.get_xdata())
    truth = np.asarray(data.test.y) == 1
    drawn = np.asarray(everybody.get_ydata(), np.float64)
    np.testing.assert_allclose(drawn[1:], net_benefit(np.ones(len(truth)), truth, at[1:]), atol=1e-12)
    assert set(np.asarray(lines["yes for nobody"].get_ydata())) == {0.0}
    assert len(lines) == 5  # also two policies and the costs


def test_the_threshold_of_the_costs_is_where_decisions_change() -> None:
    data, _ = fitted_with_costs()
    threshold = _own_threshold(data)
    assert threshold == pytest.approx(0.1)
    ill = np.array([0.1 - 1e-9, 0.1 + 1e-9])
    assert decide(np.stack([1 - ill, ill], axis=1), MATRIX).tolist() == [0, 1]


def test_the_model_keeps_them() -> None:
    data, board = fitted_with_costs()
    np.testing.assert_array_equal(as_classifier(data, board).decision_costs, MATRIX)
