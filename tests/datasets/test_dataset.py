"""Splits and preprocessing, against the reference's own description of them."""

import random

import numpy as np
import pytest

from ascertain import InputError, Problem
from ascertain.datasets._dataset import N_SPLITS, Dataset, Preprocessing, RawRows, Split
from ascertain.protocol import AFABENCH, PAPER, Protocol

RAW = Preprocessing(scale=False)


def numbered(counts: tuple[int, ...], *, stratified: bool) -> Dataset:
    """Rows that hold their own number."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    return dataset(np.arange(len(y), dtype=float)[:, None], y, RAW, stratified=stratified)


def dataset(
    x: np.ndarray, y: np.ndarray, preprocessing: Preprocessing, *, stratified: bool = True
) -> Dataset:
    n = x.shape[1]
    problem = Problem(np.eye(n), np.ones(n), n, int(y.max()) + 1, feature_names=[f"f{i}" for i in range(n)])
    return Dataset(
        "made", problem, (n,), lambda seed: RawRows(x, y), stratified=stratified, preprocessing=preprocessing
    )


def rows_of(split: Split) -> list[list[int]]:
    return [np.asarray(part.x)[:, 0].astype(int).tolist() for part in split]


@pytest.mark.parametrize(
    ("counts", "stratified", "sizes"),
    [
        ((125,) * 8, False, [600, 200, 200]),  # the CUBE family
        ((164, 139), False, [181, 60, 62]),  # Heart Disease
        ((1618, 521), True, [1283, 428, 428]),  # ACTG 175
        ((3371, 10071), True, [8064, 2689, 2689]),  # NHANES mortality
        ((77424, 9759, 4879), True, [55236, 18413, 18413]),  # Diabetes, of any class balance
        ((93565, 36499), True, [78038, 26013, 26013]),  # MiniBooNE
    ],
)
def test_parts_have_the_reference_sizes(counts: tuple[int, ...], stratified: bool, sizes: list[int]) -> None:
    split = numbered(counts, stratified=stratified).split(0)
    parts = rows_of(split)
    assert list(map(len, parts)) == sizes
    assert sorted(row for part in parts for row in part) == list(range(sum(counts)))
    if stratified:
        for part in split:  # each class as often as its share, to within a row
            expected = np.array(counts) * len(part.y) / sum(counts)
            assert np.abs(np.bincount(part.y) - expected).max() <= 1


def test_stratified_splits_share_their_test_rows_and_nothing_else() -> None:
    table = numbered((300, 200), stratified=True)
    splits = [rows_of(table.split(i)) for i in range(N_SPLITS)]
    assert all(test == splits[0][2] for _, _, test in splits)
    assert len({tuple(valid) for _, valid, _ in splits}) == N_SPLITS


def test_shuffled_splits_are_those_of_the_reference() -> None:
    for index in range(N_SPLITS):
        order = list(range(303))
        random.Random(42 + index).shuffle(order)
        assert rows_of(numbered((164, 139), stratified=False).split(index)) == [
            *(order[:181], order[181:241], order[241:])
        ]


def test_a_split_is_a_whole_number() -> None:
    with pytest.raises(InputError, match="split must be a whole number"):
        numbered((20, 20), stratified=True).split(-1)


def holey() -> tuple[np.ndarray, np.ndarray]:
    """400 rows of differently scaled columns and a constant, a tenth of them missing."""
    rng = np.random.default_rng(1)
    x = rng.normal([3.0, -50.0, 1e4, 7.0], [2.0, 30.0, 1e3, 0.0], (400, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x, np.arange(400) % 2


def moments(split: Split, *parts: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean and deviation of the measured cells of some parts."""
    cells = np.concatenate([np.asarray(getattr(split, part).x, float) for part in parts])
    known = np.concatenate([np.asarray(getattr(split, part).available) for part in parts])
    cells = np.where(known, cells, np.nan)
    return np.nanmean(cells, axis=0), np.nanstd(cells, axis=0)


@pytest.mark.parametrize("impute", [False, True])
@pytest.mark.parametrize(
    ("protocol", "over_all_rows", "fitted_on"),
    [
        (PAPER, True, ("train",)),
        (PAPER, False, ("train",)),
        (AFABENCH, False, ("train",)),
        (AFABENCH, True, ("train", "valid", "test")),
    ],
)
def test_features_are_scaled_by_the_rows_that_the_protocol_names(
    protocol: Protocol, over_all_rows: bool, fitted_on: tuple[str, ...], impute: bool
) -> None:
    x, y = holey()
    table = dataset(x, y, Preprocessing(True, impute, over_all_rows))
    split = table.split(2, protocol)
    mean, deviation = moments(split, *fitted_on)
    np.testing.assert_allclose(mean, 0, atol=1e-6)
    np.testing.assert_allclose(deviation, [1, 1, 1, 0], atol=1e-5)
    others = moments(split, "test")[0]
    assert np.abs(others[:3]).max() > 1e-3  # whose own mean is another


@pytest.mark.parametrize("impute", [False, True])
def test_holes_stay_unless_they_are_imputed(impute: bool) -> None:
    x, y = holey()
    x[:, 0] = np.arange(len(x))  # scaled, it still tells the order
    split = dataset(x, y, Preprocessing(scale=True, impute=impute)).split(0)
    cells, available = (
        np.concatenate([np.asarray(getattr(part, field)) for part in split]) for field in ("x", "available")
    )
    np.testing.assert_array_equal(available[np.argsort(cells[:, 0])], ~np.isnan(x) | impute)


def test_imputed_cells_hold_the_mean_of_the_training_rows() -> None:
    x, y = holey()
    only_imputed = dataset(x, y, Preprocessing(scale=False, impute=True)).split(0).train.x
    not_imputed = dataset(x, y, RAW).split(0).train
    known = np.where(not_imputed.available, not_imputed.x, np.nan)
    expected = np.where(np.isnan(known), np.nanmean(known, axis=0), known)
    np.testing.assert_allclose(only_imputed, expected, rtol=1e-6)


def test_a_feature_that_no_training_row_has_is_named() -> None:
    x, y = holey()
    x[:, 2] = np.nan
    with pytest.raises(InputError, match="made: no training row has the feature 'f2'"):
        dataset(x, y, Preprocessing()).split(0)


def test_another_budget_changes_nothing_else() -> None:
    table = numbered((20, 20), stratified=True)
    assert float(table.at(1.0).problem.budget) == 1.0
    assert table.at(1.0).problem.feature_names == ("f0",)
    with pytest.raises(InputError, match="buys nothing"):
        table.at(0.5)
