"""The store: whole files or none, locks between processes, failures until they are forgiven."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import save

from ascertain.errors import StoreError
from ascertain.evaluation._followed import Followed
from ascertain.recipe._jobs import Job
from ascertain.study._store import Store

CELL = Job("fit", "cube", 0, treatment="complete", method="random", state="s")
MASK = Job("mask", "cube", 0, mechanism="mcar", rate=0.5)
TREE = {"weights": np.arange(6.0, dtype=np.float32).reshape(2, 3), "mask": np.array([True, False])}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "study")
    found.open()
    return found


def test_a_record_comes_back(store: Store) -> None:
    assert not store.has(CELL)
    store.save_record(CELL, {"score": 0.1 + 0.2, "name": "ü", "none": None, "details": {}})
    assert store.record(CELL) == {"score": 0.1 + 0.2, "name": "ü", "none": None, "details": {}}
    assert store.has(CELL)
    assert not store.has(MASK)


def test_arrays_come_back_bit_by_bit(store: Store) -> None:
    store.save_artefact(MASK, TREE, {"seconds": 1.5})
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), TREE)
    found = store.load_artefact(MASK, like)
    assert {name: leaf.tobytes() for name, leaf in found.items()} == {n: x.tobytes() for n, x in TREE.items()}
    assert store.details(MASK) == {"seconds": 1.5}


@pytest.mark.parametrize("job", [CELL, MASK], ids=["record", "artefact"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_short_counts_as_absent(store: Store, job: Job, share: float) -> None:
    if job.stage == "fit":
        store.save_record(job, {"score": 1.0, "details": {}, "filler": list(range(500))})
    else:
        store.save_artefact(job, TREE, {"seconds": 1.5, "filler": list(range(500))})
    assert store.has(job)
    content = store.path(job).read_bytes()
    store.path(job).write_bytes(content[: int(share * len(content))])
    assert not store.has(job)


def test_no_flipped_bit_of_an_artefact_goes_unnoticed(store: Store) -> None:
    """Wherever it is, the file is damaged, or says the same as before."""
    store.save_artefact(MASK, TREE, {"seconds": 1.5})
    path, like = store.path(MASK), jax.tree.map(jax.typeof, TREE)
    content = path.read_bytes()
    noticed = 0
    for place in range(len(content)):
        for bit in (0, 5):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            if store.is_damaged(MASK):
                noticed += 1
                assert not store.has(MASK)
                with pytest.raises(StoreError, match=r"mask_cube.*(is damaged|cannot be read)"):
                    store.load_artefact(MASK, like)
            else:
                assert store.details(MASK) == {"seconds": 1.5}
                np.testing.assert_array_equal(store.load_artefact(MASK, like)["weights"], TREE["weights"])
    assert noticed > len(content)  # all but some of the spaces and names in the header
    path.write_bytes(content)
    assert not store.is_damaged(MASK)


def test_files_of_two_jobs_that_were_swapped_are_damaged(store: Store) -> None:
    """Each is as it was written, but not for this job."""
    masks, cells = [replace(MASK, split=split) for split in (0, 1)], [CELL, replace(CELL, split=1)]
    for job in masks:
        store.save_artefact(job, TREE, {"seconds": 1.5})
        store.save_state(job, [np.ones(2)], {"seconds": 1.5})
    for job in cells:
        store.save_record(job, {"score": 1.0, "details": {}})
    for path in (store.path, store.state_path):
        _swap(*map(path, masks))
    _swap(*map(store.path, cells))
    for job in (*masks, *cells):
        assert store.is_damaged(job)
    for job in masks:
        with pytest.raises(StoreError, match="does not fit its digest"):
            store.load_state(job)


def test_a_state_is_no_result(store: Store) -> None:
    store.save_state(MASK, [np.ones(2)], {})
    store.state_path(MASK).rename(store.path(MASK))
    assert store.is_damaged(MASK)


def _swap(one: Path, other: Path) -> None:
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


@pytest.mark.parametrize("job", [CELL, MASK], ids=["record", "artefact"])
def test_json_that_is_nested_too_deeply_is_damaged(store: Store, job: Job) -> None:
    deep = "[" * 100_000
    content = deep.encode() if job is CELL else save({"0": np.ones(1)}, {"details": deep})
    store.path(job).write_bytes(content)
    store._failure_path(job).write_text(deep)
    assert store.is_damaged(job)
    assert store.artefact_details(job) is None
    assert store.failure(job) is None


def test_records_of_the_first_version_are_known_by_their_identity(store: Store) -> None:
    """Their digests are of the content alone."""
    record = {**CELL.identity(), "score": 1.0, "details": {"version": "0.1.0"}}
    digest = hashlib.sha256(json.dumps(record).encode()).hexdigest()
    for job in (CELL, replace(CELL, split=1)):
        store.path(job).write_text(json.dumps({**record, "sha256": digest}))
    assert store.record(CELL) == record
    assert store.is_damaged(replace(CELL, split=1))


@pytest.mark.parametrize(("version", "read"), [("0.1.0", True), ("0.2.0", False), ("", False)])
def test_only_the_first_version_wrote_artefacts_without_a_digest(
    store: Store, version: str, read: bool
) -> None:
    about = {"details": json.dumps({"version": version})}
    store.path(MASK).write_bytes(save({"0": np.ones(2, np.float32)}, about))
    assert store.has(MASK) == read
    store.path(MASK).write_bytes(save({"0": np.ones(2, np.float32)}, {**about, "sha256": ""}))
    assert not store.has(MASK)


def test_what_a_policy_did_is_read_only_as_it_was_written(store: Store) -> None:
    followed = Followed(*(np.arange(4.0) for _ in Followed._fields))
    store.save_record(CELL, {"details": {}}, followed)
    np.testing.assert_array_equal(store.load_followed(CELL)[0], np.arange(4.0))
    path = store.folder / "artefacts" / f"{CELL.id}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"safetensors is damaged.*run the same command again"):
        store.load_followed(CELL)


def _leave(folder: Path) -> list[Path]:
    """Temporary files as a killed run leaves them."""
    names = (
        *("cells/.fit-{}.json", "artefacts/.mask-{}.safetensors", ".results-{}.parquet", ".study-{}.toml"),
        "timelines/.1700000000.250-some.host-12-{}.json",
    )
    (folder / "timelines").mkdir(exist_ok=True)
    left = [folder / name.format("0123456789abcdef" * 2) for name in names]
    for path in left:
        path.write_bytes(b"half")
    return left


def test_what_killed_runs_left_is_swept(store: Store) -> None:
    store.save_record(CELL, {"details": {}})
    store.close()
    left = _leave(store.folder)
    report = store.folder / f".report-{'0' * 32}.html"  # of another command, which may be at work
    report.touch()
    store.open()
    assert not any(path.exists() for path in left)
    assert store.has(CELL)
    assert report.exists()
    store.close()


@pytest.mark.slow
def test_nothing_is_swept_while_another_run_is_at_work(store: Store) -> None:
    """The other run is a process of its own, as locks belong to processes."""
    left = _leave(store.folder)
    assert all(path.exists() for path in left)
    code = (
        "import sys; from pathlib import Path; from ascertain.study._store import Store; "
        "Store(Path(sys.argv[1])).open()"
    )
    subprocess.run([sys.executable, "-c", code, str(store.folder)], check=True)
    assert all(path.exists() for path in left)
    store.close()
    subprocess.run([sys.executable, "-c", code, str(store.folder)], check=True)
    assert not any(path.exists() for path in left)


def test_an_altered_record_counts_as_absent(store: Store) -> None:
    store.save_record(CELL, {"score": 0.5, "details": {}})
    text = store.path(CELL).read_text()
    store.path(CELL).write_text(text.replace("0.5", "0.9"))
    assert not store.has(CELL)


def test_failures_last_until_the_job_succeeds(store: Store) -> None:
    store.save_failure(CELL, "ValueError: no")
    assert store.failure(CELL) == "ValueError: no"
    store.save_record(CELL, {"score": 1.0})
    assert store.failure(CELL) is None


@pytest.mark.slow
def test_a_lock_holds_between_processes_and_dies_with_its_owner(store: Store) -> None:
    script = (
        "import sys, time; from pathlib import Path; from ascertain.recipe._jobs import Job; "
        "from ascertain.study._store import Store; store = Store(Path(sys.argv[1])); store.open(); "
        "job = Job('fit', 'cube', 0, treatment='complete', method='random', state='s'); "
        "print(store.lock(job), flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(store.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert other.stdout is not None
    with other.stdout:
        assert other.stdout.readline().strip() == "True"
        assert not store.lock(CELL)
        assert store.lock(MASK)
        other.kill()
        other.wait()
    assert store.lock(CELL)


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        Store(tmp_path / "file").open()


def test_a_file_system_without_locks_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.lockf", no_locks)
    with pytest.raises(StoreError, match="no locks"):
        store.lock(CELL)


def test_reading_makes_and_locks_nothing(tmp_path: Path) -> None:
    assert not Store(tmp_path / "nothing").has(CELL)
    assert not (tmp_path / "nothing").exists()
