"""Models to save that take no training: of a method with a bit of everything, and of some others."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import safetensors.numpy
from jaxtyping import Array

from ascertain import PAPER, Problem, Table
from ascertain._core.networks import MLP
from ascertain.methods import _registry as methods
from ascertain.models._saving import SavedModel, hash_table, load_model, save_model
from ascertain.policy import Policy
from ascertain.predictors import _registry as predictors
from ascertain.predictors._masked_mlp import MaskedMLP, Settings
from ascertain.restoration import _registry as restoration

NAMES = ("Größe", "心電図 \u200f", 'a\'["b"].c\n')
PROBLEM = Problem(
    [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], [0.1, 0.2, 0.7], 0.9, n_classes=3, action_names=NAMES
)
RNG = np.random.default_rng(0)
TRAIN = Table(RNG.normal(size=(9, 4)), RNG.integers(3, size=9), RNG.random((9, 4)) < 0.8, n_classes=3)
VALID = Table(RNG.normal(size=(5, 4)), RNG.integers(3, size=5), n_classes=3)
KEY = jr.key(3)


@dataclass(frozen=True)
class Layer:
    width: int = 3
    activation: Literal["relu", "tanh"] = "relu"


@dataclass(frozen=True)
class TinySettings:
    rate: float = 1e-3
    layers: tuple[Layer, ...] = (Layer(), Layer(2, "tanh"))
    pairs: tuple[tuple[str, int], ...] = (("ä", 1),)
    patience: int | None = None
    best: Layer | None = None
    either: int | float | str = 1
    flag: bool = False
    scales: dict[str, float] = field(default_factory=dict, hash=False)


def numbers(*shape: int) -> Array:
    return jnp.asarray(np.sin(np.arange(1.0, 1 + math.prod(shape))).reshape(shape), jnp.float32)


class Tiny(Policy):
    """Has a bit of everything that may be found in a policy."""

    weights: tuple[Array, ...]
    parts: dict[str, Any]
    problem: Problem
    predictor: MaskedMLP | None
    threshold: Array  # infinite
    count: Array  # of integers
    factor: float  # not an array, unless `fit` is jitted
    activation: Callable[[Array], Array]
    settings: TinySettings = eqx.field(static=True)

    def __call__(self, x: Array, observed: Array, acquired: Array, available: Array, *, key: Array) -> Array:
        seen = self.activation(jnp.where(observed, x, 0.0) @ self.weights[0])
        own = jnp.zeros((len(x), 3)) if self.predictor is None else self.predictor(x, observed)
        scores = (seen @ self.weights[1] + own) * self.factor + self.parts["a.b"]["c"][None]
        return jnp.concatenate([jnp.full((len(x), 1), self.threshold), scores + self.count], axis=1)


def fit_tiny(
    key: Array,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Any,
    pretrained: Any,
    settings: TinySettings,
    state: str,
    protocol: Any,
) -> Tiny:
    del key, pretrained
    width = settings.layers[0].width
    rows = train_table.x.shape[0] * (2 if protocol.affordability == "blind" else 1)
    return Tiny(
        weights=(numbers(problem.n_features, width), numbers(width, problem.n_actions)),
        parts={"a": {"b.c": jnp.arange(rows)}, "a.b": {"c": problem.costs, "d": valid_table.available}},
        problem=problem,
        predictor=predictor,
        threshold=jnp.asarray(-jnp.inf),
        count=jnp.asarray(len(state)),
        factor=float(settings.rate),
        activation=jnp.tanh,
        settings=settings,
    )


class Rows(Policy):
    """Holds the training rows, and knows no settings."""

    table: Table

    def __call__(self, x: Array, observed: Array, acquired: Array, available: Array, *, key: Array) -> Array:
        return jnp.zeros((x.shape[0], 1 + acquired.shape[1])) + self.table.x.sum()


def fit_rows(key: Array, problem: Problem, train_table: Table, valid_table: Table, **_: Any) -> Rows:
    return Rows(train_table)


def pretrain_table(key: Array, problem: Problem, train: Table, valid: Table, **_: Any) -> Table:
    return valid


def fit_pretrained(*_: Any, pretrained: Table, **__: Any) -> Rows:
    """Be a fit that cannot do without what is trained before."""
    return Rows(pretrained.take(jnp.arange(2)))


@contextmanager
def registered() -> Iterator[None]:
    """Register the methods of this file for a while, and whatever else is registered meanwhile."""
    kinds: tuple[Any, ...] = (methods._METHODS, predictors._PREDICTORS, restoration._RESTORERS)
    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            kind.names()  # so that it does not load its own into what is put back
            patch.setattr(kind, "_parts", dict(kind._parts))
        methods.register("tiny", summary="Small.", settings=TinySettings, states=("s", "sm"))(fit_tiny)
        methods.register("rows", summary="Memory.", keeps_rows=True)(fit_rows)
        methods.register("pretrained", summary="Staged.", pretrain=pretrain_table)(fit_pretrained)
        yield


def predictor(hidden: tuple[int, ...] = (5, 4)) -> MaskedMLP:
    shapes = eqx.filter_eval_shape(lambda key: MaskedMLP(MLP((8, *hidden, 3), key=key)), KEY)
    filled: MaskedMLP = jax.tree.map(lambda leaf: numbers(*leaf.shape), shapes)
    return filled


def tiny(settings: TinySettings = TinySettings(), **changes: Any) -> SavedModel:
    """Fit the tiny method without `jit`, and give what is to be saved."""
    given: dict[str, Any] = {
        "state": "s",
        "protocol": PAPER,
        "predictor": predictor(),
        "predictor_settings": Settings(hidden=(5, 4)),
    } | changes
    chosen = {name: given[name] for name in ("state", "protocol", "predictor")}
    policy = fit_tiny(KEY, PROBLEM, TRAIN, VALID, pretrained=None, settings=settings, **chosen)
    fields: dict[str, Any] = {
        "method": "tiny",
        "policy": policy,
        "problem": PROBLEM,
        "settings": settings,
        "train_rows": 9,
        "valid_rows": 5,
        "data_hash": hash_table(TRAIN),
        "seed": 3,
    }
    return SavedModel(**fields | given)


def reloaded(folder: Path, model: SavedModel) -> SavedModel:
    save_model(folder, model)
    return load_model(folder)


def unpacked(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a model."""
    content = file.read_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(head["__metadata__"]["ascertain"]), safetensors.numpy.load(content)


