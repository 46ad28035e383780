"""How much of the damage restoration recovers (the paper's figure of gain against damage)."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ascertain.analysis.bootstrap import LEVELS, resamples
from ascertain.analysis.damage import damage_and_gain
from ascertain.analysis.results import Results
from ascertain.protocol import protocol
from ascertain.reporting.names import without_baselines

DAMAGED = 0.01  # below this there is no gap to recover
_ROUNDING = 1e-9  # differences of scores are not exact


def recovery_slopes(results: Results) -> pd.DataFrame:
    """Fit gain = slope x damage through the origin, over datasets and rates.

    The protocol says which cells enter (`ray_fit`): those with damage of at least 0.01, or all.

    Returns
    -------
    DataFrame
        One row per method, state variant, mechanism and restorer: `slope` with its 95% bootstrap interval
        over cells (`slope_low`, `slope_high`), NaN without a cell to fit; `fitted`, the number of cells that
        entered; `damaged`, the number with damage of at least 0.01; `cells`, all of them.
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
