"""Restricted training against restoration, method by method and dataset by dataset (the paper's figure 5)."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from ascertain.analysis._damage import ARMS, damage_and_gain, order_by_damage
from ascertain.analysis._results import Results, Setting, at_setting, main_setting
from ascertain.analysis.figures._layout import (
    Entry,
    canvas,
    ceil_div,
    fill_panels,
    grid_shape,
    legend_below,
    line,
)
from ascertain.errors import InputError
from ascertain.reporting import _names as names
from ascertain.reporting._style import GRID, INK, MUTED

_ROW = 0.155  # inches
_BANDS: dict[names.Kind, dict[str, Any]] = {
    "myopic": {"facecolor": "#ECEBE7", "edgecolor": "none"},
    "intermediate": {"facecolor": "white", "edgecolor": GRID, "hatch": "//////", "linewidth": 0},
    "terminal": {"facecolor": "white", "edgecolor": "none"},
    "other": {"facecolor": "white", "edgecolor": "none"},
}
_KIND_LABELS: dict[names.Kind, str] = {
    "myopic": "myopic",
    "intermediate": "non-myopic, intermediate rewards",
    "terminal": "non-myopic, terminal objective",
}


class _Layout(NamedTuple):
    """What all panels of a figure share."""

    setting: Setting
    datasets: list[str]
    methods: list[str]
    windows: dict[str, tuple[float, float]]
    metrics: dict[str, str]


def draw_main_summary(results: Results) -> Figure:
    """Draw complete, restricted and restored scores in the main setting, one panel per dataset (figure 5)."""
    cells, layout = _prepare(results)
    here = at_setting(cells, layout.setting)
    rows, columns = grid_shape(len(layout.datasets))
    figure = canvas(rows * (_ROW * len(layout.methods) + 0.38) + 0.6)
    figure.suptitle(layout.setting.describe(), fontsize=8.5)
    _draw_panels(figure, here, layout, (rows, columns))
    _legend(figure, layout, here)
    return figure


def draw_summary_grid(results: Results) -> Figure:
    """Draw the same for every mechanism at the main rate, in one block each."""
    cells, layout = _prepare(results)
    mechanisms = names.in_order("mechanism", cells["mechanism"])
    if len(mechanisms) < 2:
        raise InputError(
            f"the results hold one mechanism at p = {layout.setting.rate:g} "
            f"({names.mechanism_name(mechanisms[0])}), which main-summary shows; a grid needs several"
        )
    across = min(2, len(layout.datasets))
    down, blocks = ceil_div(len(layout.datasets), across), ceil_div(len(mechanisms), 2)
    figure = canvas(blocks * (down * (0.7 * _ROW * len(layout.methods) + 0.36) + 0.25) + 0.4)
    parts = figure.subfigures(blocks, 2, squeeze=False, wspace=0.02, hspace=0.02)
    for mechanism, part in zip(mechanisms, parts.flat, strict=False):
        setting = layout.setting._replace(mechanism=mechanism)
        part.suptitle(setting.describe(), fontsize=8.5)
        _draw_panels(part, at_setting(cells, setting), layout, (down, across), small=True)
    _legend(figure, layout, cells)
    return figure


def windows_of(variants: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Range of scores of each dataset's panel: centred on its values, equally wide in all, within 0 and 1.

    `variants` are the cells by state variant, of all mechanisms, so that every figure has the same ranges.
    """
    values = variants.groupby("dataset")[list(ARMS)]
    low, high = values.min().min(axis=1), values.max().max(axis=1)
    extent = high - low
    span = float((extent + 2 * np.maximum(0.015, 0.09 * extent)).max())
    starts = (low + high - span) / 2
    if span <= 1:
        starts = starts.clip(0.0, 1.0 - span)
    return {str(dataset): (float(start), float(start + span)) for dataset, start in starts.items()}


def _prepare(results: Results) -> tuple[pd.DataFrame, _Layout]:
    """Select the cells at the main rate, and the layout of their panels."""
    setting = main_setting(results)
    cells = names.without_baselines(damage_and_gain(results, "family"))
    variants = names.without_baselines(damage_and_gain(results, "variant"))
    if at_setting(cells, setting).empty:
        raise InputError(f"the results hold no restricted cell at {setting.mechanism}, p = {setting.rate:g}")
    here = cells[cells["rate"] == setting.rate]
    datasets, methods = order_by_damage(cells, "dataset", setting), order_by_damage(cells, "method", setting)
    return here, _Layout(
        setting=setting,
        datasets=[name for name in datasets if name in set(here["dataset"])],
        methods=[name for name in methods if name in set(here["method"])],
        windows=windows_of(variants[variants["rate"] == setting.rate]),
        metrics=results.metrics,
    )


