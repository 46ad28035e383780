"""Values by row agree with the package's other estimates, and the rule for the budget is kept."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import PAPER, InputError, Policy, Table, evaluate, evaluate_incomplete
from ascertain.evaluation._partial_rollouts import (
    Target,
    common_importance_weights,
    importance_weights,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._row_values import row_values
from ascertain.restoration import fit_hotdeck, fit_mean, restore
from tests.incomplete_cases import CLEAR, PROBLEM, VAGUE, Believes, Chooses, draw, exact_scores, hide

ROWS = 600


class InOrder(Policy):
    """Acquires action 2, then 1, then 0."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        del x, observed, available, key
        return jnp.broadcast_to(jnp.array([-jnp.inf, 1.0, 2.0, 3.0]), (acquired.shape[0], 4))


def rows(n_rows: int = ROWS, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    return hide(rng, draw(rng, n_rows))


RESTORER = fit_hotdeck(jr.key(0), PROBLEM, rows(seed=1))


def test_the_mean_is_the_doubly_robust_estimate() -> None:
    found = row_values([Chooses()], PROBLEM, rows(), Believes(), restorer=RESTORER, draws=3)
    same = evaluate_incomplete(
        Chooses(), PROBLEM, rows(), Believes(), restorer=RESTORER, draws=3, resamples=2
    ).query("estimator == 'dr' and metric == 'brier'")
    assert found.values.shape == (1, ROWS)
    assert found.values.mean() == pytest.approx(1 - same["estimate"].item() / 2, abs=1e-9)
    assert (found.estimator, found.budget) == ("dr", 2.0)
    assert found.effective_rows == pytest.approx(same["effective_rows"].item())


def test_where_decisions_cost_something_that_counts() -> None:
    problem = PROBLEM.with_decision_costs([[0.0, 1.0], [7.0, 0.5]])
    found = row_values([Chooses()], problem, rows(), Believes(), restorer=RESTORER, draws=3)
    same = evaluate_incomplete(
        Chooses(), problem, rows(), Believes(), restorer=RESTORER, draws=3, resamples=2
    ).query("estimator == 'dr' and metric == 'decision_cost'")
    assert found.values.mean() == pytest.approx(-same["estimate"].item(), abs=1e-9)


def test_the_truth_is_within_the_standard_error() -> None:
    found = row_values([Chooses()], PROBLEM, rows(8000), Believes(), restorer=RESTORER).values[0]
    error = found.std() / np.sqrt(len(found))
    assert found.mean() == pytest.approx(1 - exact_scores()["brier"] / 2, abs=4 * error)


def test_a_paired_difference_is_more_exact_than_its_parts() -> None:
    one, other = row_values([Chooses(), InOrder()], PROBLEM, rows(), Believes(), restorer=RESTORER).values
    assert (one - other).std() < np.hypot(one.std(), other.std())


@pytest.mark.parametrize(("share", "budget"), [(0.0, 2.0), (0.999, 1.0)])
def test_the_largest_budget_with_enough_rows_counts(share: float, budget: float) -> None:
    policies = [Chooses(), InOrder()]
    given = (PROBLEM, rows(), Believes())
    sizes = [
        row_values(policies, *given, restorer=RESTORER, budgets=[each], enough=0.0).effective_rows
        for each in (1.0, 2.0)
    ]
    assert sizes[0] > sizes[1]
    enough = share * sizes[0]
    found = row_values(policies, *given, restorer=RESTORER, budgets=[1.0, 0.0, 2.0], enough=enough)
    assert (found.estimator, found.budget) == ("dr", budget)


@pytest.mark.parametrize("policies", [[Chooses(), Chooses()], [Chooses(), InOrder()]])
def test_else_holes_are_filled_by_the_outcome_model(policies: list[Policy]) -> None:
    enough = np.inf if isinstance(policies[1], InOrder) else 0.0  # policies that are alike say nothing
    table, means = rows(), fit_mean(rows(seed=1))
    found = row_values(
        policies, PROBLEM, table, Believes(), restorer=means, budgets=[1.0, 2.0], enough=enough
    )
    assert (found.estimator, found.budget, found.effective_rows) == ("filled", 2.0, ROWS)
    filled = restore(jr.key(0), means, table)  # the same every time
    for policy, values in zip(policies, found.values, strict=True):
        brier = evaluate(policy, PROBLEM, filled, Believes(), budgets=[2.0])["brier"].item()
        assert values.mean() == pytest.approx(1 - brier / 2, abs=1e-6)


class Knows(eqx.Module):
    """Draws from the distribution that rows come from, given their class and feature 0."""

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "rows features"]:
        clear, vague = (jnp.asarray(each, jnp.float32)[table.y] for each in (CLEAR, VAGUE))
        share = jnp.where(table.x[:, :1] > 0.5, vague, clear)
        drawn = (jr.uniform(key, share.shape) < share).astype(table.x.dtype)
        return jnp.concatenate([table.x[:, :1], drawn], axis=1)


def test_filled_by_the_true_distribution_rows_tell_what_a_policy_is_worth() -> None:
    table = rows(8000)
    found = row_values([Chooses()], PROBLEM, table, Believes(), restorer=Knows(), enough=np.inf)
    values = found.values[0]
    error = values.std() / np.sqrt(len(values))
    assert found.estimator == "filled"
    assert values.mean() == pytest.approx(1 - exact_scores()["brier"] / 2, abs=4 * error)


def test_propensities_are_the_same_for_all_policies_and_count_equal_choices_once() -> None:
    table, fold = rows(), assign_folds(ROWS, 0)
    rollouts = [
        roll_out_partially(jr.key(0), Target(policy, PROBLEM, Believes(), PAPER, 2), table)
        for policy in (Chooses(), InOrder(), Chooses())
    ]
    alone = importance_weights(rollouts[0], PROBLEM, table, fold, 0.02)
    twice = common_importance_weights([rollouts[0], rollouts[2]], PROBLEM, table, fold, 0.02)
    for each in twice:
        np.testing.assert_array_equal(each.cumulative, alone.cumulative)
    together = common_importance_weights(rollouts, PROBLEM, table, fold, 0.02)
    np.testing.assert_array_equal(together[0].cumulative, together[2].cumulative)
    # Only the state of nothing acquired is common to both, and action 2 is not the first choice of the other.
    assert not np.array_equal(together[0].cumulative, together[1].cumulative)


def test_something_must_be_compared() -> None:
    with pytest.raises(InputError, match="there is no policy to compare"):
        row_values([], PROBLEM, rows(), Believes(), restorer=RESTORER)
