"""Fitting with `treatment="auto"`: score restorers, fit a policy for each treatment, and choose one.

Only the training and validation rows are used, as they are. All policies are judged in the same validation
rows by the same predictor, which saw observed cells only, with the same propensities, and with futures that
the nearest hot deck draws for all of them.
"""

from collections.abc import Sequence

import numpy as np

from ascertain import methods
from ascertain._core.clusters import clusters_of
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._training import FitChoices, Shared, fit_advisor, ranges_stage, restorer_stage
from ascertain.evaluation._auto import (
    BASELINE,
    AutoChoice,
    Measured,
    PairedScore,
    Treated,
    choose,
    nothing_missing,
)
from ascertain.evaluation._propensity import availability_weights
from ascertain.evaluation._rollouts import sample_by_class, sample_rows
from ascertain.evaluation._row_values import row_values
from ascertain.problem import Table
from ascertain.restoration import Restorer
from ascertain.restoration._ensemble import Ensemble
from ascertain.restoration._registry import Restoring
from ascertain.restoration._score import score_restorer
from ascertain.tables._encoding import Encoding

_QUICK = (Restoring(BASELINE), Restoring("mixture"), Restoring("hotdeck"))
_CANDIDATES = {  # by effort; the ensemble is made of restorers that come before it
    "standard": (*_QUICK, Restoring("miwae"), Restoring("ensemble", 6)),
    "low": _QUICK,
}
_ROWS_AND_DRAWS = {"standard": (2000, 4), "low": (1000, 2)}  # to judge policies with, by effort
_BUDGETS = 8  # the largest that rows support counts
_SCORING = "scores of restorers"


def fit_automatically(
    choices: FitChoices, encoding: Encoding, classes: np.ndarray, shared: Shared
) -> Advisor:
    """Fit with the treatment that is chosen for the method."""
    found = nothing_missing() if shared.rows.complete else _choose(choices, shared)
    return fit_advisor(choices.treating(found.treated), encoding, classes, shared, found)


def automatic_stages(choices: FitChoices) -> list[str]:
    """The stages of `fit_automatically` in order; those of restorers that are dropped will not come."""
    restorings = _CANDIDATES[choices.effort]
    restorers = [restorer_stage(each.name) for each in restorings if each.name != "ensemble"]
    treatments = _treatments(choices, restorings)
    policies = [choices.treating(each).stage for each in treatments]
    last = [restorer_stage(choices.completing), ranges_stage(choices.completing)]
    return ["predictor", *restorers, _SCORING, *policies, _judging(choices), *last]


def _judging(choices: FitChoices) -> str:
    return f"treatments ({choices.policy})"


def _treatments(choices: FitChoices, restorings: Sequence[Restoring]) -> list[Treated]:
    direct = [Treated("direct")] if methods.get(choices.method).learns_directly else []
    return [Treated("restricted"), *direct, *map(_restored, restorings)]


def _restored(restoring: Restoring) -> Treated:
    return Treated("restored", *restoring)


def _choose(choices: FitChoices, shared: Shared) -> AutoChoice:
    predictor, (most_rows, draws) = shared.predictor, _ROWS_AND_DRAWS[shared.effort]
    validation = shared.rows.validation
    scores = _score_restorers(shared, sample_rows(validation, most_rows, shared.seed))
    valid, sampled = sample_by_class(validation, most_rows, shared.seed)
    dropped = {each for each, score in scores.items() if score.dropped}
    left = [each for each in _CANDIDATES[shared.effort] if _restored(each) not in dropped]
    treatments, problem = _treatments(choices, left), shared.problem
    policies = [shared.policy(choices.treating(each)) for each in treatments]
    found = shared.once(
        _judging(choices),
        lambda: row_values(
            policies,
            problem,
            valid,
            predictor,
            restorer=shared.restorer(BASELINE),
            budgets=np.linspace(0, float(problem.budget), 1 + _BUDGETS)[1:].tolist(),
            draws=draws,
            seed=shared.seed,
        ),
    )
    # As in the predictor's loss and calibration: else its probabilities would not be the best ones.
    weight = shared.weights[np.asarray(valid.y)] * sampled
    if shared.rows.weights is not None:
        same, _ = sample_by_class(shared.rows.numbered_validation, most_rows, shared.seed)
        weight = weight * shared.rows.weights[np.asarray(same.ids)]
    values = found.values * (weight / weight.mean())
    measured = Measured(
        estimator=found.estimator,
        budget=found.budget,
        effective_rows=found.effective_rows,
        n_rows=values.shape[1],
        by="brier" if problem.decision_costs is None else "decision_cost",
    )
    return choose(scores, dict(zip(treatments, values, strict=True)), measured, clusters_of(valid.ids))


def _score_restorers(shared: Shared, valid: Table) -> dict[Treated, PairedScore]:
    """Fit and score the restorers, once for all methods; no scores if no row has an action to hide."""
    restorings, problem = _CANDIDATES[shared.effort], shared.problem
    restorers: dict[str, Restorer] = {}
    for name, _ in restorings:
        if name == "ensemble":
            members = shared.restorer_settings(name).members
            shared.adopt_restorer(name, Ensemble(tuple(restorers[each] for each in members)))
        restorers[name] = shared.restorer(name)

    def score() -> dict[Treated, PairedScore]:
        if not bool(problem.readable(valid.available).any()):
            return {}
        weights, key = availability_weights(problem, valid, seed=shared.seed), shared.key("score")
        given = (shared.rows.train, valid)
        scores = {
            name: score_restorer(key, problem, restorer, *given, weights=weights)
            for name, restorer in restorers.items()
        }
        found = {}
        for each in restorings:
            score, difference = scores[each.name], scores[each.name].minus(scores[BASELINE])
            numbers = (score.mean, difference.mean, difference.standard_error)
            found[_restored(each)] = PairedScore(*(float(number) for number in numbers))
        return found

    scores: dict[Treated, PairedScore] = shared.once(_SCORING, score)
    return scores
