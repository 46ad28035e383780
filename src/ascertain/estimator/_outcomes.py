"""Why this measurement: which results of it would change the prediction, and to what.

Results are drawn with the completions of a row, and each is predicted from, together with what is known. Of a
number or a date, the outcomes are two or three intervals, cut where the predictions differ most; of a
category or a boolean, its values. Of a panel they are those of the column that tells most about the
prediction, or the predictions themselves where no column tells much.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from ascertain.estimator._advisor import Advice, Advisor
from ascertain.tables._columns import Column
from ascertain.tables._dates import day_name

_ORDERED = ("number", "date")  # kinds of columns whose results are told as intervals
_ROWS_AT_ONCE = 1024
_LEAST_SHARE = 1 / 8  # of the draws, in each interval
_THIRD_EXPLAINS = 0.15  # of the variance, if there is to be a third interval
_COLUMN_EXPLAINS = 0.3  # of the variance, if a panel is to be told by one of its columns
_STEP = 0.1  # what another next step counts, beside probabilities: it decides where these hardly differ
_MOST = 6  # outcomes in a text
_SAME = 0.01  # probabilities that differ by less are told as the same


@dataclass(frozen=True)
class Outcome:
    """Results of the recommended action, and what would be predicted with them."""

    column: str | None  # that has the result; None: all columns of a panel together
    result: str  # in words
    above: float | None  # the bounds of an interval of numbers, or of dates in days since 1970
    up_to: float | None
    share: float  # the probability of the result
    prediction: str
    probabilities: dict[str, float]
    then: str | None  # the action that most likely follows, if the policy looks ahead and does not stop


class _Split(NamedTuple):
    """Draws of each row in groups, and the share of the variance of predictions between them."""

    groups: Int[np.ndarray, "rows draws"]
    explained: Float64[np.ndarray, " rows"]
    bounds: Float64[np.ndarray, "rows cuts two"]  # draws below and above each cut; NaN where there is none


def expected_outcomes(advisor: Advisor, advice: Advice) -> list[tuple[Outcome, ...]]:
    """Tell what the results of each row's recommended action would change; nothing where it is to stop."""
    found: list[tuple[Outcome, ...]] = [()] * len(advice.choice)
    for action in np.unique(advice.choice[advice.choice > 0]) - 1:
        rows = np.flatnonzero(advice.choice == action + 1)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            for row, outcomes in zip(some, _of_action(advisor, advice, int(action), some), strict=True):
                found[row] = outcomes
    return found


def outcomes_text(outcomes: Sequence[Outcome], action: str, prediction: str) -> str:
    """Say in one line what would be predicted.

    Of two classes, the probability of `prediction` is given, else that of the likeliest class.
    """
    if not outcomes:
        return ""
    chances = [list(each.probabilities.values()) for each in outcomes]
    steps = {each.then for each in outcomes}
    if np.ptp(chances, axis=0).max() < _SAME and len(steps) == 1:
        return "no result by itself changes the prediction"
    two = len(chances[0]) == 2
    parts: list[str] = []
    for each in outcomes[:_MOST]:
        name = prediction if two else each.prediction
        then = f", then {each.then or 'stop'}" if len(steps) > 1 else ""
        where = "" if each.column in (None, action) or parts else f"{each.column} "
        parts.append(f"{where}{each.result}: {name} {each.probabilities[name]:.0%}{then}")
    more = f"; and {len(outcomes) - _MOST} more" if len(outcomes) > _MOST else ""
    return "; ".join(parts) + more


