"""The paper's theory (section 4) on learned policies: what holes do to a planner, and restoration undoes.

A small version of `benchmarks/theory.py`: fewer features, rows, batches and seeds.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

from ascertain import MCAR, Table, mask_tables
from ascertain._core.compilation import replicated
from ascertain.exact import Plan, shortcut
from ascertain.exact._distribution import TrueDistribution
from ascertain.exact._policies import plan_from_scores, problem_of, score_states, state_rows, table_of
from ascertain.methods import _gdfs as gdfs
from ascertain.methods import _jafa as jafa
from ascertain.policy import Policy
from ascertain.restoration import restore

pytestmark = pytest.mark.slow

WORLD = shortcut(d=4, budget=2)
PROBLEM = problem_of(WORLD).without_names()
RATE, ROWS, SEEDS = 0.7, 2048, 5
Fit = Callable[[PRNGKeyArray, Table, Table], Policy]

# Regret is exact. But the agent is trained by trial and error: where the context pays, 2 of 22 agents (seeds,
# keys and compilers differed) had not found out what to do with it, and had regret 1/4. If one in ten does
# not, the median of five is 0 in all but 0.9% of such tests; if nine in ten do not, it is 0 in 0.9% of them.


def treated(seed: int) -> dict[str, tuple[Table, Table]]:
    """Draw training and validation tables, make holes, and fill them from the true conditional."""
    rng = np.random.default_rng(seed)
    train, valid = table_of(WORLD, WORLD.sample(rng, ROWS)), table_of(WORLD, WORLD.sample(rng, 256))
    masking, filling, filling_valid = jr.split(jr.key(seed), 3)
    holed, holed_valid = mask_tables(masking, MCAR, PROBLEM, train, valid, RATE)
    truth = TrueDistribution(WORLD)
    filled = restore(filling, truth, holed), restore(filling_valid, truth, holed_valid)
    return {"complete": (train, valid), "restricted": (holed, holed_valid), "restored": filled}


def plans(fit: Fit, tables: list[tuple[Table, Table]]) -> list[Plan]:
    """Train on all tables in one program, and give what the policies do."""
    x, acquired = state_rows(WORLD)

    def scores(key: PRNGKeyArray, train: Table, valid: Table) -> Array:
        return score_states(fit(key, train, valid), x, acquired, key)

    train, valid = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tables)
    found = jax.jit(replicated(scores))(jr.split(jr.key(0), len(tables)), train, valid)
    return [plan_from_scores(WORLD, each) for each in found]


@pytest.fixture(scope="module")
def data() -> list[dict[str, tuple[Table, Table]]]:
    return [treated(seed) for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def planned(data: list[dict[str, tuple[Table, Table]]]) -> dict[str, list[Plan]]:
    """What JAFA learns from each treatment, for every seed; half the paper's batches are enough here."""
    settings = jafa.Settings(batches=2000)
    settings = replace(settings, pretraining=replace(settings.pretraining, max_rounds=15))

    def fit(key: PRNGKeyArray, train: Table, valid: Table) -> Policy:
        return jafa.fit(key, PROBLEM, train, valid, settings=settings)

    names = ("complete", "restricted", "restored")
    found = plans(fit, [tables[name] for name in names for tables in data])
    return {name: found[place * SEEDS : (place + 1) * SEEDS] for place, name in enumerate(names)}


def regrets(found: list[Plan]) -> list[float]:
    return [WORLD.regret(plan) for plan in found]


def test_a_planner_with_complete_data_finds_the_context(planned: dict[str, list[Plan]]) -> None:
    assert np.median(regrets(planned["complete"])) == 0
    assert Counter(plan.first_action for plan in planned["complete"])["context"] > SEEDS / 2


def test_restricted_data_teach_it_to_do_without_the_context(planned: dict[str, list[Plan]]) -> None:
    # The branch that the context names is there in 3 rows of 10, so on average the context looks worse than
    # what tells something at once: the shortcut, or a branch bit. All of those are right in 3 of 4.
    assert np.median(regrets(planned["restricted"])) == 0.25
    assert Counter(plan.first_action for plan in planned["restricted"])["context"] < SEEDS / 2


def test_holes_filled_from_the_true_conditional_do_no_harm(planned: dict[str, list[Plan]]) -> None:
    assert np.median(regrets(planned["restored"])) == 0


def test_a_myopic_method_does_without_the_context_even_on_complete_data(
    data: list[dict[str, tuple[Table, Table]]],
) -> None:
    settings = gdfs.Settings(steps=2, epochs=20, pretraining_epochs=20, temperatures=(1.0, 0.3))

    def fit(key: PRNGKeyArray, train: Table, valid: Table) -> Policy:
        return gdfs.fit(key, PROBLEM, train, valid, settings=settings)

    assert regrets(plans(fit, [tables["complete"] for tables in data[:2]])) == [0.25] * 2
