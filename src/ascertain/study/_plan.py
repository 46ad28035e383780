"""Estimates of the time and memory of a study, before anything runs."""

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import DERIVED, Materials
from ascertain.study._costs import chunk_memory, chunk_seconds, cost_of, kind_of_device, stage_rank, work_of
from ascertain.study._file import Study
from ascertain.study._grid import Grid
from ascertain.study._groups import width_of
from ascertain.study._runners import default_width


class PlanRow(NamedTuple):
    """One kind of work."""

    stage: str
    jobs: int
    programs: int
    chunks: int
    memory: float  # bytes on the device, of its widest program
    seconds: float


class StudyPlan(NamedTuple):
    """The work of a study, with estimates of time and memory."""

    title: str
    rows: list[PlanRow]
    summary: str


def plan_study(study: Study, width: int | None = None, data_dir: Path | None = None) -> StudyPlan:
    """Count cells, programs and chunks, and estimate memory and time on this process's device."""
    width = width or default_width()
    grid = Grid(study, data_dir)
    materials = grid.materials
    groups: dict[tuple[str, Any], list[Job]] = {}
    for job in grid.jobs:
        name: Any = (job.stage,) if job.stage in DERIVED else materials.group(job)
        groups.setdefault((work_of(job), name), []).append(job)
    rows = []
    for work in dict.fromkeys(work for work, _ in sorted(groups, key=lambda g: stage_rank(groups[g][0]))):
        parts = [jobs for (other, _), jobs in groups.items() if other == work]
        rows.append(_row(work, parts, materials, width))
    running = sum(row.seconds for row in rows)
    cores = min(os.cpu_count() or 1, 16)
    compiling = sum(cost_of(jobs[0]).compiling for jobs in groups.values()) / cores
    # Compilation runs beside the device, but on processor cores it competes with the work itself.
    seconds = max(running, compiling) + min(running, compiling) * (0.3 if kind_of_device() == "gpu" else 1.0)
    counts = Counter(job.stage for job in grid.jobs)
    summary = (
        f"{len(grid.cells):,} cells, {len(groups)} programs, {counts.total():,} jobs at width {width} on "
        f"{jax.devices()[0].device_kind}: about {_duration(seconds)}, of it {_duration(compiling)} to "
        f"compile (less where compiled programs are cached), and {size(max(row.memory for row in rows))} "
        "for the arrays of its largest program. An estimate, good to a factor of two."
    )
    return StudyPlan(f"{study.name}, {study.protocol} protocol", rows, summary)


def _row(work: str, groups: list[list[Job]], materials: Materials, width: int) -> PlanRow:
    chunks, seconds, memory = 0, 0.0, 0.0
    for jobs in groups:
        wide = width_of(jobs[0], materials, width)
        n = math.ceil(len(jobs) / wide)
        chunks += n
        seconds += n * chunk_seconds(jobs[0], materials, wide)
        memory = max(memory, chunk_memory(jobs[0], materials, wide))
    return PlanRow(work, sum(map(len, groups)), len(groups), chunks, memory, seconds)


def size(count: float) -> str:
    """Write a number of bytes."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
