"""What programs cost: measured once, scaled to a study's tables.

The costs were measured on CUBE-NM on one H200, and on CUBE on two processor cores; they are scaled by
features, rows and training length. That is good to a factor of two or so, not more.
"""

import math
from typing import NamedTuple

import jax

from ascertain.study.jobs import Job
from ascertain.study.materials import Materials


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
    "vae": Cost(15.0, 0.9, 15),
    "restore": Cost(0.0, 0.0, 8),
    "jafa pretraining": Cost(2.5, 0.1, 15),
    "jafa": Cost(3.0, 0.09, 20),
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
_OTHER = Cost(0.1, 0.02, 5)  # methods of users
_FEATURES = {"gpu": 55, "cpu": 20}  # of the datasets that were measured
_ROWS = 600
_CELLS = 600 * 55
_LENGTHS = {
    "batches": {"jafa": 4000, "ol": 2000, "odin": 4000},
    "epochs": {"gdfs": 250, "dime": 250, "": 2000},
}


def work_of(job: Job) -> str:
    """Name the kind of work that decides what a job costs."""
    if job.stage == "fit":
        return job.method
    return f"{job.method} pretraining" if job.stage == "pretrain" else job.stage


def cost_of(work: str) -> Cost:
    """Give what was measured for a kind of work on this process's kind of device."""
    return (_GPU if kind_of_device() == "gpu" else _CPU).get(work, _OTHER)


def chunk_seconds(job: Job, materials: Materials, width: int) -> float:
    """Estimate the seconds of a chunk of jobs like this one."""
    cost = cost_of(work_of(job))
    return (cost.start + cost.each * width) * _scale(job, materials)


def chunk_memory(job: Job, materials: Materials, width: int) -> float:
    """Estimate the bytes that a chunk of jobs like this one takes on the device."""
    shape = materials.part(job.dataset, job.split).train.x.shape
    return cost_of(work_of(job)).memory * width * max(1.0, math.prod(shape) / _CELLS)


def kind_of_device() -> str:
    """Say which of the measured kinds this process's device is: gpu or cpu."""
    return "gpu" if jax.default_backend() == "gpu" else "cpu"


def _scale(job: Job, materials: Materials) -> float:
    """Say how much more than what was measured a job takes."""
    dataset = materials.datasets[job.dataset]
    features = dataset.problem.n_features / _FEATURES[kind_of_device()]
    rows = materials.part(job.dataset, job.split).train.x.shape[0] / _ROWS
    for name, usual in _LENGTHS.items():
        length = getattr(job.settings, name, None)
        if length is not None and job.method in usual:
            by_rows = rows if name == "epochs" else 1.0
            return features * by_rows * length / usual[job.method]
    return features
