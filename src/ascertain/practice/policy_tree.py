"""The first steps of a policy as a tree that people can read.

Rows are followed step by step. Where they part, a small decision tree says by which of the values that are
known by then; it describes the policy, and is not the policy itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.tree import DecisionTreeClassifier

from ascertain.practice.walks import Walks
from ascertain.reporting.text import joined
from ascertain.tables.encoding import Encoding

FORKS = 3
_MOST_BRANCHES = 3  # at one place
_LEAST_SHARE = 0.02  # of all rows: a smaller branch is not worth its line
_LEAST_GAIN = 0.02  # of Gini impurity, so that chance is not described
_ALL = 0.995  # of the rows: "100%" as printed


@dataclass(frozen=True)
class Branch:
    """Rows of which the same holds, and what is acquired next in most of them.

    Parameters
    ----------
    condition
        What holds, in words; empty where it holds for all rows that come here.
    share
        Of all rows.
    actions
        What most of these rows acquire next, one after the other.
    cost
        What that costs.
    stops
        Whether they stop after that.
    agreement
        The share of the branch's rows that do just this.
    then
        What these do afterwards; empty where they stop, or where the description ends.
    """

    condition: str
    share: float
    actions: tuple[str, ...]
    cost: float
    stops: bool
    agreement: float
    then: tuple["Branch", ...]

    @property
    def words(self) -> str:
        """What these rows do, in words."""
        if not self.actions:
            return "stop"
        doing = f"{joined(list(self.actions))} (cost {self.cost:g})"
        return f"{doing}, then stop" if self.stops else doing

    @property
    def numbers(self) -> str:
        """How many rows these are, in words."""
        some = "" if self.agreement >= _ALL else f", of which {self.agreement:.0%} do so"
        return f"{self.share:.0%} of rows{some}"


@dataclass(frozen=True)
class PolicyTree:
    """The first steps, and how faithful their description is."""

    branches: tuple[Branch, ...]
    rows: int

    @property
    def faithful(self) -> float:
        """The share of rows that go just as the tree says, as far as it says anything."""
        return _faithful(self.branches)


def describe_policy(walks: Walks, encoding: Encoding, *, forks: int = FORKS) -> PolicyTree:
    """Describe the first steps of a policy.

    Parameters
    ----------
    walks
        What it does.
    encoding
        The columns and actions.
    forks
        How often rows may part, one after the other, before the description ends.
    """
    n_rows = len(walks.choices)
    grower = _Grower(walks.rows, walks.choices, encoding)
    return PolicyTree(grower.branches(np.arange(n_rows), encoding.known, 0, forks), n_rows)


def _faithful(branches: Sequence[Branch]) -> float:
    return sum(_faithful(each.then) if each.then else each.share * each.agreement for each in branches)


@dataclass(frozen=True, eq=False)
class _Grower:
    rows: pd.DataFrame
    choices: Int[np.ndarray, "rows steps"]
    encoding: Encoding

    def branches(
        self, places: Int[np.ndarray, " some"], seen: tuple[str, ...], step: int, forks: int
    ) -> tuple[Branch, ...]:
        """Describe what rows do from a step on, of which some columns are known."""
        n_rows, n_steps = self.choices.shape
        following = self.choices[places, step] if step < n_steps else np.zeros(len(places), int)
        least = max(1, round(_LEAST_SHARE * n_rows))
        parts = _parts(self.rows.iloc[places][list(seen)], following, least)
        alike = len(parts) == 1 and (following == following[0]).mean() >= _ALL
        if not alike and forks == 0:
            return ()
        left = forks if alike else forks - 1
        return tuple(
            self._branch(condition, places[members], seen, step, left) for condition, members in parts
        )

    def _branch(
        self, condition: str, places: Int[np.ndarray, " some"], seen: tuple[str, ...], step: int, forks: int
    ) -> Branch:
        n_rows, n_steps = self.choices.shape
        following = self.choices[places, step] if step < n_steps else np.zeros(len(places), int)
        chosen = int(np.bincount(following).argmax())
        agree = following == chosen
        branch = Branch(
            condition=condition,
            share=len(places) / n_rows,
            actions=(),
            cost=0.0,
            stops=True,
            agreement=float(agree.mean()),
            then=(),
        )
        if not chosen:
            return branch
        action = self.encoding.actions[chosen - 1]
        then = self.branches(places[agree], (*seen, *action.columns), step + 1, forks)
        branch = replace(branch, actions=(action.name,), cost=action.price, stops=False, then=then)
        return _shortened(branch)


def _shortened(branch: Branch) -> Branch:
    """Make one line of what all rows of a branch do next anyway."""
    if len(branch.then) != 1 or branch.then[0].condition or branch.then[0].agreement < _ALL:
        return branch
    after = branch.then[0]
    return replace(
        branch,
        actions=(*branch.actions, *after.actions),
        cost=branch.cost + after.cost,
        stops=after.stops,
        then=after.then,
    )


@dataclass(frozen=True)
class _Limits:
    """What holds of the values of one column: above, up to, or (not) one of some categories."""

    above: float | None = None
    up_to: float | None = None
    only: str | None = None
    but: tuple[str, ...] = ()

    def words(self, column: str, *, boolean: bool) -> str:
        if self.only is not None:
            return f"{column} is {self.only}"
        if self.but:
            return f"{column} is not {' or '.join(self.but)}"
        if boolean:
            return f"{column} is {'yes' if self.above is not None else 'no'}"
        if self.above is not None and self.up_to is not None:
            return f"{column} is {_number(self.above)} to {_number(self.up_to)}"
        if self.above is not None:
            return f"{column} > {_number(self.above)}"
        return f"{column} ≤ {_number(self.up_to or 0.0)}"


@dataclass(frozen=True)
class _Test:
    """A column of the decision tree's table: a number, or whether a column is of one category."""

    column: str
    category: str | None = None
    boolean: bool = False


