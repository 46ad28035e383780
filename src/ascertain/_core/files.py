"""Replacing files atomically: a reader sees the old file or the new one, never half of one."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

_TEMPORARY = re.compile(r"\..+-[0-9a-f]{32}")
_LEFT_ALONE = 3600.0  # seconds; a younger temporary file may be another writer's


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces `path` once it is safely on disk.

    The temporary name keeps the suffix, since some writers choose their format by it. If the body
    raises, `path` is left as it was. An error of the system, such as that a disk is full, names `path`.
    """
    temporary = path.with_name(f".{path.stem}-{uuid4().hex}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the rename survives a crash, too
        finally:
            os.close(folder)
    except OSError as error:
        by_system = error.errno is not None  # and not a failed download, which has words of its own
        if by_system and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def leftovers(folder: Path, *suffixes: str) -> list[Path]:
    """Temporary files of `replacing` in a folder; of processes that were killed, if nobody writes there."""
    found = (path for path in folder.glob(".*") if _TEMPORARY.fullmatch(path.stem))
    return [path for path in found if path.suffix in suffixes]


def remove_abandoned(path: Path) -> None:
    """Remove temporary files of `path` that killed writers left: those of an hour ago and before."""
    pattern = re.compile(rf"\.{re.escape(path.stem)}-[0-9a-f]{{32}}{re.escape(path.suffix)}")
    with suppress(OSError):  # they are in nobody's way
        for other in path.parent.iterdir():
            if pattern.fullmatch(other.name) and time.time() - other.stat().st_mtime > _LEFT_ALONE:
                other.unlink(missing_ok=True)
