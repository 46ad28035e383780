"""Rows that belong together: numbered, held out whole."""

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain._core.clusters import clusters_of, draw_instances, instance_numbers


def test_labels_are_numbered() -> None:
    assert instance_numbers("rows_of", ["b", "a", "b", 3], 4).tolist() == [0, 1, 0, 2]
    assert clusters_of([5, 2, 9]) is None
    found = clusters_of([5, 2, 5])
    assert found is not None
    assert found.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="rows_of has 2 entries for 3 rows"):
        instance_numbers("rows_of", [1, 2], 3)
    with pytest.raises(InputError, match="rows_of is empty in row 7; fill it in, or leave the row out"):
        instance_numbers("rows_of", pd.Series(["a", None], index=[6, 7]), 2)


@pytest.mark.parametrize("fraction", [0.2, 0.25, 0.5])
def test_whole_instances_are_held_out_with_a_share_of_every_class(fraction: float) -> None:
    rng = np.random.RandomState(0)
    instances = rng.randint(0, 300, 2000)
    y = (rng.uniform(size=2000) < 0.15).astype(int) + (instances % 10 == 0)
    drawn = draw_instances(y, instances, fraction, np.random.RandomState(1))
    assert not set(instances[drawn]) & set(instances[~drawn])
    for label in np.unique(y):
        # An instance has 20 rows at most, so no share can miss its goal by more than one of them.
        assert abs(drawn[y == label].sum() - fraction * (y == label).sum()) <= 20
        assert (~drawn & (y == label)).any()


def test_no_class_is_held_out_wholly() -> None:
    y, instances = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 2, 3, 4])
    for seed in range(20):
        assert not draw_instances(y, instances, 0.9, np.random.RandomState(seed))[4]
