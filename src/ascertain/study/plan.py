"""What a study will take, estimated before anything runs.

The estimate scales costs that were measured on CUBE-NM on one H200, and on CUBE on two processor cores, by
features, rows and training length. It is good to a factor of two or so, not more.
"""

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ascertain.study.file import Study
from ascertain.study.jobs import STAGES, Job
from ascertain.study.materials import Materials
from ascertain.study.runners import default_width


class Cost(NamedTuple):
    """What one program takes at the size that it was measured at."""

    start: float  # seconds of a chunk, however wide
    each: float  # further seconds per replicate
    compiling: float  # processor seconds
    memory: float = 10e6  # bytes per replicate


# By stage, or by method where that decides; measured at the paper's settings.
_GPU = {
    "predictor": Cost(2.0, 0.02, 8),
    "mask": Cost(0.0, 0.0, 5),
    "vae": Cost(6.0, 0.25, 20),
    "restore": Cost(0.0, 0.0, 8),
    "jafa pretraining": Cost(1.5, 0.05, 15),
    "jafa": Cost(4.0, 0.2, 25),
    "ol pretraining": Cost(0.7, 0.03, 10),
    "ol": Cost(0.9, 0.07, 17, 12e6),
    "odin": Cost(0.7, 0.02, 10, 6e6),
    "gdfs pretraining": Cost(0.0, 0.0, 8),
    "gdfs": Cost(0.5, 0.02, 15, 15e6),
    "dime pretraining": Cost(0.0, 0.0, 8),
    "dime": Cost(0.5, 0.02, 14, 15e6),
    "aaco": Cost(0.1, 0.01, 6, 50e6),
    "routes": Cost(0.0, 1.0, 3),
}
_CPU = {
    "predictor": Cost(0.0, 8.0, 5),
    "mask": Cost(0.0, 0.0, 3),
    "vae": Cost(0.0, 35.0, 8),
    "restore": Cost(0.0, 0.0, 4),
    "jafa pretraining": Cost(0.0, 20.0, 9),
    "jafa": Cost(0.0, 32.0, 12),
    "ol pretraining": Cost(0.0, 3.0, 5),
    "ol": Cost(0.0, 14.0, 10, 12e6),
    "odin": Cost(0.0, 6.0, 7, 6e6),
    "gdfs pretraining": Cost(0.0, 1.0, 6),
    "gdfs": Cost(0.0, 11.0, 14, 15e6),
    "dime pretraining": Cost(0.0, 1.0, 5),
    "dime": Cost(0.0, 9.0, 12, 15e6),
    "aaco": Cost(0.0, 4.0, 6, 200e6),
    "routes": Cost(0.0, 2.0, 2),
}
_OTHER = Cost(0.1, 0.02, 5)
_FEATURES = {"gpu": 55, "cpu": 20}  # of the datasets that were measured
_ROWS = 600
_CELLS = 600 * 55
_LENGTHS = {
    "batches": {"jafa": 4000, "ol": 2000, "odin": 4000},
    "epochs": {"gdfs": 250, "dime": 250, "": 2000},
}


class Row(NamedTuple):
    """One kind of work."""

    stage: str
    jobs: int
    programs: int
    chunks: int
    memory: float  # bytes on the device, of its widest program
    seconds: float


class Plan(NamedTuple):
    """What a study will take."""

    title: str
    rows: list[Row]
    summary: str


def plan_study(study: Study, width: int | None = None, data_dir: Path | None = None) -> Plan:
    """Count cells, programs and chunks, and estimate memory and time on this process's device."""
    width = width or default_width()
    kind = "gpu" if jax.default_backend() == "gpu" else "cpu"
    materials = Materials(study, data_dir)
    grid = materials.grid
    groups: dict[tuple[str, Any], list[Job]] = {}
    for job in grid.jobs:
        name = ("routes",) if job.stage == "routes" else materials.group(job)
        groups.setdefault((work_of(job), name), []).append(job)
    rows = []
    for work in sorted({work for work, _ in groups}, key=_order):
        parts = [jobs for (other, _), jobs in groups.items() if other == work]
        rows.append(_row(work, parts, materials, kind, width))
    running = sum(row.seconds for row in rows)
    costs = _GPU if kind == "gpu" else _CPU
    cores = min(os.cpu_count() or 1, 16)
    compiling = sum(row.programs * costs.get(row.stage, _OTHER).compiling for row in rows) / cores
    # Compilation runs beside the device, but on processor cores it competes with the work itself.
    seconds = max(running, compiling) + min(running, compiling) * (0.3 if kind == "gpu" else 1.0)
    counts = Counter(job.stage for job in grid.jobs)
    summary = (
        f"{len(grid.cells):,} cells, {len(groups)} programs, {counts.total():,} jobs at width {width} on "
        f"{jax.devices()[0].device_kind}: about {_duration(seconds)}, of it {_duration(compiling)} to "
        f"compile (less where compiled programs are cached), and {size(max(row.memory for row in rows))} "
        "for the arrays of its largest program. An estimate, good to a factor of two."
    )
    return Plan(f"{study.name}, {study.protocol} protocol", rows, summary)


def work_of(job: Job) -> str:
    """Name the kind of work that decides what a job costs."""
    if job.stage == "fit":
        return job.method
    return f"{job.method} pretraining" if job.stage == "pretrain" else job.stage


def _row(work: str, groups: list[list[Job]], materials: Materials, kind: str, width: int) -> Row:
    cost = (_GPU if kind == "gpu" else _CPU).get(work, _OTHER)
    chunks = sum(math.ceil(len(jobs) / width) for jobs in groups)
    seconds = memory = 0.0
    for jobs in groups:
        scale = _scale(jobs[0], materials, kind)
        shape = materials.part(jobs[0].dataset, jobs[0].split).train.x.shape
        at_once = 1 if work == "routes" else width
        seconds += math.ceil(len(jobs) / at_once) * (cost.start + cost.each * at_once) * scale
        memory = max(memory, cost.memory * at_once * max(1.0, math.prod(shape) / _CELLS))
    return Row(work, sum(map(len, groups)), len(groups), chunks, memory, seconds)


def _scale(job: Job, materials: Materials, kind: str) -> float:
    """Say how much more than what was measured a job takes."""
    dataset = materials.datasets[job.dataset]
    features = dataset.problem.n_features / _FEATURES[kind]
    rows = materials.part(job.dataset, job.split).train.x.shape[0] / _ROWS
    for name, usual in _LENGTHS.items():
        length = getattr(job.settings, name, None)
        if length is not None and job.method in usual:
            by_rows = rows if name == "epochs" else 1.0
            return features * by_rows * length / usual[job.method]
    return features


def _order(work: str) -> int:
    stage = "pretrain" if work.endswith("pretraining") else work if work in STAGES else "fit"
    return STAGES.index(stage)


def size(count: float) -> str:
    """Write a number of bytes."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
