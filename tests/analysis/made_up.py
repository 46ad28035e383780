"""Results made up by hand: scores per split, from which everything else can be worked out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ascertain.analysis._results import Results, empty_table

Row = dict[str, Any]

# Section 5.2 of the paper, where it is not 10.
PAPER_BUDGETS = {"cube_nm": 14.0, "cube_nuc": 7.0, "heart_disease": 7.0, "diabetes": 15.0, "miniboone": 15.0}


def cell(
    dataset: str,
    method: str,
    treatment: str,
    scores: Sequence[float | None],
    *,
    mechanism: str = "mcar",
    rate: float = 0.7,
    restorer: str = "pvae",
    **more: Any,
) -> list[Row]:
    """Rows of one cell: the score in split 0, in split 1, and so on; None where unfinished."""
    hidden = treatment != "complete"
    return [
        {
            "dataset": dataset,
            "method": method,
            "state": "s",
            "treatment": treatment,
            "restorer": restorer if treatment == "restored" else "",
            "mechanism": mechanism if hidden else "",
            "rate": rate if hidden else 0.0,
            "split": split,
            "protocol": "paper",
            "budget": 10.0,
            "train_budget": PAPER_BUDGETS.get(dataset, 10.0),
            "metric": "accuracy",
            "score": score,
            "shortened": False,
            **more,
        }
        for split, score in enumerate(scores)
        if score is not None
    ]


def arms(
    dataset: str,
    method: str,
    complete: Sequence[float | None],
    restricted: Sequence[float | None],
    restored: Sequence[float | None] = (),
    **more: Any,
) -> list[Row]:
    """Rows of the three treatments."""
    return [
        *cell(dataset, method, "complete", complete, **more),
        *cell(dataset, method, "restricted", restricted, **more),
        *cell(dataset, method, "restored", restored, **more),
    ]


def table(name: str, rows: Sequence[Row]) -> pd.DataFrame:
    """One of the tables, with every column that it has in a results folder."""
    empty = empty_table(name)
    if not rows:
        return empty
    filled = {column: "" if dtype == "str" else 0 for column, dtype in empty.dtypes.astype(str).items()}
    return pd.DataFrame([{**filled, **row} for row in rows])[empty.columns]


def results_of(rows: Sequence[Row], folder: Path = Path("nowhere"), **tables: Sequence[Row]) -> Results:
    """Results as if they had been read."""
    others = {name: table(name, tables.get(name, ())) for name in ("timings", "routes", "acquisitions")}
    return Results(folder=folder, study={}, results=table("results", rows), **others)


def routes(dataset: str, values: Sequence[float], budget: float = 10.0) -> list[Row]:
    """A dataset's rows of route structure: the static score in each split, and measures from it."""
    return [
        {
            "dataset": dataset,
            "split": split,
            "protocol": "paper",
            "budget": budget,
            "v_static": value,
            "sensitivity": value / 2,
            "overlap": 1 - value,
            "routes": 2000,
        }
        for split, value in enumerate(values)
    ]
