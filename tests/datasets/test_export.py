"""Datasets as files: what is read back is what was there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import load
from ascertain.datasets._export import TARGET, export, write


def test_a_synthetic_dataset_is_written_as_it_is(tmp_path: Path) -> None:
    dataset = load("cube_nm")
    files = write(export(dataset), tmp_path, "cube_nm")
    table, prices, panels = (pd.read_csv(file) for file in files)
    rows = dataset.draw(42)  # the seed of split 0
    assert dataset.problem.feature_names is not None
    np.testing.assert_allclose(table[list(dataset.problem.feature_names)], rows.x)
    assert table[TARGET].nunique() == dataset.problem.n_classes
    assert dict(zip(prices["name"], prices["cost"], strict=True)) == dict(
        zip(dataset.problem.action_names or (), np.asarray(dataset.problem.costs).tolist(), strict=True)
    )
    together = panels.groupby("group")["column"].size()
    assert (together == 5).all()  # the context is one-hot, and seen at once


@pytest.mark.needs("data")
def test_one_hot_columns_become_one_again_and_holes_stay() -> None:
    exported = export(load("heart_sites"))
    counts = exported.table["site"].value_counts().to_dict()
    assert counts == {"cleveland": 303, "hungarian": 294, "va": 200, "switzerland": 123}
    assert exported.panels == {}
    assert exported.prices["thal"] == pytest.approx(102.9)
    assert exported.table["ca"].isna().mean() == pytest.approx(611 / 920)