def _draw_panels(
    figure: Figure | SubFigure,
    cells: pd.DataFrame,
    layout: _Layout,
    shape: tuple[int, int],
    *,
    small: bool = False,
) -> None:
    """Draw the panels of one setting."""
    axes = figure.subplots(*shape, squeeze=False, sharey=True)
    colours = names.colours(layout.methods)
    for ax, dataset in fill_panels(axes, layout.datasets):
        here = cells[cells["dataset"] == dataset]
        for place, method in enumerate(layout.methods):
            ax.axhspan(place - 0.5, place + 0.5, zorder=0, **_BANDS[names.kind_of(method)])
            for _, cell in here[here["method"] == method].head(1).iterrows():
                _draw_method(ax, place, cell, colours[method])
        ax.set_ylim(len(layout.methods) - 0.5, -0.5)
        ax.set_xlim(*layout.windows[dataset])
        ax.locator_params(axis="x", nbins=4)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        title = names.panel_title(dataset, layout.metrics[dataset])
        ax.set_title(title, fontsize=6.2 if small else 6.4, pad=2)
        ax.tick_params(labelsize=6 if small else 7)
    labels = [names.plain(names.policy_name(method)) for method in layout.methods]
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(labels)), labels)
        for label, method in zip(ax.get_yticklabels(), layout.methods, strict=True):
            label.set_color(colours[method])


def _draw_method(ax: Axes, place: int, cell: "pd.Series[Any]", colour: str) -> None:
    """Draw one method: complete as a tick, an arrow from restricted to restored, and their intervals."""
    for arm, offset in (("restricted", -0.21), ("restored", 0.21)):
        ends, y = [cell[f"{arm}_low"], cell[f"{arm}_high"]], place + offset
        ax.plot(ends, [y, y], color=colour, alpha=0.35, linewidth=2.2, solid_capstyle="butt", zorder=2)
    ax.plot(cell["complete"], place, "|", color=INK, markersize=8.5, markeredgewidth=1.3, zorder=3)
    if np.isfinite(cell["restored"]):
        arrow = {"arrowstyle": "-|>,head_width=0.12,head_length=0.22", "color": colour, "linewidth": 0.9}
        arrow |= {"shrinkA": 0.0, "shrinkB": 1.5}
        start, end = (cell["restricted"], place), (cell["restored"], place)
        ax.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=4)
        ax.plot(*end, "o", color=colour, markersize=3.6, zorder=6)
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 0.9}
    ax.plot(cell["restricted"], place, "o", markersize=3.8, zorder=5, **hollow)


def _legend(figure: Figure, layout: _Layout, cells: pd.DataFrame) -> None:
    """Explain the marks in the first row, the kinds of methods in the second."""
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3.8}
    marks: list[Entry] = [
        (line(linestyle="", marker="|", markersize=8, markeredgewidth=1.3), "complete"),
        (line(**dot, markerfacecolor="white", markeredgewidth=0.9), "restricted"),
    ]
    if cells["restored"].notna().any():
        marks.append((line(**dot), layout.setting.restored()))
    if cells["restricted_low"].notna().any():
        marks.append((line(alpha=0.35, linewidth=2.2, markersize=3.8), "95% interval"))
    present = {names.kind_of(method) for method in layout.methods}
    outlined = {"edgecolor": MUTED, "linewidth": 0.4}
    kinds: list[Entry] = [
        (Patch(**_BANDS[kind] | outlined), label) for kind, label in _KIND_LABELS.items() if kind in present
    ]
    columns = max(len(marks), len(kinds))
    # A legend is filled column by column.
    padded = [row + [(line(linestyle=""), "")] * (columns - len(row)) for row in (marks, kinds)]
    entries = [entry for pair in zip(*padded, strict=True) for entry in pair]
    legend_below(figure, entries, columns, handlelength=1.5, handletextpad=0.5)
