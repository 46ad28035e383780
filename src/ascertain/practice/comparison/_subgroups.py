"""Scores, spending and stopping of one policy in parts of the rows, such as women and men."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from ascertain._core.frames import value_name
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._habits import Habits
from ascertain.practice.comparison._scoring import Estimator, Score, find_score, score
from ascertain.problem import Table
from ascertain.restoration import Restorer

LEAST_ROWS = 30  # of a subgroup, for numbers without a warning
MOST_GROUPS = 12  # of one column
NOT_RECORDED = "not recorded"
_PARTS = 4  # of an amount


@dataclass(frozen=True, eq=False)
class Subgroup:
    """The rows with one value of a column, and what a policy does in them."""

    name: str
    rows: int
    rarest_class: str
    rarest_rows: int
    estimator: Estimator  # of all scores here
    auroc: Score
    accuracy: Score
    cost: Score
    acquisitions: Score  # after how many it stops

    @property
    def warning(self) -> str:
        """Why its numbers say little; empty if nothing speaks against them."""
        if self.rows < LEAST_ROWS:
            return f"{self.rows} rows, fewer than {LEAST_ROWS}: scored as they are, and that says little"
        if self.estimator == "restricted":
            return (
                "too few of its rows have what the policy asks for: scored as they are, so do not compare it "
                "with other subgroups"
            )
        if not self.auroc.exists:
            return "all of one class: no AUROC"
        if self.auroc.warning:
            return f"its AUROC {self.auroc.warning}"
        return ""


@dataclass(frozen=True, eq=False)
class Subgroups:
    """The subgroups of one column."""

    column: str
    budget: float
    groups: tuple[Subgroup, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """A record for each subgroup, with None for what there is not."""
        records = []
        for group in self.groups:
            scores = {
                f"{name}_{end}": _plain(getattr(getattr(group, name), end))
                for name in ("auroc", "accuracy", "cost", "acquisitions")
                for end in ("estimate", "low", "high")
            }
            same = ("rows", "rarest_class", "rarest_rows", "estimator", "warning")
            plain = {name: getattr(group, name) for name in same}
            records.append({"column": self.column, "group": group.name} | plain | scores)
        return records


def subgroup_names(column: "pd.Series[Any]") -> "pd.Series[str]":
    """The subgroup of each row: its value, or the quarter that an amount with many values is in.

    Examples
    --------
    >>> subgroup_names(pd.Series(["f", "m", None], name="sex")).tolist()
    ['f', 'm', 'not recorded']
    >>> subgroup_names(pd.Series(range(100), name="age")).unique().tolist()
    ['0 to 24', '25 to 49', '50 to 74', '75 to 99']
    """
    known = column.dropna()
    if known.nunique() > MOST_GROUPS:
        if not pd.api.types.is_numeric_dtype(known) or pd.api.types.is_bool_dtype(known):
            raise InputError(
                f"--by: the column {column.name!r} has {known.nunique()} different values, more than "
                f"{MOST_GROUPS}; merge some"
            )
        names = _quarters(known)
    else:
        names = known.map(value_name)
    return names.reindex(column.index).fillna(NOT_RECORDED).astype(str)


def score_subgroups(
    advisor: Advisor,
    table: Table,
    column: "pd.Series[Any]",
    outcomes: Restorer,
    *,
    habits: Habits | None = None,
    weights: Float[np.ndarray, " rows"] | None = None,
    effort: str = "standard",
    seed: int = 0,
) -> Subgroups:
    """Score a policy at its budget in the rows with each value of a column.

    Every subgroup is scored by its own rows alone: estimated as if everything could be bought. One that has
    fewer than 30 rows, or too few with what the policy asks for, is scored as it is, and says so.

    Parameters
    ----------
    advisor
        The policy with its predictor.
    table
        Rows that it was not fitted to.
    column
        The value of each of these rows.
    outcomes, habits, weights, effort, seed
        As for `ascertain.practice.comparison._scoring.score`.
    """
    budget = float(str(np.asarray(advisor.problem.budget)))
    names, groups, y = subgroup_names(column), [], np.asarray(table.y)
    for name in sorted(names.unique(), key=lambda each: (each == NOT_RECORDED, _in_order(each))):
        places = np.flatnonzero(names == name)
        estimated = [budget] if len(places) >= LEAST_ROWS else []
        rows = table.take(places)
        given = advisor, rows, [budget], estimated, outcomes
        own = None if weights is None else weights[places]
        found = score(*given, habits=habits, weights=own, effort=effort, seed=seed)
        groups.append(_subgroup(advisor, name, y[places], found.frame, budget))
    return Subgroups(str(column.name), budget, tuple(groups))


def find_columns(table: pd.DataFrame, names: Sequence[str], target: str) -> list["pd.Series[Any]"]:
    """The columns to make subgroups by."""
    for name in names:
        if name == target:
            raise InputError(f"--by: {name!r} is the target; name another column")
        if name not in table:
            raise InputError(f"--by: there is no column {name!r}; {did_you_mean(name, table.columns)}")
    return [table[name] for name in names]


def _subgroup(advisor: Advisor, name: str, y: np.ndarray, scores: pd.DataFrame, budget: float) -> Subgroup:
    labels, sizes = np.unique(y, return_counts=True)
    # By accuracy, which rows of one class have, too.
    estimator: Estimator = "dr" if find_score(scores, budget, "dr", "accuracy").exists else "restricted"
    found = [
        find_score(scores, budget, estimator, metric)
        for metric in ("auroc", "accuracy", "mean_cost", "mean_acquisitions")
    ]
    rarest = int(sizes.argmin())
    return Subgroup(name, len(y), str(advisor.classes[labels[rarest]]), int(sizes[rarest]), estimator, *found)


def _quarters(amounts: "pd.Series[Any]") -> "pd.Series[str]":
    """Cut amounts into quarters, named by their ends."""
    codes = pd.qcut(amounts.astype(float), _PARTS, labels=False, duplicates="drop")
    ends = amounts.groupby(codes).agg(["min", "max"])
    names = {
        code: f"{low:.3g} to {high:.3g}"
        for code, (low, high) in zip(ends.index, ends.to_numpy(), strict=True)
    }
    return codes.map(names)


def _in_order(name: str) -> tuple[float, str]:
    """Numbers and ranges by their size, then texts."""
    try:
        return float(name.partition(" to ")[0]), name
    except ValueError:
        return np.inf, name


def _plain(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
