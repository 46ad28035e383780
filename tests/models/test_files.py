"""The file of a model: only what was written is read, whatever happens to it or to the writer."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import PAPER, Problem, StoreError
from ascertain.models._files import (
    Header,
    PartRecord,
    ProblemRecord,
    model_file,
    open_file,
    pack,
    refuse_foreign,
    unpack,
    write_file,
)
from tests.saved import forged, sealed

TESTS = ("Blutdruck °", "心電図", 'a "b"\n\\c')
PROBLEM = Problem([[1, 1, 0], [0, 0, 1], [1, 0, 1]], [0.1, 2, 3.5], 3.6, 2, action_names=TESTS)
PART = PartRecord(name="some", module="some.module", settings={"rate": 0.5, "sizes": [1, 2]})
ARRAYS = {"b": np.arange(3.0), "a[0].c": np.array(True)}


def header(seed: int = 3) -> Header:
    return Header(
        method=PART,
        state="sm",
        protocol=PAPER,
        problem=ProblemRecord.of(PROBLEM),
        train_rows=7,
        valid_rows=3,
        predictor=PART,
        restorer=None,
        preprocessing={"means": [1.5, None, -2e-30], "sha256": "0" * 64},
        package_version="0.0.1",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        data_hash="0" * 64,
        seed=seed,
        contains_training_rows=False,
    )


OLD, NEW = pack(header(3), ARRAYS), pack(header(4), {"b": np.arange(5.0)})


def parse(content: bytes) -> Header:
    return unpack(Path("m.safetensors"), BytesIO(content), len(content)).header


def opened(file: Path) -> None:
    with open_file(file):
        pass


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "made" / "with parents" / "m.safetensors"
    write_file(file, OLD)
    with open_file(file) as contents:
        found, arrays = contents.header, contents.arrays()
    assert contents.types == {"b": ("float64", (3,)), "a[0].c": ("bool", ())}
    assert found.model_copy(update={"sha256": "0" * 64}) == header()
    assert {name: array.tolist() for name, array in arrays.items()} == {"b": [0, 1, 2], "a[0].c": True}
    assert names(file.parent) == {"m.safetensors"}


def test_a_model_is_named_by_its_file_or_its_folder() -> None:
    for name in ("m.safetensors", "some/model.safetensors", ".safetensors.d/x.safetensors"):
        assert model_file(name) == Path(name)
    for name in ("model", "some/folder", "safetensors", ".", "v1.2", "m.safetensors.old"):
        assert model_file(name) == Path(name) / "model.safetensors"


def test_any_reader_of_safetensors_finds_the_arrays_and_people_the_names() -> None:
    assert safetensors.numpy.load(OLD)["b"].tolist() == [0, 1, 2]
    assert "Blutdruck °" in OLD.decode(errors="replace")
    assert "心電図" in OLD.decode(errors="replace")


def test_every_byte_is_json_or_numbers() -> None:
    # So there is no room for code: a header, and the arrays one after the other.
    length = int.from_bytes(OLD[:8], "little")
    described = json.loads(OLD[8 : 8 + length])
    del described["__metadata__"]
    ends = [0, *sorted(end for each in described.values() for end in each["data_offsets"][1:])]
    assert sorted(each["data_offsets"][0] for each in described.values()) == ends[:-1]
    assert 8 + length + ends[-1] == len(OLD)


def test_a_problem_comes_back_exactly() -> None:
    problem = ProblemRecord.of(PROBLEM).problem()
    assert np.array_equal(problem.reveals, PROBLEM.reveals)
    assert np.asarray(problem.costs).tobytes() == np.asarray(PROBLEM.costs).tobytes()
    assert float(problem.budget) == float(PROBLEM.budget)
    assert (problem.action_names, problem.feature_names) == (TESTS, None)


# Damage


@settings(deadline=None, max_examples=300)
@given(place=st.integers(0, len(OLD) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(place: int, bit: int) -> None:
    content = bytearray(OLD)
    content[place] ^= 1 << bit
    with pytest.raises(StoreError):
        parse(bytes(content))


@settings(deadline=None)
@given(length=st.integers(0, len(OLD) - 1))
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(StoreError, match=r"no header|bytes instead of"):
        parse(OLD[:length])


def test_a_lengthened_file_is_refused() -> None:
    with pytest.raises(StoreError, match=f"has {len(OLD) + 1:,} bytes instead of {len(OLD):,}"):
        parse(OLD + b"x")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere", tmp_path / "m.safetensors", tmp_path / "file"):
        with pytest.raises(StoreError, match=rf"{model_file(path)} is missing; name the file"):
            opened(model_file(path))


# Files that must not be read, or not as a whole


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("folder", "zero", "pipe"):
        with pytest.raises(StoreError, match=f"{name}.safetensors is not a plain file"):
            opened(tmp_path / f"{name}.safetensors")


def test_a_huge_file_is_not_read(file: Path) -> None:
    os.truncate(file, 40 * 10**9)  # a hole, which takes no room
    with pytest.raises(StoreError, match="has 40,000,000,000 bytes, far more"):
        opened(file)


class Counting(BytesIO):
    """Says how much was read."""

    done = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.done += len(content)
        return content


def test_only_the_header_is_read_of_a_file_that_has_another_size() -> None:
    opened = Counting(OLD)
    with pytest.raises(StoreError, match="has 7,000,000,000 bytes instead of"):
        unpack(Path("m"), opened, 7 * 10**9)
    assert opened.done == len(OLD) - 25


def test_a_huge_header_is_not_read() -> None:
    opened = Counting((2**30).to_bytes(8, "little") + b"{}")
    with pytest.raises(StoreError, match="it has no header, or too long a one"):
        unpack(Path("m"), opened, 2**31)
    assert opened.done == 8


# What is not JSON, or not ours


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04N.", b"\xff" * 8 + b"{}", (2**33).to_bytes(8, "little") + b"{}" * 9]
)
def test_what_is_not_safetensors_is_refused(content: bytes) -> None:
    with pytest.raises(StoreError, match="damaged, or no model at all: it has no header"):
        parse(content)


@pytest.mark.parametrize(
    "head", [b"[]", b"{" * 50, b'{"a": 1}', b'{"a": {"data_offsets": [0, "9"]}}', b'{"__metadata__": 3}']
)
def test_a_header_of_another_form_is_refused(head: bytes) -> None:
    with pytest.raises(StoreError, match="is damaged, or no model at all"):
        parse(len(head).to_bytes(8, "little") + head)


def test_a_header_with_a_key_twice_is_refused() -> None:
    head = OLD[8 : 8 + int.from_bytes(OLD[:8], "little")].rstrip()[:-1] + b',"b":{}}'
    with pytest.raises(StoreError, match="a key occurs twice"):
        parse(len(head).to_bytes(8, "little") + head)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "damaged"),
        ("\x80", "damaged"),
        ("[" * 100_000, "damaged"),
        ('{"kind": "ascertain model", "seed": NaN}', "NaN is not a number in JSON"),
        ('{"kind": "ascertain model", "seed": -Infinity}', "-Infinity is not a number in JSON"),
        ('{"kind": "ascertain model", "seed": 1e999}', "1e999 is too large"),
        ('{"kind": "ascertain model", "seed": ' + "9" * 5000 + "}", "damaged"),
        ('{"kind": "ascertain model", "kind": "ascertain model"}', "a key occurs twice"),
        ("[]", "holds tensors, perhaps"),
        ('{"kind": "something else"}', "holds tensors, perhaps"),
        ('{"kind": "ascertain model", "schema_version": 3}', "was changed or damaged"),
    ],
)
def test_other_json_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint):
        parse(sealed(text, ARRAYS))


def test_a_newer_schema_asks_for_an_update(file: Path) -> None:
    content = forged(file, lambda raw: raw.update(schema_version=4, something="that we cannot know"))
    for each in (content, content.replace(b"something", b"any thing")):
        with pytest.raises(StoreError, match=r"schema version 4, .* reads only up to 3; update"):
            parse(each)


def test_models_of_version_0_1_0_are_to_be_fitted_again(file: Path) -> None:
    file.write_bytes(safetensors.numpy.save(ARRAYS))
    with pytest.raises(
        StoreError, match=r"holds tensors, perhaps of a model of Ascertain 0\.1\.0.*fit it again"
    ):
        opened(file)
    file.with_name("model.json").write_text('{"kind": "ascertain model"}')
    with pytest.raises(
        StoreError, match=r"is half of a model of Ascertain 0\.1\.0, .*two files.*; fit it again"
    ):
        opened(file)
    with pytest.raises(StoreError, match="no model of this version of Ascertain; remove it"):
        write_file(file, NEW)


# Forgeries: the digest is right, and the content must be judged for itself


def set_to(path: tuple[str, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(raw: Any) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = value
        if value is ...:
            del raw[path[-1]]

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("extra",), 1),
        (("problem", "extra"), 1),
        (("protocol", "extra"), 1),
        (("method", "extra"), None),
        (("protocol", "affordability"), "other"),
        (("state",), "m"),
        (("train_rows",), 0),
        (("train_rows",), 10**12),
        (("train_rows",), "7"),
        (("train_rows",), 7.0),
        (("completions",), 0),
        (("completions",), 101),
        (("completions",), "3"),
        (("schema_version",), 0),
        (("schema_version",), None),
        (("problem", "n_classes"), 10**12),
        (("problem", "costs"), [True, 1, 1]),
        (("problem", "reveals"), ["102"]),
        (("data_hash",), "F" * 64),
        (("data_hash",), "0" * 64 + "\n"),
        (("created",), "2026-01-02T03:04:05"),  # no time zone
        (("package_version",), "\x1b[31m1"),
        (("protocol", "name"), ...),
        (("problem", "costs"), ...),
        (("restorer",), ...),
        (("method", "settings"), ...),
    ],
)
def test_a_forged_header_is_refused(file: Path, path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(StoreError, match=r"m\.safetensors cannot be used: " + r"\.".join(path)):
        parse(forged(file, set_to(path, value)))


def test_the_forger_can_do_it_right(file: Path) -> None:
    assert parse(forged(file, set_to(("train_rows",), 8))).train_rows == 8


@pytest.mark.parametrize(
    ("version", "newer"), [("0.0.9", False), ("0.1.0rc1", False), ("99.0", True), ("1000.0.0.dev1+x", True)]
)
def test_later_versions_are_known(file: Path, version: str, newer: bool) -> None:
    assert parse(forged(file, set_to(("package_version",), version))).is_newer == newer


def test_a_problem_that_cannot_be_is_refused() -> None:
    record = ProblemRecord.of(PROBLEM)
    for changes in ({"reveals": ("101", "01", "1")}, {"costs": (-1.0, 2.0, 3.5)}, {"costs": (1.0,)}):
        with pytest.raises(ValueError, match=r"inhomogeneous|the cost of action 0|costs has 1 entries"):
            record.model_copy(update=changes).problem()


# Writers that are interrupted


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


@pytest.mark.parametrize("step", [("fsync", 1), ("replace", 1), ("fsync", 2)])
def test_an_interrupted_save_leaves_the_old_model_or_the_new_one(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int]
) -> None:
    with monkeypatch.context() as patch:
        interrupt(patch, *step)
        with pytest.raises(Interrupted):
            write_file(file, NEW)
    assert file.read_bytes() == (NEW if step == ("fsync", 2) else OLD)  # the last is that of the folder
    assert names(file.parent) == {file.name}


def test_there_is_no_step_beyond_those_tested(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, call in (("replace", 2), ("fsync", 3)):
        with monkeypatch.context() as patch:
            interrupt(patch, what, call)
            write_file(file, NEW)


def test_what_a_killed_writer_left_goes_with_a_later_save(file: Path) -> None:
    killed, writing = f".model-{'a' * 32}.safetensors", f".model-{'b' * 32}.safetensors"
    kept = {file.name, writing, "notes.txt", f".mode-{'a' * 32}.safetensors", f"{killed}.backup"}
    for name in (*kept, killed):
        file.with_name(name).touch()
        os.utime(file.with_name(name), (0, 0))
    os.utime(file.with_name(writing))  # perhaps by another process, just now
    file.write_bytes(OLD)
    write_file(file, NEW)
    assert names(file.parent) == kept


# Other people's files


@pytest.mark.parametrize(
    "content", [b"", b"theirs", safetensors.numpy.save(ARRAYS), safetensors.numpy.save(ARRAYS, {"x": "y"})]
)
def test_files_of_others_are_not_overwritten(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"model\.safetensors exists and is no model of this version"):
        write_file(file, NEW)
    assert file.read_bytes() == content
    assert names(file.parent) == {file.name}


def test_a_damaged_model_may_be_replaced(file: Path) -> None:
    file.write_bytes(OLD[: len(OLD) // 2])
    refuse_foreign(file)
    write_file(file, NEW)
    assert file.read_bytes() == NEW


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written to .*file.*name another folder"):
        write_file(tmp_path / "file" / "m.safetensors", OLD)
