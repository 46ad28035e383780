"""Effect of showing a policy which acquisitions are available: (s,m) against (s) (appendix B.1)."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ascertain.analysis._damage import ARMS, CELL, paired_scores
from ascertain.analysis._results import Results, main_restorer
from ascertain.analysis.figures._layout import canvas, ceil_div, legend_below, line
from ascertain.errors import InputError
from ascertain.reporting._names import colours, dataset_name, in_order, mechanism_name, plain, policy_name
from ascertain.reporting._style import MUTED

_CELL = [column for column in CELL if column != "state"]
_MARKERS = "osD^vP*X<>ph"


def state_conditioning(results: Results) -> pd.DataFrame:
    """How much better (s,m) does than (s), beyond its lead on complete data.

    In each split: (score of (s,m) - score of (s)) minus the same difference on complete data; then the mean
    over splits. One row per dataset, method with both variants, mechanism, rate and restorer: `restricted`
    and `restored` (NaN where nothing is restored), the number of `splits`, and `complete`, the lead that was
    taken off.
    """
    scores = paired_scores(results, "variant").dropna(subset=["complete", "restricted"])
    by_split = [*_CELL, "split"]
    without, with_mask = (scores[scores["state"] == state].set_index(by_split) for state in ("s", "sm"))
    shared = without.index.intersection(with_mask.index)
    lead = with_mask.loc[shared, list(ARMS)] - without.loc[shared, list(ARMS)]
    beyond = lead[["restricted", "restored"]].sub(lead["complete"], axis=0).assign(complete=lead["complete"])
    means = beyond.groupby(level=_CELL).mean()
    means["splits"] = beyond.groupby(level=_CELL).size()
    return means.reset_index()


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
    by_method = colours(methods)
    figure = canvas(len(mechanisms) * 1.45 + 0.35 + 0.17 * ceil_div(len(datasets), 4) + 0.3)
    axes = figure.subplots(len(mechanisms), len(methods), squeeze=False, sharex=True, sharey=True)
    for row, mechanism in zip(axes, mechanisms, strict=True):
        for ax, method in zip(row, methods, strict=True):
            here = effects[(effects["mechanism"] == mechanism) & (effects["method"] == method)]
            _draw_panel(ax, here, markers, by_method[method], restored=restored)
        row[0].set_ylabel(f"{mechanism_name(mechanism)}\n{'restored' if restored else ''}", fontsize=7)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(plain(policy_name(method)), color=by_method[method])
    for ax in axes[-1]:
        ax.set_xlabel("restricted", fontsize=7)
    figure.suptitle("lead of (s,m) over (s), beyond its lead on complete data", fontsize=8.5)
    dot: dict[str, Any] = {"linestyle": "", "markeredgewidth": 0}
    entries = [
        (line(marker=marker, markersize=4.2, **dot), plain(dataset_name(dataset)))
        for dataset, marker in markers.items()
    ]
    rates = sorted(effects["rate"].unique())
    if len(rates) > 1:
        entries += [(line(marker="o", markersize=_size(p) ** 0.5, **dot), f"$p = {p:g}$") for p in rates]
    legend_below(figure, entries, 6)
    return figure


def _draw_panel(
    ax: Axes, effects: pd.DataFrame, markers: dict[str, str], colour: str, *, restored: bool
) -> None:
    ax.axvline(0, color=MUTED, linewidth=0.7, zorder=1)
    if restored:
        ax.axhline(0, color=MUTED, linewidth=0.7, zorder=1)
    else:  # nothing to compare with: the marks stand side by side
        ax.set_yticks([])
    style: dict[str, Any] = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.3, "zorder": 3}
    for place, (_, effect) in enumerate(effects.iterrows()):
        y = effect["restored"] if restored else place
        if np.isfinite(y):
            marker, size = markers[effect["dataset"]], _size(effect["rate"])
            ax.scatter(effect["restricted"], y, s=size, marker=marker, **style)
    ax.locator_params(nbins=5)


def _size(rate: float) -> float:
    return 4 + 30 * rate
