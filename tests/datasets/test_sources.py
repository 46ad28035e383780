"""Finding files, and downloading them from a server on this machine."""

import gzip
import importlib
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from pkgutil import iter_modules
from threading import Thread

import pytest

from ascertain import InputError, datasets
from ascertain.datasets import _heart_disease as heart_disease
from ascertain.datasets import _sources as sources
from ascertain.datasets import load
from ascertain.datasets._sources import Source, find
from ascertain.errors import StoreError

CONTENT = b"hello\n"
SHA256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"  # sha256sum's
GIT_BLOB = "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object's
SOURCE = Source(
    path="set/greeting.csv.gz",
    home="https://example.org/greetings",
    others=("set/greeting.csv",),
    sha256=SHA256,
    git_blob=GIT_BLOB,
)


class Handler(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        behaviour = self.path.split("/")[1]
        if behaviour == "flaky":
            behaviour = "cut" if len(self.asked) == 1 else "good"
        self.send_response(404 if behaviour == "absent" else 200)
        promised = len(CONTENT) + (100 if behaviour == "cut" else 0)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(CONTENT.upper() if behaviour == "wrong" else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between retries
    handler = type("Fresh", (Handler,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    "name", ["set/greeting.csv.gz", "greeting.csv.gz", "set/greeting.csv", "greeting.csv"]
)
def test_a_file_is_found_under_each_of_its_names(name: str, tmp_path: Path, user_folder: Path) -> None:
    path = put(tmp_path / "mine" / name)
    assert find(SOURCE, tmp_path / "mine") == path


def test_the_callers_folder_comes_before_the_environments_and_the_users(
    tmp_path: Path, user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = put(user_folder / "greeting.csv")
    assert find(SOURCE) == users
    environments = put(tmp_path / "environment" / "greeting.csv")
    monkeypatch.setenv("ASCERTAIN_DATA", str(tmp_path / "environment"))
    assert find(SOURCE) == environments
    callers = put(tmp_path / "mine" / "greeting.csv")
    assert find(SOURCE, tmp_path / "mine") == callers
    callers.unlink()
    assert find(SOURCE, tmp_path / "mine") == users


def test_a_folder_that_is_none_is_refused(
    tmp_path: Path, user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"data_dir names .*/typo, which is not a folder"):
        find(SOURCE, tmp_path / "typo")
    monkeypatch.setenv("ASCERTAIN_DATA", str(tmp_path / "other"))
    with pytest.raises(InputError, match=r"ASCERTAIN_DATA names .*/other, which is not a folder"):
        find(SOURCE)


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"sha256": "0" * 64, "git_blob": None}, "sha256"), ({"git_blob": "0" * 40}, "git blob id")],
)
def test_a_file_with_another_digest_is_refused(
    change: dict[str, str], kind: str, tmp_path: Path, user_folder: Path
) -> None:
    path = put(tmp_path / "greeting.csv.gz")
    found = SHA256 if kind == "sha256" else GIT_BLOB
    with pytest.raises(
        StoreError, match=rf"{path} .*{kind} of its content is {found}, not 0+; get a fresh copy"
    ):
        find(replace(SOURCE, **change), tmp_path)  # type: ignore[arg-type]


def test_a_compressed_file_that_was_cut_is_refused(tmp_path: Path, user_folder: Path) -> None:
    path = put(tmp_path / "greeting.csv.gz")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"greeting.csv.gz cannot be read"):
        find(SOURCE, tmp_path)


def test_no_digest_is_asked_of_an_equivalent_file(tmp_path: Path, user_folder: Path) -> None:
    path = put(tmp_path / "greeting.csv", b"hello\r\n")
    assert find(SOURCE, tmp_path) == path


def from_server(server: str, behaviour: str) -> Source:
    """A source whose download is the file that digests are known of."""
    url = f"{server}/{behaviour}/greeting.csv"
    return replace(SOURCE, path="set/greeting.csv", others=("set/greeting.csv.gz",), url=url)


def test_a_file_is_downloaded_once(server: str, user_folder: Path) -> None:
    source = from_server(server, "good")
    path = find(source)
    assert path == user_folder / "set" / "greeting.csv"
    assert path.read_bytes() == CONTENT
    assert find(replace(source, url=f"{server}/absent/greeting.csv")) == path
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_without_the_file_does_not_keep_it_from_being_downloaded(
    server: str, tmp_path: Path, user_folder: Path
) -> None:
    (tmp_path / "mine").mkdir()
    assert find(from_server(server, "good"), tmp_path / "mine") == user_folder / "set" / "greeting.csv"


def test_a_download_in_another_layout_is_kept_under_its_own_name(server: str, user_folder: Path) -> None:
    source = replace(SOURCE, url=f"{server}/wrong/greeting.csv")  # only of the .gz are digests known
    assert find(source) == user_folder / "set" / "greeting.csv"


def test_a_download_that_failed_is_tried_again(server: str, user_folder: Path) -> None:
    assert find(from_server(server, "flaky")).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("wrong", rf"what http.*csv holds is not .* sha256 of its content is [0-9a-f]+, not {SHA256}"),
        ("absent", "could not be downloaded: 404"),
        ("cut", "could not be downloaded: .*(IncompleteRead|incomplete)"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(
    behaviour: str, message: str, server: str, user_folder: Path
) -> None:
    with pytest.raises(StoreError, match=message):
        find(from_server(server, behaviour))
    assert list((user_folder / "set").iterdir()) == []


def test_without_a_network_the_error_says_what_to_fetch_and_where_to_put_it(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    source = from_server("http://127.0.0.1:9", "good")  # nothing listens there
    with pytest.raises(StoreError) as caught:
        find(source)
    message = str(caught.value)
    for part in ("set/greeting.csv", str(source.url), source.home, str(user_folder / "set" / "greeting.csv")):
        assert part in message


def test_a_file_that_is_not_published_says_how_to_make_it(user_folder: Path) -> None:
    with pytest.raises(StoreError, match=r"full_df\.rds as nhanes_t2d_1999_2018\.csv.*put the file at"):
        load("nhanes_t2d")


def test_each_download_has_a_place() -> None:
    modules = [
        importlib.import_module(f"ascertain.datasets.{found.name}")
        for found in iter_modules(datasets.__path__)
    ]
    known = [value for module in modules for value in vars(module).values() if isinstance(value, Source)]
    known += heart_disease._FILES.values()
    assert len(known) == 14
    for source in known:
        names = [Path(path).name for path in (source.path, *source.others)]
        assert source.url is None or source.url.rsplit("/", 1)[1] in names


def test_a_folder_that_cannot_be_written_to_is_named(user_folder: Path) -> None:
    user_folder.write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"could not be downloaded: .*user"):
        find(from_server("http://127.0.0.1:9", "good"))
