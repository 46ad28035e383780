"""`treatment="auto"`: which treatment of the holes is chosen, given what was measured of each.

A restorer is dropped if its draws are worse than those of the nearest hot deck by more than two standard
errors. Of the treatments that are left, the one with the best policy is chosen, or a simpler one within a
standard error of it. Differences are paired by rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from pydantic import Field

from ascertain._core.json import Strict
from ascertain.evaluation._row_values import ENOUGH_ROWS
from ascertain.restoration._registry import Restoring

AUTO = "auto"
BASELINE = "nearest"
_HOT_DECKS = (BASELINE, "hotdeck")
_DROPPED_BEYOND = 2.0  # paired standard errors behind the baseline's score
_AS_GOOD_WITHIN = 1.0  # paired standard errors of the best value
_NUMBERS = (
    *("restorer_score", "score_difference", "score_standard_error"),
    *("value", "difference", "standard_error"),
)


class Treated(NamedTuple):
    """What becomes of holes: the treatment by name, and for `"restored"` the restorer and its completions."""

    name: str
    restorer: str = ""
    completions: int = 1

    def __str__(self) -> str:
        return str(Restoring(self.restorer, self.completions)) if self.restorer else self.name

    @property
    def complexity(self) -> int:
        """0 for the simplest: direct, restricted, a hot deck, another restorer, several completions.

        Learning directly is what a method that can do so does by itself.
        """
        if not self.restorer:
            return 0 if self.name == "direct" else 1
        if self.completions > 1:
            return 4
        return 2 if self.restorer in _HOT_DECKS else 3


class PairedScore(NamedTuple):
    """A restorer's energy score, and its difference to the baseline's; larger is worse."""

    score: float
    difference: float
    standard_error: float

    @property
    def dropped(self) -> bool:
        """Whether it is worse by more than two standard errors."""
        return self.difference > _DROPPED_BEYOND * self.standard_error


class Measured(Strict):
    """How the values of policies were found."""

    estimator: Literal["dr", "filled"]
    budget: float
    effective_rows: float
    n_rows: int
    by: Literal["brier", "decision_cost"] = "brier"

    @property
    def how(self) -> str:
        """The estimator and the budget, with the reason for them."""
        enough = f"followed to the end in {ENOUGH_ROWS} effective rows"
        if self.estimator == "dr":
            return (
                f"the doubly robust estimate at budget {self.budget:g}, the largest at which policies that "
                f"differ can all be {enough} (here {self.effective_rows:.0f} or more)"
            )
        return (
            f"rollouts at budget {self.budget:g} in rows whose holes {BASELINE} fills, since at no budget "
            f"policies that differ can all be {enough}"
        )


class Consideration(Strict):
    """A treatment that was considered; None is what was not measured of it."""

    candidate: str
    restorer_score: float | None = None
    score_difference: float | None = None
    score_standard_error: float | None = None
    dropped: bool = False
    value: float | None = None
    difference: float | None = None  # to the best value
    standard_error: float | None = None
    chosen: bool = False
    rule: str


class AutoChoice(Strict):
    """What was chosen, why, and by which rule."""

    treatment: str
    restorer: str = ""
    completions: int = Field(default=1, ge=1)
    measured: Measured | None = None  # None: nothing is missing
    considered: tuple[Consideration, ...]

    @property
    def treated(self) -> Treated:
        """The chosen treatment."""
        return Treated(self.treatment, self.restorer, self.completions)

    @property
    def sentence(self) -> str:
        """The choice and its reason."""
        if self.measured is None:
            return "Nothing is missing: all treatments are the same, and restricted is the simplest."
        rule = next(each.rule for each in self.considered if each.chosen)
        left_out = [each.candidate for each in self.considered if each.dropped]
        rows = f"{self.measured.n_rows:,} validation rows"
        judged = "what decisions cost, " if self.measured.by == "decision_cost" else ""
        found = f"{self.treated} was chosen: {rule}, on {rows} by {judged}{self.measured.how}."
        return f"{found} Dropped by the scores of their draws: {', '.join(left_out)}." if left_out else found

    def frame(self) -> pd.DataFrame:
        """One row for each treatment that was considered."""
        found = pd.DataFrame([each.model_dump() for each in self.considered])
        return found.astype(dict.fromkeys(_NUMBERS, np.float64))


def nothing_missing() -> AutoChoice:
    """The choice in a table without holes."""
    only = Consideration(candidate="restricted", chosen=True, rule="nothing is missing")
    return AutoChoice(treatment="restricted", considered=(only,))


def choose(
    scores: Mapping[Treated, PairedScore],
    values: Mapping[Treated, Float[np.ndarray, " rows"]],
    measured: Measured,
    clusters: Int[np.ndarray, " rows"] | None = None,
) -> AutoChoice:
    """Choose among treatments by what their policies are worth in each row.

    `scores` are those of restorers, also of dropped ones, which have no values. Rows of one cluster count as
    one in standard errors.
    """
    compared = _compare(values, clusters)
    best = max(compared, key=lambda each: compared[each].value)
    close = [each for each in compared if compared[each].as_good]
    chosen = min(close, key=lambda each: (each.complexity, -compared[each].value))
    considered = []
    for each in dict.fromkeys([*values, *scores]):
        found: dict[str, Any] = {"candidate": str(each), "chosen": each == chosen}
        if each in scores:
            score = scores[each]
            found |= {"restorer_score": score.score, "score_difference": score.difference}
            found |= {"score_standard_error": score.standard_error, "dropped": score.dropped}
        if each in compared:
            found |= compared[each]._asdict()
        rule = _rule(each, chosen, best, close, scores)
        considered.append(Consideration(**found, rule=rule))
    return AutoChoice(
        treatment=chosen.name,
        restorer=chosen.restorer,
        completions=chosen.completions,
        measured=measured,
        considered=tuple(considered),
    )


class _Compared(NamedTuple):
    value: float
    difference: float
    standard_error: float

    @property
    def as_good(self) -> bool:
        return self.difference >= -_AS_GOOD_WITHIN * self.standard_error


def _compare(
    values: Mapping[Treated, Float[np.ndarray, " rows"]], clusters: Int[np.ndarray, " rows"] | None
) -> dict[Treated, _Compared]:
    """The mean value of each treatment, and its difference to the best one's with a standard error."""
    best = max(values.values(), key=lambda each: each.mean())
    found = {}
    for treated, each in values.items():
        difference = each - best
        error = _standard_error(difference, clusters)
        found[treated] = _Compared(float(each.mean()), float(difference.mean()), float(error))
    return found


def _standard_error(values: Float[np.ndarray, " rows"], clusters: Int[np.ndarray, " rows"] | None) -> float:
    """The standard error of a mean over rows, of which those of one cluster may be alike."""
    if clusters is None:
        return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    sums = np.bincount(clusters, values - values.mean())
    n = len(sums)
    return float(np.sqrt(np.square(sums).sum() * n / (n - 1)) / len(values)) if n > 1 else 0.0


def _rule(
    treated: Treated,
    chosen: Treated,
    best: Treated,
    close: Sequence[Treated],
    scores: Mapping[Treated, PairedScore],
) -> str:
    """What decided about a treatment, in words."""
    if treated in scores and scores[treated].dropped:
        return f"its draws are worse than those of {BASELINE} by more than 2 standard errors"
    if treated == best:
        return "best value" if treated == chosen else "best value, but a simpler one is as good"
    if treated == chosen:
        return f"the simplest within 1 standard error of the best value, that of {best}"
    if treated in close:
        return "within 1 standard error of the best value, but not the simplest"
    return "worse than the best value by more than 1 standard error"
