import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import ascertain
from ascertain._core import compilation
from ascertain._core.compilation import compiled, make_room, replicated
from tests.estimator_cases import quick


@pytest.fixture(autouse=True)
def _restore_cache() -> Iterator[None]:
    before = jax.config.values["jax_compilation_cache_dir"]
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_cache_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "xla"
    assert ascertain.enable_cache(folder) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert jax.config.values["jax_compilation_cache_dir"] == str(folder)


def test_a_folder_that_others_can_write_to_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ascertain.StoreError, match="open to others; close it with: chmod 700"):
        ascertain.enable_cache(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ascertain.StoreError, match="belongs to another user"):
        ascertain.enable_cache(tmp_path)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ascertain.InputError, match="empty"):
        ascertain.enable_cache("")


def test_the_cache_is_in_the_users_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = ascertain.enable_cache()
    assert folder.is_relative_to(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_unusable_cache_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ascertain.StoreError, match="file"):
        ascertain.enable_cache(tmp_path / "file" / "xla")


def test_importing_sets_nothing() -> None:
    program = """
import warnings
import jax, numpy
watched = lambda: (dict(jax.config.values), list(warnings.filters), str(numpy.random.get_state()))
before = watched()
import ascertain, ascertain.cli
assert watched() == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_each_replicate_gets_what_it_would_get_alone(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    weights, x = np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 2, 2)
    found = jax.jit(replicated(lambda w, table: {"out": w["in"] @ table}))({"in": weights}, x)
    np.testing.assert_array_equal(found["out"], [w @ table for w, table in zip(weights, x, strict=True)])


def add_one(x: np.ndarray) -> np.ndarray:
    return x + 1


@pytest.mark.parametrize(("mappings", "times"), [(50, 0), (51, 1), (None, 0)])
def test_programs_are_forgotten_where_half_of_the_mappings_are_used(
    mappings: int | None, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Linux's files nothing is known of mappings. (Other tests go on with their programs.)"""
    if mappings is not None:
        (tmp_path / "maps").write_text("7f00-7f01 r-xp\n" * mappings)
        (tmp_path / "most").write_text("100\n")
    forgotten: list[bool] = []
    monkeypatch.setattr(compilation, "_MAPPINGS", tmp_path / "maps")
    monkeypatch.setattr(compilation, "_MOST_MAPPINGS", tmp_path / "most")
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    compilation._is_crowded_in.cache_clear()
    make_room()
    assert len(forgotten) == times
    assert compiled(add_one)(np.float32(1)) == 2
    assert len(forgotten) == 2 * times


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="only Linux says how many mappings there are"
)
def test_tables_of_many_shapes_do_not_use_up_the_mappings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit to another number of columns takes some 2,000, so a process of Linux crashed after 30 of them."""
    jax.clear_caches()

    def used() -> int:
        return Path("/proc/self/maps").read_bytes().count(b"\n")

    most = 2 * (used() + 1500)
    (tmp_path / "most").write_text(str(most))
    monkeypatch.setattr(compilation, "_MOST_MAPPINGS", tmp_path / "most")
    compilation._is_crowded_in.cache_clear()
    rng = np.random.default_rng(0)
    for columns in range(3, 8):
        table = rng.normal(size=(100, columns))
        quick(method="gdfs", budget=2).fit(table, table[:, 0] > 0)
        assert used() < most
