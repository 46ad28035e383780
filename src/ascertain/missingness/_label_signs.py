"""Habits of measuring: actions that are measured more often in some classes than in others.

Whoever learns from such a table may learn who is measured, and not what the values say. `even_out` hides
measurements at random, more often where a class has more of them, until every class has its share: then that
something was measured tells nothing about the class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

LEVEL = 0.01  # of all comparisons together
_FEWEST_ROWS = 20  # of a class, to know how often it is measured
_TOO_FEW = 5  # rows of a class that have an action, to learn from


@dataclass(frozen=True)
class LabelSign:
    """An action that is measured more often in some classes than in others, or a known column on file."""

    action: str
    measured: dict[str, float]  # the share of each class's rows that have it
    p_value: float  # chi-square, times the number of actions compared
    learnable: bool = True  # whether every class has enough rows with it
    known: bool = False  # from the start: whether a row has it is not for a policy to decide

    @property
    def spread(self) -> float:
        """The largest difference of two classes."""
        return max(self.measured.values()) - min(self.measured.values())

    @property
    def shares(self) -> str:
        """In which class it is measured most often and least often, in words."""
        most, least = (pick(self.measured, key=lambda name: self.measured[name]) for pick in (max, min))
        return f"{self.measured[most]:.0%} of {most!r} and {self.measured[least]:.0%} of {least!r}"


def signs_of_label(
    readable: Bool[np.ndarray, "rows actions"],
    actions: Sequence[str],
    y: Int[np.ndarray, " rows"],
    classes: Sequence[str],
) -> tuple[tuple[LabelSign, ...], int]:
    """Find the actions that are measured more often in some classes, clearest first.

    The number is that of the actions that were compared: those that some rows have and some lack.
    """
    has, sizes = _counts(readable, y, len(classes))
    compared = np.flatnonzero((has.sum(axis=1) > 0) & (has.sum(axis=1) < len(y)))
    found = []
    for action in compared:
        counts = np.stack([has[action], sizes - has[action]])[:, sizes > 0]
        p_value = min(1.0, stats.chi2_contingency(counts, correction=False).pvalue * len(compared))
        if p_value < LEVEL:
            shares = dict(zip(classes, (has[action] / np.maximum(sizes, 1)).tolist(), strict=True))
            large = has[action][sizes >= _FEWEST_ROWS]
            learnable = bool(large.min(initial=len(y)) >= _TOO_FEW)
            found.append(LabelSign(actions[int(action)], shares, float(p_value), learnable))
    return tuple(sorted(found, key=lambda sign: -sign.spread)), len(compared)


def chances_to_keep(
    readable: Bool[np.ndarray, "rows actions"],
    actions: Sequence[str],
    y: Int[np.ndarray, " rows"],
    n_classes: int,
    signs: Sequence[LabelSign],
) -> Float[np.ndarray, "classes actions"]:
    """With which chance a measurement is kept, so that all classes have it equally often."""
    has, sizes = _counts(readable, y, n_classes)
    share = has / np.maximum(sizes, 1)
    least = share[:, sizes >= _FEWEST_ROWS].min(axis=1, initial=1.0)
    chance = np.minimum(1.0, least[:, None] / np.where(share > 0, share, 1.0))
    named = np.isin(np.array(actions, object), [sign.action for sign in signs])
    return np.where(named[:, None], chance, 1.0).T


def even_out(
    reveals: Bool[np.ndarray, "actions features"],
    available: Bool[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    chance: Float[np.ndarray, "classes actions"],
    seed: int,
) -> Bool[np.ndarray, "rows features"]:
    """Which cells are left when actions are hidden at random, by the chances of each row's class."""
    hidden = np.random.default_rng(seed).random((len(y), len(reveals))) >= chance[y]
    return available & ~(hidden @ reveals)


def _counts(
    readable: Bool[np.ndarray, "rows actions"], y: Int[np.ndarray, " rows"], n_classes: int
) -> tuple[Int[np.ndarray, "actions classes"], Int[np.ndarray, " classes"]]:
    """How many rows of each class have each action, and how many there are."""
    has = np.array([np.bincount(y[column], minlength=n_classes) for column in readable.T])
    return has, np.bincount(y, minlength=n_classes)
