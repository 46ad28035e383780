"""Programs of many replicates against the functions that they are made of."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain.missingness import MCAR, mask_tables
from ascertain.predictors._masked_mlp import fit_predictor
from ascertain.recipe._jobs import Job
from ascertain.recipe._programs import Program, result_like, stack
from ascertain.recipe._stages import Masks, Values
from ascertain.restoration import fit_hotdeck, restore
from ascertain.study._grid import Grid
from tests.study.studies import tiny


@pytest.fixture(scope="module")
def grid() -> Grid:
    return Grid(tiny(), width=2)


def _job(grid: Grid, stage: str, split: int = 0) -> Job:
    return next(job for job in grid.jobs if (job.stage, job.dataset, job.split) == (stage, "cube", split))


def _no_earlier_results(job: Job) -> object:
    raise AssertionError(f"{job.id} is not needed")


def _run(grid: Grid, jobs: list[Job], load: object = _no_earlier_results) -> list[object]:
    program = Program(grid.materials.stage(jobs[0]), grid.materials.like(jobs[0]), 2)
    program.lower()
    program.compile()
    return program.run([grid.materials.inputs(job, load) for job in jobs]).results  # type: ignore[arg-type]


def test_a_mask_is_what_the_mechanism_draws(grid: Grid) -> None:
    job = _job(grid, "mask", split=1)
    (found,) = _run(grid, [job])
    dataset = grid.materials.datasets["cube"]
    train, valid, _ = dataset.split(1)
    key = jr.wrap_key_data(jnp.asarray(job.key))
    expected = mask_tables(key, MCAR, dataset.problem, train, valid, 0.5)
    assert isinstance(found, Masks)
    np.testing.assert_array_equal(found.train, expected[0].available)
    np.testing.assert_array_equal(found.valid, expected[1].available)


def test_the_predictor_is_the_one_that_is_fitted_alone(grid: Grid) -> None:
    jobs = [_job(grid, "predictor", split) for split in (0, 1)]
    found = _run(grid, jobs)
    dataset = grid.materials.datasets["cube"]
    train, valid, _ = dataset.split(1)
    key = jr.wrap_key_data(jnp.asarray(jobs[1].key))
    alone = jax.jit(fit_predictor, static_argnums=4)(
        key, dataset.problem.without_names(), train, valid, jobs[1].settings
    )
    # One epoch of five updates: batching reorders sums, no more.
    for one, other in zip(jax.tree.leaves(found[1]), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_restored_cells_come_from_the_masked_table_only(grid: Grid) -> None:
    job = _job(grid, "restore")
    mask = job.needed("mask")
    assert mask is not None
    rng = np.random.default_rng(0)
    like = grid.materials.result_like(mask)
    kept = Masks(*(rng.random(leaf.shape) < 0.5 for leaf in like))
    (found,) = _run(grid, [job], lambda needed: kept)
    dataset = grid.materials.datasets["cube"]
    train, _, _ = dataset.split(0)
    holey = train.with_cells(train.x, jnp.asarray(kept.train))
    fitting, drawing, _ = jr.split(jr.wrap_key_data(jnp.asarray(job.key)), 3)
    expected = restore(drawing, fit_hotdeck(fitting, dataset.problem, holey), holey)
    assert isinstance(found, Values)
    np.testing.assert_array_equal(found.train, expected.x)
    np.testing.assert_array_equal(found.train[kept.train], np.asarray(train.x)[kept.train])


def test_stacking_keeps_every_replicate() -> None:
    trees = [{"a": np.full(3, i), "b": None} for i in range(4)]
    np.testing.assert_array_equal(stack(trees)["a"][:, 0], np.arange(4))


def test_a_short_chunk_gives_only_what_was_asked_for(grid: Grid) -> None:
    assert len(_run(grid, [_job(grid, "mask")])) == 1


def test_shapes_that_need_no_trace_are_those_of_the_program() -> None:
    """Masks and restored tables, also with what treatments are compared by."""
    study = tiny(treatments=("restricted", "restored", "auto"), restorers=("hotdeck:2",), datasets=("cube",))
    materials = Grid(study).materials
    for job in Grid(study).jobs:
        if job.stage in ("mask", "restore") and job.split == 0:
            traced = result_like(materials.stage(job), materials.like(job), 1)
            assert jax.tree.map(_shape, materials.result_like(job)) == jax.tree.map(_shape, traced)


def _shape(leaf: jax.ShapeDtypeStruct) -> tuple[object, ...]:
    return leaf.shape, leaf.dtype
