"""The cost of programs: measured once, scaled to a study's tables.

The costs were measured on CUBE-NM on one H200, and on CUBE on two processor cores; they are scaled by
features, rows and training length, which is good to a factor of about two. Methods register their own costs.
"""

import math

import jax

from ascertain import methods
from ascertain.methods._registry import Cost
from ascertain.predictors._masked_mlp import Settings
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import Materials
from ascertain.restoration._registry import Restoring

_STAGES = (  # in the order of a study
    *("predictor", "mask", "availability", "judge", "share", "restore", "pretrain", "fit", "auto", "routes"),
)
LAST_AWAITED = _STAGES.index("share")  # the last stage that others than policies wait for
_COSTS = {
    "gpu": {
        "predictor": Cost(2.0, 0.02, 8),
        "mask": Cost(0.0, 0.0, 5),
        "availability": Cost(0.0, 1.0, 0),
        "judge": Cost(2.0, 0.02, 8),
        "share": Cost(15.0, 0.9, 15),
        "restore": Cost(0.0, 0.0, 8),
        "auto": Cost(0.0, 0.2, 0),
        "routes": Cost(0.0, 1.0, 3),
    },
    "cpu": {
        "predictor": Cost(0.0, 8.0, 5),
        "mask": Cost(0.0, 0.0, 3),
        "availability": Cost(0.0, 1.0, 0),
        "judge": Cost(0.0, 8.0, 6),
        "share": Cost(0.0, 35.0, 8),
        "restore": Cost(0.0, 0.0, 4),
        "auto": Cost(0.0, 0.2, 0),
        "routes": Cost(0.0, 2.0, 2),
    },
}
_RESTORERS = {  # those that take longer; on a GPU guessed from the number of their updates
    "gpu": {
        "miwae": Cost(4.0, 0.1, 25),
        "mixture": Cost(1.0, 0.05, 15),
        "ensemble": Cost(4.0, 0.1, 35),
        "trees": Cost(0.0, 6.0, 0),
        "iterative": Cost(0.0, 20.0, 0),
    },
    "cpu": {
        "miwae": Cost(0.0, 7.0, 12),
        "mixture": Cost(0.0, 1.5, 8),
        "ensemble": Cost(0.0, 8.0, 20),
        "trees": Cost(0.0, 4.0, 0),
        "iterative": Cost(0.0, 15.0, 0),
    },
}
_OTHER = Cost(0.1, 0.02, 5)  # methods without measured costs
_FEATURES = {"gpu": 55, "cpu": 20}  # of the datasets that were measured
_ROWS = 600
_PREDICTOR = Settings(epochs=2000)  # as it was measured; methods were at their defaults
_CELLS = 600 * 55


def stage_rank(job: Job) -> int:
    """The position of a job's stage in a study."""
    return _STAGES.index("share" if job.shared is not None else job.stage)


def work_of(job: Job) -> str:
    """The kind of work that decides what a job costs."""
    if job.stage == "fit":
        return job.method
    return f"{job.method} pretraining" if job.stage == "pretrain" else job.stage


def cost_of(job: Job) -> Cost:
    """The measured cost of such a job on this process's kind of device."""
    device = kind_of_device()
    if job.stage in ("fit", "pretrain"):
        method = methods.get(job.method)
        return (method.costs if job.stage == "fit" else method.pretraining_costs).get(device, _OTHER)
    usual = _COSTS[device]["share" if job.shared is not None else job.stage]
    if job.stage == "restore":
        return _RESTORERS[device].get(Restoring.parse(job.restorer).name, usual)
    return usual


def chunk_seconds(job: Job, materials: Materials, width: int) -> float:
    """Estimate the seconds of a chunk of jobs like this one."""
    cost = cost_of(job)
    return (cost.start + cost.each * width) * _scale(job, materials)


def chunk_memory(job: Job, materials: Materials, width: int) -> float:
    """Estimate the bytes that a chunk of jobs like this one takes on the device."""
    cells = math.prod(materials.part(job.dataset, job.split).train.x.shape) * job.completions
    return cost_of(job).memory * width * max(1.0, cells / _CELLS)


def kind_of_device() -> str:
    """Which of the measured kinds this process's device is: gpu or cpu."""
    return "gpu" if jax.default_backend() == "gpu" else "cpu"


def _scale(job: Job, materials: Materials) -> float:
    """The time that a job takes relative to the one that was measured."""
    dataset = materials.datasets[job.dataset]
    features = dataset.problem.n_features / _FEATURES[kind_of_device()]
    rows = materials.part(job.dataset, job.split).train.x.shape[0] / _ROWS
    usual = methods.get(job.method).settings() if job.method else _PREDICTOR
    for name in ("batches", "epochs"):
        length, measured = getattr(job.settings, name, None), getattr(usual, name, None)
        if length is not None and measured:
            return features * (rows if name == "epochs" else 1.0) * length / measured
    return features
