"""Rows that support paths, against counting by brute force and the theorem's formula."""

import itertools

import numpy as np
import pytest

from ascertain._core.prices import PriceList
from ascertain.practice.diagnosis._support import as_masks, count_steps, find_support, rows_with

NAMES = tuple("abcdefgh")


def test_rows_with_counts_rows() -> None:
    rng = np.random.default_rng(0)
    readable = rng.random((200, 6)) < 0.7
    paths = np.array(list(itertools.product([False, True], repeat=6)))
    wanted = [sum(all(row[path]) for row in readable) for path in paths]
    assert rows_with(readable, paths).tolist() == wanted


def test_independent_holes_support_what_the_theorem_says() -> None:
    # n (1 - p)^k rows on average; for one path the standard deviation is below sqrt(n (1-p)^k), and the
    # rate itself is estimated from n d cells. Five deviations.
    n, d, p = 20_000, 8, 0.3
    rng = np.random.default_rng(1)
    readable = rng.random((n, d)) >= p
    y = rng.integers(0, 2, n)
    support = find_support(readable, NAMES, PriceList(np.ones(d)), 3.0, y, ("no", "yes"))
    assert support.steps.typical == support.steps.fewest == support.steps.most == 3
    for depth in support.depths:
        true = n * (1 - p) ** depth.k
        assert abs(depth.random.median - true) < 5 * true**0.5
        assert depth.expected == pytest.approx(true, rel=5 * depth.k * (p / (1 - p) / (n * d)) ** 0.5)
    assert abs(support.complete - n * 0.7**8) < 5 * (n * 0.7**8) ** 0.5
    assert abs(support.paths.median - n * 0.7**3) < 5 * (n * 0.7**3) ** 0.5
    assert sum(support.complete_by_class.values()) == support.complete


def test_holes_that_come_together_support_more_than_the_formula() -> None:
    # Half of the rows have everything, half nothing but the first action: any path has n / 2 rows.
    readable = np.repeat([[True] * 4, [True] + [False] * 3], 50, axis=0)
    support = find_support(readable, NAMES[:4], PriceList(np.ones(4)), 2.0, np.arange(100) % 2, ("no", "yes"))
    assert support.complete == 50
    assert support.paths.median == 50
    assert support.expected_path == pytest.approx(100 * 0.625**2)
    assert support.expected_complete == pytest.approx(100 * 0.625**4)
    assert [depth.best_observed for depth in support.depths] == [100, 50, 50, 50]


def test_actions_that_are_never_together_are_named() -> None:
    readable = np.array([[True, True, False, False], [True, False, True, False]] * 5)
    support = find_support(readable, NAMES[:4], PriceList(np.ones(4)), None, np.arange(10) % 2, ("no", "yes"))
    assert support.pairs_apart == (("b", "c"),)  # and not d, which no row has at all
    assert support.budget is None
    assert support.steps.most == 4
    assert support.unsupported_paths == 1


@pytest.mark.parametrize(
    ("costs", "budget", "wanted"),
    [
        ([1, 1, 1, 1], 2, (2, 2, 2)),
        ([1, 1, 1, 5], 5, (1, 3, 3)),  # the dear one alone, or the three cheap ones; three of four orders
        ([2, 3, 4], 1e9, (3, 3, 3)),
        ([0.1, 0.2, 7], 0.3, (2, 2, 2)),  # rounding does not matter
    ],
)
def test_steps_within_a_budget(costs: list[float], budget: float, wanted: tuple[int, int, int]) -> None:
    prices = PriceList(np.array(costs, np.float64))
    readable = np.ones((4, len(costs)), bool)
    steps = find_support(
        readable, NAMES[: len(costs)], prices, budget, np.array([0, 1, 0, 1]), ("no", "yes")
    ).steps
    assert (steps.fewest, steps.most) == (wanted[0], wanted[2])
    assert wanted[0] <= steps.typical <= wanted[2]
    assert steps.at_mean_cost == pytest.approx(min(budget / np.mean(costs), len(costs)))


def test_the_typical_number_is_the_median_over_paths() -> None:
    paths = as_masks([(0,), (1, 2), (0, 1, 2)], 3)
    assert count_steps(PriceList(np.ones(3)), 3.0, paths).typical == 2


def test_what_the_budget_cannot_buy_is_named() -> None:
    readable = np.array([[True, True, False], [True, False, True]] * 3)
    support = find_support(
        readable, NAMES[:3], PriceList(np.array([1.0, 1.0, 9.0])), 2.0, np.arange(6) % 2, ("no", "yes")
    )
    assert support.unaffordable == ("c",)
    assert support.complete == 0
    assert support.complete_affordable == 3
