"""Scores of a policy on rows with holes: estimated as if everything could be bought, and as they are."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Literal

import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Float

from ascertain._core.clusters import clusters_of
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import Habits
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._decision_scores import DECISION_METRICS
from ascertain.evaluation._incomplete import Estimation, TooFewRowsError, all_estimates, rarest_facts
from ascertain.evaluation._intervals import intervals, row_influences
from ascertain.problem import Table
from ascertain.restoration import Restorer

METRIC = "auroc"
# Of net benefit, for two classes; close together where outcomes are rare.
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_Z = 1.959964  # of a 95% interval
_DRAWS_AND_FUTURES = {"standard": (8, 49_152), "low": (4, 16_384)}  # by effort

Estimator = Literal["dr", "ipw", "restricted"]
_Influences = dict[str, Float[np.ndarray, " instances"]]  # by metric
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


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores at several budgets, and how much every row moves those at the largest one."""

    frame: pd.DataFrame
    influences: Mapping[str, _Influences]  # by estimator, on what policies are compared by


def score(
    advisor: Advisor,
    table: Table,
    budgets: Sequence[float],
    estimated: Sequence[float],
    outcomes: Restorer,
    *,
    habits: Habits | None = None,
    weights: Float[np.ndarray, " rows"] | None = None,
    effort: str = "standard",
    seed: int = 0,
) -> Scores:
    """Score an advisor on rows that it was not fitted to, by every estimator.

    The estimates of what the policy would reach if everything could be bought take by far the most time; they
    are made at the budgets `estimated`, and where rows lack something, `outcomes` draws it. All rows are
    followed; a low effort makes fewer draws. Where there are `habits` of measuring, rows as they are would
    tell the class by what they have, so that they are evened out. `weights` is how much each row counts; by
    default all the same.

    Returns
    -------
    scores
        In its `frame` the columns of `ascertain.evaluate_incomplete`; and, as the estimator `restricted`, the
        scores of rows as they are, in which the policy chooses among what a row has.
    """
    draws, futures = _DRAWS_AND_FUTURES[effort]
    if weights is not None:
        counted = np.flatnonzero(weights)
        table, weights = table.take(counted), weights[counted]
    thresholds = THRESHOLDS if advisor.problem.n_classes == 2 else ()
    even = table if habits is None else habits.evened(advisor.problem, table, seed)
    frame, moved = _score_restricted(advisor, even, budgets, thresholds, weights, seed)
    frames, influences = [frame], {"restricted": moved}
    if estimated:
        estimation = Estimation.of(
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
            sample_weight=weights,
        )
        found = []
        for budget in estimation.budgets:
            here = estimation.at(budget)
            found.append(here.frame())
            if budget == max(estimation.budgets):
                influences |= {name: _compared(here.influences(name)) for name in ("ipw", "dr")}
        with suppress(TooFewRowsError):  # too few rows have what the policy asks for, at any of the budgets
            frames.insert(0, all_estimates(found))
    return Scores(pd.concat(frames, ignore_index=True), influences)


@dataclass(frozen=True)
class Difference:
    """How much better one policy is than another on the same rows, with its 95% interval."""

    estimate: float
    low: float
    high: float
    estimator: Estimator
    metric: str

    @property
    def sure(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def reversed(self) -> "Difference":
        """How much better the other one is."""
        return replace(self, estimate=-self.estimate, low=-self.high, high=-self.low)


def difference(
    ours: Scores, theirs: Scores, budget: float, estimator: Estimator, metric: str = METRIC
) -> Difference | None:
    """The difference of two scores on the same rows, larger where `ours` is better; None if one is missing.

    Its standard error is that of a difference paired by rows. What one row does to both scores cancels, so it
    says more than two intervals that overlap.
    """
    values = [find_score(each.frame, budget, estimator, metric).estimate for each in (ours, theirs)]
    moved = [each.influences.get(estimator, {}).get(metric) for each in (ours, theirs)]
    if not np.isfinite(values).all() or moved[0] is None or moved[1] is None:
        return None
    sign = 1 if metric == METRIC else -1  # a smaller cost is better
    found = float(sign * (values[0] - values[1]))
    margin = _Z * float(np.sqrt(np.square(moved[0] - moved[1]).sum()))
    return Difference(found, found - margin, found + margin, estimator, metric)


def find_score(scores: pd.DataFrame, budget: float, estimator: str, metric: str = METRIC) -> Score:
    """One of the scores that `score` returned; NaN if it is not among them."""
    wanted = (scores["estimator"] == estimator) & (scores["metric"] == metric)
    found = scores[wanted & np.isclose(scores["budget"], budget)]
    if found.empty:
        return Score(np.nan, np.nan, np.nan)
    return Score(**{each.name: found[each.name].iloc[0] for each in fields(Score)})


def _score_restricted(
    advisor: Advisor,
    table: Table,
    budgets: Sequence[float],
    thresholds: Sequence[float],
    weights: Float[np.ndarray, " rows"] | None,
    seed: int,
) -> tuple[pd.DataFrame, _Influences]:
    """Score rows as they are, in the columns of `evaluate_incomplete`."""
    n_rows, y, clusters = len(table.y), np.asarray(table.y), clusters_of(table.ids)
    given = advisor.policy, advisor.problem, table, advisor.predictor
    samples = predictions_as_they_are(
        jr.key(seed),
        *given,
        budgets,
        protocol=advisor.protocol,
        thresholds=thresholds,
        sample_weight=weights,
    )
    frames = []
    for sample, budget in zip(samples, budgets, strict=True):
        estimate = sample.scores()
        low, high = intervals(sample, estimate, n_rows, level=0.95, clusters=clusters)
        frame = pd.DataFrame({"estimate": estimate, "low": low, "high": high}, index=list(estimate))
        frames.append(frame.rename_axis("metric").reset_index().assign(budget=float(budget)))
    last = samples[int(np.argmax(budgets))]
    effective = last.effective_rows(advisor.problem.n_classes)[np.unique(y)]
    facts = pd.concat(frames, ignore_index=True).assign(
        estimator="restricted",
        effective_rows=float(last.weight.sum() ** 2 / np.square(last.weight).sum()),  # Kish (1965)
        followed_rows=n_rows,
        n_rows=n_rows,
        drawn_rows=0,
        reason="",
        **rarest_facts(advisor.problem, y, effective),
    )
    return facts, _compared(row_influences(last, last.scores(), n_rows, clusters=clusters))


def _compared(influences: _Influences) -> _Influences:
    """Those on the scores that policies are compared by."""
    return {name: influences[name] for name in (METRIC, *DECISION_METRICS) if name in influences}
