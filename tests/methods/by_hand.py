"""What the second implementations of several methods have in common: plain numbers and short formulas.

Those implementations follow the real ones step by step, given the random numbers that these drew; everything
else is computed again. For GDFS and DIME only calls of JAX and Optax are watched, none of our own functions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jaxtyping import Array

from ascertain import PAPER, Problem, Protocol, Table

from .. import acquisition_cases as cases
from ..compiler import OLDER_FUSIONS

Model = TypeVar("Model")

# Halves the time to compile once more.
FAST = {**cases.FAST, **OLDER_FUSIONS}


def filled(make: Callable[..., Model], seed: int, scale: float = 0.5) -> Model:
    """Make what `make(key=...)` makes, but with normal numbers in it; compiles nothing."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: make(key=jr.key(0)))
    model: Model = jax.tree.map(
        lambda leaf: jax.device_put((scale * rng.normal(size=leaf.shape)).astype(leaf.dtype)), shapes
    )
    return model


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    """Apply an affine layer in double precision."""
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def perceptron(layers: Sequence[Any], x: np.ndarray) -> np.ndarray:
    """Apply affine layers with ReLU between them."""
    for layer in layers[:-1]:
        x = np.maximum(dense(layer, x), 0)
    return dense(layers[-1], x)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class Adam:
    """The optimiser, from its formulas."""

    def __init__(self, model: Any):
        self.structure = jax.tree.structure(model)
        self.leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(model)]
        self.first = [np.zeros_like(leaf) for leaf in self.leaves]
        self.second = [np.zeros_like(leaf) for leaf in self.leaves]
        self.done = [0] * len(self.leaves)

    def step(self, gradients: Any, rate: float = 1e-3, times: Sequence[int] | None = None) -> None:
        """Make a step, or as many as `times` says for each leaf."""
        for i, leaf in enumerate(jax.tree.leaves(gradients)):
            gradient = np.asarray(leaf, np.float64)
            for _ in range(1 if times is None else times[i]):
                self.done[i] += 1
                self.first[i] = 0.9 * self.first[i] + 0.1 * gradient
                self.second[i] = 0.999 * self.second[i] + 0.001 * gradient**2
                scale = np.sqrt(self.second[i] / (1 - 0.999 ** self.done[i])) + 1e-8
                self.leaves[i] = self.leaves[i] - rate * self.first[i] / (1 - 0.9 ** self.done[i]) / scale

    @property
    def model(self) -> Any:
        """The parameters, in single precision again."""
        return jax.tree.unflatten(self.structure, [jnp.asarray(leaf, jnp.float32) for leaf in self.leaves])


class NaivePlateau:
    """PyTorch's ReduceLROnPlateau and the early stop of methods.md 0.4."""

    def __init__(self, rate: float, patience: int, least_rate: float):
        self.rate, self.patience, self.least_rate = rate, patience, least_rate
        self.best, self.bad_epochs, self.not_best = float("inf"), 0, 0

    def step(self, loss: float) -> bool:
        if loss < self.best * (1 - 1e-4):
            self.best, self.bad_epochs = loss, 0
        else:
            self.bad_epochs += 1
        if self.bad_epochs > self.patience:
            lower = max(self.rate * 0.2, self.least_rate)
            if self.rate - lower > 1e-8:
                self.rate = lower
            self.bad_epochs = 0
        is_best = loss == self.best
        self.not_best = 0 if is_best else self.not_best + 1
        return is_best

    @property
    def stops(self) -> bool:
        return self.not_best > self.patience + 1


@dataclass
class Tape:
    """What a training drew and handed to Adam, in this order."""

    draws: list[tuple[str, np.ndarray]] = field(default_factory=list)  # the function, and one row of its draw
    keys: list[bytes] = field(default_factory=list)  # one of each draw
    starts: list[Any] = field(default_factory=list)  # parameters that an optimiser was made for
    gradients: list[Any] = field(default_factory=list)

    def take(self, function: str) -> list[np.ndarray]:
        return [draw for name, draw in self.draws if name == function]


