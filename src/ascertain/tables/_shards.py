"""A large table in Parquet files: each device gets its share of the rows, and nobody holds all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Float64

from ascertain._core.frames import as_pandas
from ascertain._core.sharding import Shards, by_rows, padded_size, row_mesh
from ascertain.errors import InputError, did_you_mean
from ascertain.problem import Table
from ascertain.tables._parquet import Files, ParquetRows, number_labels

_STEPS = 1024  # into which a standard deviation is divided, to round means
_MOST_ROWS = 2**31 - 1  # that can be numbered


class Scale(NamedTuple):
    """How the numbers of each column are standardised."""

    mean: Float64[np.ndarray, " features"]
    deviation: Float64[np.ndarray, " features"]


@dataclass(frozen=True, eq=False)
class SplitTable:
    """Rows of Parquet files, split over devices, and how their columns became features.

    `read_shards` makes one.
    """

    rows: Shards[Table]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, ...]
    scale: Scale

    def encode(self, dataframe: Any) -> Table:
        """Other rows, with their classes, as a table of the same features; it is not split."""
        frame = as_pandas(dataframe)
        for name in [each for each in (*self.columns, self.target) if each not in frame][:1]:
            raise InputError(f"the table has no column {name!r}; {did_you_mean(name, frame.columns)}")
        labels = pa.chunked_array([pa.array(frame[self.target])])
        y = number_labels(labels, self.classes, self.target, "the table", 0)
        x = frame[[*self.columns]].to_numpy(np.float64, na_value=np.nan)
        return Table((x - self.scale.mean) / self.scale.deviation, y, n_classes=len(self.classes))


class _Share(NamedTuple):
    """The rows of one device, and their moments."""

    # First arrays of NumPy, then of JAX on the device.
    x: Any
    y: Any
    available: Any
    ids: Any
    moments: Any


def read_shards(
    files: Files,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    like: SplitTable | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> SplitTable:
    """Read a large table of numbers from Parquet files, with its rows split over devices.

    Every process reads the rows of its own devices, one share after the other, and of all other rows nothing
    but the target. Numbers are standardised; empty cells (null, NaN) were not measured.

    Parameters
    ----------
    files
        A Parquet file, a folder of them, a pattern such as `"rows/*.parquet"`, or a list of files. The files
        of a folder or pattern are read in the order of their names.
    target
        The column of classes; every row needs one.
    columns
        The columns that become features, of numbers or booleans; by default all but the target.
    like
        A table that was read before, whose columns, classes and scale are taken: for validation rows.
    devices
        Which devices; by default those of `like`, or all there are.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pd.DataFrame({"age": [40, 50, None], "sick": ["no", "yes", "no"]}).to_parquet(f"{folder}/1.parquet")
    >>> table = read_shards(folder, target="sick", devices=jax.devices()[:1])
    >>> table.columns, table.classes, table.rows.n_rows
    (('age',), ('no', 'yes'), 3)
    >>> table.rows.padded.x.tolist()
    [[-1.0], [1.0], [0.0]]
    """
    source = ParquetRows(files)
    if source.n_rows > _MOST_ROWS:
        raise InputError(f"{source.n_rows} rows are more than {_MOST_ROWS}; leave some out")
    names = source.numeric_columns(target, columns if like is None else like.columns)
    classes = source.classes(target) if like is None else like.classes
    mesh = row_mesh(devices) if like is None or devices is not None else like.rows.mesh
    length = padded_size(source.n_rows, mesh) // mesh.size
    shares = [
        jax.device_put(_read_share(source, place * length, length, (names, target, classes)), device)
        for place, device in enumerate(mesh.devices.flat)
        if device.process_index == jax.process_index()
    ]
    joined: _Share = jax.tree.map(lambda *parts: _join(mesh, parts), *shares)
    scale = _scale(_everywhere(mesh, joined.moments)) if like is None else like.scale
    for name in [names[place] for place in np.flatnonzero(np.isnan(scale.mean))][:1]:
        raise InputError(f"the column {name!r} was never measured; leave it out (columns=)")
    mean, deviation = (jnp.asarray(each, jnp.float32) for each in scale)
    x = jax.jit(_standardised, donate_argnums=0)(joined.x, joined.available, mean, deviation)
    one_row = Table(np.zeros((1, len(names))), [0], n_classes=len(classes))
    table: Table = eqx.tree_at(
        lambda t: (t.x, t.y, t.available, t.ids), one_row, (x, joined.y, joined.available, joined.ids)
    )
    return SplitTable(Shards(table, source.n_rows, mesh), names, target, classes, scale)


def _read_share(
    source: ParquetRows, start: int, length: int, what: tuple[Sequence[str], str, Sequence[str]]
) -> _Share:
    """Read `length` rows; those beyond the last one are padding."""
    stop = min(start + length, source.n_rows)
    x, y = source.read(min(start, stop), stop, *what)
    missing = length - len(y)
    available = np.pad(~np.isnan(x), ((0, missing), (0, 0)))
    moments = _moments(x)
    x[np.isnan(x)] = 0.0
    ids = start + np.arange(length, dtype=np.int32)
    x, y = np.pad(x, ((0, missing), (0, 0))), np.pad(y, (0, missing))
    return _Share(x, y, available, ids, moments[None])


def _join(mesh: Mesh, parts: Sequence[Array]) -> Array:
    """One array of the parts that devices hold."""
    shape = (mesh.size * parts[0].shape[0], *parts[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, by_rows(mesh), list(parts))


def _everywhere(mesh: Mesh, array: Array) -> np.ndarray:
    """What is split over devices, perhaps of several processes, as a whole."""
    gather = jax.jit(lambda split: split, out_shardings=NamedSharding(mesh, PartitionSpec()))
    return np.asarray(gather(array), np.float64)


def _moments(x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "moments features"]:
    """How many values each column has, their mean, and their mean squared deviation from it."""
    found = np.zeros((3, x.shape[1]))
    for place, column in enumerate(x.T):
        values = column[~np.isnan(column)].astype(np.float64)
        if len(values):
            found[:, place] = len(values), values.mean(), values.var()
    return found.astype(np.float32)


def _scale(moments: Float64[np.ndarray, "shares moments features"]) -> Scale:
    """Mean and standard deviation of all rows from the moments of shares; the mean is NaN without values.

    Both are rounded. So they do not depend on the order of summation, which is up to the number of devices.
    """
    count, mean, variance = moments.transpose(1, 0, 2)
    total = count.sum(axis=0)
    share = count / np.maximum(total, 1)
    center = (share * mean).sum(axis=0)
    deviation = np.sqrt((share * (variance + (mean - center) ** 2)).sum(axis=0))
    deviation = np.where(deviation > 1e-6 * np.abs(center), deviation, 1.0)  # else it is constant
    step = 2.0 ** np.floor(np.log2(deviation)) / _STEPS
    rounded = np.where(total > 0, np.round(center / step) * step, np.nan)
    return Scale(rounded, np.round(deviation / step) * step)


def _standardised(
    x: Float[Array, "rows features"],
    available: Bool[Array, "rows features"],
    mean: Float[Array, " features"],
    deviation: Float[Array, " features"],
) -> Float[Array, "rows features"]:
    return jnp.where(available, (x - mean[None]) / deviation[None], 0.0)
