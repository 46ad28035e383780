"""One file per model: safetensors with the arrays, and JSON about them in the metadata of its header.

A file is refused unless it is exactly what was written: the JSON has a digest of the whole file. Digests show
damage and careless changes, not forgery, so whatever a file claims is checked and bounded before it is used.
"""

import hashlib
import json
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import safetensors.numpy
from numpy.typing import ArrayLike
from pydantic import (
    AwareDatetime,
    Field,
    JsonValue,
    NonNegativeInt,
    model_serializer,
)

from ascertain._core.files import remove_abandoned, replacing
from ascertain._core.json import Strict, canonical, first_finding, plain_json
from ascertain._core.version import __version__
from ascertain.errors import InputError, StoreError
from ascertain.methods._registry import State
from ascertain.problem import Problem
from ascertain.protocol import Protocol
from ascertain.restoration._registry import MOST_COMPLETIONS

FILE_NAME = "model.safetensors"
SCHEMA_VERSION: Literal[3] = 3  # 1 and 2, of version 0.1.0, had a second file
REMEDY = "get a fresh copy of the file, or save the model again"

_KIND: Literal["ascertain model"] = "ascertain model"
_METADATA = "ascertain"  # the key of our JSON in the metadata
_OPENING = b'{"__metadata__":{"ascertain":'  # of the header, after its length in 8 bytes
_BLANK = "0" * 64  # in the place of the digest, while it is computed
_BLOCK = 2**20  # bytes that are read at a time for the digest

