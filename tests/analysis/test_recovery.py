"""Recovery slopes, against formulas written out."""

import numpy as np
import pytest

from ascertain.analysis._damage import ray, recovery_slopes

from .made_up import Row, arms, cell, results_of

# Damage and gain of four cells, one of them below the threshold of 0.01.
CELLS = {"a": (0.2, 0.1), "b": (0.1, 0.1), "c": (0.005, 0.5), "d": (0.3, -0.1)}


def study(protocol: str) -> list[Row]:
    return [
        row
        for dataset, (damage, gain) in CELLS.items()
        for row in arms(dataset, "gdfs", [0.8], [0.8 - damage], [0.8 - damage + gain], protocol=protocol)
    ]


def test_a_slope_is_least_squares_through_the_origin() -> None:
    x, y = np.array([0.2, 0.1, 0.3]), np.array([0.1, 0.1, -0.1])
    slope, low, high = ray(x, y)
    assert slope == pytest.approx(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0])
    drawn = np.random.default_rng(0).integers(0, 3, (2000, 3))
    slopes = [np.linalg.lstsq(x[i][:, None], y[i], rcond=None)[0][0] for i in drawn]
    assert (low, high) == pytest.approx(tuple(np.percentile(slopes, [2.5, 97.5])))


def test_cells_without_damage_give_no_slope_but_may_be_drawn() -> None:
    assert np.isnan(ray(np.zeros(3), np.ones(3))).all()
    assert np.isnan(ray(np.zeros(0), np.zeros(0))).all()
    # Resamples that only hold the first cell have no slope of their own.
    assert ray(np.array([0.0, 0.1]), np.array([0.3, 0.05])) == pytest.approx((0.5, 0.5, 0.5))


@pytest.mark.parametrize(("protocol", "fitted"), [("paper", "abd"), ("afabench", "abcd")])
def test_the_protocol_says_which_cells_enter(protocol: str, fitted: str) -> None:
    row = recovery_slopes(results_of(study(protocol))).iloc[0]
    pairs = [CELLS[name] for name in fitted]
    expected = sum(d * r for d, r in pairs) / sum(d * d for d, _ in pairs)
    assert row["slope"] == pytest.approx(expected)
    assert (row["fitted"], row["damaged"], row["cells"]) == (len(fitted), 3, 4)


def test_a_damage_of_a_hundredth_counts_whatever_its_last_bit() -> None:
    rows = arms("a", "gdfs", [0.71], [0.7], [0.7]) + arms("b", "gdfs", [0.3], [0.29], [0.29])
    assert 0.3 - 0.29 > 0.01 > 0.29 - 0.28  # which is why
    rows += arms("c", "gdfs", [0.29], [0.28], [0.28])
    assert recovery_slopes(results_of(rows)).iloc[0]["damaged"] == 3


def test_slopes_are_by_variant_mechanism_and_restorer() -> None:
    rows = arms("a", "ol", [0.8], [0.6], [0.7]) + arms("a", "ol", [0.8], [0.6], [0.8], state="sm")
    rows += arms("a", "ol", [], [0.7], [0.6], mechanism="mar") + cell(
        "a", "ol", "restored", [0.8], restorer="mean"
    )
    rows += arms("a", "random", [0.8], [0.6], [0.7])
    found = recovery_slopes(results_of(rows)).set_index(["method", "state", "mechanism", "restorer"])
    assert found["slope"].to_dict() == pytest.approx(
        {
            ("ol", "s", "mar", "pvae"): -1.0,
            ("ol", "s", "mcar", "mean"): 1.0,
            ("ol", "s", "mcar", "pvae"): 0.5,
            ("ol", "sm", "mcar", "pvae"): 1.0,
        }
    )
