"""Costs of decisions: against closed forms, and mistakes in them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ascertain import InputError, Problem
from ascertain.decisions import check_decision_costs, decide, net_benefit

ALARM, MISSED = 1.0, 10.0
COSTS = np.array([[0.0, ALARM], [MISSED, 0.0]])


def test_two_classes_are_decided_at_the_threshold_of_the_closed_form() -> None:
    threshold = ALARM / (ALARM + MISSED)
    ill = np.array([0.0, threshold - 1e-6, threshold + 1e-6, 1.0])
    assert decide(np.stack([1 - ill, ill], axis=1), COSTS).tolist() == [0, 0, 1, 1]


def test_decisions_are_optimal_on_a_known_distribution() -> None:
    """x is normal, with mean 0 in the well (70%) and 1.5 in the ill: the best cut is a likelihood ratio."""
    cut = (np.log(0.7 * ALARM / (0.3 * MISSED)) + 1.5**2 / 2) / 1.5
    x = np.linspace(-4, 5, 1001)
    joint = np.stack([0.7 * norm.pdf(x), 0.3 * norm.pdf(x, 1.5)], axis=1)
    decided = decide(joint / joint.sum(axis=1, keepdims=True), COSTS)
    np.testing.assert_array_equal(decided, x > cut)


@pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
def test_decisions_are_those_of_brute_force(as_array: Any) -> None:
    rng = np.random.default_rng(0)
    p, costs = (
        rng.dirichlet(np.ones(4), size=50).astype(np.float32),
        rng.normal(size=(4, 4)).astype(np.float32),
    )
    expected = [min(range(4), key=lambda d: sum(row[c] * costs[c, d] for c in range(4))) for row in p]
    assert decide(as_array(p), as_array(costs)).tolist() == expected
    assert decide(as_array(p)).tolist() == p.argmax(axis=1).tolist()


def test_net_benefit_is_counted() -> None:
    rng = np.random.default_rng(1)
    p, ill, weights = rng.random(200), rng.random(200) < 0.3, rng.integers(0, 4, 200).astype(float)
    thresholds = [0.05, 0.3, 0.7]
    for repeats in (np.ones(200), weights):
        count = repeats.astype(int)
        q, truth = np.repeat(p, count), np.repeat(ill, count)
        expected = [((q >= t) & truth).mean() - ((q >= t) & ~truth).mean() * t / (1 - t) for t in thresholds]
        np.testing.assert_allclose(net_benefit(p, ill, thresholds, repeats), expected)


def test_net_benefit_ranks_as_expected_costs_do() -> None:
    """With costs of t and 1 - t, treating at t has a mean cost of (1 - t)(prevalence - net benefit)."""
    rng = np.random.default_rng(2)
    p, ill, t = rng.random(500), rng.random(500) < 0.4, 0.2
    costs = np.array([[0.0, t], [1 - t, 0.0]])
    decided = decide(np.stack([1 - p, p], axis=1), costs)
    mean_cost = costs[ill.astype(int), decided].mean()
    assert mean_cost == pytest.approx((1 - t) * (ill.mean() - net_benefit(p, ill, [t])[0]))


@pytest.mark.parametrize(
    "given",
    [
        {"well": {"ill": 1}, "ill": {"well": 10.0}},
        {"well": {"ill": 1, "well": 0}, "ill": {"well": 10.0, "ill": 0.0}},
        pd.DataFrame({"well": [0, 10], "ill": [1, 0]}, index=["well", "ill"]),
        pd.DataFrame({"ill": [0, 1], "well": [10, 0]}, index=["ill", "well"]),
        [[0, 1], [10, 0]],
    ],
    ids=["mapping", "whole mapping", "table", "table in another order", "matrix"],
)
def test_costs_are_read_in_the_order_of_the_classes(given: Any) -> None:
    np.testing.assert_array_equal(check_decision_costs(given, ["well", "ill"]), COSTS)


def test_classes_may_be_numbers() -> None:
    np.testing.assert_array_equal(check_decision_costs({0: {1: 1.0}, 1: {0: 10.0}}, np.array([0, 1])), COSTS)
    np.testing.assert_array_equal(check_decision_costs({"0": {"1": 1}, "1": {"0": 10}}, [0, 1]), COSTS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"well": {"ill": 1}}, "does not say what it costs to decide 'well' where 'ill' is true"),
        ({"wel": {"ill": 1}}, "no class is called 'wel'; did you mean 'well'"),
        ({"well": {"dead": 1}}, "no class is called 'dead'; there are 'well', 'ill'"),
        ({"well": 1.0}, r"decision_costs\['well'\] is 1.0; give a mapping"),
        ({"well": {"ill": "much"}, "ill": {"well": 1}}, "'well'.*'ill'.*is 'much', not a number"),
        (
            [[0, 1, 2], [1, 0, 2]],
            r"has shape \(2, 3\); it needs a row and a column for each of the 2 classes",
        ),
        ([[0, np.nan], [1, 0]], "deciding 'ill' where 'well' is true costs nan"),
    ],
)
def test_mistakes_are_named(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_decision_costs(given, ["well", "ill"])


def test_thresholds_are_probabilities() -> None:
    with pytest.raises(InputError, match=r"thresholds\[1\] is 1; thresholds are above 0 and below 1"):
        net_benefit(np.array([0.5]), np.array([True]), [0.5, 1.0])


def test_a_problem_may_have_them() -> None:
    problem = Problem(np.eye(2), [1, 1], 1, 2, class_names=["well", "ill"], decision_costs=COSTS)
    plain = Problem(np.eye(2), [1, 1], 1, 2, class_names=["well", "ill"])
    np.testing.assert_array_equal(problem.decision_costs, COSTS)
    assert plain.decision_costs is None
    np.testing.assert_array_equal(plain.with_decision_costs(COSTS).without_names().decision_costs, COSTS)
