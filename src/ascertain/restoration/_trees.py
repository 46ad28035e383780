"""Chained equations with trees: each action is predicted from all else, and copied from a similar row.

Chained equations visit the columns in turn and impute each given the others (van Buuren and
Groothuis-Oudshoorn 2011, "mice"). Here extremely randomised trees predict (Geurts, Ernst and Wehenkel 2006),
and predictive mean matching draws: one of the few rows with the nearest predictions is the donor
(Little 1988). It runs on the host, and is what other restorers are compared with.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy.spatial import KDTree
from sklearn.ensemble import ExtraTreesRegressor

from ascertain._core.arrays import on_device
from ascertain._core.settings import AtOnce, Count
from ascertain.problem import Problem, Table
from ascertain.restoration._registry import register


@dataclass(frozen=True)
class Settings:
    """The size of the forests, and the length of the chains."""

    trees: AtOnce = 20
    least_leaf: Count = 5  # rows
    donors: Count = 5  # to draw from
    sweeps: Count = 5
    most_rows: Count = 5000  # to learn from
    most_donors: Count = 2000  # for each action


class _Rows(NamedTuple):
    """A table on the host; what is missing is zero."""

    x: Float[np.ndarray, "instances features"]
    available: Bool[np.ndarray, "instances features"]
    labels: Float[np.ndarray, "instances classes"]


class _Unit(NamedTuple):
    """Features that are drawn together, what predicts them, and rows that have all of them."""

    features: Int[np.ndarray, " own"]
    forest: Any  # None before the first sweep
    values: Float[np.ndarray, "donors own"]
    predicted: Float[np.ndarray, "donors own"]


class ChainedTrees:
    """Fills a table at random, then redraws what was missing several times, action by action.

    What no training row has is filled with the columns' means.

    Examples
    --------
    `fit_trees` makes one; `examples/score_restorers.py` scores its draws.
    """

    def __init__(
        self, seed: int, problem: Problem, train: Table, settings: Settings, *, see_label: bool = True
    ):
        self.seed, self.problem, self.train, self.settings = seed, problem, train, settings
        self.see_label = see_label
        rng = np.random.default_rng(seed)
        rows = _on_host(train)
        count = len(rows.x)
        if count > settings.most_rows:
            kept = rng.choice(count, settings.most_rows, replace=False)
            rows = _Rows(*(each[kept] for each in rows))
        self.means = rows.x.sum(axis=0) / np.maximum(rows.available.sum(axis=0), 1)
        self.units = [
            _Unit(features, None, values, np.zeros_like(values))
            for features in _units(problem)
            if len(values := rows.x[np.ix_(_having(rows, features), features)])
        ]
        # Those that most rows have come first: what follows is predicted from them.
        self.units.sort(key=lambda unit: -len(unit.values))
        x = self._filled_at_random(rng, rows)
        for _ in range(settings.sweeps):
            for place, unit in enumerate(self.units):
                self.units[place] = learned = self._learned(rng, unit.features, x, rows)
                x = self._redrawn(rng, learned, x, rows)

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Run chains of the usual length with the forests of the last sweep."""
        rng, rows = np.random.default_rng(_seed(key)), _on_host(table)
        x = self._filled_at_random(rng, rows)
        for _ in range(self.settings.sweeps):
            for unit in self.units:
                x = self._redrawn(rng, unit, x, rows)
        return on_device(x, np.float32)

    def label_free(self) -> "ChainedTrees":
        """Fit once more, without the labels."""
        return ChainedTrees(self.seed, self.problem, self.train, self.settings, see_label=False)

    def _filled_at_random(
        self, rng: np.random.Generator, rows: _Rows
    ) -> Float[np.ndarray, "instances features"]:
        x = np.where(rows.available, rows.x, self.means)
        for unit in self.units:
            donor = rng.integers(0, len(unit.values), len(x))
            x[:, unit.features] = unit.values[donor]
        return np.where(rows.available, rows.x, x)

    def _learned(
        self,
        rng: np.random.Generator,
        features: Int[np.ndarray, " own"],
        x: Float[np.ndarray, "instances features"],
        rows: _Rows,
    ) -> _Unit:
        """Predict a unit of the completed training rows from all else."""
        having = _having(rows, features)
        inputs, values = self._inputs(features, x, rows)[having], rows.x[np.ix_(having, features)]
        forest = ExtraTreesRegressor(
            self.settings.trees,
            min_samples_leaf=self.settings.least_leaf,
            bootstrap=True,
            random_state=int(rng.integers(2**31)),
        ).fit(inputs, values if values.shape[1] > 1 else values[:, 0])
        predicted = _predict_out_of_bag(forest, inputs)
        if len(values) > self.settings.most_donors:
            kept = rng.choice(len(values), self.settings.most_donors, replace=False)
            values, predicted = values[kept], predicted[kept]
        return _Unit(features, forest, values, predicted)

    def _redrawn(
        self,
        rng: np.random.Generator,
        unit: _Unit,
        x: Float[np.ndarray, "instances features"],
        rows: _Rows,
    ) -> Float[np.ndarray, "instances features"]:
        """Replace the missing cells of a unit by those of a donor with a similar prediction."""
        lacking = np.flatnonzero(~rows.available[:, unit.features].all(axis=1))
        if not len(lacking):
            return x
        predicted = _predict(unit.forest, self._inputs(unit.features, x, rows)[lacking])
        seen = rows.available[np.ix_(lacking, unit.features)]
        wanted = np.where(seen, rows.x[np.ix_(lacking, unit.features)], predicted)
        donor = self._matched(rng, unit, wanted, seen)
        drawn = x.copy()
        drawn[np.ix_(lacking, unit.features)] = unit.values[donor]
        return np.where(rows.available, rows.x, drawn)

    def _matched(
        self,
        rng: np.random.Generator,
        unit: _Unit,
        wanted: Float[np.ndarray, "lacking own"],
        seen: Bool[np.ndarray, "lacking own"],
    ) -> Int[np.ndarray, " lacking"]:
        """Pick among the nearest donors: by predictions, and by values where the row has them."""
        among = range(1, 1 + min(self.settings.donors, len(unit.values)))
        # Many predictions are equal, as those of one leaf are; noise on both sides decides between them.
        noise = 1e-6 * unit.values.std()
        found = np.zeros(len(wanted), int)
        for pattern in np.unique(seen, axis=0):
            alike = np.flatnonzero((seen == pattern).all(axis=1))
            theirs = np.where(pattern, unit.values, unit.predicted)
            donors = KDTree(theirs + noise * rng.random(theirs.shape))
            own = wanted[alike] + noise * rng.random((len(alike), wanted.shape[1]))
            _, nearest = donors.query(own, k=list(among))
            found[alike] = nearest[np.arange(len(alike)), rng.integers(0, len(among), len(alike))]
        return found

    def _inputs(
        self,
        features: Int[np.ndarray, " own"],
        x: Float[np.ndarray, "instances features"],
        rows: _Rows,
    ) -> Float[np.ndarray, "instances inputs"]:
        others = np.delete(x, features, axis=1)
        # One constant column, so that a table of one unit has something to predict from.
        labels = rows.labels if self.see_label else np.zeros((len(x), 1))
        return np.hstack([others, labels])


