"""Free and very dear tests, from a table to a consultation."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier
from ascertain._core.prices import PriceList
from ascertain.estimator._consultation import Consultation
from ascertain.evaluation._curves import curve_budgets
from ascertain.practice._consult import cost_text
from ascertain.practice.diagnosis._support import as_masks, count_steps
from tests.estimator_cases import patients, quick

NOTHING = pd.DataFrame({"age": [None], "hat": [None], "smoker": [None], "scan": [None]})
FREE = dict.fromkeys(NOTHING.columns, 0.0)
DEAR = dict.fromkeys(NOTHING.columns, 1e30)
MIXED = {"age": 0.0, "hat": 1e30, "smoker": 1e-9, "scan": 1.0}


@cache
def fitted(kind: str) -> AcquisitionClassifier:
    table, y = patients(120)
    costs, budget = {"free": (FREE, 0), "dear": (DEAR, None), "mixed": (MIXED, 1)}[kind]
    return quick(method="gdfs", costs=costs, budget=budget).fit(table, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "bought", "spent"),
    [
        ("free", {*FREE}, 0.0),
        ("dear", {*DEAR}, 4e30),
        ("mixed", {"age", "smoker", "scan"}, 1.0),
    ],
)
def test_all_that_the_budget_pays_for_is_bought(kind: str, bought: set[str], spent: float) -> None:
    model = fitted(kind)
    table, y = patients(60, seed=1, missing=0.0)
    first = model.recommend(NOTHING).iloc[0]
    assert first["action"] in bought
    assert np.isfinite(first["score"])
    steps = model.acquire(table)
    for _, row in steps.groupby("row"):
        assert {*row["action"].dropna()} <= bought
        assert row["spent"].iloc[-1] <= spent * (1 + 1e-6)
    if kind == "free":  # nothing speaks against all of them
        assert steps.groupby("row").size().eq(5).all()
    scores = model.evaluate(table, y, resamples=2).set_index(["budget", "estimator", "metric"])["estimate"]
    assert np.isfinite(scores.xs("accuracy", level="metric")).all()
    assert (scores.xs("mean_cost", level="metric") <= spent * (1 + 1e-6)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dear", "free", "mixed"])
def test_a_consultation_goes_to_its_end(kind: str) -> None:
    case = Consultation(fitted(kind).advisor_)
    values = {"age": 40, "hat": "red", "smoker": True, "scan": 0.5}
    for _ in range(5):
        answer = case.answer()
        assert all(np.isfinite(option.cost) for option in answer.options)
        assert answer.left >= 0
        if answer.recommended is None:
            break
        case = case.enter({answer.recommended: values[answer.recommended]})
    assert answer.why in ("nothing left", "budget")
    assert answer.spent <= answer.budget * (1 + 1e-6)


@pytest.mark.slow
def test_a_very_dear_case_is_written_in_few_letters() -> None:
    options = Consultation(fitted("dear").advisor_).answer().options
    assert {cost_text(option) for option in options} == {"1e+30"}


def test_numbers_of_steps_and_budgets_of_curves() -> None:
    free, dear = PriceList(np.zeros(3)), PriceList(np.full(3, 1e30))
    assert curve_budgets(free, 0.0) == (0.0,)
    assert curve_budgets(dear, 3e30)[-1] == 3e30
    paths = as_masks([(0, 1, 2)], 3)
    for prices, budget in ((free, 0.0), (dear, 3e30)):
        steps = count_steps(prices, budget, paths)
        assert (steps.fewest, steps.most) == (3, 3)
        assert steps.at_mean_cost == pytest.approx(3)
