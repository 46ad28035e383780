"""Jobs that share a program, in the order in which they are to be computed."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import Materials
from ascertain.study._costs import LAST_AWAITED, chunk_seconds, stage_rank, work_of
from ascertain.study._runners import WIDTHS, Runner

_MOST_PLACES = WIDTHS["gpu"]


@dataclass
class Group:
    """Jobs that share a program."""

    name: tuple[Any, ...]
    label: str
    width: int
    on_host: bool  # computed on the host, without a program
    trains: bool  # by `Runner.train`: one chunk at a time, which jobs may join
    waiting: list[Job] = field(default_factory=list)
    running: set[str] = field(default_factory=set)  # the jobs' ids
    free: int = 0  # places of its chunk, if jobs may join that

    def is_about(self, datasets: Collection[str]) -> bool:
        """Whether some of its jobs are about one of these datasets."""
        return any(job.dataset in datasets for job in self.waiting)


class Chunk(NamedTuple):
    """Jobs of a group that are computed together."""

    group: Group
    jobs: list[Job]
    width: int


def group_jobs(jobs: list[Job], materials: Materials, runner: Runner) -> list[Group]:
    """Group jobs by program: early stages first, as others need them, then the longest chunks first.

    While a device is busy with a long chunk, the programs of shorter ones are traced.
    """
    found: dict[tuple[Any, ...], Group] = {}
    for job in jobs:
        name = materials.group(job)
        if name not in found:
            on_host = materials.on_host(job)
            trains = not on_host and runner.trains(materials.stage(job))
            found[name] = Group(name, _label(job), width_of(job, materials, runner.width), on_host, trains)
        found[name].waiting.append(job)
    for group in found.values():
        # Jobs that others of the group need come first; the chunk is filled up with the rest.
        needed = {need.id for job in group.waiting for need in job.all_needs()}
        group.waiting.sort(key=lambda job: job.id not in needed)

    def rank(group: Group) -> tuple[int, float]:
        job = group.waiting[0]
        return stage_rank(job), -chunk_seconds(job, materials, group.width)

    return sorted(found.values(), key=rank)


def tracing_order(groups: list[Group]) -> list[Group]:
    """Order groups as their programs are to be traced: as they are to be computed, but for the first ones.

    Long trainings that all policies wait for keep a device busy while the rest is traced and compiled. So
    they come first, with what they need themselves.
    """
    long = [group for group in groups if stage_rank(group.waiting[0]) == LAST_AWAITED]
    needed = {need.id for group in long for job in group.waiting for need in job.all_needs()}

    def rank(group: Group) -> int:
        if group in long:
            return 0
        return 1 if any(job.id in needed for job in group.waiting) else 2

    return sorted(groups, key=rank)


def width_of(job: Job, materials: Materials, width: int) -> int:
    """The width of a job's program, in a study of this width.

    Of models that leave their places there are fewer: some need those of others first, and the last ones are
    trained in a program of which all other places are empty, but computed.
    """
    if materials.on_host(job):
        return 1
    return min(width, _MOST_PLACES) if materials.stage(job).trains else width


def _label(job: Job) -> str:
    """What a job's group does, for progress and warnings."""
    return f"{job.dataset}: {f'{job.method} ({job.state})' if job.stage == 'fit' else work_of(job)}"
