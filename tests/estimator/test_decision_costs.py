"""Classifiers that know what wrong decisions cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier, InputError, scorers
from tests.estimator_cases import patients, quick

COSTS = {"well": {"ill": 1.0}, "ill": {"well": 20.0}}
MATRIX = np.array([[0.0, 20.0], [1.0, 0.0]])  # in the order of the classes: ill, well


@pytest.fixture(scope="module")
def fitted() -> AcquisitionClassifier:
    return quick(decision_costs=COSTS, budget=1, costs={"scan": 1, "hat": 1, "smoker": 1, "age": 1}).fit(
        *patients(300)
    )


def test_it_decides_for_what_is_expected_to_cost_least(fitted: AcquisitionClassifier) -> None:
    table, _ = patients(80, seed=1)
    probabilities = fitted.predict_proba(table)
    expected = [
        min(
            range(2),
            key=lambda decided: sum(p * cost for p, cost in zip(row, MATRIX[:, decided], strict=True)),
        )
        for row in probabilities.tolist()
    ]
    np.testing.assert_array_equal(fitted.predict(table), fitted.classes_[expected])
    assert (fitted.predict(table) != fitted.classes_[probabilities.argmax(axis=1)]).any()
    np.testing.assert_array_equal(fitted.recommend(table)["prediction"], fitted.predict(table))


def test_scores_are_what_decisions_cost(fitted: AcquisitionClassifier) -> None:
    table, y = patients(90, seed=2, missing=0.0)
    last = fitted.acquire(table).groupby("row").last()
    true = np.searchsorted(fitted.classes_, y)
    cost = MATRIX[true, np.searchsorted(fitted.classes_, last["prediction"])].mean()
    found = fitted.evaluate(table, y, [1.0]).query("estimator == 'ipw'").set_index("metric")["estimate"]
    assert found["decision_cost"] == pytest.approx(cost)
    assert found["total_cost"] == pytest.approx(cost + last["spent"].mean())
    assert fitted.score(table, y) == pytest.approx(-cost)
    assert scorers.policy_neg_decision_cost(fitted, table, y) == pytest.approx(-cost)
    assert scorers.policy_neg_total_cost(fitted, table, y) == pytest.approx(-cost - last["spent"].mean())
    assert 0 < fitted.score(table, y, metric="accuracy") < 1


def test_costs_are_saved(fitted: AcquisitionClassifier, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="training rows themselves"):
        fitted.save(tmp_path / "model")
    again = AcquisitionClassifier.load(tmp_path / "model")
    table, _ = patients(80, seed=1)
    np.testing.assert_array_equal(again.predict(table), fitted.predict(table))
    np.testing.assert_array_equal(again.decision_costs, MATRIX)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decision_costs": COSTS, "class_weight": "balanced"}, "class_weight exclude each other"),
        ({"decision_costs": {"dead": {"ill": 1}}}, "no class is called 'dead'; there are 'ill', 'well'"),
        ({"decision_costs": pd.DataFrame({"ill": [1.0]}, index=["well"])}, "does not say what it costs"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(**changes).fit(*patients(40))


def test_costs_that_nobody_gave_cannot_be_scored() -> None:
    model = quick().fit(*patients(60))
    with pytest.raises(InputError, match="there is no 'decision_cost', as nothing says what decisions cost"):
        model.score(*patients(60), metric="decision_cost")
