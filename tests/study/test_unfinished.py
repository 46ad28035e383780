"""Trainings that were interrupted: a damaged state is said, and begun anew."""

from pathlib import Path

import numpy as np
import pytest

from ascertain.recipe._programs import Done
from ascertain.study._grid import Grid
from ascertain.study._store import Store
from ascertain.study._unfinished import save_interrupted, trainee_of
from tests.study.studies import tiny
from tests.study.test_scheduling import Idle


@pytest.mark.parametrize("damaged", [False, True])
def test_a_training_goes_on_unless_its_state_is_damaged(damaged: bool, tmp_path: Path) -> None:
    grid, store, runner, warnings = Grid(tiny()), Store(tmp_path), Idle(2), list[str]()
    store.open()
    job = grid.jobs[0]
    save_interrupted(store, job, Done([[np.ones(2)]], 1.0, 2.0, 3, runner.device), runner, 2)
    path = store.state_path(job)
    if damaged:
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    inputs = grid.materials.inputs(job, lambda needed: None)
    found = trainee_of(store, job, inputs, runner, 2, warnings.append)
    assert (found.begun is None) == damaged
    assert warnings == [f"{path} is damaged; its training begins anew"] * damaged
    store.close()
