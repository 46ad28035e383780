"""Scores of a policy at one budget, without intervals: for model selection, where many are needed."""

import warnings

import jax.random as jr
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ascertain._core.checks import check_sample_weight
from ascertain.errors import InputError, did_you_mean
from ascertain.evaluation._as_they_are import predictions_as_they_are
from ascertain.evaluation._decision_scores import DECISION_METRICS
from ascertain.evaluation._incomplete import METRICS, TooFewRowsError, evaluate_incomplete
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer

_ESTIMATORS = ("auto", "dr", "ipw", "restricted")
_DRAWS = 4


def check_score_names(metric: str = "accuracy", estimator: str = "auto", *, decisions: bool = True) -> None:
    """Raise where there is no such metric or estimator; `decisions`: whether they have costs."""
    if metric in DECISION_METRICS and not decisions:
        raise InputError(f"there is no {metric!r}, as nothing says what decisions cost (decision_costs=)")
    metrics = (*METRICS, *DECISION_METRICS) if decisions else METRICS
    for kind, name, known in (("metric", metric, metrics), ("estimator", estimator, _ESTIMATORS)):
        if name not in known:
            raise InputError(f"no {kind} is called {name!r}; {did_you_mean(name, known)}")


def policy_scores(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    restorer: Restorer | None = None,
    protocol: Protocol = PAPER,
    budget: float,
    estimator: str = "auto",
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
) -> dict[str, float]:
    """Roll out a policy on all rows at one budget, and score the predictions after it.

    Parameters
    ----------
    policy, problem, table, predictor, restorer, protocol, seed, sample_weight
        As for `evaluate_incomplete`.
    budget
        What may be spent on one row.
    estimator
        What becomes of rows that lack what the policy asks for: `"dr"` and `"ipw"` estimate what it would
        reach if everything could be bought, and `"restricted"` lets it choose among what a row has. `"auto"`
        is `"restricted"` where nothing is missing, else `"dr"` (`"ipw"` without a restorer). Where fewer than
        30 effective rows can be followed to the end, it warns and is `"restricted"`; the others raise.
    """
    check_score_names(estimator=estimator)
    problem.check(table)
    given, weights = (policy, problem, table, predictor), check_sample_weight(sample_weight, len(table.y))
    complete = bool(np.asarray(table.available).all())
    if estimator in ("dr", "ipw") or (estimator == "auto" and not complete):
        weighted = "ipw" if restorer is None or estimator == "ipw" else "dr"
        try:
            return _estimates(*given, restorer, protocol, budget, weighted, seed, weights)
        except TooFewRowsError as error:
            if estimator != "auto":
                raise
            warnings.warn(
                f"{error}. This score is of rows as they are: the policy chose among what a row has",
                stacklevel=2,
            )
    (sample,) = predictions_as_they_are(
        jr.key(seed), *given, [budget], protocol=protocol, sample_weight=weights
    )
    return sample.scores()


def _estimates(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    restorer: Restorer | None,
    protocol: Protocol,
    budget: float,
    estimator: str,
    seed: int,
    weights: Float[np.ndarray, " rows"] | None,
) -> dict[str, float]:
    found = evaluate_incomplete(
        policy,
        problem,
        table,
        predictor,
        restorer=restorer if estimator == "dr" else None,
        protocol=protocol,
        budgets=[budget],
        draws=_DRAWS,
        seed=seed,
        sample_weight=weights,
    )
    own = found[found["estimator"] == estimator]
    return dict(zip(own["metric"], own["estimate"].astype(float), strict=True))
