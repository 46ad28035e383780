"""Fixed routes on tables where we know which column is worth buying."""

from typing import Any

import numpy as np
import pytest

from ascertain import Problem
from ascertain.practice.diagnosis import _route_proposals
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes, find_routes
from ascertain.practice.diagnosis._route_scores import ScoredRows

NAMES = ("noise", "good", "other", "more")


def look(rate: float, *, informative: bool, n: int = 1200) -> FixedRoutes:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    y = (x[:, 1] > 0).astype(np.int64) if informative else rng.integers(0, 2, n)
    available = rng.random(x.shape) >= rate
    problem = Problem(np.eye(4), np.ones(4), 1, 2, action_names=NAMES)
    found = find_routes(np.where(available, x, 0.0), available, y, problem)
    assert isinstance(found, FixedRoutes)
    return found


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_column_that_decides_is_found(rate: float) -> None:
    found = look(rate, informative=True)
    assert found.shortened == 0
    assert found.best == ("good",)
    assert found.best_score > 0.95  # the rule itself is right everywhere
    # The three others know nothing: a guess is right in half of the rows, up to noise.
    assert found.mean_score < (1 + 3 * (0.5 + found.noise)) / 4
    assert found.routes == 4
    assert found.overlap == 0  # different single actions share nothing


def test_it_is_found_where_no_row_has_two_actions() -> None:
    # The budget pays for two, so that all sets are cut to one.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 4))
    y = (x[:, 1] > 0).astype(np.int64)
    available = np.zeros(x.shape, bool)
    available[np.arange(1200), np.arange(1200) % 4] = True
    problem = Problem(np.eye(4), np.ones(4), 2, 2, action_names=NAMES)
    found = find_routes(np.where(available, x, 0.0), available, y, problem)
    assert isinstance(found, FixedRoutes)
    assert found.shortened == 1
    assert found.best == ("good",)
    assert found.best_score > 0.95


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_nothing_is_gained_where_there_is_nothing_to_know(rate: float) -> None:
    found = look(rate, informative=False)
    assert found.best_score < 0.5 + 2 * found.noise


def test_large_tables_with_large_budgets_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in: list[int] = []
    build = _route_proposals._build

    def noted(rows: ScoredRows, *more: Any) -> Any:
        built_in.append(len(rows.y))
        return build(rows, *more)

    monkeypatch.setattr(_route_proposals, "_build", noted)
    monkeypatch.setattr(_route_proposals, "_MOST_PREDICTIONS", 1000)
    assert look(0.0, informative=True, n=6000).best == ("good",)
    assert built_in[0] == 500
    assert len(built_in) == 3  # for all rows, and for both sides of one fork


def test_too_few_rows_or_no_choice_are_explained() -> None:
    rng = np.random.default_rng(0)
    x, here = rng.normal(size=(300, 2)), np.ones((300, 2), bool)
    y = np.arange(300) % 2
    everything = Problem(np.eye(2), np.ones(2), 2, 2)
    assert find_routes(x, here, y, everything) == (
        "only one set of actions is possible within the budget, so there is nothing to choose"
    )
    few = find_routes(x[:100], here[:100], y[:100], everything)
    assert few == "this needs 200 rows, and 20 of each class; there are 100, and 50 of the rarest class"


def test_what_is_known_of_a_patient_does_not_help_with_others() -> None:
    """Ten visits of each patient look alike and have the same class, which nothing tells."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 10)
    x = rng.normal(size=(60, 4))[patient] + 0.01 * rng.normal(size=(600, 4))
    y = rng.permutation(np.arange(60) % 2)[patient]
    problem = Problem(np.eye(4), np.ones(4), 2, 2, action_names=NAMES)
    split, together = (
        find_routes(x, np.ones(x.shape, bool), y, problem, instances) for instances in (None, patient)
    )
    assert isinstance(split, FixedRoutes)
    assert isinstance(together, FixedRoutes)
    assert split.best_score > 0.7  # recognises patients
    # 30 patients are scored: three standard errors of a share of them.
    assert together.best_score < 0.5 + 3 * 0.5 / np.sqrt(30)
