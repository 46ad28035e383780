"""The file that a study keeps its regrets in."""

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ascertain._core.files import replacing
from ascertain.errors import StoreError

SCHEMA = pa.schema(
    {
        "d": pa.int64(),
        "budget": pa.int64(),
        "rate": pa.float64(),
        "n": pa.int64(),
        "approach": pa.string(),
        "horizon": pa.int64(),
        "replicate": pa.int64(),
        "regret": pa.float64(),
    }
)
_IDENTITY = ["d", "budget", "rate", "n", "replicate"]
_METADATA = b"ascertain"
_SAMPLER = 1  # raised whenever the study draws other data for the same seed


class RegretFile:
    """`regret.parquet` in a folder: one row per training set, approach and horizon.

    One process at a time holds it. Use it as a context manager; rows that were added are saved on the
    way out, also after an error.
    """

    def __init__(self, folder: Path, *, seed: int):
        self.path = folder / "regret.parquet"
        self.seed = seed
        self._added: list[tuple[object, ...]] = []

    def __enter__(self) -> "RegretFile":
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path.parent / ".lock").open("w")
        except OSError as error:
            raise StoreError(f"cannot write to {self.path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StoreError(
                f"another study is running in {self.path.parent}; wait or use another folder"
            ) from error
        try:
            self._table = self._load()
        except StoreError:
            self._lock.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.save()
        finally:
            self._lock.close()

    @property
    def table(self) -> pd.DataFrame:
        """Everything known so far, sorted."""
        if not self._added:
            return self._table
        columns = zip(*self._added, strict=True)
        new = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        together = pd.concat([self._table, new.to_pandas()], ignore_index=True)
        return together.sort_values(SCHEMA.names[:-1], ignore_index=True)

    def finished(self) -> set[tuple[int, int, float, int, int]]:
        """Identify the training sets that every approach was run on."""
        return set(self._table.groupby(_IDENTITY).size().index)

    def add(self, regrets: Iterable[tuple[object, ...]]) -> None:
        """Take in all rows of a task; `save` puts them on disk."""
        self._added += regrets

    def save(self) -> None:
        """Put everything on disk.

        Nothing is forgotten before it is written: an interrupt in here leaves what was added to be saved
        on the way out.
        """
        if not self._added:
            return
        together = self.table
        table = pa.Table.from_pandas(together, SCHEMA, preserve_index=False)
        provenance = json.dumps({"seed": self.seed, "sampler": _SAMPLER})
        with replacing(self.path) as temporary:
            pq.write_table(table.replace_schema_metadata({_METADATA: provenance}), temporary)
        self._table, self._added = together, []

    def _load(self) -> pd.DataFrame:
        if not self.path.exists():
            return SCHEMA.empty_table().to_pandas()
        try:
            table = pq.read_table(self.path)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(
                f"{self.path} cannot be read; remove it or use another folder ({error})"
            ) from error
        provenance = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if not table.schema.equals(SCHEMA) or provenance.get("sampler") != _SAMPLER:
            raise StoreError(f"{self.path} is not a result of this version of the study; use another folder")
        if provenance["seed"] != self.seed:
            raise StoreError(
                f"{self.path} was made with seed {provenance['seed']}, not {self.seed}; "
                "use that seed or another folder"
            )
        return table.to_pandas()
