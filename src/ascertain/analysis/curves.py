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
        Actions that nobody takes at a step have no row there.
    """
    # A split in which nobody takes an action has no row of it, but counts.
    splits = results.acquisitions.groupby(_CURVE)["split"].nunique().rename("splits")
    grouped = results.acquisitions.groupby([*_CURVE, "step", "action"], sort=False)["share"]
    shares = grouped.sum().reset_index().merge(splits.reset_index(), on=_CURVE)
    shares["share"] /= shares.pop("splits")
    return shares
