"""Candidates are compared fairly, and the best is chosen on rows that are not reported on."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from ascertain import restoration
from ascertain._core.prices import PriceList
from ascertain.errors import InputError
from ascertain.evaluation._auto import Measured, PairedScore, Treated, choose
from ascertain.evaluation._curves import curve_budgets, evaluate
from ascertain.evaluation._incomplete import TooFewRowsError
from ascertain.practice.comparison._leaderboard import (
    DEFAULTS,
    RESTORERS,
    Candidate,
    FittedCandidate,
    Leaderboard,
    as_classifier,
    check_candidates,
    default_candidates,
    rank,
    stages,
)
from ascertain.practice.comparison._scoring import Scores, score
from tests.fitted import BUDGET, CANDIDATES, fitted


def test_stages_are_shown_in_order_and_the_predictor_is_fitted_once() -> None:
    _, _, shown = fitted()
    names = stages(CANDIDATES, "hotdeck", "low")
    assert [text for text in shown if text in names] == names
    assert len(shown) == 2 * len(names)
    assert all(text.endswith(" s") for text in shown[1::2])


def test_candidates_share_predictor_and_restorer() -> None:
    _, board, _ = fitted()
    first, second = (each.advisor for each in board.candidates)
    assert first.predictor is second.predictor
    assert first.restorer is second.restorer


def test_a_panel_that_reaches_the_blood_is_chosen_on_rows_that_are_not_reported() -> None:
    _, board, _ = fitted()
    assert board.ranked_by == "dr"
    first, second = (each.validation_score("dr") for each in board.candidates)
    assert first.low >= second.low
    assert board.best.score(BUDGET, "dr").estimate > 0.9  # the class is made of the blood panel
    assert board.best.test_scores["n_rows"].unique().tolist() == [60]
    assert board.best.validation_scores["n_rows"].unique().tolist() == [36]


def test_where_rows_have_all_that_is_chosen_the_estimates_agree() -> None:
    _, board, _ = fitted()
    for each in board.candidates:
        found = [each.score(BUDGET, estimator).estimate for estimator in ("dr", "ipw", "restricted")]
        np.testing.assert_allclose(found, found[0], atol=1e-6)


def test_nothing_bought_is_the_same_for_all_and_worse() -> None:
    _, board, _ = fitted()
    nothing = {
        each.score(0.0, estimator).estimate for each in board.candidates for estimator in ("dr", "restricted")
    }
    assert max(nothing) - min(nothing) < 1e-6
    assert board.best.score(BUDGET, "restricted").estimate > max(nothing) + 0.1


def test_rows_as_they_are_score_as_the_plain_evaluation_says() -> None:
    data, board, _ = fitted()
    advisor = board.best.advisor
    plain = evaluate(advisor.policy, advisor.problem, data.test, advisor.predictor, budgets=[BUDGET])
    for metric in ("auroc", "f1", "log_loss", "mean_cost"):
        assert board.best.score(BUDGET, "restricted", metric).estimate == pytest.approx(
            plain[metric][0], abs=1e-6
        )
    found = board.best.score(BUDGET, "restricted")
    assert found.low < found.estimate < found.high


def test_too_few_rows_leave_only_the_rows_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise TooFewRowsError("too few rows")

    data, board, _ = fitted()
    monkeypatch.setattr("ascertain.practice.comparison._scoring.all_estimates", refuse)
    best, budgets = board.best.advisor, board.budgets
    found = score(best, data.test, budgets, budgets, best.restorer, seed=0)
    assert set(found.frame["estimator"]) == {"restricted"}


def fitted_candidate(
    name: str,
    *,
    width: float = 0.0,
    moved: Sequence[float] = (0.0,),
    metric: str = "auroc",
    **estimates: float,
) -> FittedCandidate:
    rows = [
        {
            "budget": 1.0,
            "estimator": estimator,
            "metric": metric,
            "estimate": value,
            "low": value - width,
            "high": value + width,
        }
        for estimator, value in estimates.items()
    ]
    facts = {"effective_rows": 40.0, "rarest_effective_rows": 35.0, "rarest_class": "yes", "n_rows": 60}
    frame = pd.DataFrame([row | facts | {"warning": "", "reason": ""} for row in rows])
    influences = {estimator: {metric: np.array(moved)} for estimator in estimates}
    scores, candidate = Scores(frame, influences), Candidate(name, "s", "restored")
    return FittedCandidate(candidate, fitted()[1].best.advisor, 0.0, scores, scores, metric)


def ranking(*candidates: FittedCandidate) -> tuple[list[str], str | None]:
    board = rank(candidates, (0.0, 1.0))
    return [each.candidate.method for each in board.candidates], board.ranked_by


def test_the_best_estimate_that_there_is_decides_by_its_lower_end() -> None:
    one = fitted_candidate("one", dr=0.7, ipw=0.9, restricted=0.6)
    two = fitted_candidate("two", dr=0.8, ipw=0.5, restricted=0.5)
    assert ranking(one, two) == (["two", "one"], "dr")
    unsure = fitted_candidate("unsure", width=0.2, dr=0.85)
    assert ranking(unsure, one, two) == (["two", "one", "unsure"], "dr")


def test_a_policy_that_no_row_can_be_followed_through_is_not_chosen_if_another_can() -> None:
    one = fitted_candidate("one", dr=0.6, restricted=0.5)
    blind = fitted_candidate("blind", dr=np.nan, restricted=0.9)
    blinder = fitted_candidate("blinder", dr=np.nan, restricted=0.95)
    assert ranking(blind, one, blinder) == (["one", "blinder", "blind"], "dr")
    assert ranking(blind, blinder) == (["blinder", "blind"], "restricted")


def test_without_any_estimate_the_order_stays() -> None:
    none = [fitted_candidate(name, dr=np.nan, restricted=np.nan) for name in ("b", "a")]
    assert ranking(*none) == (["b", "a"], None)
    equal = [fitted_candidate(name, dr=0.5) for name in ("b", "a")]
    assert ranking(*equal) == (["b", "a"], "dr")


def test_a_policy_without_an_estimate_does_not_decide_about_others() -> None:
    one, panel, blind = (
        fitted_candidate("one", dr=0.7, restricted=0.6),
        fitted_candidate("static", dr=0.6, restricted=0.65),
        fitted_candidate("two", dr=np.nan, restricted=0.5),
    )
    board = Leaderboard((one, panel, blind), "dr", (0.0, 1.0))
    assert [board.estimator_of(each) for each in board.candidates] == ["dr", "dr", "restricted"]
    assert board.estimator_of(one, blind) == "restricted"
    assert board.best_candidates_estimator == "dr"
    differences = [board.to_panel(each) for each in (one, blind)]
    found = [(round(each.estimate, 3), each.estimator) for each in differences if each is not None]
    assert found == [(0.1, "dr"), (-0.15, "restricted")]
    assert Leaderboard((blind, one), "dr", (0.0, 1.0)).best_candidates_estimator == "restricted"


def test_budgets_rise_from_nothing_to_all() -> None:
    assert curve_budgets(PriceList(np.ones(3)), 2.0) == (0.0, 1.0, 2.0)
    assert curve_budgets(PriceList(np.array([0.5])), 2.0) == (0.0, 0.5, 1.0, 1.5, 2.0)


@pytest.mark.parametrize(
    ("candidate", "restorer", "message"),
    [
        (Candidate("gdsf", "s", "restored"), "pvae", "did you mean 'gdfs'"),
        (Candidate("gdfs", "sm", "restored"), "pvae", "gdfs has the state variant 's'"),
        (Candidate("gdfs", "s", "dropped"), "pvae", "no treatment is called 'dropped'"),
        (Candidate("gdfs", "s", "restored"), "vae", "no restorer is called 'vae'; did you mean 'pvae'"),
        (Candidate("gdfs", "s", "restored"), "hotdeck:0", "after the colon comes the number of completions"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_fitted(
    candidate: Candidate, restorer: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_candidates([candidate], restorer, "low")


def test_a_restorer_may_draw_every_row_several_times() -> None:
    choices = Candidate("gdfs", "s", "restored").choices("ensemble:6", "low")
    assert (choices.restorer, choices.completions) == ("ensemble", 6)
    assert stages([Candidate("gdfs", "s", "restored")], "ensemble:6", "low") == [
        "predictor",
        "restorer (ensemble)",
        "policy (gdfs, restored by ensemble:6)",
        "ranges (ensemble)",
        "scores (gdfs, restored)",
    ]
    data, board, _ = fitted()
    model = as_classifier(data, dataclasses.replace(board, restorer="hotdeck:3"))
    assert (model.restorer, model.completions) == ("hotdeck", 3)


def test_restorers_that_cannot_be_saved_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    part = dataclasses.replace(restoration.get("pvae"), stored=False)
    monkeypatch.setattr(restoration, "get", lambda name: part)
    with pytest.raises(InputError, match="the restorer 'pvae' cannot be saved with a model"):
        check_candidates(DEFAULTS["standard"], "pvae", "low")


def test_models_that_keep_rows_are_warned_about() -> None:
    assert check_candidates(DEFAULTS["standard"], RESTORERS["standard"], "standard") == []
    warnings = check_candidates([Candidate("aaco", "s", "restored")], "hotdeck", "low")
    assert [text.split(" keeps")[0] for text in warnings] == ["aaco", "the hot deck"]


def chosen_automatically(name: str, *, dr: float, restricted: float | None = None) -> FittedCandidate:
    """A candidate whose holes were filled by the nearest hot deck."""
    plain = fitted_candidate(name, dr=dr)
    if restricted is not None:
        plain = fitted_candidate(name, dr=dr, restricted=restricted)
    treated = {
        Treated("restricted"): np.array([0.6, 0.7]),
        Treated("restored", "nearest"): np.array([0.8, 0.9]),
    }
    scores = {Treated("restored", "nearest"): PairedScore(0.5, 0.0, 0.0)}
    measured = Measured(estimator="dr", budget=6.0, effective_rows=120.0, n_rows=2)
    advisor = dataclasses.replace(plain.advisor, auto=choose(scores, treated, measured))
    candidate = dataclasses.replace(plain.candidate, treatment="auto")
    return dataclasses.replace(plain, candidate=candidate, advisor=advisor)


def test_a_treatment_that_was_chosen_is_named() -> None:
    found = chosen_automatically("gdfs", dr=0.8)
    assert (found.name, found.treatment) == ("one step at a time (GDFS, auto: nearest)", "restored")
    plain = fitted_candidate("gdfs", dr=0.8)
    assert (plain.name, plain.treatment) == ("one step at a time (GDFS, restored)", "restored")


def test_stages_of_automatic_choices_share_restorers() -> None:
    names = stages([Candidate("gdfs", "s", "auto"), Candidate("dime", "s", "auto")], "pvae_noise", "low")
    assert len(names) == len(set(names))
    assert names[:5] == [
        "predictor",
        "restorer (nearest)",
        "restorer (mixture)",
        "restorer (hotdeck)",
        "scores of restorers",
    ]
    assert names.index("scores (gdfs, auto)") < names.index("policy (dime, restricted)")


def test_automatic_choices_put_no_rows_into_the_model() -> None:
    """Whatever fills training rows, the restorer that is saved is the one for new rows."""
    assert check_candidates([Candidate("gdfs", "s", "auto")], RESTORERS["standard"], "standard") == []


def test_by_default_a_mixture_fills_training_rows_and_the_partial_vae_completes_new_ones() -> None:
    assert stages([Candidate("gdfs", "s", "restored")], RESTORERS["standard"], "standard") == [
        "predictor",
        "restorer (pvae_noise)",
        "restorer (mixture)",
        "policy (gdfs, restored by mixture)",
        "ranges (pvae_noise)",
        "scores (gdfs, restored)",
    ]
    data, board, _ = fitted()
    model = as_classifier(data, dataclasses.replace(board, restorer=None))
    assert (model.restorer, model.completions) == (None, 1)


def test_a_candidate_may_have_its_own_restorer() -> None:
    own = Candidate("gdfs", "s", "restored", "pvae_noise")
    assert own in DEFAULTS["standard"]
    assert own.choices("nearest", "standard").treated.restorer == "pvae_noise"
    assert own.name != Candidate("gdfs", "s", "restored").name
    assert own.scoring != Candidate("gdfs", "s", "restored").scoring
    data, board, _ = fitted()
    best = dataclasses.replace(board.best, candidate=own)
    model = as_classifier(data, dataclasses.replace(board, candidates=(best,), restorer=None))
    assert model.restorer == "pvae_noise"


def test_where_a_restorer_is_named_no_other_one_is_compared() -> None:
    assert default_candidates("standard", None) == DEFAULTS["standard"]
    assert all(each.restorer is None for each in default_candidates("standard", "hotdeck"))


def test_names_tell_candidates_apart() -> None:
    for candidates in DEFAULTS.values():
        assert len({each.name for each in candidates}) == len(candidates)
    assert Candidate("jafa", "sm", "restricted").name == "reinforcement learning (JAFA sm, restricted)"


def test_the_classifier_predicts_as_the_advisor_does() -> None:
    data, board, _ = fitted()
    model = as_classifier(data, board)
    rows = data.table.columns.iloc[:5]
    expected = board.best.advisor.predict(*data.encoding.transform(rows))
    np.testing.assert_allclose(model.predict_proba(rows), expected)
    assert model.get_params()["method"] == board.best.candidate.method
    assert (model.restorer, model.effort) == ("hotdeck", "low")
    assert list(model.classes_) == ["no", "yes"]
