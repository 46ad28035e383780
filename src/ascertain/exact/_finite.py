"""Finite problems: discrete features and label with a known joint distribution, solved exactly."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ascertain._core.checks import (
    check_budget,
    check_costs,
    check_count,
    check_labels,
    check_names,
    check_numbers,
    check_rate,
    check_whole_numbers,
)
from ascertain._core.frames import as_pandas, is_missing, value_name
from ascertain.errors import InputError, TooLargeError
from ascertain.exact._bits import BitRows, pack
from ascertain.exact._observations import Coding, Observations
from ascertain.exact._plan import Plan
from ascertain.exact._recursion import Estimates, solve
from ascertain.exact._states import StateSpace, enumerate_states

MAX_ATOMS = 2**20
MAX_CELLS = 2**28  # atoms times feature values: a byte each

_TIE = 1e-12  # labels whose probabilities differ by less, relative to the state's, are tied

# (states, features) value numbers, -1 where not acquired -> (states,) label numbers
FinitePredictor = Callable[[np.ndarray], ArrayLike]


class Atoms(NamedTuple):
    """A joint distribution as a list of instances (x, y) and their probabilities.

    Examples
    --------
    A fair coin whose side is the label, and a coin that says nothing about it:

    >>> import numpy as np
    >>> from ascertain.exact import FiniteProblem
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> coins = Atoms(x, y=x[:, 0], probability=np.full(4, 1 / 4), n_values=(2, 2), n_labels=2)
    >>> FiniteProblem(coins, budget=1, feature_names=["side", "other"]).optimal_plan().first_action
    'side'
    """

    x: Int[np.ndarray, "atoms features"]
    y: Int[np.ndarray, " atoms"]
    probability: Float[np.ndarray, " atoms"]
    n_values: tuple[int, ...]
    n_labels: int


class FiniteProblem:
    """An acquisition problem with a known distribution, solved exactly (sections 3 and 4 of the paper).

    Parameters
    ----------
    joint
        The joint distribution: an array `joint[x_1, ..., x_d, y]` of probabilities, or `Atoms`.
    costs
        The cost of each feature; 1 each by default.
    budget
        How much may be spent on one instance.
    predictor
        The fixed predictor: maps the value numbers of many states (one row each, -1 where not acquired)
        to label numbers. By default the Bayes predictor; where labels tie it predicts the last one.
    feature_names, value_names, label_names
        Names for display; `value_names` has one sequence per feature.

    Examples
    --------
    Two fair coins; the label says whether they agree. One coin alone says nothing about it.

    >>> import numpy as np
    >>> from ascertain.exact import FiniteProblem
    >>> joint = np.zeros((2, 2, 2))
    >>> joint[0, 0, 1] = joint[1, 1, 1] = joint[0, 1, 0] = joint[1, 0, 0] = 1 / 4
    >>> problem = FiniteProblem(joint, budget=2, feature_names=["penny", "dime"])
    >>> print(problem.optimal_plan())
    acquire penny (cost 1)
    ├─ 0: acquire dime (cost 1)
    │  ├─ 0: predict 1
    │  └─ 1: predict 0
    └─ 1: acquire dime (cost 1)
       ├─ 0: predict 0
       └─ 1: predict 1
    >>> problem.value(problem.optimal_plan())
    1.0
    """

    def __init__(
        self,
        joint: ArrayLike | Atoms,
        *,
        budget: float,
        costs: ArrayLike | None = None,
        predictor: FinitePredictor | None = None,
        feature_names: Sequence[str] | None = None,
        value_names: Sequence[Sequence[str]] | None = None,
        label_names: Sequence[str] | None = None,
    ):
        self.atoms = _checked(joint) if isinstance(joint, Atoms) else _atoms(joint)
        self.n_values = self.atoms.n_values
        self.n_labels = self.atoms.n_labels
        d = len(self.n_values)
        self.feature_names = check_names("feature_names", feature_names, d) or tuple(
            f"x{feature}" for feature in range(d)
        )
        self.label_names = check_names("label_names", label_names, self.n_labels) or _numerals(self.n_labels)
        self.value_names = _value_names(value_names, self.n_values, self.feature_names)
        self.costs = check_costs(np.ones(d) if costs is None else costs, self.feature_names)
        self.budget = check_budget(budget, self.costs)
        self.space: StateSpace = enumerate_states(self.n_values, tuple(self.costs.tolist()), self.budget)
        self.mass = _state_mass(self.space, self.atoms)
        self.prediction = _prediction(self.space, self.mass, predictor)
        self.coding: Coding | None = None
        self.origin = ""

    @classmethod
    def from_table(cls, dataframe: Any, *, label: str, budget: float, costs: Any = None) -> "FiniteProblem":
        """Estimate a problem from a table of discrete columns, by the frequencies among its complete rows.

        `problem.origin` (and its `repr`) says how many rows were complete. `problem.observe(dataframe)`
        turns the same table with its missing values into `Observations` for `fit_plan`.

        Parameters
        ----------
        dataframe
            A pandas (or polars) table. Bin numbers with many values first, for example with `pandas.cut`.
        label
            The column to predict; every other column is a feature.
        budget
            How much may be spent on one instance.
        costs
            The cost of each feature, by column name (a mapping or a pandas Series) or in column order; 1
            each by default.
        """
        table = as_pandas(dataframe)
        coding = Coding.of(table, label)
        labelled = coding.encode(table)
        complete = labelled.available.all(axis=1)
        if not complete.any():
            raise InputError("no row of the table is complete, so the joint distribution cannot be estimated")
        rows = np.column_stack([labelled.x, labelled.y])[complete]
        cases, counts = np.unique(rows, axis=0, return_counts=True)
        n_values = tuple(len(coding.values[name]) for name in coding.features)
        n_labels = len(coding.values[coding.label])
        problem = cls(
            Atoms(cases[:, :-1], cases[:, -1], counts / counts.sum(), n_values, n_labels),
            budget=budget,
            costs=coding.costs(costs),
            feature_names=coding.features,
            value_names=[coding.names(name) for name in coding.features],
            label_names=coding.names(coding.label),
        )
        problem.coding = coding
        problem.origin = f"estimated from {len(rows):,} complete rows of {len(table):,}"
        return problem

    def observe(self, dataframe: Any) -> Observations:
        """Read a table with the columns of `from_table`; rows without a label are left out."""
        if self.coding is None:
            raise InputError("only a problem made by FiniteProblem.from_table can read tables")
        return self.coding.encode(dataframe)

    def sample(self, rng: np.random.Generator | int, n: int, rate: float = 0.0) -> Observations:
        """Draw instances, each feature of which is unavailable with probability `rate` (MCAR).

        `rng` is a NumPy generator, or a seed for one.
        """
        rng = np.random.default_rng(rng)
        check_count("n", n, least=1)
        check_rate(rate)
        drawn = rng.choice(len(self.atoms.y), size=n, p=self.atoms.probability)
        available = rng.random((n, len(self.n_values))) >= rate
        return Observations(self.atoms.x[drawn], self.atoms.y[drawn], available)

    def optimal_plan(self) -> Plan:
        """Plan with the true distribution to the end of the budget."""
        return self._optimum[0]

    def value(self, plan: Plan) -> float:
        """Compute the accuracy of a plan under the true distribution, with all features available."""
        if plan.problem is not self and plan.problem._terms != self._terms:
            raise InputError("the plan is for a problem with other features, values, costs or budget")
        space, accuracy, pending = self.space, 0.0, [0]
        while pending:
            state = pending.pop()
            edge = plan.edge(state)
            if edge is None:
                accuracy += float(self.mass[state, self.prediction[state]])
            else:
                pending.extend(space.children[edge, space.has_value[edge]].tolist())
        return accuracy

    def regret(self, plan: Plan) -> float:
        """Compute the accuracy that a plan loses against the optimal one."""
        return max(0.0, self._optimum[1] - self.value(plan))

    def state(self, known: Mapping[str, Any]) -> int:
        """Find the number of the state in which the named features have the given values.

        Values are as in the table that the problem was estimated from, or their names. Missing values are
        ignored.
        """
        state = 0
        for name, value in known.items():
            if is_missing(value):
                continue
            feature = self.feature(name)
            names = self.value_names[feature]
            if value_name(value) not in names:
                raise InputError(f"{name!r} cannot be {value!r}; its values are {', '.join(names)}")
            edges = [e for e in self.space.edges(state) if self.space.edge_action[e] == feature]
            if not edges:
                raise InputError(f"{name!r} does not fit what is left of the budget of {self.budget:g}")
            state = int(self.space.children[edges[0], names.index(value_name(value))])
        return state

    def feature(self, name: str) -> int:
        """Find the number of a feature by its name."""
        name = str(name)
        if name not in self.feature_names:
            raise InputError(f"no feature is called {name!r}; they are {', '.join(self.feature_names)}")
        return self.feature_names.index(name)

    def check(self, observations: Observations) -> None:
        """Raise an `InputError` unless this problem has all features, values and labels of observations."""
        x = observations.x
        if x.shape[1] != len(self.n_values):
            raise InputError(f"x has {x.shape[1]} columns, but the problem has {len(self.n_values)} features")
        for row, column in np.argwhere(x >= np.array(self.n_values)[None])[:1]:
            raise InputError(
                f"x[{row}, {column}] is {x[row, column]}, but {self.feature_names[column]!r} has "
                f"{self.n_values[column]} values"
            )
        check_labels("y", observations.y, len(x), self.n_labels)

    def bit_rows(self, observations: Observations, *, ignore_mask: bool = False) -> BitRows:
        """Check observations and pack them for counting."""
        self.check(observations)
        x = observations.x
        for row, column in np.argwhere(ignore_mask & (x < 0))[:1]:
            raise InputError(
                f"x[{row}, {column}] is unknown: the approach 'complete' needs every value; use another one"
            )
        available = np.ones(x.shape, bool) if ignore_mask else observations.available
        return pack(x, observations.y, available, self.n_values, self.n_labels)

    @property
    def _terms(self) -> tuple[object, ...]:
        """What a plan for this problem depends on, besides the distribution."""
        return self.feature_names, self.value_names, self.costs.tolist(), self.budget

    @cached_property
    def truth(self) -> Estimates:
        """The true probabilities, in the place of estimated ones."""
        probability = self.mass.sum(axis=1)
        right = self.mass[np.arange(len(self.space)), self.prediction]
        outcomes = np.where(self.space.has_value, probability[self.space.children], 0.0)
        return Estimates(
            stop=_ratio(right, probability),
            transition=_ratio(outcomes, outcomes.sum(axis=1, keepdims=True)),
            support=probability,
        )

    @cached_property
    def _optimum(self) -> tuple[Plan, float]:
        plan = Plan(self, solve(self.space, self.truth), self.truth.stop)
        return plan, self.value(plan)

    def __repr__(self) -> str:
        origin = f", {self.origin}" if self.origin else ""
        return (
            f"FiniteProblem({len(self.n_values)} features, {self.n_labels} labels, budget {self.budget:g}, "
            f"{len(self.space):,} states{origin})"
        )


def _atoms(joint: ArrayLike) -> Atoms:
    array = np.asarray(joint, np.float64)
    if array.ndim < 2 or array.shape[-1] < 2 or 0 in array.shape:
        raise InputError(
            f"joint needs an axis per feature and a last one of at least 2 labels, got shape {array.shape}"
        )
    _check_distribution("joint", array)
    cases = np.argwhere(array > 0)
    return Atoms(cases[:, :-1], cases[:, -1], array[array > 0], array.shape[:-1], array.shape[-1])


def _checked(atoms: Atoms) -> Atoms:
    x = check_whole_numbers("x of the atoms", atoms.x, ndim=2)
    probability = check_numbers("probability of the atoms", atoms.probability, ndim=1)
    if x.shape != (len(probability), len(atoms.n_values)):
        raise InputError(
            f"x of the atoms has shape {x.shape}, but there are {len(probability)} probabilities and "
            f"{len(atoms.n_values)} features"
        )
    for row, column in np.argwhere((x < 0) | (x >= np.array(atoms.n_values)[None]))[:1]:
        raise InputError(
            f"x[{row}, {column}] of the atoms is {x[row, column]}, not one of its feature's values"
        )
    _check_distribution("probability of the atoms", probability)
    y = check_labels("y of the atoms", atoms.y, len(x), atoms.n_labels)
    return Atoms(x, y, probability, atoms.n_values, atoms.n_labels)


def _check_distribution(what: str, probability: np.ndarray) -> None:
    for index in np.argwhere(~(probability >= 0))[:1]:
        raise InputError(f"{what}{index.tolist()} is {probability[tuple(index)]}, not a probability")
    if not abs(probability.sum() - 1) <= 1e-9:
        raise InputError(f"{what} sums to {probability.sum():.12g}, not to 1")


def _value_names(
    names: Sequence[Sequence[str]] | None, n_values: tuple[int, ...], features: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    if names is None:
        return tuple(map(_numerals, n_values))
    if len(names) != len(n_values):
        raise InputError(f"value_names lists {len(names)} features, but there are {len(n_values)}")
    return tuple(
        check_names(f"value_names of {feature!r}", of_feature, k) or ()
        for feature, of_feature, k in zip(features, names, n_values, strict=True)
    )


def _numerals(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))


def _state_mass(space: StateSpace, atoms: Atoms) -> Float[np.ndarray, "states labels"]:
    """Compute P(s, y), the joint probability of a state's values and a label."""
    n_cells = sum(atoms.n_values)
    if len(atoms.y) > MAX_ATOMS or len(atoms.y) * n_cells > MAX_CELLS:
        raise TooLargeError(
            f"the joint distribution has {len(atoms.y):,} atoms over {n_cells:,} feature values; the exact "
            f"solver takes at most {MAX_ATOMS:,} atoms, and {MAX_CELLS:,} as their product"
        )
    weights = np.zeros((len(atoms.y), atoms.n_labels))
    weights[np.arange(len(atoms.y)), atoms.y] = atoms.probability
    has_cell = np.stack([atoms.x[:, a] == v for a, k in enumerate(atoms.n_values) for v in range(k)])
    mass = np.zeros((len(space), atoms.n_labels))
    layers, parent, cell = space.lattice
    block = max(1, 2**24 // max(layer.stop - layer.start for layer in layers))
    for start in range(0, len(atoms.y), block):
        part = slice(start, start + block)
        matched = np.ones((1, len(weights[part])), bool)
        mass[0] += weights[part].sum(axis=0)
        for previous, layer in pairwise(layers):
            matched = matched[parent[layer] - previous.start] & has_cell[cell[layer], part]
            mass[layer] += matched @ weights[part]
    return mass


def _prediction(
    space: StateSpace, mass: Float[np.ndarray, "states labels"], predictor: FinitePredictor | None
) -> Int[np.ndarray, " states"]:
    if predictor is None:
        tied = mass >= (mass.max(axis=1) - _TIE * mass.sum(axis=1))[:, None]
        return mass.shape[1] - 1 - np.argmax(tied[:, ::-1], axis=1)
    return check_labels("the predictor's answer", predictor(space.values.copy()), len(space), mass.shape[1])


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide; 0 where a state has no probability."""
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)
