"""What showing a policy the availability of acquisitions changes, drawn."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ascertain.analysis.results import Results
from ascertain.analysis.setting import main_restorer
from ascertain.analysis.state_conditioning import state_conditioning
from ascertain.errors import InputError
from ascertain.reporting.names import colours, dataset_name, in_order, mechanism_name, plain, policy_name
from ascertain.reporting.style import INK, MUTED, TEXT_WIDTH

_MARKERS = "osD^vP*X<>ph"


def draw_state_variants(results: Results) -> Figure:
    """Draw the lead of (s,m) over (s) beyond that on complete data: restricted across, restored upwards.

    A row per mechanism, a column per method that has both variants. Left of zero, seeing the mask makes
    restricted training worse.
    """
    effects = state_conditioning(results)
    effects = effects[effects["restorer"] == main_restorer(effects)]
    if effects.empty:
        raise InputError(
            "the results hold no method with both state variants on complete and restricted data"
        )
    restored = bool(effects["restored"].notna().any())
    mechanisms, methods = in_order("mechanism", effects["mechanism"]), in_order("method", effects["method"])
    datasets = in_order("dataset", effects["dataset"])
    markers = {dataset: _MARKERS[i % len(_MARKERS)] for i, dataset in enumerate(datasets)}
    height = len(mechanisms) * 1.45 + 0.35 + 0.17 * -(-len(datasets) // 4)
    figure = Figure(figsize=(TEXT_WIDTH, height + 0.3), layout="constrained")
    axes = figure.subplots(len(mechanisms), len(methods), squeeze=False, sharex=True, sharey=True)
    for row, mechanism in zip(axes, mechanisms, strict=True):
        for ax, method in zip(row, methods, strict=True):
            here = effects[(effects["mechanism"] == mechanism) & (effects["method"] == method)]
            _panel(ax, here, markers, colours(methods)[method], restored=restored)
        row[0].set_ylabel(f"{mechanism_name(mechanism)}\n{'restored' if restored else ''}", fontsize=7)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(plain(policy_name(method)), color=colours(methods)[method])
    for ax in axes[-1]:
        ax.set_xlabel("restricted", fontsize=7)
    figure.suptitle("lead of (s,m) over (s), beyond its lead on complete data", fontsize=8.5)
    _legend(figure, markers, sorted(effects["rate"].unique()))
    return figure


def _panel(ax: Axes, effects: pd.DataFrame, markers: dict[str, str], colour: str, *, restored: bool) -> None:
    ax.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
    if restored:
        ax.axhline(0, color=MUTED, linewidth=0.7, zorder=1)
    else:  # nothing to compare with: the marks stand side by side
        ax.set_yticks([])
    for place, (_, effect) in enumerate(effects.iterrows()):
        y = effect["restored"] if restored else place
        if np.isfinite(y):
            ax.scatter(
                effect["restricted"],
                y,
                s=_size(effect["rate"]),
                marker=markers[effect["dataset"]],
                facecolor=colour,
                edgecolor="white",
                linewidth=0.3,
                zorder=3,
            )
    ax.locator_params(nbins=5)


def _size(rate: float) -> float:
    return 4 + 30 * rate


def _legend(figure: Figure, markers: dict[str, str], rates: list[float]) -> None:
    dot: dict[str, Any] = {"linestyle": "", "color": INK, "markeredgewidth": 0}
    entries = [
        (Line2D([], [], marker=marker, markersize=4.2, **dot), plain(dataset_name(dataset)))
        for dataset, marker in markers.items()
    ]
    if len(rates) > 1:
        entries += [
            (Line2D([], [], marker="o", markersize=_size(rate) ** 0.5, **dot), f"$p = {rate:g}$")
            for rate in rates
        ]
    handles, labels = zip(*entries, strict=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=6.5, columnspacing=1.0)
