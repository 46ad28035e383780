"""Scores of restorers on a user's table."""

import json

import numpy as np
import pytest

from ascertain import Problem, restoration
from ascertain.practice.diagnosis import _restorers as module
from ascertain.practice.diagnosis._findings import diagnose_table
from ascertain.practice.diagnosis._report import render
from ascertain.practice.diagnosis._restorers import RestorerFindings, find_restorers
from tests.practice.diagnosis.test_report import user_table

PROBLEM = Problem(np.eye(3), np.ones(3), budget=1, n_classes=2)


def rows(n: int, missing: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows of almost the same value in all columns: who looks at the row draws far better."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1)) + 0.2 * rng.normal(size=(n, 3))
    return x.astype(np.float32), rng.random((n, 3)) >= missing, np.arange(n) % 2


@pytest.mark.slow
def test_the_best_comes_first_with_its_lead() -> None:
    stages: list[tuple[str, int, int]] = []
    found = find_restorers(*rows(800), PROBLEM, ["mean", "iterative"], lambda *each: stages.append(each))
    assert isinstance(found, RestorerFindings)
    best, *_ = found.restorers
    assert best.name == "iterative"
    assert {each.name for each in found.restorers} == {found.baseline, "mean", "iterative"}
    assert best.difference < 0 < best.difference_error
    by_name = {each.name: each for each in found.restorers}
    assert by_name["mean"].difference > 4 * by_name["mean"].difference_error > 0
    own = by_name[found.baseline]
    assert own.difference == own.difference_error == 0
    for each in found.restorers:
        assert each.difference == pytest.approx(each.score - own.score, abs=1e-4)
        assert each.seconds > 0
    assert found.trained_on == 600
    assert 190 <= found.scored_on <= 200  # one row of 37 has nothing
    assert [done for _, done, _ in stages] == [0, 1, 2, 3, 4]
    assert {total for *_, total in stages} == {4}


@pytest.mark.slow
def test_rows_of_a_large_table_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 200)
    found = find_restorers(*rows(800), PROBLEM, ["mean"])
    assert isinstance(found, RestorerFindings)
    assert found.trained_on == 150


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (rows(800, missing=0.0), "nothing is missing"),
        (rows(80), "this needs 100 rows; there are 80"),
        (rows(800, missing=1.0), "no row has a whole action"),
    ],
)
def test_what_cannot_be_scored_is_explained(
    data: tuple[np.ndarray, np.ndarray, np.ndarray], reason: str
) -> None:
    found = find_restorers(*data, PROBLEM, ["mean"])
    assert isinstance(found, str)
    assert reason in found


def test_defaults_are_registered() -> None:
    assert {module.BASELINE, *module.DEFAULTS} <= set(restoration.names())


def test_findings_and_page_have_the_scores() -> None:
    findings, drawing = diagnose_table(user_table(), budget=2, restorers=["mean"])
    content = json.loads(json.dumps(findings.to_json(), allow_nan=False))
    assert {each["name"] for each in content["restorers"]["restorers"]} >= {"mean"}
    assert "Scores of restorers" in render(findings, drawing)
    none, drawing = diagnose_table(user_table(60), budget=2, restorers=["mean"])
    assert none.to_json()["restorers"] == {"not_computed": "this needs 100 rows; there are 60"}
    assert "this needs 100 rows" in render(none, drawing)
