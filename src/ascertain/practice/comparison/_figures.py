"""Scores by budget, and the calibration of predicted probabilities, drawn."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from ascertain.evaluation._intervals import WeightedPredictions
from ascertain.practice.comparison._leaderboard import FLOOR, PANEL, FittedCandidate, Leaderboard
from ascertain.practice.comparison._scoring import Estimator
from ascertain.reporting._names import colours, plain
from ascertain.reporting._style import INK, MUTED, TEXT_WIDTH

_FEWEST_IN_BIN = 20
_MOST_BINS = 10
_Z = 1.96
_RESTRICTED_STYLE = "--"
_STYLES = {PANEL: "-", FLOOR.method: ":"}  # by method; both are grey


def draw_budget_curves(board: Leaderboard, estimator: Estimator) -> Figure:
    """Draw the AUROC of all candidates against the budget, the best one's with its interval."""
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.2), layout="constrained")
    axes = figure.subplots()
    colour_of = colours([each.candidate.method for each in board.candidates])
    for fitted in board.candidates:
        candidate, best = fitted.candidate, fitted is board.best
        colour = INK if best and colour_of[candidate.method] == MUTED else colour_of[candidate.method]
        scores = {budget: fitted.score(budget, estimator) for budget in board.budgets}
        scores = {budget: score for budget, score in scores.items() if score.exists}
        budgets = list(scores)
        if best:
            low, high = [score.low for score in scores.values()], [score.high for score in scores.values()]
            axes.fill_between(budgets, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(
            budgets,
            [score.estimate for score in scores.values()],
            marker="o" if best else ".",
            markersize=4 if best else 3,
            linestyle=_line_style(fitted),
            color=colour,
            linewidth=2.0 if best else 1.0,
            label=plain(fitted.name, 60) + (" (chosen; 95% interval)" if best else ""),
            zorder=3 if best else 2,
        )
    axes.set(xlabel="budget", ylabel="AUROC on test rows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=1)
    return figure


def _line_style(fitted: FittedCandidate) -> str:
    """Tell apart the lines of one colour."""
    if fitted.candidate.method in _STYLES:
        return _STYLES[fitted.candidate.method]
    return _RESTRICTED_STYLE if fitted.treatment == "restricted" else "-"


def draw_calibration(sample: WeightedPredictions, classes: Sequence[str]) -> Figure:
    """Draw how often a prediction is true against its predicted probability.

    With two classes this is the probability of the second, otherwise that of the likeliest.
    """
    binary, probabilities = len(classes) == 2, sample.probabilities
    predicted = probabilities[:, 1] if binary else probabilities.max(axis=1)
    true = sample.y == (1 if binary else probabilities.argmax(axis=1))
    what = plain(classes[1]) if binary else "likeliest class"
    figure = Figure(figsize=(TEXT_WIDTH * 0.75, 3.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle="--", label="what it should be")
    for place, each in enumerate(calibration_bins(predicted, true, sample.weight)):
        above.plot([each.mean, each.mean], [each.low, each.high], color=INK, linewidth=0.9)
        label = None if place else "test rows, 95%"
        above.plot(each.mean, each.rate, "o", color=INK, markersize=4, label=label)
    above.set(xlim=(0, 1), ylim=(0, 1), ylabel=f"share that is {what}" if binary else "share that is right")
    above.legend(loc="upper left")
    below.hist(predicted, bins=np.linspace(0, 1, 21), weights=sample.weight, color=MUTED)
    below.set(
        xlabel=f"{'predicted probability of' if binary else 'probability of the'} {what}", ylabel="weight"
    )
    return figure


class CalibrationBin(NamedTuple):
    """Predictions of a similar size: their mean, how often they are true, and its 95% interval."""

    mean: float
    rate: float
    low: float
    high: float


def calibration_bins(
    predicted: Float[np.ndarray, " rows"], true: Bool[np.ndarray, " rows"], weight: Float[np.ndarray, " rows"]
) -> list[CalibrationBin]:
    """Group predictions by their size into bins of equal weight."""
    effective = weight.sum() ** 2 / np.square(weight).sum()
    n_bins = int(np.clip(effective // _FEWEST_IN_BIN, 1, _MOST_BINS))
    order = np.argsort(predicted, kind="stable")
    below = np.cumsum(weight[order]) - weight[order] / 2
    place = np.minimum((below / weight.sum() * n_bins).astype(int), n_bins - 1)
    found = []
    for number in np.unique(place):
        rows = order[place == number]
        own = weight[rows]
        rate, size = float(own @ true[rows] / own.sum()), float(own.sum() ** 2 / np.square(own).sum())
        # Wilson's interval for the effective number of rows.
        middle = (rate + _Z**2 / (2 * size)) / (1 + _Z**2 / size)
        width = _Z * np.sqrt(rate * (1 - rate) / size + (_Z / (2 * size)) ** 2) / (1 + _Z**2 / size)
        mean = float(own @ predicted[rows] / own.sum())
        found.append(CalibrationBin(mean, rate, float(middle - width), float(middle + width)))
    return found
