"""Which policies are compared on a user's table, and which one is the best.

The best is chosen on the validation rows, by the lower end of the 95% interval of its AUROC at the budget.
The fewer rows an estimate rests on, the wider its interval, so such a policy must look better by more. A
policy without an estimate, because hardly any row has what it asks for, is chosen only if no other has one.
AUROC is used since accuracy says nothing where one class is rare, and since the predictor and its calibration
are the same for all. Where it is known what wrong decisions cost, the best is chosen by the upper end of the
interval of that instead, with what is spent where policies may stop early. Scores are reported on test rows,
which had no part in training or choosing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ascertain import methods, restoration
from ascertain.errors import InputError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._choosing import automatic_stages, fit_automatically
from ascertain.estimator._classifier import AcquisitionClassifier
from ascertain.estimator._training import (
    COMPLETES_NEW_ROWS,
    FitChoices,
    Shared,
    fit_advisor,
    ranges_stage,
    restorer_stage,
    usual_restorer,
)
from ascertain.evaluation._auto import AUTO, BASELINE, Treated
from ascertain.evaluation._curves import curve_budgets
from ascertain.practice.comparison._held_out import VALIDATION, HeldOut
from ascertain.practice.comparison._scoring import (
    ESTIMATORS,
    METRIC,
    Difference,
    Estimator,
    Score,
    Scores,
    difference,
    find_score,
    score,
)
from ascertain.reporting._names import policy_name, restorer_name
from ascertain.restoration._registry import Restoring


@dataclass(frozen=True)
class Candidate:
    """A policy to fit: a method, its state variant and a treatment of the holes."""

    method: str
    state: str
    treatment: str
    restorer: str | None = None  # None: the one that all are fitted with

    @property
    def name(self) -> str:
        """The name that users see: what it does in words, and in brackets what it is called."""
        return self.named(self._treated)

    @property
    def _treated(self) -> str:
        """The treatment, with the restorer if it has its own."""
        own = "" if self.restorer is None else f" by {restorer_name(self.restorer)}"
        return f"{self.treatment}{own}"

    def named(self, treatment: str) -> str:
        """The name with another treatment."""
        label = policy_name(self.method)
        if self.method == FLOOR.method:
            return f"random order ({label})"
        family = methods.get(self.method).family if self.method in methods.names() else "policy"
        words = _WORDS.get(self.method) or _WORDS.get(family, family)
        return f"{words} ({label if self.state == 's' else f'{label} {self.state}'}, {treatment})"

    def choices(self, restorer: str | None, effort: str, *, stop_early: bool = False) -> FitChoices:
        """What to fit; only some methods can stop early."""
        named = self.restorer or restorer
        name, completions = Restoring.parse(named or usual_restorer(effort))
        return FitChoices(
            method=self.method,
            state=self.state,
            treatment=self.treatment,
            restorer=name,
            predictor="mlp",
            effort=effort,
            completions=completions,
            stop_early=stop_early and methods.get(self.method).weighs_prices,
            completing=COMPLETES_NEW_ROWS if named is None else name,
        )

    @property
    def scoring(self) -> str:
        """The stage in which it is scored."""
        return f"scores ({self.method}, {self._treated})"


_WORDS = {  # by method or family
    "greedy": "one step at a time",
    "static": "same panel for everybody",
    "sequential": "in the order of the columns",
    "stop": "nothing bought",
}
PANEL = "static"  # the method
FLOOR = Candidate("random", "s", "restricted")  # what everything is compared with; it is never chosen

# By effort. A quick look compares what looks ahead with what people do without any policy. A longer one adds
# two greedy policies, one of them in both treatments. It is also restored by the Partial VAE: that makes less
# of columns that few rows have, so that more can be said about its policy where rows are measured unevenly.
_PLANNER = Candidate("planner", "s", "direct")
# Chosen on rows as they are: what is drawn given the class would make hardly measured columns look best.
_FIXED = Candidate(PANEL, "s", "restricted")
DEFAULTS = {
    "standard": (
        _PLANNER,
        Candidate("gdfs", "s", "restored"),
        Candidate("gdfs", "s", "restored", "pvae_noise"),
        Candidate("gdfs", "s", "restricted"),
        Candidate("dime", "s", "restored"),
        _FIXED,
    ),
    "low": (_PLANNER, _FIXED),
}
RESTORERS = {"standard": None, "low": "hotdeck"}  # the classifier's own, and one that needs no training


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A fitted candidate and what `score` returned for the validation rows and for the test rows."""

    candidate: Candidate
    advisor: Advisor
    seconds: float
    validated: Scores
    tested: Scores
    ranking_metric: str = METRIC  # or what decisions cost, if that is known, alone or with what is spent

    @property
    def validation_scores(self) -> pd.DataFrame:
        """Scores on the validation rows."""
        return self.validated.frame

    @property
    def test_scores(self) -> pd.DataFrame:
        """Scores on the test rows."""
        return self.tested.frame

    @property
    def name(self) -> str:
        """The name that users see, with the treatment that was chosen."""
        auto = self.advisor.auto
        return self.candidate.name if auto is None else self.candidate.named(f"auto: {auto.treated}")

    @property
    def treatment(self) -> str:
        """The treatment, which may have been chosen."""
        auto = self.advisor.auto
        return self.candidate.treatment if auto is None else auto.treatment

    def score(self, budget: float, estimator: str, metric: str = METRIC) -> Score:
        """The score on the test rows."""
        return find_score(self.test_scores, budget, estimator, metric)

    def validation_score(self, estimator: str) -> Score:
        """The score on the validation rows, at the full budget, by which candidates are ranked."""
        scores = self.validation_scores
        return find_score(scores, float(scores["budget"].max()), estimator, self.ranking_metric)

    def bound(self, estimator: str) -> float:
        """The end of the interval by which candidates are ranked: the upper one of costs, else the lower."""
        score = self.validation_score(estimator)
        return score.low if self.ranking_metric == METRIC else score.high


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The fitted candidates, the best first.

    They are ranked by the estimator `ranked_by`, and those without such an estimate come last; None if no
    candidate has any estimate. All were fitted with the same effort and seed, and with the same restorer but
    for those that have their own.
    """

    candidates: tuple[FittedCandidate, ...]
    ranked_by: Estimator | None
    budgets: tuple[float, ...]
    restorer: str | None = None
    effort: str = "standard"
    seed: int = 0
    stop_early: bool = False

    @property
    def best(self) -> FittedCandidate:
        """The first, but for the random order."""
        learned = (each for each in self.candidates if each.candidate.method != FLOOR.method)
        return next(learned, self.candidates[0])

    @property
    def panel(self) -> FittedCandidate | None:
        """The same panel for everybody, if it is compared."""
        return next((each for each in self.candidates if each.candidate.method == PANEL), None)

    @property
    def treated(self) -> Treated:
        """What became of the holes while the best candidate was trained."""
        auto = self.best.advisor.auto
        choices = self.best.candidate.choices(self.restorer, self.effort)
        return choices.treated if auto is None else auto.treated

    def to_panel(self, fitted: FittedCandidate) -> Difference | None:
        """How much better a candidate is than the panel on test rows, by what all are ranked by.

        By the best estimator that both have. None for the panel itself, and where a score is missing.
        """
        if self.panel is None or fitted is self.panel:
            return None
        estimator, metric = self.estimator_of(fitted, self.panel), fitted.ranking_metric
        return difference(fitted.tested, self.panel.tested, self.budgets[-1], estimator, metric)

    @property
    def knows_decision_costs(self) -> bool:
        """Whether it is known what wrong decisions cost; then these are what candidates are ranked by."""
        return self.best.ranking_metric != METRIC

    def estimator_of(self, *fitted: FittedCandidate) -> Estimator:
        """The best estimator by which each of these candidates has a test score at the full budget."""
        budget = self.budgets[-1]
        shared = (name for name in ESTIMATORS if all(each.score(budget, name).exists for each in fitted))
        return next(shared, "restricted")

    @property
    def best_candidates_estimator(self) -> Estimator:
        """The best estimator by which the best candidate has a test score at the full budget."""
        return self.estimator_of(self.best)


def default_candidates(effort: str, restorer: str | None) -> tuple[Candidate, ...]:
    """What is compared by default; only with the restorer that is named, if one is."""
    return tuple(each for each in DEFAULTS[effort] if restorer is None or each.restorer is None)


def with_floor(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Add the random order where several candidates are compared."""
    alone = len(candidates) == 1 or any(each.method == FLOOR.method for each in candidates)
    return tuple(candidates) if alone else (*candidates, FLOOR)


