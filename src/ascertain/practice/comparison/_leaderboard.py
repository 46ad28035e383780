"""Which policies are compared on a user's table, and which one is the best.

The best is chosen on the validation rows, by the lower end of the 95% interval of its AUROC at the budget.
The fewer rows an estimate rests on, the wider its interval, so such a policy must look better by more. A
policy without an estimate, because hardly any row has what it asks for, is chosen only if no other has one.
AUROC is used since accuracy says nothing where one class is rare, and since the predictor and its calibration
are the same for all. Scores are reported on test rows, which had no part in training or choosing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ascertain import methods, restoration
from ascertain.errors import InputError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._classifier import AcquisitionClassifier
from ascertain.estimator._training import FitChoices, Shared, fit_advisor
from ascertain.evaluation._curves import curve_budgets
from ascertain.practice.comparison._held_out import VALIDATION, HeldOut
from ascertain.practice.comparison._scoring import (
    ESTIMATORS,
    METRIC,
    RESAMPLES,
    Estimator,
    Score,
    find_score,
    score,
)
from ascertain.reporting._names import policy_name


@dataclass(frozen=True)
class Candidate:
    """A policy to fit: a method, its state variant and a treatment of the holes."""

    method: str
    state: str
    treatment: str

    @property
    def name(self) -> str:
        """The name that users see."""
        if self.method == "static":
            return "fixed panel" if self.treatment == "restored" else f"fixed panel {self.treatment}"
        return f"{policy_name(self.method, self.state)} {self.treatment}"

    @property
    def fitting(self) -> str:
        """The stage in which it is fitted, as `fit_advisor` names it."""
        return f"policy ({self.method}, {self.treatment})"

    @property
    def scoring(self) -> str:
        """The stage in which it is scored."""
        return f"scores ({self.method}, {self.treatment})"


# With noise, as completions of a row would otherwise look alike and tell the class better than real values.
RESTORER = "pvae_noise"
# The planner, two greedy policies, one of them in both treatments, and what people do without any.
DEFAULTS = (
    Candidate("planner", "s", "direct"),
    Candidate("gdfs", "s", "restored"),
    Candidate("gdfs", "s", "restricted"),
    Candidate("dime", "s", "restored"),
    Candidate("static", "s", "restored"),
)


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A fitted candidate and what `score` returned for the validation rows and for the test rows."""

    candidate: Candidate
    advisor: Advisor
    seconds: float
    validation_scores: pd.DataFrame
    test_scores: pd.DataFrame

    def score(self, budget: float, estimator: str, metric: str = METRIC) -> Score:
        """The score on the test rows."""
        return find_score(self.test_scores, budget, estimator, metric)

    def validation_score(self, estimator: str) -> Score:
        """The score on the validation rows, at the full budget."""
        scores = self.validation_scores
        return find_score(scores, float(scores["budget"].max()), estimator)


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The fitted candidates, the best first.

    They are ranked by the estimator `ranked_by`, and those without such an estimate come last; None if no
    candidate has any estimate. All were fitted with the same restorer, effort and seed.
    """

    candidates: tuple[FittedCandidate, ...]
    ranked_by: Estimator | None
    budgets: tuple[float, ...]
    restorer: str = RESTORER
    effort: str = "standard"
    seed: int = 0

    @property
    def best(self) -> FittedCandidate:
        """The first."""
        return self.candidates[0]

    @property
    def common_estimator(self) -> Estimator:
        """The best estimator by which every candidate has a test score at the full budget."""
        return _best_estimator(self.candidates, self.budgets[-1])

    @property
    def best_candidates_estimator(self) -> Estimator:
        """The best estimator by which the best candidate has a test score at the full budget."""
        return _best_estimator([self.best], self.budgets[-1])


def stages(candidates: Sequence[Candidate], restorer: str) -> list[str]:
    """List the stages of `compare` in order, as it names them."""
    each = [stage for candidate in candidates for stage in (candidate.fitting, candidate.scoring)]
    return ["predictor", f"restorer ({restorer})", *each]


def check_candidates(candidates: Sequence[Candidate], restorer: str, effort: str) -> list[str]:
    """Raise where a part does not exist or cannot be saved; return warnings about the others."""
    for each in candidates:
        FitChoices(each.method, each.state, each.treatment, restorer, "mlp", effort).check()
    part = restoration.get(restorer)
    if not part.stored:
        able = ", ".join(name for name in restoration.names() if restoration.get(name).stored)
        raise InputError(f"the restorer {restorer!r} cannot be saved with a model; use {able}")
    keepers = [each.method for each in candidates if methods.get(each.method).keeps_rows]
    if part.keeps_rows:
        keepers.append(f"the {part.label}")
    return [
        f"{keeper} keeps the training rows: the model will contain them, so do not give it to anybody who "
        "may not see the data"
        for keeper in dict.fromkeys(keepers)
    ]


def compare(
    data: HeldOut,
    candidates: Sequence[Candidate] = DEFAULTS,
    *,
    restorer: str = RESTORER,
    effort: str = "standard",
    seed: int = 0,
    resamples: int = RESAMPLES,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> Leaderboard:
    """Fit candidates, which share predictor and restorer, score them, and rank them.

    `restorer` and `effort` are those of `AcquisitionClassifier`, `resamples` those of bootstrap intervals.
    `on_stage` is called with the name of a stage when it begins, and with its name and time when it ends.
    """
    budgets = curve_budgets(data.prices, data.budget)
    shared, fitted = Shared(), []
    for candidate in candidates:
        choices = FitChoices(candidate.method, candidate.state, candidate.treatment, restorer, "mlp", effort)
        start = time.perf_counter()
        advisor = fit_advisor(
            seed,
            choices,
            data.encoding,
            np.array(data.table.classes),
            data.problem,
            data.rows,
            np.ones(len(data.table.classes)),
            on_stage,
            shared,
        )
        on_stage(candidate.scoring)
        began = time.perf_counter()
        validation_scores, test_scores = (
            score(advisor, table, budgets, estimated, effort=effort, resamples=resamples, seed=seed)
            for table, estimated in ((data.selection, budgets[-1:]), (data.test, budgets))
        )
        on_stage(f"{candidate.scoring}: {time.perf_counter() - began:.1f} s")
        fitted.append(FittedCandidate(candidate, advisor, began - start, validation_scores, test_scores))
    return replace(rank(fitted, budgets), restorer=restorer, effort=effort, seed=seed)


def rank(fitted: Sequence[FittedCandidate], budgets: tuple[float, ...]) -> Leaderboard:
    """Rank by the best estimator that any candidate has on the validation rows; ties keep their order."""
    for estimator in ESTIMATORS:
        if any(each.validation_score(estimator).exists for each in fitted):
            ordered = sorted(fitted, key=lambda each: _sort_key(each, estimator), reverse=True)
            return Leaderboard(tuple(ordered), estimator, budgets)
    return Leaderboard(tuple(fitted), None, budgets)


def as_classifier(data: HeldOut, board: Leaderboard) -> AcquisitionClassifier:
    """The best candidate as a fitted `AcquisitionClassifier`."""
    candidate = board.best.candidate
    model = AcquisitionClassifier(
        method=candidate.method,
        state=candidate.state,
        treatment=candidate.treatment,
        restorer=board.restorer,
        budget=data.budget,
        validation_fraction=VALIDATION,
        effort=board.effort,
        random_state=board.seed,
    )
    return model.adopt(board.best.advisor)


def _sort_key(fitted: FittedCandidate, estimator: Estimator) -> tuple[bool, float]:
    """Lower end of the interval; without this estimate, that of rows as they are, behind all others."""
    score = fitted.validation_score(estimator)
    low = score.low if score.exists else fitted.validation_score("restricted").low
    return score.exists, low if np.isfinite(low) else -np.inf


def _best_estimator(fitted: Sequence[FittedCandidate], budget: float) -> Estimator:
    complete = (
        estimator for estimator in ESTIMATORS if all(each.score(budget, estimator).exists for each in fitted)
    )
    return next(complete, "restricted")
