"""Programs: one stage of the work for many replicates at once, compiled in the background.

A program consists of a `Stage` (what to compute for one replicate: hashable, picklable data) and the shapes
of its inputs. It always runs at its width, so that a replicate's result does not depend on the others.
"""

import time
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool

from ascertain._core.arrays import on_device
from ascertain._core.compilation import compiler_options, make_room, replicated
from ascertain.recipe._rounding import numeric_options, usable_cores
from ascertain.recipe._stages import Inputs, Place, Stage


class Done(NamedTuple):
    """The results of a run of a program, and its time and memory."""

    results: list[Any]  # one PyTree of NumPy arrays per replicate
    seconds: float
    compile_seconds: float
    temporary_bytes: int
    device: str  # its kind
    cores: int | None = None  # that it had, if these are the device
    jobs: float = 1  # that shared its seconds, on average
    options: str = ""  # of XLA and JAX that change numbers


class Begun(NamedTuple):
    """A training that was interrupted."""

    state: list[np.ndarray]  # its leaves
    seconds: float
    jobs: float  # that shared them, on average


class Trainee(NamedTuple):
    """A model to train, from the start or from where it was interrupted."""

    inputs: Inputs
    begun: Begun | None = None


class Program:
    """A stage at a width and for shapes of inputs; call `lower` and `compile` before `run`."""

    def __init__(self, stage: Stage, like: Inputs, width: int):
        self.stage, self.width = stage, width
        self._like = _stacked(like, width)
        self._lowered: Any = None
        self._compiled: Any = None
        self.compile_seconds = 0.0

    def lower(self) -> None:
        """Trace and lower it: Python's part of the compilation, which threads cannot share."""
        start = time.perf_counter()
        self._lowered = _batched(self.stage).lower(self._like)
        self.compile_seconds += time.perf_counter() - start

    def compile(self) -> None:
        """Compile what was lowered: XLA's part, which threads can do beside one another."""
        start = time.perf_counter()
        self._compiled = self._lowered.compile(compiler_options())
        self._lowered = None
        self.compile_seconds += time.perf_counter() - start

    @cached_property
    def temporary_bytes(self) -> int:
        """The device memory that it needs besides its inputs and results."""
        analysis = self._compiled.memory_analysis()
        return int(analysis.temp_size_in_bytes) if analysis else 0

    @cached_property
    def total_bytes(self) -> int:
        """The device memory that it needs."""
        analysis = self._compiled.memory_analysis()
        if not analysis:
            return 0
        sizes = (analysis.temp_size_in_bytes, analysis.argument_size_in_bytes, analysis.output_size_in_bytes)
        return int(sum(sizes))

    def run(self, inputs: list[Inputs]) -> Done:
        """Run it for some replicates, at most its width."""
        stacked = self.stacked(inputs)
        start = time.perf_counter()
        outcome = jax.block_until_ready(self.begin(stacked))
        return self.done(outcome, len(inputs), time.perf_counter() - start)

    def stacked(self, inputs: list[Inputs]) -> Any:
        """The inputs of some replicates on the device; short chunks are padded with the first one."""
        return jax.device_put(stack(inputs + [inputs[0]] * (self.width - len(inputs))))

    def begin(self, stacked: Any) -> Any:
        """Let the device compute when it has finished what it was asked for before; does not wait for it."""
        return self._compiled(stacked)

    def done(self, outcome: Any, replicates: int, seconds: float) -> Done:
        """What came out, on the host."""
        outcome = jax.device_get(outcome)
        results = [jax.tree.map(lambda leaf, i=i: leaf[i], outcome) for i in range(replicates)]
        about = (self.compile_seconds, self.temporary_bytes)
        return Done(results, seconds, *about, **_rounded_by(), jobs=replicates)