def stages(candidates: Sequence[Candidate], restorer: str | None, effort: str) -> list[str]:
    """List the stages of `compare` in order, as it names them; some of an automatic choice may not come."""
    each = ["predictor"]
    for candidate in candidates:
        choices = candidate.choices(restorer, effort)
        automatic = candidate.treatment == AUTO
        restorers = dict.fromkeys((choices.completing, choices.treated.restorer or choices.completing))
        by_hand = [*map(restorer_stage, restorers), choices.stage, ranges_stage(choices.completing)]
        fitting = automatic_stages(choices) if automatic else by_hand
        each += [*fitting, candidate.scoring]
    return list(dict.fromkeys(each))


def check_candidates(candidates: Sequence[Candidate], restorer: str | None, effort: str) -> list[str]:
    """Raise where a part does not exist or cannot be saved; return warnings about the others."""
    for each in candidates:
        each.choices(restorer, effort).check()
    part = restoration.get(Restoring.parse(restorer or COMPLETES_NEW_ROWS).name)
    if not part.stored:
        able = ", ".join(name for name in restoration.names() if restoration.get(name).stored)
        raise InputError(f"the restorer {part.name!r} cannot be saved with a model; use {able}")
    keepers = [each.method for each in candidates if methods.get(each.method).keeps_rows]
    if part.keeps_rows:
        keepers.append(f"the {part.label}")
    so = "so do not give it to anybody who may not see the data"
    return [
        f"{each} keeps the training rows: the model will contain them, {so}"
        for each in dict.fromkeys(keepers)
    ]


