"""Rows are cut so that nothing is seen twice, and prepared by the training rows alone."""

import dataclasses

import numpy as np
import pytest

from ascertain.errors import InputError
from tests.fitted import held_out, user_table


def test_every_row_is_in_one_part_and_classes_keep_their_shares() -> None:
    data = held_out(user_table())
    parts = (data.training, data.selection, data.test)
    sizes = [len(part.y) for part in parts]
    assert sum(sizes) == 240
    assert sizes[2] == 60
    share = np.mean(data.table.y)
    for part in parts:
        assert abs(float(np.mean(np.asarray(part.y))) - share) < 0.02  # a row or two of rounding
    # Values are continuous, so the same row cannot be there twice.
    rows = np.concatenate([np.asarray(part.x) for part in parts])
    assert len(np.unique(rows, axis=0)) == 240


def test_models_are_fitted_to_the_training_rows_and_no_others() -> None:
    data = held_out(user_table())
    fitted_to = {tuple(row) for row in np.asarray(data.rows.train.x).tolist()}
    assert fitted_to == {tuple(row) for row in np.asarray(data.training.x).tolist()}
    validated = {tuple(row) for row in np.asarray(data.rows.valid.x).tolist()}
    assert validated == {tuple(row) for row in np.asarray(data.selection.x).tolist()}


def test_the_test_rows_do_not_shape_the_encoding() -> None:
    table = user_table()
    first = held_out(table)
    tested = np.ones(len(table.y), bool)
    known = {tuple(row) for part in (first.training, first.selection) for row in np.asarray(part.x).tolist()}
    x, _ = first.encoding.transform(table.columns)
    tested = np.array([tuple(row) not in known for row in x.tolist()])
    changed = table.columns.copy()
    changed.loc[tested, "pain"] = "unheard of"
    changed.loc[tested, "ecg"] = 1000.0
    again = held_out(dataclasses.replace(table, columns=changed))
    assert again.encoding == first.encoding


def test_the_seed_decides() -> None:
    one, same, other = (held_out(user_table(), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.test.x, same.test.x)
    assert not np.array_equal(np.asarray(one.test.x), np.asarray(other.test.x))


@pytest.mark.parametrize(("fraction", "message"), [(0.0, "above 0"), (1.5, "below 1"), (0.999, "too few")])
def test_impossible_shares_are_refused(fraction: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        held_out(user_table(), test_fraction=fraction)


def test_a_class_of_one_row_is_refused() -> None:
    table = user_table()
    y = np.zeros_like(table.y)
    y[3] = 1
    with pytest.raises(InputError, match="the class 'yes' has 1 rows"):
        held_out(dataclasses.replace(table, y=y))


def test_rows_that_belong_together_are_in_the_same_part() -> None:
    instances = np.random.default_rng(0).integers(0, 50, 240)
    instances[:50] = np.arange(50)  # each occurs
    data = held_out(dataclasses.replace(user_table(), instances=instances, rows_of="patient"))
    parts = [set(np.asarray(part.ids).tolist()) for part in (data.training, data.selection, data.test)]
    assert set.union(*parts) == set(range(50))
    assert sum(map(len, parts)) == 50
    assert sum(len(part.y) for part in (data.training, data.selection, data.test)) == 240
    assert set(np.asarray(data.rows.train.ids).tolist()) == parts[0]
    # Classes keep their shares, up to the rows of one patient.
    largest = int(np.bincount(instances).max())
    for label in (0, 1):
        wanted = 0.25 * (data.table.y == label).sum()
        assert abs((np.asarray(data.test.y) == label).sum() - wanted) <= largest


def test_too_few_instances_of_a_class_are_explained() -> None:
    table = user_table()
    instances = np.where(table.y == 1, 0, 1 + np.arange(240) % 40)
    with pytest.raises(InputError, match=r"the class 'yes' has \d+ rows of 1 in 'patient', too few"):
        held_out(dataclasses.replace(table, instances=instances, rows_of="patient"))
