"""The first steps of a policy as a tree that people can read.

Rows are followed step by step. Where they branch, a small decision tree finds which of the values known by
then separate them. The tree describes the policy; it is not the policy itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.tree import DecisionTreeClassifier

from ascertain.practice.comparison._simulation import SimulatedEpisodes
from ascertain.reporting._text import joined
from ascertain.tables._dates import day_name
from ascertain.tables._encoding import Action, Encoding

FORKS = 3
_MOST_BRANCHES = 3  # at one fork
_LEAST_SHARE = 0.02  # of all rows: a smaller branch is not worth its line
_LEAST_GAIN = 0.02  # of Gini impurity, so that chance is not described
_ALL = 0.995  # of the rows: "100%" as printed


@dataclass(frozen=True)
class Branch:
    """Rows that satisfy a condition, and what most of them acquire next."""

    condition: str  # such as "age > 50"; empty where no condition separates these rows from the others
    share: float  # of all rows
    actions: tuple[str, ...]  # what most of these rows acquire next, in order
    cost: float  # of these actions
    stops: bool  # whether they stop after that
    agreement: float  # the share of the branch's rows that do exactly this
    then: tuple["Branch", ...]  # what these do afterwards; empty where they stop or the description ends

    @property
    def actions_text(self) -> str:
        """What these rows acquire, what it costs, and whether they stop."""
        if not self.actions:
            return "stop"
        text = f"{joined(list(self.actions))} (cost {self.cost:g})"
        return f"{text}, then stop" if self.stops else text

    @property
    def rows_text(self) -> str:
        """How many rows these are, and how many of them do exactly this."""
        some = "" if self.agreement >= _ALL else f", of which {self.agreement:.0%} do so"
        return f"{self.share:.0%} of rows{some}"


@dataclass(frozen=True)
class PolicyTree:
    """The first steps of a policy in a number of rows."""

    branches: tuple[Branch, ...]
    rows: int

    @property
    def fidelity(self) -> float:
        """The share of rows in which the policy does exactly what the tree says, as far as it goes."""
        return _fidelity(self.branches)


def describe_policy(episodes: SimulatedEpisodes, encoding: Encoding, *, forks: int = FORKS) -> PolicyTree:
    """Describe the first steps of a policy, with at most `forks` forks one after the other."""
    n_rows = len(episodes.choices)
    grower = _Grower(episodes.rows, episodes.choices, encoding)
    return PolicyTree(grower.branches(np.arange(n_rows), encoding.known, 0, forks), n_rows)


def _fidelity(branches: Sequence[Branch]) -> float:
    return sum(_fidelity(each.then) if each.then else each.share * each.agreement for each in branches)


@dataclass(frozen=True, eq=False)
class _Grower:
    rows: pd.DataFrame
    choices: Int[np.ndarray, "rows steps"]
    encoding: Encoding

    def branches(
        self, places: Int[np.ndarray, " some"], seen: tuple[str, ...], step: int, forks: int
    ) -> tuple[Branch, ...]:
        """Describe what some rows do from a step on, by the columns seen so far."""
        chosen = self._chosen(places, step)
        least = max(1, round(_LEAST_SHARE * len(self.choices)))
        parts = _split(self.rows.iloc[places][list(seen)], chosen, least)
        alike = len(parts) == 1 and (chosen == chosen[0]).mean() >= _ALL
        if not alike and forks == 0:
            return ()
        left = forks if alike else forks - 1
        return tuple(self._branch(condition, places[part], seen, step, left) for condition, part in parts)

    def _branch(
        self, condition: str, places: Int[np.ndarray, " some"], seen: tuple[str, ...], step: int, forks: int
    ) -> Branch:
        chosen = self._chosen(places, step)
        common = int(np.bincount(chosen).argmax())
        agree = chosen == common
        share, agreement = len(places) / len(self.choices), float(agree.mean())
        if not common:
            return Branch(condition, share, (), 0.0, stops=True, agreement=agreement, then=())
        action = self.encoding.actions[common - 1]
        then = self.branches(places[agree], (*seen, *action.columns), step + 1, forks)
        branch = Branch(condition, share, (action.name,), self._price(action, seen), False, agreement, then)
        return _merge_next(branch)

    def _price(self, action: Action, seen: tuple[str, ...]) -> float:
        """What an action costs after some columns were seen."""
        taken = [{*each.columns} <= {*seen} for each in self.encoding.actions]
        return float(self.encoding.price_list.prices(np.array(taken))[self.encoding.actions.index(action)])

    def _chosen(self, places: Int[np.ndarray, " some"], step: int) -> Int[np.ndarray, " some"]:
        """1 + the action that each row acquires at a step; 0 once it has stopped."""
        return self.choices[places, step] if step < self.choices.shape[1] else np.zeros(len(places), int)


def _merge_next(branch: Branch) -> Branch:
    """Make one line of a branch and of what all of its rows do next anyway."""
    if len(branch.then) != 1 or branch.then[0].condition or branch.then[0].agreement < _ALL:
        return branch
    after = branch.then[0]
    actions, cost = (*branch.actions, *after.actions), branch.cost + after.cost
    return replace(branch, actions=actions, cost=cost, stops=after.stops, then=after.then)


class _Feature(NamedTuple):
    """An input of the decision tree: a number, or whether a column is of one category."""

    column: str
    category: str | None = None
    boolean: bool = False
    date: bool = False


class _Test(NamedTuple):
    """What a node of the decision tree asks: whether a feature is above a bound, and the answer."""

    feature: _Feature
    bound: float
    above: bool


def _split(
    known: pd.DataFrame, chosen: Int[np.ndarray, " rows"], least: int
) -> list[tuple[str, Bool[np.ndarray, " rows"]]]:
    """Split rows by known values into parts that mostly choose the same.

    Returns the condition of each part, and which rows it has.
    """
    if known.empty or len(np.unique(chosen)) == 1 or len(chosen) < 2 * least:
        return [("", np.ones(len(chosen), bool))]
    features, values = _as_features(known)
    tree = DecisionTreeClassifier(
        max_leaf_nodes=_MOST_BRANCHES,
        min_samples_leaf=least,
        min_impurity_decrease=_LEAST_GAIN,
        random_state=0,
    ).fit(values, chosen)
    leaf = tree.apply(values)
    parts = [(_condition(path), np.isin(leaf, leaves)) for path, leaves in _paths(tree, features)]
    return sorted(parts, key=lambda part: -part[1].sum())


def _paths(
    tree: DecisionTreeClassifier, features: Sequence[_Feature], node: int = 0, path: tuple[_Test, ...] = ()
) -> list[tuple[tuple[_Test, ...], list[int]]]:
    """The tests that lead to each leaf of a decision tree; neighbours with the same prediction are merged."""
    fitted = tree.tree_
    if fitted.children_left[node] < 0:
        return [(path, [node])]
    feature, bound = features[fitted.feature[node]], float(fitted.threshold[node])
    parts = []
    for above, children in ((False, fitted.children_left), (True, fitted.children_right)):
        parts += _paths(tree, features, int(children[node]), (*path, _Test(feature, bound, above)))
    if len({fitted.value[leaves[0]].argmax() for _, leaves in parts}) == 1:
        return [(path, [leaf for _, leaves in parts for leaf in leaves])]
    return parts


def _condition(path: Sequence[_Test]) -> str:
    """Write the tests of a path, one clause for each column."""
    columns = dict.fromkeys(test.feature.column for test in path)
    clauses = [
        _clause(column, [test for test in path if test.feature.column == column]) for column in columns
    ]
    return " and ".join(clauses)


def _clause(column: str, tests: Sequence[_Test]) -> str:
    feature = tests[0].feature
    if feature.category is not None:
        for test in tests:
            if test.above:
                return f"{column} is {test.feature.category}"
        return f"{column} is not {' or '.join(str(test.feature.category) for test in tests)}"
    written = day_name if feature.date else _number
    lower = [written(test.bound) for test in tests if test.above]
    upper = [written(test.bound) for test in tests if not test.above]  # the last one of each is the tightest
    if feature.boolean:
        return f"{column} is {'yes' if lower else 'no'}"
    if lower and upper:
        return f"{column} is {lower[-1]} to {upper[-1]}"
    return f"{column} > {lower[-1]}" if lower else f"{column} ≤ {upper[-1]}"


def _as_features(known: pd.DataFrame) -> tuple[list[_Feature], Float[np.ndarray, "rows features"]]:
    features, values = [], []
    for name, column in known.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            for category in column.cat.categories:
                features.append(_Feature(str(name), category=str(category)))
                values.append((column == category).to_numpy(np.float64))
        elif pd.api.types.is_datetime64_any_dtype(column.dtype):
            features.append(_Feature(str(name), date=True))
            values.append((column - pd.Timestamp(0)).dt.total_seconds().to_numpy(np.float64) / 86400)
        else:
            features.append(_Feature(str(name), boolean=pd.api.types.is_bool_dtype(column.dtype)))
            values.append(column.to_numpy(np.float64, na_value=np.nan))
    return features, np.stack(values, axis=1)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
