"""Whether --out can be written, which is checked before the long work begins."""

import tempfile
from pathlib import Path

from ascertain.errors import InputError


def check_writable(folder: Path) -> None:
    """Raise where nothing can be written to a folder, which may not exist yet; leaves nothing behind."""
    _check_writable(folder, "another folder")


def check_page(path: Path) -> None:
    """Raise where no page can be written."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out names a file")
    _check_writable(path.parent, "a file in another folder")


def check_table(path: Path, source: Path) -> None:
    """Raise where no table can be written, or where it would replace its source."""
    from ascertain.tables._writing import check_output

    check_output(path, source)
    _check_writable(path.parent, "a file in another folder")


def _check_writable(folder: Path, other: str) -> None:
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"nothing can be written to {folder} ({error.strerror or error}); name {other} with --out"
        ) from error
    finally:
        for each in made:
            if each.exists():
                each.rmdir()
