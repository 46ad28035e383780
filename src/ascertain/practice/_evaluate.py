"""How a saved model scores on a table of rows that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ascertain._core.frames import listed
from ascertain.errors import InputError
from ascertain.estimator._classifier import AcquisitionClassifier
from ascertain.estimator._habits import Habits
from ascertain.evaluation._curves import curve_budgets
from ascertain.practice._new_rows import match_columns
from ascertain.practice.comparison._calibration import calibration_sentences, measure_calibration
from ascertain.practice.comparison._followed import follow
from ascertain.practice.comparison._scoring import Score, find_score, score
from ascertain.practice.comparison._subgroups import Subgroups, find_columns, score_subgroups
from ascertain.problem import Table
from ascertain.reporting._text import counted
from ascertain.tables._reading import UserTable, take_instances, take_target, take_weights


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores by budget, and in subgroups."""

    target: str
    classes: dict[str, int]  # how many rows of each
    budgets: tuple[float, ...]
    scores: pd.DataFrame  # of `score`
    subgroups: tuple[Subgroups, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """How many rows were scored."""
        return sum(self.classes.values())

    @property
    def rarest(self) -> tuple[str, int]:
        """The class with the fewest rows, of those that occur."""
        return min(((name, size) for name, size in self.classes.items() if size), key=lambda each: each[1])

    def score(self, budget: float, estimator: str, metric: str = "auroc") -> Score:
        """One of the scores."""
        return find_score(self.scores, budget, estimator, metric)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        plain = self.scores.astype(object).where(self.scores.notna(), None)
        return {
            "target": self.target,
            "rows": self.rows,
            "classes": self.classes,
            "rarest_class": self.rarest[0],
            "rarest_rows": self.rarest[1],
            "scores": plain.to_dict("records"),
            "subgroups": [record for each in self.subgroups for record in each.to_json()],
            "notes": list(self.notes),
        }


def evaluate_rows(
    model: AcquisitionClassifier,
    table: pd.DataFrame,
    name: str,
    *,
    target: str | None = None,
    budgets: Sequence[float] | None = None,
    by: Sequence[str] = (),
    rows_of: str | None = None,
    weights: str | None = None,
    effort: str = "standard",
    seed: int = 0,
) -> Evaluation:
    """Score a model's policy on rows that it was not fitted to.

    Parameters
    ----------
    model
        A fitted classifier.
    table
        The rows, with their classes; columns are matched by name.
    name
        What the table is called, for messages.
    target
        The column of classes; by default the one that the model was fitted with.
    budgets
        By default five, from nothing to what the policy was fitted for.
    by
        Columns to make subgroups by.
    rows_of
        The column that says which rows belong together, such as those of a patient; intervals allow for it.
    weights
        The column that says how much each row counts; rows of weight 0 are left out.
    effort, seed
        How many draws are made, and of what.
    """
    advisor = model.advisor_
    target = target or advisor.target
    if target is None:
        raise InputError("the model does not know the name of its target; name the column with --target")
    user = take_target(table, target, name)
    if weights is not None:
        user = take_weights(user, weights)
    columns = find_columns(table.loc[user.columns.index].reset_index(drop=True), by, target)
    codes = _codes(user, [str(each) for each in advisor.classes])
    if rows_of is not None:
        user = take_instances(user, rows_of)
    rows = match_columns(advisor.encoding, user.columns, used=by)
    x, available = advisor.encoding.transform(rows.columns, unseen="missing")
    tested = Table(x, codes, available, n_classes=len(advisor.classes), ids=user.instances)
    amounts = _budgets(model, budgets)
    habits = Habits.found(advisor.problem, available, codes)
    ways: dict[str, Any] = {"habits": habits, "weights": user.weights, "effort": effort, "seed": seed}
    scores = score(advisor, tested, amounts, amounts, advisor.restorer, **ways).frame
    subgroups = [score_subgroups(advisor, tested, column, advisor.restorer, **ways) for column in columns]
    sizes = np.bincount(codes, minlength=len(advisor.classes))
    counts = {str(label): int(size) for label, size in zip(advisor.classes, sizes, strict=True)}
    notes = list(rows.notes)
    if habits.signs:
        names = listed(sign.action for sign in habits.signs)
        notes.append(
            f"Being measured tells the class in this table: {names}. For scores of rows as they are, "
            "measurements were hidden at random until every class had as many."
        )
    if user.weightless:
        notes.append(
            f"{counted(user.weightless, 'row')} of weight 0 in {weights!r} {_were(user.weightless)}."
        )
    if user.unlabelled:
        notes.append(f"{counted(user.unlabelled, 'row')} without {target!r} {_were(user.unlabelled)}.")
    followed = follow(advisor, tested, habits, weights=user.weights, seed=seed)
    error = find_score(scores, float(advisor.problem.budget), followed.estimator, "ece")
    calibration = measure_calibration(followed.sample, error, seed=seed)
    notes += calibration_sentences(calibration, stop_early=bool(model.stop_early))
    return Evaluation(target, counts, tuple(amounts), scores, tuple(subgroups), tuple(notes))


def _were(left_out: int) -> str:
    return "was left out" if left_out == 1 else "were left out"


def _budgets(model: AcquisitionClassifier, budgets: Sequence[float] | None) -> list[float]:
    problem = model.advisor_.problem
    if budgets is None:
        budget = float(str(np.asarray(problem.budget)))
        return list(curve_budgets(problem.price_list, budget))
    for each in budgets:
        if not 0 <= each < float("inf"):
            raise InputError(f"--budgets: {each:g} is no budget; give numbers from 0 on, such as 0,5,10")
    return sorted({float(each) for each in budgets})


def _codes(table: UserTable, classes: list[str]) -> np.ndarray:
    """The class of each row by its place among the model's."""
    for name in table.classes:
        if name not in classes:
            raise InputError(
                f"{table.name} has the class {name!r} in {table.target!r}, which the model does not know; it "
                f"knows {listed(classes)}"
            )
    return np.array([classes.index(name) for name in table.classes])[table.y]
