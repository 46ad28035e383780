"""`treatment="auto"`: its rules, and what becomes of them from a table to a saved model."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier, InputError, restoration
from ascertain.estimator import _choosing
from ascertain.estimator._choosing import automatic_stages
from ascertain.estimator._training import FitChoices
from ascertain.evaluation._auto import AutoChoice, Measured, PairedScore, Treated, choose, nothing_missing
from ascertain.restoration._registry import Restoring
from ascertain.testing import PlantedTable, planted_table
from tests.estimator_cases import patients, quick

RESTRICTED, DIRECT = Treated("restricted"), Treated("direct")
NEAREST, HOT_DECK = Treated("restored", "nearest"), Treated("restored", "hotdeck")
MIXTURE, MIWAE = Treated("restored", "mixture"), Treated("restored", "miwae")
ENSEMBLE = Treated("restored", "ensemble", 6)
MEASURED = Measured(estimator="dr", budget=4.0, effective_rows=123.4, n_rows=400)


def values(means: dict[Treated, float], spread: float = 0.0) -> dict[Treated, np.ndarray]:
    """Values of 400 rows; two different treatments differ by `spread` * sqrt(2) in the mean square."""
    rng = np.random.default_rng(0)
    found = {}
    for treated, mean in means.items():
        noise = rng.normal(size=400)
        found[treated] = mean + spread * (noise - noise.mean()) / noise.std()
    return found


def chosen(means: dict[Treated, float], spread: float = 0.0) -> Treated:
    return choose({}, values(means, spread), MEASURED).treated


# The rules


@pytest.mark.parametrize(
    ("difference", "error", "dropped"),
    [(0.021, 0.01, True), (0.019, 0.01, False), (-0.5, 0.01, False), (0.0, 0.0, False)],
)
def test_a_restorer_is_dropped_beyond_two_standard_errors(
    difference: float, error: float, dropped: bool
) -> None:
    assert PairedScore(0.5, difference, error).dropped == dropped


def test_the_best_is_chosen_if_it_is_clearly_better() -> None:
    assert chosen({RESTRICTED: 0.7, NEAREST: 0.8, ENSEMBLE: 0.9}) == ENSEMBLE


def test_a_simpler_one_wins_within_one_standard_error() -> None:
    # Independent noise of deviation 0.2 in 400 rows: the standard error is 0.2 * sqrt(2 / 400) = 0.014.
    assert chosen({RESTRICTED: 0.790, ENSEMBLE: 0.8}, spread=0.2) == RESTRICTED
    assert chosen({RESTRICTED: 0.784, ENSEMBLE: 0.8}, spread=0.2) == ENSEMBLE


def test_differences_are_paired() -> None:
    common = np.random.default_rng(0).normal(size=400)
    pairs = {RESTRICTED: common, ENSEMBLE: common + 0.01}
    assert choose({}, pairs, MEASURED).treated == ENSEMBLE


@pytest.mark.parametrize("restorers", [(NEAREST, MIXTURE), (HOT_DECK, MIWAE)])
def test_the_order_of_simplicity(restorers: tuple[Treated, ...]) -> None:
    order = (DIRECT, RESTRICTED, *restorers, ENSEMBLE)
    for place, simplest in enumerate(order):
        assert chosen(dict.fromkeys(reversed(order[place:]), 0.8)) == simplest


def test_of_two_equally_simple_ones_the_better_is_chosen() -> None:
    assert chosen({NEAREST: 0.799, HOT_DECK: 0.8, MIXTURE: 0.801}, spread=0.2) == HOT_DECK


def test_one_row_decides_nothing_but_does_not_fail() -> None:
    assert choose({}, {RESTRICTED: np.array([0.5]), NEAREST: np.array([0.5])}, MEASURED).treated == RESTRICTED


def test_what_was_found_is_tabulated_with_the_rule() -> None:
    scores = {
        NEAREST: PairedScore(0.5, 0.0, 0.0),
        MIXTURE: PairedScore(0.6, 0.1, 0.01),
        MIWAE: PairedScore(0.45, -0.05, 0.01),
    }
    found = choose(scores, values({RESTRICTED: 0.5, NEAREST: 0.795, MIWAE: 0.8}, spread=0.2), MEASURED)
    table = found.frame().set_index("candidate")
    assert table.index.tolist() == ["restricted", "nearest", "miwae", "mixture"]
    assert table["chosen"].tolist() == [False, True, False, False]
    assert table["dropped"].tolist() == [False, False, False, True]
    assert table["rule"].tolist() == [
        "worse than the best value by more than 1 standard error",
        "the simplest within 1 standard error of the best value, that of miwae",
        "best value, but a simpler one is as good",
        "its draws are worse than those of nearest by more than 2 standard errors",
    ]
    assert table.loc["mixture", ["value", "difference", "standard_error"]].isna().all()
    assert table["restorer_score"].isna().tolist() == [True, False, False, False]
    assert table.loc["nearest", "difference"] == pytest.approx(-0.005)
    assert table.loc["miwae", "restorer_score"] == 0.45
    assert found.sentence == (
        "nearest was chosen: the simplest within 1 standard error of the best value, that of miwae, on 400 "
        "validation rows by the doubly robust estimate at budget 4, the largest at which policies that "
        "differ can all be followed to the end in 100 effective rows (here 123 or more). Dropped by the "
        "scores of their draws: mixture."
    )


def test_the_fallback_is_named() -> None:
    measured = MEASURED.model_copy(update={"estimator": "filled"})
    found = choose({}, values({RESTRICTED: 0.5}), measured)
    assert (
        "on 400 validation rows by rollouts at budget 4 in rows whose holes nearest fills" in found.sentence
    )


def test_a_choice_survives_json() -> None:
    for each in (
        choose({NEAREST: PairedScore(0.5, 0, 0)}, values({NEAREST: 0.8}), MEASURED),
        nothing_missing(),
    ):
        assert AutoChoice.model_validate_json(each.model_dump_json()) == each


@pytest.mark.parametrize(
    ("method", "effort", "members"),
    [
        ("gdfs", "low", ["restricted", "nearest", "mixture", "hotdeck"]),
        ("planner", "low", ["restricted", "direct", "nearest", "mixture", "hotdeck"]),
        ("gdfs", "standard", ["restricted", "nearest", "mixture", "hotdeck", "miwae", "ensemble:6"]),
    ],
)
def test_the_candidates(method: str, effort: str, members: list[str]) -> None:
    stages = automatic_stages(FitChoices(method, "s", "auto", "pvae_noise", "mlp", effort))
    policies = [each.removeprefix(f"policy ({method}, ") for each in stages if each.startswith("policy")]
    assert [each.removeprefix("restored by ").removesuffix(")") for each in policies] == members


def test_the_ensemble_is_made_of_candidates() -> None:
    members = restoration.get("ensemble").settings().members
    stages = automatic_stages(FitChoices("gdfs", "s", "auto", "pvae_noise", "mlp", "standard"))
    assert {f"restorer ({name})" for name in members} < set(stages)
    assert "restorer (ensemble)" not in stages  # it is not fitted again


# From a table to a model


@pytest.fixture(scope="module")
def planted() -> PlantedTable:
    return planted_table("maintenance", n_train=900, n_test=200)


@pytest.fixture(scope="module")
def fitted(planted: PlantedTable) -> tuple[AcquisitionClassifier, str]:
    """A fitted classifier, and what it printed."""
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", printed.append)
        model = AcquisitionClassifier(
            method="static",
            treatment="auto",
            restorer="hotdeck",
            budget=planted.budget,
            costs=planted.costs,
            known=list(planted.known),
            effort="low",
            random_state=0,
            verbose=1,
        ).fit(planted.train, planted.train_labels)
    return model, "\n".join(printed)


def test_it_says_what_it_chose_and_why(fitted: tuple[AcquisitionClassifier, str]) -> None:
    model, printed = fitted
    table = model.auto_
    assert table["candidate"].tolist() == ["restricted", "nearest", "mixture", "hotdeck"]
    assert table["chosen"].sum() == 1
    assert str(model.treatment_) == table.loc[table["chosen"], "candidate"].item()
    assert table.loc[~table["dropped"], "value"].between(0, 1).all()
    best = table["value"].idxmax()
    assert table.loc[best, "difference"] == table.loc[best, "standard_error"] == 0
    assert (table["rule"] != "").all()
    assert model.advisor_.auto is not None
    assert model.advisor_.auto.sentence in printed
    assert "standard_error" in printed


def test_restorers_and_policies_are_fitted_once(fitted: tuple[AcquisitionClassifier, str]) -> None:
    _, printed = fitted
    stages = [line for line in printed.splitlines() if line.endswith(")") or line == "predictor"]
    assert len(stages) == len(set(stages))
    assert stages[:4] == ["predictor", "restorer (nearest)", "restorer (mixture)", "restorer (hotdeck)"]


@pytest.mark.slow
def test_the_policy_is_that_of_the_chosen_treatment(
    fitted: tuple[AcquisitionClassifier, str], planted: PlantedTable
) -> None:
    model, _ = fitted
    name, restorer, completions = model.treatment_
    again = AcquisitionClassifier(
        **(model.get_params() | {"treatment": name, "completions": completions, "verbose": 0})
    ).set_params(restorer=restorer or model.restorer)
    again.fit(planted.train, planted.train_labels)
    # New rows are completed by the restorer that was asked for, whatever filled the training rows.
    assert model.advisor_.origin.restorer_name == "hotdeck"
    told = ["action", "cost", "score", "prediction", "probability"]
    rows = planted.test[:20]
    pd.testing.assert_frame_equal(again.recommend(rows)[told], model.recommend(rows)[told])
    assert (again.treatment_, again.auto_) == (model.treatment_, None)


def test_a_loaded_model_says_what_was_chosen(
    fitted: tuple[AcquisitionClassifier, str], tmp_path: Path
) -> None:
    model, _ = fitted
    with pytest.warns(UserWarning, match="training rows themselves"):
        model.save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    assert (loaded.treatment, loaded.treatment_) == ("auto", model.treatment_)
    pd.testing.assert_frame_equal(loaded.auto_, model.auto_)
    assert loaded.advisor_.auto == model.advisor_.auto


@pytest.mark.slow
def test_without_holes_it_is_restricted_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    table, y = patients(120, missing=0.0)
    model = quick(treatment="auto", verbose=1).fit(table, y)
    shown = capsys.readouterr().out
    assert model.treatment_ == RESTRICTED
    assert model.auto_["rule"].tolist() == ["nothing is missing"]
    assert "Nothing is missing: all treatments are the same, and restricted is the simplest." in shown
    assert "nearest" not in shown
    plain = quick(treatment="restricted").fit(table, y)
    assert plain.treatment_ == RESTRICTED
    pd.testing.assert_frame_equal(plain.recommend(table[:5]), model.recommend(table[:5]))


@pytest.mark.slow
def test_few_rows_are_compared_with_their_holes_filled() -> None:
    table, y = patients(150)
    model = quick(treatment="auto", budget=2).fit(table, y)
    assert model.advisor_.auto is not None
    assert "in rows whose holes nearest fills" in model.advisor_.auto.sentence  # 30 validation rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treatment": "atuo"}, "no treatment is called 'atuo'; did you mean 'auto'"),
        ({"treatment": "auto", "effort": "lots"}, "no effort is called 'lots'"),
        ({"treatment": "auto", "state": "sm"}, "sequential has the state variant 's', not 'sm'"),
        ({"treatment": "auto", "restorer": "hotdec"}, "did you mean 'hotdeck'"),
        ({"treatment": "auto", "method": "gdsf"}, "did you mean 'gdfs'"),
    ],
)
def test_bad_arguments_are_explained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(**changes).fit(*patients(60))


@pytest.mark.slow
def test_an_ensemble_is_made_of_restorers_that_are_there_and_can_be_saved(
    planted: PlantedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose_ensemble(scores: Any, values: Any, *more: Any) -> AutoChoice:
        return choose(scores, {ENSEMBLE: values[ENSEMBLE]}, *more)

    monkeypatch.setattr(_choosing, "choose", choose_ensemble)
    monkeypatch.setitem(_choosing._CANDIDATES, "low", _choosing._CANDIDATES["standard"])
    model = quick(method="static", treatment="auto", known=list(planted.known), budget=3)
    model.fit(planted.train, planted.train_labels)
    assert set(model.auto_["candidate"]) == {"ensemble:6", "nearest", "mixture", "hotdeck", "miwae"}
    assert model.treatment_ == ENSEMBLE
    assert model.advisor_.origin.completions == 6
    with pytest.warns(UserWarning, match="training rows themselves"):
        model.save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    assert loaded.treatment_ == ENSEMBLE
    rows = planted.test[:10]
    pd.testing.assert_frame_equal(loaded.recommend(rows), model.recommend(rows))


@pytest.mark.slow
def test_a_planner_may_also_learn_directly(planted: PlantedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_choosing._CANDIDATES, "low", (Restoring("nearest"),))  # each takes a planner
    model = quick(method="planner", treatment="auto", known=list(planted.known), budget=3)
    model.fit(planted.train, planted.train_labels)
    assert model.auto_["candidate"].tolist() == ["restricted", "direct", "nearest"]
