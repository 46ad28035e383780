"""Jobs that the host computes from other results: the choice of a treatment, and the structure of routes."""

import time
from typing import Any

from ascertain._core.arrays import on_cores
from ascertain.evaluation._routes import route_structure
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import Load
from ascertain.recipe._programs import Done
from ascertain.study._choice import choose_cell, chosen_record
from ascertain.study._grid import Grid
from ascertain.study._records import details_of, routes_record
from ascertain.study._runners import Runner
from ascertain.study._store import Store


def derive(job: Job, grid: Grid, store: Store, runner: Runner, load: Load) -> None:
    """Compute a job of the stage `auto` or `routes`, and save its record.

    The many small steps would each wait for a chunk on the device, so they are computed beside it.
    """
    with on_cores():
        _derive(job, grid, store, runner, load)


def _derive(job: Job, grid: Grid, store: Store, runner: Runner, load: Load) -> None:
    start = time.perf_counter()

    def details() -> dict[str, Any]:
        seconds = time.perf_counter() - start
        done = Done([], seconds, 0.0, 0, runner.device, runner.cores, options=runner.options)
        return details_of(done, runner, 1)

    if job.stage == "auto":
        cell, choice = choose_cell(job, grid.materials, store, load)
        picked = store.record(cell)
        assert picked is not None
        store.save_record(job, chosen_record(job, picked, choice, details()))
        return
    dataset = grid.materials.datasets[job.dataset]
    split = dataset.split(job.split, grid.materials.protocol)
    found = route_structure(dataset, split, load(job.needs[0]), job.split)
    budget = float(dataset.budgets[-1])
    store.save_record(job, routes_record(job, found, budget, grid.study.protocol, details()))
