"""What the second implementations of several methods have in common: plain numbers and short formulas.

Those implementations follow the real ones step by step. Functions that the real ones call are watched by
callbacks, which give the lots that were drawn; everything else is computed again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain import PAPER, Problem, Protocol, Table

from .. import acquisition_cases as cases

Model = TypeVar("Model")

# Halves the time to compile once more.
FAST = {**cases.FAST, "xla_cpu_use_fusion_emitters": False}


def filled(make: Callable[..., Model], seed: int, scale: float = 0.5) -> Model:
    """Make what `make(key=...)` makes, but with normal numbers in it; compiles nothing."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: make(key=jr.key(0)))
    model: Model = jax.tree.map(
        lambda leaf: jnp.asarray(scale * rng.normal(size=leaf.shape), leaf.dtype), shapes
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
