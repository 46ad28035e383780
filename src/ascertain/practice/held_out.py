"""A user's table, cut into rows to train on, rows to choose a model with and rows to report on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain._core.checks import is_real
from ascertain.errors import InputError
from ascertain.estimator.training import Rows
from ascertain.problem import Problem, Table
from ascertain.tables.encoding import Encoding
from ascertain.tables.reading import UserTable, encode

VALIDATION = 0.2  # of the rows that are not held out, as in `AcquisitionClassifier`


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A table that is ready to fit and score models.

    Parameters
    ----------
    table
        The whole table.
    encoding, aside
        How the columns of the training rows become features, and which columns are set aside, and why.
    problem
        Actions, costs and the budget.
    rows
        What models are fitted to.
    training
        The training rows, each once.
    selection
        The validation rows, each once: they say when to stop training, and which model is the best.
    test
        The rows that no model and no choice has seen.
    """

    table: UserTable
    encoding: Encoding
    aside: dict[str, str]
    problem: Problem
    rows: Rows
    training: Table
    selection: Table
    test: Table

    @property
    def budget(self) -> float:
        """What may be spent on one row."""
        return float(str(np.asarray(self.problem.budget)))  # 0.3, not the 0.30000001 that is nearest

    @property
    def prices(self) -> Float[np.ndarray, " actions"]:
        """What each action costs."""
        return np.array([action.price for action in self.encoding.actions], np.float64)


def hold_out(
    table: UserTable,
    *,
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[str] = (),
    budget: float | None = None,
    test_fraction: float = 0.25,
    seed: int = 0,
) -> HeldOut:
    """Hold out test rows, a share of each class, and prepare the others for training.

    Parameters
    ----------
    table
        The table.
    costs, groups, known
        As for `ascertain.tables.reading.encode`.
    budget
        What may be spent on one row; None: the sum of all costs.
    test_fraction
        The share of the rows that is held out.
    seed
        Which rows these are.
    """
    if not (is_real(test_fraction) and 0 < test_fraction < 1):
        raise InputError(f"the test fraction must be above 0 and below 1, got {test_fraction!r}")
    rng = np.random.RandomState(seed)
    tested = _drawn(table, test_fraction, rng)
    encoding, aside = encode(_some(table, ~tested), costs=costs, groups=groups, known=known)
    x, available = encoding.transform(table.columns.drop(columns=list(aside)), unseen="missing")

    def rows_of(places: Int[np.ndarray, " some"]) -> Table:
        return Table(x[places], table.y[places], available[places], n_classes=len(table.classes))

    others = np.flatnonzero(~tested)
    rows = Rows.cut(x[others], available[others], table.y[others], len(table.classes), VALIDATION, rng)
    return HeldOut(
        table=table,
        encoding=encoding,
        aside=aside,
        problem=encoding.problem(budget, table.classes),
        rows=rows,
        training=rows_of(others[rows.trained]),
        selection=rows_of(others[rows.validated]),
        test=rows_of(np.flatnonzero(tested)),
    )


def _drawn(table: UserTable, fraction: float, rng: np.random.RandomState) -> Bool[np.ndarray, " rows"]:
    """Draw the test rows; each class needs some on either side."""
    tested = np.zeros(len(table.y), bool)
    for label, name in enumerate(table.classes):
        rows = rng.permutation(np.flatnonzero(table.y == label))
        n_tested = round(fraction * len(rows))
        if n_tested == 0 or len(rows) - n_tested < 2:
            raise InputError(
                f"the class {name!r} has {len(rows)} rows, too few to train on some and to test on a share "
                f"of {fraction:g}; give more rows, merge classes, or choose another --test-fraction"
            )
        tested[rows[:n_tested]] = True
    return tested


def _some(table: UserTable, chosen: Bool[np.ndarray, " rows"]) -> UserTable:
    columns = table.columns[chosen].reset_index(drop=True)
    return UserTable(table.name, columns, table.target, table.classes, table.y[chosen], table.unlabelled)
