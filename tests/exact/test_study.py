"""The study: what it runs, what it keeps, and that it can be stopped and resumed at will."""

import fcntl
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from ascertain import AscertainError, InputError, StoreError
from ascertain.exact import Observations, fit_plan, shortcut
from ascertain.exact import _study as study
from ascertain.exact._shortcut import sample_bits
from ascertain.exact._study import Arm, Sweep, run_study
from tests.damage import change_a_value

from .test_shortcut import unpack

SMALL = Sweep(dims=[6], budgets=[2, 3], rates=[0.6, 0.3], sizes=[10, 100], replicates=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run_study(SMALL, tmp_path_factory.mktemp("small"))


def test_the_default_is_the_papers() -> None:
    sweep = Sweep()
    main = [Arm(6, 2, 0.6), Arm(8, 2, 0.6), Arm(10, 2, 0.6), Arm(10, 3, 0.6), Arm(10, 4, 0.6)]
    collapse = [Arm(d, 2, rate) for rate in (0.3, 0.5, 0.7) for d in (6, 8, 10)]
    assert sorted(sweep.arms) == sorted(main + collapse)
    assert len(sweep.arms) * len(sweep.sizes) * sweep.replicates == 44_100
    assert list(sweep.sizes) == [
        10, 18, 32, 56, 100, 178, 316, 562, 1000, 1778, 3162, 5623, 10000, 17783, 31623, 56234, 100000,
        177828, 316228, 562341, 1000000,
    ]  # fmt: skip


def test_the_table_holds_every_replicate_once(small: pd.DataFrame) -> None:
    assert small.columns.tolist() == [
        "d",
        "budget",
        "rate",
        "n",
        "approach",
        "horizon",
        "replicate",
        "regret",
    ]
    assert len(small) == len(SMALL.arms) * 2 * 3 * 4 * 2
    assert not small.duplicated(small.columns[:-1].tolist()).any()
    assert set(small["horizon"] - small["budget"]) == {0, -1, -2}
    assert small["regret"].between(0, 0.5).all()


def test_a_rerun_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_study(SMALL, tmp_path)
    before = (tmp_path / "regret.parquet").stat()
    monkeypatch.setattr(study, "regrets_of", lambda task: pytest.fail("computed again"))
    pd.testing.assert_frame_equal(run_study(SMALL, tmp_path), first)
    assert (tmp_path / "regret.parquet").stat().st_mtime_ns == before.st_mtime_ns


def test_a_larger_study_adds_to_a_smaller_one(tmp_path: Path) -> None:
    larger = Sweep(dims=[6], budgets=[2, 3], rates=[0.6, 0.3], sizes=[10, 32, 100], replicates=4)
    run_study(SMALL, tmp_path / "grown")
    done: list[int] = []
    grown = run_study(larger, tmp_path / "grown", on_progress=lambda _, total: done.append(total))
    fresh = run_study(larger, tmp_path / "fresh")
    pd.testing.assert_frame_equal(grown, fresh)
    assert done[0] == len(larger.arms) * (3 * 4 - 2 * 3)
    assert (tmp_path / "grown/regret.parquet").read_bytes() == (
        tmp_path / "fresh/regret.parquet"
    ).read_bytes()


def test_what_was_finished_before_an_interruption_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: pd.DataFrame
) -> None:
    real, calls = study.regrets_of, []

    def interrupted(task: study.Task) -> list[study.Regret]:
        calls.append(task)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(study, "regrets_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(SMALL, tmp_path)
    monkeypatch.setattr(study, "regrets_of", real)
    kept = pq.read_table(tmp_path / "regret.parquet").to_pandas()
    assert len(kept) == 4 * 2 * 8
    assert kept["replicate"].max() == 1  # replicates are the outer loop
    pd.testing.assert_frame_equal(run_study(SMALL, tmp_path), small)


@pytest.mark.parametrize("where", ["sort_values", "write_table"])
def test_an_interruption_while_saving_neither_loses_nor_doubles(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: pd.DataFrame
) -> None:
    owner = {"sort_values": pd.DataFrame, "write_table": pq}[where]
    real, calls = getattr(owner, where), []

    def interrupted(*arguments: object, **options: object) -> object:
        calls.append(where)
        if len(calls) == 2:  # not the first save, and not the one on the way out
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(study, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(owner, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(SMALL, tmp_path)
    monkeypatch.undo()
    kept = pq.read_table(tmp_path / "regret.parquet").to_pandas()
    assert not kept.duplicated(kept.columns[:-1].tolist()).any()
    assert len(kept) == 2 * 2 * 8  # both tasks that were finished
    pd.testing.assert_frame_equal(run_study(SMALL, tmp_path), small)


def test_the_study_plans_as_fit_plan_does() -> None:
    arm, n = Arm(6, 3, 0.4), 300
    complete, masked = sample_bits(np.random.default_rng(5), *arm[:2], n, arm.rate)
    (x, y, _), (_, _, available) = unpack(complete), unpack(masked)
    problem, data = shortcut(*arm[:2]), Observations(x, y, available)
    found = {(a, h): r for a, h, r in study._replicate(np.random.default_rng(5), arm, n)}
    assert found == {key: problem.regret(fit_plan(problem, data, *key)) for key in found}
    assert len(found) == 8


def test_another_seed_gives_other_data(tmp_path: Path, small: pd.DataFrame) -> None:
    other = run_study(
        Sweep(dims=[6], budgets=[2, 3], rates=[0.6, 0.3], sizes=[10, 100], replicates=3, seed=1), tmp_path
    )
    assert not np.array_equal(other["regret"], small["regret"])


def test_what_a_killed_run_left_goes_with_the_next_one(tmp_path: Path) -> None:
    killed, other = (tmp_path / f".{name}-{'a' * 32}.parquet" for name in ("regret", "mine"))
    for path in (killed, other):
        path.touch()
    run_study(Sweep(dims=[6], budgets=[2], rates=[0.6], sizes=[10], replicates=1), tmp_path)
    assert not killed.exists()
    assert other.exists()


class TestRefusals:
    def test_another_seed_in_the_same_folder(self, tmp_path: Path) -> None:
        run_study(SMALL, tmp_path)
        before = (tmp_path / "regret.parquet").read_bytes()
        with pytest.raises(StoreError, match="made with seed 0, not 5"):
            run_study(Sweep(dims=[6], budgets=[2], rates=[0.6], sizes=[10], replicates=1, seed=5), tmp_path)
        assert (tmp_path / "regret.parquet").read_bytes() == before

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        run_study(SMALL, tmp_path)
        whole = (tmp_path / "regret.parquet").read_bytes()
        (tmp_path / "regret.parquet").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(StoreError, match=r"regret\.parquet cannot be read; remove it"):
            run_study(SMALL, tmp_path)

    @pytest.mark.parametrize(
        ("about", "message"),
        [
            (b'{"sead": 0, "sampler": 1}', "is damaged: it lacks its seed"),
            (b'{"seed": 0, "sampler": 1, "rows": 9}', "is damaged"),
            (b'{"seed": 0, "sampler": 1', "cannot be read"),
            (b"[1]", "cannot be read"),
            (b"[" * 100_000, "cannot be read"),
        ],
        ids=["seed", "rows", "end", "list", "nested"],
    )
    def test_a_description_that_changed_on_disk(self, about: bytes, message: str, tmp_path: Path) -> None:
        """Pages of numbers have checksums; what describes them has none."""
        run_study(SMALL, tmp_path)
        path = tmp_path / "regret.parquet"
        pq.write_table(pq.read_table(path).replace_schema_metadata({b"ascertain": about}), path)
        with pytest.raises(StoreError, match=rf"regret\.parquet {message}"):
            run_study(SMALL, tmp_path)

    def test_a_regret_that_changed_on_disk(self, tmp_path: Path) -> None:
        run_study(SMALL, tmp_path)
        change_a_value(tmp_path / "regret.parquet", "regret")
        with pytest.raises(StoreError, match=r"regret\.parquet cannot be read; remove it.*CRC"):
            run_study(SMALL, tmp_path)

    def test_a_file_of_something_else(self, tmp_path: Path) -> None:
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "regret.parquet")
        with pytest.raises(StoreError, match="not a result of this version of the study"):
            run_study(SMALL, tmp_path)

    def test_two_runs_in_one_folder(self, tmp_path: Path) -> None:
        with (tmp_path / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(StoreError, match="another study is running"):
                run_study(SMALL, tmp_path)

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("")
        with pytest.raises(StoreError, match="cannot write to"):
            run_study(SMALL, tmp_path / "out")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"dims": []}, "dims is empty"),
            ({"dims": [6, 6]}, "dims lists a value twice"),
            ({"dims": [5], "budgets": [3]}, "d must be at least twice the budget"),
            ({"budgets": [1]}, "budget must be a whole number of at least 2"),
            ({"rates": [1.0]}, "rate must be at least 0 and below 1"),
            ({"sizes": [10**9]}, "sizes must be at most 100,000,000"),
            ({"replicates": 10**7}, "replicates must be at most 1,000,000"),
            ({"dims": [10**30]}, "atoms; the exact solver takes at most"),
            ({"sizes": [0]}, "sizes must be a whole number of at least 1"),
            ({"replicates": 0}, "replicates must be"),
            ({"seed": -1}, "seed must be"),
        ],
    )
    def test_a_sweep_that_makes_no_sense(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Sweep(**changes)  # type: ignore[arg-type]

    def test_no_jobs(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="jobs must be"):
            run_study(SMALL, tmp_path / "out", jobs=0)
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_dead_worker_is_reported_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "regrets_of", _die)
    with pytest.raises(AscertainError, match="a worker process died"):
        run_study(SMALL, tmp_path, jobs=2)
    monkeypatch.undo()
    assert len(run_study(SMALL, tmp_path)) == len(SMALL.arms) * 2 * 3 * 8


def _die(task: study.Task) -> list[study.Regret]:
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    return []
