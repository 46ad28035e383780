"""What a study consists of, and that identities decide what they should and nothing else."""

from functools import cache

import numpy as np
import pytest

from ascertain.recipe._jobs import Job
from ascertain.study._file import Study
from ascertain.study._grid import Grid
from tests.study.studies import tiny


@cache
def _grid(study_name: str = "tiny") -> Grid:
    return Grid(_STUDIES[study_name])


_STUDIES: dict[str, Study] = {
    "tiny": tiny(),
    "odin": tiny(methods=("odin",), restorers=("pvae",), datasets=("cube",)),
    "all": tiny(
        methods=("aaco", "dime", "gdfs", "jafa", "ol", "odin"), restorers=("pvae", "mean"), datasets=("cube",)
    ),
}


def _stages(jobs: list[Job]) -> dict[str, int]:
    return {
        stage: sum(job.stage == stage for job in jobs) for stage in dict.fromkeys(job.stage for job in jobs)
    }


def test_cells_are_the_product_of_what_is_crossed() -> None:
    grid = _grid()
    assert len(grid.cells) == 2 * 2 * 2 * 3  # datasets, methods, splits, treatments
    assert len({job.id for job in grid.jobs}) == len(grid.jobs)


def test_shared_work_is_one_job() -> None:
    # Per dataset and split: one predictor, one mask and one restored table, whatever the methods.
    assert _stages(_grid().jobs) == {"predictor": 4, "fit": 24, "mask": 4, "restore": 4}


def test_odin_shares_the_restorers_partial_vae() -> None:
    stages = _stages(_grid("odin").jobs)
    # Of complete, incomplete and restored data; the second one also restores.
    assert stages["vae"] == 3 * 2
    assert "pretrain" not in stages


def test_state_variants_share_pretraining() -> None:
    grid = _grid("all")
    ol = [job for job in grid.cells if job.method == "ol" and job.split == 0 and job.treatment == "complete"]
    assert [job.state for job in ol] == ["s", "sm"]
    assert ol[0].needed("pretrain") == ol[1].needed("pretrain")


def test_what_is_needed_comes_first() -> None:
    seen: set[str] = set()
    for job in _grid("all").jobs:
        assert {need.id for need in job.needs} <= seen
        seen.add(job.id)


def test_keys_differ_between_jobs_and_do_not_depend_on_the_study() -> None:
    jobs = _grid("all").jobs
    keys = {job.key.tobytes() for job in jobs}
    assert len(keys) == len(jobs)
    alone = Grid(tiny(methods=("dime",), datasets=("cube",), restorers=("mean",), rates=(0.3, 0.5)))
    own = {job.id: job.key.tobytes() for job in jobs}
    shared = [job for job in alone.jobs if job.id in own]
    assert {job.stage for job in shared} == {"predictor", "mask", "restore", "pretrain", "fit"}
    assert all(job.key.tobytes() == own[job.id] for job in shared)


def test_masks_of_higher_rates_hide_more_of_the_same() -> None:
    grid = Grid(tiny(rates=(0.3, 0.7), treatments=("restricted",), methods=("random",)))
    masks = [job for job in grid.jobs if job.stage == "mask" and job.dataset == "cube" and job.split == 0]
    assert [job.rate for job in masks] == [0.3, 0.7]
    np.testing.assert_array_equal(masks[0].key, masks[1].key)


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "afabench"},
        {"budgets": {"cube": (2.0, 4.0)}},
        {"settings": {"predictor": {"epochs": 2}}},
        {"seed": 1},
    ],
)
def test_whatever_changes_a_result_makes_another_cell(changes: dict[str, object]) -> None:
    before = {job.id for job in Grid(tiny(datasets=("cube",))).cells}
    after = {job.id for job in Grid(tiny(datasets=("cube",), **changes)).cells}
    assert not before & after


def test_what_does_not_concern_a_cell_leaves_it() -> None:
    before = {job.id for job in _grid().cells}
    wider = tiny(
        methods=("random", "sequential", "dime"),
        rates=(0.5, 0.7),
        settings={"predictor": {"epochs": 1}, "dime": {"epochs": 3}},
    )
    assert before <= {job.id for job in Grid(wider).cells}


def test_only_cells_with_other_settings_are_shortened() -> None:
    grid = Grid(tiny(methods=("dime", "random"), settings={"dime": {"epochs": 3}}))
    assert {job.method for job in grid.cells if grid.shortened(job)} == {"dime"}


def test_names_are_safe_for_files() -> None:
    assert all(set(job.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") for job in _grid("all").jobs)
