"""The pieces of work behind a policy, each with an identity of its own.

A job is one stage for one training set: the fixed predictor of a split, a mask, a shared model, a restored
table, a method's pretraining, or a cell itself (a policy, fitted and evaluated). Its identity is what its
random key and its place in a store come from. Jobs that two cells need are one job.

The treatment `auto` is a job that trains nothing: it chooses among cells that differ in the treatment only.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import UInt32

from ascertain import methods, predictors, restoration
from ascertain.datasets._dataset import Dataset
from ascertain.errors import InputError
from ascertain.evaluation._auto import AUTO
from ascertain.protocol import PAPER, Protocol
from ascertain.recipe._keys import key_data
from ascertain.recipe._presets import Changes, method_settings, predictor_settings, restorer_settings
from ascertain.recipe._stages import JUDGED_BY
from ascertain.registry import NoSettings, SharedModel
from ascertain.restoration._registry import Restoring

SCHEMA = 1  # of stores; enters every identity

IDENTITY = ("dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "split")


@dataclass(frozen=True)
class Job:
    """One piece of work; fields that do not apply to its stage are empty."""

    # `predictor`, `mask`, `availability`, `judge`, a shared model's name, `restore`, `pretrain`, `fit`,
    # `auto` or `routes`
    stage: str
    dataset: str
    split: int
    treatment: str = ""
    restorer: str = ""
    mechanism: str = ""
    rate: float = 0.0
    method: str = ""
    state: str = ""
    seed: int = 0
    settings: Any = None
    content: str = ""  # a digest of data and problem, with protocol and predictor
    needs: tuple["Job", ...] = ()
    predictor: str = ""  # by name, for the job that fits it
    shared: SharedModel | None = None  # for the job that fits it

    @cached_property
    def id(self) -> str:
        """Its name in a store: readable, and different wherever the result could be."""
        label = f"{self.method}-{self.state}" if self.method else self.stage
        holes = f"{self.mechanism}-{self.rate:g}" if self.mechanism else ""
        data = f"{self.treatment}-{self.restorer}".strip("-").replace(":", "-")  # no colon in file names
        return "_".join(
            part for part in (label, self.dataset, holes, data, str(self.split), self._digest) if part
        )

    @property
    def key(self) -> UInt32[np.ndarray, " 2"]:
        """The data of its random key, which does not depend on its settings or on other jobs."""
        return key_data(self.stage, seed=self.seed, **self.identity())

    def identity(self) -> dict[str, Any]:
        """The columns that identify it in tables."""
        return {name: getattr(self, name) for name in IDENTITY}

    def needed(self, stage: str) -> "Job | None":
        """The job of a stage that it directly needs, if it needs one."""
        return next((job for job in self.needs if job.stage == stage), None)

    def all_needs(self) -> Iterator["Job"]:
        """The jobs that it needs, and those that they need."""
        for job in self.needs:
            yield job
            yield from job.all_needs()

    @property
    def completions(self) -> int:
        """How many completions of every training row it is about."""
        return Restoring.parse(self.restorer).completions if self.restorer else 1

    @property
    def begins_with(self) -> "Job | None":
        """The job whose model it begins with: a shared one, or a method's pretraining."""
        return next((job for job in self.needs if job.shared is not None or job.stage == "pretrain"), None)

    @cached_property
    def _digest(self) -> str:
        own = [SCHEMA, self.stage, *self.identity().values(), self.seed, repr(self.settings), self.content]
        text = json.dumps(own + [job.id for job in self.needs])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class TrainingData:
    """The training data of a policy: a treatment, and what made and filled the holes."""

    treatment: str = "complete"
    mechanism: str = ""  # empty: only the dataset's own holes
    rate: float = 0.0
    restorer: str = ""  # as `Restoring` reads it


