"""Restricted training against restoration, method by method and dataset by dataset (the paper's figure 5)."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ascertain.analysis.damage import ARMS, damage_and_gain, order_by_damage
from ascertain.analysis.results import Results
from ascertain.analysis.setting import Setting, at_setting, main_setting, restored_by
from ascertain.errors import InputError
from ascertain.reporting.names import (
    Kind,
    colours,
    in_order,
    kind_of,
    mechanism_name,
    panel_title,
    plain,
    policy_name,
    without_baselines,
)
from ascertain.reporting.style import GRID, INK, MUTED, TEXT_WIDTH

_ROW = 0.155  # inches
_PALE = "#ECEBE7"
_BANDS: dict[Kind, dict[str, Any]] = {
    "myopic": {"facecolor": _PALE, "edgecolor": "none"},
    "intermediate": {"facecolor": "white", "edgecolor": GRID, "hatch": "//////", "linewidth": 0},
    "terminal": {"facecolor": "white", "edgecolor": "none"},
    "other": {"facecolor": "white", "edgecolor": "none"},
}
_MARK: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3.8}
_KIND_LABELS: dict[Kind, str] = {
    "myopic": "myopic",
    "intermediate": "non-myopic, intermediate rewards",
    "terminal": "non-myopic, terminal objective",
}


class _Plan(NamedTuple):
    """What all panels of a figure share."""

    setting: Setting
    datasets: list[str]
    methods: list[str]
    windows: dict[str, tuple[float, float]]
    metrics: dict[str, str]


def draw_main_summary(results: Results) -> Figure:
    """Draw complete, restricted and restored scores in the main setting, one panel per dataset (figure 5)."""
    cells, plan = _planned(results)
    here = at_setting(cells, plan.setting)
    rows = -(-len(plan.datasets) // 4)
    columns = -(-len(plan.datasets) // rows)
    height = rows * (_ROW * len(plan.methods) + 0.38) + 0.6
    figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
    figure.suptitle(plan.setting.describe(), fontsize=8.5)
    _fill(figure, here, plan, (rows, columns))
    _legend(figure, plan, here)
    return figure


def draw_summary_grid(results: Results) -> Figure:
    """Draw the same for every mechanism at the main rate, in one block each."""
    cells, plan = _planned(results)
    cells = cells[cells["rate"] == plan.setting.rate]
    mechanisms = in_order("mechanism", cells["mechanism"])
    if len(mechanisms) < 2:
        raise InputError(
            f"the results hold one mechanism at p = {plan.setting.rate:g} "
            f"({mechanism_name(plan.setting.mechanism)}), which main-summary shows; a grid needs several"
        )
    across = min(2, len(plan.datasets))
    down = -(-len(plan.datasets) // across)
    blocks = -(-len(mechanisms) // 2)
    height = blocks * (down * (0.7 * _ROW * len(plan.methods) + 0.36) + 0.25) + 0.4
    figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
    parts = figure.subfigures(blocks, 2, squeeze=False, wspace=0.02, hspace=0.02)
    for place, part in zip(range(parts.size), parts.flat, strict=True):
        if place < len(mechanisms):
            setting = plan.setting._replace(mechanism=mechanisms[place])
            part.suptitle(setting.describe(), fontsize=8.5)
            _fill(part, at_setting(cells, setting), plan, (down, across), small=True)
    _legend(figure, plan, cells)
    return figure


def windows_of(variants: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Give each dataset's range of scores: centred on its values, equally wide in all, within 0 and 1.

    Parameters
    ----------
    variants
        The cells by state variant, of all mechanisms, so that every figure has the same ranges.
    """
    values = variants.groupby("dataset")[list(ARMS)]
    low, high = values.min().min(axis=1), values.max().max(axis=1)
    extent = high - low
    span = float((extent + 2 * np.maximum(0.015, 0.09 * extent)).max())
    found = {}
    for dataset in low.index:
        start = (low[dataset] + high[dataset] - span) / 2
        if span <= 1:
            start = min(max(start, 0.0), 1.0 - span)
        found[str(dataset)] = (float(start), float(start + span))
    return found


def _planned(results: Results) -> tuple[pd.DataFrame, _Plan]:
    setting = main_setting(results)
    cells = without_baselines(damage_and_gain(results, "family"))
    variants = without_baselines(damage_and_gain(results, "variant"))
    if at_setting(cells, setting).empty:
        raise InputError(f"the results hold no restricted cell at {setting.mechanism}, p = {setting.rate:g}")
    plan = _Plan(
        setting=setting,
        datasets=order_by_damage(cells, "dataset", setting),
        methods=order_by_damage(cells, "method", setting),
        windows=windows_of(variants[variants["rate"] == setting.rate]),
        metrics=results.metrics,
    )
    here = cells[cells["rate"] == setting.rate]
    return here, plan._replace(
        datasets=[name for name in plan.datasets if name in set(here["dataset"])],
        methods=[name for name in plan.methods if name in set(here["method"])],
    )


