"""Values of recorded policies are those of `row_values`, which has the policies themselves."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import AFABENCH, PAPER, Policy, Problem, Protocol, Table
from ascertain.evaluation._followed import Followed, follow, followed_values, judging_budgets
from ascertain.evaluation._rollouts import needs_separate_rollouts
from ascertain.evaluation._row_values import RowValues, row_values
from ascertain.restoration import fit_hotdeck, fit_mean
from ascertain.restoration._restorer import Restorer
from tests.evaluation.test_row_values import InOrder, rows
from tests.incomplete_cases import PROBLEM, Believes, Chooses, exact_scores

BUDGETS = [1.0, 2.0]
PRICED = Problem(np.eye(4)[1:], np.array([1.0, 2.0, 1.5]), 3, n_classes=2)
MEANS = fit_mean(rows(seed=1))
SEPARATE = {each.name: needs_separate_rollouts(PRICED, each) for each in (PAPER, AFABENCH)}


@eqx.filter_jit
def _follow(
    policy: Policy, problem: Problem, table: Table, restorer: Restorer, protocol: Protocol, enough: float
) -> Followed:
    return follow(
        jr.key(0),
        policy,
        problem,
        table,
        Believes(),
        restorer,
        jnp.asarray(BUDGETS),
        protocol=protocol,
        n_steps=2,
        separate=SEPARATE[protocol.name],
        draws=2,
        enough=enough,
    )


def both(
    problem: Problem, policies: list[Policy], protocol: Protocol = PAPER, enough: float = 100
) -> tuple[RowValues, RowValues]:
    """By records, and by the policies; means are the same in every draw."""
    table, problem = rows(), problem.at(BUDGETS[-1])
    followed = [_follow(each, problem, table, MEANS, protocol, enough).shortened(enough) for each in policies]
    rules: dict[str, Any] = {"budgets": BUDGETS, "protocol": protocol, "enough": enough, "draws": 1}
    direct = row_values(policies, problem, table, Believes(), restorer=MEANS, **rules)
    return followed_values(followed, problem, table, enough=enough), direct


@pytest.mark.parametrize("protocol", [PAPER, pytest.param(AFABENCH, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", [PROBLEM, PRICED])
@pytest.mark.parametrize("enough", [100, 1e9])
def test_values_are_those_of_the_policies_themselves(
    problem: Problem, protocol: Protocol, enough: float
) -> None:
    recorded, direct = both(problem, [Chooses(), InOrder()], protocol, enough)
    assert recorded.estimator == ("dr" if enough == 100 else "filled")
    assert (recorded.estimator, recorded.budget) == (direct.estimator, direct.budget)
    assert recorded.effective_rows == pytest.approx(direct.effective_rows)
    np.testing.assert_allclose(recorded.values, direct.values, atol=1e-5)


def test_the_largest_budget_with_enough_rows_counts() -> None:
    recorded, direct = both(PROBLEM, [Chooses(), InOrder()], enough=300)
    assert (recorded.estimator, recorded.budget) == (direct.estimator, direct.budget) == ("dr", 1.0)
    np.testing.assert_allclose(recorded.values, direct.values, atol=1e-5)


def test_policies_that_are_alike_say_nothing() -> None:
    recorded, direct = both(PROBLEM, [Chooses(), Chooses()])
    assert recorded.estimator == direct.estimator == "filled"
    np.testing.assert_allclose(recorded.values, direct.values, atol=1e-5)


def test_draws_of_the_outcome_model_leave_the_mean_true() -> None:
    table = rows(8000)
    deck = fit_hotdeck(jr.key(0), PROBLEM, rows(seed=1))
    followed = _follow(Chooses(), PROBLEM, table, deck, PAPER, 100).shortened()
    found = followed_values([followed], PROBLEM, table)
    values = found.values[0]
    error = values.std() / np.sqrt(len(values))
    assert (found.estimator, found.budget) == ("dr", 2.0)
    assert values.mean() == pytest.approx(1 - exact_scores()["brier"] / 2, abs=4 * error)


def test_many_policies_are_followed_at_once() -> None:
    """In one `vmap` each stops when it has enough of futures, as it does alone."""
    tables = [rows(seed=2), rows(seed=3)]
    tables[1] = tables[1].with_cells(tables[1].x, tables[1].available & (jnp.arange(600)[:, None] < 120))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tables)
    together = jax.vmap(lambda table: _follow(Chooses(), PROBLEM, table, MEANS, PAPER, 100))(stacked)
    for place, table in enumerate(tables):
        alone = _follow(Chooses(), PROBLEM, table, MEANS, PAPER, 100)
        for leaf, own in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(leaf[place], own, atol=1e-6)
    assert not together.futures[1].any()
    assert len(jax.tree.map(lambda leaf: leaf[1], together).shortened().budgets) == 0


def test_budgets_are_equally_spaced() -> None:
    np.testing.assert_allclose(judging_budgets(PROBLEM), np.arange(1, 9) / 4)
