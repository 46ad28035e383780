"""Scores over budgets, and what is acquired when, averaged over splits."""

import pandas as pd

from ascertain.analysis.bootstrap import standard_error
from ascertain.analysis.damage import Level, averaged
from ascertain.analysis.results import Results

_CURVE = ["dataset", "method", "state", "treatment", "restorer", "mechanism", "rate"]


def budget_curves(results: Results, level: Level = "variant") -> pd.DataFrame:
    """Give the mean score at each budget.

    Returns
    -------
    DataFrame
        One row per dataset, method, state ('' for families), treatment, restorer, mechanism, rate and
        budget: `score`, its standard error over splits (`score_se`) and the number of `splits`.
    """
    scores = averaged(results.results.dropna(subset="score"), level)
    grouped = scores.groupby([*_CURVE, "budget"])["score"]
    curves = grouped.agg(score="mean", splits="count")
    curves["score_se"] = grouped.agg(standard_error)
    return curves.reset_index()


def mean_shares(results: Results) -> pd.DataFrame:
    """Give the share of rows that take each action at each step, averaged over splits.

    Returns
    -------
    DataFrame
        One row per dataset, method, state, treatment, restorer, mechanism, rate, step and action: `share`.
        Actions come in the order in which the study lists them.
    """
    grouped = results.acquisitions.groupby([*_CURVE, "step", "action"], sort=False)["share"]
    return grouped.agg(share="mean").reset_index()
