"""Where the numbers come from: versions, machines, times, and the hashes of the files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ascertain.analysis.report.overview import Fact, listed_values
from ascertain.analysis.results import Results
from ascertain.reporting.tables import Cell, HtmlTable, number_text

_FILES = (
    "study.toml",
    "results.parquet",
    "timings.parquet",
    "routes.parquet",
    "acquisitions.parquet",
    "exact/regret.parquet",
)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Provenance:
    """What one needs to find the numbers again."""

    facts: list[Fact]
    files: HtmlTable
    study: str


def read_provenance(results: Results) -> Provenance:
    """Collect versions and machines from the rows, and hash the files they were read from."""
    folder, timings = results.folder, results.timings
    facts = [
        listed_values("ascertain", timings, "version"),
        listed_values("JAX", timings, "jax"),
        listed_values("Device", results.results, "device"),
        listed_values("Replicates side by side", results.results, "width"),
        listed_values("Host", timings, "host"),
        _when(timings),
    ]
    study = folder / "study.toml"
    text = study.read_text(encoding="utf-8", errors="replace") if study.is_file() else ""
    return Provenance([fact for fact in facts if fact is not None], _files(folder), text)


def file_hash(path: Path) -> str:
    """Give the SHA-256 of a file without holding all of it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _when(timings: pd.DataFrame) -> Fact | None:
    times = sorted({str(time) for time in timings["finished"].dropna()} - {""})
    if not times:
        return None
    return Fact("Finished", times[0] if len(times) == 1 else f"{times[0]} (first) to {times[-1]} (last)")


def _files(folder: Path) -> HtmlTable:
    headers = [Cell("File"), Cell("Bytes", number=True), Cell("SHA-256")]
    rows = [
        [Cell(name), Cell(number_text(path.stat().st_size, 0), number=True), Cell(file_hash(path))]
        for name in _FILES
        if (path := folder / name).is_file()
    ]
    return HtmlTable(headers, rows)
