"""Scores of a policy on rows with holes: estimated as if everything could be bought, and as they are."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import jax.random as jr
import numpy as np
import pandas as pd

from ascertain._core.clusters import clusters_of
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import Habits
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._incomplete import TooFewRowsError, evaluate_incomplete, rarest_facts
from ascertain.evaluation._intervals import intervals
from ascertain.problem import Table
from ascertain.restoration import Restorer

METRIC = "auroc"
# Of net benefit, for two classes; close together where outcomes are rare.
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_DRAWS_AND_FUTURES = {"standard": (8, 49_152), "low": (4, 16_384)}  # by effort

Estimator = Literal["dr", "ipw", "restricted"]
ESTIMATORS: tuple[Estimator, ...] = ("dr", "ipw", "restricted")  # the best first


@dataclass(frozen=True)
class Score:
    """An estimate and its 95% interval, NaN where there is none, and what it rests on."""

    estimate: float
    low: float
    high: float
    effective_rows: float = np.nan
    rarest_effective_rows: float = np.nan  # of the class that has least
    rarest_class: str = ""
    warning: str = ""  # that a class has few rows
    reason: str = ""  # why there is no estimate

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
    habits: Habits | None = None,
    effort: str = "standard",
    seed: int = 0,
) -> pd.DataFrame:
    """Score an advisor on rows that it was not fitted to, by every estimator.

    The estimates of what the policy would reach if everything could be bought take by far the most time; they
    are made at the budgets `estimated`, and where rows lack something, `outcomes` draws it. All rows are
    followed; a low effort makes fewer draws. Where there are `habits` of measuring, rows as they are would
    tell the class by what they have, so that they are evened out.

    Returns
    -------
    scores
        The columns of `ascertain.evaluate_incomplete`; and, as the estimator `restricted`, the scores of rows
        as they are, in which the policy chooses among what a row has.
    """
    draws, futures = _DRAWS_AND_FUTURES[effort]
    even = table if habits is None else habits.evened(advisor.problem, table, seed)
    thresholds = THRESHOLDS if advisor.problem.n_classes == 2 else ()
    restricted = _score_restricted(advisor, even, budgets, thresholds, seed)
    if not estimated:
        return restricted
    try:
        estimates = evaluate_incomplete(
            advisor.policy,
            advisor.problem,
            table,
            advisor.predictor,
            restorer=outcomes,
            protocol=advisor.protocol,
            budgets=list(estimated),
            draws=draws,
            futures=futures,
            seed=seed,
            thresholds=thresholds,
        )
    except TooFewRowsError:  # too few rows have what the policy asks for, at any of the budgets
        return restricted
    return pd.concat([estimates, restricted], ignore_index=True)


def find_score(scores: pd.DataFrame, budget: float, estimator: str, metric: str = METRIC) -> Score:
    """One of the scores that `score` returned; NaN if it is not among them."""
    wanted = (scores["estimator"] == estimator) & (scores["metric"] == metric)
    found = scores[wanted & np.isclose(scores["budget"], budget)]
    if found.empty:
        return Score(np.nan, np.nan, np.nan)
    return Score(**{each.name: found[each.name].iloc[0] for each in fields(Score)})


def _score_restricted(
    advisor: Advisor, table: Table, budgets: Sequence[float], thresholds: Sequence[float], seed: int
) -> pd.DataFrame:
    """Score rows as they are, in the columns of `evaluate_incomplete`."""
    n_rows, y = len(table.y), np.asarray(table.y)
    given = advisor.policy, advisor.problem, table, advisor.predictor
    samples = predictions_as_they_are(
        jr.key(seed), *given, budgets, protocol=advisor.protocol, thresholds=thresholds
    )
    frames = []
    for sample, budget in zip(samples, budgets, strict=True):
        estimate = sample.scores()
        low, high = intervals(sample, estimate, n_rows, level=0.95, clusters=clusters_of(table.ids))
        frame = pd.DataFrame({"estimate": estimate, "low": low, "high": high}, index=list(estimate))
        frames.append(frame.rename_axis("metric").reset_index().assign(budget=float(budget)))
    return pd.concat(frames, ignore_index=True).assign(
        estimator="restricted",
        effective_rows=float(n_rows),
        followed_rows=n_rows,
        n_rows=n_rows,
        drawn_rows=0,
        reason="",
        **rarest_facts(advisor.problem, y, np.bincount(y)[np.unique(y)].astype(float)),
    )