_TYPES = {"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64"}
_TYPES |= {
    f"{kind[0].upper()}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}

# A model stays far below each; a forged one must not take all memory, or days.
_MOST_BYTES, _MOST_HEADER_BYTES, _MOST_ROWS = 8 * 2**30, 64 * 2**20, 10**9

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Rows = Annotated[int, Field(ge=1, le=_MOST_ROWS)]
Names = tuple[str, ...] | None
_OPTIONAL = ("decision_costs", "setup_costs", "needs", "setup_names")


class PartRecord(Strict):
    """A method, predictor or restorer by its name in the registry, and what it was fitted with."""

    name: str
    module: str  # never imported because of this: it tells people what to install
    settings: JsonValue


class ProblemRecord(Strict):
    """What a problem is made of."""

    reveals: tuple[
        Annotated[str, Field(pattern="^[01]+$")], ...
    ]  # a text for each action, a letter for each feature
    costs: tuple[float, ...]
    budget: float
    n_classes: Annotated[int, Field(le=10**6)]
    action_names: Names
    feature_names: Names
    class_names: Names
    decision_costs: tuple[tuple[float, ...], ...] | None = None
    setup_costs: tuple[float, ...] | None = None
    needs: tuple[Annotated[str, Field(pattern="^[01]+$")], ...] | None = None  # as reveals, by set-up
    setup_names: Names = None

    @model_serializer(mode="wrap")
    def _as_short_as_it_can_be(self, serialise: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Leave out what only some problems have, so that the files of others stay as they were."""
        content = serialise(self)
        return {name: each for name, each in content.items() if each is not None or name not in _OPTIONAL}

    @classmethod
    def of(cls, problem: Problem) -> "ProblemRecord":
        """Describe a problem."""
        if problem.reveals.ndim != 2:
            raise InputError(f"reveals has shape {problem.reveals.shape}; save stacked models one by one")
        same = ("n_classes", "action_names", "feature_names", "class_names", "setup_names")
        costs, setup_costs = problem.decision_costs, problem.setup_costs
        return cls(
            reveals=_bits(problem.reveals),
            setup_costs=None if setup_costs is None else tuple(np.asarray(setup_costs).tolist()),
            needs=None if problem.needs is None else _bits(problem.needs),
            costs=tuple(np.asarray(problem.costs).tolist()),
            budget=float(problem.budget),
            decision_costs=costs if costs is None else tuple(map(tuple, np.asarray(costs).tolist())),
            **{name: getattr(problem, name) for name in same},
        )

    def problem(self) -> Problem:
        """Build the problem; raises a `ValueError` if there can be none like it."""
        content = dict(self) | {"reveals": _matrix(self.reveals), "costs": np.array(self.costs)}
        if self.decision_costs is not None:
            content |= {"decision_costs": np.array(self.decision_costs)}
        if self.setup_costs is not None and self.needs is not None:
            content |= {"setup_costs": np.array(self.setup_costs), "needs": _matrix(self.needs)}
        return Problem(**content)


def _bits(matrix: ArrayLike) -> tuple[str, ...]:
    return tuple("".join(row) for row in np.where(matrix, "1", "0"))


def _matrix(rows: tuple[str, ...]) -> np.ndarray:
    found: np.ndarray = np.array([list(row) for row in rows]) == "1"
    return found


class Header(Strict):
    """The JSON in the metadata; the digest comes first, so that its place is known."""

    sha256: Digest = _BLANK
    kind: Literal["ascertain model"] = _KIND
    schema_version: Literal[3] = SCHEMA_VERSION
    method: PartRecord
    predictor: PartRecord | None
    restorer: PartRecord | None
    problem: ProblemRecord
    state: State
    protocol: Protocol
    train_rows: Rows
    completions: Annotated[int, Field(ge=1, le=MOST_COMPLETIONS)] = 1
    valid_rows: Rows
    data_hash: Digest
    seed: NonNegativeInt
    contains_training_rows: bool
    preprocessing: dict[str, JsonValue] | None
    package_version: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*[0-9A-Za-z.+-]*$", max_length=50)]
    created: AwareDatetime

    @property
    def versions(self) -> str:
        """Which version wrote and which one reads, if they differ; for the end of a message."""
        same = self.package_version == __version__
        return "" if same else f" (saved by Ascertain {self.package_version}, read by {__version__})"

    @property
    def is_newer(self) -> bool:
        """Whether a later version of the package wrote it."""
        versions = (self.package_version, __version__)
        saved, own = ([int(each) for each in re.findall("[0-9]+", version)[:3]] for version in versions)
        return saved > own


def model_file(path: str | Path) -> Path:
    """The file of a model: a path that ends in `.safetensors`, or `model.safetensors` in any other, a folder.

    >>> str(model_file("heart.safetensors")), str(model_file("heart"))
    ('heart.safetensors', 'heart/model.safetensors')
    """
    path = Path(path)
    return path if path.suffix == ".safetensors" else path / FILE_NAME


def pack(header: Header, arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file; raises a `ValueError` for what JSON cannot hold."""
    text = json.dumps(header.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)
    content = safetensors.numpy.save(arrays, {_METADATA: text})
    return content.replace(_BLANK.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


@dataclass(frozen=True)
class Contents:
    """An open file that is exactly what was written; its arrays are read when they are asked for.

    So they can be compared with what a model has before they take any memory.
    """

    file: Path
    header: Header
    types: dict[str, tuple[str, tuple[int, ...]]]  # type and shape of each array, by name
    opened: BufferedIOBase

    def arrays(self) -> dict[str, np.ndarray]:
        """Read all arrays by name."""
        self.opened.seek(0)
        try:
            return safetensors.numpy.load(self.opened.read())
        except Exception as error:  # the reader of tensors has no error of its own
            raise StoreError(f"{self.file} cannot be used: {first_finding(error)}; {REMEDY}") from error


def unpack(file: Path, opened: BufferedIOBase, size: int) -> Contents:
    """Read the header of an open file; raises a `StoreError` that names it unless it is what was written.

    The rest is only looked at if there are as many bytes as the header says, and never held in memory.
    """
    if size > _MOST_BYTES:
        raise StoreError(f"{file} has {size:,} bytes, far more than a model can have; {REMEDY}")
    try:
        start = opened.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
            raise ValueError("it has no header, or too long a one")
        head = opened.read(length)
        described = plain_json(head)
        text = described.pop("__metadata__", {}).get(_METADATA)
        raw = None if text is None else plain_json(text.encode())
        types = {name: (_TYPES[each["dtype"]], tuple(each["shape"])) for name, each in described.items()}
        whole = 8 + length + sum(np.dtype(kind).itemsize * prod(shape) for kind, shape in types.values())
    except (ValueError, RecursionError, AttributeError, LookupError, TypeError) as error:
        raise StoreError(f"{file} is damaged, or no model at all: {error}; {REMEDY}") from error
    if not isinstance(raw, dict) or raw.get("kind") != _KIND:
        old = file.with_name("model.json").exists()
        what = "is half of a model" if old else "holds tensors, perhaps of a model"
        raise StoreError(
            f"{file} {what} of Ascertain 0.1.0, which was two files and cannot be read any more; fit it again"
        )
    version, digest = raw.get("schema_version"), str(raw.get("sha256"))
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} has the schema version {version}, but Ascertain {__version__} reads only up to "
            f"{SCHEMA_VERSION}; update it (pip install --upgrade ascertain)"
        )
    if size != whole:
        raise StoreError(f"{file} has {size:,} bytes instead of {whole:,}: it is damaged; {REMEDY}")
    found = hashlib.sha256(start + head.replace(digest.encode(), _BLANK.encode(), 1))
    while block := opened.read(_BLOCK):
        found.update(block)
    if found.hexdigest() != digest:
        raise StoreError(f"{file} was changed or damaged after it was saved; {REMEDY}")
    try:
        return Contents(file, Header.model_validate_json(canonical(raw)), types, opened)
    except ValueError as error:
        raise StoreError(f"{file} cannot be used: {first_finding(error)}; {REMEDY}") from error


@contextmanager
def open_file(file: Path) -> Iterator[Contents]:
    """Open and check a file; what is no plain file is not even opened."""
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{file} is not a plain file; name a file or folder that a model was saved to")
        with file.open("rb") as opened:
            yield unpack(file, opened, found.st_size)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{file} is missing; name the file of a model (*.safetensors), or the folder it was saved in"
        ) from error
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}") from error


def write_file(file: Path, content: bytes) -> None:
    """Write a file: however that ends, the old or the new one is there. Clears up after killed writers."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        refuse_foreign(file)
        with replacing(file) as temporary:
            temporary.write_bytes(content)
        remove_abandoned(file)
    except OSError as error:
        raise StoreError(
            f"the model cannot be written to {file}: {error}; make room there, or name another folder"
        ) from error


def refuse_foreign(file: Path) -> None:
    """Raise rather than let a file be overwritten that is not ours."""
    if file.exists() and not is_model(file):
        raise StoreError(
            f"{file} exists and is no model of this version of Ascertain; remove it, or name another place"
        )


def is_model(file: Path) -> bool:
    """Whether a file begins as all of ours do; the rest of it may be damaged."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(8 + len(_OPENING))[8:] == _OPENING
