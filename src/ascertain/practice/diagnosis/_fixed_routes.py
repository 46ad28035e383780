"""What fixed sets of acquisitions achieve on a table with holes, and what adapting adds (section 5.3).

A quick look before anything is trained in earnest: a small predictor, and some of the rows.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain.evaluation._routes import sample_routes, weighted_overlap
from ascertain.practice.diagnosis._adaptivity import Adaptivity, PlanSearch, find_adaptivity
from ascertain.practice.diagnosis._route_proposals import propose_routes, shorten_routes
from ascertain.practice.diagnosis._route_scores import Outcomes, ScoredRows, score_rows
from ascertain.practice.diagnosis._support import as_masks
from ascertain.problem import Problem

N_ROUTES = 300
FEWEST_ROWS = 200
FEWEST_PER_CLASS = 20


@dataclass(frozen=True)
class FixedRoutes:
    """Route structure of a table: section 5.3 of the paper, on one split. Scores are balanced accuracies."""

    shortened: float  # the share of sets within the budget of which a part is scored: too few rows have all
    rows: int
    routes: int
    best: tuple[str, ...]
    best_score: float  # V_static
    mean_score: float
    no_acquisition: float
    sensitivity: float  # best - mean
    overlap: float | None  # None where no route gains anything
    noise: float  # about two standard errors of a score
    adaptivity: Adaptivity | str  # or why it cannot be told

    @property
    def whole(self) -> bool:
        """Whether most of the sets that the budget pays for are scored as a whole."""
        return self.shortened < 0.5

    @property
    def left(self) -> float:
        """What is left to gain over the best set."""
        return 1 - self.best_score

    @property
    def best_is_known(self) -> bool:
        """Whether the set that some rows prefer is better than an average one in the others."""
        return self.sensitivity > 0


def find_routes(
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    problem: Problem,
    instances: Int[np.ndarray, " rows"] | None = None,
) -> FixedRoutes | str:
    """Score sets of actions within the budget, or say why that cannot be done; `x` is standardised.

    Half of the rows that are scored choose the best set, the other half checks it, and the other way round.
    Rows with the same number in `instances` stay together.
    """
    sizes = np.bincount(y, minlength=problem.n_classes)
    if len(y) < FEWEST_ROWS or sizes.min() < FEWEST_PER_CLASS:
        return (
            f"this needs {FEWEST_ROWS} rows, and {FEWEST_PER_CLASS} of each class; there are {len(y)}, and "
            f"{sizes.min()} of the rarest class"
        )
    prices = problem.price_list
    sampled = sample_routes(np.random.default_rng(0), prices, float(problem.budget), N_ROUTES)
    if len(sampled) < 2:
        return "only one set of actions is possible within the budget, so there is nothing to choose"
    proposing, rows = score_rows(x, available, y, problem, instances)
    random, times = shorten_routes(rows, sampled, N_ROUTES)
    if len(random) < 2:
        return f"fewer than two sets of actions were measured in {2 * rows.enough} rows of each class"
    proposed = propose_routes(proposing, rows, problem, prices.first)
    routes = np.concatenate([random, proposed[~(proposed[:, None] == random).all(axis=2).any(axis=1)]])
    scores = _check_routes(rows, routes, prices.first)
    outcomes = rows.outcomes(random)
    average = np.array([_balanced(outcomes, rows, route) for route in range(len(random))])
    mean = float(np.average(average, weights=times))
    overlap = weighted_overlap(random, np.maximum(average - scores.nothing, 0.0))
    names = problem.action_names or tuple(map(str, range(problem.n_actions)))
    too_few = rows.of_rarest_class(as_masks(sampled, problem.n_actions)) < rows.enough
    return FixedRoutes(
        shortened=float(too_few.mean()),
        rows=len(rows.y),
        routes=len(routes),
        best=tuple(names[action] for action in np.flatnonzero(routes[scores.best])),
        best_score=scores.checked,
        mean_score=mean,
        no_acquisition=scores.nothing,
        sensitivity=scores.checked - mean,
        overlap=None if np.isnan(overlap) else overlap,
        noise=scores.noise,
        adaptivity=find_adaptivity(rows, routes, prices.first, names, mean),
    )


@dataclass(frozen=True)
class _Checked:
    best: int  # the route that is best in all rows
    checked: float  # the score of the best route, in rows that did not choose it
    nothing: float
    noise: float


def _check_routes(
    rows: ScoredRows, routes: Bool[np.ndarray, "routes actions"], prices: Float[np.ndarray, " actions"]
) -> _Checked:
    half = rows.half
    found, counts = [], []
    for choosing, checking in ((half, ~half), (~half, half)):
        best = PlanSearch.over(rows.take(np.flatnonzero(choosing)), routes, prices).fixed().route
        checked = rows.take(np.flatnonzero(checking))
        outcomes = checked.outcomes(routes[best][None])
        found.append(_balanced(outcomes, checked, 0))
        # Rows of an instance tell no more than one.
        pairs = np.unique(np.stack([checked.y, checked.instance], axis=1)[outcomes.has[0]], axis=0)
        counts.append(np.bincount(pairs[:, 0], minlength=rows.n_classes))
    nothing = rows.outcomes(np.zeros_like(routes[:1]))
    return _Checked(
        best=PlanSearch.over(rows, routes, prices).fixed().route,
        checked=float(np.mean(found)),
        nothing=_balanced(nothing, rows, 0),
        # The standard error of a share of n rows is at most 1 / (2 sqrt(n)).
        noise=float(np.sqrt((1 / np.maximum(np.sum(counts, axis=0), 1)).sum()) / rows.n_classes),
    )


def _balanced(outcomes: Outcomes, rows: ScoredRows, route: int) -> float:
    """Balanced accuracy in the rows that have a route; NaN if a class has none."""
    has, right = outcomes.has[route], outcomes.right[route]
    members = [has & (rows.y == label) for label in range(rows.n_classes)]
    return float(np.mean([right[each].mean() if each.any() else np.nan for each in members]))
