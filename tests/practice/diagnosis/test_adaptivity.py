"""What adapting gains, on tables where that is known."""

import numpy as np
import pytest

from ascertain.practice.diagnosis._adaptivity import Adaptivity
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes, find_routes
from ascertain.practice.diagnosis._recommendations import on_routes
from ascertain.problem import Problem
from ascertain.tables._encoding import fit_encoding
from ascertain.testing import planted_table


def look(name: str, seed: int = 0) -> FixedRoutes:
    table = planted_table(name, seed)
    encoding = fit_encoding(table.train, costs=dict(table.costs), known=list(table.known))
    x, available = encoding.transform(table.train)
    problem = encoding.problem(table.budget, ["no", "yes"])
    found = find_routes(x.astype(np.float64), available, np.asarray(table.train_labels), problem)
    assert isinstance(found, FixedRoutes)
    return found


def advised(found: FixedRoutes) -> str:
    (advice,) = on_routes(found)
    return advice.title


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_context_that_decides_is_measured_first(seed: int) -> None:
    found = look("maintenance", seed)
    assert isinstance(found.adaptivity, Adaptivity)
    assert found.adaptivity.low > 0
    assert found.adaptivity.first == ("machine",)
    assert {"vib_1", "vib_2"} <= {name for each in found.adaptivity.then for name in each.actions}
    assert sum(each.share for each in found.adaptivity.then) == pytest.approx(1)
    # Half of the machines are of one kind: five standard errors of half of 3,000 rows.
    assert sum(
        each.share for each in found.adaptivity.then if {"vib_1", "vib_2"} & {*each.actions}
    ) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(3000))
    assert advised(found) == "Let results decide what comes next"


def test_a_decisive_test_for_everybody_needs_no_plan_that_adapts() -> None:
    found = look("decisive_test")
    assert found.best == ("teardown",)
    assert advised(found) == "Try a fixed set of actions first"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["additive", "copies", "noise"])
def test_where_nothing_is_gained_no_gain_is_claimed(name: str) -> None:
    found = look(name)
    assert isinstance(found.adaptivity, Adaptivity)
    assert found.adaptivity.low <= 0 <= found.adaptivity.high  # each would fail in one of 20 other tables
    assert advised(found) != "Let results decide what comes next"


def test_the_interval_holds_the_true_gain() -> None:
    """Complete rows, all bits: `which` says which of two bits is the class, and the budget buys two bits."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (4000, 3))
    y = np.where(bits[:, 0] == 1, bits[:, 1], bits[:, 2])
    problem = Problem(np.eye(3), np.ones(3), 2, 2, action_names=["which", "one", "other"])
    found = find_routes(bits - 0.5, np.ones(bits.shape, bool), y, problem)
    assert isinstance(found, FixedRoutes)
    assert isinstance(found.adaptivity, Adaptivity)
    # The plan is always right; a fixed pair is right in three of four rows.
    assert found.adaptivity.low <= 0.25 <= found.adaptivity.high
    assert found.adaptivity.high - found.adaptivity.low < 0.1
    assert found.adaptivity.first == ("which",)


def test_a_decisive_test_is_found_where_few_rows_have_all_that_the_budget_pays_for() -> None:
    """With this budget a set has six tests or more, of which each is missing in half of the rows."""
    table = planted_table("decisive_test", 0)
    encoding = fit_encoding(table.train, costs=dict(table.costs), known=list(table.known))
    x, available = encoding.transform(table.train)
    problem = encoding.problem(20.0, ["no", "yes"])
    found = find_routes(x.astype(np.float64), available, np.asarray(table.train_labels), problem)
    assert isinstance(found, FixedRoutes)
    assert not found.whole
    assert "teardown" in found.best
    assert found.best_score > 0.98 - found.noise  # what the test achieves by itself
    assert advised(found) == "Try a fixed set of actions first"


def test_a_gain_is_over_an_average_set_where_the_chosen_one_is_worse() -> None:
    """Nothing tells the class, so the set that half of the rows prefer is no better than others."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        problem = Problem(np.eye(4), np.ones(4), 2, 2)
        found = find_routes(rng.normal(size=(400, 4)), np.ones((400, 4), bool), np.arange(400) % 2, problem)
        assert isinstance(found, FixedRoutes)
        assert isinstance(found.adaptivity, Adaptivity)
        assert found.adaptivity.over == ("the best fixed set" if found.best_is_known else "an average set")
        assert found.adaptivity.fixed_score == pytest.approx(
            max(found.best_score, found.mean_score), abs=1e-6
        )


def test_too_few_rows_are_explained() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12))
    available = rng.random(x.shape) < 0.15
    available[:, 0] |= ~available.any(axis=1)
    problem = Problem(np.eye(12), np.ones(12), 4, 2)
    found = find_routes(np.where(available, x, 0.0), available, np.arange(300) % 2, problem)
    assert found == "fewer than two sets of actions were measured in 50 rows of each class"
