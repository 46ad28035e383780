"""Decision curves: the net benefit of decisions after acquisition (Vickers & Elkin, 2006)."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ascertain.evaluation._decision_scores import net_benefit_name
from ascertain.practice.comparison._held_out import HeldOut
from ascertain.practice.comparison._leaderboard import FittedCandidate, Leaderboard
from ascertain.practice.comparison._scoring import THRESHOLDS, Estimator
from ascertain.reporting._names import colours, plain
from ascertain.reporting._style import INK, MUTED, TEXT_WIDTH

_BELOW_ZERO = 0.15  # of the largest net benefit, how far the figure goes down


def draw_decision_curves(data: HeldOut, board: Leaderboard, estimator: Estimator) -> Figure:
    """Draw the net benefit of the best candidate and of a fixed panel against the threshold probability.

    If the panel is the best, the next candidate is drawn. Beside them, that of deciding for the second class
    for everybody, and for nobody.
    """
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.0), layout="constrained")
    axes = figure.subplots()
    others = [each for each in board.candidates if each is not board.best]
    panels = [each for each in others if each is board.panel]
    shown = [board.best, *[*panels, *others][:1]]
    colour_of = colours([each.candidate.method for each in shown])
    for fitted in shown:
        low, middle, high = _curve(fitted, board.budgets[-1], estimator)
        colour, best = colour_of[fitted.candidate.method], fitted is board.best
        if best:
            axes.fill_between(THRESHOLDS, low, high, color=colour, alpha=0.18, linewidth=0)
        name = plain(fitted.name) + (" (chosen; 95% interval)" if best else "")
        axes.plot(THRESHOLDS, middle, color=colour, linewidth=2.0 if best else 1.2, label=name)
    name = plain(data.table.classes[1])
    ill = np.average(np.asarray(data.test.y) == 1, weights=data.weights_of(data.tested))
    share, grid = float(ill), np.linspace(0, 0.9, 91)
    everybody = share - (1 - share) * grid / (1 - grid)
    axes.plot(grid, everybody, color=INK, linewidth=0.9, linestyle="--", label=f"{name} for everybody")
    axes.axhline(0.0, color=MUTED, linewidth=1.2, label=f"{name} for nobody")
    threshold = _own_threshold(data)
    if threshold is not None:
        axes.axvline(threshold, color=INK, linewidth=0.8, linestyle=":", label="your costs")
    axes.set(
        xlim=(0, THRESHOLDS[-1]),
        ylim=(-_BELOW_ZERO * share, share * 1.1),
        xlabel=f"probability from which to decide for {name}",
        ylabel="net benefit",
    )
    axes.legend(loc="upper right")
    return figure


def _curve(
    fitted: FittedCandidate, budget: float, estimator: Estimator
) -> tuple[Float[np.ndarray, " thresholds"], ...]:
    """The low end, the estimate and the high end at every threshold."""
    scores = [fitted.score(budget, estimator, net_benefit_name(each)) for each in THRESHOLDS]
    return tuple(np.array([getattr(each, end) for each in scores]) for end in ("low", "estimate", "high"))


def _own_threshold(data: HeldOut) -> float | None:
    """The probability from which the second of two classes costs less; None if one always does."""
    if data.problem.decision_costs is None:
        return None
    (right, alarm), (missed, hit) = np.asarray(data.problem.decision_costs, np.float64).tolist()
    needless, saved = alarm - right, missed - hit
    return needless / (needless + saved) if needless > 0 and saved > 0 else None