class TrainingProgram(Program):
    """A program of a stage that trains; replicates may take places in it whenever some are free.

    It advances all of them by some rounds at a time. A replicate's result depends neither on its place, nor
    on the others, nor on when it began.
    """

    def lower(self) -> None:
        """Trace and lower it."""
        start = time.perf_counter()
        state, _ = _untrained(self.stage).eval_shape(self._like)
        flag = jax.ShapeDtypeStruct((self.width,), bool)
        self._state_like = state
        self._lowered = _advancing(self.stage).lower(self._like, state, Place(flag, flag))
        self.compile_seconds += time.perf_counter() - start

    def run(self, inputs: list[Inputs]) -> Done:
        """Train some replicates, at most its width, until all have stopped."""
        places, found = self.places(), dict[int, Done]()
        places.fill([Trainee(each) for each in inputs])
        while places.taken:
            found.update(places.advance())
        results = [found[number].results[0] for number in range(len(inputs))]
        return found[0]._replace(results=results, seconds=max(done.seconds for done in found.values()))

    def places(self) -> "Places":
        """Free places for replicates."""
        return Places(self, self._compiled, self._state_like)


class Places:
    """The places of a training program: which replicate is in which, and the state of its training."""

    def __init__(self, program: TrainingProgram, advance: Any, state_like: Any):
        self._program, self._advance = program, advance
        self._state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state_like)
        self._numbers: list[int | None] = [None] * program.width  # of the replicates, as they came
        self._seconds = [0.0] * program.width
        self._shares = [0.0] * program.width  # of the seconds, divided by the number of replicates
        self._inputs: list[Inputs] = []
        self._stacked: Any = None
        self._stopped: Any = None  # whether each has, and its model, after the rounds that were begun last
        self._models: Any = None
        self._fresh = np.zeros(program.width, bool)
        self._came = 0

    @property
    def taken(self) -> int:
        """How many replicates are in training."""
        return sum(number is not None for number in self._numbers)

    @property
    def free(self) -> int:
        """How many more could be."""
        return self._program.width - self.taken

    def fill(self, trainees: list[Trainee]) -> None:
        """Train some more replicates, at most as many as there are free places."""
        if not trainees:
            return
        self._inputs = self._inputs or [trainees[0].inputs] * self._program.width
        places = [place for place, number in enumerate(self._numbers) if number is None]
        interrupted = {}
        for place, (inputs, begun) in zip(places[: len(trainees)], trainees, strict=True):
            self._inputs[place], self._numbers[place], self._fresh[place] = inputs, self._came, True
            self._seconds[place] = self._shares[place] = 0.0
            self._came += 1
            if begun is not None and self._fits(begun):
                interrupted[place] = begun
        if interrupted:
            self._go_on(interrupted)
        self._stacked = jax.device_put(stack(self._inputs))

    def _fits(self, begun: Begun) -> bool:
        """Whether a state is one of this training, which may have been changed since."""
        own = [(leaf.shape[1:], leaf.dtype) for leaf in jax.tree.leaves(self._state)]
        return own == [(leaf.shape, leaf.dtype) for leaf in begun.state]

    def _go_on(self, interrupted: dict[int, Begun]) -> None:
        """Let the replicates in these places go on where they were interrupted."""
        leaves, structure = jax.tree.flatten(self._state)
        leaves = [np.array(leaf) for leaf in leaves]
        for place, begun in interrupted.items():
            for leaf, own in zip(leaves, begun.state, strict=True):
                leaf[place] = own
            self._fresh[place] = False
            self._seconds[place], self._shares[place] = begun.seconds, begun.seconds / begun.jobs
        self._state = jax.tree.unflatten(structure, leaves)

    def advance(self) -> dict[int, Done]:
        """Train for some rounds; what has stopped leaves."""
        start = time.perf_counter()
        jax.block_until_ready(self.begin())
        return self.leave(time.perf_counter() - start)

    def begin(self) -> Any:
        """Let the device train for some rounds; does not wait until what is returned is there."""
        place = Place(self._taken(), self._fresh)
        self._state, self._stopped, self._models = self._advance(self._stacked, self._state, place)
        return self._stopped

    def leave(self, seconds: float) -> dict[int, Done]:
        """What has stopped in the rounds begun last, by its number in the order of coming; leaves its place.

        `seconds` is how long these rounds took.
        """
        taken, share = self._taken(), 1 / self.taken
        for each in np.flatnonzero(taken):
            self._seconds[each] += seconds
            self._shares[each] += seconds * share
        self._fresh = np.zeros_like(self._fresh)
        leaving = np.flatnonzero(taken & np.asarray(self._stopped))
        models = jax.device_get(self._models) if len(leaving) else None
        self._models = None
        return dict(self._leave(int(each), models) for each in leaving)

    def interrupt(self) -> dict[int, Done]:
        """The leaves of the states of all replicates in training, by number; they leave their places."""
        leaves = jax.device_get(jax.tree.leaves(self._state))
        return dict(self._leave(int(each), leaves) for each in np.flatnonzero(self._taken()))

    def _taken(self) -> Bool[np.ndarray, " places"]:
        return np.array([number is not None for number in self._numbers])

    def _leave(self, place: int, results: Any) -> tuple[int, Done]:
        number, program = self._numbers[place], self._program
        assert number is not None
        self._numbers[place] = None
        result = jax.tree.map(lambda leaf: np.asarray(leaf[place]), results)
        seconds, jobs = self._seconds[place], round(self._seconds[place] / self._shares[place], 3)
        about = (program.compile_seconds, program.temporary_bytes)
        return number, Done([result], seconds, *about, **_rounded_by(), jobs=jobs)


