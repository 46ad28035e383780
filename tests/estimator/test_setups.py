"""Set-up costs in the classifier, in what it recommends and acquires, and in consultations."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier
from ascertain.estimator._consultation import Consultation
from ascertain.practice._consult import cost_text
from tests.estimator_cases import patients, quick

NOTHING = pd.DataFrame({"age": [None], "hat": [None], "smoker": [None], "scan": [None]})
SETUP = {"visit": {"cost": 3.0, "columns": ["age", "smoker"]}}
HOLDS_ROWS = pytest.mark.filterwarnings("ignore:(?s).*training rows themselves:UserWarning")


@cache
def fitted() -> AcquisitionClassifier:
    """Its policy goes through the columns in order: age, hat, smoker, scan."""
    table, y = patients(120)
    costs = {"age": 1.0, "hat": 2.0, "smoker": 0.5, "scan": 9.0}
    return quick(costs=costs, setup=SETUP, budget=7).fit(table, y)


def test_the_first_test_of_a_visit_pays_for_it() -> None:
    rows = NOTHING.assign(age=[50.0])
    assert fitted().recommend(NOTHING)["cost"].tolist() == [4.0]
    seen = fitted().recommend(rows.assign(hat="red")).iloc[0]
    assert (seen["action"], seen["cost"]) == ("smoker", 0.5)  # 4 + 2 + 0.5 fits, and 4 + 2 + 3.5 would not


def test_acquisition_pays_for_a_visit_once() -> None:
    table, _ = patients(5, seed=1, missing=0.0)
    steps = fitted().acquire(table)
    assert steps[steps["row"] == 0]["cost"].tolist() == [0.0, 4.0, 2.0, 0.5]
    assert steps.groupby("row")["spent"].last().tolist() == [6.5] * 5


def test_a_consultation_shows_what_is_for_the_set_up() -> None:
    start = Consultation(fitted().advisor_)
    by_name = {option.action: option for option in start.answer().options}
    assert [cost_text(by_name[name]) for name in ("age", "hat", "smoker", "scan")] == [
        "1 + 3 set-up (visit)",
        "2",
        "0.5 + 3 set-up (visit)",
        "9",
    ]
    after = start.enter({"age": 50}).answer()
    by_name = {option.action: option for option in after.options}
    assert (after.spent, by_name["smoker"].cost, by_name["smoker"].setup) == (4.0, 0.5, 0.0)
    assert by_name["smoker"].setups == ()
    assert start.enter({"hat": "red", "age": 50}).answer().recommended == "smoker"


@pytest.mark.slow
def test_a_panel_that_is_partly_entered_has_paid_for_its_set_up() -> None:
    table, y = patients(120)
    model = quick(groups={"pair": ["age", "hat"]}, setup=SETUP, budget=6).fit(table, y)
    answer = Consultation(model.advisor_).enter({"age": 50}).answer()
    assert answer.spent == 5.0  # two columns of the panel, and the visit
    assert answer.recommended == "smoker"
    assert {option.action: option.cost for option in answer.options} == {"smoker": 1.0, "scan": 1.0}


@HOLDS_ROWS
def test_saving_keeps_set_ups(tmp_path: Path) -> None:
    fitted().save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    assert loaded.setup == SETUP
    pd.testing.assert_frame_equal(loaded.recommend(NOTHING), fitted().recommend(NOTHING))
    assert loaded.advisor_.encoding == fitted().advisor_.encoding


@HOLDS_ROWS
def test_without_set_ups_files_hold_no_word_of_them(tmp_path: Path) -> None:
    table, y = patients(120)
    quick().fit(table, y).save(tmp_path)
    assert b"setup" not in (tmp_path / "model.safetensors").read_bytes()


def test_evaluation_never_spends_more_than_the_budget() -> None:
    table, y = patients(60, seed=2, missing=0.0)
    scores = fitted().evaluate(table, y, budgets=[3.9, 4.0, 4.4, 4.5], resamples=2)
    spent = scores[scores["metric"] == "mean_cost"].drop_duplicates("budget").set_index("budget")["estimate"]
    # At 3.9 only the hat can be bought; at 4.4 the age and nothing else; at 4.5 age and smoker.
    np.testing.assert_allclose(spent.to_numpy(), [2.0, 4.0, 4.0, 4.5])


def test_a_set_up_that_does_not_fit_is_named() -> None:
    table, y = patients(120)
    with pytest.raises(ValueError, match="'visit' must have a cost and columns"):
        quick(setup={"visit": 3}).fit(table, y)
