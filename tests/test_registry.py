"""One registry for every kind of part: the same verbs, messages and entry points in each package."""

import importlib.metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ascertain import InputError, datasets, methods, missingness, predictors, restoration
from ascertain.registry import Part, Registry, load_plugin
from tests.cli.test_app import run

PACKAGES = [methods, restoration, missingness, datasets, predictors]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_package_has_the_same_verbs(package: ModuleType) -> None:
    assert package.names()
    for name in package.names():
        part = package.get(name)
        assert isinstance(part, Part)
        assert part.name == name
        assert part.summary
        assert part.label
    assert callable(package.register)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_wrong_name_gets_a_hint(package: ModuleType) -> None:
    name = package.names()[0]
    with pytest.raises(InputError, match=f"is called '{name}x'; did you mean '{name}'"):
        package.get(f"{name}x")
    with pytest.raises(InputError, match=f"there are '{name}'"):
        package.get("zzzzzz")


class Entry:
    """An installed package's entry point."""

    dist, value = None, "somebodys_parts"

    def __init__(self, load: Any):
        self.load = load


def _registry(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> Registry[Part]:
    groups = {"ascertain.things": entries}
    monkeypatch.setattr("ascertain.registry.entry_points", lambda group: groups[group])
    return Registry("thing", "ascertain.things", (), Part)


def _part(name: str, fit: Any = len) -> Part:
    return Part(name=name, summary="A thing.", label=name, fit=fit)


def test_installed_packages_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load() -> None:
        asked.append(1)
        things.add(_part("theirs"))

    things = _registry(monkeypatch, Entry(load))
    assert things.names() == ("theirs",)
    assert things.get("theirs").summary == "A thing."
    assert len(asked) == 1


def test_a_broken_package_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ImportError("no module named theirs")

    def working() -> None:
        things.add(_part("good"))

    things = _registry(monkeypatch, Entry(broken), Entry(working))
    with pytest.warns(UserWarning, match="the things of somebodys_parts could not be loaded: ImportError"):
        assert things.names() == ("good",)


def test_a_name_is_taken_once_but_may_be_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    things = _registry(monkeypatch)
    things.add(_part("mine"))
    things.add(_part("mine"))
    with pytest.raises(InputError, match="thing 'mine' is already registered by builtins"):
        things.add(_part("mine", sum))


def test_entry_point_groups_are_named_after_the_packages() -> None:
    """What the documentation tells authors of packages to write into their pyproject.toml."""
    assert isinstance(importlib.metadata.entry_points(group="ascertain.restoration"), tuple | list)
    groups = [
        next(v for v in vars(p._registry).values() if isinstance(v, Registry)).package for p in PACKAGES
    ]
    assert groups == [package.__name__ for package in PACKAGES]


PLUGIN = """
import jax.numpy as jnp
from ascertain import restoration

class Ones:
    def draw(self, key, table):
        return jnp.ones_like(table.x)

@restoration.register("plugin_ones", summary="Fills holes with ones.")
def fit(key, problem, train, valid, *, settings):
    return Ones()
"""


def test_a_file_can_be_a_plugin(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    load_plugin(file)
    assert restoration.get("plugin_ones").summary == "Fills holes with ones."


@pytest.mark.parametrize(
    ("text", "says"), [(None, "is not a Python file"), ("1 / 0", "could not be loaded: ZeroDivisionError")]
)
def test_a_plugin_that_does_not_work_is_a_short_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    says: str,
) -> None:
    file = tmp_path / "broken.py"
    if text is not None:
        file.write_text(text)
    assert run(monkeypatch, "--plugin", str(file), "parts") == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_parts_are_listed_by_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "parts") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("gdfs", "pvae_noise", "mnar_self", "heart_sites", "mlp"))
