"""The structure of results as JSON: which Equinox modules, named tuples and containers hold their arrays.

A store is data, so reading it must run nothing: classes are looked up in modules that are loaded already, are
Equinox modules or named tuples, and are not called. Some structures cannot be written, such as that of a
module with a function in a static field. Then there is no text, and programs are traced to find it.
"""

import dataclasses
import json
import sys
from typing import Any

import equinox as eqx
import jax
from jax.tree_util import PyTreeDef

_PLAIN = (bool, int, float, str, type(None))  # types of static fields, besides tuples of them


def structure_text(tree: Any) -> str:
    """The structure of a PyTree as JSON; empty if it cannot be read back as the same one."""
    try:
        text = json.dumps(_described(tree))
    except (AttributeError, TypeError, ValueError, RecursionError):
        return ""
    found = read_structure(text)
    return text if found is not None and found == jax.tree.structure(tree) else ""


def read_structure(text: str) -> PyTreeDef | None:
    """The structure that a text describes; None if it describes none of the classes as they are now."""
    try:
        return jax.tree.structure(_example(json.loads(text)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _described(node: Any) -> Any:
    kind = type(node)
    if node is None:
        return None
    if kind in (list, tuple):
        return {kind.__name__: [_described(child) for child in node]}
    if kind is dict:
        return {"dict": {name: _described(child) for name, child in node.items()}}
    if not _has_fields(kind):
        return "*"  # a leaf, or what `structure_text` finds not to be one
    fields = {
        name: (_plain if is_static else _described)(getattr(node, name))
        for name, is_static in _fields(kind).items()
    }
    return {"class": [kind.__module__, kind.__qualname__], "fields": fields}


def _example(described: Any) -> Any:
    """A PyTree of the described structure."""
    match described:
        case None:
            return None
        case "*":
            return 0  # any leaf
        case {"list": [*children]}:
            return [_example(child) for child in children]
        case {"tuple": [*children]}:
            return tuple(_example(child) for child in children)
        case {"dict": dict(named)}:
            return {name: _example(child) for name, child in named.items()}
        case {"class": [str(module), str(name)], "fields": dict(fields)}:
            return _instance(_class(module, name), fields)
    raise ValueError(f"no structure: {described!r}")


def _instance(kind: type, described: dict[str, Any]) -> Any:
    """An object of a class, made as Equinox unflattens one: its constructor is not called."""
    own = _fields(kind)
    if own.keys() != described.keys():
        raise ValueError(f"{kind} has other fields")
    values = {name: (_static if is_static else _example)(described[name]) for name, is_static in own.items()}
    if issubclass(kind, tuple):
        return tuple.__new__(kind, values.values())
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _class(module: str, name: str) -> type:
    found: Any = sys.modules[module]
    for each in name.split("."):
        found = vars(found)[each]  # `getattr` may run code, such as a module's that imports others
    if not isinstance(found, type) or not _has_fields(found):
        raise TypeError(f"{module}.{name} is neither an Equinox module nor a named tuple")
    return found


def _has_fields(kind: type) -> bool:
    return issubclass(kind, eqx.Module) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _fields(kind: Any) -> dict[str, bool]:
    """The fields of a class in their order, and whether each is static."""
    if issubclass(kind, tuple):
        return dict.fromkeys(kind._fields, False)
    return {each.name: bool(each.metadata.get("static")) for each in dataclasses.fields(kind)}


def _plain(value: Any) -> Any:
    """A static field's value as JSON, which has lists in place of tuples."""
    if type(value) is tuple:
        return [_plain(each) for each in value]
    if type(value) not in _PLAIN:
        raise TypeError(f"{type(value)} is no type of JSON")
    return value


def _static(value: Any) -> Any:
    return tuple(_static(each) for each in value) if isinstance(value, list) else _plain(value)
