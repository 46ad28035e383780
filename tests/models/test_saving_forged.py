"""Models that somebody has changed who knows how to compute the digests: refused, or harmless."""

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import StoreError, methods, restoration
from ascertain.models._files import PartRecord
from ascertain.models._saving import SavedModel, _settings, load_model, save_model
from tests.saved import TinySettings, arrays, bits, forged, registered, scores, tiny


@pytest.fixture(autouse=True, scope="module")
def _methods() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "m.safetensors"
    save_model(path, tiny())
    return path


def load_forged(
    file: Path,
    change: Callable[[dict[str, Any]], object] = lambda raw: None,
    alter: Callable[[dict[str, np.ndarray]], object] = lambda arrays: None,
) -> SavedModel:
    """Load a copy that was changed by somebody who knows how to compute the digest."""
    return loaded(forged(file, change, alter))


def loaded(content: bytes) -> SavedModel:
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.safetensors").write_bytes(content)
        return load_model(folder)


def test_an_unknown_method_says_what_to_install(file: Path) -> None:
    module = "wsgiref.headers"  # any that is there, but nobody has imported
    assert module not in sys.modules

    def change(raw: dict[str, Any]) -> None:
        raw["method"].update(name="theirs", module=module)

    with pytest.raises(StoreError, match=r"'theirs'.*registered by wsgiref\.headers: install the"):
        load_forged(file, change)
    assert module not in sys.modules


def test_a_state_that_the_method_lacks_is_refused(file: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw |= {"method": {"name": "rows", "module": __name__, "settings": {}}, "state": "sm"}

    with pytest.raises(StoreError, match="rows has the state variant 's', not 'sm'"):
        load_forged(file, change)


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
def test_forged_settings_are_refused(file: Path, change: Callable[[Any], None], complaint: str) -> None:
    with pytest.raises(
        StoreError, match=rf"model\.safetensors does not hold what tiny can have: .*({complaint})"
    ):
        load_forged(file, lambda raw: change(raw["method"]["settings"]))


def test_settings_of_an_older_version_get_the_new_defaults(file: Path) -> None:
    found: SavedModel = load_forged(file, lambda raw: raw["method"]["settings"].pop("patience"))
    assert found.settings == TinySettings()


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
        (lambda arrays: arrays["policy.weights[0]"].fill(np.inf), r"weights\[0\] holds NaN or infinite"),
        (
            lambda arrays: arrays["predictor.network.layers[0].bias"].fill(-np.inf),
            "bias holds NaN or infinite",
        ),
    ],
)
def test_forged_arrays_are_refused(file: Path, change: Callable[[Any], None], complaint: str) -> None:
    with pytest.raises(
        StoreError, match=r"model\.safetensors does not hold what tiny can have: .*" + complaint
    ):
        load_forged(file, alter=change)


def test_what_has_no_place_takes_no_memory(file: Path) -> None:
    """However much of it there is: the header says so before it is read."""
    content = forged(file, alter=lambda arrays: arrays.update(more=np.zeros(2**25, np.uint8)))
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.safetensors").write_bytes(content)
        tracemalloc.start()
        with pytest.raises(StoreError, match="more has no place in it"):
            load_model(folder)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2**24


@given(data=st.data(), byte=st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_forged_numbers_do_no_harm(file: Path, data: st.DataObject, byte: int) -> None:
    # With the right digest a changed byte may give other numbers, in arrays of the same shapes and types.
    def alter(arrays: dict[str, np.ndarray]) -> None:
        name = data.draw(st.sampled_from(sorted(arrays)))
        content = bytearray(arrays[name].tobytes())
        content[data.draw(st.integers(0, len(content) - 1))] = byte
        arrays[name] = np.frombuffer(content, arrays[name].dtype).reshape(arrays[name].shape)

    try:
        found = load_forged(file, alter=alter)
    except StoreError:
        return
    shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(arrays(found.policy))]
    known = [(np.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(arrays(tiny().policy))]
    assert shapes == known
    assert not np.isnan(scores(found)).any()


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["predictor"]["settings"].update(hidden=[1] * 20_000),
        lambda raw: raw["predictor"]["settings"].update(hidden=[10**12]),
        lambda raw: raw["method"]["settings"]["layers"][0].update(width=10**15),
        lambda raw: raw.update(train_rows=10**9),
        lambda raw: raw.update(train_rows=10**9, completions=100),
        lambda raw: raw["problem"].update(n_classes=10**6),
        lambda raw: raw["problem"].update(
            reveals=["01" * 1000] * 1000, costs=[1.0] * 1000, action_names=None
        ),
    ],
)
def test_sizes_beyond_all_measure_are_refused_quickly(file: Path, change: Callable[[Any], None]) -> None:
    start = time.perf_counter()
    with pytest.raises(StoreError, match="does not hold what tiny can have"):
        load_forged(file, change)
    assert time.perf_counter() - start < 20  # seconds; on busy cores


@pytest.mark.parametrize(
    ("part", "settings", "message"),
    [
        (methods.get("jafa"), {"process_steps": 10**9}, "less than or equal to 256"),
        (methods.get("jafa"), {"embedding": 10**6}, "less than or equal to 256"),
        (methods.get("gdfs"), {"hidden": [1] * 101}, "at most 100 items"),
        (methods.get("planner"), {"hidden": [1] * 20_000}, "has 20,000 settings, more than the 500"),
        # Lists that have no bound of their own, as many in parts of other packages.
        (restoration.get("ensemble"), {"members": ["nearest"] * 501}, "has 501 settings, more than the 500"),
        (methods.get("gdfs"), {"temperatures": [1.0] * 501}, "has 501 settings, more than the 500"),
    ],
)
def test_programs_beyond_all_measure_are_not_even_traced(
    part: Any, settings: dict[str, Any], message: str
) -> None:
    record = PartRecord(name=part.name, module="", settings=settings)
    start = time.perf_counter()
    with pytest.raises(ValueError, match=message):
        _settings(part, record)
    assert time.perf_counter() - start < 5  # seconds; on busy cores


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
def test_a_header_of_nonsense_is_refused_or_loads(file: Path, data: st.DataObject, value: Any) -> None:
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

    content = forged(file, change)
    try:
        found = loaded(content)
    except StoreError:
        return
    assert bits(found.policy) == bits(tiny().policy)


def test_files_from_before_there_were_completions_have_one(file: Path) -> None:
    assert load_forged(file, lambda raw: raw.pop("completions")).completions == 1


def test_models_of_another_version_say_so(file: Path) -> None:
    with pytest.raises(StoreError, match=r"saved by Ascertain 0\.0\.7, read by \d"):
        load_forged(file, lambda raw: raw.update(package_version="0.0.7", train_rows=10))
    load_forged(file, lambda raw: raw.update(package_version="0.0.7"))
    with pytest.warns(
        UserWarning, match=r"newer than this package \(saved by Ascertain 99\.8\.7, read.*update"
    ):
        load_forged(file, lambda raw: raw.update(package_version="99.8.7"))
