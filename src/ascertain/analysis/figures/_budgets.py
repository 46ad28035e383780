"""Scores over budgets, for each dataset and method."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ascertain.analysis._bootstrap import standard_error
from ascertain.analysis._damage import Level, averaged
from ascertain.analysis._results import Results, main_setting, narrowed
from ascertain.analysis.figures._layout import Entry, canvas, legend_below, line
from ascertain.errors import InputError
from ascertain.reporting import _names as names
from ascertain.reporting._style import INK, MUTED

_DOTS: dict[str, Any] = {"markersize": 2.6, "markeredgewidth": 0.7}
_LINES: dict[str, dict[str, Any]] = {
    "complete": {"linestyle": "-", "linewidth": 0.9},
    "restricted": {"linestyle": (0, (3, 1.5)), "linewidth": 1.0, "marker": "o", "markerfacecolor": "white"},
    "restored": {"linestyle": "-", "linewidth": 1.0, "marker": "o"},
}


def budget_curves(results: Results, level: Level = "variant") -> pd.DataFrame:
    """Mean score at each budget.

    One row per dataset, method, state ('' for families), treatment, restorer, mechanism, rate and budget:
    `score`, its standard error over splits (`score_se`) and the number of `splits`.
    """
    scores = averaged(results.results.dropna(subset="score"), level)
    curve = ["dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "budget"]
    grouped = scores.groupby(curve)["score"]
    curves = grouped.agg(score="mean", splits="count")
    curves["score_se"] = grouped.agg(standard_error)
    return curves.reset_index()


def draw_budget_curves(results: Results) -> Figure:
    """Draw mean scores over budgets with standard errors, a row per dataset and a column per method.

    State variants are averaged. Grey lines are baselines, trained on complete data.
    """
    setting = main_setting(results)
    curves = budget_curves(narrowed(results, setting), "family")
    curves = curves[curves.groupby("dataset")["budget"].transform("nunique") > 1]
    if curves.empty:
        raise InputError("the results hold one budget per dataset; curves need several")
    compared = names.without_baselines(curves)
    baselines = names.only_baselines(curves) if len(compared) < len(curves) else curves.iloc[:0]
    baselines = baselines[baselines["treatment"] == "complete"]
    datasets = names.in_order("dataset", compared["dataset"])
    methods = names.in_order("method", compared["method"])
    colours = names.colours(methods)
    figure = canvas(0.85 * len(datasets) + 0.7)
    axes = figure.subplots(len(datasets), len(methods), squeeze=False, sharey="row", sharex="row")
    for row, dataset in zip(axes, datasets, strict=True):
        here, marks = (frame[frame["dataset"] == dataset] for frame in (compared, baselines))
        for ax, method in zip(row, methods, strict=True):
            for baseline, curve in marks.groupby("method"):
                curve = curve.sort_values("budget")
                ax.plot(curve["budget"], curve["score"], **_baseline(str(baseline)), zorder=1)
            for treatment in _LINES:
                curve = here[(here["method"] == method) & (here["treatment"] == treatment)]
                if len(curve):
                    _draw_curve(ax, curve.sort_values("budget"), treatment, colours[method])
            ax.tick_params(labelsize=6)
            ax.set_xticks(sorted(here["budget"].unique()))
            ax.locator_params(axis="y", nbins=4)
        label = names.plain(names.dataset_name(dataset), 16)
        row[0].set_ylabel(f"{label}\n{names.metric_name(results.metrics[dataset])}", fontsize=6.5)
    for ax in axes[-1]:
        ax.set_xlabel("budget", fontsize=7)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(names.plain(names.policy_name(method)), fontsize=7.5, color=colours[method])
    figure.suptitle(setting.describe(), fontsize=8.5)
    labels = {"complete": "complete", "restricted": "restricted", "restored": setting.restored()}
    entries: list[Entry] = [
        (line(**_DOTS, **_LINES[treatment]), label)
        for treatment, label in labels.items()
        if (compared["treatment"] == treatment).any()
    ]
    for method in names.in_order("method", baselines["method"]):
        entries.append((line(**_baseline(method)), names.plain(names.policy_name(method))))
    legend_below(figure, entries, 6, columnspacing=1.2)
    return figure


def _draw_curve(ax: Axes, curve: pd.DataFrame, treatment: str, colour: str) -> None:
    ink = INK if treatment == "complete" else colour
    ax.plot(curve["budget"], curve["score"], color=ink, **_DOTS, **_LINES[treatment], zorder=3)
    low, high = curve["score"] - curve["score_se"], curve["score"] + curve["score_se"]
    ax.fill_between(curve["budget"], low, high, color=ink, alpha=0.15, linewidth=0, zorder=2)


def _baseline(method: str) -> dict[str, Any]:
    return {"color": MUTED, "linewidth": 0.8, "linestyle": "-." if method == "static" else ":"}
