"""The records of finished cells, and the tables that are assembled from them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from ascertain._core.files import replacing
from ascertain._core.version import __version__
from ascertain.errors import StoreError
from ascertain.evaluation._routes import RouteStructure
from ascertain.recipe._jobs import IDENTITY, Job
from ascertain.recipe._materials import Load
from ascertain.recipe._programs import Done
from ascertain.recipe._scoring import score_cell
from ascertain.recipe._stages import Fitted
from ascertain.study._file import Study, study_text, write_study
from ascertain.study._grid import Grid
from ascertain.study._runners import Runner
from ascertain.study._store import Store

RESULTS, TIMINGS, ROUTES = "results.parquet", "timings.parquet", "routes.parquet"
ACQUISITIONS = "acquisitions.parquet"
TABLES = (RESULTS, TIMINGS, ROUTES, ACQUISITIONS)

_RESTORATION = ("restoration_rmse", "restoration_score")  # records of earlier versions lack the second
_CHOICE = ("picked", "reason")  # only of `auto`
_SHARE_DIGITS = 6


def details_of(done: Done, runner: Runner, width: int) -> dict[str, Any]:
    """How a chunk was computed, for each of its jobs.

    A job's seconds are those of one place of the chunk, so that they do not depend on how full it was. For a
    model that took a place while others were trained, the chunk is what ran while it was there, and its
    jobs are counted on average.
    """
    return {
        "seconds": done.seconds / width,
        "chunk_seconds": done.seconds,
        "chunk_jobs": done.jobs,
        "compile_seconds": done.compile_seconds,
        "temporary_bytes": done.temporary_bytes,
        "width": width,
        "asked_width": runner.width,  # more than the width where memory did not allow it
        "device": done.device,
        "cores": done.cores,
        "options": done.options,
        "version": __version__,
        "jax": jax.__version__,
        "host": runner.host,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def check_provenance(folder: Path, details: dict[str, Any], runner: Runner) -> None:
    """Raise where a result was computed on another device or number of cores, width, version or options.

    Then numbers are rounded differently, and training amplifies that.
    """
    if not agrees(details, runner):
        there, here = _computed_there(details, runner), _computed_here(details, runner)
        cores = details.get("cores")
        width = f"--width {details['asked_width']} on such a device"
        bound = f", bound to {cores} by taskset -c 0-{cores - 1}" if cores and cores != runner.cores else ""
        differ = _options_there(details, runner) != runner.options
        settings = ", with the same settings of XLA and JAX" if differ else ""
        raise StoreError(
            f"{folder} has results computed {there}; this run would continue {here}, where numbers are "
            f"rounded differently. Continue as before ({width}{bound}{settings}), use another folder, or "
            "accept both with --mix"
        )


def agrees(details: dict[str, Any], runner: Runner) -> bool:
    """Whether a result was computed as this runner would."""
    return _computed_there(details, runner) == _computed_here(details, runner)


def _computed_there(details: dict[str, Any], runner: Runner) -> str:
    cores = details.get("cores", runner.cores)  # versions before 0.2 did not record it
    own = _provenance(details["device"], cores, details["asked_width"], details["version"], details["jax"])
    return own + _only(_options_there(details, runner), runner.options)


def _computed_here(details: dict[str, Any], runner: Runner) -> str:
    own = _provenance(runner.device, runner.cores, runner.width, __version__, jax.__version__)
    return own + _only(runner.options, _options_there(details, runner))


def _options_there(details: dict[str, Any], runner: Runner) -> str:
    options: str = details.get("options", runner.options)  # neither did they record these
    return options


def _only(options: str, others: str) -> str:
    """The options that are not among others, as the end of a sentence."""
    own = sorted(set(options.split()) - set(others.split()))
    return f" with {', '.join(own)}" if own else ""


def _provenance(device: str, cores: int | None, width: int, version: str, jax_version: str) -> str:
    number = "" if cores is None else f" with {cores} {'core' if cores == 1 else 'cores'}"
    return f"on {device}{number} at width {width} by ascertain {version} and jax {jax_version}"


def cell_record(job: Job, grid: Grid, fitted: Fitted, load: Load, details: dict[str, Any]) -> dict[str, Any]:
    """Score a fitted policy; the record of its cell."""
    materials, dataset = grid.materials, grid.materials.datasets[job.dataset]
    frame, shares = score_cell(job, materials, fitted, load)
    if grid.study.scored == "test" or "estimator" in frame:
        frame["scored"] = "test"
    return {
        **job.identity(),
        "protocol": grid.study.protocol,
        "train_budget": float(str(np.asarray(dataset.problem.budget))),
        "metric": dataset.metric,
        "shortened": grid.shortened(job),
        "restoration_rmse": _number(materials.restoration_error(job, load)),
        "restoration_score": _number(materials.restoration_score(job, load)),
        "scores": [{k: _number(v) for k, v in row.items()} for row in frame.to_dict("records")],
        "actions": list(dataset.problem.action_names or map(str, range(dataset.problem.n_actions))),
        "shares": [] if shares is None else np.round(shares, _SHARE_DIGITS).tolist(),
        "settings": repr(job.settings),
        "details": details,
    }


def routes_record(
    job: Job, found: RouteStructure, budget: float, protocol: str, details: dict[str, Any]
) -> dict[str, Any]:
    """The record of a split's route structure."""
    numbers = {name: _number(getattr(found, name)) for name in ("v_static", "sensitivity", "overlap")}
    own = {"dataset": job.dataset, "split": job.split, "protocol": protocol, "budget": budget}
    return {**own, **numbers, "routes": found.routes, "details": details}


