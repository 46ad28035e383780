"""Missingness damage, restoration gain (section 5.2) and how much of the damage is recovered."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ascertain.analysis._bootstrap import LEVELS, mean_intervals, resamples, standard_errors
from ascertain.analysis._results import Results, Setting, at_setting
from ascertain.protocol import protocol
from ascertain.reporting._names import without_baselines

Level = Literal["family", "variant"]

CELL = ["dataset", "method", "state", "mechanism", "rate", "restorer"]
ARMS = ("complete", "restricted", "restored")
_MEASURES = (*ARMS, "damage", "gain")
_PAIR = ["dataset", "method", "state", "split", "budget", "train_budget"]
_HOLES = ["mechanism", "rate"]
DAMAGED = 0.01  # below this there is no gap to recover
_ROUNDING = 1e-9  # differences of scores are not exact


def damage_and_gain(results: Results, level: Level = "family") -> pd.DataFrame:
    """Measure what missing data cost each method, and what restoration recovered.

    Damage is complete - restricted, gain is restored - restricted, at each dataset's largest budget. All
    numbers of a row are over the same splits: those in which each of its treatments is finished.

    Parameters
    ----------
    results
        The results.
    level
        `family` averages the state variants of a method in each split first, as the paper does, over the
        splits in which all variants are finished. `variant` keeps them apart.

    Returns
    -------
    DataFrame
        One row per dataset, method, state ('' for families), mechanism, rate and each restorer of the study
        ('' if it has none): `splits`; the means `complete`, `restricted`, `restored`; `damage` and `gain`;
        and for each of these five the standard error over splits (`_se`) and the 95% bootstrap interval
        (`_low`, `_high`). NaN where a counterpart is missing.

    Examples
    --------
    `examples/several_completions.py` computes both from a study that it ran.
    """
    scores = paired_scores(results, level)
    scores["damage"] = scores["complete"] - scores["restricted"]
    scores["gain"] = scores["restored"] - scores["restricted"]
    splits = scores.groupby(CELL)["split"].transform("size")
    # Cells with equally many splits are summarised together: there can be thousands.
    found = [_summary(part, int(n)) for n, part in scores.groupby(splits)]
    if not found:
        columns = [f"{measure}{end}" for measure in _MEASURES for end in ("", "_se", "_low", "_high")]
        return pd.DataFrame(columns=[*CELL, "splits", *columns])
    return pd.concat(found).sort_values(CELL, ignore_index=True)


def paired_scores(results: Results, level: Level = "family") -> pd.DataFrame:
    """Put the scores of the treatments beside each other, split by split.

    One row per restricted cell and restorer, with the columns `complete`, `restricted` and `restored`: NaN in
    a column means that the cell has none of that treatment in any split.
    """
    scores = averaged(results.scores, level)
    arms = {arm: scores[scores["treatment"] == arm].rename(columns={"score": arm}) for arm in ARMS}
    restorers = sorted(set(arms["restored"]["restorer"])) or [""]
    restored_on = [*_PAIR, *_HOLES, "restorer"]
    paired = (
        arms["restricted"]
        .drop(columns=["treatment", "restorer"])
        .merge(pd.DataFrame({"restorer": restorers}), how="cross")
        .merge(arms["complete"][[*_PAIR, "complete"]], on=_PAIR, how="left")
        .merge(arms["restored"][[*restored_on, "restored"]], on=restored_on, how="left")
    )
    for arm in ("restored", "complete"):
        # A treatment that a cell has in any split is needed in every split that counts.
        somewhere = paired.groupby(CELL)[arm].transform("count") > 0
        paired = paired[paired[arm].notna() | ~somewhere]
    return paired[[*CELL, "split", *ARMS]].sort_values([*CELL, "split"], ignore_index=True)


def averaged(scores: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Average the state variants of each method where families are compared.

    A method's variants are those that occur anywhere in the results. There is an average only where all of
    them are finished, trained for the same budget.
    """
    columns = [*_PAIR, "treatment", *_HOLES, "restorer"]
    if level == "variant":
        return scores[[*columns, "score"]]
    members = scores.groupby("method")["state"].nunique()
    by = [column for column in columns if column != "state"]
    families = scores.groupby(by, as_index=False, dropna=False).agg(
        score=("score", "mean"), found=("state", "nunique")
    )
    whole = families["found"] == families["method"].map(members)
    return families[whole].assign(state="")[[*columns, "score"]]


