"""Models that somebody has changed who knows how to compute the digests: refused, or harmless."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import StoreError
from ascertain.models.files import TensorsRecord, digest_of
from ascertain.models.saving import SavedModel, load_model, save_model
from tests.saved import TinySettings, arrays, bits, registered, scores, tiny


@pytest.fixture(autouse=True, scope="module")
def _methods() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    save_model(path, tiny())
    return path


def load_forged(folder: Path, change: Callable[[dict[str, Any]], None], tensors: bytes | None = None) -> Any:
    """Load a copy that was changed by somebody who knows how to compute the digests."""
    raw = json.loads((folder / "model.json").read_bytes())
    content = tensors if tensors is not None else (folder / "model.safetensors").read_bytes()
    raw["tensors"] = TensorsRecord.of(content).model_dump()
    change(raw)
    del raw["sha256"]
    with TemporaryDirectory() as copy:
        (Path(copy) / "model.json").write_text(json.dumps(raw | {"sha256": digest_of(raw)}))
        (Path(copy) / "model.safetensors").write_bytes(content)
        return load_model(copy)


def unchanged(raw: dict[str, Any]) -> None:
    del raw


def test_an_unknown_method_says_what_to_install(folder: Path) -> None:
    module = "wsgiref.headers"  # any that is there, but nobody has imported
    assert module not in sys.modules

    def change(raw: dict[str, Any]) -> None:
        raw["method"] = {"name": "theirs", "module": module}

    with pytest.raises(StoreError, match=r"'theirs'.*registered by the module wsgiref\.headers: install the"):
        load_forged(folder, change)
    assert module not in sys.modules


def test_a_state_that_the_method_lacks_is_refused(folder: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw |= {"method": {"name": "rows", "module": __name__}, "settings": {}, "state": "sm"}

    with pytest.raises(StoreError, match="rows has the state variant 's', not 'sm'"):
        load_forged(folder, change)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda settings: settings.update(extra=1), r"settings\.extra"),
        (lambda settings: settings["layers"][1].update(extra=1), r"settings\.layers\.1\.extra"),
        (lambda settings: settings["layers"][1].update(activation="gelu"), "'relu' or 'tanh'"),
        (lambda settings: settings.update(rate="0.1"), r"settings\.rate"),
        (lambda settings: settings.update(flag=0), r"settings\.flag"),
        (lambda settings: settings.update(layers=[]), "index out of range"),  # which `fit` does not expect
    ],
)
def test_forged_settings_are_refused(folder: Path, change: Callable[[Any], None], complaint: str) -> None:
    with pytest.raises(StoreError, match=rf"model\.json does not hold what tiny can have: .*({complaint})"):
        load_forged(folder, lambda raw: change(raw["settings"]))


def test_settings_of_an_older_version_get_the_new_defaults(folder: Path) -> None:
    found: SavedModel = load_forged(folder, lambda raw: raw["settings"].pop("patience"))
    assert found.settings == TinySettings()


def test_a_forged_problem_is_refused(folder: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["problem"]["costs"] = [1.0]

    with pytest.raises(StoreError, match="costs has 1 entries"):
        load_forged(folder, change)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda arrays: arrays.pop("policy.weights[0]"), r"policy\.weights\[0\] is missing"),
        (lambda arrays: arrays.update(more=np.zeros(2)), "more has no place in it"),
        (
            lambda arrays: arrays.update({"policy.count": np.zeros(1, np.int32)}),
            r"is int32\(1,\) instead of int32\(\)",
        ),
        (
            lambda arrays: arrays.update({"policy.count": np.array(0.0)}),
            r"is float64\(\) instead of int32\(\)",
        ),
        (lambda arrays: arrays.update({"policy.factor": np.array(np.nan, np.float32)}), "factor holds NaN"),
    ],
)
def test_forged_arrays_are_refused(folder: Path, change: Callable[[Any], None], complaint: str) -> None:
    arrays = safetensors.numpy.load((folder / "model.safetensors").read_bytes())
    change(arrays)
    with pytest.raises(
        StoreError, match=r"model\.safetensors does not hold what tiny can have: .*" + complaint
    ):
        load_forged(folder, unchanged, safetensors.numpy.save(arrays))


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04N.", b"\xff" * 8 + b"{}", (2**33).to_bytes(8, "little") + b"{}" * 9]
)
def test_what_is_not_safetensors_is_refused(folder: Path, content: bytes) -> None:
    with pytest.raises(StoreError, match=r"model\.safetensors does not hold .*(header|deserializ)"):
        load_forged(folder, unchanged, content)


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_forged_bytes_do_no_harm(folder: Path, place: float, byte: int) -> None:
    # With the right digest a changed byte may give other numbers, in arrays of the same shapes and types.
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[int(place * len(content))] = byte
    try:
        found: SavedModel = load_forged(folder, unchanged, bytes(content))
    except StoreError:
        return
    shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(arrays(found.policy))]
    known = [(np.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(arrays(tiny().policy))]
    assert shapes == known
    assert not np.isnan(scores(found)).any()


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(data=st.data(), value=ANY_JSON)
@settings(max_examples=60, deadline=None)
def test_a_header_of_nonsense_is_refused_or_loads(folder: Path, data: st.DataObject, value: Any) -> None:
    def change(raw: dict[str, Any]) -> None:
        place: Any = raw
        while True:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(keys))
            inner = place[key]
            if not (isinstance(inner, dict | list) and inner) or data.draw(st.integers(0, 3)) == 0:
                place[key] = value
                return
            place = inner

    raw = json.loads((folder / "model.json").read_bytes())
    del raw["sha256"]
    change(raw)
    with TemporaryDirectory() as copy:
        (Path(copy) / "model.json").write_text(json.dumps(raw | {"sha256": digest_of(raw)}))
        (Path(copy) / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        try:
            found = load_model(copy)
        except StoreError:
            return
    assert bits(found.policy) == bits(tiny().policy)


def test_every_byte_is_json_or_numbers(folder: Path) -> None:
    # So there is no room for code: a header, and the arrays one after the other.
    content = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    described = json.loads(content[8 : 8 + length])
    ends = [0, *sorted(end for each in described.values() for end in each["data_offsets"][1:])]
    starts = sorted(each["data_offsets"][0] for each in described.values())
    assert starts == ends[:-1]
    assert 8 + length + ends[-1] == len(content)
    assert {each["dtype"] for each in described.values()} == {"F32", "I32", "BOOL"}


def test_models_of_another_version_say_so(folder: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["provenance"]["package_version"] = "9.8.7"
        raw["train_rows"] = 10

    with pytest.raises(StoreError, match=r"saved by Ascertain 9\.8\.7, read by \d"):
        load_forged(folder, change)