def write_study_file(study: Study, folder: Path) -> None:
    """Write the study file; tables of an earlier, different study are removed."""
    path = folder / "study.toml"
    if path.exists() and path.read_bytes() != study_text(study).encode():  # whatever it was saved as
        for name in TABLES:
            (folder / name).unlink(missing_ok=True)
    write_study(study, path)


def assemble(store: Store, grid: Grid) -> None:
    """Write the tables of all finished jobs of a study.

    Rows are sorted by identity, so the same results make the same file in whatever order they were computed.
    """
    records = {job.id: record for job in grid.cells if (record := store.record(job)) is not None}
    routes = {job.id: record for job in grid.routes if (record := store.record(job)) is not None}
    tables = {
        RESULTS: _results(records),
        ACQUISITIONS: _acquisitions(records),
        ROUTES: _sorted(pd.DataFrame([_without(record, "details") for record in routes.values()])),
        TIMINGS: _timings(store, grid, records, routes),
    }
    for name, table in tables.items():
        write_table(table, store.folder / name)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table with checksums; one without rows has no columns either, so it gets no file."""
    if table.empty:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as temporary:
        table.to_parquet(temporary, index=False, write_page_checksum=True)


def _results(records: dict[str, dict[str, Any]]) -> pd.DataFrame:
    rows = []
    for cell, record in records.items():
        own = {"cell": cell, **{name: record[name] for name in (*IDENTITY, "protocol")}}
        after = {name: record.get(name) for name in (*_RESTORATION, "shortened")}
        computed = record.get("computed", record["details"])
        after |= {name: computed[name] for name in ("width", "device")}
        after |= {name: record[name] for name in _CHOICE if name in record}
        shared = {"train_budget": record["train_budget"], "metric": record["metric"]}
        rows += [{**own, "budget": row["budget"], **shared, **row, **after} for row in record["scores"]]
    found = _sorted(pd.DataFrame(rows), "budget", "estimator")
    if rows:
        found = found.astype(dict.fromkeys(_RESTORATION, float))
    return found.fillna({name: "" for name in _CHOICE if name in found})


def _acquisitions(records: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """The share of rows by step and action, without actions that no row takes."""
    records = {cell: record for cell, record in records.items() if record["shares"]}
    if not records:
        return pd.DataFrame()
    found = list(records.values())
    taken = [np.nonzero(record["shares"]) for record in found]
    both = list(zip(found, taken, strict=True))
    place = np.repeat(np.arange(len(found)), [len(steps) for steps, _ in taken])
    columns: dict[str, Any] = {"cell": np.array(list(records), object)[place]}
    for name in (*IDENTITY, "protocol"):
        columns[name] = np.array([record[name] for record in found])[place]
    columns["step"] = np.concatenate([steps for steps, _ in taken]) + 1
    columns["action"] = np.concatenate([np.array(record["actions"], object)[a] for record, (_, a) in both])
    columns["action_number"] = np.concatenate([actions for _, actions in taken])
    columns["share"] = np.concatenate([np.asarray(record["shares"])[where] for record, where in both])
    return _sorted(pd.DataFrame(columns), "step", "action_number")


def _timings(
    store: Store, grid: Grid, records: dict[str, dict[str, Any]], routes: dict[str, dict[str, Any]]
) -> pd.DataFrame:
    rows = []
    for job in grid.jobs:
        if job.stage in ("fit", "auto"):
            details = records.get(job.id, {}).get("details")
        elif job.stage == "routes":
            details = routes.get(job.id, {}).get("details")
        else:
            details = store.artefact_details(job)
        if details is not None:
            own = {"stage": job.stage, "cell": job.id if job.id in records else "", **job.identity()}
            rows.append({**own, "protocol": grid.study.protocol, **details})
    return _sorted(pd.DataFrame(rows), "stage")


def _sorted(table: pd.DataFrame, *further: str) -> pd.DataFrame:
    by = [name for name in (*IDENTITY, *further) if name in table]
    return table.sort_values(by, ignore_index=True) if by else table


def _without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def _number(value: Any) -> Any:
    """A value as JSON can hold it: a text, or a number, with None for NaN."""
    if isinstance(value, str):
        return value
    number = float(value) if not isinstance(value, int | np.integer) else int(value)
    return None if number != number else number
