"""Routes that look good in the rows that a predictor was trained on, to be scored in other rows.

Of many actions, random sets hardly ever contain the best one. So sets are built by adding the most useful
action to what a set has, for all rows and for the rows on each side of a possible fork.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ascertain.practice.diagnosis._adaptivity import fork_features, fork_threshold
from ascertain.practice.diagnosis._route_scores import ScoredRows
from ascertain.problem import Problem

_MOST_FORKS = 30  # features to fork at, the cheapest ones


def propose_routes(
    rows: ScoredRows, problem: Problem, prices: Float[np.ndarray, " actions"]
) -> Bool[np.ndarray, "routes actions"]:
    """Build a set for all rows, and one for each side of each possible fork."""
    nothing = np.zeros(problem.n_actions, bool)
    found = [_build(rows, problem, nothing)]
    for feature in fork_features(rows, prices)[:_MOST_FORKS]:
        there, values = rows.available[:, feature], rows.x[:, feature]
        above = values > fork_threshold(values[there])
        first = rows.reveals[:, feature]
        if not np.asarray(problem.total_cost(jnp.asarray(first)) <= problem.limit):
            continue
        found += [_build(rows.take(np.flatnonzero(there & side)), problem, first) for side in (above, ~above)]
    return np.unique(np.stack(found), axis=0)


def _build(
    rows: ScoredRows, problem: Problem, start: Bool[np.ndarray, " actions"]
) -> Bool[np.ndarray, " actions"]:
    """Add the action after which the predictor does best, until nothing more can be paid for."""
    acquired = start
    while True:
        payable = np.asarray(problem.affordable(jnp.asarray(acquired))) & ~acquired
        if not payable.any():
            return acquired
        actions = np.flatnonzero(payable)
        larger = acquired | (np.arange(problem.n_actions) == actions[:, None])
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
