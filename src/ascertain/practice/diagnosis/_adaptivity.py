"""What adapting is worth over the best fixed set of actions, before a policy is trained.

A plan measures something first, and what else it buys depends on the result: it forks once or twice, and its
leaves are routes. Plans are chosen on one half of the rows and checked on the other, and the other way round.
So their gain is not flattered by having been chosen. A policy that decides at every step may gain more.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain.practice.diagnosis._route_scores import FEWEST_ROWS, Outcomes, ScoredRows

_FORKS = 2  # on the way to a leaf
_MOST_FEATURES = 60  # that a plan may fork at, the cheapest ones
_RESAMPLES = 400
_Z = 1.96  # 95% of a normal distribution


@dataclass(frozen=True)
class Sequel:
    """What a plan may measure after its first step, and the share of the rows in which it does."""

    actions: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Adaptivity:
    """The gain of a plan that adapts over a fixed set, in balanced accuracy, with its 95% interval."""

    over: Literal["the best fixed set", "an average set"]  # where the best set cannot be told
    gain: float
    low: float
    high: float
    plan_score: float
    fixed_score: float
    first: tuple[str, ...]  # what the plan measures before it decides
    then: tuple[Sequel, ...]  # what it may measure after that, the commonest first
    checked_on: int  # rows


class Leaf(NamedTuple):
    """A route, by its number."""

    route: int


class Fork(NamedTuple):
    """What follows if a feature is above a threshold, and what otherwise."""

    feature: int
    threshold: float
    above: "Fork | Leaf"
    below: "Fork | Leaf"


class _Path(NamedTuple):
    """The way to a leaf: features that are above a threshold, or not."""

    conditions: tuple[tuple[int, float, bool], ...]
    route: int


@dataclass(frozen=True, eq=False)
class PlanSearch:
    """The routes that plans are made of, and what they lead to in the rows that choose a plan."""

    rows: ScoredRows
    routes: Bool[np.ndarray, "routes actions"]
    outcomes: Outcomes
    features: Int[np.ndarray, " some"]  # that a plan may fork at
    thresholds: Float[np.ndarray, " some"]

    @classmethod
    def over(
        cls,
        rows: ScoredRows,
        routes: Bool[np.ndarray, "routes actions"],
        prices: Float[np.ndarray, " actions"],
    ) -> "PlanSearch":
        """Prepare a search."""
        features = fork_features(rows, prices)
        thresholds = np.array([fork_threshold(rows.x[rows.available[:, each], each]) for each in features])
        return cls(rows, routes, rows.outcomes(routes), features, thresholds)

    def fixed(self) -> Leaf:
        """The best route for all rows."""
        everybody = np.ones((len(self.rows.y), 1), bool)
        mean, error = self._values(everybody, everybody)
        return Leaf(int(np.argmax((mean - error)[:, 0])))

    def plan(self) -> Fork | Leaf:
        """The best plan that forks at least once, if there is any."""
        everybody, every_route = np.ones(len(self.rows.y), bool), np.ones(len(self.routes), bool)
        return self._grow(everybody, every_route, forks=_FORKS)

    def _grow(
        self, rows: Bool[np.ndarray, " rows"], routes: Bool[np.ndarray, " routes"], forks: int
    ) -> Fork | Leaf:
        """The best fork or route for some rows, by what it gains at least (one standard error)."""
        mean, error = self._values(rows[:, None], rows[:, None])
        leaf = np.where(routes, (mean - error)[:, 0], -np.inf)
        stay = Leaf(int(leaf.argmax()))
        if not forks or not len(self.features):
            return stay
        there = rows[:, None] & self.rows.available[:, self.features]
        above = there & (self.rows.x[:, self.features] > self.thresholds)
        allowed = routes[:, None] & self._contain()
        means, errors, found = [], [], []
        for branch in (above, there & ~above):
            mean, error = self._values(branch, there)
            worst = np.where(allowed, mean - error, -np.inf)
            best = worst.argmax(axis=0)
            pick = best, np.arange(len(best))
            means.append(np.where(np.isfinite(worst[pick]), mean[pick], -np.inf))
            errors.append(error[pick])
            found.append(best)
        least = means[0] + means[1] - np.hypot(*errors)
        at = int(least.argmax())
        first = forks == _FORKS  # whatever it gains: how much that is will be checked on other rows
        if not np.isfinite(least[at]) or (not first and least[at] <= leaf.max()):
            return stay
        parts = [self._grow(branch[:, at], allowed[:, at], forks - 1) for branch in (above, there & ~above)]
        return Fork(int(self.features[at]), float(self.thresholds[at]), *parts)

    def _contain(self) -> Bool[np.ndarray, "routes some"]:
        """Whether routes measure the features; what is known from the start is in all of them."""
        revealed = self.rows.reveals[:, self.features]
        return (self.routes @ revealed) | ~revealed.any(axis=0)

    def _values(
        self, members: Bool[np.ndarray, "rows branches"], among: Bool[np.ndarray, "rows branches"]
    ) -> tuple[Float[np.ndarray, "routes branches"], Float[np.ndarray, "routes branches"]]:
        """What branches add to the value of all rows `among` them after each route, and standard errors.

        A class that no row of the branch can show makes the value as low as can be.
        """
        mean, variance = np.zeros((2, len(self.routes), members.shape[1]))
        for label in range(self.rows.n_classes):
            of_class = self.rows.y == label
            inside = (members & of_class[:, None]).astype(np.float32)
            share = inside.sum(axis=0) / np.maximum((among & of_class[:, None]).sum(axis=0), 1)
            utility = self.outcomes.utility
            count, total, squares = (
                each.astype(np.float32) @ inside for each in (self.outcomes.has, utility, utility**2)
            )
            average = total / np.maximum(count, 1)
            spread = np.maximum(squares / np.maximum(count, 1) - average**2, 0.0)
            # One row tells nothing about the spread: with few rows it is taken to be large.
            error = (spread * count + 1.0) / np.maximum(count, 1) / np.maximum(count, 1)
            mean += np.where((share > 0) & (count == 0), -np.inf, share * average)
            variance += share**2 * error
        return mean / self.rows.n_classes, np.sqrt(variance) / self.rows.n_classes


def find_adaptivity(
    rows: ScoredRows,
    routes: Bool[np.ndarray, "routes actions"],
    prices: Float[np.ndarray, " actions"],
    names: tuple[str, ...],
    average: float,
) -> Adaptivity | str:
    """Estimate what adapting gains, or say why that cannot be told.

    The best set is at least as good as an average one, which scores `average`. So where the set that is
    chosen turns out to be worse, plans are held against the average.
    """
    half = rows.half
    rng = np.random.default_rng(0)
    found = []
    for choosing, checking in ((half, ~half), (~half, half)):
        search = PlanSearch.over(rows.take(np.flatnonzero(choosing)), routes, prices)
        plan = search.plan()
        if isinstance(plan, Leaf):
            return "no row has what a plan that adapts would measure"
        checked = rows.take(np.flatnonzero(checking))
        among = np.unique(checked.instance, return_inverse=True)[1]  # those of an instance come together
        weights = rng.poisson(1.0, (_RESAMPLES, int(among.max()) + 1))[:, among]
        weights[0] = 1  # the rows themselves
        scores = np.stack([_score(checked, routes, each, weights) for each in (plan, search.fixed())])
        if _fewest(checked, routes, plan) < FEWEST_ROWS or not np.isfinite(scores[:, 0]).all():
            return f"fewer than {FEWEST_ROWS} rows of a class have what a plan that adapts would measure"
        found.append(scores)
    plan_score, best_score = np.mean([each[:, 0] for each in found], axis=0)
    gains = np.mean([each[0] - each[1] for each in found], axis=0)
    fixed_score = max(float(best_score), average)
    gain, error = float(plan_score) - fixed_score, float(np.nanstd(gains[1:]))
    shown = PlanSearch.over(rows, routes, prices).plan()
    first, then = _describe(shown, rows, routes, names)
    return Adaptivity(
        over="the best fixed set" if best_score > average else "an average set",
        gain=gain,
        low=gain - _Z * error,
        high=gain + _Z * error,
        plan_score=float(plan_score),
        fixed_score=fixed_score,
        first=first,
        then=then,
        checked_on=len(rows.y),
    )


def fork_features(rows: ScoredRows, prices: Float[np.ndarray, " actions"]) -> Int[np.ndarray, " some"]:
    """The features that vary, those that cost least first; what is known from the start costs nothing."""
    cost = np.where(rows.reveals, prices[:, None], np.inf).min(axis=0)
    cost = np.where(np.isfinite(cost), cost, 0.0)
    varies = [
        bool(here.any()) and np.ptp(rows.x[here, each]) > 0 for each, here in enumerate(rows.available.T)
    ]
    return np.array([each for each in np.argsort(cost, kind="stable") if varies[each]][:_MOST_FEATURES], int)


def fork_threshold(values: Float[np.ndarray, " rows"]) -> float:
    """The median, or for a feature with a value that most rows have, the middle between the extremes."""
    middle = float(np.median(values))
    return middle if values.min() < middle < values.max() else float(values.min() + values.max()) / 2


def _paths(plan: Fork | Leaf, conditions: tuple[tuple[int, float, bool], ...] = ()) -> list[_Path]:
    if isinstance(plan, Leaf):
        return [_Path(conditions, plan.route)]
    at = plan.feature, plan.threshold
    return [
        *_paths(plan.above, (*conditions, (*at, True))),
        *_paths(plan.below, (*conditions, (*at, False))),
    ]


def _score(
    rows: ScoredRows,
    routes: Bool[np.ndarray, "routes actions"],
    plan: Fork | Leaf,
    weights: Int[np.ndarray, "resamples rows"],
) -> Float[np.ndarray, " resamples"]:
    """Balanced accuracy of a plan: for each class, the share of each leaf times its accuracy there."""
    score = np.zeros(len(weights))
    for path in _paths(plan):
        outcomes = rows.outcomes(routes[path.route][None])
        for label in range(rows.n_classes):
            among = rows.y == label
            share = np.ones(len(weights))
            for feature, threshold, above in path.conditions:
                there = among & rows.available[:, feature]
                among = there & ((rows.x[:, feature] > threshold) == above)
                share *= _ratio(weights @ among, weights @ there)
            followed = among & outcomes.has[0]
            accuracy = _ratio(weights @ (followed * outcomes.right[0]), weights @ followed)
            score += np.where(share > 0, share * accuracy, 0.0)
    return score / rows.n_classes


def _fewest(rows: ScoredRows, routes: Bool[np.ndarray, "routes actions"], plan: Fork | Leaf) -> int:
    """How many rows of the rarest class have what the plan measures in them."""
    followed = np.zeros(len(rows.y), bool)
    for path in _paths(plan):
        on_path = rows.outcomes(routes[path.route][None]).has[0]
        for feature, threshold, above in path.conditions:
            on_path &= rows.available[:, feature] & ((rows.x[:, feature] > threshold) == above)
        followed |= on_path
    return int(np.bincount(rows.y[followed], minlength=rows.n_classes).min())


def _ratio(part: np.ndarray, whole: np.ndarray) -> Float[np.ndarray, " resamples"]:
    return np.where(whole > 0, part / np.maximum(whole, 1e-12), np.nan)


def _describe(
    plan: Fork | Leaf, rows: ScoredRows, routes: Bool[np.ndarray, "routes actions"], names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[Sequel, ...]]:
    """What a plan measures first (nothing, where it forks at what is known), and what it may measure then."""
    first = rows.reveals[:, plan.feature] if isinstance(plan, Fork) else np.zeros(len(names), bool)
    shares: dict[tuple[str, ...], float] = {}
    for path in _paths(plan):
        actions = tuple(names[action] for action in np.flatnonzero(routes[path.route] & ~first))
        shares[actions] = shares.get(actions, 0.0) + _share(rows, path)
    then = sorted((Sequel(*each) for each in shares.items()), key=lambda each: -each.share)
    return tuple(names[action] for action in np.flatnonzero(first)), tuple(then)


def _share(rows: ScoredRows, path: _Path) -> float:
    """The share of the rows that take a path: at each fork, of those that have what it asks for."""
    share, among = 1.0, np.ones(len(rows.y), bool)
    for feature, threshold, above in path.conditions:
        there = among & rows.available[:, feature]
        among = there & ((rows.x[:, feature] > threshold) == above)
        share *= among.sum() / max(there.sum(), 1)
    return float(share)
