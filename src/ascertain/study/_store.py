"""The store of a study: one folder, one file per finished job, and tables that are assembled from them.

    study.toml                what is run
    cells/*.json              one record per finished cell (and per dataset and split, for routes)
    artefacts/*.safetensors   what cells share: predictors, masks, restored tables, pretrained networks, each
                              with its structure as JSON, so that no program is traced to read it;
                              and what `auto` chooses by, one file for each cell that it may choose
    unfinished/*.safetensors  the states of trainings that were interrupted
    failures/*.json           the errors of jobs that failed, until they succeed
    *.parquet                 assembled tables

A file appears under its name only when it is complete and on disk, so a killed run loses only what it
was computing. Every file of a job has a digest of its name and content. One that does not fit its digest,
such as that of another job, is damaged, and counts as absent. Several runs may work on one store: each
holds locks on the jobs that it computes, which the system releases when it dies.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from ascertain._core.files import leftovers, replacing
from ascertain.errors import StoreError
from ascertain.evaluation._followed import Followed
from ascertain.recipe._jobs import Job
from ascertain.recipe._programs import shapes_of
from ascertain.study._structures import read_structure, structure_text

_OPEN: set[Path] = set()  # folders with a run in this process
_AT_WORK = 2**48  # the byte of the lock file that runs share; those of jobs come before it
_FOLDERS = ("cells", "artefacts", "unfinished", "failures")
_RECORDED = ("fit", "auto", "routes")  # stages with records as results; the others have arrays
_FIRST_VERSIONS = "0.1."  # which wrote digests of a record's content alone, and none of artefacts
# Damaged JSON may be nested deeper than Python reads it.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class _Artefact(NamedTuple):
    """The content of an artefact's file."""

    arrays: dict[str, np.ndarray]  # by their places among the leaves
    details: dict[str, Any]  # how it was computed
    structure: str  # as `structure_text` writes it; empty in files of earlier versions


