"""What is done about habits of measuring: found, kept from what is learned, and told.

A table in which the ill are measured more teaches that who is measured is ill. A policy measures whomever it
wants, so that this is worth nothing, and wrong, once the model is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain.missingness._label_signs import LabelSign, chances_to_keep, even_out, signs_of_label
from ascertain.problem import Problem, Table
from ascertain.tables._encoding import Encoding

_MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class Habits:
    """Actions that are measured more often in some classes, and how often each class's are kept."""

    signs: tuple[LabelSign, ...]
    chance: Float[np.ndarray, "classes actions"]

    @classmethod
    def found(
        cls,
        problem: Problem,
        available: Bool[np.ndarray, "rows features"],
        y: Int[np.ndarray, " rows"],
    ) -> "Habits":
        """Look for habits in training rows."""
        actions = problem.action_names or tuple(f"action {number}" for number in range(problem.n_actions))
        classes = problem.class_names or tuple(str(number) for number in range(problem.n_classes))
        readable = ~(~available @ np.asarray(problem.reveals).T)
        signs, _ = signs_of_label(readable, actions, y, classes)
        return cls(signs, chances_to_keep(readable, actions, y, problem.n_classes, signs))

    def even_out(
        self,
        problem: Problem,
        available: Bool[np.ndarray, "rows features"],
        y: Int[np.ndarray, " rows"],
        seed: int,
    ) -> Bool[np.ndarray, "rows features"]:
        """Which cells are left once every class has its share of each action."""
        if not self.signs:
            return available
        return even_out(np.asarray(problem.reveals), available, y, self.chance, seed)

    def evened(self, problem: Problem, table: Table, seed: int) -> Table:
        """A table with these cells."""
        if not self.signs:
            return table
        even = self.even_out(problem, np.asarray(table.available), np.asarray(table.y), seed)
        return Table(np.asarray(table.x), table.y, even, n_classes=table.n_classes, ids=table.ids)


def known_signs(
    encoding: Encoding,
    columns: Any,
    y: Int[np.ndarray, " rows"],
    classes: Sequence[str],
) -> tuple[LabelSign, ...]:
    """Known columns that rows of some classes lack more often than others."""
    if not encoding.flagged:
        return ()
    is_there = encoding.values(columns, unseen="missing")[:, -len(encoding.flagged) :] == 0
    signs, _ = signs_of_label(is_there, encoding.flagged, y, classes)
    return tuple(replace(sign, known=True) for sign in signs)


def why_left_out(sign: LabelSign) -> str:
    """Why an action that hardly any row of a class has cannot be used."""
    return (
        f"it was measured for {sign.shares}, so that a policy could only learn who is measured; predictions "
        "for cases that are measured for other reasons would be wrong"
    )


def unusable_columns(encoding: Encoding, signs: Sequence[LabelSign]) -> dict[str, str]:
    """The columns of actions that hardly any row of a class has, with the reason."""
    reasons = {sign.action: why_left_out(sign) for sign in signs if not sign.learnable}
    return {
        column: reasons[action.name]
        for action in encoding.actions
        if action.name in reasons
        for column in action.columns
    }


def habit_sentences(signs: Sequence[LabelSign]) -> list[str]:
    """What to know about a model that was fitted to rows with habits of measuring."""
    decided = [sign for sign in signs if not sign.known]
    sentences = [
        f"{sign.action!r} is not used: {why_left_out(sign)}." for sign in decided if not sign.learnable
    ]
    sentences += [
        f"Whether {sign.action!r} is on file tells the class: it is for {sign.shares}. It is known from the "
        "start, so predictions use that. They are right only if new cases lack it for the same reasons; if "
        "they may not, leave the column out."
        for sign in signs
        if sign.known
    ]
    evened = [f"{sign.action!r} ({sign.shares})" for sign in decided if sign.learnable]
    if evened:
        more = f", and {len(evened) - _MOST_NAMED} more" if len(evened) > _MOST_NAMED else ""
        sentences.append(
            f"What was measured tells the class: {', '.join(evened[:_MOST_NAMED])}{more}. A policy that "
            "learns such a habit is wrong about cases that are measured for other reasons. So measurements "
            "were hidden at random in training until every class had as many, and policies are ranked by "
            "estimates that do not profit from the habit."
        )
    return sentences
