"""The two files of a saved model: what may stand in `model.json`, and writing and reading the pair.

Each file is refused unless it is exactly what was written: `model.json` holds a digest of itself and one of
`model.safetensors`. Digests tell damage and careless changes, not forgery, so what they vouch for is still
checked key by key.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import numpy as np
from pydantic import (
    AwareDatetime,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from ascertain._core.files import replacing
from ascertain._core.json import Strict as Strict
from ascertain._core.json import canonical as canonical
from ascertain._core.json import digest_of as digest_of
from ascertain._core.json import first_finding as first_finding
from ascertain._core.json import plain_json as plain_json
from ascertain._core.version import __version__
from ascertain.errors import InputError, StoreError
from ascertain.methods.registry import State
from ascertain.problem import Problem
from ascertain.protocol import Protocol

JSON_NAME = "model.json"
TENSORS_NAME = "model.safetensors"
KIND: Literal["ascertain model"] = "ascertain model"
SCHEMA_VERSION: Literal[2] = 2  # 1 had no restorer
REMEDY = "get a fresh copy of the folder, or save the model again"

_LARGEST_JSON = 64 * 2**20  # bytes; a header takes some thousands
_MOST_FEATURES = 10**6  # so that a forged header cannot ask for all memory
_READS = 5  # how often to begin anew when a model is replaced while it is read
# What an interrupted save may leave behind: staged tensors, and the temporary files of `replacing`.
_LEFTOVER = re.compile(r"model-\w{64}\.safetensors|\.model-(\w{64}-)?\w{32}\.(safetensors|json)")


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Names = tuple[str, ...] | None


class MethodRecord(Strict):
    """The method, by its name in the registry."""

    name: str
    module: str  # never imported because of this: it tells people what to install


class ProblemRecord(Strict):
    """A problem in numbers and names."""

    reveals: tuple[tuple[NonNegativeInt, ...], ...]  # the features of each action
    costs: tuple[float, ...]
    budget: float
    n_features: Annotated[int, Field(ge=1, le=_MOST_FEATURES)]
    n_classes: int
    action_names: Names
    feature_names: Names
    class_names: Names

    @classmethod
    def of(cls, problem: Problem) -> "ProblemRecord":
        """Describe a problem."""
        if problem.reveals.ndim != 2:
            raise InputError(f"reveals has shape {problem.reveals.shape}; save stacked models one by one")
        return cls(
            reveals=tuple(tuple(np.flatnonzero(row).tolist()) for row in np.asarray(problem.reveals)),
            costs=tuple(np.asarray(problem.costs).tolist()),
            budget=float(problem.budget),
            n_features=problem.n_features,
            n_classes=problem.n_classes,
            action_names=problem.action_names,
            feature_names=problem.feature_names,
            class_names=problem.class_names,
        )

    def problem(self) -> Problem:
        """Give the problem; raises an `InputError` if there can be none like it."""
        reveals = np.zeros((len(self.reveals), self.n_features), bool)
        for action, features in enumerate(self.reveals):
            if any(feature >= self.n_features for feature in features):
                raise InputError(f"action {action} reveals a feature beyond the {self.n_features} there are")
            reveals[action, list(features)] = True
        return Problem(
            reveals,
            np.array(self.costs),
            self.budget,
            self.n_classes,
            action_names=self.action_names,
            feature_names=self.feature_names,
            class_names=self.class_names,
        )


class PredictorRecord(Strict):
    """The size of a masked MLP."""

    hidden: tuple[PositiveInt, ...]


class PVAERecord(Strict):
    """The size of a Partial VAE."""

    kind: Literal["pvae"] = "pvae"
    latent: PositiveInt
    embedding: PositiveInt
    point_hidden: PositiveInt
    encoder: tuple[PositiveInt, ...]
    decoder: tuple[PositiveInt, ...]
    classifier: tuple[PositiveInt, ...]
    noisy: bool


class HotDeckRecord(Strict):
    """The size of a hot deck."""

    kind: Literal["hotdeck"] = "hotdeck"
    donors: PositiveInt
    neighbours: PositiveInt | None


RestorerRecord = Annotated[PVAERecord | HotDeckRecord, Field(discriminator="kind")]


class Provenance(Strict):
    """Where a model comes from."""

    package_version: str
    created: AwareDatetime
    data_hash: Digest
    seed: NonNegativeInt
    contains_training_rows: bool


class TensorsRecord(Strict):
    """The `model.safetensors` that belongs to a `model.json`."""

    sha256: Digest
    size: NonNegativeInt  # bytes

    @classmethod
    def of(cls, tensors: bytes) -> "TensorsRecord":
        """Describe the content of the file."""
        return cls(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors))


class Header(Strict):
    """What `model.json` holds, besides the digest of itself."""

    kind: Literal["ascertain model"] = KIND
    schema_version: Literal[1, 2] = SCHEMA_VERSION
    method: MethodRecord
    settings: JsonValue
    state: State
    protocol: Protocol
    problem: ProblemRecord
    train_rows: PositiveInt
    valid_rows: PositiveInt
    predictor: PredictorRecord | None
    restorer: RestorerRecord | None = None
    preprocessing: dict[str, JsonValue] | None
    provenance: Provenance
    tensors: TensorsRecord

    def text(self) -> str:
        """Give the content of `model.json`."""
        content = self.model_dump(mode="json")
        sealed = content | {"sha256": digest_of(content)}
        return json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def versions(self) -> str:
        """Say which version wrote and which one reads, if they are not the same."""
        saved = self.provenance.package_version
        return "" if saved == __version__ else f" (saved by Ascertain {saved}, read by {__version__})"


def parse(file: Path, content: bytes) -> Header:
    """Read the content of `model.json`; refuse what was not written so."""
    try:
        raw = plain_json(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: it is not valid JSON ({error}); {REMEDY}") from error
    if not isinstance(raw, dict) or raw.get("kind") != KIND:
        raise StoreError(f"{file} does not describe a model of Ascertain; name a folder of `save_model`")
    version = raw.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} has the schema version {version}, but Ascertain {__version__} reads only up to "
            f"{SCHEMA_VERSION}; update it (pip install --upgrade ascertain)"
        )
    if raw.pop("sha256", None) != digest_of(raw):
        raise StoreError(f"{file} was changed or damaged after it was saved; {REMEDY}")
    try:
        return Header.model_validate_json(canonical(raw))
    except ValidationError as error:
        raise StoreError(f"{file} cannot be used: {first_finding(error)}; {REMEDY}") from error


def write_files(folder: Path, header: Header, tensors: bytes) -> None:
    """Write both files such that `read_files` finds the old pair or the new one at any moment.

    The tensors come first, under a name made of their digest. The new `model.json`, which states that
    digest, makes them the model; then they take their final name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        staged = _staged(folder, header.tensors)
        with replacing(staged) as temporary:
            temporary.write_bytes(tensors)
        with replacing(folder / JSON_NAME) as temporary:
            temporary.write_text(header.text(), encoding="utf-8")
        staged.replace(folder / TENSORS_NAME)
        for file in folder.iterdir():
            if _LEFTOVER.fullmatch(file.name):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"the model cannot be written to {folder}: {error}; make room there, or name another folder"
        ) from error


