"""Rows split over several devices, each of which holds an equal share of them.

Programs are written for one device. Where rows are split, the compiler splits what is computed for every row,
and fetches the rows of a batch from the devices that hold them. A batch itself is computed on every device
alike, so results do not depend on the number of devices.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from ascertain._core.arrays import on_device
from ascertain.errors import InputError

Tree = TypeVar("Tree")

_ROWS = "rows"  # the axis of the mesh


class Shards(eqx.Module, Generic[Tree]):
    """Arrays, such as those of a `Table`, whose rows are split over devices in equal shares.

    Made by `shard`, or by `ascertain.tables.read_shards` from Parquet files. `ascertain.methods.fit` takes
    them in place of tables.
    """

    padded: Tree  # with rows at the end that make the shares equal
    n_rows: int = eqx.field(static=True)  # without those
    mesh: Mesh = eqx.field(static=True)

    @property
    def n_devices(self) -> int:
        """The number of devices that hold the rows."""
        return self.mesh.size

    def whole(self) -> Tree:
        """The rows without padding; to be called in compiled programs, where shares need not be equal."""
        rows: Tree = jax.tree.map(lambda leaf: leaf[: self.n_rows], self.padded)
        return rows


def shard(rows: Tree, devices: Sequence[jax.Device] | None = None) -> Shards[Tree]:
    """Split the rows of a table over devices.

    Parameters
    ----------
    rows
        A `Table`, or any PyTree of arrays with one entry for each row.
    devices
        Which devices; by default all there are.

    Examples
    --------
    >>> from ascertain import Table
    >>> rows = Table([[0.5], [1.5], [2.5]], y=[0, 1, 1])
    >>> rows = shard(rows, jax.devices()[:1])
    >>> rows.n_rows, rows.n_devices
    (3, 1)
    """
    mesh = row_mesh(devices)
    sizes = {len(leaf) for leaf in jax.tree.leaves(rows)}
    if len(sizes) != 1:
        raise InputError(
            f"arrays of {sorted(sizes)} rows cannot be split together; they must be of one length"
        )
    (n_rows,) = sizes

    def split(leaf: Array) -> Array:
        host = np.asarray(leaf)
        shape = (padded_size(n_rows, mesh), *host.shape[1:])

        def share(index: tuple[slice, ...] | None) -> np.ndarray:
            assert index is not None
            part = host[index]
            missing = len(range(*index[0].indices(shape[0]))) - len(part)
            return np.pad(part, [(0, missing), *[(0, 0)] * (host.ndim - 1)])

        return jax.make_array_from_callback(shape, by_rows(mesh), share)

    return Shards(jax.tree.map(split, rows), n_rows, mesh)


def row_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Devices in a row; by default all there are."""
    chosen = jax.devices() if devices is None else list(devices)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"rows are split over one device or more, each named once; got {chosen}")
    return Mesh(np.array(chosen), (_ROWS,), axis_types=(AxisType.Auto,))


def by_rows(mesh: Mesh) -> NamedSharding:
    """How arrays are placed whose rows are split."""
    return NamedSharding(mesh, PartitionSpec(_ROWS))


def padded_size(n_rows: int, mesh: Mesh) -> int:
    """The number of rows with those that make shares equal."""
    return -(-n_rows // mesh.size) * mesh.size


def common_mesh(*tables: Any) -> Mesh | None:
    """The devices over which some of the tables are split; None where none is."""
    meshes = {table.mesh for table in tables if isinstance(table, Shards)}
    if len(meshes) > 1:
        raise InputError("training and validation rows are split over different devices; use the same ones")
    return next(iter(meshes), None)


def whole(table: Any) -> Any:
    """A table itself, or what `Shards` hold; to be called in compiled programs."""
    return table.whole() if isinstance(table, Shards) else table


@contextmanager
def computing_on(mesh: Mesh) -> Iterator[None]:
    """Let `on_every_device` know the devices."""
    with jax.set_mesh(mesh):
        yield


def on_every_device(array: Array) -> Array:
    """Gather what is split, so that what follows is computed on every device in the same order.

    Sums of floating-point numbers depend on their order. Where nothing is split, this changes nothing.
    """
    if jax.sharding.get_abstract_mesh().empty:
        return array
    return jax.lax.with_sharding_constraint(array, PartitionSpec())


def filled_up(array: Int[Array, " rows"], value: int) -> Int[Array, " filled"]:
    """Add entries at the end until all devices have the same number; only where rows are split.

    To count rows by number, with a value that is none: of unequal shares, all numbers would be gathered.
    """
    mesh = jax.sharding.get_abstract_mesh()
    missing = 0 if mesh.empty else -len(array) % mesh.size
    return jnp.pad(array, (0, missing), constant_values=value) if missing else array


def on_one_device(tree: Tree) -> Tree:
    """What every device holds, moved to the default one, as if it had been computed there."""
    moved: Tree = jax.tree.map(lambda leaf: on_device(leaf) if eqx.is_array(leaf) else leaf, tree)
    return moved
