"""What the exact study found, as a table."""

import pandas as pd


def regret_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Say where each approach ends: its regret with full planning, and the training size that suffices.

    Parameters
    ----------
    table
        The study's regrets.

    Returns
    -------
    DataFrame
        One row per `d, budget, rate, approach`: `regret` is the mean at the largest size, `zero_from` the
        smallest size from which on every replicate has zero regret (missing if there is none).
    """
    full = table[table["horizon"] == table["budget"]]
    curves = full.groupby(["d", "budget", "rate", "approach", "n"])["regret"].mean()
    return (
        curves.groupby(level=["d", "budget", "rate", "approach"]).apply(_end_of_curve).unstack().reset_index()
    )


def _end_of_curve(curve: "pd.Series[float]") -> "pd.Series[float]":
    sizes = curve.index.get_level_values("n")
    still_lossy = sizes[curve.to_numpy() > 0]
    solved = sizes[sizes > (still_lossy.max() if len(still_lossy) else 0)]
    return pd.Series({"regret": curve.iloc[-1], "zero_from": solved.min() if len(solved) else float("nan")})