def compare(
    data: HeldOut,
    candidates: Sequence[Candidate],
    *,
    restorer: str | None = None,
    effort: str = "standard",
    seed: int = 0,
    stop_early: bool = False,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> Leaderboard:
    """Fit candidates, which share predictor and restorers, score them, and rank them.

    `restorer` may name the number of completions, as in `"ensemble:6"`; None and `effort` are as in
    `AcquisitionClassifier`. So is `stop_early`, for the methods that can; then what is spent counts in the
    ranking.
    `on_stage` is called with the name of a stage when it begins, and with its name and time when it ends.
    """
    budgets = curve_budgets(data.encoding.price_list, data.budget)
    equal = np.ones(len(data.table.classes))
    shared = Shared(seed, data.problem, data.rows, equal, effort=effort, on_stage=on_stage, habits=data.signs)
    metric = METRIC
    if data.problem.decision_costs is not None:
        metric = "total_cost" if stop_early else "decision_cost"
    automatic, fitted = any(each.treatment == AUTO for each in candidates), []
    for candidate in candidates:
        start = time.perf_counter()
        fit = fit_automatically if candidate.treatment == AUTO else fit_advisor
        choices = candidate.choices(restorer, effort, stop_early=stop_early)
        advisor = fit(choices, data.encoding, np.array(data.table.classes), shared)
        # Where restorers were chosen, they differ; all policies are judged by the same one.
        outcomes = shared.restorer(BASELINE if automatic else choices.completing)
        on_stage(candidate.scoring)
        began = time.perf_counter()
        validated, tested = (
            score(
                advisor,
                table,
                budgets,
                estimated,
                outcomes,
                habits=data.habits,
                weights=data.weights_of(places),
                effort=effort,
                seed=seed,
            )
            for table, places, estimated in (
                (data.selection, data.validated, budgets[-1:]),
                (data.test, data.tested, budgets),
            )
        )
        on_stage(f"{candidate.scoring}: {time.perf_counter() - began:.1f} s")
        fitted.append(FittedCandidate(candidate, advisor, began - start, validated, tested, metric))
    found = rank(fitted, budgets)
    return replace(found, restorer=restorer, effort=effort, seed=seed, stop_early=stop_early)


def rank(fitted: Sequence[FittedCandidate], budgets: tuple[float, ...]) -> Leaderboard:
    """Rank by the best estimator that any candidate has on the validation rows; ties keep their order.

    The random order does not count, unless it is alone: rows follow it more often than what is to be chosen.
    """
    learned = [each for each in fitted if each.candidate.method != FLOOR.method] or fitted
    for estimator in ESTIMATORS:
        if any(each.validation_score(estimator).exists for each in learned):
            ordered = sorted(fitted, key=lambda each: _sort_key(each, estimator), reverse=True)
            return Leaderboard(tuple(ordered), estimator, budgets)
    return Leaderboard(tuple(fitted), None, budgets)


def as_classifier(data: HeldOut, board: Leaderboard) -> AcquisitionClassifier:
    """The best candidate as a fitted `AcquisitionClassifier`."""
    candidate, costs = board.best.candidate, data.problem.decision_costs
    named = candidate.restorer or board.restorer
    restorer, completions = (None, 1) if named is None else Restoring.parse(named)
    model = AcquisitionClassifier(
        method=candidate.method,
        state=candidate.state,
        treatment=candidate.treatment,
        restorer=restorer,
        completions=completions,
        budget=data.budget,
        validation_fraction=VALIDATION,
        effort=board.effort,
        random_state=board.seed,
        decision_costs=None if costs is None else np.asarray(costs, np.float64),
        stop_early=board.stop_early and methods.get(candidate.method).weighs_prices,
    )
    return model.adopt(replace(board.best.advisor, target=data.table.target))


def _sort_key(fitted: FittedCandidate, estimator: Estimator) -> tuple[bool, float]:
    """Larger is better: the end of the interval; without this estimate, that of rows as they are, behind."""
    exists = fitted.validation_score(estimator).exists
    bound = fitted.bound(estimator if exists else "restricted")
    value = bound if fitted.ranking_metric == METRIC else -bound
    return exists, value if np.isfinite(value) else -np.inf
