"""What is expected at the end of the budget: by a policy whose expectations are known, and by the planner."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier
from ascertain.estimator import _advisor
from ascertain.estimator._consultation import Consultation
from ascertain.policy import LooksAhead
from ascertain.tables._encoding import fit_encoding
from ascertain.testing import planted_table
from tests.estimator_cases import patients, quick
from tests.foresight import expected_right, with_foresight

NOTHING = pd.DataFrame({"age": [50.0], "hat": [None], "smoker": [None], "scan": [None]})


@cache
def blind() -> AcquisitionClassifier:
    """Fit a classifier whose policy does not look ahead: smoker, then hat and scan together."""
    table, y = patients(120)
    groups = {"visit": ["hat", "scan"]}
    return quick(costs={"smoker": 1.0, "visit": 2.0}, groups=groups, known=["age"], budget=3).fit(table, y)


@cache
def foreseeing() -> AcquisitionClassifier:
    """Fit a classifier whose policy looks ahead: in order, or backwards after a red hat."""
    table, y = patients(120)
    model = quick(costs={"scan": 1.5}, default_cost=1, known=["age"], budget=3.5).fit(table, y)
    return model.adopt(with_foresight(model.advisor_, "hat=red"))


@pytest.mark.slow
def test_policies_say_whether_they_look_ahead() -> None:
    assert isinstance(foreseeing().advisor_.policy, LooksAhead)
    assert not isinstance(blind().advisor_.policy, LooksAhead)


def test_others_expect_nothing() -> None:
    advice = blind().recommend(NOTHING).iloc[0]
    assert advice["action"] is not None
    assert np.isnan(advice["right_at_end"])
    assert advice["then"] is None
    assert Consultation(blind().advisor_).answer().ahead is None


@pytest.mark.parametrize("spent", [0.0, 0.5, 2.5])
@pytest.mark.parametrize("budget", [3.5, 2.75])
def test_it_plans_for_what_is_really_left(spent: float, budget: float) -> None:
    advisor = foreseeing().advisor_
    x, available = advisor.encoding.transform(
        NOTHING.assign(smoker=True)
    )  # which costs 1, whatever was spent
    advice = advisor.advise(x, available, np.array([spent]), budget=np.array([budget]))
    legal = np.array([spent + 1, np.inf, spent + 1.5]) <= budget  # hat, smoker, scan
    np.testing.assert_array_equal(advice.legal[0], legal)
    right = np.maximum(expected_right(jnp.asarray(budget - spent)), advice.probabilities[0].max())
    expected = np.where(legal, right, np.nan)
    np.testing.assert_allclose(advice.right_at_end[0], expected, rtol=1e-6)


@pytest.mark.parametrize("costs", [None, [[0.0, 1.0], [9.0, 0.0]]])
def test_more_results_never_make_a_prediction_less_right(costs: list[list[float]] | None) -> None:
    advisor = foreseeing().advisor_
    if costs is not None:
        advisor = replace(advisor, problem=advisor.problem.with_decision_costs(costs))
    model = AcquisitionClassifier().adopt(advisor)
    table, _ = patients(40, seed=4, missing=0.4)
    found = model.recommend(table, spent=3.5 - 1.5).dropna(subset="action")  # it expects 2.5 / 3.5
    expected = np.maximum(2.5 / 3.5, found["probability"])
    assert (found["probability"] > 0.8).any()
    np.testing.assert_allclose(found["right_at_end"], expected, rtol=1e-6)


def test_a_panel_of_which_something_is_known_is_paid_for() -> None:
    model = blind()
    advisor = with_foresight(model.advisor_, "smoker")
    answer = Consultation(advisor).enter({"scan": 0.4}).answer()
    assert answer.ahead is not None
    assert answer.recommended == "smoker"  # the rest of the visit is not offered again
    assert max(answer.probabilities.values()) < 2 / 3
    assert answer.ahead.right_at_end == pytest.approx(expected_right(jnp.asarray(3.0 - 2.0)))
    assert answer.ahead.then is None


@pytest.mark.slow
def test_what_follows_is_what_follows_in_most_completions() -> None:
    model = foreseeing()
    advisor = model.advisor_
    x, available = advisor.encoding.transform(NOTHING)
    red = advisor.encoding.feature_names.index("hat=red")
    _, drawn = _advisor.draw_completions(advisor.parts, jnp.asarray(x), jnp.asarray(available))
    is_red = np.asarray(drawn)[:, 0, red] > 0
    assert 0 < is_red.mean() < 1
    advice = advisor.advise(x, available)
    then, share = ("scan", is_red.mean()) if is_red.mean() > 0.5 else ("smoker", 1 - is_red.mean())
    assert advisor.encoding.action_names[advice.choice[0] - 1] == "hat"
    assert advisor.encoding.action_names[advice.then[0]] == then
    assert advice.then_share[0] == pytest.approx(share)
    assert model.recommend(NOTHING)["then"].tolist() == [then]
    # A red hat costs 1, and the scan comes next; so does the smoker, if the hat is blue.
    assert model.recommend(NOTHING.assign(hat="red"))["then"].tolist() == ["smoker"]
    assert model.recommend(NOTHING.assign(hat="blue"))["then"].tolist() == ["scan"]


def test_nothing_follows_the_last_action_nor_the_end() -> None:
    model = foreseeing()
    last = model.recommend(NOTHING, spent=2.5).iloc[0]
    assert (last["action"], last["then"]) == ("hat", None)
    assert last["right_at_end"] == pytest.approx(2 / 3)
    over = model.recommend(NOTHING, spent=3.5).iloc[0]
    assert (over["action"], over["then"]) == (None, None)
    assert np.isnan(over["right_at_end"])


def test_a_skipped_action_does_not_follow() -> None:
    answer = Consultation(foreseeing().advisor_).enter({"hat": "blue"}).skip("scan").answer()
    assert answer.ahead is not None
    assert (answer.recommended, answer.ahead.then, answer.ahead.then_share) == ("smoker", None, 1)


def test_many_rows_are_foreseen_as_each_by_itself() -> None:
    table, _ = patients(20, seed=3)
    together = foreseeing().recommend(table, spent=np.linspace(0, 3, 20))
    for row, spent in enumerate(np.linspace(0, 3, 20)):
        alone = foreseeing().recommend(table.iloc[[row]], spent=spent).iloc[0]
        assert together["action"].iloc[row] == alone["action"]
        np.testing.assert_allclose(together["right_at_end"].iloc[row], alone["right_at_end"], rtol=1e-6)


def test_draws_between_categories_become_the_likeliest() -> None:
    encoding = fit_encoding(patients(50)[0])
    drawn = np.random.default_rng(0).normal(size=(50, len(encoding.feature_names))).astype(np.float32)
    found = _advisor.nearest_values(encoding.discrete, jnp.asarray(drawn))
    expected, _ = encoding.transform(encoding.inverse(drawn, np.ones_like(drawn, bool)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_the_planner_says_what_comes_next_and_how_often_it_is_right() -> None:
    n_rows = 1000
    table = planted_table("maintenance", n_test=n_rows)
    model = AcquisitionClassifier(
        "planner",
        budget=table.budget,
        costs=dict(table.costs),
        known=list(table.known),
        random_state=0,
        effort="low",
    ).fit(table.train, table.train_labels)
    nothing = table.test.assign(**dict.fromkeys(table.costs))
    typical = model.recommend(nothing.iloc[:1].assign(age_h=0.0)).iloc[0]
    assert typical["action"] == "machine"
    assert typical["then"] in ("vib_1", "vib_2", "oil_1", "oil_2")
    last = model.acquire(table.test).groupby("row").tail(1)
    right = (last["prediction"].to_numpy() == table.test_labels).mean()
    tolerance = 3 * np.sqrt(right * (1 - right) / n_rows) + 0.05  # of the share, and of a fitted calibration
    for known in ([], ["machine"]):
        expected = model.recommend(nothing.assign(**{name: table.test[name] for name in known}))
        assert abs(expected["right_at_end"].mean() - right) < tolerance
