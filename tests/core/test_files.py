from pathlib import Path

import pytest

from ascertain._core.files import replacing


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
