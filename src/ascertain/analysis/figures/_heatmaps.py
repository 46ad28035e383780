"""What is acquired at which step, after training on complete, restricted and restored data."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from ascertain.analysis._damage import ARMS, damage_and_gain
from ascertain.analysis._results import Results, Setting, at_setting, main_setting, narrowed
from ascertain.analysis.figures._layout import canvas, ceil_div
from ascertain.errors import InputError
from ascertain.reporting._names import dataset_name, plain, policy_name, without_baselines
from ascertain.reporting._style import INK

_MOST_DATASETS = 5  # on one page
_MOST_ACTIONS = 12  # by name; the others are summed
_ROW = 0.11  # inches
_POLICY = ["dataset", "method", "state"]

Maps = dict[str, pd.DataFrame]  # by treatment: shares, actions x steps


def mean_shares(results: Results) -> pd.DataFrame:
    """Share of rows that take each action at each step, averaged over splits.

    One row per dataset, method, state, treatment, restorer, mechanism, rate, step and action: `share`.
    Actions that nobody takes at a step have no row there.
    """
    by = [*_POLICY, "treatment", "restorer", "mechanism", "rate"]
    # A split in which nobody takes an action has no row of it, but counts.
    splits = results.acquisitions.groupby(by)["split"].nunique().rename("splits")
    grouped = results.acquisitions.groupby([*by, "step", "action"], sort=False)["share"]
    shares = grouped.sum().reset_index().merge(splits.reset_index(), on=by)
    shares["share"] /= shares.pop("splits")
    return shares


def draw_acquisition_heatmaps(results: Results, datasets: Sequence[str] | None = None) -> Figure:
    """Draw the share of rows that take each action at each step, a row per dataset, a column per treatment.

    Without `datasets`, the most damaged ones are shown, as many as fit a page. Each is represented by its
    most damaged policy, where missing data are likeliest to have changed what is acquired.
    """
    setting = main_setting(results)
    panels = _panels(results, setting, datasets)
    if not panels:
        raise InputError(
            f"the results hold no acquisitions at {setting.mechanism}, p = {setting.rate:g}: there is no "
            "acquisitions.parquet, or it lacks the datasets"
        )
    treatments = [arm for arm in ARMS if any(arm in maps for maps in panels.values())]
    actions = [[str(name) for name in next(iter(maps.values())).index] for maps in panels.values()]
    heights = [max(0.8, len(names) * _ROW) for names in actions]
    figure = canvas(sum(heights) + 0.2 * len(panels) + 0.9)
    axes = figure.subplots(len(panels), len(treatments), squeeze=False, height_ratios=heights)
    for row, names, ((dataset, policy), maps) in zip(axes, actions, panels.items(), strict=True):
        for ax, treatment in zip(row, treatments, strict=True):
            _draw_map(ax, maps.get(treatment))
        row[0].set_yticks(range(len(names)), [plain(name, 18) for name in names])
        row[0].set_ylabel(f"{plain(dataset_name(dataset), 16)}\n{plain(policy, 16)}", fontsize=7)
    for ax, treatment in zip(axes[0], treatments, strict=True):
        ax.set_title(setting.restored() if treatment == "restored" else treatment, fontsize=7.5)
    for ax in axes[-1]:
        ax.set_xlabel("step", fontsize=7)
    figure.suptitle(setting.describe(), fontsize=8.5)
    images = [image for ax in axes.flat for image in ax.images]
    bar = figure.colorbar(images[0], ax=axes, location="bottom", shrink=0.35, aspect=40, pad=0.01)
    bar.set_label("share of rows", fontsize=7)
    bar.ax.tick_params(labelsize=6)
    return figure


def _panels(
    results: Results, setting: Setting, datasets: Sequence[str] | None
) -> dict[tuple[str, str], Maps]:
    """Maps of the chosen datasets and policies, most damaged first."""
    shares = mean_shares(results)
    shares = pd.concat([shares[shares["treatment"] == "complete"], at_setting(shares, setting)])
    shown = without_baselines(shares)[_POLICY].drop_duplicates()
    damage = at_setting(damage_and_gain(narrowed(results, setting), "variant"), setting)
    ranked = shown.merge(damage[[*_POLICY, "damage"]], on=_POLICY, how="left")
    ranked = ranked.sort_values("damage", ascending=False, kind="stable").drop_duplicates("dataset")
    chosen = ranked.head(_MOST_DATASETS) if datasets is None else ranked[ranked["dataset"].isin(datasets)]
    panels = {}
    for dataset, method, state in chosen[_POLICY].itertuples(index=False):
        mine = shares[(shares[_POLICY] == [dataset, method, state]).all(axis=1)]
        maps = {str(arm): part for arm, part in mine.groupby("treatment")}
        panels[dataset, policy_name(method, state)] = _comparable(maps)
    return panels


def _comparable(shares: Maps) -> Maps:
    """Pivot the shares to the same actions and steps: the actions taken most, and the others summed."""
    maps = {
        arm: part.pivot(index="action", columns="step", values="share").reindex(part["action"].unique())
        for arm, part in shares.items()
    }
    actions = pd.Index(dict.fromkeys(name for table in maps.values() for name in table.index))
    steps = sorted({step for table in maps.values() for step in table.columns})
    maps = {arm: table.reindex(index=actions, columns=steps).fillna(0.0) for arm, table in maps.items()}
    if len(actions) <= _MOST_ACTIONS + 1:
        return maps
    total = sum(table.sum(axis=1) for table in maps.values())
    named = actions[actions.isin(pd.Series(total).nlargest(_MOST_ACTIONS).index)]
    rest = f"{len(actions) - len(named)} others"
    return {
        arm: pd.concat([table.loc[named], table.drop(named).sum().to_frame(rest).T])
        for arm, table in maps.items()
    }


def _draw_map(ax: Axes, shares: pd.DataFrame | None) -> None:
    ax.grid(visible=False)
    ax.set_yticks([])
    if shares is None:
        ax.set_axis_off()
        return
    # Small shares matter too: over many actions, none has a large one.
    shade = PowerNorm(0.5, vmin=0, vmax=1)
    ax.imshow(shares.to_numpy(), cmap="Purples", norm=shade, aspect="auto", interpolation="nearest")
    steps = shares.columns.to_numpy()
    every = max(1, ceil_div(len(steps), 8))
    ax.set_xticks(np.arange(0, len(steps), every), [str(step) for step in steps[::every]])
    ax.tick_params(labelsize=6, length=0)
    ax.spines[:].set_color(INK)
