"""What decisions cost and their net benefit: by hand, and near the exact truth in rows with holes."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import InputError, Problem, Table, evaluate, evaluate_incomplete, evaluate_soft
from ascertain.decisions import decide, net_benefit
from ascertain.evaluation._decision_scores import net_benefit_name
from ascertain.predictors._predictions import predict_sets
from ascertain.restoration import fit_hotdeck
from tests.incomplete_cases import PROBLEM, Believes, Chooses, draw, exact_predictions, hide, path

COSTS = np.array([[0.0, 1.0], [4.0, 0.0]])
THRESHOLDS = [0.2, 0.5]
COSTLY = PROBLEM.with_decision_costs(COSTS)


def test_complete_rows_are_scored_by_hand() -> None:
    table = draw(np.random.default_rng(0), 100)
    y, values = np.asarray(table.y), np.asarray(table.x).astype(int)
    acquired = np.zeros((100, 3), bool)
    for row, each in enumerate(values.tolist()):
        acquired[row, path(tuple(each))] = True
    p = np.asarray(predict_sets(Believes(), PROBLEM, table, jnp.asarray(acquired[None])))[0].astype(
        np.float64
    )
    # Missing one costs four times as much as an alarm: class 1 is decided for from 1/5 on.
    decided = (p[:, 1] >= 0.2).astype(int)
    cost = np.array([COSTS[true, choice] for true, choice in zip(y, decided, strict=True)]).mean()
    found = evaluate(Chooses(), COSTLY, table, Believes()).iloc[0]
    assert found["decision_cost"] == pytest.approx(cost)
    assert found["total_cost"] == pytest.approx(cost + acquired.sum(axis=1).mean())
    estimates = evaluate_incomplete(Chooses(), COSTLY, table, Believes(), thresholds=THRESHOLDS)
    by_metric = estimates.set_index("metric")["estimate"]
    assert by_metric["decision_cost"] == pytest.approx(cost)
    assert by_metric["total_cost"] == pytest.approx(found["total_cost"])
    expected = net_benefit(p[:, 1], y == 1, THRESHOLDS)
    np.testing.assert_allclose(by_metric[[net_benefit_name(t) for t in THRESHOLDS]], expected)


def test_estimates_from_rows_with_holes_are_near_the_exact_truth() -> None:
    truth, p, chance, spent = exact_predictions()
    decided = decide(np.stack([1 - p, p], axis=1), COSTS)
    cost = chance @ COSTS[truth, decided]
    benefits = net_benefit(p, truth == 1, THRESHOLDS, chance)
    expected = {
        "decision_cost": cost,
        "total_cost": cost + chance @ spent,
        **dict(zip(map(net_benefit_name, THRESHOLDS), benefits, strict=True)),
    }
    rng = np.random.default_rng(1)
    table, deck = hide(rng, draw(rng, 4000)), fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 400)))
    found = evaluate_incomplete(Chooses(), COSTLY, table, Believes(), restorer=deck, thresholds=THRESHOLDS)
    for estimator in ("ipw", "dr"):
        part = found[found["estimator"] == estimator].set_index("metric")
        for metric, value in expected.items():
            error = (part["high"][metric] - part["low"][metric]) / 3.92
            assert 0 < error < 0.1
            assert abs(part["estimate"][metric] - value) < 3.5 * error, (estimator, metric)


def test_problems_without_costs_have_no_such_scores() -> None:
    table = draw(np.random.default_rng(2), 100)
    assert "decision_cost" not in evaluate(Chooses(), PROBLEM, table, Believes())
    assert "decision_cost" in evaluate_soft(Chooses(), COSTLY, table, Believes())
    metrics = evaluate_incomplete(Chooses(), PROBLEM, table, Believes())["metric"]
    assert not metrics.str.contains("decision|total|benefit").any()


def test_net_benefit_is_about_two_classes() -> None:
    problem, table = Problem(np.eye(2), [1, 1], 1, 3), Table(np.eye(2), [0, 2])
    with pytest.raises(InputError, match="net benefit is about two classes; the problem has 3"):
        evaluate_incomplete(Chooses(), problem, table, Believes(), thresholds=[0.5])


def test_weighted_rows_with_holes_estimate_the_weighted_truth() -> None:
    """Rows of class 1 count three times, as if there were three times as many of them."""
    truth, p, chance, spent = exact_predictions()
    count = np.where(truth == 1, 3.0, 1.0) * chance
    decided = decide(np.stack([1 - p, p], axis=1), COSTS)
    expected = {
        "accuracy": count @ ((p > 0.5) == truth) / count.sum(),
        "decision_cost": count @ COSTS[truth, decided] / count.sum(),
        "mean_cost": count @ spent / count.sum(),
    }
    rng = np.random.default_rng(3)
    table, deck = hide(rng, draw(rng, 4000)), fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 400)))
    weights = np.where(np.asarray(table.y) == 1, 3.0, 1.0)
    given = Chooses(), COSTLY, table, Believes()
    found = evaluate_incomplete(*given, restorer=deck, sample_weight=weights)
    plain = evaluate_incomplete(*given, restorer=deck)
    for estimator in ("ipw", "dr"):
        weighted, equal = (
            each[each["estimator"] == estimator].set_index("metric") for each in (found, plain)
        )
        for metric, value in expected.items():
            error = (weighted["high"][metric] - weighted["low"][metric]) / 3.92
            assert abs(weighted["estimate"][metric] - value) < 3.5 * error, (estimator, metric)
        assert not equal["low"]["decision_cost"] < expected["decision_cost"] < equal["high"]["decision_cost"]
        assert weighted["effective_rows"].iloc[0] < equal["effective_rows"].iloc[0]
