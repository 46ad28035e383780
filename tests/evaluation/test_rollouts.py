"""Rollouts at several budgets against separate ones, in stacks, and of sampled rows."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import AFABENCH, PAPER, InputError, Problem, Protocol, Table, evaluate
from ascertain.acquisition import Episodes, acquire
from ascertain.evaluation._rollouts import (
    ROWS_AT_ONCE,
    Rollouts,
    budget_rollouts,
    needs_separate_rollouts,
    roll_out,
    sample_by_class,
    sample_rows,
)
from ascertain.evaluation._scores import score_table
from ascertain.predictors._predictions import predict_in_jax
from tests.acquisition_cases import ACTIONS, FAST, ROWS, Case, cases
from tests.evaluation_cases import GROUPED, INF, LastWord, Moody, Ordered

BOTH = pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda p: p.name)


@pytest.mark.parametrize(
    ("costs", "protocol", "expected"),
    [
        ([1.0, 1.0, 1.0], PAPER, False),
        ([1.0, 1.0, 2.0], PAPER, True),
        ([1.0, 1.0, 2.0], AFABENCH, False),
    ],
)
def test_unequal_costs_need_a_rollout_for_each_budget_if_that_is_seen(
    costs: list[float], protocol: Protocol, expected: bool
) -> None:
    problem = Problem(np.eye(3), costs, 3, 2)
    assert needs_separate_rollouts(problem, protocol) is expected


def final_states(problem: Problem, episodes: Episodes) -> dict[str, np.ndarray]:
    """Read off plainly what became of every row."""
    choices = np.asarray(episodes.choices)
    acquired = np.array([[1 + action in row for action in range(ACTIONS)] for row in choices])
    frequencies = [[(step == 1 + action).mean() for action in range(ACTIONS)] for step in choices.T]
    return {
        "acquired": acquired,
        "spent": acquired @ np.asarray(problem.costs),
        "forced_stop": np.asarray(episodes.forced_stop),
        "frequencies": np.array(frequencies),
    }


# Policies and tables are PyTrees of arrays here, so that plain jit will do.
all_rollouts = jax.jit(
    budget_rollouts, static_argnames=("protocol", "n_steps", "separate"), compiler_options=FAST
)
one_rollout = jax.jit(acquire, static_argnums=(4, 5), compiler_options=FAST)
BUDGETS = [0.25, 1.0, 2.0, 3.5, 20.0]


@BOTH
@given(case=cases(), equal=st.booleans(), stops=st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_curve_is_that_of_separate_rollouts(
    protocol: Protocol, case: Case, equal: bool, stops: bool
) -> None:
    problem, table = case.problem, case.table
    if equal:
        problem = eqx.tree_at(lambda p: p.costs, problem, jnp.full(ACTIONS, 1.0))
    drawn = np.random.default_rng([case.seed, 5]).normal(size=(ROWS, 2**ACTIONS, 1 + ACTIONS))
    policy = Moody(jnp.asarray(drawn, jnp.float32).at[..., 0].add(0.0 if stops else -INF))
    separate = needs_separate_rollouts(problem, protocol)
    found = all_rollouts(
        jr.key(case.seed % 1000),
        policy,
        problem,
        table,
        jnp.asarray(BUDGETS),
        protocol=protocol,
        n_steps=ACTIONS,
        separate=separate,
    )
    for point, budget in enumerate(BUDGETS):
        limited = problem.at(budget)
        alone = one_rollout(jr.key(case.seed % 1000), policy, limited, table, protocol, ACTIONS)
        for name, expected in final_states(limited, alone).items():
            np.testing.assert_allclose(getattr(found, name)[point], expected, rtol=1e-6, err_msg=name)


def test_no_more_rows_than_asked_for_are_drawn() -> None:
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(50, 3)), rng.integers(0, 2, 50))
    assert sample_rows(table, 50, seed=0) is table
    assert not np.array_equal(sample_rows(table, 20, seed=0).x, sample_rows(table, 20, seed=1).x)
    with pytest.raises(InputError, match="max_rows must be a whole number of at least 1, got 0"):
        sample_rows(table, 0, seed=0)


def test_stacked_replicates_are_evaluated_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    tables = [Table(rng.normal(size=(20, 4)), rng.integers(0, 2, 20), n_classes=2) for _ in range(3)]
    policies = [Ordered(jnp.asarray([-INF, *rng.normal(size=3)], jnp.float32)) for _ in range(3)]
    predictors = [LastWord(jnp.asarray(strength)) for strength in (0.5, 1.0, -1.0)]
    budgets = [1.0, 3.0, 5.0]

    def stack(*each: Any) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)

    def one(key: Any, policy: Any, table: Any, predictor: Any) -> Any:
        found = budget_rollouts(
            key, policy, GROUPED, table, jnp.asarray(budgets), protocol=PAPER, n_steps=3, separate=True
        )
        return found, predict_in_jax(predictor, GROUPED, table, found.acquired)

    keys = jnp.stack([jr.key(number) for number in range(3)])
    rollouts, probabilities = jax.jit(jax.vmap(one))(
        keys, stack(*policies), stack(*tables), stack(*predictors)
    )
    rollouts, probabilities = jax.device_get((rollouts, probabilities))
    for number, table in enumerate(tables):
        mine = Rollouts(*(leaf[number] for leaf in rollouts))
        together = score_table(mine, probabilities[number], table.y)
        alone = evaluate(policies[number], GROUPED, table, predictors[number], budgets=budgets)
        pd.testing.assert_frame_equal(together, alone.drop(columns="budget"), rtol=1e-5)
    assert len({float(rollouts.spent[number].sum()) for number in range(3)}) > 1


def test_a_sample_by_class_has_all_rows_of_a_rare_class_and_keeps_means() -> None:
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [4000, 30, 970])
    table = Table(rng.normal(size=(5000, 2)) + y[:, None], y)
    drawn, weight = sample_by_class(table, 300, seed=0)
    assert np.bincount(np.asarray(drawn.y)).tolist() == [135, 30, 135]
    assert weight.mean() == pytest.approx(1.0)
    shares = np.bincount(np.asarray(drawn.y), weight) / 300
    assert shares == pytest.approx(np.bincount(y) / 5000)
    same, equal = sample_by_class(table, 5000, seed=0)
    assert same is table
    assert (equal == 1).all()


def test_many_rows_are_rolled_out_in_blocks_as_they_would_be_at_once() -> None:
    n_rows = 2 * ROWS_AT_ONCE + 100
    rng = np.random.default_rng(2)
    table = Table(rng.normal(size=(n_rows, 4)), rng.integers(0, 2, n_rows))
    policy = Ordered(jnp.asarray([-INF, 1.0, 3.0, 2.0], jnp.float32))
    at_once = budget_rollouts(
        *(jr.key(0), policy, GROUPED, table, jnp.asarray([2.0])), protocol=PAPER, n_steps=2, separate=False
    )
    in_blocks = roll_out(jr.key(0), policy, GROUPED, table, [2.0])
    for name in ("acquired", "spent", "forced_stop"):
        np.testing.assert_array_equal(getattr(in_blocks, name), getattr(at_once, name))
    np.testing.assert_allclose(
        in_blocks.frequencies, at_once.frequencies[:, : in_blocks.frequencies.shape[1]], rtol=1e-5
    )
