"""The exact study, where a results folder holds one beside the benchmark."""

from pathlib import Path

import pandas as pd
import pyarrow as pa

from ascertain.errors import InputError
from ascertain.exact.regrets import SCHEMA
from ascertain.exact.study import Sweep, select

_MAIN_RATE = 0.6  # of the paper's figure 3


def read_exact(folder: Path) -> tuple[pd.DataFrame, Sweep]:
    """Read the regrets in a results folder, and find out which sweep they are of."""
    path = folder / "exact" / "regret.parquet"
    if not path.exists():
        raise InputError(f"{path} does not exist; `ascertain exact --out {path.parent}` makes it")
    try:
        table = pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read ({error}); remove it and run `ascertain exact`") from error
    missing = [name for name in SCHEMA.names if name not in table.columns]
    if missing or table.empty:
        what = f"lacks the columns {', '.join(missing)}" if missing else "holds no regrets"
        raise InputError(f"{path} {what}; remove it and run `ascertain exact`")
    sweep = infer_sweep(table)
    return select(table, sweep), sweep


def infer_sweep(table: pd.DataFrame) -> Sweep:
    """Find the sweep that a table of regrets is of.

    Budgets beyond the smallest are studied at the main rate only, which tells it from the others.
    """
    smallest = int(table["budget"].min())
    across_dims = table[table["budget"] == smallest]
    across_budgets = table[table["d"] == across_dims["d"].max()]
    budgets = across_budgets.groupby("rate")["budget"].nunique()
    candidates = [float(rate) for rate in budgets.index[budgets == budgets.max()]]
    main = _MAIN_RATE if _MAIN_RATE in candidates else candidates[0]
    others = sorted(float(rate) for rate in set(across_dims["rate"]) - {main})
    at_main = across_budgets[across_budgets["rate"] == main]
    dims = across_dims.loc[across_dims["rate"] == main, "d"]
    return Sweep(
        dims=sorted(int(d) for d in dims.unique()),
        budgets=sorted(int(budget) for budget in at_main["budget"].unique()),
        rates=[main, *others],
        sizes=sorted(int(n) for n in table["n"].unique()),
        replicates=int(table["replicate"].max()) + 1,
    )
