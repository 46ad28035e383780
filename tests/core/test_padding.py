"""Padding: round sizes that are few, and every row as often as the others or once more."""

import numpy as np
import pytest

from ascertain._core.padding import padded_rows, round_up


@pytest.mark.parametrize("digits", [1, 2, 5])
def test_round_numbers_are_few_and_close(digits: int) -> None:
    sizes = [round_up(n, digits=digits) for n in range(1, 4097)]
    for n, size in enumerate(sizes, start=1):
        assert n <= size < n * (1 + 2 ** (1 - digits))
        assert round_up(size, digits=digits) == size
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 13 * 2 ** (digits - 1)  # 13 powers of two


def test_one_digit_is_a_power_of_two() -> None:
    assert [round_up(n) for n in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 4, 8, 1024]


def test_rows_are_repeated_in_order() -> None:
    assert padded_rows(3, 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert padded_rows(4, 4).tolist() == [0, 1, 2, 3]
    counts = np.bincount(padded_rows(100, round_up(100)))
    assert set(counts.tolist()) == {1, 2}
