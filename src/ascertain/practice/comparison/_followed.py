"""The predictions of a policy at the end of its rollouts: whether its probabilities can be believed."""

from dataclasses import dataclass

import jax.random as jr
import numpy as np

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import Habits
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._incomplete import LEAST_EFFECTIVE_ROWS
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._partial_rollouts import (
    Target,
    complete_predictions,
    importance_weights,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._rollouts import most_steps
from ascertain.problem import Table

_CLIP = 0.02  # as in `evaluate_incomplete`


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """Weighted predictions after the policy's own acquisitions, and in which rows these were."""

    sample: WeightedPredictions
    as_they_are: bool  # the policy chose among what a row has, as too few rows have what it asks for

    @property
    def caption(self) -> str:
        """Which rows these are, in words."""
        n_rows = len(self.sample.row)
        if self.as_they_are:
            return (
                f"{n_rows:,} test rows, predicted from what the policy acquired among what a row has, as too "
                "few rows have all that it asks for"
            )
        return (
            f"The {n_rows:,} test rows in which the policy could be followed to the end, predicted from what "
            "it acquired, and weighted by one over the probability of that"
        )


def follow(advisor: Advisor, table: Table, habits: Habits, *, seed: int = 0) -> FollowedRows:
    """Predict for test rows from what the policy acquires in them at its own budget."""
    problem, budget = advisor.problem.without_names(), float(advisor.problem.budget)
    n_steps = most_steps(problem, [budget])
    target = Target(advisor.policy, problem, advisor.predictor, advisor.protocol, n_steps)
    rollouts = roll_out_partially(jr.key(seed), target, table)
    weights = importance_weights(rollouts, problem, table, assign_folds(len(table.y), seed), _CLIP)
    effective = weights.effective_rows_of(np.asarray(table.y))
    if weights.effective_rows >= LEAST_EFFECTIVE_ROWS and not weights.gaps and effective.min() > 0:
        return FollowedRows(complete_predictions(target, table, rollouts, weights), as_they_are=False)
    (sample,) = predictions_as_they_are(
        jr.key(seed),
        advisor.policy,
        problem,
        habits.evened(problem, table, seed),
        advisor.predictor,
        [budget],
        protocol=advisor.protocol,
    )
    return FollowedRows(sample, as_they_are=True)
