"""The progress of a study: what is done, missing and failed."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ascertain.errors import StoreError
from ascertain.recipe._jobs import Job
from ascertain.study._file import read_study
from ascertain.study._grid import Grid
from ascertain.study._store import Store


class StatusRow(NamedTuple):
    """The cells of a policy on a dataset."""

    dataset: str
    policy: str
    done: int
    missing: int
    failed: int


class Status(NamedTuple):
    """A study's state."""

    title: str
    rows: list[StatusRow]
    notes: list[str]


def status_of(folder: Path, data_dir: Path | None = None) -> Status:
    """Count the finished, missing and failed cells in the folder of a study."""
    file = folder / "study.toml"
    if not file.is_file():
        raise StoreError(f"{folder} is not the folder of a study: it has no study.toml")
    grid, store = Grid(read_study(file), data_dir), Store(folder)
    failures = {job.id: error for job in grid.jobs if (error := store.failure(job)) is not None}
    states = {job.id: _state(store, job, failures) for job in grid.cells}
    found = [record for job in grid.cells if job.stage == "fit" and (record := store.record(job)) is not None]
    rows = []
    for (dataset, policy), jobs in _by_policy(grid.cells).items():
        counts = Counter(states[job.id] for job in jobs)
        rows.append(StatusRow(dataset, policy, counts["done"], counts["missing"], counts["failed"]))
    notes = [f"{job.id} failed: {failures[job.id]}" for job in grid.jobs if job.id in failures]
    conditions = Counter((record["details"]["device"], record["details"]["width"]) for record in found)
    notes += [
        f"{count} cells were computed on {device} at width {width}"
        for (device, width), count in conditions.items()
    ]
    own = {store.path(job).name for job in (*grid.cells, *grid.routes)}
    others = sum(path.name not in own for path in (folder / "cells").glob("[!.]*.json"))
    if others:
        notes.append(f"{others} records of other settings are kept; they are not part of this study")
    total = Counter(states.values())
    return Status(f"{grid.study.name}: {total['done']} of {len(grid.cells)} cells", rows, notes)


def _state(store: Store, job: Job, failures: dict[str, str]) -> str:
    """`done`, `failed` (the cell itself or a job that it needs) or `missing`."""
    if store.has(job):
        return "done"
    return "failed" if any(each.id in failures for each in (job, *job.all_needs())) else "missing"


def _by_policy(cells: list[Job]) -> dict[tuple[str, str], list[Job]]:
    found: dict[tuple[str, str], list[Job]] = {}
    for job in cells:
        found.setdefault((job.dataset, f"{job.method} ({','.join(job.state)})"), []).append(job)
    return found
