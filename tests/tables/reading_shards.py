"""Read a folder on one device and on eight, and print how, as JSON. Needs eight virtual devices."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ascertain.tables import _parquet, read_shards


def main(folder: str) -> None:
    one = read_shards(folder, target="sick", devices=jax.devices()[:1])

    ranges: list[int] = []
    groups: list[int] = []
    read_rows, read_group = _parquet.ParquetRows.read, _parquet.RowGroup.read

    def counted_rows(self: Any, start: int, stop: int, *more: Any) -> Any:
        ranges.append(stop - start)
        return read_rows(self, start, stop, *more)

    def counted_group(self: Any, columns: Sequence[str]) -> Any:
        if len(columns) > 1:  # not in search of classes
            groups.append(self.first)
        return read_group(self, columns)

    _parquet.ParquetRows.read = counted_rows  # type: ignore[assignment,method-assign]
    _parquet.RowGroup.read = counted_group  # type: ignore[method-assign]
    eight = read_shards(folder, target="sick")
    leaves = zip(jax.tree.leaves(one.rows.whole()), jax.tree.leaves(eight.rows.whole()), strict=True)
    print(
        json.dumps(
            {
                "devices": eight.rows.n_devices,
                "rows_of_each": [len(share.data) for share in eight.rows.padded.x.addressable_shards],
                "same_as_on_one": all(np.array_equal(a, b) for a, b in leaves),
                "most_read_at_once": max(ranges),
                "groups_read": len(groups),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
