"""Programs: one stage of the work for many replicates at once, compiled in the background.

A program is made of a `Recipe` (what to compute for one replicate: hashable, picklable data) and the shapes
of its arguments. It always runs at its width, so that a replicate's result does not depend on the others.
"""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from ascertain import methods
from ascertain._core.compilation import compiler_options, replicated
from ascertain.evaluation import curves as evaluation
from ascertain.missingness import MECHANISMS, mask_tables
from ascertain.predictors.masked_mlp import fit_predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.restoration import PVAERestorer, fit_hotdeck, fit_mean, fit_pvae
from ascertain.restoration.restorer import restore
from ascertain.study.jobs import Stage


class Inputs(NamedTuple):
    """What a program takes, for one replicate or stacked; what its stage does not need is None."""

    key: Any
    problem: Problem
    train: Table  # as treated
    valid: Table
    rate: Any = None
    given: Any = None  # the Partial VAE to restore with, or a method's pretraining
    predictor: Any = None
    scored: Table | None = None  # the complete rows that policies are evaluated on
    budgets: Any = None


class Masks(NamedTuple):
    """Which cells are left."""

    train: Any
    valid: Any


class Values(NamedTuple):
    """The cells of restored tables."""

    train: Any
    valid: Any


@dataclass(frozen=True)
class Recipe:
    """What a program computes for one replicate."""

    stage: Stage
    protocol: Protocol
    settings: Any = None
    method: str = ""
    state: str = ""
    mechanism: str = ""
    restorer: str = ""
    n_steps: int = 0
    separate: bool = False  # whether each budget needs a rollout of its own

    def __call__(self, inputs: Inputs) -> Any:
        """Compute it; can be jitted and replicated."""
        key = jr.wrap_key_data(inputs.key)
        inputs = inputs._replace(key=key)
        return getattr(self, f"_{self.stage}")(inputs)

    def _predictor(self, inputs: Inputs) -> Any:
        return fit_predictor(inputs.key, inputs.problem, inputs.train, inputs.valid, self.settings)

    def _mask(self, inputs: Inputs) -> Masks:
        mechanism = MECHANISMS[self.mechanism]
        masked = mask_tables(inputs.key, mechanism, inputs.problem, inputs.train, inputs.valid, inputs.rate)
        return Masks(*(table.available for table in masked))

    def _vae(self, inputs: Inputs) -> Any:
        return fit_pvae(inputs.key, inputs.problem, inputs.train, inputs.valid, self.settings)

    def _restore(self, inputs: Inputs) -> Values:
        fitting, *drawing = jr.split(inputs.key, 3)
        restorer: Any
        if self.restorer == "pvae":
            restorer = PVAERestorer(inputs.given)
        elif self.restorer == "hotdeck":
            restorer = fit_hotdeck(fitting, inputs.problem, inputs.train)
        else:
            restorer = fit_mean(inputs.train)
        tables = (inputs.train, inputs.valid)
        return Values(*(restore(k, restorer, table).x for k, table in zip(drawing, tables, strict=True)))

    def _pretrain(self, inputs: Inputs) -> Any:
        pretrain = methods.get(self.method).pretrain
        assert pretrain is not None
        arguments = (inputs.key, inputs.problem, inputs.train, inputs.valid)
        return pretrain(*arguments, settings=self.settings, protocol=self.protocol)

    def _fit(self, inputs: Inputs) -> Any:
        fitting, acting = jr.split(inputs.key)
        policy = methods.get(self.method).fit(
            fitting,
            inputs.problem,
            inputs.train,
            inputs.valid,
            predictor=inputs.predictor,
            pretrained=inputs.given,
            settings=self.settings,
            state=self.state,
            protocol=self.protocol,
        )
        assert inputs.scored is not None
        return evaluation.curve(
            acting,
            policy,
            inputs.problem,
            inputs.scored,
            inputs.predictor,
            inputs.budgets,
            protocol=self.protocol,
            n_steps=self.n_steps,
            separate=self.separate,
        )


class Done(NamedTuple):
    """What a run of a program gave, and what it took."""

    results: list[Any]  # one PyTree of NumPy arrays per replicate
    seconds: float
    compile_seconds: float
    temporary_bytes: int
    device: str  # what kind it was


class Program:
    """A recipe at a width and for shapes of inputs; call `lower` and `compile` before `run`."""

    def __init__(self, recipe: Recipe, like: Inputs, width: int):
        self.recipe, self.width = recipe, width
        self._like = _stacked(like, width)
        self._lowered: Any = None
        self._compiled: Any = None
        self.compile_seconds = 0.0

    def lower(self) -> None:
        """Trace and lower it: Python's part of the compilation, which threads cannot share."""
        start = time.perf_counter()
        self._lowered = _batched(self.recipe).lower(self._like)
        self.compile_seconds += time.perf_counter() - start

    def compile(self) -> None:
        """Compile what was lowered: XLA's part, which threads can do beside one another."""
        start = time.perf_counter()
        self._compiled = self._lowered.compile(compiler_options())
        self._lowered = None
        self.compile_seconds += time.perf_counter() - start

    @property
    def temporary_bytes(self) -> int:
        """What it needs of the device's memory besides its inputs and results."""
        analysis = self._compiled.memory_analysis()
        return int(analysis.temp_size_in_bytes) if analysis else 0

    @property
    def total_bytes(self) -> int:
        """All that it needs of the device's memory."""
        analysis = self._compiled.memory_analysis()
        if not analysis:
            return 0
        sizes = (analysis.temp_size_in_bytes, analysis.argument_size_in_bytes, analysis.output_size_in_bytes)
        return int(sum(sizes))

    def run(self, inputs: list[Inputs]) -> Done:
        """Run it for some replicates, at most its width; short of that, the first one fills the places."""
        stacked = stack(inputs + [inputs[0]] * (self.width - len(inputs)))
        start = time.perf_counter()
        outcome = jax.device_get(jax.block_until_ready(self._compiled(stacked)))
        seconds = time.perf_counter() - start
        results = [jax.tree.map(lambda leaf, i=i: leaf[i], outcome) for i in range(len(inputs))]
        device = jax.devices()[0].device_kind
        return Done(results, seconds, self.compile_seconds, self.temporary_bytes, device)


def result_like(recipe: Recipe, like: Inputs, width: int) -> Any:
    """Give the structure and shapes of what a recipe computes, without computing it.

    At the width that its program has, or will have, it is traced only once for both.
    """
    stacked = _batched(recipe).eval_shape(_stacked(like, width))
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)


def stack(trees: list[Any]) -> Any:
    """Put PyTrees of the same shapes side by side, in NumPy."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


def shape_key(inputs: Any) -> tuple[Any, ...]:
    """Give what two inputs must have in common to go through one program."""
    leaves, structure = jax.tree.flatten(inputs)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


@cache
def _batched(recipe: Recipe) -> Any:
    """Make the function of many replicates, once, so that JAX knows what it has traced of it."""
    return jax.jit(replicated(recipe))


def _stacked(like: Any, width: int) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((width, *leaf.shape), leaf.dtype), like)
