"""The pair of files of a model: only what was written is read, whatever happens to them or to the writer."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import PAPER, InputError, Problem, StoreError
from ascertain.models import files
from ascertain.models.files import Header, ProblemRecord, TensorsRecord, read_files, write_files

TESTS = ("Blutdruck °", "心電図", 'a "b"\n\\c')
PROBLEM = Problem([[1, 1, 0], [0, 0, 1], [1, 0, 1]], [0.1, 2, 3.5], 3.6, 2, action_names=TESTS)
OLD, NEW = b"the old tensors", b"some newer tensors"


def header(tensors: bytes, **changes: Any) -> Header:
    fields: dict[str, Any] = {
        "method": files.MethodRecord(name="some", module="some.module"),
        "settings": {"rate": 0.5, "sizes": [1, 2]},
        "state": "sm",
        "protocol": PAPER,
        "problem": ProblemRecord.of(PROBLEM),
        "train_rows": 7,
        "valid_rows": 3,
        "predictor": files.PredictorRecord(hidden=(4, 5)),
        "preprocessing": {"means": [1.5, None, -2e-30]},
        "provenance": files.Provenance(
            package_version="0.0.1",
            created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            data_hash="0" * 64,
            seed=3,
            contains_training_rows=False,
        ),
        "tensors": TensorsRecord.of(tensors),
    }
    return Header(**fields | changes)


def saved(folder: Path, tensors: bytes) -> tuple[Header, bytes]:
    pair = header(tensors), tensors
    write_files(folder, *pair)
    return pair


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def seal(raw: dict[str, Any]) -> bytes:
    """Forge a `model.json`, with the right digest of itself."""
    content = {key: value for key, value in raw.items() if key != "sha256"}
    return json.dumps(content | {"sha256": files.digest_of(content)}).encode()


def parse(content: bytes) -> Header:
    return files.parse(Path("folder/model.json"), content)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    saved(folder, OLD)
    return folder


@pytest.fixture
def damaged() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        saved(Path(name), OLD)
        yield Path(name)


def test_the_pair_comes_back(tmp_path: Path) -> None:
    pair = saved(tmp_path / "made" / "with parents", OLD)
    assert read_files(tmp_path / "made" / "with parents") == pair
    assert names(tmp_path / "made" / "with parents") == {"model.json", "model.safetensors"}


def test_people_can_read_the_names(shared: Path) -> None:
    text = (shared / "model.json").read_text(encoding="utf-8")
    assert "Blutdruck °" in text
    assert "心電図" in text


def test_a_problem_comes_back_exactly() -> None:
    problem = ProblemRecord.of(PROBLEM).problem()
    assert np.array_equal(problem.reveals, PROBLEM.reveals)
    assert np.asarray(problem.costs).tobytes() == np.asarray(PROBLEM.costs).tobytes()
    assert float(problem.budget) == float(PROBLEM.budget)
    assert problem.action_names == TESTS
    assert problem.feature_names is None


# Damage


@settings(deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_changed_byte_of_the_header_is_refused_or_means_the_same(
    shared: Path, place: float, byte: int
) -> None:
    # Some bytes mean the same as others, such as a space and a line break between two keys.
    content = bytearray((shared / "model.json").read_bytes())
    content[int(place * len(content))] = byte
    try:
        found = parse(bytes(content))
    except StoreError:
        return
    assert found == header(OLD)


@settings(deadline=None)
@given(place=st.integers(0, len(OLD) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_of_the_tensors_is_refused(place: int, byte: int) -> None:
    content = bytearray(OLD)
    content[place] = byte
    with TemporaryDirectory() as name:
        pair = saved(Path(name), OLD)
        (Path(name) / "model.safetensors").write_bytes(content)
        if content == OLD:
            assert read_files(Path(name)) == pair
            return
        with pytest.raises(StoreError, match=r"model\.safetensors is damaged, or belongs to another"):
            read_files(Path(name))


@settings(deadline=None)
@given(length=st.floats(0, 1, exclude_max=True))
def test_a_truncated_header_is_refused(shared: Path, length: float) -> None:
    content = (shared / "model.json").read_bytes().rstrip()
    with pytest.raises(StoreError, match="not valid JSON"):
        parse(content[: int(length * len(content))])


def test_truncated_and_lengthened_tensors_are_refused(damaged: Path) -> None:
    for content in (OLD[:-1], b"", OLD + b"x"):
        (damaged / "model.safetensors").write_bytes(content)
        with pytest.raises(StoreError, match=f"has {len(content)} bytes instead of {len(OLD)}"):
            read_files(damaged)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_is_named(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        read_files(damaged)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_folder_in_place_of_a_file_is_refused(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    (damaged / name).mkdir()
    with pytest.raises(StoreError, match=name):
        read_files(damaged)


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere is not a folder"):
        read_files(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_huge_file_is_not_even_read(damaged: Path, name: str) -> None:
    os.truncate(damaged / name, 2**40)  # a hole, which takes no room
    with pytest.raises(StoreError, match=f"{name} has 1,099,511,627,776 bytes"):
        read_files(damaged)


def test_the_layout_of_the_header_does_not_matter(shared: Path) -> None:
    raw = json.loads((shared / "model.json").read_bytes())
    assert parse(json.dumps(dict(reversed(raw.items()))).encode()) == header(OLD)


# What is not JSON, or not ours


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe{", "not valid JSON"),
        (b"\x80\x04N.", "not valid JSON"),  # None, pickled
        (b"[" * 100_000, "not valid JSON"),
        (b'{"kind": "ascertain model", "seed": NaN}', "NaN is not a number in JSON"),
        (b'{"kind": "ascertain model", "seed": -Infinity}', "-Infinity is not a number in JSON"),
        (b'{"kind": "ascertain model", "seed": 1e999}', "1e999 is too large"),
        (b'{"kind": "ascertain model", "seed": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"kind": "ascertain model", "kind": "ascertain model"}', "a key occurs twice"),
        (b"[]", "does not describe a model"),
        (b'{"kind": "something else"}', "does not describe a model"),
        (b'{"model_type": "bert"}', "does not describe a model"),
        (b'{"kind": "ascertain model", "schema_version": 1}', "was changed or damaged"),
    ],
)
def test_other_content_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint):
        parse(content)


def test_a_newer_schema_asks_for_an_update(shared: Path) -> None:
    raw = json.loads((shared / "model.json").read_bytes())
    raw |= {"schema_version": 3, "something": "that we cannot know"}
    for content in (seal(raw), json.dumps(raw).encode()):
        with pytest.raises(StoreError, match=r"schema version 3, .* reads only up to 2; update"):
            parse(content)


# Forgeries: the digest is right, and the content must be judged for itself


def forged(shared: Path, path: tuple[str, ...], value: Any) -> bytes:
    raw = json.loads((shared / "model.json").read_bytes())
    place = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return seal(raw)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("extra",), 1),
        (("problem", "extra"), 1),
        (("protocol", "extra"), 1),
        (("provenance", "extra"), None),
        (("protocol", "affordability"), "other"),
        (("state",), "m"),
        (("train_rows",), 0),
        (("train_rows",), "7"),
        (("train_rows",), 7.0),
        (("schema_version",), 0),
        (("schema_version",), None),
        (("problem", "n_features"), 10**12),
        (("problem", "costs"), [True, 1, 1]),
        (("provenance", "data_hash"), "F" * 64),
        (("provenance", "created"), "2026-01-02T03:04:05"),  # no time zone
        (("tensors", "sha256"), "../../etc/passwd"),
        (("tensors", "sha256"), "0" * 64 + "\n"),
    ],
)
def test_a_forged_header_is_refused(shared: Path, path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(StoreError, match=r"model\.json cannot be used: " + r"\.".join(path[:2])):
        parse(forged(shared, path, value))


def test_the_forger_can_do_it_right(shared: Path) -> None:
    assert parse(forged(shared, ("train_rows",), 8)).train_rows == 8


@pytest.mark.parametrize("path", [("protocol", "name"), ("problem", "costs"), ("tensors",), ("settings",)])
def test_a_forged_header_without_a_key_is_refused(shared: Path, path: tuple[str, ...]) -> None:
    raw = json.loads((shared / "model.json").read_bytes())
    place = raw
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    with pytest.raises(StoreError, match=r"\.".join(path)):
        parse(seal(raw))


def test_a_forged_problem_is_refused() -> None:
    record = ProblemRecord.of(PROBLEM)
    with pytest.raises(InputError, match="action 1 reveals a feature beyond the 3"):
        record.model_copy(update={"reveals": ((0,), (3,), (1,))}).problem()
    with pytest.raises(InputError, match="the cost of action 0"):
        record.model_copy(update={"costs": (-1.0, 2.0, 3.5)}).problem()


# Writers that are interrupted, and readers that come at the wrong time


class Interrupted(BaseException):
    """As if the process was killed: nothing handles this."""


def interrupt(patch: pytest.MonkeyPatch, what: str, call: int) -> None:
    """Stop at the n-th call of a function of `os`, before it does anything."""
    real, calls = getattr(os, what), [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            raise Interrupted
        return real(*args, **kwargs)

    patch.setattr(os, what, counted)


# Two files are staged and moved, with a sync of each and of the folder; then the tensors take their name.
STEPS = [("replace", 1), ("replace", 2), ("replace", 3), *(("fsync", call) for call in range(1, 5))]
BEFORE_THE_SWITCH = {("replace", 1), ("replace", 2), ("fsync", 1), ("fsync", 2), ("fsync", 3)}


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_replacement_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int]
) -> None:
    old, new = saved(tmp_path, OLD), (header(NEW), NEW)
    with monkeypatch.context() as patch:
        interrupt(patch, *step)
        with pytest.raises(Interrupted):
            write_files(tmp_path, *new)
    assert read_files(tmp_path) == (old if step in BEFORE_THE_SWITCH else new)
    write_files(tmp_path, *new)
    assert read_files(tmp_path) == new
    assert names(tmp_path) == {"model.json", "model.safetensors"}


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_first_save_leaves_nothing_or_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int]
) -> None:
    new = header(NEW), NEW
    with monkeypatch.context() as patch:
        interrupt(patch, *step)
        with pytest.raises(Interrupted):
            write_files(tmp_path, *new)
    if step in BEFORE_THE_SWITCH:
        with pytest.raises(StoreError, match=r"model\.json is missing"):
            read_files(tmp_path)
    else:
        assert read_files(tmp_path) == new


def test_there_is_no_step_beyond_those_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, call in (("replace", 4), ("fsync", 5)):
        with monkeypatch.context() as patch:
            interrupt(patch, what, call)
            saved(tmp_path, OLD)


def test_what_a_killed_writer_left_goes_with_the_next_save(tmp_path: Path) -> None:
    staged = f"model-{'0' * 64}.safetensors"
    kept = {"notes.txt", "model-of-mine.safetensors", f"{staged}.backup"}
    for name in (*kept, staged, f".model-{'a' * 32}.json", f".model-{'0' * 64}-{'a' * 32}.safetensors"):
        (tmp_path / name).touch()
    saved(tmp_path, OLD)
    assert names(tmp_path) == {"model.json", "model.safetensors", *kept}


def test_files_of_two_models_are_never_mixed(tmp_path: Path) -> None:
    saved(tmp_path / "old", OLD)
    saved(tmp_path / "new", NEW[: len(OLD)])
    for name in ("model.json", "model.safetensors"):
        with TemporaryDirectory() as mixed:
            for origin in ("old", "new"):
                file = name if origin == "old" else ({"model.json", "model.safetensors"} - {name}).pop()
                (Path(mixed) / file).write_bytes((tmp_path / origin / file).read_bytes())
            with pytest.raises(StoreError, match=r"belongs to another model\.json"):
                read_files(Path(mixed))


def test_a_model_replaced_while_it_is_read_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, OLD)
    real = files.parse

    def replaced_after(file: Path, content: bytes) -> Header:
        found = real(file, content)
        if found.tensors == TensorsRecord.of(OLD):
            saved(tmp_path, NEW)
        return found

    monkeypatch.setattr(files, "parse", replaced_after)
    assert read_files(tmp_path) == (header(NEW), NEW)


def test_a_reader_gives_up_on_a_folder_that_never_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, OLD)
    real = files.parse

    def replaced_always(file: Path, content: bytes) -> Header:
        found = real(file, content)
        saved(tmp_path, NEW if found.tensors == TensorsRecord.of(OLD) else OLD)
        return found

    monkeypatch.setattr(files, "parse", replaced_always)
    with pytest.raises(StoreError, match="again and again"):
        read_files(tmp_path)


# Other people's files


@pytest.mark.parametrize(
    ("name", "content"),
    [("model.json", b'{"model_type": "bert"}'), ("model.json", b"[]"), ("model.safetensors", b"theirs")],
)
def test_files_of_others_are_not_overwritten(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{name} is there and not Ascertain's"):
        saved(tmp_path, OLD)
    assert (tmp_path / name).read_bytes() == content
    assert names(tmp_path) == {name}


def test_a_damaged_model_may_be_replaced(damaged: Path) -> None:
    (damaged / "model.json").write_bytes(b'{"kind": "ascer')
    pair = saved(damaged, NEW)
    assert read_files(damaged) == pair


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written to .*file.*name another folder"):
        saved(tmp_path / "file", OLD)
