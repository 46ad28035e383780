"""Restoration gain against missingness damage, by policy and mechanism (appendix B.4)."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ascertain.analysis.damage import order_by_damage
from ascertain.analysis.recovery import is_damaged, recovery_cells, recovery_slopes
from ascertain.analysis.results import Results
from ascertain.analysis.setting import main_setting
from ascertain.errors import InputError
from ascertain.protocol import protocol
from ascertain.reporting.names import colours, in_order, mechanism_name, plain, with_policies
from ascertain.reporting.style import GRID, INK, MUTED, TEXT_WIDTH

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
    policies = order_by_damage(cells, "policy", setting)
    mechanisms = in_order("mechanism", cells["mechanism"])
    across = min(2, len(mechanisms))
    down, rows = -(-len(mechanisms) // across), -(-len(policies) // _ACROSS)
    height = down * (rows * (0.95 if across == 2 else 1.35) + 0.3) + 0.4
    figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False)
    limits = _limits(cells)
    only_damaged = protocol(results.protocol).ray_fit == "damaged"
    for place, part in zip(mechanisms, parts.flat, strict=False):
        part.suptitle(mechanism_name(place), fontsize=8.5)
        here = cells[cells["mechanism"] == place], slopes[slopes["mechanism"] == place]
        _block(part, *here, policies, limits, only_damaged=only_damaged)
    _legend(figure, cells, only_damaged=only_damaged)
    return figure


def _block(
    figure: SubFigure,
    cells: pd.DataFrame,
    slopes: pd.DataFrame,
    policies: list[str],
    limits: tuple[tuple[float, float], tuple[float, float]],
    *,
    only_damaged: bool,
) -> None:
    axes = figure.subplots(-(-len(policies) // _ACROSS), _ACROSS, squeeze=False, sharex=True, sharey=True)
    for place, ax in enumerate(axes.flat):
        if place >= len(policies):
            ax.set_axis_off()
            continue
        mine = cells[cells["policy"] == policies[place]]
        ax.set(xlim=limits[0], ylim=limits[1])
        ax.set_title(plain(policies[place]), fontsize=7, pad=2)
        ax.tick_params(labelsize=6)
        ax.locator_params(nbins=4)
        _wedge(ax, limits[0][1])
        if len(mine):
            _ray(ax, mine, slopes[slopes["policy"] == policies[place]].iloc[0])
            _marks(ax, mine, only_damaged=only_damaged)
    figure.supxlabel("damage", fontsize=7)
    figure.supylabel("gain", fontsize=7)


def _wedge(ax: Axes, end: float) -> None:
    ax.fill_between([0, end], [0, 0], [0, end], color=_WEDGE, linewidth=0, zorder=0)
    ax.axhline(0, color=MUTED, linewidth=0.6, zorder=1)
    ax.axvline(0, color=MUTED, linewidth=0.6, zorder=1)


def _ray(ax: Axes, cells: pd.DataFrame, slope: "pd.Series[Any]") -> None:
    """Draw the slope as far as the largest damage, and write it with the number of damaged cells."""
    end = max(float(cells["damage"].max()), 0.0)
    if np.isfinite(slope["slope"]):
        fan = [0, slope["slope_low"] * end], [0, slope["slope_high"] * end]
        ax.fill_between([0, end], *fan, color=GRID, alpha=0.6, linewidth=0, zorder=1)
        ax.plot([0, end], [0, slope["slope"] * end], color=INK, linewidth=0.9, zorder=2)
    text = f"{slope['slope']:.2f}, ".replace("-", "\N{MINUS SIGN}") if np.isfinite(slope["slope"]) else ""
    ax.text(0.98, 0.04, f"{text}$n = {slope['damaged']}$", transform=ax.transAxes, ha="right", fontsize=5.8)


def _marks(ax: Axes, cells: pd.DataFrame, *, only_damaged: bool) -> None:
    colour = colours(cells["method"])[cells["method"].iloc[0]]
    entering = is_damaged(cells["damage"].to_numpy(float)) | (not only_damaged)
    for part, face in ((cells[entering], colour), (cells[~entering], "white")):
        ax.scatter(
            part["damage"],
            part["gain"],
            s=[_size(rate) for rate in part["rate"]],
            facecolor=face,
            edgecolor=colour,
            linewidth=0.5,
            alpha=0.85,
            zorder=3,
        )


def _size(rate: float) -> float:
    return 2 + 12 * rate


def _limits(cells: pd.DataFrame) -> tuple[tuple[float, float], tuple[float, float]]:
    def padded(values: "pd.Series[float]", below: float) -> tuple[float, float]:
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.02)
        return low - below * (high - low), high + 0.06 * (high - low)

    return padded(cells["damage"], below=0.06), padded(cells["gain"], below=0.28)  # room for a line of text


def _legend(figure: Figure, cells: pd.DataFrame, *, only_damaged: bool) -> None:
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": INK, "markeredgewidth": 0.5}
    entries: list[tuple[Any, str]] = [
        (Line2D([], [], markersize=_size(rate) ** 0.5, **dot), f"$p = {rate:g}$")
        for rate in sorted(cells["rate"].unique())
    ]
    if only_damaged:
        entries.append((Line2D([], [], markerfacecolor="white", markersize=3, **dot), "damage below 0.01"))
    entries += [
        (Line2D([], [], color=INK, linewidth=0.9), "recovery slope"),
        (Patch(facecolor=GRID, alpha=0.6), "its 95% interval"),
        (Patch(facecolor=_WEDGE), "recovered in part"),
    ]
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4 if only_damaged else 6,
        fontsize=6.5,
        columnspacing=1.2,
    )
