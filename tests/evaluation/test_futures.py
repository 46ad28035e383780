"""Which futures are drawn: never too many, all of a rare class, and without bias."""

import numpy as np
import pytest

from ascertain.evaluation._futures import Futures, inclusion_chances, systematic_sample
from ascertain.evaluation._partial_rollouts import ImportanceWeights


def weights(n_rows: int, seed: int = 0) -> ImportanceWeights:
    """Rows that have each of three choices in half of the cases."""
    has = np.random.default_rng(seed).random((n_rows, 3)) < 0.5
    steps = np.cumprod(np.where(has, 2.0, 0.0), axis=1)
    return ImportanceWeights(np.concatenate([np.ones((n_rows, 1)), steps], axis=1), np.zeros((n_rows, 0)))


Y = np.where(np.arange(2000) < 40, 1, 0)


@pytest.mark.parametrize(("most", "draws"), [(100_000, 5), (6000, 5), (500, 5), (500, 1)])
def test_there_are_not_more_than_asked_for_and_rare_classes_have_their_share(most: int, draws: int) -> None:
    found = Futures.chosen(weights(2000), Y, draws=draws, most=most, rng=np.random.default_rng(1))
    # A systematic sample has at most one more row than expected in each class, of up to three points each.
    assert len(found.row) <= most + 2 * 3
    assert set(np.flatnonzero(Y)) <= set(found.row)
    assert len(np.unique(found.row[Y[found.row] == 0])) >= min(1900, most / 8)
    if most == 100_000:
        every_row = np.bincount(found.row, found.weight) + weights(2000).cumulative[:, -1]
        assert every_row == pytest.approx(np.ones(2000))


def test_weighted_sums_are_those_of_all_futures_on_average() -> None:
    given, value = weights(2000), np.random.default_rng(2).normal(size=(2000, 3))
    everything = (-np.diff(given.cumulative, axis=1) * value).sum()
    sums = []
    for seed in range(400):
        found = Futures.chosen(given, Y, draws=1, most=600, rng=np.random.default_rng(seed))
        sums.append((found.weight * value[found.row, found.step]).sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert np.mean(sums) == pytest.approx(everything, abs=4 * error)


def test_chances_are_in_proportion_but_not_above_one() -> None:
    chance = inclusion_chances(np.array([1.0, 2.0, 30.0, 0.0]), np.array([1, 1, 1, 0]), 2)
    assert chance == pytest.approx([1 / 3, 2 / 3, 1.0, 0.0])


def test_rows_are_drawn_as_often_as_their_chance_says() -> None:
    chance = np.array([0.1, 0.9, 0.5, 1.0, 0.0, 0.25])
    rng, n = np.random.default_rng(3), 4000
    share = np.mean([systematic_sample(chance, rng) for _ in range(n)], axis=0)
    assert share == pytest.approx(chance, abs=4 * 0.5 / np.sqrt(n))
