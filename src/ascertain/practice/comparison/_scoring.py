"""Scores of a policy on rows with holes: estimated as if everything could be bought, and as they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jax.random as jr
import numpy as np
import pandas as pd

from ascertain.errors import InputError
from ascertain.estimator._advisor import Advisor
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._incomplete import METRICS, evaluate_incomplete
from ascertain.evaluation._intervals import bootstrap_intervals
from ascertain.evaluation._rollouts import MAX_ROWS, sample_rows
from ascertain.problem import Table
from ascertain.restoration import Restorer

METRIC = "auroc"
RESAMPLES = 500
_ROWS_AND_DRAWS = {"standard": (MAX_ROWS, 8), "low": (MAX_ROWS // 2, 4)}  # by effort
_SHARES = ("auroc", "f1")  # negative weights may take their estimates out of 0 to 1

Estimator = Literal["dr", "ipw", "restricted"]
ESTIMATORS: tuple[Estimator, ...] = ("dr", "ipw", "restricted")  # the best first


@dataclass(frozen=True)
class Score:
    """An estimate and its 95% interval; NaN where there is none."""

    estimate: float
    low: float
    high: float
    effective_rows: float

    @property
    def exists(self) -> bool:
        """Whether there is an estimate."""
        return bool(np.isfinite(self.estimate))


def score(
    advisor: Advisor,
    table: Table,
    budgets: Sequence[float],
    estimated: Sequence[float],
    outcomes: Restorer,
    *,
    effort: str = "standard",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Score an advisor on rows that it was not fitted to, by every estimator.

    The estimates of what the policy would reach if everything could be bought take by far the most time; they
    are made at the budgets `estimated`, and where rows lack something, `outcomes` draws it. A low effort uses
    fewer rows, and fewer draws for each.

    Returns
    -------
    scores
        The columns of `ascertain.evaluate_incomplete`; and, as the estimator `restricted`, the scores of rows
        as they are, in which the policy chooses among what a row has.
    """
    most_rows, draws = _ROWS_AND_DRAWS[effort]
    rows = sample_rows(table, most_rows, seed)
    restricted = _score_restricted(advisor, rows, budgets, resamples, seed)
    try:
        estimates = evaluate_incomplete(
            advisor.policy,
            advisor.problem,
            rows,
            advisor.predictor,
            restorer=outcomes,
            protocol=advisor.protocol,
            budgets=list(estimated),
            draws=draws,
            resamples=resamples,
            seed=seed,
        )
    except InputError:  # too few rows have what the policy asks for, at any of the budgets
        return restricted
    return pd.concat([estimates, restricted], ignore_index=True)


def find_score(scores: pd.DataFrame, budget: float, estimator: str, metric: str = METRIC) -> Score:
    """One of the scores that `score` returned; NaN if it is not among them."""
    wanted = (scores["estimator"] == estimator) & (scores["metric"] == metric)
    found = scores[wanted & np.isclose(scores["budget"], budget)]
    if found.empty:
        return Score(np.nan, np.nan, np.nan, np.nan)
    values = found.iloc[0][["estimate", "low", "high"]].to_numpy(np.float64)
    if metric in _SHARES:
        values = np.clip(values, 0.0, 1.0)
    estimate, low, high = values.tolist()
    return Score(estimate, low, high, effective_rows=float(found["effective_rows"].iloc[0]))


def _score_restricted(
    advisor: Advisor, table: Table, budgets: Sequence[float], resamples: int, seed: int
) -> pd.DataFrame:
    """Score rows as they are, in the columns of `evaluate_incomplete`."""
    n_rows = len(table.y)
    given = advisor.policy, advisor.problem, table, advisor.predictor
    samples = predictions_as_they_are(jr.key(seed), *given, budgets, protocol=advisor.protocol)
    frames = []
    for sample, budget in zip(samples, budgets, strict=True):
        estimate = sample.scores()
        low, high = bootstrap_intervals(sample, n_rows, resamples=resamples, level=0.95, seed=seed)
        frame = pd.DataFrame({"estimate": estimate, "low": low, "high": high}, index=list(METRICS))
        frames.append(frame.rename_axis("metric").reset_index().assign(budget=float(budget)))
    return pd.concat(frames, ignore_index=True).assign(
        estimator="restricted",
        effective_rows=float(n_rows),
        followed_rows=n_rows,
        n_rows=n_rows,
        reason="",
    )
