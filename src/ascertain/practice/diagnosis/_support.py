"""How many rows support a sequence of acquisitions: the paper's theorem 1 in a table's own numbers."""

from dataclasses import dataclass
from itertools import compress

import numpy as np
from jaxtyping import Bool, Int

from ascertain._core.checks import spending_limit
from ascertain._core.prices import PriceList
from ascertain.evaluation._routes import sample_routes

N_PATHS = 500
_QUANTILES = (0.1, 0.5, 0.9)
_PATHS_AT_ONCE = 50


@dataclass(frozen=True)
class Steps:
    """How many acquisitions a budget buys."""

    fewest: int  # the most expensive that fits first
    typical: int  # the median over random orders
    most: int  # the cheapest first
    at_mean_cost: float  # budget / mean cost


@dataclass(frozen=True)
class Spread:
    """Quantiles over paths of the number of rows that have all of a path's actions."""

    low: int  # 10%
    median: int
    high: int  # 90%


@dataclass(frozen=True)
class Depth:
    """The rows that support k acquisitions."""

    k: int
    expected: float  # n (1 - p)^k: if holes were independent and equally frequent
    random: Spread  # over random sets of k actions
    best_observed: int  # rows that have the k actions that are measured most often


@dataclass(frozen=True)
class Support:
    """What a table can support within a budget, and what its complete rows alone could."""

    rows: int
    actions: int
    budget: float | None  # None: no limit
    steps: Steps
    depths: tuple[Depth, ...]
    expected_path: float  # n (1 - p)^b at the typical b
    expected_complete: float  # n (1 - p)^d
    complete: int
    complete_by_class: dict[str, int]
    paths: Spread  # over random paths within the budget
    paths_rarest_class: Spread  # of the rows of the rarest class
    rarest_class: str
    unsupported_paths: float  # the share of those paths that no row has
    pairs_apart: tuple[tuple[str, str], ...]  # actions that no row has together
    unaffordable: tuple[str, ...]  # actions that cost more than the budget
    complete_affordable: int  # rows that have all other actions


def find_support(
    readable: Bool[np.ndarray, "rows actions"],
    actions: tuple[str, ...],
    prices: PriceList,
    budget: float | None,
    y: Int[np.ndarray, " rows"],
    classes: tuple[str, ...],
) -> Support:
    """Count the rows that support paths of acquisitions, and compare with what independent holes would leave.

    `readable` marks the actions that each row has; without a budget, all of them may be bought.
    """
    n, d = readable.shape
    rate = 1 - readable.mean()
    limit = prices.everything if budget is None else budget
    rng = np.random.default_rng(0)
    paths = as_masks(sample_routes(rng, prices, limit, N_PATHS), d)
    steps = count_steps(prices, limit, paths)
    complete = readable.all(axis=1)
    by_class = np.bincount(y[complete], minlength=len(classes)).tolist()
    unaffordable = prices.first > spending_limit(limit)
    rarest = int(np.bincount(y, minlength=len(classes)).argmin())
    rows = rows_with(readable, paths)
    return Support(
        rows=n,
        actions=d,
        budget=budget,
        steps=steps,
        depths=tuple(_depths(rng, readable)),
        expected_path=float(n * (1 - rate) ** steps.typical),
        expected_complete=float(n * (1 - rate) ** d),
        complete=int(complete.sum()),
        complete_by_class=dict(zip(classes, by_class, strict=True)),
        paths=_spread(rows),
        paths_rarest_class=_spread(rows_with(readable[y == rarest], paths)),
        rarest_class=classes[rarest],
        unsupported_paths=float((rows == 0).mean()),
        pairs_apart=_pairs_apart(readable, actions),
        unaffordable=tuple(compress(actions, unaffordable)),
        complete_affordable=int(readable[:, ~unaffordable].all(axis=1).sum()),
    )


def count_steps(prices: PriceList, budget: float, paths: Bool[np.ndarray, "paths actions"]) -> Steps:
    """Count the acquisitions that a budget buys."""
    n_actions = len(prices.first)
    mean = prices.everything / n_actions
    return Steps(
        fewest=len(prices.route(np.argsort(prices.first)[::-1].tolist(), budget)),
        typical=int(np.median(paths.sum(axis=1))),
        most=prices.most(budget),
        at_mean_cost=min(budget / mean, float(n_actions)) if mean > 0 else float(n_actions),
    )


def rows_with(
    readable: Bool[np.ndarray, "rows actions"], paths: Bool[np.ndarray, "paths actions"]
) -> Int[np.ndarray, " paths"]:
    """Count, for each path, the rows that have all of its actions."""
    missing = (~readable).astype(np.float32)
    counts = [
        (missing @ some.T.astype(np.float32) == 0).sum(axis=0)
        for some in np.array_split(paths, max(1, len(paths) // _PATHS_AT_ONCE))
    ]
    return np.concatenate(counts).astype(np.int64)


def as_masks(routes: list[tuple[int, ...]], n_actions: int) -> Bool[np.ndarray, "paths actions"]:
    """Write sets of actions as rows of a mask."""
    masks = np.zeros((len(routes), n_actions), bool)
    for row, route in enumerate(routes):
        masks[row, list(route)] = True
    return masks


def _depths(rng: np.random.Generator, readable: Bool[np.ndarray, "rows actions"]) -> list[Depth]:
    """Every depth up to 12, then ever fewer, and the last."""
    n, d = readable.shape
    rate = 1 - readable.mean()
    by_share = np.argsort(-readable.mean(axis=0), kind="stable")
    best = np.logical_and.accumulate(readable[:, by_share], axis=1).sum(axis=0)
    # One random order for all depths: its first k actions are a random set of k.
    orders = np.stack([rng.permutation(d) for _ in range(N_PATHS)])
    place = np.argsort(orders, axis=1)
    shown = {*range(1, min(d, 12) + 1), *np.geomspace(1, d, 24).round().astype(int).tolist(), d}
    return [
        Depth(k, float(n * (1 - rate) ** k), _spread(rows_with(readable, place < k)), int(best[k - 1]))
        for k in sorted(shown)
    ]


def _spread(counts: Int[np.ndarray, " paths"]) -> Spread:
    return Spread(*(int(each) for each in np.quantile(counts, _QUANTILES, method="lower")))


def _pairs_apart(
    readable: Bool[np.ndarray, "rows actions"], actions: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Pairs of actions that are each measured in some row, but never in the same."""
    has = readable.astype(np.float32)
    measured = np.asarray(readable.any(axis=0))
    apart = np.triu((has.T @ has == 0) & measured[:, None] & measured[None, :], k=1)
    return tuple((actions[one], actions[other]) for one, other in np.argwhere(apart))
