"""What is missing from a table, in which combinations, and what missingness is associated with."""

from dataclasses import dataclass
from itertools import compress

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import stats

from ascertain.missingness import Diagnosis, diagnose
from ascertain.missingness._label_signs import LEVEL, LabelSign, signs_of_label
from ascertain.problem import Problem, Table
from ascertain.tables._encoding import Encoding

_MOST_PATTERNS = 10
_FEWEST_PER_SIDE = 10  # rows with, and rows without: rank sums are then normal enough
_MOST_CELLS = 30_000  # that Little's test looks at: its time grows with the patterns among them
_RAREST_CATEGORY = 20  # rows; indicators of rarer ones are far from normal
_MOST_CATEGORIES = 10


@dataclass(frozen=True)
class Pattern:
    """A combination of missing actions, and the number of rows that have it."""

    rows: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class ValueSign:
    """An action whose missingness is associated with another column's values; the strongest such column."""

    action: str
    feature: str
    auroc: float  # the chance that a row without the action has the larger value of the two
    p_value: float  # rank-sum test, times the number of pairs compared


@dataclass(frozen=True)
class Little:
    """Little's test, on normal scores of the ranks of a sample of the rows."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    rows: int


@dataclass(frozen=True)
class Holes:
    """The holes of a table, counted in actions that can be bought."""

    rate: float  # p, the mean over actions
    cells: float  # the share of all cells of usable columns
    missing: dict[str, float]  # by action
    measured: dict[str, int]  # how many rows have it
    rows_by_actions: tuple[int, ...]  # how many rows have 0, 1, 2, ... of the actions
    patterns: int
    commonest: tuple[Pattern, ...]
    label_signs: tuple[LabelSign, ...]
    label_comparisons: int
    value_signs: tuple[ValueSign, ...]
    value_comparisons: int
    little: Little | None

    @property
    def against_mcar(self) -> bool:
        """Whether anything speaks against values that are missing completely at random."""
        little = self.little is not None and self.little.p_value < LEVEL
        return bool(self.label_signs or self.value_signs or little)


def find_holes(
    encoding: Encoding,
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    readable: Bool[np.ndarray, "rows actions"],
    y: Int[np.ndarray, " rows"],
    classes: tuple[str, ...],
    weights: Float[np.ndarray, " rows"] | None = None,
) -> tuple[Holes, Diagnosis]:
    """Count the holes and look for what they are associated with; the second part is for drawing.

    `available` marks the features that were measured, `readable` the actions that each row has.
    Where rows have `weights`, shares of what is missing are those of the weighted rows; rows are counted, and
    associations are tested, as they are.
    """
    actions, missing = encoding.action_names, 1 - np.average(readable, axis=0, weights=weights)
    cells = np.average(available[:, _first_features(encoding)], axis=0, weights=weights)
    patterns, counts = np.unique(readable, axis=0, return_counts=True)
    label_signs, labels_compared = signs_of_label(readable, actions, y, classes)
    value_signs, values_compared = signs_of_values(encoding, x, available, readable)
    drawing, n_sampled = _diagnose(encoding, x, available, y, len(classes))
    holes = Holes(
        rate=float(missing.mean()),
        cells=float(1 - cells.mean()),
        missing=dict(zip(actions, missing.tolist(), strict=True)),
        measured=dict(zip(actions, readable.sum(axis=0).tolist(), strict=True)),
        rows_by_actions=tuple(np.bincount(readable.sum(axis=1), minlength=len(actions) + 1).tolist()),
        patterns=len(patterns),
        commonest=tuple(
            Pattern(int(counts[at]), tuple(compress(actions, ~patterns[at])))
            for at in np.argsort(-counts, kind="stable")[:_MOST_PATTERNS]
        ),
        label_signs=label_signs,
        label_comparisons=labels_compared,
        value_signs=value_signs,
        value_comparisons=values_compared,
        little=None if drawing.little is None else Little(*drawing.little, rows=n_sampled),
    )
    return holes, drawing._replace(
        actions=pd.DataFrame({"missing": missing}, index=list(actions)),
        rows=pd.Series(holes.rows_by_actions, name="rows"),
    )


def signs_of_values(
    encoding: Encoding,
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    readable: Bool[np.ndarray, "rows actions"],
) -> tuple[tuple[ValueSign, ...], int]:
    """Find, for each action, the feature whose values differ most between rows without and with it.

    Only rows that have the feature are compared, so that nothing needs to be filled in. The number is that of
    the pairs that were compared.
    """
    actions = encoding.action_names
    action_of = {name: action.name for action in encoding.actions for name in action.columns}
    owner = [action_of.get(column.name) for column in encoding.columns for _ in column.features]
    auroc, p_value = np.full((2, len(actions), x.shape[1]), np.nan)
    for feature in range(x.shape[1]):
        rows = available[:, feature]
        auroc[:, feature], p_value[:, feature] = rank_sums(x[rows, feature], ~readable[rows])
    p_value[np.array([[name == own for own in owner] for name in actions])] = (
        np.nan
    )  # an action's own columns
    compared = int((~np.isnan(p_value)).sum())
    p_value = np.minimum(p_value * compared, 1.0)
    strength = np.where(p_value < LEVEL, np.abs(auroc - 0.5), -1.0)
    found = [
        ValueSign(name, encoding.feature_names[at], float(auroc[row, at]), float(p_value[row, at]))
        for row, (name, at) in enumerate(zip(actions, strength.argmax(axis=1), strict=True))
        if strength[row, at] >= 0
    ]
    return tuple(sorted(found, key=lambda sign: -abs(sign.auroc - 0.5))), compared


def rank_sums(
    values: Float[np.ndarray, " rows"], groups: Bool[np.ndarray, "rows groups"]
) -> tuple[Float[np.ndarray, " groups"], Float[np.ndarray, " groups"]]:
    """Compare the values inside and outside of each of several groups of rows by Wilcoxon's rank sums.

    Returns the AUROC, with ties counted half, and the p-value of the normal approximation with its correction
    for ties; NaN where either side has too few rows, or all values are the same.
    """
    n = len(values)
    inside = groups.sum(axis=0).astype(np.float64)
    usable = np.minimum(inside, n - inside) >= _FEWEST_PER_SIDE
    if n < 2 or not usable.any() or np.ptp(values) == 0:
        nothing = np.full(groups.shape[1], np.nan)
        return nothing, nothing
    ranks = stats.rankdata(values)
    total = ranks @ groups
    with np.errstate(divide="ignore", invalid="ignore"):
        auroc = (total - inside * (inside + 1) / 2) / (inside * (n - inside))
        deviation = np.sqrt(inside * (n - inside) / n * ranks.var(ddof=1))
        z = (total - inside * (n + 1) / 2) / deviation
    return np.where(usable, auroc, np.nan), np.where(usable, 2 * stats.norm.sf(np.abs(z)), np.nan)


def _diagnose(
    encoding: Encoding, x: np.ndarray, available: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[Diagnosis, int]:
    """Diagnose a sample of the rows, with one line for each column, and count the sample."""
    scores, features = normal_scores(encoding, x, available)
    some = np.random.default_rng(0).permutation(len(x))[: max(500, _MOST_CELLS // max(1, len(features)))]
    names = [encoding.feature_names[feature] for feature in features]
    each = Problem(np.eye(len(features)), np.ones(len(features)), 1, n_classes, feature_names=names)
    table = Table(scores[some], y[some], available[some][:, features], n_classes=n_classes)
    found = diagnose(table, each)
    # A category's indicators are missing together, so that one of them stands for the column.
    owner = np.repeat(np.arange(len(encoding.columns)), [len(column.features) for column in encoding.columns])
    kept, places = np.unique(owner[features], return_index=True)
    names = [encoding.columns[number].name for number in kept]
    everywhere = available[:, _first_features(encoding)][:, kept]
    columns = found.columns.iloc[places].set_axis(names, axis=0).assign(missing=1 - everywhere.mean(axis=0))
    together = found.together.iloc[places, places].set_axis(names, axis=0).set_axis(names, axis=1)
    return found._replace(columns=columns, together=together), len(some)


def normal_scores(encoding: Encoding, x: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Transform features for a test that assumes normality; returns them and their places among all features.

    Numbers become the normal scores of their ranks: Little's test takes few large values for a sign. Of a
    category's indicators the commonest is left out, since the others determine it, and so are rare ones.
    """
    kept, columns = [], []
    for start, column in zip(_first_features(encoding), encoding.columns, strict=True):
        if column.categories is None:
            kept.append(start)
            has = available[:, start]
            score = np.zeros(len(x))
            score[has] = stats.norm.ppf((stats.rankdata(x[has, start]) - 0.5) / max(1, has.sum()))
            columns.append(score)
            continue
        block = np.arange(start, start + len(column.features))
        present = (x[:, block] > 0) & available[:, block]
        counts = present.sum(axis=0)
        chosen = np.argsort(-counts, kind="stable")[1:_MOST_CATEGORIES]
        chosen = np.sort(chosen[counts[chosen] >= _RAREST_CATEGORY])
        kept += block[chosen].tolist()
        columns += list(present[:, chosen].astype(np.float64).T)
    if not kept:  # categories of one value each: nothing can be compared, but holes can be drawn
        return np.zeros((len(x), 1)), [0]
    return np.column_stack(columns), kept


def _first_features(encoding: Encoding) -> list[int]:
    widths = [len(column.features) for column in encoding.columns]
    return (np.cumsum(widths) - widths).tolist()
