"""Columns of training tables and of later rows, as people have them; targets and weights that cannot be."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from ascertain import AcquisitionClassifier, InputError
from ascertain.estimator._training import TrainingRows
from ascertain.tables._encoding import fit_encoding
from tests.estimator_cases import patients, quick


@pytest.fixture(scope="module")
def messy() -> tuple[AcquisitionClassifier, pd.DataFrame, list[str]]:
    """A classifier, the table that it was fitted to, and the warnings."""
    table, y = patients(120)
    table.insert(1, "never", np.nan)
    table["patient_id"] = np.random.default_rng(0).permutation(5000)[:120]
    table["site"] = "here"
    table["seen"] = pd.date_range("2019-01-01", periods=120, freq="10D")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = quick(method="static", budget=10).fit(table, y)
    return model, table, [str(each.message) for each in caught]


def test_columns_that_cannot_help_are_left_out_with_a_warning_each(
    messy: tuple[AcquisitionClassifier, pd.DataFrame, list[str]],
) -> None:
    model, table, said = messy
    reasons = {
        "never": "it was never measured",
        "patient_id": "it numbers the rows, as an identifier does",
        "site": "it always holds here, so it can tell nothing",
    }
    assert model.set_aside_ == reasons
    assert said == [f"the column {name!r} is left out: {reason}" for name, reason in reasons.items()]
    assert list(model.feature_names_in_) == list(table.columns)
    assert model.advisor_.encoding.action_names == ("age", "hat", "smoker", "scan", "seen")
    steps = model.acquire(table.head(20))
    assert not set(steps["action"].dropna()) & set(reasons)
    nothing = table.head(3).assign(**dict.fromkeys(table.columns))
    assert set(model.recommend(nothing)["action"]) <= set(model.advisor_.encoding.action_names)


def test_rows_may_come_with_columns_in_any_order_and_others_besides(
    messy: tuple[AcquisitionClassifier, pd.DataFrame, list[str]], tmp_path: object
) -> None:
    model, table, _ = messy
    wanted = model.predict_proba(table)
    mixed = table.assign(other="x")[["other", *reversed(table.columns)]]
    np.testing.assert_array_equal(model.predict_proba(mixed), wanted)
    np.testing.assert_array_equal(model.predict_proba(table.drop(columns=list(model.set_aside_))), wanted)
    pd.testing.assert_frame_equal(model.recommend(mixed), model.recommend(table))
    with pytest.raises(InputError, match=r"names seen at fit time, yet now missing:\n- scan\n"):
        model.predict(table.drop(columns="scan"))
    again = AcquisitionClassifier(**model.get_params()).adopt(model.advisor_)
    assert again.n_features_in_ == table.shape[1]
    assert again.set_aside_ == model.set_aside_


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"ill": -1, "well": 1}, "the class_weight of 'ill' is -1; weights are finite and not negative"),
        ({"ill": 1, "well": np.nan}, "the class_weight of 'well' is nan"),
        ({"ill": 1, "well": np.inf}, "the class_weight of 'well' is inf"),
        ({"ill": 0, "well": 0}, "class_weight is 0 for all classes"),
    ],
)
def test_weights_of_classes_that_cannot_be(weight: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(class_weight=weight).fit(*patients(40))


def test_a_regression_target_is_called_one() -> None:
    table, _ = patients(40)
    with pytest.raises(
        InputError, match=r"continuous\. y is a regression target, with 40 .* pandas\.cut\(y, 3"
    ):
        quick().fit(table, np.linspace(0.5, 9, 40))


def test_rows_that_belong_together_are_trained_on_or_validated_on() -> None:
    table, y = patients(120)
    patient = np.array([f"p{number}" for number in np.random.default_rng(0).integers(0, 30, 120)])
    numbers = pd.factorize(patient)[0]
    rows = TrainingRows.split(*quick_rows(table, y), 2, 0.2, np.random.RandomState(0), instances=numbers)
    assert not set(numbers[rows.trained]) & set(numbers[rows.validated])
    assert set(np.asarray(rows.train.ids).tolist()) == set(numbers[rows.trained])
    assert len(rows.validation.y) == len(rows.validated)  # each row once, not each patient
    model = quick().fit(table, y, rows_of=patient)
    model.predict(table)
    with pytest.raises(InputError, match="rows_of has 119 entries for 120 rows"):
        quick().fit(table, y, rows_of=patient[1:])
    # Four copies of every row tell nothing new, if it is known that they are copies.
    copies = pd.concat([table] * 4), np.tile(y, 4)
    once, together, apart = (
        model.evaluate(*given, budgets=[0], rows_of=instances)
        .query("metric == 'brier' and estimator == 'ipw'")
        .pipe(lambda found: (found["high"] - found["low"]).item())
        for given, instances in (((table, y), None), (copies, np.tile(np.arange(120), 4)), (copies, None))
    )
    assert together == pytest.approx(once)
    assert apart == pytest.approx(once / 2, rel=0.01)


def quick_rows(table: pd.DataFrame, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, available = fit_encoding(table).transform(table)
    return x, available, (y == "ill").astype(int)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "recommend", "acquire"])
def test_nothing_is_said_before_anything_was_fitted(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(quick(), method)(patients(5)[0])
