"""Means over predictions that are about decisions: what they cost, and their net benefit."""

from collections.abc import Sequence

import numpy as np

from ascertain.decisions import check_thresholds, decide, net_benefits_by_row
from ascertain.errors import InputError
from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.problem import Problem

# The mean cost of decisions, alone and with what was spent on acquisitions, in the same unit.
DECISION_METRICS = ("decision_cost", "total_cost")


def decision_metrics(problem: Problem, thresholds: Sequence[float] = ()) -> tuple[str, ...]:
    """The names of what `with_decisions` adds."""
    if len(thresholds) and problem.n_classes != 2:
        raise InputError(f"net benefit is about two classes; the problem has {problem.n_classes}")
    curve = tuple(net_benefit_name(each) for each in check_thresholds(thresholds).tolist())
    return curve if problem.decision_costs is None else (*DECISION_METRICS, *curve)


def net_benefit_name(threshold: float) -> str:
    """The metric that is the net benefit of treating from a probability on."""
    return f"net_benefit_{threshold:g}"


def with_decisions(
    sample: WeightedPredictions, problem: Problem, thresholds: Sequence[float] = ()
) -> WeightedPredictions:
    """Add what decisions cost, if the problem says so, and their net benefit at thresholds.

    Net benefit is of the second of two classes, as are AUROC and AUPRC.
    """
    more = {}
    if problem.decision_costs is not None:
        costs = np.asarray(problem.decision_costs, np.float64)
        cost = costs[sample.y, decide(sample.probabilities.astype(np.float64), costs)]
        more = dict(zip(DECISION_METRICS, (cost, cost + sample.amounts["mean_cost"]), strict=True))
    if len(thresholds):
        by_row = net_benefits_by_row(sample.probabilities[:, 1], sample.y == 1, thresholds)
        names = map(net_benefit_name, thresholds)
        more |= dict(zip(names, by_row.T, strict=True))
    return sample._replace(amounts=sample.amounts | more) if more else sample