class Store:
    """The folder of a study; `open` makes it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._locks: int | None = None

    def open(self) -> None:
        """Make the folder, and the file of locks; reading needs neither."""
        own = self.folder.resolve()
        if own in _OPEN:
            # Locks belong to a process: a second run in this one would not see those of the first.
            raise StoreError(f"another run of this process is at work in {self.folder}")
        try:
            for part in _FOLDERS:
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            self._locks = os.open(self.folder / ".locks", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            problem = f"the folder {self.folder} cannot be used for a study: {error.strerror}"
            raise StoreError(problem) from error
        _OPEN.add(own)
        self._sweep()

    def _sweep(self) -> None:
        """Remove temporary files that killed runs left, unless another run is at work with its own.

        Every run holds a shared lock on one byte. It can be locked alone only while there is no other run.
        """
        assert self._locks is not None
        with suppress(OSError):  # without locks there is no telling; `lock` will say so
            try:
                fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _AT_WORK)
                for part in (*_FOLDERS, "timelines"):
                    for path in leftovers(self.folder / part, ".json", ".safetensors"):
                        path.unlink(missing_ok=True)
                for path in leftovers(self.folder, ".toml", ".parquet"):
                    path.unlink(missing_ok=True)
            finally:
                fcntl.lockf(self._locks, fcntl.LOCK_SH, 1, _AT_WORK)

    def close(self) -> None:
        """Release all locks."""
        if self._locks is not None:
            os.close(self._locks)
            self._locks = None
            _OPEN.discard(self.folder.resolve())

    def path(self, job: Job) -> Path:
        """Where a job's result is kept."""
        if job.stage in _RECORDED:
            return self.folder / "cells" / f"{job.id}.json"
        return self.folder / "artefacts" / f"{job.id}.safetensors"

    def state_path(self, job: Job) -> Path:
        """Where the state of a job's training is kept, if it was interrupted."""
        return self.folder / "unfinished" / f"{job.id}.safetensors"

    def has(self, job: Job) -> bool:
        """Whether a job's result is there; a damaged file counts as absent."""
        return self.path(job).exists() and self.details(job) is not None

    def is_damaged(self, job: Job) -> bool:
        """Whether there is a file of a job's result that is not as it was written."""
        return self.path(job).exists() and self.details(job) is None

    def record(self, job: Job) -> dict[str, Any] | None:
        """Read a cell's record, or None."""
        try:
            record = dict(json.loads(self.path(job).read_bytes()))
            digest = record.pop("sha256", None)
            version = str(record.get("details", {}).get("version"))
        except _UNREADABLE:
            return None
        if version.startswith(_FIRST_VERSIONS):
            own = {name: value for name, value in job.identity().items() if name in record}
            return record if digest == _digest(record) and record.items() >= own.items() else None
        return record if digest == _digest(record, self.path(job)) else None

    def save_record(self, job: Job, record: Mapping[str, Any], followed: Followed | None = None) -> None:
        """Write a cell's record, and what its policy did in rows with holes."""
        if followed is not None:
            content = save({name: np.ascontiguousarray(each) for name, each in followed._asdict().items()})
            with replacing(self._followed_path(job)) as temporary:
                temporary.write_bytes(content)
            record = {**record, "followed": hashlib.sha256(content).hexdigest()}
        with replacing(self.path(job)) as temporary:
            temporary.write_text(json.dumps({**record, "sha256": _digest(record, self.path(job))}))
        self._clear_failure(job)

    def details(self, job: Job) -> dict[str, Any] | None:
        """Read how a job's result was computed, or None if the result is absent or incomplete."""
        if job.stage in _RECORDED:
            record = self.record(job)
            if record is None or not self._has_followed(job, record):
                return None
            details: dict[str, Any] = record["details"]
            return details
        try:
            return _intact(self.path(job)).details
        except StoreError:
            return None

    def artefact_details(self, job: Job) -> dict[str, Any] | None:
        """As `details` for an artefact, without reading its arrays: it may be damaged."""
        try:
            with safe_open(self.path(job), "numpy") as file:
                found: dict[str, Any] = json.loads(file.metadata()["details"])
        except (SafetensorError, *_UNREADABLE):
            return None
        return found

    def save_artefact(self, job: Job, result: Any, details: Mapping[str, Any]) -> None:
        """Write a PyTree of arrays."""
        _write_arrays(self.path(job), result, details)
        self.state_path(job).unlink(missing_ok=True)
        self._clear_failure(job)

    def save_state(self, job: Job, leaves: list[np.ndarray], details: Mapping[str, Any]) -> None:
        """Write the state of a training that was interrupted."""
        _write_arrays(self.state_path(job), leaves, details)

    def load_state(self, job: Job) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Read the state of a training that was interrupted, and how it was computed.

        None if there is none; then it begins anew. A damaged file raises a `StoreError`.
        """
        if not self.state_path(job).exists():
            return None
        found = _intact(self.state_path(job))
        return [found.arrays[str(place)] for place in range(len(found.arrays))], found.details

    def load_artefact(self, job: Job, like: Any) -> Any:
        """Read a PyTree of arrays of the given structure.

        The restored tables of earlier versions have no score of the restorer; it is read as NaN. A damaged
        file raises a `StoreError`.
        """
        shapes, structure = jax.tree.flatten(like)
        found = _intact(self.path(job)).arrays
        leaves = [
            found[str(place)].reshape(leaf.shape)
            if job.stage != "restore" or str(place) in found
            else np.full(leaf.shape, np.nan, leaf.dtype)
            for place, leaf in enumerate(shapes)
        ]
        return jax.tree.unflatten(structure, leaves)

    def result_like(self, job: Job) -> Any:
        """The structure and shapes of an artefact; None if it is not there, or does not say them."""
        try:
            found = _intact(self.path(job))
        except StoreError:
            return None
        structure = read_structure(found.structure)
        if structure is None:
            return None
        places = [str(place) for place in range(structure.num_leaves)]
        if found.arrays.keys() != set(places):
            return None
        return shapes_of(jax.tree.unflatten(structure, [found.arrays[place] for place in places]))

    def load_followed(self, job: Job) -> Followed:
        """Read what the policy of a cell did in rows with holes; a damaged file raises a `StoreError`."""
        record = self.record(job)
        content = None if record is None else self._followed_content(job, record)
        if content is None:
            raise StoreError(
                f"{self._followed_path(job)} is damaged: it does not fit the digest in its cell's "
                "record; run the same command again"
            )
        arrays = load(content)
        return Followed(*(arrays[name] for name in Followed._fields))

    def save_failure(self, job: Job, error: str, trace: str = "") -> None:
        """Record why a job failed; the next run tries it again."""
        content = {**job.identity(), "stage": job.stage, "error": error, "traceback": trace}
        with replacing(self._failure_path(job)) as temporary:
            temporary.write_text(json.dumps(content, indent=1))

    def failure(self, job: Job) -> str | None:
        """The error of a job that failed, or None."""
        try:
            return str(json.loads(self._failure_path(job).read_bytes())["error"])
        except _UNREADABLE:
            return None

    def lock(self, job: Job) -> bool:
        """Try to reserve a job for this process; False where another one has it."""
        assert self._locks is not None
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _lock_byte(job))
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:
            raise StoreError(
                f"the file system of {self.folder} has no locks ({error.strerror}); use another one"
            ) from error
        return True

    def unlock(self, job: Job) -> None:
        """Release a job."""
        assert self._locks is not None
        fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, _lock_byte(job))

    def _followed_path(self, job: Job) -> Path:
        return self.folder / "artefacts" / f"{job.id}.safetensors"

    def _has_followed(self, job: Job, record: Mapping[str, Any]) -> bool:
        """Whether the file that belongs to a record is as it was written, if there is one."""
        return "followed" not in record or self._followed_content(job, record) is not None

    def _followed_content(self, job: Job, record: Mapping[str, Any]) -> bytes | None:
        """The content of the file that belongs to a record; None unless it is as it was written."""
        try:
            content = self._followed_path(job).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == record.get("followed") else None

    def _failure_path(self, job: Job) -> Path:
        return self.folder / "failures" / f"{job.id}.json"

    def _clear_failure(self, job: Job) -> None:
        self._failure_path(job).unlink(missing_ok=True)


def _write_arrays(path: Path, tree: Any, details: Mapping[str, Any]) -> None:
    """Write a PyTree of arrays with its structure, how it was computed, and a digest of both."""
    leaves = {str(place): np.asarray(leaf, order="C") for place, leaf in enumerate(jax.tree.leaves(tree))}
    about = {"details": json.dumps(details), "structure": structure_text(tree)}
    content = save(leaves, {**about, "sha256": _digest_of_artefact(path, leaves, about)})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _intact(path: Path) -> _Artefact:
    """The content of an artefact; raises a `StoreError` unless it fits its digest."""
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        details = dict(json.loads(about["details"]))
    except (SafetensorError, *_UNREADABLE) as error:
        raise StoreError(f"{path} cannot be read: {error}; run the same command again") from error
    before_digests = "sha256" not in about and str(details.get("version")).startswith(_FIRST_VERSIONS)
    if not before_digests and about.get("sha256") != _digest_of_artefact(path, arrays, about):
        raise StoreError(f"{path} is damaged: it does not fit its digest; run the same command again")
    return _Artefact(arrays, details, about.get("structure", ""))


def _digest(record: Mapping[str, Any], path: Path | None = None) -> str:
    name = "" if path is None else _name_in_store(path)
    return hashlib.sha256((name + json.dumps(record)).encode()).hexdigest()


def _digest_of_artefact(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, str]) -> str:
    digest = hashlib.sha256((_name_in_store(path) + about["details"] + about.get("structure", "")).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _name_in_store(path: Path) -> str:
    """What a file is in whatever folder the study is: it has the job's identity, and what is kept of it."""
    return f"{path.parent.name}/{path.name} "


def _lock_byte(job: Job) -> int:
    """The byte of the lock file that stands for a job; jobs that share one wait for each other."""
    return int.from_bytes(hashlib.sha256(job.id.encode()).digest()[:6], "big")
