"""What each restorer recovers of the damage, by mechanism and rate."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ascertain.analysis._recovered import WAY, compared_changes, recovered
from ascertain.analysis._recovered_tables import policies_names
from ascertain.analysis._results import Results, Setting
from ascertain.analysis.figures._layout import Entry, canvas, fill_panels, grid_shape, legend_below, line
from ascertain.errors import InputError
from ascertain.reporting._names import plain, way_name
from ascertain.reporting._style import INK, MUTED

_SHOWN = (-1.0, 2.0)  # shares beyond are ratios of a damage near zero
_MARKS: dict[str, dict[str, Any]] = {
    "paper": {"color": INK, "markerfacecolor": INK},
    "other": {"color": "#3B6BB0", "markerfacecolor": "white"},
}
_DOT: dict[str, Any] = {"marker": "o", "markersize": 3.8, "markeredgewidth": 0.9}
_BAR: dict[str, Any] = {"linewidth": 2.2, "alpha": 0.35, "solid_capstyle": "butt"}


def draw_recovered(results: Results) -> Figure:
    """Draw the recovered share as a dot with its 95% interval: a row per restorer, a panel per setting.

    The paper's policies and others are marked apart.
    """
    changes = compared_changes(results)
    shares = recovered(changes).dropna(subset="share")
    if shares.empty:
        raise InputError("the mean damage is below 0.01 everywhere, so there is nothing to recover")
    ways = [tuple(way) for way in changes[WAY].drop_duplicates().to_numpy()]
    settings = changes[["mechanism", "rate"]].drop_duplicates().itertuples(index=False)
    panels = {Setting(mechanism, rate, "").describe(): (mechanism, rate) for mechanism, rate in settings}
    groups = [name for name in _MARKS if name in set(shares["policies"])]
    down, across = grid_shape(len(panels), most=3)
    figure = canvas(down * (0.16 * len(ways) + 0.55) + 0.5)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for ax, title in fill_panels(axes, list(panels)):
        mechanism, rate = panels[title]
        here = shares[(shares["mechanism"] == mechanism) & (shares["rate"] == rate)]
        _draw_panel(ax, here, ways, groups)
        ax.set_title(title, fontsize=6.4, pad=2)
    axes[0, 0].set_xlim(*_limits(shares))
    axes[0, 0].set_ylim(len(ways) - 0.5, -0.5)
    axes[0, 0].set_yticks(range(len(ways)), [plain(way_name(*way)) for way in ways])
    for ax in axes[-1]:
        ax.set_xlabel("recovered", fontsize=7)
    _legend(figure, groups, policies_names(changes), bars=bool(shares["share_low"].notna().any()))
    return figure


def _draw_panel(ax: Axes, shares: pd.DataFrame, ways: list[tuple[str, ...]], groups: list[str]) -> None:
    for edge in (0.0, 1.0):
        ax.axvline(edge, color=MUTED, linewidth=0.7, linestyle="-" if edge else ":", zorder=1)
    for row in shares.to_dict("records"):
        aside = 0.0 if len(groups) == 1 else -0.16 if row["policies"] == "paper" else 0.16
        place = ways.index((row["treatment"], row["restorer"])) + aside
        mark = _MARKS[row["policies"]]
        ax.plot([row["share_low"], row["share_high"]], [place, place], color=mark["color"], **_BAR, zorder=2)
        ax.plot(row["share"], place, **_DOT, **mark, zorder=3)
    if shares.empty:
        centre: dict[str, Any] = {"transform": ax.transAxes, "ha": "center", "va": "center"}
        ax.text(0.5, 0.5, "damage below 0.01", fontsize=6, color=MUTED, backgroundcolor="white", **centre)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.locator_params(axis="x", nbins=4)
    ax.tick_params(labelsize=6.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def _limits(shares: pd.DataFrame) -> tuple[float, float]:
    """From nothing to everything, and further as far as shares and intervals go, within bounds."""
    values = shares[["share", "share_low", "share_high"]].to_numpy(np.float64)
    low, high = np.clip([min(np.nanmin(values), 0.0), max(np.nanmax(values), 1.0)], *_SHOWN)
    margin = 0.06 * (high - low)
    return float(low - margin), float(high + margin)


def _legend(figure: Figure, groups: list[str], labels: dict[str, str], *, bars: bool) -> None:
    entries: list[Entry] = [
        (line(linestyle="", **_DOT | _MARKS[group]), plain(labels[group])) for group in groups
    ]
    if bars:
        entries.append((line(**_BAR), "95% interval over splits"))
    entries.append((line(color=MUTED, linewidth=0.7), "all of the damage"))
    legend_below(figure, entries, len(entries))
