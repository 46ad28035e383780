"""How often programs are traced: once each, and not at all where their results are known from the store."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ascertain.recipe import _programs as programs
from ascertain.recipe._stages import Stage
from ascertain.study import run_study
from ascertain.study._grid import Grid
from ascertain.study._runners import LocalRunner
from ascertain.study._store import Store
from tests.study.studies import tiny


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The traces of each stage from now on, as in a process that has traced nothing."""
    found: Counter[str] = Counter()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(stage: Stage, *arguments: Any) -> Any:
            found[stage.name] += 1
            return function(stage, *arguments)

        return counted

    for name in ("__call__", "untrained"):
        monkeypatch.setattr(Stage, name, counting(getattr(Stage, name)))
    for made in (programs._batched, programs._untrained, programs._advancing):
        made.cache_clear()
    return found


@pytest.fixture
def interrupted(finished: Path, tmp_path: Path) -> Path:
    """A study whose cells are lost, but not what they share."""
    folder = tmp_path / "interrupted"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "cells")
    return folder


def _go_on(folder: Path) -> bytes:
    run_study(tiny(), folder, runner=LocalRunner(width=2))
    return (folder / "results.parquet").read_bytes()


def test_a_run_traces_each_program_once(tmp_path: Path, traced: Counter[str]) -> None:
    study = tiny(datasets=("cube",), methods=("random",))
    run_study(study, tmp_path, runner=LocalRunner(width=2))
    assert traced == {"predictor": 1, "mask": 1, "restore": 1, "fit": 1}


def test_a_resumed_run_traces_only_what_it_computes(
    finished: Path, interrupted: Path, traced: Counter[str]
) -> None:
    assert _go_on(interrupted) == (finished / "results.parquet").read_bytes()
    assert set(traced) == {"fit"}


@pytest.mark.parametrize("text", ["", "{", '{"class": ["os", "system"], "fields": {}}'])
def test_a_structure_that_says_nothing_is_traced(
    text: str, finished: Path, interrupted: Path, traced: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores of earlier versions have none."""
    store, grid = Store(interrupted), Grid(tiny(), width=2)
    with monkeypatch.context() as patch:
        patch.setattr("ascertain.study._store.structure_text", lambda tree: text)
        for job in grid.jobs:
            if job.stage == "predictor":
                like, details = store.result_like(job), store.details(job)
                assert details is not None
                store.save_artefact(job, store.load_artefact(job, like), details)
    assert _go_on(interrupted) == (finished / "results.parquet").read_bytes()
    assert traced["predictor"] == 1


def test_results_of_all_stages_are_known_from_the_store(tmp_path: Path, traced: Counter[str]) -> None:
    """Also pretraining, judges and Partial VAEs: with them the inputs of all cells are known."""
    study = tiny(
        datasets=("cube",),
        methods=("dime", "jafa", "odin"),
        restorers=("pvae",),
        treatments=("complete", "restricted", "restored", "auto"),
        splits=(0,),
    )
    store, grid = Store(tmp_path), Grid(study)
    store.open()
    shared = [job for job in grid.jobs if job.stage not in ("fit", "auto")]
    for job in shared:
        like = grid.materials.result_like(job)
        store.save_artefact(job, jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), like), {})
    store.close()
    assert set(traced) == {"predictor", "pretrain", "judge", "share"}
    traced.clear()
    resumed = Grid(study, recorded=store.result_like).materials
    for job in (*shared, *(job for job in grid.cells if job.stage == "fit")):
        assert _same(resumed.like(job), grid.materials.like(job))
    for job in shared:
        assert _same(resumed.result_like(job), grid.materials.result_like(job))
    assert not traced


def _same(one: Any, other: Any) -> bool:
    """Whether PyTrees of shapes are equal."""
    return bool(jax.tree.flatten(one) == jax.tree.flatten(other))
