"""Classifiers on disk: what comes back is what was saved, and nothing else is let in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier, StoreError
from ascertain.models.files import digest_of
from tests.estimator_cases import patients, quick


@pytest.fixture(scope="module")
def fitted() -> AcquisitionClassifier:
    costs = {"scan": 5.0, "hat": 1.0}
    model = quick(method="dime", restorer="pvae", budget=6, costs=costs, known=["age"])
    return model.fit(*patients(400))


@pytest.fixture(scope="module")
def folder(fitted: AcquisitionClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifier") / "model"
    fitted.save(path)
    return path


def test_it_comes_back_as_it_was(fitted: AcquisitionClassifier, folder: Path) -> None:
    table, _ = patients(20, seed=6)
    loaded = AcquisitionClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_proba(table), fitted.predict_proba(table))
    pd.testing.assert_frame_equal(loaded.recommend(table), fitted.recommend(table))
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    assert (loaded.budget, loaded.known, loaded.method) == (6, ["age"], "dime")
    assert loaded.costs == {"hat": 1.0, "smoker": 1.0, "scan": 5.0}
    assert not (json.loads((folder / "model.json").read_text())["provenance"]["contains_training_rows"])


@pytest.mark.parametrize("classes", [[0, 1], [0.0, 2.0], [False, True], ["no", "yes"]])
def test_classes_keep_their_type(classes: list[Any], tmp_path: Path) -> None:
    table, y = patients(60)
    model = quick(restorer="hotdeck").fit(table, np.array(classes)[(y == "ill").astype(int)])
    with pytest.warns(UserWarning, match="training rows themselves, because the hot deck completes others"):
        model.save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    assert loaded.predict(table).tolist() == model.predict(table).tolist()
    assert type(loaded.classes_[0]) is type(model.classes_[0])
    pd.testing.assert_frame_equal(loaded.recommend(table[:3]), model.recommend(table[:3]))


def _changed(folder: Path, tmp_path: Path, change: Any) -> Path:
    """Copy a model with another `preprocessing`, under a digest that vouches for it."""
    copy = tmp_path / "model"
    copy.mkdir()
    (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    content = json.loads((folder / "model.json").read_text())
    content.pop("sha256")
    change(content["preprocessing"])
    (copy / "model.json").write_text(json.dumps(content | {"sha256": digest_of(content)}))
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda more: more.pop("temperature"), "temperature: Field required"),
        (lambda more: more.update(temperature=-1.0), "temperature: Input should be greater than 0"),
        (lambda more: more.update(class_type="O|"), "does not hold a classifier that can be used"),
        (lambda more: more.update(classes=["a"]), "classes: List should have at least 2 items"),
        (
            lambda more: more["parameters"].update(pickle=1),
            "has the parameter 'pickle', which a classifier does not have",
        ),
        (lambda more: more["encoding"].pop("named"), "the encoding of the columns cannot be used"),
        (lambda more: more.update(classes=["ill", "wel"]), "do not fit its policy"),
    ],
)
def test_what_was_changed_is_refused(change: Any, message: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=message):
        AcquisitionClassifier.load(_changed(folder, tmp_path, change))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a folder"):
        AcquisitionClassifier.load(tmp_path / "nowhere")
