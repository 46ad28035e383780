"""Theorem 1 and proposition 2 at the values worked out in the specification."""

import math
from typing import Any

import numpy as np
import pytest

from ascertain import InputError
from ascertain.exact import filtering_lower_bound, fit_plan, sample_size, shortcut

EXAMPLE: dict[str, Any] = {"d": 6, "budget": 2, "rate": 0.6, "epsilon": 0.1, "delta": 0.05}


def test_theorem_1() -> None:
    assert sample_size("filtering", **EXAMPLE) == pytest.approx(1.598804e9, rel=1e-6)
    assert sample_size("restoration", **EXAMPLE) == pytest.approx(4.092938e7, rel=1e-6)


def test_theorem_1_differs_between_approaches_by_the_usable_instances() -> None:
    ratio = sample_size("filtering", **EXAMPLE) / sample_size("restoration", **EXAMPLE)
    assert ratio == pytest.approx(0.4**-4)
    complete = sample_size("complete", **EXAMPLE)
    assert complete == pytest.approx(sample_size("filtering", **EXAMPLE | {"rate": 0.0}))


def test_proposition_2() -> None:
    assert filtering_lower_bound(d=6, rate=0.6, delta=0.05) == pytest.approx(231.93, abs=5e-3)


def test_proposition_2_is_what_happens() -> None:
    """Below the bound, filtering loses at least 1/4 more often than `delta` says."""
    delta, rate, d = 0.5, 0.6, 6
    n = int(filtering_lower_bound(d=d, rate=rate, delta=delta))
    problem = shortcut(d, 2)
    rng = np.random.default_rng(0)
    plans = [fit_plan(problem, problem.sample(rng, n, rate), "filtering") for _ in range(100)]
    # At least half are expected to fail, so 100 draws fall below 30 once in 10^5.
    assert sum(problem.regret(plan) >= 0.25 for plan in plans) >= 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"approach": "aliasing"}, "no sample size suffices for aliasing"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"d": 0}, "d must be"),
        ({"budget": 0}, "budget must be"),
        ({"budget": 7}, "budget must be at most d, got 7 with d = 6"),
        ({"rate": 1.0}, "rate must be at least 0 and below 1"),
        ({"rate": -0.1}, "rate must be"),
        ({"epsilon": 0.0}, "epsilon must be above 0 and at most loss_bound = 1"),
        ({"epsilon": 2.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be above 0 and below 1"),
        ({"delta": 1.0}, "delta must be"),
        ({"values": 1}, "values must be a whole number of at least 2"),
        ({"loss_bound": 0.0}, "loss_bound must be above 0"),
        ({"loss_bound": float("inf")}, "loss_bound must be"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sample_size(**({"approach": "filtering"} | EXAMPLE | changes))


@pytest.mark.parametrize(
    ("d", "rate", "delta", "message"),
    [(0, 0.5, 0.1, "d must be"), (6, 1.0, 0.1, "rate must be"), (6, 0.5, 1.5, "delta must be")],
)
def test_bad_arguments_of_the_lower_bound(d: int, rate: float, delta: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filtering_lower_bound(d=d, rate=rate, delta=delta)


def test_numbers_beyond_floats_are_infinite() -> None:
    assert sample_size("filtering", **EXAMPLE | {"d": 3000, "budget": 2000}) == math.inf
    assert filtering_lower_bound(d=1000, rate=0.999, delta=0.5) == math.inf
