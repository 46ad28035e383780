"""What was run, how far it came, what it took, and where the numbers come from."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ascertain.analysis._damage import ARMS
from ascertain.analysis._results import Results
from ascertain.errors import InputError
from ascertain.reporting._names import dataset_name, in_order, mechanism_name, policy_name, restorer_name
from ascertain.reporting._tables import Cell, Fact, HtmlTable, number_text
from ascertain.reporting._text import counted, duration, file_hash

_TABLES = ("results.parquet", "timings.parquet", "routes.parquet", "acquisitions.parquet")
_FILES = ("study.toml", *_TABLES, "exact/regret.parquet")


class Sources(NamedTuple):
    """Versions and machines, the files with their hashes, and the text of the study file."""

    facts: list[Fact]
    files: HtmlTable
    study: str


def describe_run(found: Results) -> list[Fact]:
    """List what was run, from the rows themselves; the study file only says what was planned."""
    study, results = found.study, found.results
    datasets, methods = in_order("dataset", results["dataset"]), in_order("method", results["method"])
    treatments = set(results["treatment"])
    hidden = results[results["mechanism"] != ""]
    budgets = {name: _listed(part.unique()) for name, part in results.groupby("dataset")["budget"]}
    facts = [
        Fact("Study", str(study["name"])) if study.get("name") else None,
        Fact("Datasets", ", ".join(map(dataset_name, datasets))),
        Fact("Methods", ", ".join(_variants(results, each) for each in methods)),
        Fact("Treatments", ", ".join(sorted(treatments, key=[*ARMS, *sorted(treatments)].index))),
        _named("Restorers", sorted(set(results["restorer"]) - {""}), restorer_name),
        _named("Mechanisms", in_order("mechanism", hidden["mechanism"]), mechanism_name),
        _distinct("Missingness rates", hidden["rate"]),
        _distinct("Splits", results["split"]),
        _distinct("Protocol", results["protocol"]),
        Fact("Evaluation budgets", "; ".join(f"{dataset_name(each)}: {budgets[each]}" for each in datasets)),
        Fact("Cells", _progress(found)),
        _seconds(found.timings),
        _distinct("Device", results["device"]),
    ]
    return [fact for fact in facts if fact is not None]


def notices(results: pd.DataFrame) -> list[Fact]:
    """What a reader must know before reading any number: which cells are not the paper's experiment."""
    short = results.loc[results["shortened"].astype(bool), "cell"].nunique()
    if not short:
        return []
    cells = results["cell"].nunique()
    part = "All" if short == cells else f"{number_text(short, 0)} of the"
    text = (
        f"{part} {counted(cells, 'cell')} were trained with shortened settings. Their numbers are not the "
        "paper's and must not be compared with them."
    )
    return [Fact("Shortened settings", text)]


def trace_sources(results: Results) -> Sources:
    """Collect versions and machines from the rows, and hash the files that they were read from."""
    folder, timings = results.folder, results.timings
    times = sorted({str(time) for time in timings["finished"].dropna()} - {""})
    when = f"{times[0]} (first) to {times[-1]} (last)" if len(times) > 1 else "".join(times)
    facts = [
        _distinct("ascertain", timings["version"]),
        _distinct("JAX", timings["jax"]),
        _distinct("Device", results.results["device"]),
        _distinct("Replicates side by side", results.results["width"]),
        _distinct("Host", timings["host"]),
        Fact("Finished", when) if when else None,
    ]
    rows = [
        [Cell(name), Cell(number_text(path.stat().st_size, 0), number=True), Cell(file_hash(path))]
        for name in _FILES
        if (path := folder / name).is_file()
    ]
    study = folder / "study.toml"
    return Sources(
        [fact for fact in facts if fact is not None],
        HtmlTable([Cell("File"), Cell("Bytes", number=True), Cell("SHA-256")], rows),
        study.read_text(encoding="utf-8", errors="replace") if study.is_file() else "",
    )


def _planned_cells(file: Path, results: pd.DataFrame) -> int | None:
    """Count the cells that a study file asks for; None where that cannot be known."""
    if not file.is_file():
        return None
    from ascertain.study._file import read_study  # imports every method, which nothing else here needs

    try:
        study = read_study(file)
    except InputError:  # of another version, or with a method that is not installed here
        return None
    # The study file does not say which datasets have holes of their own; their finished cells do.
    complete, holed = len(study.cells(False)), len(study.cells(True))
    total = 0
    for dataset in study.datasets:
        rows = results[results["dataset"] == dataset]
        on_complete = rows["treatment"] == "complete"
        if on_complete.any() or (rows.empty and dataset not in study.tables):
            total += complete
        elif complete == holed or (~on_complete & (rows["mechanism"] == "")).any():
            total += holed
        else:
            return None
    return total * len(study.splits)


def _distinct(label: str, column: "pd.Series[Any]") -> Fact | None:
    """List the distinct values of a column; None if there are none."""
    text = _listed(column.dropna().unique())
    return Fact(label, text) if text else None


def _listed(values: Iterable[Any]) -> str:
    """List values in order: numbers by size, names by alphabet."""
    kept = sorted(value for value in values if value != "")
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in kept)


def _named(label: str, keys: Iterable[str], name: Callable[[str], str]) -> Fact | None:
    text = ", ".join(name(key) for key in keys)
    return Fact(label, text) if text else None


def _variants(results: pd.DataFrame, method: str) -> str:
    """Label a method, with its state variants where it has several."""
    states = sorted(set(results.loc[results["method"] == method, "state"]))
    return " and ".join(policy_name(method, s) for s in states) if len(states) > 1 else policy_name(method)


def _progress(found: Results) -> str:
    done = found.results["cell"].nunique()
    planned = _planned_cells(found.folder / "study.toml", found.results)
    if planned is None or planned < done:
        return f"{number_text(done, 0)} done"
    if planned == done:
        return f"all {number_text(done, 0)} done"
    return f"{number_text(done, 0)} of {number_text(planned, 0)} planned done ({100 * done // planned}%)"


def _seconds(timings: pd.DataFrame) -> Fact | None:
    if timings.empty:
        return None
    seconds = timings["chunk_seconds"] / timings["chunk_jobs"]  # a chunk's unused places are charged, too
    by_stage = seconds.groupby(timings["stage"]).sum().sort_values(ascending=False)
    parts = ", ".join(f"{stage} {duration(total)}" for stage, total in by_stage.items())
    return Fact("Compute time", f"{duration(float(by_stage.sum()))} without compilation ({parts})")