def sealed(text: str, arrays: dict[str, np.ndarray]) -> bytes:
    """A forged file: with a right digest, if the text has 64 zeros in its place."""
    content = safetensors.numpy.save(arrays, {"ascertain": text})
    return content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode(), 1)


def forged(
    file: Path,
    change: Callable[[dict[str, Any]], object] = lambda raw: None,
    alter: Callable[[dict[str, np.ndarray]], object] = lambda arrays: None,
) -> bytes:
    """A model that somebody has changed who knows how to compute the digest."""
    raw, arrays = unpacked(file)
    change(raw)
    alter(arrays)
    return sealed(json.dumps(raw | {"sha256": "0" * 64}), arrays)


def scores(model: SavedModel) -> np.ndarray:
    """Give what a policy makes of the training rows when it has acquired the first two things."""
    return np.asarray(_scores(jax.tree.map(as_array, model.policy)))


@eqx.filter_jit
def _scores(policy: Policy) -> Array:
    acquired = jnp.tile(jnp.array([True, True, False]), (9, 1))
    available = PROBLEM.readable(TRAIN.available)
    return policy(TRAIN.x, PROBLEM.observed(acquired), acquired, available, key=KEY)


def as_array(leaf: Any) -> Any:
    return jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(as_array(leaf)).tobytes() for leaf in jax.tree.leaves(tree) if eqx.is_array_like(leaf)]


def structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def arrays(policy: Policy) -> Any:
    return eqx.filter(policy, eqx.is_array_like)
