"""Score against the training time of a policy (appendix B.3)."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ascertain.analysis._compute import Compute, compute_comparison
from ascertain.analysis._damage import damage_and_gain
from ascertain.analysis._results import Results, Setting, at_setting, main_setting, narrowed
from ascertain.analysis.figures._layout import canvas, fill_panels, grid_shape, legend_below, line
from ascertain.errors import InputError
from ascertain.reporting._names import colours, in_order, panel_title, plain, policy_name

_RATE = 0.5  # of the reference's figure; the paper's text names none
_DASHES = (0, (2, 1))  # of (s,m)


def draw_compute(results: Results) -> Figure:
    """Draw an arrow from restricted to restored per dataset and policy: seconds across, score upwards."""
    setting = main_setting(results, rate=_RATE)
    pairs = at_setting(compute_comparison(results).pairs, setting)
    ends = _arrow_ends(results, pairs, setting)
    if ends.empty:
        raise InputError(
            f"the timings hold no pair of restricted and restored training at {setting.mechanism}, "
            f"p = {setting.rate:g}"
        )
    datasets = in_order("dataset", ends["dataset"])
    rows, columns = grid_shape(len(datasets))
    figure = canvas(1.45 * rows + 0.75)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    by_method = colours(ends["method"])
    for place, (ax, dataset) in enumerate(fill_panels(axes, datasets)):
        for _, policy in ends[ends["dataset"] == dataset].iterrows():
            _draw_arrow(ax, policy, by_method[policy["method"]])
        _set_axes(ax, lowest=place + columns >= len(datasets))
        if place >= (rows - 1) * columns:
            ax.set_xlabel("seconds per policy", fontsize=7)
        ax.set_title(panel_title(dataset, results.metrics[dataset]), fontsize=6.4, pad=3)
    figure.suptitle(_title(setting, Compute.of(pairs)), fontsize=7.5)
    entries = [(line(color=c, linewidth=1.2), plain(policy_name(method))) for method, c in by_method.items()]
    if (ends["state"] == "sm").any():
        entries.append((line(linewidth=0.8, linestyle=_DASHES), "(s,m)"))
    entries.append((line(linestyle="", marker="o", markerfacecolor="white", markersize=3), "restricted"))
    legend_below(figure, entries, 8, handlelength=1.4)
    return figure


def _arrow_ends(results: Results, pairs: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Mean seconds and scores over splits of each dataset and policy."""
    by = ["dataset", "method", "state"]
    seconds = pairs.groupby(by, as_index=False)[["restricted", "restored"]].mean()
    scores = at_setting(damage_and_gain(narrowed(results, setting), "variant"), setting)
    scores = scores[[*by, "restricted", "restored"]]
    return seconds.merge(scores, on=by, suffixes=("_seconds", "_score")).dropna()


def _draw_arrow(ax: Axes, policy: "pd.Series[Any]", colour: str) -> None:
    start, end = ((policy[f"{arm}_seconds"], policy[f"{arm}_score"]) for arm in ("restricted", "restored"))
    arrow = {"arrowstyle": "-|>,head_width=0.12,head_length=0.25", "color": colour, "linewidth": 0.8}
    dashed = {"linestyle": _DASHES} if policy["state"] == "sm" else {}
    ax.annotate("", xy=end, xytext=start, arrowprops=arrow | dashed | {"shrinkA": 0, "shrinkB": 0})
    # Arrows do not widen the axes; the points that they join do.
    ax.plot(*zip(start, end, strict=True), linestyle="", marker="")
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 0.7}
    ax.plot(*start, "o", markersize=2.6, **hollow)


def _set_axes(ax: Axes, *, lowest: bool) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.locator_params(axis="y", nbins=5)
    ax.tick_params(labelsize=6.5, labelbottom=lowest)


def _title(setting: Setting, found: Compute) -> str:
    return (
        f"{setting.describe()}: restored / restricted time, median {found.median_ratio:.2f}; "
        f"within 1.25x {found.within_1_25:.0%}, within 1.5x {found.within_1_5:.0%};\n"
        f"restoring takes {found.median_amortised:.2g} s per policy (median)"
    )
