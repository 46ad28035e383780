"""Classifiers on disk: what comes back is what was saved, and nothing else is let in."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier, StoreError
from ascertain.methods._aaco import AACO
from tests.estimator_cases import patients, quick
from tests.saved import forged, unpacked


@pytest.fixture(scope="module")
def fitted() -> AcquisitionClassifier:
    costs = {"scan": 5.0, "hat": 1.0, "smoker": 1.0}
    model = quick(method="dime", restorer="pvae", budget=6, costs=costs, known=["age"])
    return model.fit(*patients(100))


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
    assert [file.name for file in folder.iterdir()] == ["model.safetensors"]
    assert not unpacked(folder / "model.safetensors")[0]["contains_training_rows"]
    assert loaded.advisor_.table_rows == fitted.advisor_.table_rows == (80, 20)  # a fifth validates
    assert loaded.advisor_.origin == fitted.advisor_.origin


@pytest.mark.slow
def test_a_model_of_several_completions_comes_back(tmp_path: Path) -> None:
    table, y = patients(120)
    model = quick(method="aaco", completions=3).fit(table, y)
    with pytest.warns(UserWarning, match="training rows themselves"):
        model.save(tmp_path)
    loaded = AcquisitionClassifier.load(tmp_path)
    policy = loaded.advisor_.policy
    assert isinstance(policy, AACO)
    assert (loaded.completions, policy.table.completions) == (3, 3)
    assert loaded.advisor_.origin == model.advisor_.origin
    pd.testing.assert_frame_equal(loaded.recommend(table[:5]), model.recommend(table[:5]))


@pytest.mark.parametrize("classes", [[0, 1], [0.0, 2.0], [False, True], ["no", "yes"]])
def test_classes_keep_their_type(classes: list[Any], tmp_path: Path) -> None:
    table, y = patients(60)
    model = quick(restorer="hotdeck").fit(table, np.array(classes)[(y == "ill").astype(int)])
    with pytest.warns(UserWarning, match="training rows themselves, because the restorer hotdeck needs"):
        model.save(tmp_path / "mine.safetensors")
    loaded = AcquisitionClassifier.load(tmp_path / "mine.safetensors")
    assert loaded.predict(table).tolist() == model.predict(table).tolist()
    assert type(loaded.classes_[0]) is type(model.classes_[0])
    pd.testing.assert_frame_equal(loaded.recommend(table[:3]), model.recommend(table[:3]))


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
    file = tmp_path / "m.safetensors"
    file.write_bytes(forged(folder / "model.safetensors", lambda raw: change(raw["preprocessing"])))
    with pytest.raises(StoreError, match=message):
        AcquisitionClassifier.load(file)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/model\.safetensors is missing; name the file"):
        AcquisitionClassifier.load(tmp_path / "nowhere")