def _of_action(
    advisor: Advisor, advice: Advice, action: int, rows: Int[np.ndarray, " rows"]
) -> list[tuple[Outcome, ...]]:
    """The outcomes of one action in several rows."""
    encoding, classes = advisor.encoding, [str(each) for each in advisor.classes]
    features = np.flatnonzero(np.asarray(advisor.problem.reveals)[action])
    discrete = encoding.discrete
    results = advice.results[rows][..., : len(features)] * discrete.scale[features] + discrete.mean[features]
    after, following = advice.after[rows].astype(np.float64), advice.following[rows]
    steps = _STEP * (following[..., None] == np.arange(-1, len(encoding.actions)))
    target = np.concatenate([after, steps], axis=2)
    owners = discrete.column[features]
    splits = {}
    for number in sorted(set(owners.tolist())):
        column, values = encoding.columns[number], results[..., owners == number]
        splits[column.name] = _split(column, values, target)
    names = list(splits)
    best = np.argmax([split.explained for split in splits.values()], axis=0)
    found = []
    for row in range(len(rows)):
        column = encoding._by_name[names[best[row]]]
        split = splits[column.name]
        groups, bounds = split.groups[row], split.bounds[row]
        whole = len(names) > 1 and split.explained[row] < _COLUMN_EXPLAINS
        if whole:  # no column tells much: by what is predicted in the end
            groups = advisor.decide(after[row])
        numbers, counts = np.unique(groups, return_counts=True)
        member = groups == numbers[:, None]
        chances = member @ after[row] / counts[:, None]
        predicted = advisor.decide(chances)
        parts = []
        for place, group in enumerate(numbers.tolist()):
            share = float(counts[place] / len(groups))
            likely = int(np.bincount(following[row, member[place]] + 2).argmax()) - 2
            above, up_to = (None, None) if whole else _interval(column, group, bounds)
            parts.append(
                Outcome(
                    column=None if whole else column.name,
                    result=f"in {share:.0%} of cases" if whole else _words(column, group, above, up_to),
                    above=above,
                    up_to=up_to,
                    share=share,
                    prediction=classes[predicted[place]],
                    probabilities=dict(zip(classes, chances[place].tolist(), strict=True)),
                    then=encoding.action_names[likely] if likely >= 0 else None,
                )
            )
        found.append(_sorted(parts, column))
    return found


def _sorted(parts: list[Outcome], column: Column) -> tuple[Outcome, ...]:
    """Intervals from high to low; other results by their probability."""
    if column.kind in _ORDERED and parts[0].column is not None:
        return tuple(reversed(parts))
    return tuple(sorted(parts, key=lambda each: -each.share))


def _split(
    column: Column,
    values: Float[np.ndarray, "rows draws features"],
    target: Float64[np.ndarray, "rows draws k"],
) -> _Split:
    if column.kind in _ORDERED:  # of dates the day comes first, then parts of it
        return _intervals(values[..., 0].astype(np.float64), target)
    is_category = column.kind == "category"
    groups = values.argmax(axis=2) if is_category else (values[..., 0] > 0.5).astype(np.int64)
    member = groups[..., None] == np.arange(max(int(groups.max()) + 1, 2))
    target = _centred(target)
    sums = np.einsum("rdg,rdk->rgk", member, target)
    between = (sums**2).sum(axis=2) / np.maximum(member.sum(axis=1), 1)
    return _Split(groups, _share(between.sum(axis=1), target), np.full((len(values), 2, 2), np.nan))


def _intervals(
    values: Float64[np.ndarray, "rows draws"], target: Float64[np.ndarray, "rows draws k"]
) -> _Split:
    """Cut draws of a number in two or three, so that the targets differ most between the intervals."""
    n_rows, n_draws = values.shape
    row, order = np.arange(n_rows)[:, None], np.argsort(values, axis=1, kind="stable")
    ranked, target = values[row, order], _centred(target)[row, order]
    spans = _spans(target)
    # What a cut begins; draws of the same value cannot be cut apart.
    spans[:, 1:n_draws][ranked[:, 1:] == ranked[:, :-1]] = -np.inf
    (cut, explained), (pair, explained_by_pair) = (_best(spans, ways, target) for ways in _ways(n_draws))
    three = explained_by_pair - explained > _THIRD_EXPLAINS
    cuts = np.where(three[:, None], pair, n_draws)
    cuts[~three, 0] = np.where(explained > 0, cut[:, 0], n_draws)[~three]
    groups = np.empty_like(order)
    groups[row, order] = (np.arange(n_draws) >= cuts[..., None]).sum(axis=1)
    padded = np.concatenate([ranked, np.full((n_rows, 1), np.nan)], axis=1)
    bounds = np.stack([padded[row, cuts - 1], padded[row, cuts]], axis=2)
    return _Split(groups, np.where(three, explained_by_pair, explained), bounds)


