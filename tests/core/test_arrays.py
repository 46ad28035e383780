import logging

import jax
import numpy as np
import pytest

from ascertain import Problem, Table
from ascertain._core.arrays import on_cores, on_device, take_rows


def test_values_are_copied() -> None:
    """On processor cores, aligned arrays would share their memory with the device's."""
    room = np.zeros(4 * 1000 + 64, np.uint8)
    start = -room.ctypes.data % 64
    values = room[start : start + 4000].view(np.float32)
    there = on_device(values)
    values[:] = 7
    assert not np.asarray(there).any()


@pytest.mark.parametrize(
    ("values", "wanted", "found"),
    [
        ([0.5, 2.0], None, "float32"),
        (np.arange(3), None, "int32"),
        ([0, 1], np.float32, "float32"),
        (np.array([True]), None, "bool"),
        (3.0, np.float32, "float32"),
    ],
)
def test_types_are_those_asked_for_or_jaxs(values: object, wanted: type | None, found: str) -> None:
    there = on_device(values, wanted)
    assert there.dtype == found
    assert not there.weak_type
    np.testing.assert_array_equal(np.asarray(there), values)


@pytest.mark.parametrize("traced", [False, True])
def test_rows_are_selected_in_every_array(traced: bool) -> None:
    tree = {"x": on_device(np.arange(12.0).reshape(6, 2)), "y": on_device(np.arange(6))}
    rows = np.array([4, 0, 4])
    found = jax.jit(take_rows)(tree, rows) if traced else take_rows(tree, rows)
    np.testing.assert_array_equal(found["x"], [[8, 9], [0, 1], [8, 9]])
    np.testing.assert_array_equal(found["y"], rows)


def test_tables_of_a_new_shape_compile_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A table that is made, cut and written down would cost 100 ms for each shape, mostly to compile."""
    x, y = np.random.default_rng(0).normal(size=(613, 7)), np.arange(613) % 2
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        Problem(np.eye(7, dtype=bool), np.arange(1, 8), budget=3, n_classes=2)
        table = Table(x, y).take(np.arange(17))
    assert len(table.y) == 17
    assert not [record for record in caplog.records if "ompiling" in record.getMessage()]


def test_what_is_computed_on_cores_is() -> None:
    with on_cores():
        assert on_device([1.0]).devices() == {jax.local_devices(backend="cpu")[0]}


def test_where_there_are_no_cores_the_device_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_of_that_kind(backend: str) -> None:
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", none_of_that_kind)
    with on_cores():
        assert on_device([1.0]).devices() == {jax.devices()[0]}
