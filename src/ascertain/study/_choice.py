"""The treatment `auto` in a study: one of the cells that differ in the treatment alone is chosen.

The choice sees what was recorded in validation rows with holes: the scores of restorers, and what policies
do, judged by a predictor that was fitted to training rows with the same holes. The scores of cells, which
complete rows gave, play no part.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ascertain._core.arrays import on_device
from ascertain._core.clusters import clusters_of
from ascertain.evaluation._auto import AutoChoice, Measured, PairedScore, Treated, choose
from ascertain.evaluation._followed import followed_values
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import Load, Materials
from ascertain.restoration._registry import Restoring
from ascertain.restoration._score import RestorationScore
from ascertain.study._store import Store


def choose_cell(job: Job, materials: Materials, store: Store, load: Load) -> tuple[Job, AutoChoice]:
    """The cell that an `auto` job chooses, with the reasons."""
    cells = {_treated(cell): cell for cell in job.needs if cell.stage == "fit"}
    scores = _scores(job, cells, load)
    left = [each for each in cells if each not in scores or not scores[each].dropped]
    rows = materials.judged_rows(job, load)
    problem = materials.datasets[job.dataset].problem
    found = followed_values([store.load_followed(cells[each]) for each in left], problem, rows)
    measured = Measured(
        estimator=found.estimator,
        budget=found.budget,
        effective_rows=found.effective_rows,
        n_rows=len(rows.y),
        by="brier" if problem.decision_costs is None else "decision_cost",
    )
    values = dict(zip(left, found.values, strict=True))
    choice = choose(scores, values, measured, clusters_of(rows.ids))
    return cells[choice.treated], choice


def chosen_record(
    job: Job, picked: dict[str, Any], choice: AutoChoice, details: dict[str, Any]
) -> dict[str, Any]:
    """The record of an `auto` cell: that of the cell that was chosen, and why it was."""
    return {
        **{name: value for name, value in picked.items() if name != "followed"},
        **job.identity(),
        "picked": str(choice.treated),
        "reason": choice.sentence,
        "considered": [each.model_dump() for each in choice.considered],
        "computed": picked["details"],
        "details": details,
    }


def _treated(cell: Job) -> Treated:
    restorer = Restoring.parse(cell.restorer) if cell.restorer else ()
    return Treated(cell.treatment, *restorer)


def _scores(job: Job, cells: dict[Treated, Job], load: Load) -> dict[Treated, PairedScore]:
    """The scores of restorers beside the baseline's; none if no row has an action to hide."""
    nearest = job.needed("restore")  # the first one
    assert nearest is not None
    baseline = _paired(nearest, load)
    if not jnp.any(baseline.weight > 0):
        return {}
    found = {}
    for treated, cell in cells.items():
        restored = cell.needed("restore")
        if restored is not None:
            score = _paired(restored, load)
            difference = score.minus(baseline)
            found[treated] = PairedScore(*map(float, (score.mean, *difference)))
    return found


def _paired(restored: Job, load: Load) -> RestorationScore:
    score: RestorationScore = jax.tree.map(on_device, load(restored).paired)
    return score
