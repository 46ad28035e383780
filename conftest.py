"""Strict settings for every test, and the marker for tests that need more than the package."""

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import jaxtyping
import matplotlib
import pytest
import xdist.scheduler  # type: ignore[import-untyped]
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook, jaxtyped
from tests.compiler import NOT_OPTIMISED, OPTIMISED

# Two workers share the cores already.
FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_cpu_parallel_codegen_split_count=1"
PROGRAMS_PER_CONTEXT = 200  # which keeps their constants
# What JAX has traced stays for good, so that looking for garbage in it takes longer and longer.
gc.set_threshold(100_000, 50, 100)

# Before anything of the package is imported: shapes and types are checked in tests, and only there.
# An int is a float to a type checker, so it is one here too.
strict = ModuleType("ascertain_strict_types")
strict.check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # type: ignore[attr-defined]
sys.modules[strict.__name__] = strict
strict.check_and_note = strict.check  # type: ignore[attr-defined]
# By the name of the check, Python's cache tells modules apart that note what runs in them.
check = "check_and_note" if "tests.statements" in sys.modules else "check"


def _with_checks(what: Any = None, *, typechecker: Any) -> Any:
    """As `jaxtyping.jaxtyped`, but keeps no track of sizes in functions without shapes, which takes time."""
    if what is None:
        return partial(_with_checks, typechecker=typechecker)
    if isinstance(what, FunctionType) and all(map(_is_plain, what.__annotations__.values())):
        return typechecker(what)
    return jaxtyped(what, typechecker=typechecker)


def _is_plain(annotation: Any) -> bool:
    """Whether there are neither shapes in it nor texts that stand for types."""
    text = annotation.__module__ if isinstance(annotation, type) else repr(annotation)
    return "jaxtyping" not in text and "'" not in text


jaxtyping.jaxtyped = _with_checks  # type: ignore[assignment]
install_import_hook("ascertain", f"{strict.__name__}.{check}")

import jax  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402

from ascertain._core.compilation import enable_cache, make_room  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
# Else every operation of a program says where it was called from, in up to 100 frames, which takes time.
jax.config.update("jax_traceback_in_locations_limit", 0)

pytest_plugins = ["pytester"]


def _options(config: pytest.Config) -> dict[str, bool | str]:
    """How programs are compiled, other than those that a test compiles in its own way."""
    return OPTIMISED if config.getoption("markexpr") == "slow" else NOT_OPTIMISED


def pytest_configure(config: pytest.Config) -> None:
    options = "".join(f" --{name}={str(value).lower()}" for name, value in _options(config).items())
    os.environ.setdefault("XLA_FLAGS", FLAGS + options)  # JAX has used no device yet


class ByFileOrFolder(xdist.scheduler.LoadFileScheduling):  # type: ignore[misc]
    """A file goes to one worker, and so do folders whose tests share models: these are fitted once."""

    def _split_scope(self, nodeid: str) -> str:
        folder = "/".join(nodeid.split("/")[:2])
        shared = {"tests/cli": "patients", "tests/practice": "patients", "tests/estimator": "classifiers"}
        return shared.get(folder) or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileOrFolder | None:
    return ByFileOrFolder(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def _leave_the_users_cache_alone(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[None]:
    """Workers, the processes that tests start, and the next run share one cache of compiled programs."""
    own = tmp_path_factory.getbasetemp()
    cache = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    kept = pytestconfig.rootpath / ".pytest_cache" / "xla"
    kept.mkdir(parents=True, exist_ok=True)
    kept.chmod(0o700)  # a copy of the folder may have lost it
    (cache / "ascertain").mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # another worker was first
        (cache / "ascertain" / "xla").symlink_to(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())  # fonts are slow to list anew
        patch.setenv("XDG_CACHE_HOME", str(cache))
        # To store and load a small program takes as long as to compile it.
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")  # for processes to come
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        patch.setenv("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(enable_cache()))
        yield


@pytest.fixture(autouse=True, scope="session")
def _compile_fast(pytestconfig: pytest.Config) -> Iterator[None]:
    """What programs compute is in question in tests, not how fast."""
    options = _options(pytestconfig)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ascertain._core.compilation", "ascertain.recipe._programs"):
            if name in sys.modules:
                patch.setattr(sys.modules[name], "compiler_options", lambda: options)
        yield


def _shared(make: Callable[[], Any]) -> Callable[[], Any]:
    """Make something new for each so many calls only."""
    calls = count()

    @lru_cache(maxsize=1)
    def made(number: int) -> Any:
        del number
        return make()

    return lambda: made(next(calls) // PROGRAMS_PER_CONTEXT)


@pytest.fixture(autouse=True, scope="session")
def _share_contexts() -> Iterator[None]:
    """Before 0.12, JAX makes a context for each program that it translates: a fifth of a small one's time."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(mlir, "make_ir_context"):  # private to JAX; without it, tests take longer
            patch.setattr(mlir, "make_ir_context", _shared(mlir.make_ir_context))
        yield


@pytest.fixture(autouse=True)
def _forget_parts_of_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the example of a docstring registers is not there for other tests."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    from ascertain.datasets._registry import _DATASETS
    from ascertain.methods._registry import _METHODS
    from ascertain.missingness._registry import _MECHANISMS
    from ascertain.predictors._registry import _PREDICTORS
    from ascertain.restoration._registry import _RESTORERS

    with pytest.MonkeyPatch.context() as patch:
        for kind in (_DATASETS, _METHODS, _MECHANISMS, _PREDICTORS, _RESTORERS):
            kind.names()  # so that it does not load its own into what is put back
            patch.setattr(kind, "_parts", dict(kind._parts))
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


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget compiled programs once there are many; the cache on disk still has the large ones."""
    if nextitem is None or nextitem.path != item.path or item.get_closest_marker("slow") is not None:
        make_room()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Look for no garbage in what is left, which pytest does several times, and Python once more."""
    gc.freeze()
