"""Sets of actions within the budget that enough rows have, to be scored in these rows.

Random ones show what an average set achieves. Of many actions, random sets hardly ever contain the best one.
So sets are also built by adding the most useful action to what a set has, for all rows and for the rows on
each side of a possible fork: useful in the rows that the predictor was trained on.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain._core.arrays import on_device
from ascertain.practice.diagnosis._adaptivity import fork_features, fork_threshold
from ascertain.practice.diagnosis._route_scores import Outcomes, ScoredRows
from ascertain.problem import Problem

_MOST_FORKS = 30  # features to fork at, the cheapest ones
_MOST_PREDICTIONS = 10_000_000  # to build one set; after as many in all, there are no further forks
_FEWEST_ROWS = 500  # to build a set in, of large tables with large budgets


def shorten_routes(
    rows: ScoredRows, routes: list[tuple[int, ...]], wanted: int
) -> tuple[Bool[np.ndarray, "parts actions"], Int[np.ndarray, " parts"]]:
    """Random parts of routes that enough rows have, or whole routes, and how often each part was drawn.

    Parts of all routes are drawn equally often, at least `wanted` together: the actions of a route come in
    random order, and one is left out if too few rows have it together with those before it.
    """
    rng = np.random.default_rng(0)
    readable, drawn = rows.readable, []
    for route in routes * -(-wanted // len(routes)):
        part = np.zeros(readable.shape[1], bool)
        having = np.arange(len(rows.y))  # the rows that have the part
        for action in rng.permutation(route):
            fewer = having[readable[having, action]]
            if np.bincount(rows.y[fewer], minlength=rows.n_classes).min() >= rows.enough:
                having = fewer
                part[action] = True
        drawn.append(part)
    parts, times = np.unique(np.stack(drawn), axis=0, return_counts=True)
    some = parts.any(axis=1)
    return parts[some], times[some]


def propose_routes(
    rows: ScoredRows, scored: ScoredRows, problem: Problem, prices: Float[np.ndarray, " actions"]
) -> Bool[np.ndarray, "routes actions"]:
    """Build a set for all rows and one for each side of a possible fork, that enough `scored` rows have."""
    nothing = np.zeros(problem.n_actions, bool)
    rows = _some_rows(rows, problem)
    first_built = _build(rows, scored, problem, nothing)
    found, predictions = [first_built.route], first_built.predictions
    for feature in fork_features(rows, prices)[:_MOST_FORKS]:
        there, values = rows.available[:, feature], rows.x[:, feature]
        above = values > fork_threshold(values[there])
        first = rows.reveals[:, feature]
        payable = np.asarray(problem.total_cost(on_device(first)) <= problem.limit)
        if not payable or scored.of_rarest_class(first[None]) < scored.enough:
            continue
        for side in (above, ~above):
            built = _build(rows.take(np.flatnonzero(there & side)), scored, problem, first)
            found.append(built.route)
            predictions += built.predictions
        if predictions > _MOST_PREDICTIONS:
            break
    return np.unique(np.stack(found), axis=0)


def _some_rows(rows: ScoredRows, problem: Problem) -> ScoredRows:
    """As many rows as can be predicted after every action of every step."""
    most = max(_FEWEST_ROWS, _MOST_PREDICTIONS // (problem.n_actions * problem.most_acquisitions()))
    if len(rows.y) <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng(0).choice(len(rows.y), most, replace=False)))


class _Built(NamedTuple):
    route: Bool[np.ndarray, " actions"]
    predictions: int  # made to find it


def _build(
    rows: ScoredRows, scored: ScoredRows, problem: Problem, start: Bool[np.ndarray, " actions"]
) -> _Built:
    """Add the action after which the predictor does best, while it is affordable and enough rows have it."""
    acquired, predictions = start, 0
    while True:
        payable = np.asarray(problem.affordable(on_device(acquired))) & ~acquired
        larger = acquired | (np.arange(problem.n_actions) == np.flatnonzero(payable)[:, None])
        larger = larger[scored.of_rarest_class(larger) >= scored.enough]
        if not len(larger):
            return _Built(acquired, predictions)
        outcomes = rows.outcomes(larger)
        predictions += int(outcomes.has.sum())
        acquired = larger[np.argmax(_least_utility(rows, outcomes))]


def _least_utility(rows: ScoredRows, outcomes: Outcomes) -> Float[np.ndarray, " routes"]:
    """The class-balanced mean utility after each route, less one standard error."""
    mean, variance = np.zeros((2, len(outcomes.has)))
    for label in range(rows.n_classes):
        has = outcomes.has[:, rows.y == label]
        utility = outcomes.utility[:, rows.y == label]
        count = np.maximum(has.sum(axis=1), 1)
        average = utility.sum(axis=1) / count
        spread = np.maximum((utility**2).sum(axis=1) / count - average**2, 0.0)
        mean += np.where(has.any(axis=1), average, -np.inf)
        variance += (spread * count + 1.0) / count**2
    return (mean - np.sqrt(variance)) / rows.n_classes
