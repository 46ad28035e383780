"""Mean regrets on the specification's seeded training sets, to four decimals.

The golden values were computed by two other implementations of the same text; they cover b = 2 and 3 at
p = 0.6 and say nothing about other rates, nor about b = 4.
"""

import numpy as np
import pytest

from ascertain.exact import fit_plan, shortcut

from .golden import FULL, MYOPIC, training_sets

FAST = {(6, 2, 10), (6, 2, 100), (6, 2, 1000), (8, 2, 100), (10, 3, 100)}
SETTINGS = [pytest.param(*setting, marks=[] if setting in FAST else pytest.mark.slow) for setting in FULL]


@pytest.mark.parametrize(("d", "budget", "n"), SETTINGS)
def test_golden_regrets(d: int, budget: int, n: int) -> None:
    problem = shortcut(d, budget)
    wanted: dict[tuple[str, int | None], float] = {
        (approach, None): regret for approach, regret in FULL[d, budget, n].items()
    }
    wanted |= {(approach, 1): regret for approach, regret in MYOPIC.get((d, budget, n), {}).items()}
    regrets: dict[tuple[str, int | None], list[float]] = {key: [] for key in wanted}
    for observations in training_sets(d, budget, n):
        for (approach, horizon), found in regrets.items():
            found.append(problem.regret(fit_plan(problem, observations, approach, horizon)))  # type: ignore[arg-type]
    means = {key: np.mean(found) for key, found in regrets.items()}
    assert means == pytest.approx(wanted, abs=5.1e-5)  # four decimals, and the rounding of the last one


@pytest.mark.slow
@pytest.mark.parametrize(("d", "budget"), [(6, 2), (8, 2), (10, 3)])
def test_a_million_instances_suffice_except_for_aliasing(d: int, budget: int) -> None:
    problem = shortcut(d, budget)
    for observations in training_sets(d, budget, 10**6, replicates=8):
        assert problem.regret(fit_plan(problem, observations, "filtering")) == 0
        assert problem.regret(fit_plan(problem, observations, "restoration")) == 0
        assert problem.regret(fit_plan(problem, observations, "aliasing")) == 0.25
