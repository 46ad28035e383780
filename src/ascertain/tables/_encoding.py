"""How the columns of a training table become features, and the same for rows that come later.

`fit_encoding` reads the table once. The `Encoding` that it returns is plain data, so that another process can
read rows just as they were read in training.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Float32, Float64, Int

from ascertain._core.checks import check_costs, check_names
from ascertain._core.frames import as_pandas, listed
from ascertain._core.json import Strict, canonical, first_finding
from ascertain._core.prices import PriceList
from ascertain.errors import InputError, StoreError
from ascertain.problem import Problem
from ascertain.tables._columns import Column, as_array, as_frame, is_table, learn, read, table_cells
from ascertain.tables._costs import by_name, check_name, column_prices
from ascertain.tables._setups import SharedSetup, as_setups, needs_matrix

# No network sees a value further from the mean than this many deviations: its squares must not overflow.
MOST_DEVIATIONS = 1e6


@dataclasses.dataclass(frozen=True)
class Action:
    """What is acquired as one, and its price."""

    name: str
    columns: tuple[str, ...]
    price: float


@dataclasses.dataclass(frozen=True)
class Aside:
    """A column of the training table that is not used, where it was, and why."""

    name: str
    place: int
    reason: str


class Discrete(NamedTuple):
    """What it takes to find the nearest value that a category or a boolean can have, by feature."""

    is_discrete: Bool[np.ndarray, " features"]
    column: Int[np.ndarray, " features"]
    # In its own units: a feature is 1 if it is at least this, and the largest of its column.
    threshold: Float64[np.ndarray, " features"]
    mean: Float64[np.ndarray, " features"]
    scale: Float64[np.ndarray, " features"]


class _Record(Strict):
    columns: tuple[Column, ...]
    actions: tuple[Action, ...]
    known: tuple[str, ...]
    flagged: tuple[str, ...]
    named: bool
    setups: tuple[SharedSetup, ...] = ()
    aside: tuple[Aside, ...] = ()


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How columns become features, and what acquiring them costs; made by `fit_encoding`.

    Each column belongs to one action, or is known from the start. A known column is at its mean where a row
    lacks it; those that some training rows lacked are flagged: one more feature says whether a row does.
    """

    columns: tuple[Column, ...]  # those that are used, in the order of the training table
    actions: tuple[Action, ...]  # a panel of columns each, or one column
    known: tuple[str, ...]
    flagged: tuple[str, ...]
    named: bool  # whether the training table named its columns, as a DataFrame does and an array does not
    setups: tuple[SharedSetup, ...] = ()  # that actions share
    aside: tuple[Aside, ...] = ()  # the columns that are not used

    def __post_init__(self) -> None:
        for column in self.columns:
            column.check()
        for what, names in (
            ("columns", self.table_columns),
            ("features", self.feature_names),
            ("actions", self.action_names),
        ):
            for name, count in Counter(names).most_common(1):
                if count > 1:
                    raise InputError(f"two {what} would be called {name!r}; rename a column or a category")
        placed = Counter([column for action in self.actions for column in action.columns] + [*self.known])
        if not self.columns or placed != Counter(column.name for column in self.columns):
            raise InputError("each column must belong to one action, or be known")
        if not self.actions:
            raise InputError("all columns are known, so there is nothing to acquire; take some out of known")
        if not set(self.flagged) <= set(self.known):
            raise InputError("only known columns can be flagged where they are missing")
        check_costs([action.price for action in self.actions], [repr(action.name) for action in self.actions])
        as_setups(  # raises where they do not fit the columns
            {each.name: (each.cost, each.columns) for each in self.setups},
            [column.name for column in self.columns],
            groups={action.name: action.columns for action in self.actions},
            known=self.known,
        )
        if len({each.place for each in self.aside} & set(range(len(self.table_columns)))) < len(self.aside):
            raise InputError("the places of columns that are set aside do not fit together")

    @cached_property
    def table_columns(self) -> tuple[str, ...]:
        """All columns of the training table in their order, also those that are not used."""
        names = [column.name for column in self.columns]
        for each in sorted(self.aside, key=lambda each: each.place):
            names.insert(each.place, each.name)
        return tuple(names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in the order of `transform`."""
        flags = (f"{name} missing" for name in self.flagged)
        return (*(feature for column in self.columns for feature in column.features), *flags)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions, in the order of `problem`."""
        return tuple(action.name for action in self.actions)

    @cached_property
    def price_list(self) -> PriceList:
        """What actions cost, exactly as it was stated."""
        costs = np.array([action.price for action in self.actions], np.float64)
        if not self.setups:
            return PriceList(costs)
        needs = needs_matrix(self.setups, [action.columns for action in self.actions])
        return PriceList(costs, np.array([each.cost for each in self.setups], np.float64), needs)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _owners(self) -> list[str]:
        """The column of each feature."""
        return [*(column.name for column in self.columns for _ in column.features), *self.flagged]

    @cached_property
    def _is_known(self) -> Bool[np.ndarray, " features"]:
        return np.isin(self._owners, self.known)

    @cached_property
    def _moments(self) -> Float64[np.ndarray, "2 features"]:
        """Means and deviations; flags stay as they are."""
        n_flags = len(self.flagged)
        mean = [each for column in self.columns for each in column.mean] + [0.0] * n_flags
        return np.array([mean, [each for column in self.columns for each in column.scale] + [1.0] * n_flags])

    def values(
        self,
        X: Any,  # noqa: N803 - as scikit-learn calls it
        *,
        unseen: Literal["error", "missing"] = "error",
    ) -> Float64[np.ndarray, "rows features"]:
        """Read features in their own units, NaN where not measured; takes what `transform` takes."""
        raw = read(self.columns, self._cells(X), unseen)
        if not self.flagged:
            return raw
        return np.hstack([raw, np.isnan(raw[:, [self._owners.index(name) for name in self.flagged]])])

    def transform(
        self,
        X: Any,  # noqa: N803 - as scikit-learn calls it
        *,
        unseen: Literal["error", "missing"] = "error",
    ) -> tuple[Float32[np.ndarray, "rows features"], Bool[np.ndarray, "rows features"]]:
        """Standardise the features of rows (0 where not available), and say which are available.

        The columns of a DataFrame are matched by name, in any order and among others, and those of an array
        by position. A table that lacks columns is refused, unless they are set aside; one that comes to an
        encoding of an unnamed array may call its columns as it likes. A column that was never measured in
        training is never available, as nothing can be concluded from it. Known columns always are: at their
        means where a row lacks them. No value is further from the mean than `MOST_DEVIATIONS`.

        Parameters
        ----------
        X
            A pandas or polars DataFrame, or a two-dimensional array; NaN, None and NA: not measured.
        unseen
            Whether a category that was not there in training is refused or taken as not measured.
        """
        raw = self.values(X, unseen=unseen)
        measured = ~np.isnan(raw)
        mean, scale = self._moments
        with np.errstate(over="ignore"):  # infinities are cut off as well
            x = np.clip((raw - mean) / scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        return np.where(measured, x, 0.0).astype(np.float32), measured | self._is_known

    def inverse(
        self, x: Float[np.ndarray, "rows features"], available: Bool[np.ndarray, "rows features"]
    ) -> pd.DataFrame:
        """Turn features back into columns in their own units; of categories, the likeliest."""
        n_features = len(self.feature_names)
        if x.shape != available.shape or x.shape[1:] != (n_features,):
            raise InputError(f"x and available must have {n_features} features, got {x.shape}")
        mean, scale = self._moments
        raw = x.astype(np.float64) * scale + mean
        flags = dict(zip(self.flagged, raw.T[n_features - len(self.flagged) :], strict=True))
        table: dict[str, Any] = {}
        start = 0
        for column in self.columns:
            block = slice(start, start + len(column.features))
            start = block.stop
            there = available[:, block].all(axis=1)
            if column.name in flags:
                there = there & (flags[column.name] < 0.5)
            if column.categories is not None:
                codes = np.where(there, raw[:, block].argmax(axis=1), -1)
                table[column.name] = pd.Categorical.from_codes(codes, pd.Index(column.categories))
            elif column.kind == "boolean":
                table[column.name] = pd.arrays.BooleanArray(raw[:, block.start] > 0.5, np.logical_not(there))
            else:
                numbers = np.where(there, raw[:, block.start], np.nan)
                table[column.name] = pd.to_datetime(numbers, unit="D") if column.kind == "date" else numbers
        return pd.DataFrame(table)

    def problem(self, budget: float | None, class_names: Sequence[str]) -> Problem:
        """Pose the problem of acquiring these actions; a budget of None pays for all of them.

        A panel can be acquired without those of its columns that were never measured in training.
        """
        empty = {column.name for column in self.columns if column.kind == "empty"}
        reveals = [
            np.isin(self._owners, list(set(action.columns) - empty or set(action.columns)))
            for action in self.actions
        ]
        prices = self.price_list
        return Problem(
            np.array(reveals),
            prices.costs,
            prices.everything if budget is None else budget,
            len(class_names),
            action_names=self.action_names,
            feature_names=self.feature_names,
            class_names=class_names,
            setup_costs=prices.setup_costs if self.setups else None,
            needs=prices.needs,
            setup_names=[each.name for each in self.setups] if self.setups else None,
        )

    @cached_property
    def discrete(self) -> Discrete:
        """Which features are 0 or 1 in their own units: those of categories and booleans."""
        kinds = np.array([self._by_name[name].kind for name in self._owners])
        place = {column.name: place for place, column in enumerate(self.columns)}
        return Discrete(
            np.isin(kinds, ("category", "boolean")),
            np.array([place[name] for name in self._owners]),
            np.where(kinds == "category", -np.inf, 0.5),
            *self._moments,
        )

    def parse(self, column: str, text: str) -> float | bool | str:
        """Read a value that a person typed: a number, yes or no, or a category in capitals or not."""
        return self._find(column).parse(text)

    def outside(self, column: str, value: float | bool | str) -> bool:
        """Whether training had no such category, or no numbers as low or as high as this one."""
        return self._find(column).outside(value)

    def to_json(self) -> dict[str, Any]:
        """The encoding as plain data, of which `from_json` makes the very same encoding."""
        fields = {field: getattr(self, field) for field in _Record.model_fields}
        # Without set-ups it is as it was before there were any.
        return _Record(**fields).model_dump(mode="json", exclude=None if self.setups else {"setups"})

    @classmethod
    def from_json(cls, content: object) -> "Encoding":
        """Read what `to_json` wrote; anything else raises a `StoreError`."""
        try:
            return cls(**dict(_Record.model_validate_json(canonical(content))))
        except (TypeError, ValueError) as error:  # pydantic's and our own are among these
            raise StoreError(
                f"the encoding of the columns cannot be used: {first_finding(error)}; save the model again"
            ) from error

    def _find(self, name: str) -> Column:
        check_name("there is", name, self._by_name)
        return self._by_name[name]

    def _cells(self, given: Any) -> list[np.ndarray]:
        """The cells of each column, as numbers or as they are."""
        if not is_table(given):
            array = as_array(given)
            self._check_width(array.shape[1])
            array = array[:, self._places] if self.aside else array
            return list(array.astype(np.float64 if array.dtype.kind in "fiub" else object, copy=False).T)
        table = as_frame(given)
        found = list(map(str, table.columns))
        in_order = found == list(self._by_name)
        return table_cells(table if in_order else table.iloc[:, self._positions(found)])

    @cached_property
    def _places(self) -> list[int]:
        """Where the columns were in the training table."""
        aside = {each.place for each in self.aside}
        return [place for place in range(len(self.table_columns)) if place not in aside]

    def _check_width(self, width: int) -> None:
        if width != len(self.table_columns):  # in the words that scikit-learn's checks look for
            raise InputError(
                f"X has {width} features, but Encoding is expecting {len(self.table_columns)} features as "
                "input"
            )

    def _positions(self, found: list[str]) -> list[int]:
        """Where each column is in a table with others, or with other names or another order."""
        lacking = sorted(set(self._by_name) - set(found))
        if lacking and not self.named:
            self._check_width(len(found))
            return self._places
        if lacking:  # in scikit-learn's words
            more = ["- ..."] if len(lacking) > 8 else []
            parts = [
                "The feature names should match those that were passed during fit.",
                "Feature names seen at fit time, yet now missing:",
                *(f"- {name}" for name in lacking[:8]),
                *more,
            ]
            raise InputError("\n".join(parts) + "\n")
        for name in [name for name, count in Counter(found).items() if count > 1 and name in self._by_name][
            :1
        ]:
            raise InputError(f"two columns are called {name!r}; rename one of them")
        return [found.index(name) for name in self._by_name]


def fit_encoding(
    X: Any,  # noqa: N803 - as scikit-learn calls it
    *,
    costs: Any = None,
    groups: Any = None,
    known: Any = None,
    default_cost: float | None = None,
    setup: Any = None,
    feature_names: Any = None,
    target: str | None = None,
    aside: Mapping[str, str] | None = None,
) -> Encoding:
    """Learn how the columns of a training table become features; empty cells were not measured.

    Numbers and booleans become one feature each. A column of text or categories becomes one feature for
    each category, called for example `colour=red`; they are acquired as one action. Dates become days since
    1970, with the month as another feature where they cover more than a year, and the hour where they have a
    time of day. A column that was never
    measured, or always with the same value, is kept unless it is set aside (see `idle_columns`).

    Parameters
    ----------
    X
        A pandas or polars DataFrame, or a two-dimensional array, whose columns are called x0, x1, ...
    costs, groups, known, default_cost, setup
        As for `AcquisitionClassifier`.
    feature_names
        What to call the columns of an array instead.
    target
        What the column of classes is called. It is not in `X`, and cannot be acquired.
    aside
        Columns to leave out, and why; `costs`, `groups`, `known` and `setup` may list them.

    Examples
    --------
    >>> import pandas as pd
    >>> patients = pd.DataFrame({"age": [40, 50, None], "sex": ["f", "m", "f"], "scan": [0.5, None, 2.5]})
    >>> encoding = fit_encoding(patients, costs={"scan": 9.5}, known=["age"], default_cost=1)
    >>> encoding.feature_names
    ('age', 'sex=f', 'sex=m', 'scan', 'age missing')
    >>> x, available = encoding.transform(patients[1:])
    >>> x[:, 0].tolist(), available[:, 3].tolist()
    ([1.0, 0.0], [False, True])
    >>> encoding.problem(None, ["healthy", "sick"]).costs.tolist()
    [1.0, 9.5]
    >>> encoding.parse("scan", " 1,75 "), encoding.parse("sex", "F"), encoding.outside("age", 51)
    (1.75, 'f', True)
    """
    table, named = as_columns(X, feature_names)
    aside = {} if aside is None else aside
    names = list(table.columns)
    members = _members(groups, names, target)
    observed = _known(known, names, members, target)
    prices = column_prices(costs, default_cost, members, names, free=observed, aside=aside)
    usable = [name for name in names if name not in aside]
    if not usable:
        name = names[0]
        raise InputError(f"no column can be used ({name!r}: {aside[name]})")
    free = tuple(name for name in usable if name in observed)
    left = {panel: tuple(name for name in group if name not in aside) for panel, group in members.items()}
    actions = actions_of(usable, {panel: group for panel, group in left.items() if group})
    return Encoding(
        columns=tuple(learn(name, table[name]) for name in usable),
        actions=tuple(
            Action(name, group, prices[name]) for name, group in actions.items() if name not in free
        ),
        known=free,
        flagged=tuple(name for name in free if table[name].isna().any()),
        named=named,
        setups=as_setups(setup, names, groups=members, known=observed, target=target, aside=aside),
        aside=tuple(Aside(name, place, aside[name]) for place, name in enumerate(names) if name in aside),
    )


def as_columns(X: Any, feature_names: Any = None) -> tuple[pd.DataFrame, bool]:  # noqa: N803
    """A training table with a name for each column, and whether it named them itself."""
    if is_table(X):
        if feature_names is not None:
            raise InputError("feature_names is for arrays; rename the columns of the table instead")
        return as_pandas(as_frame(X)), True
    array = as_array(X)
    titles = check_names("feature_names", feature_names, array.shape[1])
    names = list(titles or (f"x{i}" for i in range(array.shape[1])))
    return pd.DataFrame(array, columns=names), feature_names is not None


def actions_of(columns: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The actions, by their first column: one for each group, one for each column in none."""
    group_of = {column: name for name, members in groups.items() for column in members}
    names = dict.fromkeys(group_of.get(column, column) for column in columns)
    return {name: tuple(groups.get(name, (name,))) for name in names}


def _members(groups: Any, columns: Sequence[str], target: str | None) -> dict[str, tuple[str, ...]]:
    """The columns of each panel; unknown and shared ones, and the name of another column, are refused."""
    members: dict[str, tuple[str, ...]] = {}
    panel_of: dict[str, str] = {}
    for panel, given in by_name("groups", groups).items():
        together = list(map(str, given)) if isinstance(given, Iterable) and not isinstance(given, str) else []
        if not together:
            raise InputError(f"the group {panel!r} must list its columns, got {given!r}")
        for column in together:
            check_name(f"the group {panel!r} has", column, columns, target)
            if column in panel_of:
                both = dict.fromkeys((panel_of[column], panel))
                raise InputError(f"the column {column!r} is listed twice, in {listed(both)}; keep one")
            panel_of[column] = panel
        if panel in {target, *columns} - set(together):
            raise InputError(f"the group {panel!r} has the name of a column outside it; rename the group")
        members[panel] = tuple(together)
    return members


def _known(
    known: Any, columns: Sequence[str], groups: Mapping[str, Sequence[str]], target: str | None
) -> set[str]:
    """The columns that are observed from the start."""
    known = () if known is None else known
    if isinstance(known, str) or not isinstance(known, Iterable):
        raise InputError(f"known must list columns, got {known!r}")
    names = set(map(str, known))
    for name in sorted(names):
        check_name("known has", name, columns, target)
        for panel, together in groups.items():
            if name in together:
                raise InputError(f"the known column {name!r} is in the group {panel!r}; take it out of one")
    return names
