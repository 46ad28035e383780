import errno
import os
from pathlib import Path

import pytest

from ascertain._core.files import leftovers, replacing


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.txt"
    path.write_text("old")

    def fail_halfway() -> None:
        with replacing(path) as temporary:
            temporary.write_text("ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A failed write has no file name of its own."""
    path = tmp_path / "result.txt"

    def write() -> None:
        with replacing(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*/result.txt'"):
        write()


def test_what_killed_processes_left_is_found(tmp_path: Path) -> None:
    with replacing(tmp_path / "a-b.json") as temporary:
        temporary.write_text("half")
        for other in ("result.json", ".hidden.json", ".x-1234.json", temporary.stem + ".txt"):
            (tmp_path / other).touch()
        assert leftovers(tmp_path, ".json") == [temporary]
