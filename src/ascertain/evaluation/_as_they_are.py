"""Rollouts in rows as they are: a policy chooses among what a row has, and predicts from what it acquired."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ascertain._core.padding import padded_rows, round_up
from ascertain.evaluation._decision_scores import with_decisions
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.evaluation._rollouts import ROWS_AT_ONCE, roll_out
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol


def predictions_as_they_are(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    budgets: Sequence[float],
    *,
    protocol: Protocol,
    thresholds: Sequence[float] = (),
    sample_weight: Float[np.ndarray, " rows"] | None = None,
) -> list[WeightedPredictions]:
    """Predict for every row after its rollout, at each budget.

    `thresholds` are those of net benefit; `sample_weight` is what rows weigh, by default all the same.
    """
    n_rows = len(table.y)
    weight = np.ones(n_rows) if sample_weight is None else sample_weight
    # Repeated up to a power of two or to whole blocks, so that tables share compiled programs.
    size = round_up(n_rows) if n_rows <= ROWS_AT_ONCE else -(-n_rows // ROWS_AT_ONCE) * ROWS_AT_ONCE
    rows = table.take(padded_rows(n_rows, size))
    reached = roll_out(key, policy, problem, rows, list(budgets), protocol=protocol)
    predicted = predict_sets(predictor, problem, rows, reached.acquired)
    probabilities, acquired, spent, forced = (
        np.asarray(values, np.float64)[:, :n_rows]
        for values in (predicted, reached.acquired, reached.spent, reached.forced_stop)
    )
    samples = [
        WeightedPredictions(
            row=np.arange(n_rows),
            weight=weight,
            probabilities=probabilities[place],
            y=np.asarray(table.y),
            amounts={
                "mean_cost": spent[place],
                "mean_acquisitions": acquired[place].sum(axis=1),
                "forced_stop_rate": forced[place],
            },
        )
        for place in range(len(budgets))
    ]
    return [with_decisions(sample, problem, thresholds) for sample in samples]
