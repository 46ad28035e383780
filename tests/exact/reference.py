"""Plain-Python readings of the paper, slow and independent of the package's code, to compare with it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

Known = tuple[tuple[int, int], ...]  # (feature, value) pairs, by feature
Tree = tuple[int, dict[int, "Tree"]] | None  # acquire a feature and go on by its value, or stop


@dataclass
class Instance:
    """A tiny problem and a training set, as lists."""

    joint: dict[tuple[tuple[int, ...], int], float]
    n_values: tuple[int, ...]
    n_labels: int
    costs: list[float]
    budget: float
    predictions: dict[Known, int] = field(
        default_factory=dict, repr=False
    )  # remembered, being asked for often

    def legal(self, known: Known) -> list[int]:
        taken = {feature for feature, _ in known}
        spent = sum(self.costs[feature] for feature in taken)
        return [
            a
            for a, c in enumerate(self.costs)
            if a not in taken and spent + c <= self.budget + 1e-6 * max(1, self.budget)
        ]

    def label_mass(self, known: Known) -> list[float]:
        mass = [0.0] * self.n_labels
        for (x, y), probability in self.joint.items():
            if all(x[feature] == value for feature, value in known):
                mass[y] += probability
        return mass

    def predict(self, known: Known) -> int:
        if known not in self.predictions:
            mass = self.label_mass(known)
            best = max(mass) - 1e-12 * sum(mass)
            self.predictions[known] = max(label for label in range(self.n_labels) if mass[label] >= best)
        return self.predictions[known]

    def trees(self, known: Known = ()) -> Iterator[Tree]:
        """List every deterministic policy."""
        yield None
        for feature in self.legal(known):
            values = range(self.n_values[feature])
            options = [list(self.trees(extend(known, feature, value))) for value in values]
            for choice in product(*options):
                yield feature, dict(zip(values, choice, strict=True))

    def accuracy(self, tree: Tree) -> float:
        """Follow a policy on every instance that can occur."""
        total = 0.0
        for (x, y), probability in self.joint.items():
            known: Known = ()
            node = tree
            while node is not None:
                feature, branches = node
                known, node = extend(known, feature, x[feature]), branches[x[feature]]
            total += probability * (self.predict(known) == y)
        return total


def extend(known: Known, feature: int, value: int) -> Known:
    return tuple(sorted((*known, (feature, value))))


class Learner:
    """The tabular approaches of exact.md, row by row, for any number of values."""

    def __init__(self, problem: Instance, x: np.ndarray, y: np.ndarray, available: np.ndarray):
        self.problem = problem
        self.rows = [
            ({a: int(v) for a, v in enumerate(values) if mask[a]}, int(label))
            for values, label, mask in zip(x, y, available, strict=True)
        ]

    def matching(self, known: Known) -> list[tuple[dict[int, int], int]]:
        return [row for row in self.rows if all(row[0].get(feature) == value for feature, value in known)]

    def stop(self, known: Known) -> float:
        rows, prediction = self.matching(known), self.problem.predict(known)
        right = sum(label == prediction for _, label in rows)
        return (right + 0.5) / (len(rows) + 0.5 * self.problem.n_labels)

    def transition(self, known: Known, feature: int) -> list[float]:
        values = range(self.problem.n_values[feature])
        counts = [len(self.matching(extend(known, feature, value))) + 0.5 for value in values]
        return [count / sum(counts) for count in counts]

    def plug_in(self, known: Known, feature: int, steps: int) -> float:
        """Compute Q_k of filtering, restoration or complete data, by equation 3."""
        chances = self.transition(known, feature)
        return sum(
            chance * self.value(extend(known, feature, value), steps - 1)
            for value, chance in enumerate(chances)
        )

    def value(self, known: Known, steps: int) -> float:
        options = [self.plug_in(known, a, steps) for a in self.problem.legal(known)] if steps else []
        return max([self.stop(known), *options])

    def aliased(self, known: Known, feature: int, steps: int) -> float:
        """Compute Q_k of aliasing: an average over rows that continue with their best available action."""
        children = [extend(known, feature, value) for value in range(self.problem.n_values[feature])]
        ends_here = not any(self.problem.legal(extend(known, a, 0)) for a in self.problem.legal(known))
        if ends_here or (steps == 1 and known):
            return self.plug_in(known, feature, 1)
        total = count = 0.0
        for child in children:
            options = (
                {a: self.aliased(child, a, steps - 1) for a in self.problem.legal(child)} if steps > 1 else {}
            )
            for values, _ in self.matching(child):
                total += max([self.stop(child), *(q for a, q in options.items() if a in values)])
                count += 1
        return (total + 0.5) / (count + 0.5 * self.problem.n_labels)
