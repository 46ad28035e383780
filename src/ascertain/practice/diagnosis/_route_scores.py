"""What a quick predictor makes of rows after fixed sets of actions (routes).

The predictor is a small network of scikit-learn's, which needs no compilation. Classes weigh the same: a
value is the mean over classes of the mean over their rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from ascertain._core.clusters import draw_instances
from ascertain.problem import Problem

FEWEST_ROWS = 30  # of each class that have a route, so that its score can be told
_MOST_ROWS = 6000  # that routes are scored on
_MOST_TRAINED = 2000  # of the rows that were trained on
_ROUNDS, _BATCHES, _BATCH = 20, 50, 128  # of training the network
_MOST_HIDDEN = 0.9  # features are hidden with a probability of up to this, as for the paper's predictor
_MOST_DEVIATIONS = 5.0  # larger values are clipped, so that an outlier does not upset the network
_FLOOR = -4.0  # of the log probability, as in the planner


class Outcomes(NamedTuple):
    """What is predicted of rows after routes; 0 where a row lacks something of the route."""

    has: Bool[np.ndarray, "routes rows"]
    utility: Float[np.ndarray, "routes rows"]  # the log probability of the true class
    right: Float[np.ndarray, "routes rows"]  # 1 where the most probable class is the true one


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows that the predictor was not trained on."""

    network: MLPClassifier
    x: Float[np.ndarray, "rows features"]
    available: Bool[np.ndarray, "rows features"]
    y: Int[np.ndarray, " rows"]
    reveals: Bool[np.ndarray, "actions features"]
    half: Bool[np.ndarray, " rows"]  # one half of the rows, to choose on or to check with
    instance: Int[np.ndarray, " rows"]  # rows with the same number belong together

    def take(self, rows: Int[np.ndarray, " some"]) -> "ScoredRows":
        """Some of the rows."""
        return ScoredRows(
            self.network,
            self.x[rows],
            self.available[rows],
            self.y[rows],
            self.reveals,
            self.half[rows],
            self.instance[rows],
        )

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.network.classes_)

    @cached_property
    def readable(self) -> Bool[np.ndarray, "rows actions"]:
        """The actions that each row has."""
        return ~(~self.available @ self.reveals.T)

    def having(self, routes: Bool[np.ndarray, "routes actions"]) -> Bool[np.ndarray, "routes rows"]:
        """The rows that have all actions of each route."""
        # Products of numbers are much faster than those of truth values.
        return np.asarray(routes.astype(np.float32) @ self._lacking == 0)

    def outcomes(self, routes: Bool[np.ndarray, "routes actions"]) -> Outcomes:
        """Predict every row after every route that it has."""
        has = self.having(routes)
        route, row = np.nonzero(has)
        observed = self._observed(routes)[route] & self.available[row]
        utility, right = np.zeros((2, *has.shape), np.float32)
        if len(row):
            probability = self.network.predict_proba(_inputs(self.x[row], observed))
            of_label = probability[np.arange(len(row)), self.y[row]]
            utility[has] = np.maximum(np.log(of_label + 1e-12), _FLOOR)
            right[has] = probability.argmax(axis=1) == self.y[row]
        return Outcomes(has, utility, right)

    def of_rarest_class(self, routes: Bool[np.ndarray, "routes actions"]) -> Int[np.ndarray, " routes"]:
        """The number of rows that have each route, in the class that has fewest of them."""
        has = self.having(routes)
        return np.min([has[:, self.y == label].sum(axis=1) for label in range(self.n_classes)], axis=0)

    @cached_property
    def enough(self) -> int:
        """How many rows of each class must have a route: half of them choose, the other half checks.

        Of a small class, a third of its rows is enough.
        """
        rarest = np.bincount(self.y, minlength=self.n_classes).min()
        return int(min(2 * FEWEST_ROWS, np.ceil(rarest / 3)))

    @cached_property
    def _lacking(self) -> Float[np.ndarray, "actions rows"]:
        return (~self.readable.T).astype(np.float32)

    def _observed(self, routes: Bool[np.ndarray, "routes actions"]) -> Bool[np.ndarray, "routes features"]:
        return (routes @ self.reveals) | ~self.reveals.any(axis=0)


def score_rows(
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    problem: Problem,
    instances: Int[np.ndarray, " rows"] | None = None,
) -> tuple[ScoredRows, ScoredRows]:
    """Fit the predictor to half of the rows, with their holes; return some of these, and others to score on.

    Rows with the same number in `instances` are on the same side.
    """
    x = np.clip(x, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    train, others = _halves(y, instances)
    network = _fit(x[train], available[train], y[train])
    reveals = np.asarray(problem.reveals)
    number = np.arange(len(y)) if instances is None else instances
    trained, scored = (
        ScoredRows(
            network,
            x[some],
            available[some],
            y[some],
            reveals,
            _one_half(some, y, instances),
            number[some],
        )
        for some in (_sample_classes(train, y, _MOST_TRAINED), _sample_classes(others, y, _MOST_ROWS))
    )
    return trained, scored


def _halves(
    y: Int[np.ndarray, " rows"], instances: Int[np.ndarray, " rows"] | None
) -> tuple[Int[np.ndarray, " some"], Int[np.ndarray, " others"]]:
    """Two halves of the rows, each with about half of every class; those of an instance in the same one."""
    if instances is None:
        train, others = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0, stratify=y)
        return train, others
    drawn = draw_instances(y, instances, 0.5, np.random.RandomState(0))
    shuffled = np.random.default_rng(0).permutation(len(y))
    return shuffled[~drawn[shuffled]], shuffled[drawn[shuffled]]


def _one_half(
    rows: Int[np.ndarray, " some"], y: Int[np.ndarray, " all"], instances: Int[np.ndarray, " all"] | None
) -> Bool[np.ndarray, " some"]:
    if instances is None:
        return np.arange(len(rows)) % 2 == 0
    among = np.unique(instances[rows], return_inverse=True)[1]
    return draw_instances(y[rows], among, 0.5, np.random.RandomState(1))


def _sample_classes(
    rows: Int[np.ndarray, " rows"], y: Int[np.ndarray, " all"], most: int
) -> Int[np.ndarray, " some"]:
    """Some rows in random order; each class has its share of them, or all that it has."""
    shuffled = np.random.default_rng(0).permutation(rows)
    classes = np.unique(y)
    kept = [shuffled[y[shuffled] == label][: most // len(classes)] for label in classes]
    return np.random.default_rng(0).permutation(np.concatenate(kept))


def _fit(x: np.ndarray, available: np.ndarray, y: np.ndarray) -> MLPClassifier:
    """Train on random subsets of what each row has, with the classes equally often."""
    rng = np.random.default_rng(1)
    network = MLPClassifier((64,), batch_size=_BATCH, random_state=0)
    classes = np.unique(y)
    of_class = [np.flatnonzero(y == each) for each in classes]
    per_class = _BATCHES * _BATCH // len(classes)
    for _ in range(_ROUNDS):
        rows = np.concatenate([rng.choice(members, per_class) for members in of_class])
        rate = rng.uniform(0, _MOST_HIDDEN, (len(rows), 1))
        seen = available[rows] & (rng.random((len(rows), x.shape[1])) >= rate)
        network.partial_fit(_inputs(x[rows], seen), y[rows], classes=classes)
    return network


def _inputs(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.concatenate([np.where(seen, x, 0.0), seen], axis=1, dtype=np.float32)
