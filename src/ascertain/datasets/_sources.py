"""The files of real datasets: where to look for them, where to download them, and their checksums."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import platformdirs
import pooch

from ascertain._core.files import replacing
from ascertain.errors import InputError, StoreError

_RETRIES = 2  # after a download that failed


@dataclass(frozen=True)
class Source:
    """A file of a dataset: what it is called, where it can be had, and what is known of its content.

    Equivalent files may lie at `others`: compressed or not, or in another public layout. Their bytes may
    rightly differ, so that no checksum is asked of them.
    """

    path: str  # in a folder of data; its bare name will do too
    home: str  # the page that offers or describes the file, for people
    url: str | None = None  # ends in the name of `path` or of one of `others`; None: is not published
    others: tuple[str, ...] = ()
    sha256: str | None = None  # of the content of `path` once decompressed
    git_blob: str | None = None  # the same, as git hashes it
    note: str = ""  # for somebody who fetches the file by hand


def find(source: Source, data_dir: Path | None = None) -> Path:
    """Find a dataset's file, in `data_dir` (by default `ASCERTAIN_DATA`) or in the user's data directory.

    A file that neither holds is downloaded into the latter.
    """
    folders = [*_chosen_folder(data_dir), user_folder()]
    for folder in folders:
        for name in _names(source):
            if (folder / name).is_file():
                _check_digests(source, name, folder / name, called=str(folder / name))
                return folder / name
    return _download(source, folders)


def user_folder() -> Path:
    """The folder that downloads are kept in."""
    return Path(platformdirs.user_data_dir("ascertain", appauthor=False))


def _chosen_folder(data_dir: Path | None) -> list[Path]:
    """The folder that the caller or the environment names, if either does."""
    origin, named = (
        ("ASCERTAIN_DATA", os.environ.get("ASCERTAIN_DATA")) if data_dir is None else ("data_dir", data_dir)
    )
    if not named:
        return []
    if not Path(named).is_dir():
        raise InputError(f"{origin} names {named}, which is not a folder; create it or name another")
    return [Path(named)]


def _names(source: Source) -> Iterator[str]:
    for path in (source.path, *source.others):
        yield path
        yield PurePosixPath(path).name


def _check_digests(source: Source, name: str, path: Path, called: str) -> None:
    """Refuse a file that should have the known content, going by its name, but has not."""
    if PurePosixPath(name).name != PurePosixPath(source.path).name:
        return
    content = _content(path)
    framed = b"blob %d\0" % len(content) + content  # what git hashes
    digests = (
        ("sha256", source.sha256, hashlib.sha256(content).hexdigest()),
        ("git blob id", source.git_blob, hashlib.sha1(framed, usedforsecurity=False).hexdigest()),
    )
    for kind, expected, found in digests:
        if expected not in (None, found):
            raise StoreError(
                f"{called} is not the expected {source.path}: the {kind} of its content is {found}, "
                f"not {expected}; get a fresh copy (see {source.home})"
            )


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise StoreError(f"{path} cannot be read: {error}; get a fresh copy") from error


def _download(source: Source, folders: list[Path]) -> Path:
    """Download a file into the last of the folders; it appears there whole and checked, or not at all."""
    searched = f"{' or '.join([source.path, *source.others])} is not in {' or '.join(map(str, folders))}"
    if source.url is None:
        raise StoreError(
            f"{searched}, and is not published in this format. Its origin is {source.home}; {source.note}; "
            f"put the file at {folders[-1] / source.path}"
        )
    ending = PurePosixPath(source.url).name
    name = next(each for each in (source.path, *source.others) if PurePosixPath(each).name == ending)
    target = folders[-1] / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            _fetch(source.url, temporary)
            _check_digests(source, name, temporary, called=f"what {source.url} holds")
    except (OSError, ValueError) as error:  # every error of requests is an OSError
        raise StoreError(
            f"{searched}, and could not be downloaded: {error}. "
            f"Get it from {source.url} (see {source.home}) and put it at {target}"
        ) from error
    return target


def _fetch(url: str, path: Path) -> None:
    file = path.name
    pooch.create(path.parent, "", registry={file: None}, urls={file: url}, retry_if_failed=_RETRIES).fetch(
        file
    )
