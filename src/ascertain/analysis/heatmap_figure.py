"""What is acquired when: on complete, restricted and restored data."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from ascertain.analysis.curves import mean_shares
from ascertain.analysis.damage import ARMS, damage_and_gain
from ascertain.analysis.results import Results
from ascertain.analysis.setting import Setting, at_setting, main_setting, narrowed, restored_by
from ascertain.errors import InputError
from ascertain.reporting.names import dataset_name, plain, policy_name, without_baselines
from ascertain.reporting.style import INK, TEXT_WIDTH

_MOST_DATASETS = 5  # on one page
_MOST_ACTIONS = 12  # by name; the others are summed
_ROW = 0.11  # inches


class _Panel(NamedTuple):
    """One dataset's row of maps: the policy shown, and its shares by treatment (actions x steps)."""

    dataset: str
    policy: str
    shares: dict[str, pd.DataFrame]

    @property
    def actions(self) -> list[str]:
        """What the rows of the maps are called."""
        return [str(name) for name in next(iter(self.shares.values())).index]


def draw_acquisition_heatmaps(results: Results, datasets: Sequence[str] | None = None) -> Figure:
    """Draw the share of rows that take each action at each step, a row per dataset, a column per treatment.

    Parameters
    ----------
    results
        The results.
    datasets
        The datasets to show; by default those that missing data damage most, as many as fit a page. Each is
        shown by its most damaged policy, where missing data are likeliest to have changed what is acquired.
    """
    setting = main_setting(results)
    panels = _panels(results, setting, datasets)
    if not panels:
        raise InputError(
            f"the results hold no acquisitions at {setting.mechanism}, p = {setting.rate:g}: there is no "
            "acquisitions.parquet, or it lacks the datasets"
        )
    treatments = [arm for arm in ARMS if any(arm in panel.shares for panel in panels)]
    heights = [max(0.8, len(panel.actions) * _ROW) for panel in panels]
    figure = Figure(figsize=(TEXT_WIDTH, sum(heights) + 0.2 * len(panels) + 0.9), layout="constrained")
    axes = figure.subplots(len(panels), len(treatments), squeeze=False, height_ratios=heights)
    for row, panel in zip(axes, panels, strict=True):
        for ax, treatment in zip(row, treatments, strict=True):
            _map(ax, panel.shares.get(treatment))
        row[0].set_yticks(range(len(panel.actions)), [plain(name, 18) for name in panel.actions])
        row[0].set_ylabel(f"{plain(dataset_name(panel.dataset), 16)}\n{plain(panel.policy, 16)}", fontsize=7)
    for ax, treatment in zip(axes[0], treatments, strict=True):
        ax.set_title(restored_by(setting) if treatment == "restored" else treatment, fontsize=7.5)
    for ax in axes[-1]:
        ax.set_xlabel("step", fontsize=7)
    figure.suptitle(setting.describe(), fontsize=8.5)
    images = [image for ax in axes.flat for image in ax.images]
    bar = figure.colorbar(images[0], ax=axes, location="bottom", shrink=0.35, aspect=40, pad=0.01)
    bar.set_label("share of rows", fontsize=7)
    bar.ax.tick_params(labelsize=6)
    return figure


def _panels(results: Results, setting: Setting, datasets: Sequence[str] | None) -> list[_Panel]:
    """Choose what to show, most damaged first."""
    shares = mean_shares(results)
    shares = pd.concat([shares[shares["treatment"] == "complete"], at_setting(shares, setting)])
    by = ["dataset", "method", "state"]
    shown = without_baselines(shares)[by].drop_duplicates()
    damage = at_setting(damage_and_gain(narrowed(results, setting), "variant"), setting)[[*by, "damage"]]
    ranked = shown.merge(damage, on=by, how="left").sort_values("damage", ascending=False, kind="stable")
    if datasets is not None:
        ranked = ranked[ranked["dataset"].isin(datasets)]
    chosen = ranked.drop_duplicates("dataset")
    chosen = chosen if datasets is not None else chosen.head(_MOST_DATASETS)
    panels = []
    for dataset, method, state in chosen[by].itertuples(index=False):
        mine = shares[(shares[by] == [dataset, method, state]).all(axis=1)]
        maps = {str(arm): part for arm, part in mine.groupby("treatment")}
        panels.append(_Panel(dataset, policy_name(method, state), _comparable(maps)))
    return panels


def _comparable(maps: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Give all treatments the same actions and steps: the actions taken most, and the others summed."""
    tables = {
        arm: part.pivot(index="action", columns="step", values="share").reindex(part["action"].unique())
        for arm, part in maps.items()
    }
    actions = pd.Index(dict.fromkeys(name for table in tables.values() for name in table.index))
    steps = sorted({step for table in tables.values() for step in table.columns})
    tables = {arm: table.reindex(index=actions, columns=steps).fillna(0.0) for arm, table in tables.items()}
    total = sum(table.sum(axis=1) for table in tables.values())
    if len(actions) <= _MOST_ACTIONS + 1:
        return tables
    named = actions[actions.isin(pd.Series(total).nlargest(_MOST_ACTIONS).index)]
    rest = f"{len(actions) - len(named)} others"
    return {
        arm: pd.concat([table.loc[named], table.drop(named).sum().to_frame(rest).T])
        for arm, table in tables.items()
    }


def _map(ax: Axes, shares: pd.DataFrame | None) -> None:
    ax.grid(visible=False)
    ax.set_yticks([])
    if shares is None:
        ax.set_axis_off()
        return
    # Small shares matter too: over many actions, none has a large one.
    shade = PowerNorm(0.5, vmin=0, vmax=1)
    ax.imshow(shares.to_numpy(), cmap="Purples", norm=shade, aspect="auto", interpolation="nearest")
    steps = shares.columns.to_numpy()
    every = max(1, -(-len(steps) // 8))
    ax.set_xticks(np.arange(0, len(steps), every), [str(step) for step in steps[::every]])
    ax.tick_params(labelsize=6, length=0)
    ax.spines[:].set_color(INK)
