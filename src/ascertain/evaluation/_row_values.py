"""What several policies are worth, row by row in the same rows with holes, so that they can be compared.

All policies are judged in the same way: by the same predictor, the same propensities and folds, and the same
outcome model. So the difference of two policies has a contribution of every row, and its standard error is
that of a mean.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Float

from ascertain._core.checks import check_count
from ascertain._core.clusters import clusters_of
from ascertain.errors import InputError
from ascertain.evaluation._curves import check_budgets
from ascertain.evaluation._futures import MOST_FUTURES, Futures, doubly_robust_predictions
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._partial_rollouts import (
    PartialRollouts,
    Target,
    common_importance_weights,
    complete_predictions,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._rollouts import most_steps, roll_out
from ascertain.evaluation._worth import worth
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer, restore

ENOUGH_ROWS = 100  # effective ones
CLIP = 0.02  # the least propensity
FILLINGS = 4  # of the holes of every row, for each draw of the doubly robust estimate


class RowValues(NamedTuple):
    """What policies are worth in each row at one budget, and how that was found."""

    values: Float[np.ndarray, "policies rows"]  # see `worth`: larger is better
    estimator: Literal["dr", "filled"]
    budget: float
    effective_rows: float  # of the policy that fewest rows support; of those that are filled, all


def row_values(
    policies: Sequence[Policy],
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    restorer: Restorer,
    budgets: Sequence[float] | None = None,
    protocol: Protocol = PAPER,
    draws: int = 4,
    clip: float = CLIP,
    enough: float = ENOUGH_ROWS,
    seed: int = 0,
) -> RowValues:
    """Estimate what each policy is worth in each row if every action could be bought.

    The estimate is the doubly robust one of `evaluate_incomplete`, at the largest budget at which all
    policies have `enough` effective rows, and do not all choose the same in every row. If there is none,
    the outcome model fills the holes of every row several times, with the same values for all policies, and
    these are rolled out at the largest budget. Among the actions that a row happens to have, those policies
    would look best that learned to choose among such actions.

    Parameters
    ----------
    policies
        Fitted to other rows.
    table
        Rows with holes, each once.
    restorer
        The outcome model for all policies, fitted to other rows.
    problem, predictor, budgets, protocol, draws, clip, seed
        As for `evaluate_incomplete`.
    enough
        The least effective sample size of rows with complete rollouts.
    """
    problem.check(table)
    check_count("draws", draws, least=1)
    if not policies:
        raise InputError("there is no policy to compare")
    amounts = sorted(check_budgets(problem, budgets).tolist(), reverse=True)
    n_steps, key, costs = most_steps(problem, amounts), jr.key(seed), _decision_costs(problem)
    fold, y = assign_folds(len(table.y), seed, clusters_of(table.ids)), np.asarray(table.y)
    for budget in amounts:
        limited = problem.without_names().at(budget)
        targets = [
            Target(each.at(limited.budget), limited, predictor, protocol, n_steps) for each in policies
        ]
        rollouts = [roll_out_partially(key, target, table) for target in targets]
        weights = common_importance_weights(rollouts, limited, table, fold, clip)
        effective = min(each.effective_rows for each in weights)
        if effective < enough or any(each.gaps for each in weights) or all_alike(rollouts):
            continue
        values = []
        for target, rolled, weight in zip(targets, rollouts, weights, strict=True):
            complete = complete_predictions(target, table, rolled, weight)
            rng = np.random.default_rng(seed)
            futures = Futures.chosen(weight, y, draws=draws, most=MOST_FUTURES, rng=rng)
            sample = doubly_robust_predictions(
                jr.fold_in(key, 1), target, table, rolled, futures, restorer, complete
            )
            values.append(_by_row(sample, len(fold), costs))
        return RowValues(np.stack(values), "dr", budget, effective)
    found = np.zeros((len(policies), len(fold)))
    for filling, acting in jr.split(jr.fold_in(key, 0), (FILLINGS * draws, 2)):
        filled = (_restore if isinstance(restorer, eqx.Module) else restore)(filling, restorer, table)
        for place, each in enumerate(policies):
            reached = roll_out(acting, each, problem, filled, amounts[:1], protocol=protocol).acquired
            predicted = predict_sets(predictor, problem, filled, reached)[0]
            found[place] += worth(np.asarray(predicted, np.float64), y, costs)
    return RowValues(found / (FILLINGS * draws), "filled", amounts[0], float(len(fold)))


def all_alike(rollouts: Sequence[PartialRollouts]) -> bool:
    """Whether several policies do not differ in any row, as far as it supports them."""
    chosen = [np.where(each.valid, each.choices, 0) for each in rollouts]
    return len(rollouts) > 1 and all(np.array_equal(chosen[0], each) for each in chosen)


def _by_row(
    sample: WeightedPredictions, n_rows: int, costs: Float[np.ndarray, "classes classes"] | None
) -> Float[np.ndarray, " rows"]:
    """Add up the weighted predictions of each row, whose weights sum to 1."""
    values = worth(sample.probabilities.astype(np.float64), sample.y, costs)
    return np.bincount(sample.row, sample.weight * values, minlength=n_rows)


def _decision_costs(problem: Problem) -> Float[np.ndarray, "classes classes"] | None:
    return None if problem.decision_costs is None else np.asarray(problem.decision_costs, np.float64)


_restore = eqx.filter_jit(restore)