def order_by_damage(
    frame: pd.DataFrame, column: Literal["dataset", "method", "policy"], setting: Setting
) -> list[str]:
    """Order datasets, methods or policies by mean damage in a setting, largest first, unknown last.

    The paper uses the order of its main setting in all figures (section 5.2). `frame` is that of
    `damage_and_gain`; to order policies, after `with_policies`.
    """
    compared = without_baselines(frame)
    mean = at_setting(compared, setting).groupby(column)["damage"].mean()
    by_name = mean.reindex(pd.Index(compared[column].unique()).sort_values())
    ordered = by_name.sort_values(ascending=False, kind="stable", na_position="last")
    return [str(name) for name in ordered.index]


def _summary(scores: pd.DataFrame, n: int) -> pd.DataFrame:
    """Summarise cells of `n` splits each, stored as `n` consecutive rows."""
    cells = scores[CELL].iloc[::n].reset_index(drop=True).assign(splits=n)
    values = scores[list(_MEASURES)].to_numpy(np.float64).reshape(-1, n, len(_MEASURES))
    for place, measure in enumerate(_MEASURES):
        by_split = values[:, :, place]
        cells[measure] = by_split.mean(axis=1)
        cells[f"{measure}_se"] = standard_errors(by_split)
        cells[f"{measure}_low"], cells[f"{measure}_high"] = mean_intervals(by_split)
    return cells


def recovery_slopes(results: Results) -> pd.DataFrame:
    """Fit gain = slope x damage through the origin, over datasets and rates.

    The protocol says which cells enter (`ray_fit`): those with damage of at least 0.01, or all. One row per
    method, state variant, mechanism and restorer: `slope` with its 95% bootstrap interval over cells
    (`slope_low`, `slope_high`), NaN without a cell to fit; and the numbers of cells that were `fitted`, that
    are `damaged` by at least 0.01, and of all `cells`.
    """
    by = ["method", "state", "mechanism", "restorer"]
    columns = [*by, "slope", "slope_low", "slope_high", "fitted", "damaged", "cells"]
    rows: list[tuple[Any, ...]] = []
    for key, part in recovery_cells(results).groupby(by):
        damage, gain = part["damage"].to_numpy(float), part["gain"].to_numpy(float)
        hurt = is_damaged(damage)
        entering = hurt if only_damaged(results) else np.ones_like(hurt)
        slope = ray(damage[entering], gain[entering])
        rows.append((*key, *slope, int(entering.sum()), int(hurt.sum()), len(part)))
    return pd.DataFrame(rows, columns=columns)


def recovery_cells(results: Results) -> pd.DataFrame:
    """Cells that have both a damage and a gain, by state variant, without baselines."""
    cells = without_baselines(damage_and_gain(results, "variant"))
    return cells.dropna(subset=["damage", "gain"]).reset_index(drop=True)


def only_damaged(results: Results) -> bool:
    """Whether the protocol fits slopes to damaged cells only."""
    return protocol(results.protocol).ray_fit == "damaged"


def is_damaged(damage: Float[np.ndarray, " cells"]) -> Bool[np.ndarray, " cells"]:
    """Which cells have a gap that is worth recovering."""
    hurt: np.ndarray = damage >= DAMAGED - _ROUNDING
    return hurt


def ray(damage: Float[np.ndarray, " cells"], gain: Float[np.ndarray, " cells"]) -> tuple[float, float, float]:
    """Least-squares slope through the origin, and its bootstrap interval over cells."""
    total = float(damage @ damage)
    if total == 0:
        return float("nan"), float("nan"), float("nan")
    slope = float(damage @ gain) / total
    drawn = resamples(len(damage))
    squares = (damage[drawn] ** 2).sum(axis=1)
    products = (damage[drawn] * gain[drawn]).sum(axis=1)
    low, high = np.percentile(products[squares > 0] / squares[squares > 0], LEVELS)
    return slope, float(low), float(high)
