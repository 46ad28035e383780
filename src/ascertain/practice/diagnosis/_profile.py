"""What a table contains: its classes, its columns, and which of them look suspicious."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from ascertain._core.frames import listed, value_name
from ascertain.reporting._text import counted
from ascertain.tables._encoding import Action, Encoding
from ascertain.tables._reading import UserTable

FEWEST_PER_CLASS = 5  # below, a class cannot be split into rows to learn from and rows to check with
_LEAK = 0.98  # balanced accuracy of a single column: too good for a measurement
_LEAK_ROWS = 2000
_LEAK_PER_CLASS = 20  # half of them to fit, half to score
_CODES = (0, 1, 9, 99, 999, 9999, 99999)  # common codes for "not known"
_FEWEST_CODES = 3
_MOSTLY = 0.8  # the share of numbers beyond which texts in a column are probably markers


@dataclass(frozen=True)
class ColumnProfile:
    """A column: what it contains, how much of it is there, and what it costs."""

    name: str
    kind: str
    missing: float
    distinct: int
    action: str | None  # the panel it is bought with, or itself; None where it is known, or set aside
    cost: float | None  # of that action, without set-ups
    known: bool
    remark: str  # why it is set aside, or else what is odd about it
    setups: Mapping[str, float] = field(default_factory=dict)  # that the action pays for if it is the first

    @property
    def setups_text(self) -> str:
        """The set-ups with their prices."""
        return " and ".join(f"{cost:g} for {name!r}" for name, cost in self.setups.items())

    @property
    def price_text(self) -> str:
        """What the action costs as the first one."""
        return f"{self.cost:g}{f' and {self.setups_text}' if self.setups else ''}"


@dataclass(frozen=True)
class TableProfile:
    """A table at a glance."""

    file: str
    target: str
    rows: int
    unlabelled: int
    duplicates: int  # rows that repeat an earlier one, of those with anything measured
    classes: dict[str, int]
    columns: tuple[ColumnProfile, ...]
    warnings: tuple[str, ...]
    blank: int = 0  # rows in which nothing is measured that is not known anyway
    rows_of: str | None = None  # the column that says which rows belong together
    instances: int | None = None  # how many it has
    weighted_by: str | None = None  # the column that says how much each row counts
    effective_rows: float | None = None  # as many of the same weight would tell as much (Kish, 1965)

    @property
    def has_setups(self) -> bool:
        """Whether any action needs a set-up."""
        return any(column.setups for column in self.columns)


def profile(
    table: UserTable,
    encoding: Encoding,
    aside: Mapping[str, str],
    x: np.ndarray,
    available: Bool[np.ndarray, "rows features"],
) -> TableProfile:
    """Describe a table; its columns `aside` are not used, and `available` marks the measured features."""
    actions = {name: action for action in encoding.actions for name in action.columns}
    kinds = {column.name: column.kind for column in encoding.columns}
    sizes = np.bincount(table.y, minlength=len(table.classes)).tolist()
    classes = dict(zip(table.classes, sizes, strict=True))
    remarks = {**_remarks(table, encoding, x, available), **aside}
    columns = tuple(
        ColumnProfile(
            name=name,
            kind=kinds.get(name, "set aside"),
            missing=float(column.isna().mean()),
            distinct=int(column.nunique()),
            action=actions[name].name if name in actions else None,
            cost=actions[name].price if name in actions else None,
            known=name in encoding.known,
            remark=remarks.get(name, ""),
            setups=_setups(encoding, actions[name]) if name in actions else {},
        )
        for name, column in ((str(name), column) for name, column in table.columns.items())
    )
    labels = pd.Series(table.y, table.columns.index)
    blank = table.columns.drop(columns=list(encoding.known)).isna().all(axis=1).to_numpy()
    duplicates = int(pd.concat([table.columns, labels], axis=1)[~blank].duplicated().sum())
    return TableProfile(
        file=table.name,
        target=table.target,
        rows=len(table.y),
        unlabelled=table.unlabelled,
        duplicates=duplicates,
        blank=int(blank.sum()),
        classes=classes,
        columns=columns,
        warnings=tuple(_warnings(table, classes, duplicates, int(blank.sum()), remarks)),
        rows_of=table.rows_of,
        instances=None if table.instances is None else int(table.instances.max()) + 1,
        weighted_by=table.weighted_by,
        effective_rows=None
        if table.weights is None
        else float(table.weights.sum() ** 2 / np.square(table.weights).sum()),
    )


def _setups(encoding: Encoding, action: Action) -> dict[str, float]:
    """The set-ups that an action needs, with their prices."""
    return {each.name: each.cost for each in encoding.setups if {*each.columns} & {*action.columns}}


def _warnings(
    table: UserTable, classes: dict[str, int], duplicates: int, blank: int, remarks: Mapping[str, str]
) -> list[str]:
    found = []
    if table.unlabelled:
        found.append(
            f"{table.unlabelled:,} rows have no {table.target!r} and were dropped; {len(table.y):,} are left."
        )
    if table.weightless:
        found.append(f"{table.weightless:,} rows of weight 0 in {table.weighted_by!r} were dropped.")
    for name, count in classes.items():
        if count < FEWEST_PER_CLASS:
            found.append(
                f"The class {name!r} has {count} rows; to train and check, {FEWEST_PER_CLASS} are needed."
            )
    if blank:
        found.append(
            f"In {blank:,} rows nothing was measured; they tell how common the classes are, and nothing else."
        )
    if duplicates:
        repeat = "repeats" if duplicates == 1 else "repeat"
        found.append(
            f"{counted(duplicates, 'row')} {repeat} an earlier one; if they are one instance, keep one."
        )
    return found + [f"Column {name!r}: {remark}." for name, remark in remarks.items()]


def _remarks(
    table: UserTable, encoding: Encoding, x: np.ndarray, available: Bool[np.ndarray, "rows features"]
) -> dict[str, str]:
    """What is odd about each usable column, where anything is."""
    remarks: dict[str, str] = {}
    together = table.instances
    twins = _twins(table.columns[[column.name for column in encoding.columns]])
    start = 0
    for column in encoding.columns:
        name, features = column.name, slice(start, start + len(column.features))
        start = features.stop
        values = table.columns[name].dropna()
        there = np.asarray(available[:, features].all(axis=1))
        if leaks(x[there, features], table.y[there], None if together is None else together[there]):
            remarks[name] = (
                "tells the classes apart almost perfectly by itself; if it is known only after the outcome, "
                "drop it"
            )
        elif column.kind == "category" and (odd := _odd_texts(values)):
            remarks[name] = (
                f"mostly numbers, but read as text because of {listed(odd, most=3)}; if these mean 'not "
                "measured', name them with --na"
            )
        elif column.kind == "number" and (code := hidden_marker(values.to_numpy(np.float64))) is not None:
            remarks[name] = (
                f"{value_name(code)} stands apart from all other values; if it means 'not measured', empty "
                "these cells"
            )
        elif name in encoding.known and not there.all():
            remarks[name] = f"known from the start, but empty in {int((~there).sum()):,} rows"
        elif name in twins:
            remarks[name] = f"the same as {twins[name]!r} in every row; keep one"
        elif only := _only_class(table, there):
            remarks[name] = f"measured only where the target is {only!r}; its presence gives it away"
    return remarks


def leaks(
    x: np.ndarray, y: Int[np.ndarray, " rows"], instances: Int[np.ndarray, " rows"] | None = None
) -> bool:
    """Whether a column alone tells the classes apart on rows that a small tree was not fitted to.

    Rows with the same number in `instances` come one after the other, so that at most one instance is cut.
    """
    some = np.random.default_rng(0).permutation(len(y))[:_LEAK_ROWS]
    if instances is not None:
        order = np.random.default_rng(1).permutation(int(instances.max(initial=0)) + 1)
        some = some[np.argsort(order[instances[some]], kind="stable")]
    x, y = x[some], y[some]
    enough = np.isin(y, np.flatnonzero(np.bincount(y, minlength=1) >= _LEAK_PER_CLASS))
    x, y = x[enough], y[enough]
    if len(np.unique(y)) < 2:
        return False
    half = np.arange(len(y)) < len(y) // 2
    if len(np.unique(y[half])) < 2 or set(y[~half]) - set(y[half]):
        return False
    tree = DecisionTreeClassifier(max_leaf_nodes=4 * len(np.unique(y)), min_samples_leaf=3, random_state=0)
    guessed = tree.fit(x[half], y[half]).predict(x[~half])
    return bool(balanced_accuracy_score(y[~half], guessed) >= _LEAK)


def hidden_marker(values: Float[np.ndarray, " rows"]) -> float | None:
    """Find a code such as 0 or 999 that several cells contain, far from all other values.

    Examples
    --------
    >>> hidden_marker(np.array([0.0, 0, 0, *range(120, 180)]))
    0.0
    """
    for code in (values.min(), values.max()):
        rest = values[values != code]
        often = len(values) - len(rest) >= _FEWEST_CODES and len(np.unique(rest)) >= 10
        if often and abs(code) in _CODES and np.abs(rest - code).min() > rest.std():
            return float(code)
    return None


def _odd_texts(values: "pd.Series[Any]") -> list[str]:
    """Texts in a column that otherwise contains numbers."""
    distinct = pd.Series(values.astype(str).unique())
    texts = distinct[pd.to_numeric(distinct, errors="coerce").isna()]
    share = values.astype(str).isin(set(texts)).mean()
    return list(texts) if len(texts) and share <= 1 - _MOSTLY else []


def _twins(columns: pd.DataFrame) -> dict[str, str]:
    """For each column that repeats an earlier one, the name of the earlier one."""
    first: dict[int, str] = {}
    twins = {}
    for name, column in columns.items():
        digest = hash(tuple(pd.util.hash_pandas_object(column.astype(object), index=False)))
        if digest in first and column.equals(columns[first[digest]]):
            twins[str(name)] = first[digest]
        else:
            first[digest] = str(name)
    return twins


def _only_class(table: UserTable, there: Bool[np.ndarray, " rows"]) -> str | None:
    """The only class that a column was measured in, None where there are several."""
    counts = np.bincount(table.y[there], minlength=len(table.classes))
    if (counts > 0).sum() != 1:
        return None
    only = int(counts.argmax())
    # By chance alone, all measured rows would be of this class less than once in a thousand times.
    return table.classes[only] if np.mean(table.y == only) ** counts[only] < 1e-3 else None
