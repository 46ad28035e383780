"""Scores by budget, and the calibration of predicted probabilities, drawn."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from scipy.stats import binomtest

from ascertain.practice.comparison._leaderboard import Leaderboard
from ascertain.practice.comparison._scoring import Estimator
from ascertain.reporting._names import colours, plain
from ascertain.reporting._style import INK, MUTED, TEXT_WIDTH

_FEWEST_IN_BIN = 20
_MOST_BINS = 10
_RESTRICTED_STYLE = (0, (4, 2))


def draw_budget_curves(board: Leaderboard, estimator: Estimator) -> Figure:
    """Draw the AUROC of all candidates against the budget, the best one's with its interval."""
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.2), layout="constrained")
    axes = figure.subplots()
    colour_of = colours([each.candidate.method for each in board.candidates])
    for fitted in board.candidates:
        candidate, best = fitted.candidate, fitted is board.best
        colour = colour_of[candidate.method]
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
            linestyle=_RESTRICTED_STYLE if fitted.treatment == "restricted" else "-",
            color=colour,
            linewidth=2.0 if best else 1.0,
            label=plain(fitted.name) + (" (chosen; 95% interval)" if best else ""),
            zorder=3 if best else 2,
        )
    axes.set(xlabel="budget", ylabel="AUROC on test rows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure


def draw_calibration(
    probabilities: Float[np.ndarray, "rows classes"], y: Int[np.ndarray, " rows"], classes: Sequence[str]
) -> Figure:
    """Draw how often a prediction is true against its predicted probability.

    With two classes this is the probability of the second, otherwise that of the likeliest.
    """
    binary = len(classes) == 2
    predicted = probabilities[:, 1] if binary else probabilities.max(axis=1)
    true = y == (1 if binary else probabilities.argmax(axis=1))
    what = plain(classes[1]) if binary else "likeliest class"
    figure = Figure(figsize=(TEXT_WIDTH * 0.75, 3.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle="--", label="what it should be")
    for place, (mean, rate, low, high) in enumerate(_bins(predicted, true)):
        above.plot([mean, mean], [low, high], color=INK, linewidth=0.9)
        above.plot(mean, rate, "o", color=INK, markersize=4, label=None if place else "test rows, 95%")
    above.set(xlim=(0, 1), ylim=(0, 1), ylabel=f"share that is {what}" if binary else "share that is right")
    above.legend(loc="upper left")
    below.hist(predicted, bins=np.linspace(0, 1, 21), color=MUTED)
    below.set(
        xlabel=f"{'predicted probability of' if binary else 'probability of the'} {what}", ylabel="rows"
    )
    return figure


def _bins(predicted: Float[np.ndarray, " rows"], true: np.ndarray) -> list[tuple[float, float, float, float]]:
    """Mean prediction, frequency and its interval, in groups of equal size."""
    n_bins = int(np.clip(len(predicted) // _FEWEST_IN_BIN, 1, _MOST_BINS))
    found = []
    for rows in np.array_split(np.argsort(predicted, kind="stable"), n_bins):
        hits = int(true[rows].sum())
        interval = binomtest(hits, len(rows)).proportion_ci(method="wilson")
        found.append(
            (float(predicted[rows].mean()), hits / len(rows), float(interval.low), float(interval.high))
        )
    return found
