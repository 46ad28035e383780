"""The inputs of jobs: datasets, splits and earlier results, as arrays on the host."""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ascertain.datasets._dataset import Dataset
from ascertain.evaluation import _rollouts as rollouts
from ascertain.evaluation._followed import judging_budgets
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.recipe._jobs import Job, SplitJobs
from ascertain.recipe._presets import Changes
from ascertain.recipe._programs import result_like, shape_key, shapes_of
from ascertain.recipe._stages import JUDGED_ROWS, Inputs, Judging, Masks, Stage, Values
from ascertain.restoration._registry import Restoring
from ascertain.restoration._score import MAX_ROWS, RestorationScore

Load = Callable[[Job], Any]  # reads an earlier job's result
Scored = Literal["valid", "test", "both"]
DERIVED = ("auto", "routes")  # stages that are computed by the host from other results


class PreparedSplit(NamedTuple):
    """A split, as NumPy arrays."""

    train: Table
    valid: Table
    scored: Table  # the rows that policies are evaluated on; of `both`, validation rows come first


class Materials:
    """Datasets, and the inputs of each job about them.

    Policies are evaluated on validation rows, on test rows, or on both (`scored`). A dataset with holes
    of its own is always evaluated on test rows, by estimates (`evaluate_incomplete`).
    """

    def __init__(
        self,
        datasets: Mapping[str, Dataset],  # each at the budget that policies are trained for
        protocol: Protocol,
        width: int = 1,  # replicates per program
        scored: Scored = "valid",
        keep_policies: bool = False,  # whether cells return policies too
        recorded: Load = lambda job: None,  # the shapes of a finished job's result, or None
    ):
        self.datasets, self.protocol, self.width = datasets, protocol, width
        self.scored, self.keep_policies = scored, keep_policies
        self.part = lru_cache(maxsize=64)(self._part)
        self._complete = {name: each.complete for name, each in datasets.items()}
        self._problems = {
            name: jax.tree.map(np.asarray, each.problem.without_names()) for name, each in datasets.items()
        }
        self._recorded = recorded
        self._likes: dict[Any, Any] = {}
        self._stages: dict[Any, Stage] = {}
        self._shapes = lru_cache(maxsize=None)(self._shapes_of_split)
        self._lock = threading.RLock()

    @property
    def both(self) -> bool:
        """Whether policies are evaluated on validation rows and on test rows."""
        return self.scored == "both"

    def n_valid_scored(self, name: str, split: int) -> int:
        """How many of the first scored rows are validation rows, where both kinds are scored."""
        return min(len(self.part(name, split).valid.y), rollouts.MAX_ROWS)

    def content(self, name: str, split: int) -> str:
        """A digest of all data of a split: rows, problem, budgets."""
        dataset = self.datasets[name]
        facts = (dataset.budgets, dataset.metric, dataset.problem.n_classes)
        digest = hashlib.sha256(repr(facts).encode())
        rows = [(table.x, table.y, table.available) for table in self.part(name, split)]
        for leaf in jax.tree.leaves((rows, self._problems[name])):
            digest.update(repr((leaf.shape, leaf.dtype)).encode() + np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()

    def jobs(
        self,
        name: str,
        split: int,
        seed: int,
        settings: Mapping[str, Changes],
        predictor: str,
        judged: bool = False,
    ) -> SplitJobs:
        """What makes the jobs about a split."""
        content = self.content(name, split)
        return SplitJobs(
            self.datasets[name], split, content, self.protocol, seed, settings, predictor, judged
        )

    def has_holes(self, name: str) -> bool:
        """Whether a dataset's own rows lack cells."""
        return not self._complete[name]

    def stage(self, job: Job) -> Stage:
        """What is computed for a job; equal stages on equal shapes share a program."""
        where = (job.stage, job.dataset, job.method, job.state, job.mechanism, job.restorer)
        name = (*where, job.settings, _is_judged(job))
        if name not in self._stages:
            self._stages[name] = self._stage(job)
        return self._stages[name]

    def on_host(self, job: Job) -> bool:
        """Whether a job runs on the host, one replicate at a time."""
        return job.stage in DERIVED or self.stage(job).on_host

    def group(self, job: Job) -> tuple[Any, ...]:
        """The program that a job goes through: its stage, and the shapes of its data."""
        if job.stage in DERIVED:
            return job.stage, job.dataset
        return self.stage(job), self._shapes(job.dataset, job.split), job.completions

    def like(self, job: Job) -> Inputs:
        """The shapes of a job's inputs, also before these are computed."""
        with self._lock:
            name = ("inputs", self.group(job))
            if name not in self._likes:
                self._likes[name] = shapes_of(self.inputs(job, self.result_like))
            return self._likes[name]

    def result_like(self, job: Job) -> Any:
        """The shapes of a job's result."""
        with self._lock:
            name = ("result", self.group(job))
            if name not in self._likes:
                self._likes[name] = self._result_like(job)
            return self._likes[name]

    def inputs(self, job: Job, load: Load) -> Inputs:
        """Assemble the inputs of a job from the data and earlier results."""
        part = self.part(job.dataset, job.split)
        problem: Problem = self._problems[job.dataset]
        inputs = Inputs(job.key, problem, *_treated(part, job, load))
        if job.stage == "mask":
            return inputs._replace(rate=np.float32(job.rate))
        given = job.begins_with
        inputs = inputs._replace(given=None if given is None else load(given))
        inputs = inputs._replace(judging=self._judging(job, load))
        if job.stage != "fit":
            return inputs
        predictor = job.needed("predictor")
        assert predictor is not None
        inputs = inputs._replace(predictor=load(predictor))
        if self.has_holes(job.dataset):
            return inputs
        budgets = np.asarray(self.datasets[job.dataset].budgets, np.float32)
        return inputs._replace(scored=part.scored, budgets=budgets)

    def judged_rows(self, job: Job, load: Load) -> Table:
        """The validation rows with holes in which the cells of an `auto` job were followed."""
        return rollouts.sample_rows(self._with_holes(job, load), JUDGED_ROWS, seed=0)

    def _with_holes(self, job: Job, load: Load) -> Table:
        """The validation rows with their holes, for a job that needs the mask (if there is one)."""
        mask, valid = job.needed("mask"), self.part(job.dataset, job.split).valid
        return valid if mask is None else _with(valid, valid.x, load(mask).valid)

    def _judging(self, job: Job, load: Load) -> Judging | None:
        """What treatments are compared with, for jobs that compute something for this."""
        availability, judge = job.needed("availability"), job.needed("judge")
        if availability is not None:
            return Judging(availability.key, load(availability))
        if judge is None:
            return None
        budgets = judging_budgets(self.datasets[job.dataset].problem)
        rows = self._with_holes(judge, load)
        return Judging(judge.key, judge=load(judge), rows=rows, budgets=budgets)

    def restoration_error(self, job: Job, load: Load) -> float:
        """Root mean squared error of restored training rows, on cells that were there before masking."""
        restored = job.needed("restore")
        mask = None if restored is None else restored.needed("mask")
        if restored is None or mask is None:
            return float("nan")
        train = self.part(job.dataset, job.split).train
        missing = train.available & ~load(mask).train
        if not missing.any():
            return float("nan")
        first = load(restored).train[: len(train.x)]  # completion
        return float(np.sqrt(np.mean((first - train.x)[missing].astype(np.float64) ** 2)))

    def restoration_score(self, job: Job, load: Load) -> float:
        """The score of the restorer of a job's data; NaN where nothing was restored."""
        restored = job.needed("restore")
        return float("nan") if restored is None else float(np.asarray(load(restored).score).item())

    def _result_like(self, job: Job) -> Any:
        if job.stage in ("mask", "availability", "restore"):  # of the shapes of the tables: nothing to trace
            return self._tables_like(job)
        recorded = self._recorded(job)
        if recorded is not None:  # so the program may not be needed any more
            return recorded
        return result_like(self.stage(job), self.like(job), self.width)

    def _tables_like(self, job: Job) -> Any:
        part = self.part(job.dataset, job.split)
        if job.stage == "mask":
            return shapes_of(Masks(part.train.available, part.valid.available))
        actions = self.datasets[job.dataset].problem.n_actions
        if job.stage == "availability":
            return jax.ShapeDtypeStruct((len(part.valid.y), actions), np.float32)
        train = np.tile(part.train.x, (job.completions, 1))
        paired = _score_like(len(part.valid.y), actions) if _is_judged(job) else None
        return shapes_of(Values(train, part.valid.x, np.float32(0), paired))

    def _stage(self, job: Job) -> Stage:
        # Only what the stage depends on, so that jobs which do not differ in it share a program.
        if job.shared is not None:
            return Stage("share", settings=job.settings, protocol=self.protocol, shared=job.shared)
        if job.stage == "restore":
            restoring = Restoring.parse(job.restorer)
            return Stage(
                "restore",
                restoring.name,
                job.settings,
                self.protocol,
                completions=restoring.completions,
                judged=_is_judged(job),
            )
        parts = {"predictor": job.predictor, "mask": job.mechanism, "judge": job.predictor}
        part = parts.get(job.stage, job.method)
        stage = Stage(job.stage, part, job.settings, self.protocol)
        if job.stage != "fit":
            return stage
        problem, budgets = self._problems[job.dataset], self.datasets[job.dataset].budgets
        return replace(
            stage,
            state=job.state,
            n_steps=rollouts.most_steps(self.datasets[job.dataset].problem, budgets),
            separate=rollouts.needs_separate_rollouts(problem, self.protocol),
            keep_policy=self.keep_policies or self.has_holes(job.dataset),
            roll_out=not self.has_holes(job.dataset),
            judged=_is_judged(job),
        )

    def _part(self, name: str, split: int) -> PreparedSplit:
        train, valid, test = self.datasets[name].split(split, self.protocol)
        kinds = ("test",) if self.has_holes(name) else ("valid", "test") if self.both else (self.scored,)
        wanted = [valid if kind == "valid" else test for kind in kinds]
        sampled = [rollouts.sample_rows(rows, rollouts.MAX_ROWS, split) for rows in wanted]
        scored = jax.tree.map(lambda *leaves: np.concatenate(leaves), *sampled)
        return PreparedSplit(*(jax.tree.map(np.asarray, table) for table in (train, valid, scored)))

    def _shapes_of_split(self, name: str, split: int) -> tuple[Any, ...]:
        budgets = np.asarray(self.datasets[name].budgets, np.float32)
        return shape_key((self._problems[name], self.part(name, split), budgets))


def _is_judged(job: Job) -> bool:
    """Whether a job also computes what treatments are compared by."""
    return any(need.stage in ("judge", "availability") for need in job.needs)


def _score_like(n_rows: int, n_actions: int) -> RestorationScore:
    """The shapes of a restorer's score."""
    n = min(n_rows, MAX_ROWS)
    by_row = jnp.zeros(n)
    return RestorationScore(by_row, by_row, by_row, jnp.zeros(n, int), jnp.zeros((2, n, n_actions), bool))


def _treated(part: PreparedSplit, job: Job, load: Load) -> tuple[Table, Table]:
    """Training and validation rows as a job sees them: complete, with holes, or restored."""
    tables = (part.train, part.valid)
    restored, mask = job.needed("restore"), job.needed("mask")
    if restored is not None:
        values: Values = load(restored)
        numbers = (restored.completions, 1)
        train, valid = (
            _completed(t, x, n) for t, x, n in zip(tables, (values.train, values.valid), numbers, strict=True)
        )
        return train, valid
    if mask is not None:
        train, valid = (_with(t, t.x, kept) for t, kept in zip(tables, load(mask), strict=True))
        return train, valid
    return tables


def _completed(table: Table, x: Any, n: int) -> Table:
    """Several completions of a table, on the host."""
    rows = np.tile(np.arange(len(table.y)), n)
    repeated: Table = jax.tree.map(lambda leaf: leaf[rows], table)
    return _with(repeated, x, np.ones_like(repeated.available)).counted(completions=n)


def _with(table: Table, x: Any, available: Any) -> Table:
    """Replace a table's cells, on the host; shapes in place of arrays remain shapes."""
    if isinstance(x, np.ndarray) and isinstance(available, np.ndarray):
        x = np.where(available, x, np.float32(0))
    changed: Table = eqx.tree_at(lambda each: (each.x, each.available), table, (x, available))
    return changed