def program_of(stage: Stage, like: Inputs, width: int) -> Program:
    """The program of a stage, for inputs of these shapes."""
    return (TrainingProgram if stage.trains else Program)(stage, like, width)


def run_on_host(stage: Stage, inputs: Inputs) -> Done:
    """Run a stage whose part runs on the host, for one replicate."""
    start = time.perf_counter()
    result = jax.tree.map(np.asarray, jax.device_get(stage(jax.tree.map(on_device, inputs))))
    return Done([result], time.perf_counter() - start, 0.0, 0, **_rounded_by())


def _rounded_by() -> dict[str, Any]:
    """What the rounding of results depends on, besides the width and versions."""
    device = jax.devices()[0].device_kind
    return {"device": device, "cores": usable_cores(), "options": numeric_options()}


def run_once(stage: Stage, inputs: Inputs) -> Any:
    """Run a stage for one replicate, as a study of width 1 does; the result's arrays are NumPy's."""
    if stage.on_host:
        return run_on_host(stage, inputs).results[0]
    make_room()
    program = program_of(stage, shapes_of(inputs), width=1)
    program.lower()
    program.compile()
    return program.run([inputs]).results[0]


def result_like(stage: Stage, like: Inputs, width: int) -> Any:
    """The structure and shapes of what a stage computes, without computing it.

    Traced at the width of its program, so that JAX traces it only once for both.
    """
    stacked = (
        _untrained(stage).eval_shape(_stacked(like, width))[1]
        if stage.trains
        else _batched(stage).eval_shape(_stacked(like, width))
    )
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)


def stack(trees: list[Any]) -> Any:
    """Stack PyTrees of the same shapes, in NumPy."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


def shapes_of(tree: Any) -> Any:
    """The PyTree with shapes and types in place of arrays."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def shape_key(inputs: Any) -> tuple[Any, ...]:
    """Structure, shapes and types: inputs that agree in them share a program."""
    leaves, structure = jax.tree.flatten(inputs)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


@cache
def _batched(stage: Stage) -> Any:
    """The function of many replicates, made once, so that JAX reuses its traces."""
    return jax.jit(replicated(stage))


@cache
def _untrained(stage: Stage) -> Any:
    return jax.jit(replicated(stage.untrained))


@cache
def _advancing(stage: Stage) -> Any:
    return jax.jit(replicated(stage.advance), donate_argnums=1)  # the state is replaced


def _stacked(like: Any, width: int) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((width, *leaf.shape), leaf.dtype), like)
