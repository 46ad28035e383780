"""Score against the time that a trained method takes (appendix B.3)."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ascertain.analysis.compute import Compute, compute_comparison, summarise_pairs
from ascertain.analysis.damage import damage_and_gain
from ascertain.analysis.results import Results
from ascertain.analysis.setting import Setting, at_setting, main_setting, narrowed
from ascertain.errors import InputError
from ascertain.reporting.names import colours, in_order, panel_title, plain, policy_name
from ascertain.reporting.style import INK, TEXT_WIDTH

_RATE = 0.5  # of the reference's figure; the paper's text names none


def draw_compute(results: Results) -> Figure:
    """Draw an arrow from restricted to restored per dataset and policy: seconds across, score upwards."""
    setting = main_setting(results, rate=_RATE)
    pairs = at_setting(compute_comparison(results).pairs, setting)
    marks = _marks(results, pairs, setting)
    if marks.empty:
        raise InputError(
            f"the timings hold no pair of restricted and restored training at {setting.mechanism}, "
            f"p = {setting.rate:g}"
        )
    datasets = in_order("dataset", marks["dataset"])
    rows = -(-len(datasets) // 4)
    columns = -(-len(datasets) // rows)
    figure = Figure(figsize=(TEXT_WIDTH, 1.45 * rows + 0.75), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    given = colours(marks["method"])
    for place, ax in enumerate(axes.flat):
        if place >= len(datasets):
            ax.set_axis_off()
            continue
        for _, mark in marks[marks["dataset"] == datasets[place]].iterrows():
            _arrow(ax, mark, given[mark["method"]])
        _seconds_axis(ax, lowest=place + columns >= len(datasets))
        if place >= (rows - 1) * columns:
            ax.set_xlabel("seconds per policy", fontsize=7)
        ax.set_title(panel_title(datasets[place], results.metrics[datasets[place]]), fontsize=6.4, pad=3)
    figure.suptitle(_in_words(setting, summarise_pairs(pairs)), fontsize=7.5)
    _legend(figure, marks)
    return figure


def _marks(results: Results, pairs: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Give the mean seconds and scores over splits of each dataset and policy."""
    by = ["dataset", "method", "state"]
    seconds = pairs.groupby(by, as_index=False)[["restricted", "restored"]].mean()
    scores = at_setting(damage_and_gain(narrowed(results, setting), "variant"), setting)[
        [*by, "restricted", "restored"]
    ]
    return seconds.merge(scores, on=by, suffixes=("_seconds", "_score")).dropna()


def _arrow(ax: Axes, mark: "pd.Series[Any]", colour: str) -> None:
    ends = [(mark[f"{arm}_seconds"], mark[f"{arm}_score"]) for arm in ("restricted", "restored")]
    arrow = {"arrowstyle": "-|>,head_width=0.12,head_length=0.25", "color": colour, "linewidth": 0.8}
    dashed = {"linestyle": (0, (2, 1))} if mark["state"] == "sm" else {}
    ax.annotate("", xy=ends[1], xytext=ends[0], arrowprops=arrow | dashed | {"shrinkA": 0, "shrinkB": 0})
    # Arrows do not widen the axes; the points that they join do.
    ax.plot(*zip(*ends, strict=True), linestyle="", marker="")
    ax.plot(
        *ends[0], "o", markersize=2.6, markerfacecolor="white", markeredgecolor=colour, markeredgewidth=0.7
    )


def _seconds_axis(ax: Axes, *, lowest: bool) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.locator_params(axis="y", nbins=5)
    ax.tick_params(labelsize=6.5, labelbottom=lowest)


def _in_words(setting: Setting, found: Compute) -> str:
    return (
        f"{setting.describe()}: restored / restricted time, median {found.median_ratio:.2f}; "
        f"within 1.25x {found.within_1_25:.0%}, within 1.5x {found.within_1_5:.0%};\n"
        f"restoring takes {found.median_amortised:.2g} s per policy (median)"
    )


def _legend(figure: Figure, marks: pd.DataFrame) -> None:
    given = colours(marks["method"])
    handles = [Line2D([], [], color=colour, linewidth=1.2) for colour in given.values()]
    labels = [plain(policy_name(method)) for method in given]
    if (marks["state"] == "sm").any():
        handles.append(Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (2, 1))))
        labels.append("(s,m)")
    handles.append(Line2D([], [], color=INK, linestyle="", marker="o", markerfacecolor="white", markersize=3))
    labels.append("restricted")
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=8,
        fontsize=6.5,
        columnspacing=1.0,
        handlelength=1.4,
    )
