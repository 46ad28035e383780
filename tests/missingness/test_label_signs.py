"""Habits of measuring are found, and evening them out leaves nothing of them."""

import numpy as np
import pytest

from ascertain.missingness._label_signs import LabelSign, chances_to_keep, even_out, signs_of_label

CLASSES, ACTIONS = ("well", "ill"), ("age", "scan", "noise")
# The share of each class that has each action.
SHARES = np.array([[0.7, 0.2, 0.0], [0.7, 0.9, 1.0]])


def rows(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.4).astype(int)
    return rng.random((n_rows, 3)) < SHARES[y], y


def test_what_is_measured_more_in_a_class_is_found_and_what_no_row_of_a_class_has_is_not_learnable() -> None:
    signs, compared = signs_of_label(*interleave(rows(600)), CLASSES)
    assert [(sign.action, sign.learnable) for sign in signs] == [("noise", False), ("scan", True)]
    assert compared == 3
    assert signs[0].shares == "100% of 'ill' and 0% of 'well'"


def interleave(given: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    return given[0], ACTIONS, given[1]


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_where_classes_do_not_differ(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signs, _ = signs_of_label(rng.random((500, 3)) < 0.5, ACTIONS, rng.integers(0, 2, 500), CLASSES)
    assert signs == ()


def test_a_class_of_few_rows_does_not_decide_what_is_learnable() -> None:
    readable, y = rows(600)
    y = np.append(y, [2] * 6)
    readable = np.append(readable, np.zeros((6, 3), bool), axis=0)
    signs, _ = signs_of_label(readable, ACTIONS, y, (*CLASSES, "rare"))
    assert {sign.action: sign.learnable for sign in signs}["scan"]
    chance = chances_to_keep(readable, ACTIONS, y, 3, signs)
    assert chance[:, 1].min() > 0.1


def test_after_evening_out_all_classes_have_as_many_and_other_actions_stay() -> None:
    readable, y = rows(20_000)
    signs, _ = signs_of_label(readable, ACTIONS, y, CLASSES)
    # The scan reveals two features.
    reveals = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    available = readable @ reveals
    even = even_out(reveals, available, y, chances_to_keep(readable, ACTIONS, y, 2, signs), seed=1)
    assert not (even & ~available).any()
    assert (even[:, 0] == available[:, 0]).all()
    assert (even[:, 1] == even[:, 2]).all()
    assert not even[:, 3].any()
    ill, well = even[y == 1, 1].mean(), even[y == 0, 1].mean()
    # Two shares of about 0.2, of 8,000 and 12,000 rows.
    assert ill == pytest.approx(well, abs=4 * 0.4 * np.sqrt(1 / 8000 + 1 / 12000))
    assert (even[y == 0] == available[y == 0]).all()


def test_signs_say_where_they_are_strongest() -> None:
    sign = LabelSign("scan", {"a": 0.25, "b": 0.5, "c": 0.75}, 1e-9)
    assert sign.shares == "75% of 'c' and 25% of 'a'"
    assert sign.spread == pytest.approx(0.5)