@register(
    "trees",
    summary="Chained equations: trees predict each action, a row that is predicted alike is copied.",
    label="chained trees",
    settings=Settings,
    label_free=True,
    keeps_rows=True,
    on_host=True,
)
def fit_trees(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
) -> ChainedTrees:
    """Fit a forest to every action, in several sweeps over the training rows.

    Examples
    --------
    `examples/score_restorers.py` fits them and scores their draws beside those of other restorers.
    """
    del valid
    return ChainedTrees(_seed(key), problem, train, settings)


def _units(problem: Problem) -> list[Int[np.ndarray, " own"]]:
    """Features that go together: one of several actions, with the last of them; one of none, by itself."""
    reveals = np.asarray(problem.reveals)
    n_actions, n_features = reveals.shape
    last = n_actions - 1 - np.argmax(reveals[::-1], axis=0)
    owner = np.where(reveals.any(axis=0), last, n_actions + np.arange(n_features))
    return [np.flatnonzero(owner == each) for each in np.unique(owner)]


def _having(rows: _Rows, features: Int[np.ndarray, " own"]) -> Int[np.ndarray, " having"]:
    return np.flatnonzero(rows.available[:, features].all(axis=1))


def _predict(
    forest: Any, inputs: Float[np.ndarray, "instances inputs"]
) -> Float[np.ndarray, "instances own"]:
    return np.asarray(forest.predict(inputs)).reshape(len(inputs), -1)


def _predict_out_of_bag(
    forest: Any, inputs: Float[np.ndarray, "instances inputs"]
) -> Float[np.ndarray, "instances own"]:
    """Predict the rows that a forest was fitted to, each by the trees that did not see it.

    Trees that saw a row know its own value; a match on that would make draws too narrow. A row that every
    tree saw is predicted by all.
    """
    total, count = np.zeros((len(inputs), forest.n_outputs_)), np.zeros((len(inputs), 1))
    for tree, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        unseen = np.setdiff1d(np.arange(len(inputs)), seen)
        if len(unseen):
            total[unseen] += tree.predict(inputs[unseen]).reshape(len(unseen), -1)
            count[unseen] += 1
    return np.where(count > 0, total / np.maximum(count, 1), _predict(forest, inputs))


def _on_host(table: Table) -> _Rows:
    available = np.asarray(table.available)
    x = np.where(available, np.asarray(table.x, np.float64), 0.0)
    return _Rows(x, available, np.eye(table.n_classes)[np.asarray(table.y)])


def _seed(key: PRNGKeyArray) -> int:
    return int(jr.randint(key, (), 0, 2**31 - 1))
