"""How well restorers fill the holes of a user's table: scores on cells that were measured, then hidden."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain import restoration
from ascertain._core.clusters import draw_instances
from ascertain._core.compilation import compiled
from ascertain._core.effort import effort, shortened
from ascertain.evaluation import availability_weights
from ascertain.problem import Problem, Table
from ascertain.restoration import RestorationScore, Restorer, score_restorer

DEFAULTS = ("hotdeck", "nearest", "mixture", "miwae", "pvae_noise")
BASELINE = "nearest"  # the others are compared with it
FEWEST_ROWS = 100
MOST_ROWS = 8000  # drawn at random from a larger table
_VALIDATION = 0.25
_SEED = 0


@dataclass(frozen=True)
class RestorerFinding:
    """What is known about one restorer."""

    name: str
    score: float  # energy score, in standard deviations: smaller is better
    standard_error: float
    difference: float  # of the score to the baseline's, on the same cells; below 0: better
    difference_error: float  # its standard error
    seconds: float  # of fitting and scoring, with compilation


@dataclass(frozen=True)
class RestorerFindings:
    """The scores of restorers, the best first."""

    baseline: str
    trained_on: int  # rows
    scored_on: int  # rows
    restorers: tuple[RestorerFinding, ...]


def find_restorers(
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    problem: Problem,
    names: Sequence[str],
    on_stage: Callable[[str, int, int], object] = lambda stage, done, total: None,
    instances: Int[np.ndarray, " rows"] | None = None,
) -> RestorerFindings | str:
    """Fit restorers to three quarters of the rows and score them on the others, or say why not.

    The baseline is always among them. Rows with the same number in `instances` stay together. `on_stage` is
    called with a stage's name, how many are done and how many there are.
    """
    parts = [restoration.get(name) for name in dict.fromkeys([BASELINE, *names])]  # raises if there is none
    if available.all():
        return "nothing is missing"
    if len(y) < FEWEST_ROWS:
        return f"this needs {FEWEST_ROWS} rows; there are {len(y)}"
    problem, (train, valid) = problem.without_names(), _split(x, available, y, problem.n_classes, instances)
    on_stage("which cells are measured", 0, len(parts) + 1)
    weights = availability_weights(problem, valid)
    if not np.asarray(problem.readable(valid.available)).any():
        return "no row has a whole action that could be hidden"
    scores: dict[str, RestorationScore] = {}
    seconds: dict[str, float] = {}
    for place, part in enumerate(parts):
        on_stage(part.name, place + 1, len(parts) + 1)
        start = time.perf_counter()
        settings = shortened(part.settings(), effort("standard"), len(train.y))
        fit = part.fit if part.on_host else compiled(part.fit)
        fitted: Restorer = fit(jr.key(_SEED), problem, train, valid, settings=settings)
        scores[part.name] = score_restorer(jr.key(_SEED), problem, fitted, train, valid, weights=weights)
        float(scores[part.name].mean)  # JAX computes in the background; wait for it
        seconds[part.name] = time.perf_counter() - start
    on_stage("done", len(parts) + 1, len(parts) + 1)
    found = [_finding(name, score, scores[BASELINE], seconds[name]) for name, score in scores.items()]
    return RestorerFindings(
        baseline=BASELINE,
        trained_on=len(train.y),
        scored_on=int(scores[BASELINE].n_rows),
        restorers=tuple(sorted(found, key=lambda each: each.score)),
    )


def _split(
    x: np.ndarray,
    available: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    instances: Int[np.ndarray, " rows"] | None,
) -> tuple[Table, Table]:
    """Training and validation rows, of a random part of a large table; those of an instance stay together."""
    some = np.random.default_rng(_SEED).permutation(len(y))[:MOST_ROWS]
    trained, validated = np.split(some, [len(some) - round(_VALIDATION * len(some))])
    if instances is not None:
        held_out = draw_instances(y, instances, _VALIDATION, np.random.RandomState(_SEED))[some]
        trained, validated = some[~held_out], some[held_out]

    def table(rows: np.ndarray) -> Table:
        ids = None if instances is None else instances[rows]
        return Table(x[rows], y[rows], available[rows], n_classes=n_classes, ids=ids)

    return table(trained), table(validated)


def _finding(
    name: str, score: RestorationScore, baseline: RestorationScore, seconds: float
) -> RestorerFinding:
    difference = score.minus(baseline)
    return RestorerFinding(
        name=name,
        score=float(score.mean),
        standard_error=float(score.standard_error),
        difference=float(difference.mean),
        difference_error=float(difference.standard_error),
        seconds=seconds,
    )
