"""Tables that are written for people, as CSV or Parquet."""

from pathlib import Path

import pandas as pd

from ascertain._core.files import replacing
from ascertain.errors import InputError

_SUFFIXES = (".csv", ".parquet", ".pq")


def check_output(path: Path, source: Path) -> None:
    """Raise, before the work begins, where no table can be written, or where it would replace its source."""
    if path.suffix not in _SUFFIXES:
        raise InputError(f"{path} must end in .csv or .parquet, which says how to write it")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path} is the table that is read; name another file to write")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another file")


def write_frame(table: pd.DataFrame, path: Path) -> None:
    """Write a table whole: the old file stays if anything fails."""
    with replacing(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary, index=False, lineterminator="\n")
        else:
            table.to_parquet(temporary, index=False)