@contextmanager
def taped(n_actions: int) -> Iterator[Tape]:
    """Record calls of JAX's random numbers and Optax's Adam, and let all rows of a batch share one draw.

    As rows do not differ in their draws, it does not matter how they are shuffled.
    """
    tape = Tape()
    gumbel, uniform, adam = jr.gumbel, jr.uniform, optax.scale_by_adam

    def record(kept: list[Any], make: Callable[..., Any], *seen: Any) -> None:
        jax.debug.callback(lambda *each: kept.append(make(*each)), *seen, ordered=True)

    def shared(name: str, key: Array, draw: Array, shape: tuple[int, ...]) -> Array:
        record(tape.draws, lambda each: (name, np.asarray(each)), draw)
        record(tape.keys, lambda each: np.asarray(each).tobytes(), jr.key_data(key))
        return jnp.broadcast_to(draw, shape)

    def shared_gumbel(key: Array, shape: tuple[int, ...]) -> Array:
        return shared("gumbel", key, gumbel(key, (*shape[:-2], 1, shape[-1])), shape)

    def shared_categorical(key: Array, logits: Array) -> Array:
        return jnp.argmax(
            logits + shared("categorical", key, gumbel(key, (1, n_actions)), logits.shape), axis=1
        )

    def shared_uniform(key: Array, shape: tuple[int, ...] = (), **bounds: Any) -> Array:
        if bounds or len(shape) != 2:  # the parameters of a network
            return uniform(key, shape, **bounds)
        return shared("uniform", key, uniform(key, (1, shape[1])), shape)

    def watched_adam() -> optax.GradientTransformation:
        def init(model: Any) -> Any:
            record(tape.starts, lambda each: each, model)
            return adam().init(model)

        def update(gradient: Any, state: Any, model: Any = None) -> Any:
            record(tape.gradients, lambda each: each, gradient)
            return adam().update(gradient, state, model)

        return optax.GradientTransformation(init, update)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jr, "gumbel", shared_gumbel)
        patch.setattr(jr, "categorical", shared_categorical)
        patch.setattr(jr, "uniform", shared_uniform)
        patch.setattr(optax, "scale_by_adam", watched_adam)
        yield tape
        jax.effects_barrier()


def assert_close(found: Any, expected: Any, rtol: float = 1e-3, atol: float = 2e-6) -> None:
    """Compare PyTrees leaf by leaf."""
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


def readable(problem: Problem, cells: np.ndarray) -> np.ndarray:
    """Say which actions rows support: those all of whose features they have."""
    return np.array([[np.all(row[group]) for group in np.asarray(problem.reveals)] for row in cells])


def may_take(problem: Problem, protocol: Protocol, acquired: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Say which actions are legal in training: what is left and, in the paper's reading, affordable."""
    legal = available & ~acquired
    if protocol is PAPER:
        costs = np.asarray(problem.costs, np.float64)
        legal &= (acquired @ costs)[:, None] + costs[None] <= float(problem.budget) + 1e-6
    return legal


def shown(problem: Problem, acquired: np.ndarray) -> np.ndarray:
    """Say which features rows have been shown."""
    return acquired @ np.asarray(problem.reveals) > 0


def three_classes(n_rows: int, seed: int) -> Table:
    """Make rows of four features with and without holes, of three classes that are not balanced."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 4))
    y = (x[:, 2] > 0.5).astype(int) + ((x[:, 0] > 0) & (x[:, 2] > 0.5))
    available = (rng.random(x.shape) < 0.7) | (rng.random((n_rows, 1)) < 0.5)
    return Table(x, y, available, n_classes=3)


def with_bad_rows(table: Table) -> Table:
    """Let the first row have nothing, and the second only the last feature."""
    available = np.array(table.available)
    available[:2] = [[False] * 4, [False, False, False, True]]
    return table.with_cells(table.x, jnp.asarray(available))
