"""A user's table, split into rows to train on, rows to choose a model with and rows to test on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain._core.checks import is_real
from ascertain._core.clusters import draw_instances
from ascertain.errors import InputError
from ascertain.estimator._habits import Habits, known_signs, unusable_columns
from ascertain.estimator._training import TrainingRows
from ascertain.missingness._label_signs import LabelSign
from ascertain.problem import Problem, Table
from ascertain.tables._encoding import Encoding
from ascertain.tables._reading import UserTable, encode

VALIDATION = 0.2  # of the rows that are not held out, as in `AcquisitionClassifier`


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A table that is ready to fit and score models."""

    table: UserTable  # all of it
    encoding: Encoding  # how columns become features, fitted without the test rows
    aside: dict[str, str]  # columns that are not used, and why
    problem: Problem
    rows: TrainingRows  # what models are fitted to
    training: Table  # the training rows, each once
    selection: Table  # the validation rows, each once: for early stopping and for choosing a model
    test: Table  # the rows that were used for neither
    validated: Int[np.ndarray, " validated"]  # the places of the validation rows in the table
    tested: Int[np.ndarray, " tested"]  # those of the test rows
    habits: Habits  # of the actions that are used
    signs: tuple[LabelSign, ...]  # what tells the class by being measured, also of columns that are not used

    @property
    def budget(self) -> float:
        """What may be spent on one row."""
        return float(str(np.asarray(self.problem.budget)))  # 0.3, not the 0.30000001 that is nearest

    def weights_of(self, places: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"] | None:
        """How much rows of the table count; None: all the same."""
        return None if self.table.weights is None else self.table.weights[places]


def hold_out(
    table: UserTable,
    *,
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[str] = (),
    default_cost: float | None = None,
    setup: Mapping[str, Any] | None = None,
    decision_costs: Any = None,
    budget: float | None = None,
    test_fraction: float = 0.25,
    seed: int = 0,
) -> HeldOut:
    """Hold out test rows, a share of each class, and prepare the others for training.

    `costs`, `groups`, `known`, `default_cost` and `setup` are those of `ascertain.tables._reading.encode`.
    Without a `budget`, all actions may be bought. `decision_costs` are those of `AcquisitionClassifier`.
    """
    if not (is_real(test_fraction) and 0 < test_fraction < 1):
        raise InputError(f"the test fraction must be above 0 and below 1, got {test_fraction!r}")
    rng = np.random.RandomState(seed)
    tested = _draw_test_rows(table, test_fraction, rng)
    others = np.flatnonzero(~tested)
    instances = table.instances
    mine = None if instances is None else instances[others]
    counted = None if table.weights is None else table.weights[others]
    untested = replace(
        table, columns=table.columns.iloc[others], y=table.y[others], instances=mine, weights=counted
    )

    def encoded(leave_out: Mapping[str, str]) -> tuple[Encoding, dict[str, str]]:
        return encode(
            untested,
            costs=costs,
            groups=groups,
            known=known,
            default_cost=default_cost,
            setup=setup,
            leave_out=leave_out,
        )

    encoding, aside = encoded({})
    signs = _signs(encoding, untested, aside)
    if unusable := unusable_columns(encoding, signs):
        encoding, aside = encoded(unusable)
    x, available = encoding.transform(table.columns, unseen="missing")
    problem = encoding.problem(budget, table.classes)
    if decision_costs is not None:
        problem = problem.with_decision_costs(decision_costs)
    habits = Habits.found(problem, available[others], table.y[others])

    def rows_of(places: Int[np.ndarray, " some"]) -> Table:
        ids = None if instances is None else instances[places]
        return Table(x[places], table.y[places], available[places], n_classes=len(table.classes), ids=ids)

    # Nothing may learn from what was measured in whom; scores are corrected for that by propensities.
    even = habits.even_out(problem, available[others], table.y[others], seed)
    given = x[others], even, table.y[others]
    rows = TrainingRows.split(*given, len(table.classes), VALIDATION, rng, counted, mine)
    return HeldOut(
        table=table,
        encoding=encoding,
        aside=aside,
        problem=problem,
        rows=rows,
        training=rows_of(others[rows.trained]),
        selection=rows_of(others[rows.validated]),
        test=rows_of(np.flatnonzero(tested)),
        validated=others[rows.validated],
        tested=np.flatnonzero(tested),
        habits=habits,
        signs=signs,
    )


def _signs(encoding: Encoding, table: UserTable, aside: Mapping[str, str]) -> tuple[LabelSign, ...]:
    """What tells the class by being measured."""
    columns = table.columns.drop(columns=list(aside))
    _, available = encoding.transform(columns, unseen="missing")
    signs = Habits.found(encoding.problem(None, table.classes), available, table.y).signs
    return signs + known_signs(encoding, columns, table.y, table.classes)


def _draw_test_rows(
    table: UserTable, fraction: float, rng: np.random.RandomState
) -> Bool[np.ndarray, " rows"]:
    """Draw the test rows; each class needs some on either side, and rows that belong together stay so."""
    tested = np.zeros(len(table.y), bool)
    if table.instances is not None:
        tested = draw_instances(table.y, table.instances, fraction, rng)
    for label, name in enumerate(table.classes):
        rows = np.flatnonzero(table.y == label)
        if table.instances is None:
            rows = rng.permutation(rows)
            tested[rows[: round(fraction * len(rows))]] = True
        n_tested = int(tested[rows].sum())
        if n_tested == 0 or len(rows) - n_tested < 2:
            among = "" if table.instances is None else f" of {_counted_instances(table, rows)}"
            raise InputError(
                f"the class {name!r} has {len(rows)} rows{among}, too few to train on some and to test on a "
                f"share of {fraction:g}; give more rows, merge classes, or choose another --test-fraction"
            )
    return tested


def _counted_instances(table: UserTable, rows: Int[np.ndarray, " some"]) -> str:
    """How many instances rows belong to, in words."""
    assert table.instances is not None
    return f"{len(np.unique(table.instances[rows]))} in {table.rows_of!r}"
