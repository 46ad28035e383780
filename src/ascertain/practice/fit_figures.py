"""Scores by budget, and how far predicted probabilities can be believed, drawn."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from ascertain.practice.leaderboard import Contender, Estimator, Leaderboard
from ascertain.reporting.names import colours, plain
from ascertain.reporting.style import INK, MUTED, TEXT_WIDTH

_FEWEST_IN_BIN = 20
_MOST_BINS = 10
_RESTRICTED_STYLE = (0, (4, 2))


def draw_budget_curves(board: Leaderboard, estimator: Estimator) -> Figure:
    """Draw the AUROC of all candidates against the budget, the best one's with its interval."""
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.2), layout="constrained")
    axes = figure.subplots()
    colour = colours([each.candidate.method for each in board.contenders])
    for place, contender in enumerate(board.contenders):
        _draw_curve(axes, board, contender, estimator, colour[contender.candidate.method], best=place == 0)
    axes.set_xlabel("budget")
    axes.set_ylabel("AUROC on test rows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure


def _draw_curve(
    axes: Axes, board: Leaderboard, contender: Contender, estimator: Estimator, colour: str, *, best: bool
) -> None:
    scores = [contender.score(budget, estimator) for budget in board.budgets]
    budgets = [budget for budget, score in zip(board.budgets, scores, strict=True) if score.exists]
    there = [score for score in scores if score.exists]
    dashes = _RESTRICTED_STYLE if contender.candidate.treatment == "restricted" else "-"
    label = plain(contender.candidate.name) + (" (chosen; 95% interval)" if best else "")
    if best:
        ends = [score.low for score in there], [score.high for score in there]
        axes.fill_between(budgets, *ends, color=colour, alpha=0.18, linewidth=0)
    axes.plot(
        budgets,
        [score.estimate for score in there],
        marker="o" if best else ".",
        markersize=4 if best else 3,
        linestyle=dashes,
        color=colour,
        linewidth=2.0 if best else 1.0,
        label=label,
        zorder=3 if best else 2,
    )


def draw_calibration(
    probabilities: Float[np.ndarray, "rows classes"], y: Int[np.ndarray, " rows"], classes: Sequence[str]
) -> Figure:
    """Draw how often what was predicted is true, against its predicted probability.

    With two classes this is the probability of the second, otherwise that of the likeliest.
    """
    binary = len(classes) == 2
    said = probabilities[:, 1] if binary else probabilities.max(axis=1)
    true = y == (1 if binary else probabilities.argmax(axis=1))
    what = plain(classes[1]) if binary else "likeliest class"
    figure = Figure(figsize=(TEXT_WIDTH * 0.75, 3.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle="--", label="what it should be")
    for place, (mean, rate, low, high) in enumerate(_bins(said, true)):
        above.plot([mean, mean], [low, high], color=INK, linewidth=0.9)
        above.plot(mean, rate, "o", color=INK, markersize=4, label=None if place else "test rows, 95%")
    above.set_xlim(0, 1)
    above.set_ylim(0, 1)
    above.set_ylabel(f"share that is {what}" if binary else "share that is right")
    above.legend(loc="upper left")
    below.hist(said, bins=np.linspace(0, 1, 21), color=MUTED)
    below.set_ylabel("rows")
    below.set_xlabel(f"predicted probability of {what}" if binary else f"probability of the {what}")
    return figure


def _bins(said: Float[np.ndarray, " rows"], true: np.ndarray) -> list[tuple[float, float, float, float]]:
    """Give mean prediction, frequency and its interval, in groups of as many rows each."""
    n_bins = int(np.clip(len(said) // _FEWEST_IN_BIN, 1, _MOST_BINS))
    found = []
    for rows in np.array_split(np.argsort(said, kind="stable"), n_bins):
        hits = int(true[rows].sum())
        interval = binomtest(hits, len(rows)).proportion_ci(method="wilson")
        found.append((float(said[rows].mean()), hits / len(rows), float(interval.low), float(interval.high)))
    return found
