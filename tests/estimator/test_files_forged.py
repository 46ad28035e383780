"""Classifiers that somebody has changed who knows how to compute the digests: nobody is shown nonsense."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascertain import AcquisitionClassifier, StoreError
from ascertain.estimator._consultation import Consultation
from tests.estimator_cases import patients, quick
from tests.saved import forged

LARGE = 3.4e38  # finite in single precision, but products of it are not


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("classifier") / "m.safetensors"
    quick(restorer="pvae").fit(*patients(60)).save(file)
    return file


@pytest.fixture
def load(saved: Path, tmp_path: Path) -> Callable[..., AcquisitionClassifier]:
    """Load a copy with another preprocessing or other arrays."""

    def loaded(
        change: Callable[[dict[str, Any]], object] = lambda more: None,
        alter: Callable[[dict[str, np.ndarray]], object] = lambda arrays: None,
    ) -> AcquisitionClassifier:
        file = tmp_path / "forged.safetensors"
        file.write_bytes(forged(saved, lambda raw: change(raw["preprocessing"]), alter))
        return AcquisitionClassifier.load(file)

    return loaded


def fill_a_column(arrays: dict[str, np.ndarray]) -> None:
    """Make what a predictor multiplies its first input by as large as can be."""
    first = next(array for name, array in arrays.items() if name.startswith("predictor.") and array.ndim == 2)
    first[:, 0] = LARGE


def fill_the_restorer(arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if name.startswith("restorer.") and array.dtype.kind == "f":
            array.fill(LARGE)


@pytest.mark.parametrize("alter", [fill_a_column, fill_the_restorer])
def test_no_nan_is_shown_where_all_numbers_are_finite(
    load: Callable[..., AcquisitionClassifier], alter: Callable[[Any], None]
) -> None:
    model = load(alter=alter)
    with pytest.raises(StoreError, match="NaN or infinity: its training diverged, or its file was forged"):
        Consultation(model.advisor_).answer()
    with pytest.raises(StoreError, match="NaN or infinity"):
        model.recommend(patients(1, missing=1.0)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda more: more["ranges"].update(unexplained=[1e308] * 4),
            r"unexplained\.0: .*less than or equal",
        ),
        (lambda more: more["ranges"]["factors"][0].__setitem__(1, 1e308), r"factors\.0\.1: .*less than or"),
        (lambda more: more.update(temperature=1e300), "temperature: .*less than or equal"),
    ],
)
def test_numbers_beyond_single_precision_are_refused(
    load: Callable[..., AcquisitionClassifier], change: Callable[[Any], None], message: str
) -> None:
    with pytest.raises(StoreError, match=message):
        load(change)


def become_dates(more: dict[str, Any], **changes: Any) -> None:
    more["encoding"]["columns"][0].update(kind="date", order="ymd", **changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda more: more.update(class_type="<U500000000"), "2 classes of 2,000,000,000 bytes each are too"),
        (lambda more: more.update(class_type="<U999999999"), "cannot be used|can be used"),
        (lambda more: more.update(class_type="i4,("), "class_type: String should match"),
        (lambda more: more.update(class_type="f4," * 100_000), "class_type: String should match"),
        (lambda more: more.update(class_type="<f77"), "data type '<f77' not understood"),
        (lambda more: more.update(class_type="<i8", classes=[10**400, 1]), "too large"),
        (lambda more: become_dates(more, low=-1e300, high=1e300), "dates of the column 'age' are in no"),
        (lambda more: become_dates(more, mean=[1e300]), "dates of the column 'age' are in no calendar"),
        (lambda more: more["parameters"].update(method=5), "method: Input should be a valid string"),
        (lambda more: more["parameters"].update(predictor={"a": 1}), "predictor: Input should be a valid"),
        (lambda more: more["parameters"].update(costs=[[[]]]), "costs: Input should be"),
    ],
)
def test_nonsense_is_refused_quickly(
    load: Callable[..., AcquisitionClassifier], change: Callable[[Any], None], message: str
) -> None:
    start = time.perf_counter()
    with pytest.raises(StoreError, match=message):
        load(change)
    assert time.perf_counter() - start < 5  # seconds; on busy cores


def test_dates_of_any_calendar_are_read(load: Callable[..., AcquisitionClassifier]) -> None:
    last = 2_932_896 + 86_399 / 86_400  # the last second of the year 9999, which may stand for "never"
    model = load(lambda more: become_dates(more, low=-719_162.0, high=last))
    assert model.advisor_.encoding.columns[0].allowed == "a date (0001-01-01 to 9999-12-31 23:59 in training)"
