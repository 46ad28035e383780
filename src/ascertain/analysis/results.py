"""The results of a study, read from its folder."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ascertain._core.frames import listed
from ascertain.errors import InputError

IDENTITY = ["dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "split", "protocol"]
SCORES = ["accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"]

_COLUMNS = {
    "results": [
        *("cell", *IDENTITY, "budget", "train_budget", "metric", "score", *SCORES),
        *("mean_cost", "mean_acquisitions", "forced_stop_rate", "n_rows"),
        *("restoration_rmse", "shortened", "width", "device"),
    ],
    "timings": [
        *("stage", "cell", *IDENTITY, "seconds", "chunk_seconds", "chunk_jobs", "compile_seconds"),
        *("temporary_bytes", "width", "device", "version", "jax", "host", "finished"),
    ],
    "routes": ["dataset", "split", "protocol", "budget", "v_static", "sensitivity", "overlap", "routes"],
    "acquisitions": ["cell", *IDENTITY, "step", "action", "share"],
}
_TEXT = ["cell", *(column for column in IDENTITY if column not in ("rate", "split"))]  # '' where missing
_DTYPES = {
    **dict.fromkeys((*_TEXT, "stage", "metric", "device", "version"), "str"),
    **dict.fromkeys(("jax", "host", "finished", "action"), "str"),
    "split": "int64",
    "step": "int64",
    "shortened": "bool",
}


@dataclass(frozen=True, eq=False)
class Results:
    """What a study has found so far.

    Tables that the study has not written are empty, with the columns that they would have.

    Parameters
    ----------
    folder
        Where it was read from.
    study
        The study file.
    results
        One row per cell and budget, with the scores.
    timings
        One row per piece of work, with the seconds that it took.
    routes
        One row per dataset, split and budget: what fixed routes achieve.
    acquisitions
        One row per cell, step and action: the share of rows that take it, at the largest budget.
    """

    folder: Path
    study: dict[str, Any]
    results: pd.DataFrame
    timings: pd.DataFrame
    routes: pd.DataFrame
    acquisitions: pd.DataFrame

    @property
    def protocol(self) -> str:
        """Name of the protocol of all results."""
        return str(self.results["protocol"].iloc[0]) if len(self.results) else "paper"

    @property
    def metrics(self) -> dict[str, str]:
        """Metric of each dataset."""
        by_dataset = self.results.groupby("dataset")["metric"].first()
        return {str(dataset): str(metric) for dataset, metric in by_dataset.items()}

    @property
    def scores(self) -> pd.DataFrame:
        """The results with a score at each dataset's largest budget."""
        return at_largest_budget(self.results.dropna(subset="score"))


def read_results(folder: str | Path) -> Results:
    """Read the results of a study, which may still be running.

    Parameters
    ----------
    folder
        The results folder: `results.parquet` and, where they exist, `study.toml`, `timings.parquet`,
        `routes.parquet` and `acquisitions.parquet`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; `ascertain study run` writes a study's results into one")
    study = _read_study(folder / "study.toml")
    tables = {name: _read_table(folder / f"{name}.parquet", name, study.get("protocol")) for name in _COLUMNS}
    _check_unique(tables["results"], folder / "results.parquet")
    return Results(folder=folder, study=study, **tables)


def at_largest_budget(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows at each dataset's largest budget, which is what the paper reports (section 5.2)."""
    largest = frame.groupby("dataset")["budget"].transform("max")
    return frame[frame["budget"] == largest].reset_index(drop=True)


def empty_table(name: str) -> pd.DataFrame:
    """One of the tables, without rows."""
    return pd.DataFrame(
        {column: pd.Series(dtype=_DTYPES.get(column, "float64")) for column in _COLUMNS[name]}
    )


def _read_study(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a study file: {error}") from error


def _read_table(path: Path, name: str, protocol: str | None) -> pd.DataFrame:
    if not path.exists():
        if name == "results":
            raise InputError(f"{path} does not exist; `ascertain study run` makes it")
        return empty_table(name)
    try:
        table = pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read ({error}); `ascertain study run` writes it anew") from error
    missing = [column for column in _COLUMNS[name] if column not in table.columns]
    if missing:
        raise InputError(
            f"{path} lacks the columns {listed(missing)}: it is of another version; "
            "`ascertain study run` writes it anew"
        )
    # Columns that do not apply to a row may have been written as missing.
    blanks = {**dict.fromkeys(_TEXT, ""), "rate": 0.0}
    table = table.fillna({column: blank for column, blank in blanks.items() if column in table.columns})
    # Keep the study's protocol: scores of two protocols are never averaged.
    if protocol is not None and (table["protocol"] == protocol).any():
        table = table[table["protocol"] == protocol]
    found = table["protocol"].unique()
    if len(found) > 1:
        raise InputError(
            f"{path} holds rows of several protocols ({listed(found)}); name the one you mean in study.toml"
        )
    return table.reset_index(drop=True)


def _check_unique(results: pd.DataFrame, path: Path) -> None:
    again = results.duplicated([*IDENTITY, "budget"])
    if again.any():
        twice = results.loc[again, [*IDENTITY, "budget"]].iloc[0].to_dict()
        raise InputError(f"{path} holds a cell twice: {twice}; `ascertain study run` writes it anew")
