"""The results of a study, read from its folder, and the setting that its figures are about."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from ascertain._core.frames import listed
from ascertain._core.toml import parse_toml
from ascertain.errors import InputError
from ascertain.reporting._names import in_order, mechanism_name, restorer_name

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
# Columns that not all studies have: those of earlier versions, those without the treatment `auto`.
_LATER = {"results": ["restoration_score", "picked"]}
_TEXT = ["cell", *(column for column in IDENTITY if column not in ("rate", "split"))]  # '' where missing
_DTYPES = {
    **dict.fromkeys((*_TEXT, "stage", "metric", "device", "version"), "str"),
    **dict.fromkeys(("jax", "host", "finished", "action", "picked"), "str"),
    "split": "int64",
    "step": "int64",
    "shortened": "bool",
}

_MAIN_RATE = 0.7  # of the paper's main figure and table 2: the other rates show the same, weaker


@dataclass(frozen=True, eq=False)
class Results:
    """What a study has found so far.

    Tables that the study has not written are empty, with the columns that they would have.

    Examples
    --------
    `read_results` reads it; `examples/several_completions.py` looks at its tables.
    """

    folder: Path
    study: dict[str, Any]  # the study file
    results: pd.DataFrame  # per cell and budget: the scores
    timings: pd.DataFrame  # per piece of work: its seconds
    routes: pd.DataFrame  # per dataset, split and budget: what fixed routes achieve
    acquisitions: pd.DataFrame  # per cell, step and action: share of rows that take it, at the largest budget
    # Per cell, budget and estimator, where rows have holes of their own: estimates with intervals. They are
    # kept apart, as they are not to be averaged with scores of complete rows.
    estimates: pd.DataFrame = field(default_factory=pd.DataFrame)

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
    def everything(self) -> "Results":
        """The same with the doubly robust estimates among the results, for lists of what was run."""
        if self.estimates.empty:
            return self
        robust = self.estimates[self.estimates["estimator"] == "dr"]
        parts = [part for part in (self.results, robust) if len(part)]
        return replace(self, results=pd.concat(parts, ignore_index=True))

    @property
    def scores(self) -> pd.DataFrame:
        """The results with a score at each dataset's largest budget."""
        return at_largest_budget(self.results.dropna(subset="score"))


def read_results(folder: str | Path) -> Results:
    """Read the results of a study, which may still be running, from its folder.

    That holds `results.parquet` and, where they exist, `study.toml`, `timings.parquet`, `routes.parquet` and
    `acquisitions.parquet`.

    Examples
    --------
    `examples/several_completions.py` reads a study that it ran.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; `ascertain study run` writes a study's results into one")
    study = _read_study(folder / "study.toml")
    tables = {name: _read_table(folder / f"{name}.parquet", name, study.get("protocol")) for name in _COLUMNS}
    tables |= _split_estimates(tables["results"])
    _check_unique(tables["results"], folder / "results.parquet")
    return Results(folder=folder, study=study, **tables)


def at_largest_budget(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows at each dataset's largest budget, which is what the paper reports (section 5.2)."""
    largest = frame.groupby("dataset")["budget"].transform("max")
    return frame[frame["budget"] == largest].reset_index(drop=True)


def empty_table(name: str) -> pd.DataFrame:
    """One of the tables, without rows."""
    columns = [*_COLUMNS[name], *_LATER.get(name, ())]
    dtypes = {column: _DTYPES.get(column, "float64") for column in columns}
    return pd.DataFrame({column: pd.Series(dtype=dtype) for column, dtype in dtypes.items()})


class Setting(NamedTuple):
    """How values were hidden, and what restored them."""

    mechanism: str
    rate: float
    restorer: str  # '' where nothing was restored

    def describe(self) -> str:
        """Mechanism and rate for the title of a figure."""
        return f"{mechanism_name(self.mechanism)}, $p = {self.rate:g}$"

    def restored(self) -> str:
        """Label of restored training for a legend."""
        return f"restored ({restorer_name(self.restorer)})" if self.restorer else "restored"


PAPER_SETTING = Setting("mcar", _MAIN_RATE, "pvae")


def main_setting(results: Results, rate: float = _MAIN_RATE) -> Setting:
    """Find the paper's main setting, MCAR at 0.7 with the PVAE, or the closest that the study has.

    A study without the preferred rate is shown at its largest.
    """
    hidden = results.scores[results.scores["mechanism"] != ""]
    if hidden.empty:
        raise InputError(
            "the results hold no cell with missing data; damage needs the treatment 'restricted'"
        )
    mechanism = in_order("mechanism", hidden["mechanism"])[0]
    rates = hidden.loc[hidden["mechanism"] == mechanism, "rate"]
    nearest = rate if (rates == rate).any() else float(rates.max())
    return Setting(mechanism, nearest, main_restorer(hidden))


def main_restorer(frame: pd.DataFrame) -> str:
    """The paper's restorer, the PVAE, or else the first by alphabet; '' where nothing was restored."""
    found = sorted(set(frame["restorer"]) - {""})
    return "pvae" if "pvae" in found else next(iter(found), "")


def at_setting(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Keep the rows of a setting, and those of its mechanism and rate that were not restored."""
    wanted = (frame["mechanism"] == setting.mechanism) & (frame["rate"] == setting.rate)
    return frame[wanted & frame["restorer"].isin(("", setting.restorer))]


def narrowed(results: Results, setting: Setting) -> Results:
    """Keep the scores of a setting and those on complete data."""
    frame = results.results
    complete = frame[frame["treatment"] == "complete"]
    return replace(results, results=pd.concat([complete, at_setting(frame, setting)], ignore_index=True))


def _read_study(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not a study file: {error}") from error


def read_checked(path: Path, remedy: str) -> pd.DataFrame:
    """Read a table of results; one that does not fit its checksums is refused. Version 0.1 wrote none."""
    try:
        return pd.read_parquet(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}); {remedy}") from error


def _read_table(path: Path, name: str, protocol: str | None) -> pd.DataFrame:
    if not path.exists():
        if name == "results":
            raise InputError(f"{path} does not exist; `ascertain study run` makes it")
        return empty_table(name)
    table = read_checked(path, "`ascertain study run` writes it anew")
    missing = [column for column in _COLUMNS[name] if column not in table.columns]
    if missing:
        raise InputError(
            f"{path} lacks the columns {listed(missing)}: it is of another version; "
            "`ascertain study run` writes it anew"
        )
    absent = [column for column in _LATER.get(name, ()) if column not in table]
    table = table.assign(**{column: "" if column in _DTYPES else float("nan") for column in absent})
    # Columns that do not apply to a row may have been written as missing.
    blanks = {**dict.fromkeys((*_TEXT, "picked"), ""), "rate": 0.0}
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


def _split_estimates(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Scores with one row per cell and budget, and all estimates from rows with holes."""
    if "estimator" not in results:
        return {"results": results, "estimates": results.iloc[:0]}
    estimated = results["estimator"].notna()
    parts = {"results": results[~estimated], "estimates": results[estimated]}
    return {name: part.reset_index(drop=True) for name, part in parts.items()}


def _check_unique(results: pd.DataFrame, path: Path) -> None:
    again = results.duplicated([*IDENTITY, "budget"])
    if again.any():
        twice = results.loc[again, [*IDENTITY, "budget"]].iloc[0].to_dict()
        raise InputError(f"{path} holds a cell twice: {twice}; `ascertain study run` writes it anew")
