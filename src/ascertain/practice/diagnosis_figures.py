"""The rows that support acquisitions, drawn."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ascertain.practice.support import Support
from ascertain.reporting.style import INK, MUTED, TEXT_WIDTH

_RESTORATION = "#0E7A4A"
_FILTERING = "#4C92D9"


def draw_support(support: Support) -> Figure:
    """Draw how many rows have k actions: random ones, the best-observed ones, and under independent holes."""
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.0), layout="constrained")
    axes = figure.subplots()
    k = [depth.k for depth in support.depths]
    low, median, high = (
        [getattr(depth.random, name) for depth in support.depths] for name in ("low", "median", "high")
    )
    axes.fill_between(k, low, high, color=_RESTORATION, alpha=0.15, linewidth=0)
    axes.plot(
        k, median, "o-", color=_RESTORATION, markersize=3, label="k random actions (median, middle 80%)"
    )
    best = [depth.best_observed for depth in support.depths]
    axes.plot(k, best, "s-", color=_FILTERING, markersize=3, label="the k actions measured most often")
    expected = [depth.expected for depth in support.depths]
    axes.plot(k, expected, "--", color=MUTED, label="independent, equally frequent holes: n (1 - p)^k")
    least = min(*low, *best, *expected)
    if least >= 1:
        axes.set_yscale("log")
        axes.set_ylim(least / 2, support.rows * 1.5)
    else:
        axes.set_yscale("symlog", linthresh=1)  # zero rows are the point, so they must be visible
        axes.set_ylim(0, support.rows * 1.6)
    if support.budget is not None and support.steps.typical < support.actions:
        axes.axvline(support.steps.typical, color=INK, linewidth=0.8)
        axes.annotate(
            "typical steps\nin the budget",
            (support.steps.typical, 0.03),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=7,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("k, acquisitions")
    axes.set_ylabel("rows that have all k")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
    return figure
