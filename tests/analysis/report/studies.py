"""Results made by hand, with scores chosen so that what follows from them is known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ascertain.analysis._results import Results, empty_table

Scores = Mapping[str, float | None]  # complete, restricted and restored; None: not run


def results_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Fill in the columns of `results.parquet` that a test does not care about."""
    frame = pd.DataFrame([{**_DEFAULTS, **row} for row in rows])
    identity = ["dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "split"]
    hashes = pd.util.hash_pandas_object(frame[identity].astype(str), index=False)
    return frame.assign(cell=[f"{each:016x}" for each in hashes])[empty_table("results").columns]


def grid(
    scores: Callable[[str, str, int], Scores],
    *,
    datasets: Iterable[str] = ("cube", "actg175"),
    methods: Iterable[str] = ("aaco", "dime"),
    splits: Iterable[int] = range(5),
    mechanism: str = "mcar",
    rate: float = 0.7,
    **more: Any,
) -> list[dict[str, Any]]:
    """Rows of a small study from `scores(method, dataset, split)`."""
    rows = []
    for dataset, method, split in product(datasets, methods, splits):
        for treatment, score in scores(method, dataset, split).items():
            row = {
                "dataset": dataset,
                "method": method,
                "split": split,
                "treatment": treatment,
                "score": score,
            }
            if treatment != "complete":
                row |= {"mechanism": mechanism, "rate": rate}
            if treatment == "restored":
                row["restorer"] = "pvae"
            if score is not None:
                rows.append({**row, **more})
    return rows


def study(rows: Iterable[Mapping[str, Any]], **tables: pd.DataFrame) -> Results:
    """Results as if they had been read."""
    rest = {name: tables.get(name, empty_table(name)) for name in ("timings", "routes", "acquisitions")}
    return Results(folder=Path("nowhere"), study={}, results=results_frame(rows), **rest)


def write_study(folder: Path, frame: pd.DataFrame, text: str = 'name = "small"\n') -> Path:
    """Write a results folder."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "results.parquet")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder


def stored(results: Results, folder: Path) -> Results:
    """Results in a folder with the one file that must be there."""
    results.results.to_parquet(folder / "results.parquet")
    return replace(results, folder=folder)


def large_study() -> Results:
    """Make 6,000 cells at four budgets: 10 datasets, 8 methods, 5 splits, 15 ways of treating the data."""
    ways = [("complete", "", 0.0), ("restricted", "mnar_self", 0.7), ("restored", "mnar_self", 0.7)]
    ways += product(("restricted", "restored"), ("mcar", "mar"), (0.3, 0.5, 0.7))
    rows = [
        {"dataset": f"data-{dataset}", "method": f"method-{method}", "split": split, "budget": budget}
        | {"treatment": treatment, "mechanism": mechanism, "rate": rate}
        | {"restorer": "pvae" if treatment == "restored" else ""}
        for dataset, method, split in product(range(10), range(8), range(5))
        for treatment, mechanism, rate in ways
        for budget in (3, 5, 7, 10)
    ]
    results = study(rows)
    names = ["score", "accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece", "mean_cost"]
    measured = np.random.default_rng(0).random((len(rows), len(names)))
    return replace(results, results=results.results.assign(**dict(zip(names, measured.T, strict=True))))


_DEFAULTS: dict[str, Any] = {
    "state": "s",
    "restorer": "",
    "mechanism": "",
    "rate": 0.0,
    "protocol": "afabench",
    "budget": 10,
    "train_budget": 10,
    "metric": "accuracy",
    **dict.fromkeys(("score", "accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"), 0.5),
    "mean_cost": 10.0,
    "mean_acquisitions": 10.0,
    "forced_stop_rate": 1.0,
    "n_rows": 400,
    "restoration_rmse": float("nan"),
    "restoration_score": float("nan"),
    "picked": "",
    "shortened": False,
    "width": 16,
    "device": "cpu",
}
