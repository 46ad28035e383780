"""Damage that only a checksum shows."""

from pathlib import Path

import pyarrow.parquet as pq


def change_a_value(path: Path, column: str) -> None:
    """Flip a bit of a number in a Parquet file, which can be read as before."""
    group = pq.read_metadata(path).row_group(0)
    chunks = {(chunk := group.column(place)).path_in_schema: chunk for place in range(group.num_columns)}
    content = bytearray(path.read_bytes())
    content[chunks[column].data_page_offset - 1] ^= 1  # ends the dictionary of distinct values
    path.write_bytes(content)
