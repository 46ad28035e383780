"""`AcquisitionClassifier`: as scikit-learn wants it, and as people with a table of their own need it."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from ascertain import AcquisitionClassifier, InputError, predictors
from ascertain.methods._aaco import AACO
from tests.estimator_cases import patients, quick


@pytest.fixture(scope="module")
def fitted() -> AcquisitionClassifier:
    costs = {"scan": 5.0, "hat": 1.0, "smoker": 1.0}
    model = AcquisitionClassifier(budget=6, costs=costs, known=["age"], effort="low", random_state=0)
    return model.fit(*patients(400))


# As scikit-learn wants it


@pytest.mark.slow
def test_scikit_learns_checks_pass() -> None:
    """Efforts differ in nothing but how long is trained, so the checks of the lowest are those of all."""
    command = [sys.executable, "-m", "tests.scikit_learn_checks", json.dumps({"effort": "low"})]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == []


def test_it_can_be_cloned_searched_put_into_a_pipeline_and_pickled() -> None:
    table, y = patients(120)
    numbers = table[["age", "scan"]].astype(float)
    search = GridSearchCV(quick(), {"budget": [1, 2]}, cv=2, scoring="accuracy").fit(numbers, y)
    assert search.best_score_ > 0.7
    assert clone(search.best_estimator_).get_params()["budget"] == search.best_params_["budget"]
    piped = make_pipeline(SimpleImputer(), quick()).fit(numbers, y)
    again = pickle.loads(pickle.dumps(piped))
    np.testing.assert_array_equal(again.predict_proba(numbers), piped.predict_proba(numbers))


# What it learns


def test_it_asks_for_what_decides_and_predicts_well_from_it(fitted: AcquisitionClassifier) -> None:
    table, y = patients(300, seed=1)
    nothing = table.iloc[:5].assign(hat=None, smoker=None, scan=None)
    assert fitted.recommend(nothing)["action"].tolist() == ["scan"] * 5
    with_scan = table["scan"].notna()
    # 237 rows or so, of which rules of any kind get all right; 0.9 is five standard errors below 0.97.
    assert fitted.score(table[with_scan], y[with_scan]) > 0.9
    probabilities = fitted.predict_proba(table)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert set(fitted.predict(table)) <= {"ill", "well"}


def test_advice_has_costs_ranges_and_reasons(fitted: AcquisitionClassifier) -> None:
    table, _ = patients(50, seed=2, missing=0.0)
    table.index = pd.Index([f"patient {i}" for i in range(50)])
    one = table.iloc[[0]].assign(scan=None, hat=None, smoker=None)
    advice = fitted.recommend(one).iloc[0]
    assert (advice["action"], advice["cost"], advice["why"]) == ("scan", 5.0, None)
    assert 0 <= advice["low"] < advice["high"] <= 1
    assert fitted.recommend(one).index.tolist() == ["patient 0"]
    # 5 of 6 are spent with the scan; the rest buys either of the others, and then nothing.
    after = fitted.recommend(table.iloc[[0]].assign(hat=None, smoker=None)).iloc[0]
    assert after["action"] in ("hat", "smoker")
    spent = fitted.recommend(table.iloc[[0]].assign(hat=None)).iloc[0]
    assert (spent["action"], spent["why"], spent["cost"]) == (None, "budget", 0)
    # Of a row that is all known, nothing is left, and completions do not differ.
    known = fitted.recommend(table).iloc[0]
    assert (known["why"], known["low"], known["high"]) == (
        "nothing left",
        pytest.approx(known["probability"], abs=1e-6),
        pytest.approx(known["probability"], abs=1e-6),
    )
    assert fitted.recommend(one, spent=5).iloc[0]["cost"] == 1
    assert fitted.recommend(one, spent=[6]).iloc[0]["why"] == "budget"
    with pytest.raises(InputError, match="spent must not be negative"):
        fitted.recommend(one, spent=-1)


@pytest.mark.parametrize("n_rows", [9, 20])  # which are handled in blocks of different sizes
def test_many_rows_are_advised_as_each_by_itself(fitted: AcquisitionClassifier, n_rows: int) -> None:
    table, _ = patients(n_rows, seed=3)
    together = fitted.recommend(table)
    alone = pd.concat([fitted.recommend(table.iloc[[i]]) for i in range(n_rows)])
    for column in ("action", "why", "prediction"):
        assert together[column].tolist() == alone[column].tolist()
    for column in ("probability", "low", "high"):
        np.testing.assert_allclose(together[column], alone[column], atol=1e-5)


def test_acquisition_is_told_step_by_step(fitted: AcquisitionClassifier) -> None:
    table, _ = patients(30, seed=4, missing=0.0)
    steps = fitted.acquire(table)
    first = steps[steps["step"] == 1]
    assert first["action"].tolist() == ["scan"] * 30
    assert first["spent"].tolist() == [5.0] * 30
    assert steps.groupby("row")["spent"].max().between(5, 6).all()
    last = steps.groupby("row").tail(1)
    seen = table.where(pd.DataFrame({"age": True, "scan": True, "hat": False, "smoker": False}, table.index))
    for row in last[last["action"] == "hat"]["row"]:
        seen.loc[row, "hat"] = table.loc[row, "hat"]
    for row in last[last["action"] == "smoker"]["row"]:
        seen.loc[row, "smoker"] = table.loc[row, "smoker"]
    np.testing.assert_array_equal(last["prediction"], fitted.predict(seen))
    assert fitted.acquire(table, budget=1)["spent"].max() == 1


def test_evaluation_gives_a_curve_with_intervals(fitted: AcquisitionClassifier) -> None:
    table, y = patients(400, seed=5)
    curve = fitted.evaluate(table, y, budgets=[1, 6], resamples=200)
    accuracy = curve[curve["metric"] == "accuracy"]
    assert (accuracy["low"] < accuracy["high"]).all()
    little, much = (accuracy.query("estimator == 'ipw' and budget == @budget").iloc[0] for budget in (1, 6))
    # The scan decides; a hat is right three times out of four (its noise is as large as the scan's spread).
    assert much["estimate"] > little["high"]
    with pytest.raises(InputError, match="y holds 'dead', a class that the training table did not have"):
        fitted.evaluate(table, np.where(y == "ill", "dead", y))


@pytest.mark.slow
def test_predictions_know_nothing_of_restored_cells() -> None:
    """Predictor and calibration come from observed cells: the treatment of holes does not change them."""
    table, y = patients(100)
    one, other = (quick(treatment=each).fit(table, y) for each in ("restored", "restricted"))
    for ours, theirs in zip(
        *(jax.tree.leaves(each.advisor_.predictor) for each in (one, other)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_tables_of_any_kind_give_the_same() -> None:
    table, y = patients(100)
    of_pandas = quick().fit(table, y)
    polars = pl.from_pandas(table.astype({"hat": "string", "smoker": "boolean"}))
    of_polars = quick().fit(polars, y)
    assert of_pandas.feature_names_in_.tolist() == of_polars.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_array_equal(of_pandas.predict_proba(table), of_polars.predict_proba(polars))
    of_array = quick().fit(table.to_numpy(object), y)
    np.testing.assert_array_equal(
        of_pandas.predict_proba(table), of_array.predict_proba(table.to_numpy(object))
    )
    shuffled = table[["scan", "age", "smoker", "hat"]]
    np.testing.assert_array_equal(of_pandas.predict_proba(shuffled), of_pandas.predict_proba(table))
    unseen = table.assign(hat="violet")
    np.testing.assert_array_equal(
        of_pandas.predict_proba(unseen), of_pandas.predict_proba(table.assign(hat=None))
    )


def test_panels_and_prices_are_respected() -> None:
    table, y = patients(100)
    model = quick(
        groups={"visit": ["hat", "smoker"]}, costs={"visit": 2, "age": 0.5, "scan": 1}, budget=2
    ).fit(table, y)
    encoding = model.advisor_.encoding
    assert [(a.name, a.price) for a in encoding.actions] == [("age", 0.5), ("visit", 2.0), ("scan", 1.0)]
    half = pd.DataFrame({"age": [None], "hat": ["red"], "smoker": [None], "scan": [None]})
    assert model.recommend(half)["action"].tolist() == ["age"]  # half a visit is not bought, and not charged
    whole = half.assign(smoker=True)
    assert model.recommend(whole)["why"].tolist() == ["budget"]


@pytest.mark.slow
def test_a_foreign_predictor_serves_a_method_that_asks_it(tmp_path: Path) -> None:
    table, y = patients(120, missing=0.1)
    numbers = table[["age", "scan"]].astype(float)
    chosen = HistGradientBoostingClassifier(max_iter=20)
    model = quick(method="aaco", predictor=chosen, budget=1).fit(numbers, y)
    assert not hasattr(chosen, "classes_")  # it was cloned
    nothing = pd.DataFrame({"age": [np.nan], "scan": [np.nan]})
    assert model.recommend(nothing)["action"].tolist() == ["scan"]
    assert model.score(numbers[numbers["scan"].notna()], y[numbers["scan"].notna()]) > 0.9
    with pytest.raises(InputError, match=r'HistGradientBoostingClassifier .* predictor="mlp"'):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_a_registered_predictor_may_run_on_the_host() -> None:
    @predictors.register("threshold", summary="By the sign of the first column.", on_host=True)
    def fit(key: Any, problem: Any, train: Any, valid: Any, *, settings: Any, weights: Any) -> Any:
        def predict(x: np.ndarray, observed: np.ndarray) -> np.ndarray:
            positive = np.where(observed[:, 0], np.where(x[:, 0] > 0, 0.9, 0.1), 0.5)
            return np.stack([1 - positive, positive], axis=1)

        return predict

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))  # noqa: N806
    y = (X[:, 0] > 0).astype(int)
    model = AcquisitionClassifier("static", restorer="hotdeck", predictor="threshold", effort="low", budget=1)
    assert model.fit(X, y).score(X, y) > 0.95
    assert model.recommend(np.full((1, 3), np.nan))["action"].tolist() == ["x0"]


@pytest.mark.parametrize(
    ("given", "filled_by", "completed_by"),
    [
        ({}, ("mixture", 1), "pvae_noise"),
        ({"effort": "low"}, ("pvae_noise", 1), "pvae_noise"),
        ({"completions": 3}, ("mixture", 3), "pvae_noise"),
        ({"restorer": "nearest"}, ("nearest", 1), "nearest"),
        ({"restorer": "nearest", "completions": 2}, ("nearest", 2), "nearest"),
    ],
)
def test_what_fills_training_rows_and_what_completes_new_ones(
    given: dict[str, Any], filled_by: tuple[str, int], completed_by: str
) -> None:
    choices = AcquisitionClassifier(**given)._choices()
    assert (choices.treated[1:], choices.completing) == (filled_by, completed_by)


@pytest.mark.slow
def test_a_model_with_default_restorers_contains_no_training_rows(tmp_path: Path) -> None:
    """Saving one that does warns, and warnings are errors here."""
    table, y = patients(150)
    model = AcquisitionClassifier("static", budget=2, random_state=0).fit(table, y)
    assert str(model.treatment_) == "mixture"
    model.save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    assert (loaded.restorer, loaded.treatment_) == (None, model.treatment_)
    pd.testing.assert_frame_equal(loaded.recommend(table[:5]), model.recommend(table[:5]))


@pytest.mark.slow
def test_it_can_learn_from_several_completions() -> None:
    model = quick(method="aaco", completions=3)
    assert model.get_params()["completions"] == 3
    assert clone(model).completions == 3
    table, y = patients(120)
    model.fit(table, y)
    assert model.advisor_.origin.completions == 3
    policy = model.advisor_.policy
    assert isinstance(policy, AACO)
    assert (policy.table.completions, policy.table.n_instances) == (3, model.advisor_.origin.train_rows)
    advice = model.recommend(table[:5].assign(scan=np.nan))
    assert np.isfinite(advice["low"]).all()
    once = quick(method="aaco").fit(table, y)
    # Both share what does not depend on it.
    np.testing.assert_array_equal(once.predict_proba(table), model.predict_proba(table))


def test_completions_change_nothing_where_holes_stay() -> None:
    table, y = patients(60)
    one, three = (quick(treatment="restricted", completions=n).fit(table, y) for n in (1, 3))
    assert three.advisor_.origin.completions == 1
    pd.testing.assert_frame_equal(one.recommend(table[:5]), three.recommend(table[:5]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "gdf"}, "no method is called 'gdf'; did you mean 'gdfs'"),
        ({"state": "sm"}, "sequential has the state variant 's', not 'sm'"),
        ({"treatment": "complete"}, "no treatment is called 'complete'; there are 'restored', 'restricted'"),
        ({"restorer": "knn"}, "the restorer 'knn' cannot draw without the label.*use pvae"),
        ({"completions": 0}, "completions must be a whole number of at least 1, got 0"),
        ({"completions": -1}, "completions must be a whole number of at least 1, got -1"),
        ({"completions": 101}, "completions must be at most 100, got 101"),
        ({"effort": "high"}, "no effort is called 'high'; there are 'standard', 'low'"),
        ({"predictor": "tree"}, "no predictor is called 'tree'; there are 'mlp'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1"),
        ({"budget": 0.5}, "budget of 0.5 buys nothing: the cheapest action costs 1"),
        ({"costs": {"scan": 1}}, "the price list lacks 3 of 4 columns: 'age', 'hat', 'smoker'"),
        ({"known": ["age", "hat", "smoker", "scan"]}, "nothing to acquire"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(**changes).fit(*patients(20))


def test_mistakes_in_the_classes_are_named() -> None:
    table, y = patients(20)
    with pytest.raises(InputError, match="X has 20 rows, but y has 19"):
        quick().fit(table, y[:-1])
    with pytest.raises(InputError, match="y is NaN in row 3"):
        quick().fit(table, np.where(np.arange(20) == 3, np.nan, 1.0))
    with pytest.raises(InputError, match="y has 1 class, 'ill'"):
        quick().fit(table, ["ill"] * 20)
