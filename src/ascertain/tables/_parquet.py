"""Ranges of rows from Parquet files of numbers, one row group at a time."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Int32

from ascertain._core.frames import value_name
from ascertain.errors import InputError, did_you_mean
from ascertain.tables._columns import LARGEST, number_classes
from ascertain.tables._reading import MOST_CLASSES

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class RowGroup:
    """Consecutive rows of a file, which are read together."""

    path: Path
    place: int  # in the file
    first: int  # row of all files; rows count from 0
    first_in_file: int
    n_rows: int

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns."""
        try:
            with pq.ParquetFile(self.path) as file:
                return file.read_row_group(self.place, columns=list(columns))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.path} cannot be read as Parquet: {error}") from error


class ParquetRows:
    """The rows of Parquet files as one table; only footers are read until rows are asked for."""

    def __init__(self, files: Files):
        self.n_rows = 0
        self.groups: list[RowGroup] = []
        self.schemas: dict[Path, pa.Schema] = {}
        for path in _paths(files):
            try:
                with pq.ParquetFile(path) as file:
                    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
                    self.schemas[path] = file.schema_arrow
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"{path} cannot be read as Parquet: {error}") from error
            start = self.n_rows
            for place, size in enumerate(sizes):
                self.groups.append(RowGroup(path, place, self.n_rows, self.n_rows - start, size))
                self.n_rows += size
        if self.n_rows == 0:
            raise InputError(f"there is no row in {', '.join(path.name for path in self.schemas)}")

    def numeric_columns(self, target: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that become features, each of numbers in every file."""
        first = next(iter(self.schemas.values()))
        chosen = tuple(name for name in first.names if name != target) if wanted is None else tuple(wanted)
        if not chosen or target in chosen:
            raise InputError(f"name columns besides the target {target!r}, got {list(chosen)}")
        for path, schema in self.schemas.items():
            for name in (*chosen, target):
                if name not in schema.names:
                    raise InputError(
                        f"{path.name} has no column {name!r}; {did_you_mean(name, schema.names)}"
                    )
            for name in chosen:
                kind = schema.field(name).type
                if not _is_numeric(kind):
                    raise InputError(
                        f"the column {name!r} of {path.name} holds {kind}, not numbers; leave it out "
                        "(columns=), or write it as numbers, a text as a column of 0 and 1 for each category"
                    )
        return chosen

    def classes(self, target: str) -> tuple[str, ...]:
        """The different values of the target, in order."""
        found: dict[Any, None] = {}
        for group in self.groups:
            encoded = group.read([target]).column(0).combine_chunks().dictionary_encode()
            found.update(dict.fromkeys(encoded.dictionary.drop_null().to_pylist()))
            if len(found) > MOST_CLASSES:
                raise InputError(
                    f"the target {target!r} has more than {MOST_CLASSES} different values; merge classes, or "
                    "name another target"
                )
        names, _ = number_classes(target, pd.Series(list(found)))
        if len(names) < 2:
            raise InputError(f"the target {target!r} has one class at most; there is nothing to predict")
        return names

    def read(
        self, start: int, stop: int, columns: Sequence[str], target: str, classes: Sequence[str]
    ) -> tuple[Float32[np.ndarray, "rows columns"], Int32[np.ndarray, " rows"]]:
        """Numbers (NaN: not measured) and classes of the rows from `start` up to, without, `stop`."""
        x = np.empty((stop - start, len(columns)), np.float32)
        y = np.empty(stop - start, np.int32)
        for group, part in self._overlapping(start, stop, [*columns, target]):
            first = max(group.first, start)
            place = slice(first - start, first - start + part.num_rows)
            row = first - group.first + group.first_in_file  # of the file
            for number, name in enumerate(columns):
                x[place, number] = _numbers(part.column(name), name, group.path, row)
            y[place] = number_labels(part.column(target), classes, target, group.path.name, row)
        return x, y

    def _overlapping(
        self, start: int, stop: int, columns: Sequence[str]
    ) -> Iterator[tuple[RowGroup, pa.Table]]:
        for group in self.groups:
            low, high = max(start, group.first), min(stop, group.first + group.n_rows)
            if low < high:
                yield group, group.read(columns).slice(low - group.first, high - low)


def number_labels(
    column: pa.ChunkedArray, classes: Sequence[str], target: str, where: str, first_row: int
) -> Int32[np.ndarray, " rows"]:
    """The place of each label among the classes."""
    encoded = column.combine_chunks().dictionary_encode()
    for row in np.flatnonzero(encoded.is_null())[:1]:
        raise InputError(
            f"the target {target!r} is empty in row {first_row + row} of {where} (rows count from 0); leave "
            "such rows out"
        )
    labels = [value_name(value) for value in encoded.dictionary.to_pylist()]
    for label in [each for each in labels if each not in classes][:1]:
        raise InputError(f"{where} has the class {label!r} of {target!r}; known are {', '.join(classes)}")
    numbers = np.array([classes.index(label) for label in labels], np.int32)
    return numbers[encoded.indices.to_numpy(zero_copy_only=False)]


def _paths(files: Files) -> list[Path]:
    """The files of a folder, a pattern or a list."""
    if not isinstance(files, str | os.PathLike):
        found = [Path(each) for each in files]
    elif Path(files).is_dir():
        found = sorted([*Path(files).glob("*.parquet"), *Path(files).glob("*.pq")])
    elif Path(files).exists():
        found = [Path(files)]
    else:
        found = sorted(Path(each) for each in glob(os.fspath(files)))
    if not found:
        raise InputError(f"there is no Parquet file at {files}; name a file, a folder or a pattern")
    return found


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _numbers(column: pa.ChunkedArray, name: str, path: Path, first_row: int) -> Float32[np.ndarray, " rows"]:
    """A column in single precision, NaN where it is empty."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    values = np.asarray(column.to_numpy(), np.float64)
    for row in np.flatnonzero(np.abs(values) > LARGEST)[:1]:
        raise InputError(
            f"the column {name!r} of {path.name} holds {values[row]} in row {first_row + row} (rows count "
            "from 0); numbers must be finite in single precision, and null where nothing was measured"
        )
    return values.astype(np.float32)
