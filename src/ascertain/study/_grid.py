"""All jobs of a study."""

from pathlib import Path
from typing import Any

from ascertain.errors import InputError
from ascertain.protocol import protocol
from ascertain.recipe._jobs import Job, in_order
from ascertain.recipe._materials import Load, Materials
from ascertain.study._file import Study


class Grid:
    """The cells and routes of a study, all jobs that they need, and the inputs of these."""

    def __init__(
        self,
        study: Study,
        data_dir: Path | None = None,
        width: int = 1,
        recorded: Load = lambda job: None,  # as for `Materials`
    ):
        self.study = study
        self.materials = Materials(
            study.load(data_dir), protocol(study.protocol), width, study.scored, recorded=recorded
        )
        self.cells: list[Job] = []
        self.routes: list[Job] = []
        for name in study.datasets:
            self._check_holes(name)
            for split in study.splits:
                self._add(name, split)
        self.jobs = in_order([*self.cells, *self.routes])

    def shortened(self, job: Job) -> bool:
        """Whether a cell is trained with other settings than the paper's."""
        used = {"predictor", job.method, job.restorer.partition(":")[0]}
        used |= {need.shared.settings_name for need in job.all_needs() if need.shared is not None}
        return any(changes for name, changes in self.study.settings.items() if name in used)

    def _add(self, name: str, split: int) -> None:
        study, has_holes = self.study, self.materials.has_holes(name)
        jobs = self.materials.jobs(name, split, study.seed, study.settings, study.predictor, study.chooses)
        cells = [jobs.cell(*cell) for cell in study.cells(has_holes)]
        self.cells += cells
        if study.chooses:
            self.cells += [jobs.auto(each) for each in _differently_treated(cells)]
        if study.measures_routes(has_holes):
            self.routes.append(jobs.routes())

    def _check_holes(self, name: str) -> None:
        """Raise where complete rows are asked of a dataset that has holes of its own."""
        asked = {"'complete' in treatments": "complete" in (self.study.treatments or ())}
        asked["routes = true"] = bool(self.study.routes)
        for what, is_asked in asked.items():
            if is_asked and self.materials.has_holes(name):
                raise InputError(
                    f"{name} has missing cells of its own, so there are no complete rows to train or measure "
                    f'on: {what} cannot be had. Say treatments = ["restricted", "restored"], and leave '
                    "routes out"
                )


def _differently_treated(cells: list[Job]) -> list[list[Job]]:
    """The cells about rows with holes, those together that differ in the treatment only."""
    found: dict[Any, list[Job]] = {}
    for job in cells:
        if job.treatment != "complete":
            found.setdefault((job.method, job.state, job.mechanism, job.rate), []).append(job)
    return list(found.values())
