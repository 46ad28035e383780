"""The regrets of the exact study: reading them from a results folder, and their summary."""

from pathlib import Path

import pandas as pd

from ascertain.analysis._results import read_checked
from ascertain.errors import InputError
from ascertain.exact._study import SCHEMA, Sweep, select

_MAIN_RATE = 0.6  # of the paper's figure 3


def read_exact(folder: Path) -> tuple[pd.DataFrame, Sweep]:
    """Read the regrets in a results folder, and infer their sweep."""
    path = folder / "exact" / "regret.parquet"
    if not path.exists():
        raise InputError(f"{path} does not exist; `ascertain exact --out {path.parent}` makes it")
    table = read_checked(path, "remove it and run `ascertain exact`")
    missing = [name for name in SCHEMA.names if name not in table.columns]
    if missing or table.empty:
        what = f"lacks the columns {', '.join(missing)}" if missing else "holds no regrets"
        raise InputError(f"{path} {what}; remove it and run `ascertain exact`")
    sweep = infer_sweep(table)
    return select(table, sweep), sweep


def infer_sweep(table: pd.DataFrame) -> Sweep:
    """Find the sweep that a table of regrets is of.

    The main rate is the one that has budgets beyond the smallest.
    """
    smallest = int(table["budget"].min())
    across_dims = table[table["budget"] == smallest]
    across_budgets = table[table["d"] == across_dims["d"].max()]
    budgets = across_budgets.groupby("rate")["budget"].nunique()
    candidates = [float(rate) for rate in budgets.index[budgets == budgets.max()]]
    main = _MAIN_RATE if _MAIN_RATE in candidates else candidates[0]
    others = sorted(float(rate) for rate in set(across_dims["rate"]) - {main})
    return Sweep(
        dims=_whole(across_dims.loc[across_dims["rate"] == main, "d"]),
        budgets=_whole(across_budgets.loc[across_budgets["rate"] == main, "budget"]),
        rates=[main, *others],
        sizes=_whole(table["n"]),
        replicates=int(table["replicate"].max()) + 1,
    )


def _whole(column: "pd.Series[int]") -> list[int]:
    return sorted(int(value) for value in column.unique())


def check_regrets(table: pd.DataFrame) -> None:
    """Raise unless every replicate is there once, with both of its horizons."""
    identity = ["d", "budget", "rate", "n", "approach", "replicate"]
    duplicated = table.duplicated([*identity, "horizon"])
    if duplicated.any():
        raise InputError(f"the regrets hold a replicate twice: {table[duplicated].iloc[0].to_dict()}")
    horizons = table.groupby(identity).size()
    if (horizons != 2).any():
        first = dict(zip(identity, horizons.index[horizons != 2][0], strict=True))
        raise InputError(f"the regrets lack one of the two horizons of {first}")


def regret_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Regret of each approach with full planning, and the training size that suffices.

    One row per `d, budget, rate, approach`: `regret` is the mean at the largest size, `zero_from` the
    smallest size from which on every replicate has zero regret (missing if there is none).
    """
    arm = ["d", "budget", "rate", "approach"]
    full = table[table["horizon"] == table["budget"]]
    curves = full.groupby([*arm, "n"])["regret"].mean()
    return curves.groupby(level=arm).apply(_end_of_curve).unstack().reset_index()


def _end_of_curve(curve: "pd.Series[float]") -> "pd.Series[float]":
    sizes = curve.index.get_level_values("n")
    still_lossy = sizes[curve.to_numpy() > 0]
    solved = sizes[sizes > (still_lossy.max() if len(still_lossy) else 0)]
    return pd.Series({"regret": curve.iloc[-1], "zero_from": solved.min() if len(solved) else float("nan")})
