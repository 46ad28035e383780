"""The holes of a table, and the rows that support acquisitions, drawn."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ascertain.missingness._diagnosis import Diagnosis
from ascertain.practice.diagnosis._support import Support
from ascertain.reporting._style import GRID, INK, MUTED, TEXT_WIDTH

_MISSING = "#B5479B"
_COUNTS = "#5B6770"
_RESTORATION = "#0E7A4A"
_FILTERING = "#4C92D9"
_MOST_NAMES = 45  # beyond this, names would not be readable


def draw_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw how much of each column is missing, how predictably, what is missing together, and row counts."""
    columns = diagnosis.columns
    height = max(3.0, 0.13 * len(columns) + 1.2)
    figure = Figure(figsize=(TEXT_WIDTH * 1.5, height), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.3, 1))
    place = np.arange(len(columns))[::-1]

    left.barh(place, columns["missing"], color=_MISSING, height=0.7)
    left.plot(columns["predictable"], place, "o", color=INK, markersize=3, label="AUROC of its missingness")
    left.axvline(0.5, color=MUTED, linewidth=0.8, linestyle="--")
    left.set(
        xlim=(0, 1), ylim=(-0.7, len(columns) - 0.3), title="share missing, and predictability", yticks=[]
    )
    if len(columns) <= _MOST_NAMES:
        left.set_yticks(place, [name.replace("$", r"\$") for name in columns.index])
    left.grid(axis="y", visible=False)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06))

    image = middle.imshow(diagnosis.together, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    middle.set(title="missing together (correlation)", xticks=[], yticks=[], facecolor=GRID)
    middle.grid(visible=False)
    figure.colorbar(image, ax=middle, shrink=0.6)

    right.bar(diagnosis.rows.index, diagnosis.rows, color=_COUNTS, width=0.8)
    right.set(title="rows by number of actions", xlabel="actions that a row has")
    right.grid(axis="x", visible=False)
    if diagnosis.little is not None:
        figure.supxlabel(
            f"Little's test of MCAR: chi-square {diagnosis.little.statistic:.0f} on "
            f"{diagnosis.little.degrees_of_freedom} degrees of freedom, p = {diagnosis.little.p_value:.2g}",
            fontsize=7,
        )
    return figure


def draw_support(support: Support) -> Figure:
    """Draw how many rows have k actions: random ones, the best-observed ones, and under independent holes."""
    figure = Figure(figsize=(TEXT_WIDTH * 1.2, 3.0), layout="constrained")
    axes = figure.subplots()
    k = [depth.k for depth in support.depths]
    low, median, high = (
        [getattr(depth.random, name) for depth in support.depths] for name in ("low", "median", "high")
    )
    best = [depth.best_observed for depth in support.depths]
    expected = [depth.expected for depth in support.depths]
    axes.fill_between(k, low, high, color=_RESTORATION, alpha=0.15, linewidth=0)
    label = "k random actions (median, middle 80%)"
    axes.plot(k, median, "o-", color=_RESTORATION, markersize=3, label=label)
    axes.plot(k, best, "s-", color=_FILTERING, markersize=3, label="the k actions measured most often")
    axes.plot(k, expected, "--", color=MUTED, label="independent, equally frequent holes: n (1 - p)^k")
    least = min(*low, *best, *expected)
    if least >= 1:
        axes.set(yscale="log", ylim=(least / 2, support.rows * 1.5))
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
    axes.set(xlabel="k, acquisitions", ylabel="rows that have all k")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
    return figure
