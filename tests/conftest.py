"""Strict settings for every test, and the marker for tests that need more than the package."""

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import matplotlib
import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

# Two workers share the cores already. Programs are compiled here more than they run, and XLA's older way to
# emit fusions compiles faster. What JAX has traced stays for good, so that looking for garbage in it takes
# longer and longer. Each costs a tenth of the time or more.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_use_fusion_emitters=false",
)
gc.set_threshold(100_000, 50, 100)

# Before anything of the package is imported: shapes and types are checked in tests, and only there.
# An int is a float to a type checker, so it is one here too.
strict = ModuleType("ascertain_strict_types")
strict.check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # type: ignore[attr-defined]
sys.modules[strict.__name__] = strict
install_import_hook("ascertain", f"{strict.__name__}.check")

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="session")
def _leave_the_users_cache_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())  # fonts are slow to list anew
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def _missing(kind: str) -> str | None:
    """Say why a test that needs `kind` cannot run, or None if it can."""
    if kind == "browser":
        found = shutil.which("chromium") or shutil.which("google-chrome")
        return None if found else "no chromium or google-chrome on the path"
    if kind == "data":
        folder = os.environ.get("ASCERTAIN_DATA")
        found_data = folder is not None and Path(folder).is_dir()
        return None if found_data else "ASCERTAIN_DATA names no folder of data files"
    raise pytest.UsageError(f"the marker `needs` takes 'browser' or 'data', not {kind!r}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = os.environ.get("ASCERTAIN_REQUIRE", "").split(",")
    for marker in item.iter_markers("needs"):
        for kind in marker.args:
            reason = _missing(kind)
            if reason is not None and kind in required:
                pytest.fail(f"ASCERTAIN_REQUIRE lists {kind}, but {reason}")
            elif reason is not None:
                pytest.skip(reason)