def _fill(
    figure: Figure | SubFigure,
    cells: pd.DataFrame,
    plan: _Plan,
    shape: tuple[int, int],
    *,
    small: bool = False,
) -> None:
    """Draw the panels of one setting."""
    axes = figure.subplots(*shape, squeeze=False, sharey=True)
    for place, ax in enumerate(axes.flat):
        if place >= len(plan.datasets):
            ax.set_axis_off()
            continue
        dataset = plan.datasets[place]
        _panel(ax, cells[cells["dataset"] == dataset], plan, dataset)
        title = panel_title(dataset, plan.metrics[dataset])
        ax.set_title(title, fontsize=6.2 if small else 6.4, pad=2)
        ax.tick_params(labelsize=6 if small else 7)
    names = [plain(policy_name(method)) for method in plan.methods]
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(names)), names)
        for label, colour in zip(ax.get_yticklabels(), _colours(plan).values(), strict=True):
            label.set_color(colour)


def _panel(ax: Axes, cells: pd.DataFrame, plan: _Plan, dataset: str) -> None:
    for place, method in enumerate(plan.methods):
        ax.axhspan(place - 0.5, place + 0.5, zorder=0, **_BANDS[kind_of(method)])
        if (cells["method"] == method).any():
            _row(ax, place, cells[cells["method"] == method].iloc[0], _colours(plan)[method])
    ax.set_ylim(len(plan.methods) - 0.5, -0.5)
    ax.set_xlim(*plan.windows[dataset])
    ax.locator_params(axis="x", nbins=4)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)


def _row(ax: Axes, place: int, cell: "pd.Series[Any]", colour: str) -> None:
    """Draw one method: complete as a tick, an arrow from restricted to restored, and their intervals."""
    for arm, offset in (("restricted", -0.21), ("restored", 0.21)):
        low, high = cell[f"{arm}_low"], cell[f"{arm}_high"]
        y = place + offset
        ax.plot([low, high], [y, y], color=colour, alpha=0.35, linewidth=2.2, solid_capstyle="butt", zorder=2)
    ax.plot(cell["complete"], place, "|", color=INK, markersize=8.5, markeredgewidth=1.3, zorder=3)
    if np.isfinite(cell["restored"]):
        ends = (cell["restricted"], place), (cell["restored"], place)
        arrow = {"arrowstyle": "-|>,head_width=0.12,head_length=0.22", "color": colour, "linewidth": 0.9}
        shrink = {"shrinkA": 0.0, "shrinkB": 1.5}
        ax.annotate("", xy=ends[1], xytext=ends[0], arrowprops=arrow | shrink, zorder=4)
        ax.plot(cell["restored"], place, "o", color=colour, markersize=3.6, zorder=6)
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 0.9}
    ax.plot(cell["restricted"], place, "o", markersize=3.8, zorder=5, **hollow)


def _legend(figure: Figure, plan: _Plan, cells: pd.DataFrame) -> None:
    """Explain the marks and the kinds of methods that are there."""

    def mark(**style: Any) -> Line2D:
        return Line2D([], [], color=INK, **_MARK | style)

    marks: list[tuple[Any, str]] = [
        (mark(marker="|", markersize=8, markeredgewidth=1.3), "complete"),
        (mark(markerfacecolor="white", markeredgewidth=0.9), "restricted"),
    ]
    if cells["restored"].notna().any():
        marks.append((mark(), restored_by(plan.setting)))
    if cells["restricted_low"].notna().any():
        marks.append((mark(linestyle="-", marker="", alpha=0.35, linewidth=2.2), "95% interval"))
    present = [kind for kind in _KIND_LABELS if kind in {kind_of(method) for method in plan.methods}]
    outlined = {"edgecolor": MUTED, "linewidth": 0.4}
    kinds: list[tuple[Any, str]] = [
        (Patch(**_BANDS[kind] | outlined), _KIND_LABELS[kind]) for kind in present
    ]
    columns = max(len(marks), len(kinds))
    # A legend is filled column by column: marks in its first row, kinds of methods in its second.
    padded = [row + [(Line2D([], [], linestyle=""), "")] * (columns - len(row)) for row in (marks, kinds)]
    handles, labels = zip(*(entry for pair in zip(*padded, strict=True) for entry in pair), strict=True)
    spacing = {"columnspacing": 1.0, "handlelength": 1.5, "handletextpad": 0.5, "fontsize": 6.5}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **spacing)


def _colours(plan: _Plan) -> dict[str, str]:
    given = colours(plan.methods)
    return {method: given[method] for method in plan.methods}