def read_files(folder: Path) -> tuple[Header, bytes]:
    """Read the header, and the tensors that belong to it."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder; name the one that a model was saved in")
    file = folder / JSON_NAME
    content = _content(file)
    for _ in range(_READS):
        header = parse(file, content)
        # In this order, tensors that take their final name in the meantime are found.
        for candidate in (_staged(folder, header.tensors), folder / TENSORS_NAME):
            tensors = _matching(candidate, header.tensors)
            if tensors is not None:
                return header, tensors
        before, content = content, _content(file)
        if content == before:
            _refuse_tensors(folder / TENSORS_NAME, header.tensors)
    raise StoreError(f"{folder} is being written to again and again; load it when that is over")


def _staged(folder: Path, record: TensorsRecord) -> Path:
    return folder / f"model-{record.sha256}.safetensors"


def _refuse_foreign(folder: Path) -> None:
    """Raise rather than overwrite a file of the same name that is not ours."""
    described = folder / JSON_NAME
    try:
        content = json.loads(described.read_bytes())
        foreign = JSON_NAME if not isinstance(content, dict) or content.get("kind") != KIND else None
    except FileNotFoundError:
        foreign = TENSORS_NAME if (folder / TENSORS_NAME).exists() else None
    except (ValueError, RecursionError):
        foreign = None  # not JSON: a damaged model, which may be replaced
    if foreign is not None:
        raise StoreError(
            f"{folder / foreign} is there and not Ascertain's; name another folder, or remove it"
        )


def _content(file: Path) -> bytes:
    """Read `model.json`."""
    try:
        size = file.stat().st_size
        if size > _LARGEST_JSON:
            raise StoreError(f"{file} has {size:,} bytes, far more than a model's can have; {REMEDY}")
        return file.read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"{file} is missing; name the folder that a model was saved in") from error
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}") from error


def _matching(file: Path, record: TensorsRecord) -> bytes | None:
    """Read tensors if they are the recorded ones."""
    try:
        if file.stat().st_size != record.size:
            return None
        tensors = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}") from error
    return tensors if hashlib.sha256(tensors).hexdigest() == record.sha256 else None


def _refuse_tensors(file: Path, record: TensorsRecord) -> NoReturn:
    """Say what is wrong with tensors that do not match."""
    if not file.exists():
        raise StoreError(f"{file} is missing; {REMEDY}")
    size = file.stat().st_size
    if size != record.size:
        raise StoreError(f"{file} has {size:,} bytes instead of {record.size:,}: it is damaged; {REMEDY}")
    raise StoreError(f"{file} is damaged, or belongs to another {JSON_NAME} (its sha256 differs); {REMEDY}")
