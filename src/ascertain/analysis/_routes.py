"""What fixed routes achieve (table 1), and how far methods exceed the best one (table 2)."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ascertain.analysis._bootstrap import standard_error
from ascertain.analysis._damage import damage_and_gain, paired_scores
from ascertain.analysis._results import Results, at_largest_budget, main_setting, narrowed
from ascertain.errors import InputError
from ascertain.reporting._names import without_baselines

MEASURES = {"v_static": "V static", "sensitivity": "Δ route", "overlap": "ω route"}


def route_table(results: Results) -> pd.DataFrame:
    """Mean and standard error over splits of what fixed routes achieve at the largest budget (section 5.3).

    One row per dataset, by `v_static`, largest first: `budget`, `splits` and, for each of `v_static`,
    `sensitivity` and `overlap`, its mean, standard error (`_se`) and rank (`_rank`, from 1 for the largest;
    each is ranked on its own).
    """
    rows: list[dict[str, object]] = []
    for dataset, part in at_largest_budget(results.routes).groupby("dataset"):
        row = {"dataset": dataset, "budget": part["budget"].iloc[0], "splits": part["split"].nunique()}
        for measure in MEASURES:
            values = part[measure].dropna()
            row |= {measure: values.mean(), f"{measure}_se": standard_error(values)}
        rows.append(row)
    if not rows:
        raise InputError("the results hold no route structure: there is no routes.parquet, or it is empty")
    table = pd.DataFrame(rows)
    for measure in MEASURES:
        ranks = table[measure].round(12).rank(ascending=False, method="min")
        table[f"{measure}_rank"] = ranks.astype("Int64")
    return table.sort_values("v_static", ascending=False, ignore_index=True)


class MarginAndDamage(NamedTuple):
    """Table 2, and the correlations in its caption.

    The table has one row per method, by damage, smallest first: means over datasets of `complete`, `margin`
    and `damage`, their standard errors (`_se`, from those of the datasets), and the number of `datasets`.
    """

    table: pd.DataFrame
    pearson: float  # between margin and damage, over cells of method and dataset; NaN where not defined
    spearman: float


def adaptivity(results: Results) -> MarginAndDamage:
    """Each method's score on complete data, its margin over the static route, and its damage.

    At the study's main setting (MCAR, p = 0.7 where the study has it), averaged over state variants, without
    baselines.
    """
    cells = adaptivity_cells(results)
    if cells.empty:
        raise InputError(
            "the results hold no dataset with a static route and a method on complete and on restricted data"
        )
    by_method = cells.groupby("method")
    means = by_method[["complete", "margin", "damage"]].mean()
    errors = by_method[["complete_se", "margin_se", "damage_se"]].agg(_error_of_mean)
    counts = by_method["dataset"].nunique().rename("datasets")
    table = pd.concat([means, errors, counts], axis=1).reset_index()
    return MarginAndDamage(table.sort_values("damage", ignore_index=True), *correlations(cells))


def adaptivity_cells(results: Results) -> pd.DataFrame:
    """`complete`, `margin` over the static route and `damage`, with errors, by dataset and method."""
    part = narrowed(results, main_setting(results))
    cells = without_baselines(damage_and_gain(part, "family"))
    cells = cells.merge(route_table(results)[["dataset", "v_static"]], on="dataset")
    cells = cells.dropna(subset=["complete", "damage", "v_static"])
    cells["margin"] = cells["complete"] - cells["v_static"]
    cells = cells.merge(_margin_errors(part), on=["dataset", "method"], how="left")
    kept = ["dataset", "method", *(f"{x}{e}" for x in ("complete", "margin", "damage") for e in ("", "_se"))]
    return cells[kept].reset_index(drop=True)


def _margin_errors(results: Results) -> pd.DataFrame:
    """Standard error of each margin, from the margins of the splits.

    A policy and the static route of a split share its rows and predictor, so their errors do not add up.
    """
    static = at_largest_budget(results.routes)[["dataset", "split", "v_static"]]
    scores = paired_scores(results, "family").merge(static, on=["dataset", "split"])
    scores["margin"] = scores["complete"] - scores["v_static"]
    errors = scores.groupby(["dataset", "method"])["margin"].agg(standard_error)
    return errors.rename("margin_se").reset_index()


def correlations(cells: pd.DataFrame) -> tuple[float, float]:
    """Pearson's and Spearman's correlations of `margin` and `damage`; NaN where they are not defined."""
    margin, damage = cells["margin"], cells["damage"]
    return _pearson(margin, damage), _pearson(_ranks(margin), _ranks(damage))


def _pearson(first: "pd.Series[float]", second: "pd.Series[float]") -> float:
    if len(first) < 3 or first.nunique() < 2 or second.nunique() < 2:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: "pd.Series[float]") -> "pd.Series[float]":
    return values.round(12).rank()  # differences that are equal but for their last bit are ties


def _error_of_mean(errors: "pd.Series[float]") -> float:
    """Standard error of a mean of independent estimates, from theirs."""
    return float(np.sqrt((errors**2).sum(skipna=False)) / len(errors))