def _centred(target: Float64[np.ndarray, "rows draws k"]) -> Float64[np.ndarray, "rows draws k"]:
    """Less its mean in each row, so that sums of squares between groups need no correction."""
    return target - target.mean(axis=1, keepdims=True)


def _spans(target: Float64[np.ndarray, "rows draws k"]) -> Float64[np.ndarray, "rows begins ends"]:
    """Of every interval of ordered draws: its sum of targets squared, by its size."""
    n_rows, n_draws, k = target.shape
    sums = np.concatenate([np.zeros((n_rows, 1, k)), np.cumsum(target, axis=1)], axis=1)
    products = sums @ sums.swapaxes(1, 2)
    own = products.diagonal(axis1=1, axis2=2)
    places = np.arange(n_draws + 1)
    return (own[:, :, None] + own[:, None] - 2 * products) / np.maximum(places - places[:, None], 1)


@cache
def _ways(n_draws: int) -> tuple[Int[np.ndarray, "ways 3"], Int[np.ndarray, "pairs 4"]]:
    """Where ordered draws can be cut once, and twice: the ends of the intervals, of which none is short."""
    least = max(1, int(np.ceil(_LEAST_SHARE * n_draws)))
    places = range(least, n_draws - least + 1)  # a cut before this draw
    twos = [pair for pair in combinations(places, 2) if pair[1] - pair[0] >= least]
    return np.array([(0, place, n_draws) for place in places]), np.array(
        [(0, *pair, n_draws) for pair in twos]
    )


def _best(
    spans: Float64[np.ndarray, "rows begins ends"],
    ways: Int[np.ndarray, "ways edges"],
    target: Float64[np.ndarray, "rows draws k"],
) -> tuple[Int[np.ndarray, "rows cuts"], Float64[np.ndarray, " rows"]]:
    """The cuts between which targets differ most, and the share of the variance that they explain."""
    between = spans[:, ways[:, :-1], ways[:, 1:]].sum(axis=2)
    return ways[between.argmax(axis=1), 1:-1], _share(between.max(axis=1), target)


def _share(between: Float64[np.ndarray, " rows"], target: Float64[np.ndarray, "rows draws k"]) -> np.ndarray:
    """The share of the variance of centred targets that lies between groups; 0 if there is none."""
    total = (target**2).sum(axis=(1, 2))
    return np.where((total > 1e-12) & np.isfinite(between), between / np.maximum(total, 1e-12), 0.0)


def _interval(
    column: Column, group: int, bounds: Float64[np.ndarray, "cuts two"]
) -> tuple[float | None, float | None]:
    """The bounds of an interval of numbers or days; those of what has no intervals are None."""
    if column.kind not in _ORDERED:
        return None, None
    cut = _day_between if column.kind == "date" else round_between
    cuts = [cut(*pair) for pair in bounds.tolist() if not any(map(math.isnan, pair))]
    return (cuts[group - 1] if group else None), (cuts[group] if group < len(cuts) else None)


def round_between(low: float, high: float) -> float:
    """The number with the fewest digits that is at least `low` and less than `high`.

    Examples
    --------
    >>> round_between(2.0871, 2.1142), round_between(2.0, 3.0), round_between(0.00512, 0.0058)
    (2.1, 2.0, 0.0055)
    """
    if low <= 0 < high:
        return 0.0
    middle = (low + high) / 2
    for digits in range(1, 17):
        rounded = float(f"{middle:.{digits}g}")
        if low <= rounded < high:
            return rounded
    return low


def _day_between(low: float, high: float) -> float:
    """A whole day that is at least `low` and less than `high`, if there is one."""
    day = float(np.ceil(low))
    return day if day < high else low


def _words(column: Column, group: int, above: float | None, up_to: float | None) -> str:
    """A result in words."""
    if column.categories is not None:
        return column.categories[group]
    if column.kind == "boolean":
        return "yes" if group else "no"
    is_date = column.kind == "date"
    low, high = (
        None if each is None else day_name(each) if is_date else f"{each:.6g}" for each in (above, up_to)
    )
    if low is None:
        return "any" if high is None else f"up to {high}"
    return f"{'after' if is_date else 'above'} {low}" if high is None else f"{low} to {high}"
