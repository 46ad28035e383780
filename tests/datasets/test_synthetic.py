"""The CUBE family: what the paper says of its distributions. Tolerances are five standard errors."""

from collections.abc import Callable

import numpy as np
import pytest

from ascertain import InputError
from ascertain.datasets import Dataset, cube, cube_nm, cube_nuc, load

N = 20_000
FAMILY = (cube, cube_nm, cube_nuc)
NOISELESS = ("cube_noiseless", "cube_nm_noiseless", "cube_nuc_noiseless")


def bits(y: np.ndarray) -> np.ndarray:
    """Spell classes with three bits, least significant first."""
    return np.array([[int(bit) for bit in reversed(f"{c:03b}")] for c in y])


def code(block: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Read the three features that carry the code out of blocks of ten."""
    return np.array([row[c : c + 3] for row, c in zip(block, y, strict=True)])


def rest(block: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Read the features that do not."""
    return np.array([np.delete(row, [c, c + 1, c + 2]) for row, c in zip(block, y, strict=True)])


def blocks(x: np.ndarray, name: str) -> list[np.ndarray]:
    """The blocks that carry the code of each row."""
    if name == "cube":
        return [x[:, :10]]
    if name == "cube_nuc":
        return [x[:, :10], x[:, 10:]]
    context = x[:, :5].argmax(axis=1)  # the noise of 0.1 never hides a 1 among 0s: it is 7 deviations off
    return [np.stack([row[5 + 10 * k : 15 + 10 * k] for row, k in zip(x, context, strict=True)])]


def assert_normal(cells: np.ndarray, mean: float, deviation: float) -> None:
    n = cells.size
    assert abs(cells.mean() - mean) < 5 * deviation / np.sqrt(n)
    assert abs(cells.std() - deviation) < 5 * deviation / np.sqrt(2 * n)


@pytest.mark.parametrize("make", FAMILY)
def test_classes_are_uniform(make: Callable[[int], Dataset]) -> None:
    counts = np.bincount(make(N).draw(3).y)
    assert len(counts) == 8
    assert np.abs(counts - N / 8).max() < 5 * np.sqrt(N * 1 / 8 * 7 / 8)


@pytest.mark.parametrize("make", FAMILY)
def test_the_class_is_spelled_at_its_own_place(make: Callable[[int], Dataset]) -> None:
    dataset = make(N)
    x, y = dataset.draw(4)
    for block in blocks(x, dataset.name):
        for j in range(3):
            for bit in (0, 1):
                written = bits(y)[:, j] == bit
                assert_normal(code(block, y)[written, j], bit, 0.3)
        assert_normal(rest(block, y), 0.5, 0.3)


def test_features_beyond_the_code_are_noise() -> None:
    assert_normal(cube(N).draw(5).x[:, 10:], 0.5, 0.3)


def test_only_the_block_of_the_context_carries_the_code() -> None:
    x, _ = cube_nm(N).draw(6)
    context = x[:, :5].argmax(axis=1)
    others = np.stack([np.delete(row[5:].reshape(5, 10), k, 0) for row, k in zip(x, context, strict=True)])
    assert_normal(others, 0.5, 0.3)
    assert np.abs(np.bincount(context) - N / 5).max() < 5 * np.sqrt(N * 1 / 5 * 4 / 5)
    assert_normal(x[:, :5] - np.eye(5)[context], 0.0, 0.1)


@pytest.mark.parametrize("name", NOISELESS)
def test_without_noise_the_code_is_exact(name: str) -> None:
    dataset = load(name)
    x, y = dataset.draw(7)
    assert dataset.name == name
    for block in blocks(x, name.removesuffix("_noiseless")):
        np.testing.assert_array_equal(code(block, y), bits(y))
    if name == "cube_nm_noiseless":
        np.testing.assert_array_equal(np.sort(x[:, :5], axis=1), np.eye(5)[np.full(len(x), 4)])


def test_the_best_accuracy_is_known() -> None:
    # 0.858 from the ten features, with the reference's noise, by its specification.
    x, y = cube(N).draw(8)
    likelihood = np.zeros((N, 8))
    for c in range(8):
        mean = np.full(10, 0.5)
        mean[c : c + 3] = bits(np.array([c]))[0]
        likelihood[:, c] = -((x[:, :10] - mean) ** 2).sum(axis=1)
    accuracy = (likelihood.argmax(axis=1) == y).mean()
    assert abs(accuracy - 0.858) < 5 * np.sqrt(0.858 * 0.142 / N)


def test_costs_and_what_actions_reveal() -> None:
    np.testing.assert_array_equal(cube().problem.costs, np.ones(20))
    np.testing.assert_array_equal(cube().problem.reveals, np.eye(20, dtype=bool))
    np.testing.assert_array_equal(
        cube_nuc().problem.costs, np.repeat(np.array([2 / 3, 4 / 3], np.float32), 10)
    )
    context = cube_nm().problem
    np.testing.assert_array_equal(context.costs, np.ones(51))
    np.testing.assert_array_equal(np.flatnonzero(context.reveals[0]), np.arange(5))
    np.testing.assert_array_equal(context.reveals[1:, 5:], np.eye(50, dtype=bool))
    assert not context.reveals[1:, :5].any()


def test_budgets_are_the_papers() -> None:
    assert [make().budgets for make in FAMILY] == [(3, 5, 10), (3, 5, 7, 10, 14), (2, 4, 7)]
    assert all(make().metric == "accuracy" for make in FAMILY)


@pytest.mark.parametrize("make", FAMILY)
def test_rows_depend_on_the_seed_alone(make: Callable[[], Dataset]) -> None:
    first, again, other = make().draw(42), make().draw(42), make().draw(43)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_features_are_left_as_they_are() -> None:
    dataset = cube()
    rows = {tuple(row) for row in dataset.draw(42).x.astype(np.float32).tolist()}
    assert {tuple(row) for part in dataset.split(0) for row in np.asarray(part.x).tolist()} == rows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cube(n_features=9), "n_features must be a whole number of at least 10, got 9"),
        (lambda: cube(n_rows=9), "n_rows must be a whole number of at least 10"),
        (lambda: cube(informative_noise=-1.0), "noise level must be finite and at least 0, got -1"),
        (lambda: cube_nm(n_contexts=1), "n_contexts must be a whole number of at least 2"),
        (lambda: cube_nuc(cost_ratio=0.0), "cost_ratio must be above 0"),
    ],
)
def test_a_bad_setting_is_named(make: Callable[[], Dataset], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
