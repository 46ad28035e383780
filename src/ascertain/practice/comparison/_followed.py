"""The predictions of a policy at the end of its rollouts: whether its probabilities can be believed."""

from dataclasses import dataclass

import jax.random as jr
import numpy as np
from jaxtyping import Float

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import Habits
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._incomplete import Estimation
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.practice.comparison._scoring import Estimator
from ascertain.problem import Table


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """Weighted predictions after the policy's own acquisitions, and in which rows these were."""

    sample: WeightedPredictions
    as_they_are: bool  # the policy chose among what a row has, as too few rows have what it asks for

    @property
    def estimator(self) -> Estimator:
        """By which scores of these predictions are estimated."""
        return "restricted" if self.as_they_are else "ipw"

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


def follow(
    advisor: Advisor,
    table: Table,
    habits: Habits,
    *,
    weights: Float[np.ndarray, " rows"] | None = None,
    seed: int = 0,
) -> FollowedRows:
    """Predict for test rows, which may have weights, from what the policy acquires at its own budget."""
    problem, budget = advisor.problem.without_names(), float(advisor.problem.budget)
    given = advisor.policy, problem
    estimation = Estimation.of(
        *given,
        table,
        advisor.predictor,
        protocol=advisor.protocol,
        budgets=[budget],
        seed=seed,
        sample_weight=weights,
    )
    found = estimation.at(budget).samples.get("ipw")
    if found is not None and found.effective_rows(problem.n_classes)[np.unique(estimation.rows.y)].min() > 0:
        return FollowedRows(found, as_they_are=False)
    (sample,) = predictions_as_they_are(
        jr.key(seed),
        *given,
        habits.evened(problem, table, seed),
        advisor.predictor,
        [budget],
        protocol=advisor.protocol,
        sample_weight=weights,
    )
    return FollowedRows(sample, as_they_are=True)
