"""Sets of actions within the budget that enough rows have, to be scored in these rows.

Random ones show what an average set achieves. Of many actions, random sets hardly ever contain the best one.
So sets are also built by adding the most useful action to what a set has, for all rows and for the rows on
each side of a possible fork: useful in the rows that the predictor was trained on.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain.practice.diagnosis._adaptivity import fork_features, fork_threshold
from ascertain.practice.diagnosis._route_scores import ScoredRows
from ascertain.problem import Problem

_MOST_FORKS = 30  # features to fork at, the cheapest ones


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
    found = [_build(rows, scored, problem, nothing)]
    for feature in fork_features(rows, prices)[:_MOST_FORKS]:
        there, values = rows.available[:, feature], rows.x[:, feature]
        above = values > fork_threshold(values[there])
        first = rows.reveals[:, feature]
        payable = np.asarray(problem.total_cost(jnp.asarray(first)) <= problem.limit)
        if not payable or scored.of_rarest_class(first[None]) < scored.enough:
            continue
        sides = [rows.take(np.flatnonzero(there & side)) for side in (above, ~above)]
        found += [_build(side, scored, problem, first) for side in sides]
    return np.unique(np.stack(found), axis=0)


def _build(
    rows: ScoredRows, scored: ScoredRows, problem: Problem, start: Bool[np.ndarray, " actions"]
) -> Bool[np.ndarray, " actions"]:
    """Add the action after which the predictor does best, while it is affordable and enough rows have it."""
    acquired = start
    while True:
        payable = np.asarray(problem.affordable(jnp.asarray(acquired))) & ~acquired
        larger = acquired | (np.arange(problem.n_actions) == np.flatnonzero(payable)[:, None])
        larger = larger[scored.of_rarest_class(larger) >= scored.enough]
        if not len(larger):
            return acquired
        acquired = larger[np.argmax(_least_utility(rows, larger))]


def _least_utility(
    rows: ScoredRows, routes: Bool[np.ndarray, "routes actions"]
) -> Float[np.ndarray, " routes"]:
    """The class-balanced mean utility after each route, less one standard error."""
    outcomes = rows.outcomes(routes)
    mean, variance = np.zeros((2, len(routes)))
    for label in range(rows.n_classes):
        has = outcomes.has[:, rows.y == label]
        utility = outcomes.utility[:, rows.y == label]
        count = np.maximum(has.sum(axis=1), 1)
        average = utility.sum(axis=1) / count
        spread = np.maximum((utility**2).sum(axis=1) / count - average**2, 0.0)
        mean += np.where(has.any(axis=1), average, -np.inf)
        variance += (spread * count + 1.0) / count**2
    return (mean - np.sqrt(variance)) / rows.n_classes
