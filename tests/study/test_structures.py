"""Structures of results as text: the same ones come back, and a text of somebody else's runs nothing."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pytest

from ascertain.study._structures import read_structure, structure_text

LEAF = np.zeros(3)


class Pair(NamedTuple):
    first: Any
    second: Any = None


class Layer(eqx.Module):
    weight: Any
    sizes: tuple[Any, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True, default="*")
    rate: float = eqx.field(static=True, default=0.1)

    def __check_init__(self) -> None:
        if self.weight is None:
            raise AssertionError("a layer needs its weight")


class Activated(eqx.Module):
    weight: Any
    activation: Callable[..., Any] = eqx.field(static=True)


class Outer:
    class Inner(eqx.Module):
        child: Any


@pytest.mark.parametrize(
    "tree",
    [
        LEAF,
        None,
        (),
        [LEAF, (LEAF, None)],
        {"b": LEAF, "a": {"class": LEAF, "fields": [LEAF]}},
        Pair(LEAF, Pair((LEAF,))),
        Layer(LEAF, (3, (True, None), "x"), rate=0.1 + 0.2),
        Outer.Inner({"deep": [Layer(Pair(LEAF), ())]}),
    ],
    ids=repr,
)
def test_a_structure_comes_back(tree: Any) -> None:
    assert read_structure(structure_text(tree)) == jax.tree.structure(tree)


def test_the_number_of_a_static_field_keeps_its_type() -> None:
    """Though 1 is equal to 1.0 and to True."""
    for value in (1, 1.0, True):
        found = read_structure(structure_text(Layer(LEAF, (value,))))
        assert found is not None
        assert type(jax.tree.unflatten(found, [LEAF]).sizes[0]) is type(value)


def test_what_json_cannot_hold_has_no_text() -> None:
    class Local(eqx.Module):
        child: Any

    cannot = [Activated(LEAF, jax.nn.relu), Layer(LEAF, (b"x",)), Layer(LEAF, (float("nan"),))]
    for tree in (*cannot, {1: LEAF}, Local(LEAF), [Local(LEAF)]):
        assert structure_text(tree) == "", tree


def _text(module: str, name: str, /, **fields: Any) -> str:
    return json.dumps({"class": [module, name], "fields": fields})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        '"leaf"',
        '{"set": ["*"]}',
        '{"tuple": "**"}',
        '{"class": ["ascertain.study._structures"], "fields": {}}',
        "[" * 100_000,
        '{"list": [' * 5_000 + "]}" * 5_000,
        _text("os", "system"),
        _text("subprocess", "Popen", args="true"),
        _text("antigravity", "fly"),
        _text(__name__, "Outer"),
        _text(__name__, "Nobody"),
        _text(__name__, "Layer.__init__"),
        _text(__name__, "Pair", first="*"),
        _text(__name__, "Pair", first="*", second="*", third="*"),
        _text(__name__, "Layer", weight="*", sizes=[], name="x"),
        _text(__name__, "Layer", weight="*", sizes={}, name="x", rate=0.1),
    ],
    ids=lambda text: text[:60],
)
def test_a_text_that_describes_nothing_known_is_ignored(text: str) -> None:
    assert read_structure(text) is None
    assert "antigravity" not in sys.modules


def test_no_constructor_is_called() -> None:
    found = read_structure(_text(__name__, "Layer", weight=None, sizes=[], name="x", rate=0.1))
    assert found is not None
    assert found.num_leaves == 0
