"""Scores over budgets, for each dataset and method."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ascertain.analysis.curves import budget_curves
from ascertain.analysis.results import Results
from ascertain.analysis.setting import Setting, main_setting, narrowed, restored_by
from ascertain.errors import InputError
from ascertain.reporting.names import (
    colours,
    dataset_name,
    in_order,
    metric_name,
    only_baselines,
    plain,
    policy_name,
    without_baselines,
)
from ascertain.reporting.style import INK, MUTED, TEXT_WIDTH

_LINES: dict[str, dict[str, Any]] = {
    "complete": {"linestyle": "-", "linewidth": 0.9},
    "restricted": {"linestyle": (0, (3, 1.5)), "linewidth": 1.0, "marker": "o", "markerfacecolor": "white"},
    "restored": {"linestyle": "-", "linewidth": 1.0, "marker": "o"},
}
_MARKS: dict[str, Any] = {"markersize": 2.6, "markeredgewidth": 0.7}


def draw_budget_curves(results: Results) -> Figure:
    """Draw mean scores over budgets with standard errors, a row per dataset and a column per method.

    State variants are averaged. Grey lines are baselines, trained on complete data.
    """
    setting = main_setting(results)
    curves = budget_curves(narrowed(results, setting), "family")
    several = curves.groupby("dataset")["budget"].transform("nunique") > 1
    curves = curves[several]
    if curves.empty:
        raise InputError("the results hold one budget per dataset; curves need several")
    compared = without_baselines(curves)
    marks = only_baselines(curves) if len(compared) < len(curves) else curves.iloc[:0]
    marks = marks[marks["treatment"] == "complete"]
    datasets, methods = in_order("dataset", compared["dataset"]), in_order("method", compared["method"])
    figure = Figure(figsize=(TEXT_WIDTH, 0.85 * len(datasets) + 0.7), layout="constrained")
    axes = figure.subplots(len(datasets), len(methods), squeeze=False, sharey="row", sharex="row")
    given = colours(methods)
    for row, dataset in zip(axes, datasets, strict=True):
        for ax, method in zip(row, methods, strict=True):
            _baselines(ax, marks[marks["dataset"] == dataset])
            mine = compared[(compared["dataset"] == dataset) & (compared["method"] == method)]
            for treatment in _LINES:
                _curve(ax, mine[mine["treatment"] == treatment], treatment, given[method])
            ax.tick_params(labelsize=6)
            ax.set_xticks(sorted(compared.loc[compared["dataset"] == dataset, "budget"].unique()))
            ax.locator_params(axis="y", nbins=4)
    _name(axes, results, datasets, methods)
    figure.suptitle(setting.describe(), fontsize=8.5)
    _legend(figure, setting, compared, marks)
    return figure


def _curve(ax: Axes, curve: pd.DataFrame, treatment: str, colour: str) -> None:
    if curve.empty:
        return
    curve = curve.sort_values("budget")
    ink = INK if treatment == "complete" else colour
    ax.plot(curve["budget"], curve["score"], color=ink, **_MARKS, **_LINES[treatment], zorder=3)
    low, high = curve["score"] - curve["score_se"], curve["score"] + curve["score_se"]
    ax.fill_between(curve["budget"], low, high, color=ink, alpha=0.15, linewidth=0, zorder=2)


def _baselines(ax: Axes, marks: pd.DataFrame) -> None:
    for method, curve in marks.groupby("method"):
        curve = curve.sort_values("budget")
        ax.plot(curve["budget"], curve["score"], **_baseline_line(str(method)), zorder=1)


def _baseline_line(method: str) -> dict[str, Any]:
    return {"color": MUTED, "linewidth": 0.8, "linestyle": "-." if method == "static" else ":"}


def _name(axes: Any, results: Results, datasets: list[str], methods: list[str]) -> None:
    for ax, dataset in zip(axes[:, 0], datasets, strict=True):
        ax.set_ylabel(
            f"{plain(dataset_name(dataset), 16)}\n{metric_name(results.metrics[dataset])}", fontsize=6.5
        )
    for ax in axes[-1]:
        ax.set_xlabel("budget", fontsize=7)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(plain(policy_name(method)), fontsize=7.5, color=colours(methods)[method])


def _legend(figure: Figure, setting: Setting, curves: pd.DataFrame, marks: pd.DataFrame) -> None:
    names = {"complete": "complete", "restricted": "restricted", "restored": restored_by(setting)}
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=INK, **_MARKS, **_LINES[treatment]), name)
        for treatment, name in names.items()
        if (curves["treatment"] == treatment).any()
    ]
    for method in in_order("method", marks["method"]):
        entries.append((Line2D([], [], **_baseline_line(method)), plain(policy_name(method))))
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=6.5, columnspacing=1.2)
