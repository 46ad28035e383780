"""The work of a study: cells and what they share, each with an identity of its own.

A job is one piece of work for one training set: the fixed predictor of a split, a mask, a Partial VAE, a
restored table, a method's pretraining, or a cell itself (a policy, fitted and evaluated). Its identity gives
its random key and its place in the store. Jobs that two cells need are one job.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt32

from ascertain import methods
from ascertain.datasets.dataset import Dataset
from ascertain.predictors import masked_mlp as predictors
from ascertain.protocol import Protocol, protocol
from ascertain.restoration import pvae
from ascertain.study.file import Study, overridden

Stage = Literal["predictor", "mask", "vae", "restore", "pretrain", "fit", "routes"]
STAGES: tuple[Stage, ...] = ("predictor", "mask", "vae", "restore", "pretrain", "fit", "routes")
SCHEMA = 1  # of the store; enters every identity

IDENTITY = ("dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "split")


@dataclass(frozen=True)
class Job:
    """One piece of work; what does not apply to its stage is empty."""

    stage: Stage
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
    content: str = ""  # a digest of data, problem, protocol and everything else that the result depends on
    needs: tuple["Job", ...] = ()

    @cached_property
    def id(self) -> str:
        """A name for the store: readable, and different for whatever would give a different result."""
        label = f"{self.method}-{self.state}" if self.method else self.stage
        holes = f"{self.mechanism}-{self.rate:g}" if self.mechanism else ""
        data = f"{self.treatment}-{self.restorer}".strip("-")
        return "_".join(
            part for part in (label, self.dataset, holes, data, str(self.split), self._digest) if part
        )

    @property
    def key(self) -> UInt32[np.ndarray, " 2"]:
        """The data of its random key, made of what it is: not of its settings, nor of the other jobs."""
        rate = (
            "" if self.stage == "mask" else repr(self.rate)
        )  # a cell missing at a rate is so at higher ones
        own = (self.stage, self.dataset, self.split, self.treatment, self.restorer, self.mechanism, rate)
        name = json.dumps([self.seed, *own, self.method, self.state])
        return np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], np.uint32)

    def identity(self) -> dict[str, Any]:
        """Give what distinguishes it in tables."""
        return {name: getattr(self, name) for name in IDENTITY}

    def needed(self, stage: Stage) -> "Job | None":
        """Give the job of a stage that it directly needs, if it needs one."""
        return next((job for job in self.needs if job.stage == stage), None)

    @cached_property
    def _digest(self) -> str:
        own = [SCHEMA, self.stage, *self.identity().values(), self.seed, repr(self.settings), self.content]
        text = json.dumps(own + [job.id for job in self.needs])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Grid:
    """All jobs of a study, those that others need first.

    Parameters
    ----------
    study
        What to run.
    datasets
        The datasets by name, at the budget that policies are trained for.
    contents
        A digest of everything that comes with a dataset, by name and split.
    """

    def __init__(self, study: Study, datasets: dict[str, Dataset], contents: dict[tuple[str, int], str]):
        self.study = study
        self.cells: list[Job] = []
        self.routes: list[Job] = []
        for name, split in contents:
            part = _Part(study, datasets[name], split, contents[name, split])
            self.cells += part.cells()
            if study.routes:
                self.routes.append(part.job("routes", needs=(part.predictor,)))
        self.jobs = _in_order([*self.cells, *self.routes])

    def shortened(self, job: Job) -> bool:
        """Whether a cell is trained with other settings than the paper's."""
        changed = {name for name, changes in self.study.settings.items() if changes}
        used = {"predictor", job.method}
        uses_vae = job.restorer == "pvae" or hasattr(job.settings, "vae")
        return bool(changed & (used | ({"pvae"} if uses_vae else set())))


class _Part:
    """The jobs about one split of a dataset."""

    def __init__(self, study: Study, dataset: Dataset, split: int, content: str):
        self.study, self.dataset, self.split = study, dataset, split
        self.protocol: Protocol = protocol(study.protocol)
        # Results depend on the protocol in more places than one, so any change of it makes other jobs.
        self.content = f"{content} {self.protocol}"
        self.predictor = self.job("predictor", settings=self._shared("predictor"))

    def cells(self) -> list[Job]:
        """Give the policies to train and evaluate, by method, state variant and training set."""
        data = [made for treatment in self.study.treatments for made in self._data(treatment)]
        return [self._cell(method, state, made) for method, state in self.study.variants for made in data]

    def job(self, stage: Stage, **own: Any) -> Job:
        """Make a job of this split."""
        return Job(stage, self.dataset.name, self.split, seed=self.study.seed, content=self.content, **own)

    def _data(self, treatment: str) -> list[Job | None]:
        """Give the jobs that make the training sets of a treatment; complete data need none."""
        if treatment == "complete":
            return [None]
        masks = [
            self.job("mask", mechanism=mechanism, rate=rate)
            for mechanism in self.study.mechanisms
            for rate in self.study.rates
        ]
        if treatment == "restricted":
            return list(masks)
        return [self._restored(mask, restorer) for mask in masks for restorer in self.study.restorers]

    def _restored(self, mask: Job, restorer: str) -> Job:
        needs = (mask, self._vae(mask)) if restorer == "pvae" else (mask,)
        own = {"treatment": "restored", "restorer": restorer}
        return self.job("restore", mechanism=mask.mechanism, rate=mask.rate, needs=needs, **own)

    def _vae(self, data: Job | None) -> Job:
        """Give the Partial VAE of incomplete, restored or (for None) complete data."""
        return self._on(data, "vae", settings=self._shared("pvae"))

    def _cell(self, method: str, state: str, data: Job | None) -> Job:
        found, problem = methods.get(method), self.dataset.problem
        settings = found.settings_for(problem, self.protocol, self.dataset.name)
        settings = overridden(settings, self.study.settings.get(method, {}), f"settings.{method}")
        needs = [self.predictor]
        shares_vae = isinstance(getattr(settings, "vae", None), pvae.Settings)
        if shares_vae:  # ODIN is pretrained as the Partial VAE that restoring fits too
            settings = dataclasses.replace(settings, vae=self._shared("pvae"))
            needs.append(self._vae(data))
        settings = found.completed(settings, problem, self.protocol)
        if found.pretrain is not None and not shares_vae:
            needs.append(self._on(data, "pretrain", method=method, settings=settings))
        return self._on(data, "fit", method=method, state=state, settings=settings, needs=tuple(needs))

    def _on(self, data: Job | None, stage: Stage, needs: tuple[Job, ...] = (), **own: Any) -> Job:
        """Make a job about a training set."""
        if data is None:
            return self.job(stage, treatment="complete", needs=needs, **own)
        where = {name: getattr(data, name) for name in ("restorer", "mechanism", "rate")}
        treatment = data.treatment or "restricted"
        return self.job(stage, treatment=treatment, needs=(data, *needs), **where, **own)

    def _shared(self, name: str) -> Any:
        """Give the settings of what methods share."""
        of = {"predictor": predictors.settings_for, "pvae": pvae.settings_for}[name]
        return overridden(of(self.dataset.name), self.study.settings.get(name, {}), f"settings.{name}")


def _in_order(wanted: list[Job]) -> list[Job]:
    """Give jobs and all that they need, once each, what is needed before what needs it."""
    found: dict[str, Job] = {}

    def visit(job: Job) -> None:
        if job.id not in found:
            for need in job.needs:
                visit(need)
            found[job.id] = job

    for job in wanted:
        visit(job)
    return list(found.values())
