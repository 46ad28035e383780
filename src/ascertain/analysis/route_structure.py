"""The route structure of the datasets (section 5.3, table 1), from the routes that a study has scored."""

import pandas as pd

from ascertain.analysis.bootstrap import standard_error
from ascertain.analysis.results import Results, at_largest_budget
from ascertain.errors import InputError

MEASURES = ("v_static", "sensitivity", "overlap")  # V_static, Delta_route and omega_route


def route_table(results: Results) -> pd.DataFrame:
    """Give mean and standard error over splits of what fixed routes achieve at the largest budget.

    Returns
    -------
    DataFrame
        One row per dataset, by `v_static`, largest first: `budget`, `splits` and, for each of `v_static`,
        `sensitivity` and `overlap`, its mean, standard error (`_se`) and rank (`_rank`, from 1 for the
        largest; each is ranked on its own).
    """
    routes = at_largest_budget(results.routes)
    rows = []
    for dataset, part in routes.groupby("dataset"):
        row: dict[str, object] = {
            "dataset": dataset,
            "budget": part["budget"].iloc[0],
            "splits": part["split"].nunique(),
        }
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