class SplitJobs:
    """Makes the jobs about one split of a dataset."""

    def __init__(
        self,
        dataset: Dataset,  # at the budget that policies are trained for
        split: int,
        content: str,  # a digest of all data of the split
        protocol: Protocol = PAPER,
        seed: int = 0,  # enters every random key
        settings: Mapping[str, Changes] | None = None,  # by method, restorer, shared model or `predictor`
        predictor: str = "mlp",
        judged: bool = False,  # whether treatments are to be compared without complete rows
    ):
        self.judged = judged
        self.dataset, self.split, self.protocol, self.seed = dataset, split, protocol, seed
        self.changes = settings or {}
        # Results depend on the protocol in several places, so any change of it makes other jobs.
        self.content = f"{content} {protocol}" + ("" if predictor == "mlp" else f" {predictor}")
        if predictors.get(predictor).on_host:
            raise InputError(
                f"the predictor {predictor!r} runs on the host; policies are compiled together with their "
                "predictor, so name one that is written in JAX, such as 'mlp'"
            )
        # Most jobs are asked for many times, as cells share them.
        self._training_sets: dict[TrainingData, Job | None] = {}
        self._settings: dict[str, Any] = {}  # by method
        self._settings_of_shared: dict[str, Any] = {}
        own = predictor_settings(dataset, predictor, self.changes.get("predictor"))
        self.predictor = self.job("predictor", settings=own, predictor=predictor)

    def cell(self, method: str, state: str, data: TrainingData) -> Job:
        """The job of a policy, with the jobs that it needs."""
        found, made = methods.get(method), self._made(data)
        found.check_state(state)
        needs, shared = [self.predictor], None
        if self.judged and data.treatment != "complete":
            needs.append(self._judge(data))
        if found.shares is not None:
            shared = self._shared_settings(found.shares)
            needs.append(self._share(data, made, found.shares, shared))
        settings = found.treating(self._method_settings(method, shared), data.treatment)
        if found.pretrain is not None and found.shares is None:
            needs.append(self._on(data, made, "pretrain", method=method, settings=settings))
        return self._on(data, made, "fit", method=method, state=state, settings=settings, needs=tuple(needs))

    def auto(self, cells: Sequence[Job]) -> Job:
        """The job that chooses one of several cells, which differ in the treatment only."""
        one = cells[0]
        data = TrainingData("restored", one.mechanism, one.rate, JUDGED_BY)
        # Also what is read of jobs that cells need, which might be finished while this is lost.
        baseline, mask = self._made(data), self._mask(data)
        restored = [cell.needed("restore") for cell in cells]
        needs = {job.id: job for job in (baseline, mask, *restored, *cells) if job is not None}
        own = {"method": one.method, "state": one.state, "needs": tuple(needs.values())}
        return self.job("auto", treatment=AUTO, mechanism=one.mechanism, rate=one.rate, **own)

    def routes(self) -> Job:
        """The job that measures fixed routes."""
        return self.job("routes", needs=(self.predictor,))

    def job(self, stage: str, **own: Any) -> Job:
        """A job of this split."""
        return Job(stage, self.dataset.name, self.split, seed=self.seed, content=self.content, **own)

    def _made(self, data: TrainingData) -> Job | None:
        """The job that makes the training set; None for the dataset's own rows."""
        if data not in self._training_sets:
            self._training_sets[data] = self._make(data)
        return self._training_sets[data]

    def _make(self, data: TrainingData) -> Job | None:
        mask = self._mask(data)
        if data.treatment != "restored":
            return mask
        part = restoration.get(Restoring.parse(data.restorer).name)
        before = replace(data, treatment="restricted", restorer="")
        needs: tuple[Job, ...] = () if mask is None else (mask,)
        needs += (self._about_holes(data, "availability"),) * self.judged
        settings = None
        if part.shares is not None:
            shared = self._shared_settings(part.shares)
            needs += (self._share(before, mask, part.shares, shared),)
        elif not isinstance(part.settings(), NoSettings):
            settings = restorer_settings(part.name, self.dataset, self.changes.get(part.name))
        own = {"treatment": "restored", "restorer": data.restorer, "settings": settings}
        return self.job("restore", mechanism=data.mechanism, rate=data.rate, needs=needs, **own)

    def _mask(self, data: TrainingData) -> Job | None:
        return self.job("mask", mechanism=data.mechanism, rate=data.rate) if data.mechanism else None

    def _judge(self, data: TrainingData) -> Job:
        own = {"settings": self.predictor.settings, "predictor": self.predictor.predictor}
        return self._about_holes(data, "judge", **own)

    def _about_holes(self, data: TrainingData, stage: str, **own: Any) -> Job:
        """A job about rows with holes, whatever becomes of these."""
        mask = self._mask(data)
        needs = () if mask is None else (mask,)
        return self.job(stage, mechanism=data.mechanism, rate=data.rate, needs=needs, **own)

    def _share(self, data: TrainingData, made: Job | None, model: SharedModel, settings: Any) -> Job:
        return self._on(data, made, model.name, settings=settings, shared=model)

    def _shared_settings(self, model: SharedModel) -> Any:
        name = model.settings_name
        found = self._settings_of_shared
        if name not in found:
            found[name] = restorer_settings(name, self.dataset, self.changes.get(name))
        return found[name]

    def _method_settings(self, name: str, shared: Any) -> Any:
        if name not in self._settings:
            changes = self.changes.get(name)
            self._settings[name] = method_settings(name, self.dataset, self.protocol, changes, shared)
        return self._settings[name]

    def _on(
        self, data: TrainingData, made: Job | None, stage: str, needs: tuple[Job, ...] = (), **own: Any
    ) -> Job:
        """A job about a training set."""
        where = {name: getattr(data, name) for name in ("treatment", "restorer", "mechanism", "rate")}
        return self.job(stage, needs=needs if made is None else (made, *needs), **where, **own)


def in_order(wanted: Iterable[Job]) -> list[Job]:
    """Jobs and all that they need, each once; a job comes after those that it needs."""
    found: dict[str, Job] = {}

    def visit(job: Job) -> None:
        if job.id not in found:
            for need in job.needs:
                visit(need)
            found[job.id] = job

    for job in wanted:
        visit(job)
    return list(found.values())