def _read(
    tree: DecisionTreeClassifier,
    tests: Sequence[_Test],
    node: int = 0,
    limits: Mapping[str, _Limits] = MappingProxyType({}),
) -> list[tuple[Mapping[str, _Limits], list[int]]]:
    """Give what holds in the leaves of a decision tree; neighbours that say the same are one."""
    fitted = tree.tree_
    if fitted.children_left[node] < 0:
        return [(limits, [node])]
    test, bound = tests[fitted.feature[node]], float(fitted.threshold[node])
    lower, upper = int(fitted.children_left[node]), int(fitted.children_right[node])
    below = _read(tree, tests, lower, _narrowed(limits, test, bound, above=False))
    above = _read(tree, tests, upper, _narrowed(limits, test, bound, above=True))
    parts = [*below, *above]
    if len({fitted.value[leaves[0]].argmax() for _, leaves in parts}) == 1:
        return [(limits, [leaf for _, leaves in parts for leaf in leaves])]
    return parts


def _parts(
    known: pd.DataFrame, following: Int[np.ndarray, " rows"], least: int
) -> list[tuple[str, Bool[np.ndarray, " rows"]]]:
    """Part rows by what is known of them, so that most of each part do the same; with what holds of each."""
    everyone = [("", np.ones(len(following), bool))]
    if known.empty or len(np.unique(following)) == 1 or len(following) < 2 * least:
        return everyone
    tests, values = _table_of(known)
    tree = DecisionTreeClassifier(
        max_leaf_nodes=_MOST_BRANCHES,
        min_samples_leaf=least,
        min_impurity_decrease=_LEAST_GAIN,
        random_state=0,
    ).fit(values, following)
    leaf = tree.apply(values)
    booleans = {test.column for test in tests if test.boolean}
    found = [
        (
            " and ".join(each.words(column, boolean=column in booleans) for column, each in limits.items()),
            np.isin(leaf, leaves),
        )
        for limits, leaves in _read(tree, tests)
    ]
    return sorted(found, key=lambda part: -part[1].sum())


def _table_of(known: pd.DataFrame) -> tuple[list[_Test], Float[np.ndarray, "rows tests"]]:
    """Give columns as numbers, and what each number tests."""
    tests, values = [], []
    for name, column in known.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            for category in column.cat.categories:
                tests.append(_Test(str(name), category=str(category)))
                values.append((column == category).to_numpy(np.float64))
        else:
            tests.append(_Test(str(name), boolean=pd.api.types.is_bool_dtype(column.dtype)))
            values.append(column.to_numpy(np.float64, na_value=np.nan))
    return tests, np.stack(values, axis=1)


def _narrowed(limits: Mapping[str, _Limits], test: _Test, bound: float, *, above: bool) -> dict[str, _Limits]:
    before = limits.get(test.column, _Limits())
    if test.category is not None:
        after = _Limits(only=test.category) if above else _Limits(but=(*before.but, test.category))
    elif above:
        after = _Limits(above=bound, up_to=before.up_to)
    else:
        after = _Limits(above=before.above, up_to=bound)
    return {**limits, test.column: after}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
