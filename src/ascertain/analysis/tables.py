"""The tables of a study, for reading and for LaTeX (booktabs)."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import pandas as pd

from ascertain.analysis.damage import damage_and_gain
from ascertain.analysis.results import Results
from ascertain.analysis.routes import MEASURES, adaptivity, route_table
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
from ascertain.reporting.tables import NOTHING

_MEASURE_LATEX = {
    "v_static": r"$V_{\mathrm{static}}$",
    "sensitivity": r"$\Delta_{\mathrm{route}}$",
    "overlap": r"$\omega_{\mathrm{route}}$",
}
_SPECIAL = {
    **{character: f"\\{character}" for character in "{}$&%#_"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
}


def route_structure_table(results: Results) -> pd.DataFrame:
    """Table 1 for reading: a row per dataset, mean ± standard error, and the three ranks."""
    found = route_table(results)
    columns: dict[str, object] = {
        "Dataset": [dataset_name(name) for name in found["dataset"]],
        "Budget": [f"{budget:g}" for budget in found["budget"]],
    }
    for measure, title in MEASURES.items():
        columns[title] = [_with_error(*pair) for pair in _with_errors(found, measure)]
    ranks = found[[f"{measure}_rank" for measure in MEASURES]]
    columns["Ranks (V, Δ, ω)"] = [
        ", ".join(NOTHING if pd.isna(rank) else str(rank) for rank in row)
        for row in ranks.itertuples(index=False)
    ]
    return pd.DataFrame(columns | {"Splits": found["splits"].to_list()})


def route_structure_latex(results: Results) -> str:
    """Table 1 as the paper prints it: three rankings side by side, each largest first."""
    found = route_table(results)
    ranked = []
    for measure in MEASURES:
        by_value = found.sort_values(measure, ascending=False)
        names = [latex_text(dataset_name(name)) for name in by_value["dataset"]]
        ranked += [names, [_latex_with_error(*pair) for pair in _with_errors(by_value, measure)]]
    header = [f"\\multicolumn{{2}}{{c}}{{{title}}}" for title in _MEASURE_LATEX.values()]
    budgets = ", ".join(
        f"{budget:g} for {latex_text(dataset_name(name))}"
        for name, budget in zip(found["dataset"], found["budget"], strict=True)
    )
    caption = (
        "Fixed-route structure. Each column ranks the datasets by that quantity alone, largest first. "
        f"Mean $\\pm$ standard error over {_range_of(found['splits'], 'split')}, at each dataset's largest "
        f"budget: {budgets}."
    )
    rows = [list(row) for row in zip(*ranked, strict=True)]
    return _latex_table(caption, "tab:route-structure", "lclclc", header, [rows])


def adaptivity_table(results: Results) -> pd.DataFrame:
    """Table 2 for reading: a row per method, least damaged first."""
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
    """Table 2 as the paper prints it, with the correlations in its caption."""
    found = adaptivity(results)
    columns = [
        [latex_text(policy_name(str(method))) for method in found.table["method"]],
        [latex_number(value) for value in found.table["complete"]],
        *([_signed_latex(value) for value in found.table[quantity]] for quantity in ("margin", "damage")),
    ]
    setting = main_setting(results)
    caption = (
        f"Complete-data score, its margin over the static route, and missingness damage under "
        f"{latex_text(mechanism_name(setting.mechanism))} at $p={setting.rate:g}$, averaged over "
        f"{_range_of(found.table['datasets'], 'dataset')} and over state variants. Between margin and damage "
        f"across method--dataset cells, Pearson $r$ is {latex_number(found.pearson, decimals=2)} and "
        f"Spearman $\\rho$ {latex_number(found.spearman, decimals=2)}."
    )
    header = ["Method", "Complete", f"Margin over {_MEASURE_LATEX['v_static']}", "Damage"]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return _latex_table(caption, "tab:adaptivity", "lccc", header, [rows])


def damage_table(results: Results) -> pd.DataFrame:
    """Damage and gain of every policy for reading: a row per mechanism, rate, dataset and quantity."""
    return _wide_damage(results).map(_signed).reset_index()


def damage_numbers(results: Results) -> pd.DataFrame:
    """Damage and gain of every policy with intervals, one row per cell."""
    found = damage_and_gain(results, "variant")
    if found.empty:
        raise InputError("the results hold no restricted cell; damage needs the treatment 'restricted'")
    return found


def damage_latex(results: Results) -> str:
    """Damage and gain of every policy, one table per mechanism."""
    wide = _wide_damage(results)
    header = ["$p$", "Dataset", "", *(_latex_heading(str(policy)) for policy in wide.columns)]
    tables: list[str] = []
    for mechanism, part in wide.groupby(level="Mechanism", sort=False):
        rows = [
            [f"${rate}$", latex_text(dataset), latex_text(quantity), *map(_signed_latex, values)]
            for (_, rate, dataset, quantity), values in zip(part.index, part.to_numpy(), strict=True)
        ]
        by_rate = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
        caption = (
            f"Missingness damage (complete $-$ restricted) and restoration gain (restored $-$ restricted) "
            f"under {latex_text(str(mechanism))}, mean over splits."
        )
        label, columns = f"tab:damage-{len(tables) + 1}", "rll" + "r" * len(wide.columns)
        tables.append(_latex_table(caption, label, columns, header, by_rate, "scriptsize"))
    return "\n".join(tables)


def _wide_damage(results: Results) -> pd.DataFrame:
    """Put policies into columns; a row for the damage, and one for the gain by each restorer."""
    cells = with_policies(damage_numbers(results))
    policies = dict.fromkeys(
        policy_name(method, state)
        for method in in_order("method", cells["method"])
        for state in sorted(cells.loc[cells["method"] == method, "state"].unique())
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
    about = ["mechanism", "rate", "dataset", "Quantity"]
    wide = by_quantity.pivot(index=about, columns="policy", values="value")
    mechanisms, datasets = in_order("mechanism", cells["mechanism"]), in_order("dataset", cells["dataset"])
    order = sorted(
        wide.index, key=lambda row: (mechanisms.index(row[0]), row[1], datasets.index(row[2]), row[3])
    )
    labels = pd.MultiIndex.from_tuples(
        [(mechanism_name(m), f"{rate:g}", dataset_name(dataset), what) for m, rate, dataset, what in order],
        names=["Mechanism", "Rate", "Dataset", "Quantity"],
    )
    return wide.loc[order, list(policies)].set_axis(labels, axis=0).rename_axis(columns=None)


def _signed(value: float) -> str:
    rounded = round(value, 3) + 0.0  # no negative zero
    return NOTHING if math.isnan(value) else f"{rounded:+.3f}"


def _with_errors(table: pd.DataFrame, measure: str) -> "zip[tuple[float, float]]":
    return zip(table[measure], table[f"{measure}_se"], strict=True)


def _with_error(mean: float, error: float) -> str:
    if math.isnan(mean):
        return NOTHING
    return f"{mean:.3f}" if math.isnan(error) else f"{mean:.3f} ± {error:.3f}"


def _range_of(counts: "pd.Series[int]", noun: str) -> str:
    """How many, or from how many to how many: `5 splits`, `1 dataset`, `3 to 5 splits`."""
    low, high = counts.min(), counts.max()
    number = f"{high}" if low == high else f"{low} to {high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"


def latex_text(text: str) -> str:
    r"""Escape text for LaTeX.

    Examples
    --------
    >>> print(latex_text("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def latex_number(value: float, *, signed: bool = False, decimals: int = 3) -> str:
    """Write a number for LaTeX; a dash where there is none.

    Examples
    --------
    >>> latex_number(0.0616, signed=True), latex_number(float("nan"))
    ('$+0.062$', '--')
    """
    rounded = round(value, decimals) + 0.0  # no negative zero
    return "--" if math.isnan(value) else f"${rounded:{'+' if signed else ''}.{decimals}f}$"


_signed_latex = partial(latex_number, signed=True)


def _latex_with_error(mean: float, error: float) -> str:
    if math.isnan(mean) or math.isnan(error):
        return latex_number(mean)
    return f"${mean:.3f} \\pm {error:.3f}$"


def _latex_heading(policy: str) -> str:
    """Set a state variant below its method: columns of numbers are narrow."""
    method, bracket, state = policy.partition(" (")
    return rf"\shortstack{{{latex_text(method)}\\({latex_text(state)}}}" if bracket else latex_text(policy)


def _latex_table(
    caption: str,
    label: str,
    columns: str,
    header: Sequence[str],
    groups: Sequence[Sequence[Sequence[str]]],
    size: str = "footnotesize",
) -> str:
    """Build a floating table from cells that are LaTeX already, with a rule between groups of rows."""
    bodies = ["".join(f"{' & '.join(row)} \\\\\n" for row in rows) for rows in groups]
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{{label}}}\n"
        f"{{\\{size}\n\\setlength{{\\tabcolsep}}{{3pt}}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(header)} \\\\\n\\midrule\n"
        + "\\midrule\n".join(bodies)
        + "\\bottomrule\n\\end{tabular}\n}\n\\end{table}\n"
    )
