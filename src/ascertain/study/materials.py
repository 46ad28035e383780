"""What jobs are made of: datasets, splits and earlier results, as arrays on the host."""

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ascertain import datasets
from ascertain.datasets.dataset import Dataset
from ascertain.errors import InputError
from ascertain.evaluation import curves as evaluation
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol, protocol
from ascertain.study.file import Study
from ascertain.study.jobs import Grid, Job
from ascertain.study.programs import Inputs, Recipe, result_like, shape_key

Load = Callable[[Job], Any]  # gives an earlier job's result


class Part(NamedTuple):
    """A split, with NumPy's arrays."""

    train: Table
    valid: Table
    scored: Table  # validation rows that policies are evaluated on


class Materials:
    """The datasets of a study, and what each of its jobs takes.

    Parameters
    ----------
    study
        What to run.
    data_dir
        Where to look for data files.
    width
        Replicates per program.
    """

    def __init__(self, study: Study, data_dir: Path | None = None, width: int = 1):
        self.study, self.width = study, width
        self.protocol: Protocol = protocol(study.protocol)
        self.datasets = {name: self._load(name, data_dir) for name in study.datasets}
        self.part = lru_cache(maxsize=64)(self._part)
        self._problems = {
            name: jax.tree.map(np.asarray, each.problem.without_names())
            for name, each in self.datasets.items()
        }
        self._likes: dict[Any, Any] = {}
        self._recipes: dict[Any, Recipe] = {}
        self._shapes = lru_cache(maxsize=None)(self._shapes_of_split)
        self._lock = threading.RLock()
        contents = {
            (name, split): self._content(name, split) for name in study.datasets for split in study.splits
        }
        self.grid = Grid(study, self.datasets, contents)

    def recipe(self, job: Job) -> Recipe:
        """Say what is computed for a job; equal recipes on equal shapes share a program."""
        name = (job.stage, job.dataset, job.method, job.state, job.mechanism, job.restorer, job.settings)
        if name not in self._recipes:
            self._recipes[name] = self._recipe(job)
        return self._recipes[name]

    def group(self, job: Job) -> tuple[Any, ...]:
        """Name the program that a job goes through: its recipe, and the shapes of its data."""
        return self.recipe(job), self._shapes(job.dataset, job.split)

    def like(self, job: Job) -> Inputs:
        """Give shapes in place of what a job takes, also before that is there."""
        with self._lock:
            name = ("takes", self.group(job))
            if name not in self._likes:
                self._likes[name] = _shapes_of(self._assemble(job, self.result_like))
            return self._likes[name]

    def result_like(self, job: Job) -> Any:
        """Give shapes in place of what a job results in."""
        with self._lock:
            name = ("gives", self.group(job))
            if name not in self._likes:
                self._likes[name] = result_like(self.recipe(job), self.like(job), self.width)
            return self._likes[name]

    def inputs(self, job: Job, load: Load) -> Inputs:
        """Assemble what a job takes from the data and earlier results."""
        return self._assemble(job, load)

    def restoration_error(self, job: Job, load: Load) -> float:
        """Give the root mean squared error of restored training rows, on the cells that were missing."""
        restored = job.needed("restore")
        if restored is None:
            return float("nan")
        mask = restored.needed("mask")
        assert mask is not None
        train = self.part(job.dataset, job.split).train
        missing = train.available & ~load(mask).train
        if not missing.any():
            return float("nan")
        return float(np.sqrt(np.mean((load(restored).train - train.x)[missing].astype(np.float64) ** 2)))

    def _load(self, name: str, data_dir: Path | None) -> Dataset:
        dataset = datasets.load(name, data_dir)
        budgets = self.study.budgets.get(name)
        if budgets is not None:
            dataset = dataset.with_budgets(budgets)
        complete = all(bool(np.all(table.available)) for table in dataset.split(0, self.protocol))
        if not complete and ("complete" in self.study.treatments or self.study.routes):
            raise InputError(
                f"{name} has missing cells of its own, so it has no complete training data: leave 'complete' "
                "out of treatments and say routes = false"
            )
        return dataset

    def _recipe(self, job: Job) -> Recipe:
        problem, budgets = self._problems[job.dataset], self.datasets[job.dataset].budgets
        # Only what the stage depends on, so that jobs which do not differ in it share a program.
        own: dict[str, Any] = {"settings": job.settings}
        if job.stage == "mask":
            own["mechanism"] = job.mechanism
        elif job.stage == "restore":
            own["restorer"] = job.restorer
        elif job.stage in ("pretrain", "fit"):
            own["method"] = job.method
        if job.stage == "fit":
            own["state"] = job.state
            own["n_steps"] = evaluation.most_steps(self.datasets[job.dataset].problem, budgets)
            own["separate"] = evaluation.needs_separate_rollouts(problem, self.protocol)
        return Recipe(job.stage, self.protocol, **own)

    def _part(self, name: str, split: int) -> Part:
        train, valid, _ = self.datasets[name].split(split, self.protocol)
        scored = evaluation.sample_rows(valid, evaluation.MAX_ROWS, split)
        return Part(*(jax.tree.map(np.asarray, table) for table in (train, valid, scored)))

    def _content(self, name: str, split: int) -> str:
        """Digest everything that comes with a dataset: rows, problem, budgets."""
        dataset = self.datasets[name]
        facts = (dataset.budgets, dataset.metric, dataset.problem.n_classes)
        digest = hashlib.sha256(repr(facts).encode())
        for leaf in jax.tree.leaves((self.part(name, split), self._problems[name])):
            digest.update(repr((leaf.shape, leaf.dtype)).encode() + np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()

    def _shapes_of_split(self, name: str, split: int) -> tuple[Any, ...]:
        budgets = np.asarray(self.datasets[name].budgets, np.float32)
        return shape_key((self._problems[name], self.part(name, split), budgets))

    def _assemble(self, job: Job, load: Load) -> Inputs:
        part = self.part(job.dataset, job.split)
        problem: Problem = self._problems[job.dataset]
        train, valid = _treated(part, job, load)
        inputs = Inputs(job.key, problem, train, valid)
        if job.stage == "mask":
            return inputs._replace(rate=np.float32(job.rate))
        given = job.needed("vae") or job.needed("pretrain")
        inputs = inputs._replace(given=None if given is None else load(given))
        if job.stage != "fit":
            return inputs
        predictor = job.needed("predictor")
        assert predictor is not None
        budgets = np.asarray(self.datasets[job.dataset].budgets, np.float32)
        return inputs._replace(predictor=load(predictor), scored=part.scored, budgets=budgets)


def _treated(part: Part, job: Job, load: Load) -> tuple[Table, Table]:
    """Give training and validation rows as a job sees them: complete, with holes, or restored."""
    tables = (part.train, part.valid)
    restored, mask = job.needed("restore"), job.needed("mask")
    if restored is not None:
        train, valid = (
            _with(t, x, np.ones_like(t.available)) for t, x in zip(tables, load(restored), strict=True)
        )
        return train, valid
    if mask is not None:
        train, valid = (_with(t, t.x, kept) for t, kept in zip(tables, load(mask), strict=True))
        return train, valid
    return tables


def _with(table: Table, x: Any, available: Any) -> Table:
    """Replace a table's cells, on the host; shapes in place of arrays stay shapes."""
    if isinstance(x, np.ndarray) and isinstance(available, np.ndarray):
        x = np.where(available, x, np.float32(0))
    changed: Table = eqx.tree_at(lambda each: (each.x, each.available), table, (x, available))
    return changed


def _shapes_of(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)
