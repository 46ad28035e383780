"""Restoration gain against missingness damage, by policy and mechanism (appendix B.4)."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from ascertain.analysis._damage import (
    is_damaged,
    only_damaged,
    order_by_damage,
    recovery_cells,
    recovery_slopes,
)
from ascertain.analysis._results import Results, main_setting
from ascertain.analysis.figures._layout import Entry, canvas, ceil_div, fill_panels, legend_below, line
from ascertain.errors import InputError
from ascertain.reporting._names import colours, in_order, mechanism_name, plain, with_policies
from ascertain.reporting._style import GRID, INK, MUTED

_ACROSS = 3
_WEDGE = "#E6F1EA"


def draw_law_grid(results: Results) -> Figure:
    """Draw gain against damage: one block per mechanism, one panel per policy, one mark per dataset and rate.

    The ray is the recovery slope with its 95% fan; in the wedge, part of the damage is recovered.
    """
    setting = main_setting(results)
    cells = with_policies(recovery_cells(results))
    cells = cells[cells["restorer"] == setting.restorer]
    if cells.empty:
        raise InputError(
            "the results hold no cell with complete, restricted and restored training in one split"
        )
    slopes = with_policies(recovery_slopes(results))
    slopes = slopes[slopes["restorer"] == setting.restorer]
    fitted = is_damaged(cells["damage"].to_numpy(float)) | (not only_damaged(results))
    cells = cells.assign(fitted=fitted)
    policies = order_by_damage(cells, "policy", setting)
    mechanisms = in_order("mechanism", cells["mechanism"])
    across = min(2, len(mechanisms))
    down, rows = ceil_div(len(mechanisms), across), ceil_div(len(policies), _ACROSS)
    figure = canvas(down * (rows * (0.95 if across == 2 else 1.35) + 0.3) + 0.4)
    blocks = figure.subfigures(down, across, squeeze=False)
    # There is room for a line of text below the gains.
    limits = {"xlim": _padded(cells["damage"], below=0.06), "ylim": _padded(cells["gain"], below=0.28)}
    for mechanism, block in zip(mechanisms, blocks.flat, strict=False):
        block.suptitle(mechanism_name(mechanism), fontsize=8.5)
        here, rays = (frame[frame["mechanism"] == mechanism] for frame in (cells, slopes))
        _draw_block(block, here, rays, policies, limits)
    _legend(figure, cells["rate"], only_damaged=only_damaged(results))
    return figure


def _draw_block(
    figure: SubFigure,
    cells: pd.DataFrame,
    slopes: pd.DataFrame,
    policies: list[str],
    limits: dict[str, tuple[float, float]],
) -> None:
    shape = ceil_div(len(policies), _ACROSS), _ACROSS
    axes = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    for ax, policy in fill_panels(axes, policies):
        ax.set(**limits)
        ax.set_title(plain(policy), fontsize=7, pad=2)
        ax.tick_params(labelsize=6)
        ax.locator_params(nbins=4)
        end = limits["xlim"][1]
        ax.fill_between([0, end], [0, 0], [0, end], color=_WEDGE, linewidth=0, zorder=0)
        ax.axhline(0, color=MUTED, linewidth=0.6, zorder=1)
        ax.axvline(0, color=MUTED, linewidth=0.6, zorder=1)
        mine = cells[cells["policy"] == policy]
        if len(mine):
            _draw_ray(ax, slopes[slopes["policy"] == policy].iloc[0], max(float(mine["damage"].max()), 0.0))
            _draw_marks(ax, mine)
    figure.supxlabel("damage", fontsize=7)
    figure.supylabel("gain", fontsize=7)


def _draw_ray(ax: Axes, slope: "pd.Series[Any]", end: float) -> None:
    """Draw the slope as far as the largest damage, and write it with the number of damaged cells."""
    text = ""
    if np.isfinite(slope["slope"]):
        fan = [0, slope["slope_low"] * end], [0, slope["slope_high"] * end]
        ax.fill_between([0, end], *fan, color=GRID, alpha=0.6, linewidth=0, zorder=1)
        ax.plot([0, end], [0, slope["slope"] * end], color=INK, linewidth=0.9, zorder=2)
        text = f"{slope['slope']:.2f}, ".replace("-", "\N{MINUS SIGN}")
    ax.text(0.98, 0.04, f"{text}$n = {slope['damaged']}$", transform=ax.transAxes, ha="right", fontsize=5.8)


def _draw_marks(ax: Axes, cells: pd.DataFrame) -> None:
    """Mark each cell, hollow where it does not enter the slope."""
    colour = colours(cells["method"])[cells["method"].iloc[0]]
    edge: dict[str, Any] = {"edgecolor": colour, "linewidth": 0.5, "alpha": 0.85, "zorder": 3}
    for part, face in ((cells[cells["fitted"]], colour), (cells[~cells["fitted"]], "white")):
        sizes = [_size(rate) for rate in part["rate"]]
        ax.scatter(part["damage"], part["gain"], s=sizes, facecolor=face, **edge)


def _size(rate: float) -> float:
    return 2 + 12 * rate


def _padded(values: "pd.Series[float]", below: float) -> tuple[float, float]:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.02)
    return low - below * (high - low), high + 0.06 * (high - low)


def _legend(figure: Figure, rates: "pd.Series[float]", *, only_damaged: bool) -> None:
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "markeredgewidth": 0.5}
    entries: list[Entry] = [
        (line(markersize=_size(rate) ** 0.5, **dot), f"$p = {rate:g}$") for rate in sorted(rates.unique())
    ]
    if only_damaged:
        entries.append((line(markerfacecolor="white", markersize=3, **dot), "damage below 0.01"))
    entries += [
        (line(linewidth=0.9), "recovery slope"),
        (Patch(facecolor=GRID, alpha=0.6), "its 95% interval"),
        (Patch(facecolor=_WEDGE), "recovered in part"),
    ]
    legend_below(figure, entries, 4 if only_damaged else 6, columnspacing=1.2)
