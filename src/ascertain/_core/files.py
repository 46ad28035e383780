"""Writing files so that a reader sees the old one or the new one, never half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; it takes the place of `path` once it is safely on disk.

    The temporary name keeps the suffix, since some writers choose their format by it. If the body
    raises, `path` is left as it was.
    """
    temporary = path.with_name(f".{path.stem}-{uuid4().hex}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
