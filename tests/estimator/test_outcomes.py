"""Which results would change a prediction: against brute force, and with a predictor that is known."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Consultation
from ascertain.estimator._outcomes import Outcome, _intervals, expected_outcomes, outcomes_text, round_between
from tests.estimator_cases import patients, quick
from tests.foresight import with_foresight
from tests.serve.cases import EVIL, make_advisor


@cache
def advisor() -> Advisor:
    """Its policy goes through the actions in order: pressure (a panel), ecg, a number, scan."""
    return make_advisor()


def between(target: np.ndarray, groups: list[np.ndarray]) -> float:
    """The sum of squares between groups."""
    return sum(len(each) * np.sum((target[each].mean(axis=0) - target.mean(axis=0)) ** 2) for each in groups)


def best_cuts(values: np.ndarray, target: np.ndarray, n_cuts: int, least: int) -> float:
    """The share of the variance that the best cuts explain, by trying all."""
    order = np.argsort(values)
    found = []
    for cuts in combinations(range(1, len(values)), n_cuts):
        groups = np.split(order, cuts)
        apart = all(values[order[cut]] > values[order[cut - 1]] for cut in cuts)
        if apart and min(map(len, groups)) >= least:
            found.append(between(target, groups))
    return max(found) / between(target, [np.array([i]) for i in range(len(values))])


@pytest.mark.parametrize("decimals", [6, 0])  # 0: many draws of a number are the same
def test_cuts_are_the_best_ones(decimals: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 16)).round(decimals)
    target = np.stack([values**2 * np.arange(6)[:, None] / 6 + values, rng.normal(size=(6, 16))], axis=2)
    found = _intervals(values, target)
    for row in range(6):
        one, two = (best_cuts(values[row], target[row], n, 2) for n in (1, 2))
        expected = two if two - one > 0.15 else one
        assert found.explained[row] == pytest.approx(expected)
        groups = [np.flatnonzero(found.groups[row] == group) for group in np.unique(found.groups[row])]
        total = between(target[row], [np.array([i]) for i in range(16)])
        assert between(target[row], groups) / total == pytest.approx(expected)
        for low, high in found.bounds[row]:
            assert np.isnan(high) or (low in values[row] and high in values[row] and low < high)


def test_a_threshold_is_found_and_told_in_few_digits() -> None:
    values = np.linspace(-1, 1, 32)[None]
    step = _intervals(values, (values > 0.42)[..., None].astype(float))
    assert step.explained[0] == pytest.approx(1)
    assert round_between(*step.bounds[0, 0]) == 0.45  # between .419 and .484
    extreme = _intervals(values, (np.abs(values) > 0.5)[..., None].astype(float))
    assert len(np.unique(extreme.groups)) == 3  # low, middle and high
    constant = _intervals(values, np.ones((1, 32, 1)))
    assert len(np.unique(constant.groups)) == 1


@pytest.mark.parametrize("bounds", [(2.0, 3.0), (-0.013, 0.4), (1234.5, 1234.6), (1e-9, 1.1e-9)])
def test_rounded_thresholds_separate_the_same_values(bounds: tuple[float, float]) -> None:
    assert bounds[0] <= round_between(*bounds) < bounds[1]


def test_the_outcomes_of_a_category_are_what_would_be_predicted() -> None:
    case = Consultation(advisor()).enter({"systolic": 130, "diastolic": 85})
    answer = case.answer()
    assert answer.recommended == "ecg"
    assert sum(each.share for each in answer.outcomes) == pytest.approx(1)
    assert {each.result for each in answer.outcomes} == {"normal", "unclear", EVIL}
    for each in answer.outcomes:
        after = case.enter({"ecg": each.result}).answer()
        assert each.prediction == after.prediction
        assert each.probabilities == pytest.approx(after.probabilities, abs=1e-5)
        assert (each.column, each.above, each.up_to, each.then) == ("ecg", None, None, None)


def test_the_outcomes_of_a_number_are_in_its_own_units() -> None:
    case = Consultation(advisor()).enter({"systolic": 130, "diastolic": 85, "ecg": "normal"})
    answer = case.answer()
    assert answer.recommended == EVIL  # standard normal
    high, *others = answer.outcomes
    assert high.above is not None
    assert high.result == f"above {high.above:g}"
    assert -2 < high.above < 2
    assert high.up_to is None
    assert others[0].up_to == high.above
    # The mean of what is predicted in an interval lies between what is predicted at its ends.
    ends = [case.enter({EVIL: value}).answer().probabilities["well"] for value in (high.above, 5.0)]
    assert min(ends) <= high.probabilities["well"] <= max(ends)


def test_a_panel_is_told_by_the_column_that_tells_most() -> None:
    answer = Consultation(advisor()).answer()
    assert answer.recommended == "pressure"
    assert {each.column for each in answer.outcomes} in ({"systolic"}, {"diastolic"})
    limits = [each.above for each in answer.outcomes if each.above is not None]
    assert all(50 < limit < 170 for limit in limits)


@pytest.mark.slow
def test_a_panel_without_such_a_column_is_told_by_the_predictions() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    y = np.where(x[:, 0] * x[:, 1] > 0, "same", "other")  # each by itself tells nothing
    table = pd.DataFrame(x, columns=list("abcd"))
    model = quick(groups={"pair": ["a", "b"]}).fit(table, y)
    outcomes = model.explain(pd.DataFrame(np.nan, [7], table.columns))
    assert outcomes["column"].tolist() == [None, None]
    assert set(outcomes["prediction"]) == {"same", "other"}
    assert outcomes["row"].tolist() == [7, 7]
    text = model.recommend(pd.DataFrame(np.nan, [7], table.columns))["if_result"].iloc[0]
    assert text.startswith("in ")
    assert text.count("% of cases") == 2


@pytest.mark.slow
def test_the_outcomes_of_a_date_are_days() -> None:
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 365, 300), unit="D")
    y = np.where(day > pd.Timestamp("2021-07-01"), "new", "old")
    table = pd.DataFrame({"bought": day, "noise": rng.normal(size=300)})
    model = quick(budget=1).fit(table, y)
    outcomes = model.explain(pd.DataFrame({"bought": [pd.NaT], "noise": [np.nan]}))
    assert outcomes["result"].iloc[0].startswith("after 2021-")
    assert outcomes["result"].iloc[-1].startswith("up to 2021-")
    first = pd.Timestamp(0) + pd.to_timedelta(outcomes["above"].iloc[0], unit="D")
    assert pd.Timestamp("2021-04-01") < first < pd.Timestamp("2021-11-01")
    assert outcomes["probability of new"].is_monotonic_decreasing


@pytest.mark.slow
def test_rows_that_stop_have_no_outcomes() -> None:
    table, y = patients(120)
    model = quick(known=["age"], budget=1).fit(table, y)
    rows = pd.DataFrame({"age": [50.0, 60.0], "hat": [None, "red"], "smoker": None, "scan": None})
    advice, outcomes = model.recommend(rows), model.explain(rows)
    assert advice["action"].tolist() == ["hat", None]
    assert advice["if_result"].iloc[1] is None
    assert set(outcomes["row"]) == {0}
    assert set(outcomes["result"]) == {"red", "blue"}
    both = outcomes[["probability of ill", "probability of well"]]
    np.testing.assert_allclose(both.sum(axis=1), 1, rtol=1e-5)
    for record in outcomes.to_dict("records"):
        part = f"{record['result']}: {advice['prediction'].iloc[0]} "
        assert part in advice["if_result"].iloc[0]
    nothing = model.explain(rows.iloc[1:])
    assert nothing.empty
    assert list(nothing.columns) == list(outcomes.columns)


def test_it_says_what_follows_each_result_if_that_differs() -> None:
    ahead = with_foresight(advisor(), "systolic")  # backwards if it is high
    answer = Consultation(ahead).answer()
    assert {each.then for each in answer.outcomes} == {"ecg", "__proto__"}
    text = outcomes_text(answer.outcomes, "pressure", answer.prediction)
    assert text.startswith("systolic above 12")
    assert ", then __proto__" in text
    assert ", then ecg" in text


def outcome(result: str, then: str | None = None, **probabilities: float) -> Outcome:
    likeliest = max(probabilities, key=lambda name: probabilities[name])
    return Outcome("gas", result, None, None, 0.5, likeliest, probabilities, then)


def test_texts_of_outcomes() -> None:
    two = [outcome("above 2.1", fails=0.81, runs=0.19), outcome("up to 2.1", fails=0.34, runs=0.66)]
    assert outcomes_text(two, "gas", "fails") == "above 2.1: fails 81%; up to 2.1: fails 34%"
    assert outcomes_text(two, "panel", "runs") == "gas above 2.1: runs 19%; up to 2.1: runs 66%"
    three = [outcome("a", good=0.5, late=0.2, lost=0.3), outcome("b", good=0.1, late=0.2, lost=0.7)]
    assert outcomes_text(three, "gas", "good") == "a: good 50%; b: lost 70%"
    same = [outcome("a", fails=0.5, runs=0.5), outcome("b", fails=0.505, runs=0.495)]
    assert outcomes_text(same, "gas", "fails") == "no result by itself changes the prediction"
    steps = [replace(same[0], then="oil"), same[1]]
    assert outcomes_text(steps, "gas", "fails") == "a: fails 50%, then oil; b: fails 50%, then stop"
    many = [outcome(str(place), fails=place / 9, runs=1 - place / 9) for place in range(9)]
    assert outcomes_text(many, "gas", "fails").endswith("; 5: fails 56%; and 3 more")
    assert outcomes_text([], "gas", "fails") == ""


@pytest.mark.slow
def test_many_rows_are_explained_as_each_by_itself() -> None:
    table, y = patients(150)
    model = quick(budget=2).fit(table, y)
    rows = table.iloc[:30]
    x, available = model.advisor_.encoding.transform(rows)
    together = expected_outcomes(model.advisor_, model.advisor_.advise(x, available))
    for row in (0, 7, 29):
        alone = model.advisor_.advise(x[[row]], available[[row]])
        for one, other in zip(expected_outcomes(model.advisor_, alone)[0], together[row], strict=True):
            assert (one.result, one.share, one.prediction) == (other.result, other.share, other.prediction)
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
