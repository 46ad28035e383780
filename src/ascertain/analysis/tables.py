"""The tables of a study, for reading and for LaTeX."""

import math
from functools import partial
from itertools import groupby

import pandas as pd

from ascertain.analysis import latex
from ascertain.analysis.adaptivity import adaptivity
from ascertain.analysis.damage import damage_and_gain
from ascertain.analysis.results import Results
from ascertain.analysis.route_structure import MEASURES, route_table
from ascertain.analysis.setting import main_setting
from ascertain.errors import InputError
from ascertain.reporting.names import (
    dataset_name,
    in_order,
    mechanism_name,
    policy_name,
    restorer_name,
    with_policies,
)

_MEASURE_TITLES = {"v_static": "V static", "sensitivity": "Δ route", "overlap": "ω route"}
_MEASURE_LATEX = {
    "v_static": r"$V_{\mathrm{static}}$",
    "sensitivity": r"$\Delta_{\mathrm{route}}$",
    "overlap": r"$\omega_{\mathrm{route}}$",
}
_signed_latex = partial(latex.number, signed=True)
_NOTHING = "\N{EN DASH}"
_ABOUT_DAMAGE = ["Mechanism", "Rate", "Dataset", "Quantity"]


def route_structure_table(results: Results) -> pd.DataFrame:
    """Give table 1 for reading: a row per dataset, mean ± standard error, and the three ranks."""
    found = route_table(results)
    columns: dict[str, object] = {
        "Dataset": [dataset_name(name) for name in found["dataset"]],
        "Budget": [f"{budget:g}" for budget in found["budget"]],
    }
    for measure, title in _MEASURE_TITLES.items():
        pairs = zip(found[measure], found[f"{measure}_se"], strict=True)
        columns[title] = [_with_error(mean, error) for mean, error in pairs]
    ranks = found[[f"{measure}_rank" for measure in MEASURES]]
    columns["Ranks (V, Δ, ω)"] = [
        ", ".join(_NOTHING if pd.isna(rank) else str(rank) for rank in row)
        for row in ranks.itertuples(index=False)
    ]
    columns["Splits"] = found["splits"].to_list()
    return pd.DataFrame(columns)


def route_structure_latex(results: Results) -> str:
    """Give table 1 as the paper prints it: three rankings side by side, each largest first."""
    found = route_table(results)
    ranked = []
    for measure in MEASURES:
        by_value = found.sort_values(measure, ascending=False)
        names = [latex.escape(dataset_name(name)) for name in by_value["dataset"]]
        pairs = zip(by_value[measure], by_value[f"{measure}_se"], strict=True)
        ranked += [names, [_latex_with_error(mean, error) for mean, error in pairs]]
    header = [f"\\multicolumn{{2}}{{c}}{{{_MEASURE_LATEX[measure]}}}" for measure in MEASURES]
    budgets = ", ".join(
        f"{budget:g} for {latex.escape(dataset_name(name))}"
        for name, budget in zip(found["dataset"], found["budget"], strict=True)
    )
    caption = (
        "Fixed-route structure. Each column ranks the datasets by that quantity alone, largest first. "
        f"Mean $\\pm$ standard error over {_counted(found['splits'], 'split')}, at each dataset's largest "
        f"budget: {budgets}."
    )
    rows = [list(row) for row in zip(*ranked, strict=True)]
    return latex.table(caption, "tab:route-structure", latex.tabular("lclclc", header, [rows]))


def adaptivity_table(results: Results) -> pd.DataFrame:
    """Give table 2 for reading: a row per method, least damaged first."""
    found = adaptivity(results).table
    return pd.DataFrame(
        {
            "Method": [policy_name(method) for method in found["method"]],
            "Complete": [f"{value:.3f}" for value in found["complete"]],
            "Margin over V static": [_signed(value) for value in found["margin"]],
            "Damage": [_signed(value) for value in found["damage"]],
            "Datasets": found["datasets"],
        }
    )


def adaptivity_latex(results: Results) -> str:
    """Give table 2 as the paper prints it, with the correlations in its caption."""
    found = adaptivity(results)
    rows = [
        [
            latex.escape(policy_name(str(row["method"]))),
            latex.number(row["complete"]),
            _signed_latex(row["margin"]),
            _signed_latex(row["damage"]),
        ]
        for _, row in found.table.iterrows()
    ]
    setting = main_setting(results)
    caption = (
        f"Complete-data score, its margin over the static route, and missingness damage under "
        f"{latex.escape(mechanism_name(setting.mechanism))} at $p={setting.rate:g}$, averaged over "
        f"{_counted(found.table['datasets'], 'dataset')} and over state variants. Between margin and damage "
        f"across method--dataset cells, Pearson $r$ is {latex.number(found.pearson, decimals=2)} and "
        f"Spearman $\\rho$ {latex.number(found.spearman, decimals=2)}."
    )
    header = ["Method", "Complete", f"Margin over {_MEASURE_LATEX['v_static']}", "Damage"]
    return latex.table(caption, "tab:adaptivity", latex.tabular("lccc", header, [rows]))


