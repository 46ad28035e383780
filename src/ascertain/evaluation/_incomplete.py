"""Scores that a policy would have if every action could be bought, estimated from rows with missing values.

`evaluate` scores a policy on rows as they are, in which it cannot acquire what they lack. Here the policy
chooses as if everything were available, and a row supports its rollout up to the first choice that it lacks.
Two estimates are made of every score:

- `ipw`, inverse propensity weighting, uses the rows with complete rollouts and weights them by the inverse
  probability of that, a product over their choices.
- `dr`, a doubly robust form, also uses the other rows: rollouts continue from every step in rows that an
  outcome model completes without seeing the label, and the weights correct the model's errors.

Both assume that whether a row has what is chosen depends only on what is known of it: features that every row
has, what was acquired before, and the class (who is ill is tested more). Where it also depends on values that
nobody measured (MNAR), the estimates are biased, and the intervals do not show it.
"""

from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray

from ascertain._core.checks import check_count, is_real
from ascertain.errors import InputError
from ascertain.evaluation._curves import check_budgets
from ascertain.evaluation._intervals import WeightedPredictions, bootstrap_intervals
from ascertain.evaluation._partial_rollouts import (
    ImportanceWeights,
    PartialRollouts,
    Target,
    complete_predictions,
    doubly_robust_predictions,
    importance_weights,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._rollouts import MAX_ROWS, most_steps, sample_rows
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer, label_free

LEAST_EFFECTIVE_ROWS = 30
METRICS = (
    *("accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"),
    *("mean_cost", "mean_acquisitions", "forced_stop_rate"),
)


class TooFewRowsError(InputError):
    """Too few rows can be followed to the end for an estimate at any budget."""


def evaluate_incomplete(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    restorer: Restorer | None = None,
    protocol: Protocol = PAPER,
    budgets: Sequence[float] | None = None,
    draws: int = 8,
    resamples: int = 1000,
    level: float = 0.95,
    clip: float = 0.02,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = MAX_ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate from rows with missing values how a policy would score if every action could be bought.

    Parameters
    ----------
    policy, problem, predictor, protocol, budgets, max_rows
        As for `evaluate`; the policy was fitted to other rows.
    table
        Test rows with missing values. A feature that no action reveals counts as 0 where a row lacks it.
    restorer
        The outcome model: draws missing values; fitted to other rows. Without one there is no `dr`.
    draws
        How many draws complete a row from each step of its rollout.
    resamples
        How many bootstrap resamples make the intervals; 0: no intervals (NaN). Propensities are not fitted
        again to each; that they were estimated is accounted for by regression (see
        `ascertain.evaluation._intervals`).
    level
        The share of the resamples' scores that an interval holds.
    clip
        The least propensity; a smaller one counts as this one. This bounds the weights, at the price of bias
        where smaller ones are true.
    key
        The random key, for stochastic policies and for the draws; by default made from `seed`.
    seed
        Of all else that is random: the rows if there are too many, their folds, and the resamples.

    Returns
    -------
    estimates
        One row per budget, estimator and metric (those of `evaluate`): `budget`, `estimator`, `metric`,
        `estimate`, and the bootstrap percentile interval from `low` to `high`; `effective_rows`, the
        effective sample size of the `followed_rows` with complete rollouts, of `n_rows`; and `reason`, empty
        unless there are fewer than 30 effective rows and so no estimate (NaN). If there are too few at every
        budget, an `InputError` is raised.
    """
    problem.check(table)
    amounts = check_budgets(problem, budgets).tolist()
    check_count("draws", draws, least=1)
    if resamples != 0:
        check_count("resamples", resamples, least=2)
    level, clip = _check_share("level", level), _check_share("clip", clip)
    estimators = ("ipw",) if restorer is None else ("ipw", "dr")
    model = None if restorer is None else label_free(restorer)
    rows, n_steps = sample_rows(table, max_rows, seed), most_steps(problem, amounts)
    fold = assign_folds(len(rows.y), seed)
    key = jr.key(seed) if key is None else key
    records = []
    for budget in amounts:
        limited = problem.without_names().at(budget)
        target = Target(policy.at(limited.budget), limited, predictor, protocol, n_steps)
        rollouts = roll_out_partially(key, target, rows)
        weights = importance_weights(rollouts, limited, rows, fold, clip)
        facts = _support(budget, rollouts, weights)
        samples: dict[str, WeightedPredictions] = {}
        if not facts["reason"]:
            samples["ipw"] = complete = complete_predictions(target, rows, rollouts, weights)
            if model is not None:
                samples["dr"] = doubly_robust_predictions(
                    jr.fold_in(key, 1), target, rows, rollouts, weights, model, draws, complete
                )
        for estimator in estimators:
            estimate = low = high = dict.fromkeys(METRICS, np.nan)
            if (sample := samples.get(estimator)) is not None:
                estimate = sample.scores()
                low, high = bootstrap_intervals(
                    sample, len(fold), weights.residuals, resamples=resamples, level=level, seed=seed
                )
            for metric in METRICS:
                scores = {"estimate": estimate[metric], "low": low[metric], "high": high[metric]}
                records.append({"budget": budget, "estimator": estimator, "metric": metric} | scores | facts)
    found = pd.DataFrame(records)
    if (found["reason"] != "").all():
        reasons = "; ".join(found["reason"].unique())
        raise TooFewRowsError(
            f"{reasons}. An estimate needs {LEAST_EFFECTIVE_ROWS} effective rows: give more test rows, or a "
            "smaller budget, with which the policy can be followed further"
        )
    return found


def _check_share(what: str, value: float) -> float:
    if not (is_real(value) and 0 < value < 1):
        raise InputError(f"{what} must be above 0 and below 1, got {value!r}")
    return float(value)


def _support(budget: float, rollouts: PartialRollouts, weights: ImportanceWeights) -> dict[str, Any]:
    """Compute the effective sample size at a budget, with the reason if it does not allow for an estimate."""
    n_rows, n_complete = len(rollouts.complete), int(rollouts.complete.sum())
    effective = weights.effective_rows
    reason = (
        f"at budget {budget:g}, {n_complete} of {n_rows} rows could be followed to the end, an effective "
        f"sample size of {effective:.1f} rows"
    )
    return {
        "effective_rows": effective,
        "followed_rows": n_complete,
        "n_rows": n_rows,
        "reason": "" if effective >= LEAST_EFFECTIVE_ROWS else reason,
    }