def damage_table(results: Results) -> pd.DataFrame:
    """Give damage and gain of every policy for reading: a row per mechanism, rate, dataset and quantity."""
    wide = _wide_damage(results)
    return wide.map(_signed).reset_index()


def damage_numbers(results: Results) -> pd.DataFrame:
    """Give damage and gain of every policy with intervals, one row per cell."""
    found = damage_and_gain(results, "variant")
    if found.empty:
        raise InputError("the results hold no restricted cell; damage needs the treatment 'restricted'")
    return found


def damage_latex(results: Results) -> str:
    """Give damage and gain of every policy, one table per mechanism."""
    wide = _wide_damage(results)
    written: list[str] = []
    for mechanism, part in wide.groupby(level="Mechanism", sort=False):
        rows = [
            [
                f"${rate}$",
                latex.escape(dataset),
                latex.escape(quantity),
                *(_signed_latex(value) for value in values),
            ]
            for (_, rate, dataset, quantity), values in zip(part.index, part.to_numpy(), strict=True)
        ]
        groups = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
        header = ["$p$", "Dataset", "", *(_heading(str(policy)) for policy in wide.columns)]
        body = latex.tabular("rll" + "r" * len(wide.columns), header, groups)
        caption = (
            f"Missingness damage (complete $-$ restricted) and restoration gain (restored $-$ restricted) "
            f"under {latex.escape(str(mechanism))}, mean over splits."
        )
        written.append(latex.table(caption, f"tab:damage-{len(written) + 1}", body, "scriptsize"))
    return "\n".join(written)


def _wide_damage(results: Results) -> pd.DataFrame:
    """Put policies into columns; a row for the damage, and one for the gain by each restorer."""
    cells = with_policies(damage_numbers(results))
    policies = list(
        dict.fromkeys(
            policy_name(method, state)
            for method in in_order("method", cells["method"])
            for state in sorted(cells.loc[cells["method"] == method, "state"].unique())
        )
    )
    # The damage is the same whatever restores, but for splits in which a restorer is not finished.
    most = cells.sort_values("splits", kind="stable").drop_duplicates(
        ["dataset", "policy", "mechanism", "rate"], keep="last"
    )
    gains = cells.dropna(subset="gain")
    restored = [f"gain ({restorer_name(name)})" for name in gains["restorer"]]
    by_quantity = pd.concat(
        [
            most.assign(Quantity="damage", value=most["damage"]),
            gains.assign(Quantity=restored, value=gains["gain"]),
        ]
    )
    wide = by_quantity.pivot(
        index=["mechanism", "rate", "dataset", "Quantity"], columns="policy", values="value"
    )
    mechanisms, datasets = in_order("mechanism", cells["mechanism"]), in_order("dataset", cells["dataset"])
    order = sorted(
        wide.index, key=lambda row: (mechanisms.index(row[0]), row[1], datasets.index(row[2]), row[3])
    )
    named = [
        (mechanism_name(m), f"{rate:g}", dataset_name(dataset), what) for m, rate, dataset, what in order
    ]
    wide = wide.loc[order, policies].set_axis(pd.MultiIndex.from_tuples(named, names=_ABOUT_DAMAGE), axis=0)
    return wide.rename_axis(columns=None)


def _heading(policy: str) -> str:
    """Set a state variant below its method: columns of numbers are narrow."""
    method, bracket, state = policy.partition(" (")
    return (
        f"\\shortstack{{{latex.escape(method)}\\\\{latex.escape(bracket.strip() + state)}}}"
        if bracket
        else latex.escape(policy)
    )


def _signed(value: float) -> str:
    rounded = round(value, 3) + 0.0  # no negative zero
    return _NOTHING if math.isnan(value) else f"{rounded:+.3f}"


def _with_error(mean: float, error: float) -> str:
    if math.isnan(mean):
        return _NOTHING
    return f"{mean:.3f}" if math.isnan(error) else f"{mean:.3f} ± {error:.3f}"


def _latex_with_error(mean: float, error: float) -> str:
    if math.isnan(mean) or math.isnan(error):
        return latex.number(mean)
    return f"${mean:.3f} \\pm {error:.3f}$"


def _counted(counts: "pd.Series[int]", noun: str) -> str:
    """Say how many, or from how many to how many: `5 splits`, `1 dataset`, `3 to 5 splits`."""
    low, high = counts.min(), counts.max()
    number = f"{high}" if low == high else f"{low} to {high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"
