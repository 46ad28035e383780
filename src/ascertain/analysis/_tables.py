"""The tables of a study, for reading and for LaTeX (booktabs)."""

import math
import re
from collections.abc import Sequence
from functools import partial

import pandas as pd

from ascertain.analysis._damage import damage_and_gain
from ascertain.analysis._results import Results, at_largest_budget, main_setting
from ascertain.analysis._routes import MEASURES, adaptivity, route_table
from ascertain.errors import InputError
from ascertain.reporting import _names as names
from ascertain.reporting._tables import NOTHING

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
    "\N{MINUS SIGN}": "$-$",
}
_NUMBER = re.compile(r"[+-]?[\d.]+( ± [\d.]+)?")
_ABOUT = ["Mechanism", "Rate", "Dataset", "Quantity"]


def route_structure_table(results: Results) -> pd.DataFrame:
    """Table 1 for reading: a row per dataset, mean ± standard error, and the three ranks."""
    found = route_table(results)
    table = pd.DataFrame(
        {"Dataset": found["dataset"].map(names.dataset_name), "Budget": found["budget"].map("{:g}".format)}
    )
    for measure, title in MEASURES.items():
        table[title] = _with_errors(found, measure)
    ranks = found[[f"{measure}_rank" for measure in MEASURES]]
    table["Ranks (V, Δ, ω)"] = [
        ", ".join(NOTHING if pd.isna(rank) else str(rank) for rank in row)
        for row in ranks.itertuples(index=False)
    ]
    return table.assign(Splits=found["splits"])


def route_structure_latex(results: Results) -> str:
    """Table 1 as the paper prints it: three rankings side by side, each largest first."""
    found = route_table(results)
    columns: list[list[str]] = []
    for measure in MEASURES:
        ranked = found.sort_values(measure, ascending=False)
        columns += [[names.dataset_name(name) for name in ranked["dataset"]], _with_errors(ranked, measure)]
    header = [f"\\multicolumn{{2}}{{c}}{{{title}}}" for title in _MEASURE_LATEX.values()]
    budgets = ", ".join(
        f"{budget:g} for {latex_cell(names.dataset_name(name))}"
        for name, budget in zip(found["dataset"], found["budget"], strict=True)
    )
    caption = (
        "Fixed-route structure. Each column ranks the datasets by that quantity alone, largest first. "
        f"Mean $\\pm$ standard error over {_range_of(found['splits'], 'split')}, at each dataset's largest "
        f"budget: {budgets}."
    )
    rows = list(zip(*columns, strict=True))
    return latex_table(caption, "tab:route-structure", "lclclc", header, [rows])


def estimates_table(results: Results) -> pd.DataFrame:
    """Estimates for reading: a row per dataset, policy and training set, at the largest budget."""
    found = estimates_numbers(results)
    told = found["restorer"].map(lambda name: f" ({names.restorer_name(name)})" if name else "")
    holes = found["mechanism"].map(names.mechanism_name) + found["rate"].map(lambda p: f" {p:g}" if p else "")
    return pd.DataFrame(
        {
            "Dataset": found["dataset"].map(names.dataset_name),
            "Policy": names.with_policies(found)["policy"],
            "Trained on": found["treatment"] + told,
            "Further holes": holes.where(found["mechanism"] != "", "none"),
            "Budget": found["budget"].map("{:g}".format),
            "Estimator": found["estimator"],
            "Score": found["score"].map(fixed),
            "95% interval": found["score_low"].map(fixed) + " to " + found["score_high"].map(fixed),
            "Effective rows": found["effective_rows"].map("{:.0f}".format),
            "Splits": found["splits"],
        }
    )


def estimates_numbers(results: Results) -> pd.DataFrame:
    """Estimates from rows with holes, averaged over splits; the interval is the mean of the splits' own."""
    if results.estimates.empty:
        raise InputError("no dataset of this study has missing cells of its own")
    by = ["dataset", "method", "state", "treatment", "restorer", "mechanism", "rate", "budget", "estimator"]
    known = at_largest_budget(results.estimates.dropna(subset="score"))
    values = ["score", "score_low", "score_high", "effective_rows"]
    means = known.groupby(by, sort=True)[values].mean()
    return means.assign(splits=known.groupby(by).size()).reset_index()


def estimates_latex(results: Results) -> str:
    """Estimates as a LaTeX table."""
    found = estimates_table(results)
    caption = "Scores estimated from test rows that have missing cells of their own, at the largest budget."
    rows = [list(map(str, row)) for row in found.itertuples(index=False)]
    columns = "l" * found.shape[1]
    return latex_table(caption, "tab:estimates", columns, list(map(latex_cell, found.columns)), [rows])


def adaptivity_table(results: Results) -> pd.DataFrame:
    """Table 2 for reading: a row per method, least damaged first."""
    found = adaptivity(results).table
    columns = {
        "Method": found["method"].map(names.policy_name),
        "Complete": found["complete"].map(fixed),
        "Margin over V static": found["margin"].map(signed),
        "Damage": found["damage"].map(signed),
    }
    return pd.DataFrame({**columns, "Datasets": found["datasets"]})


def adaptivity_latex(results: Results) -> str:
    """Table 2 as the paper prints it, with the correlations in its caption."""
    found, setting = adaptivity(results), main_setting(results)
    pearson, spearman = (latex_cell(fixed(value, 2)) for value in (found.pearson, found.spearman))
    caption = (
        f"Complete-data score, its margin over the static route, and missingness damage under "
        f"{latex_cell(names.mechanism_name(setting.mechanism))} at $p={setting.rate:g}$, averaged over "
        f"{_range_of(found.table['datasets'], 'dataset')} and over state variants. Between margin and damage "
        f"across method--dataset cells, Pearson $r$ is {pearson} and Spearman $\\rho$ {spearman}."
    )
    header = ["Method", "Complete", f"Margin over {_MEASURE_LATEX['v_static']}", "Damage"]
    rows = adaptivity_table(results).drop(columns="Datasets").to_numpy().tolist()
    return latex_table(caption, "tab:adaptivity", "lccc", header, [rows])


def damage_table(results: Results) -> pd.DataFrame:
    """Damage and gain of every policy for reading: a row per mechanism, rate, dataset and quantity."""
    return _wide_damage(results).map(signed).reset_index()


def damage_numbers(results: Results) -> pd.DataFrame:
    """Damage and gain of every policy with intervals, one row per cell."""
    found = damage_and_gain(results, "variant")
    if found.empty:
        raise InputError("the results hold no restricted cell; damage needs the treatment 'restricted'")
    return found


def damage_latex(results: Results) -> str:
    """Damage and gain of every policy, one table per mechanism."""
    table = damage_table(results)
    policies = list(table.columns.drop(_ABOUT))
    header = ["$p$", "Dataset", "", *map(_latex_heading, policies)]
    written: list[str] = []
    for mechanism, part in table.groupby("Mechanism", sort=False):
        caption = (
            f"Missingness damage (complete $-$ restricted) and restoration gain (restored $-$ restricted) "
            f"under {latex_cell(str(mechanism))}, mean over splits."
        )
        by_rate = [
            rows.drop(columns="Mechanism").to_numpy().tolist() for _, rows in part.groupby("Rate", sort=False)
        ]
        label, columns = f"tab:damage-{len(written) + 1}", "rll" + "r" * len(policies)
        written.append(latex_table(caption, label, columns, header, by_rate, "scriptsize"))
    return "\n".join(written)


def _wide_damage(results: Results) -> pd.DataFrame:
    """Put policies into columns; a row for the damage, and one for the gain by each restorer."""
    cells = names.with_policies(damage_numbers(results))
    policies = dict.fromkeys(
        names.policy_name(method, state)
        for method in names.in_order("method", cells["method"])
        for state in sorted(cells.loc[cells["method"] == method, "state"].unique())
    )
    # The damage is the same whatever restores, but for splits in which a restorer is not finished.
    cell = ["dataset", "policy", "mechanism", "rate"]
    most = cells.sort_values("splits", kind="stable").drop_duplicates(cell, keep="last")
    gains = cells.dropna(subset="gain")
    restored = [f"gain ({names.restorer_name(name)})" for name in gains["restorer"]]
    damage = most.assign(Quantity="damage", value=most["damage"])
    gain = gains.assign(Quantity=restored, value=gains["gain"])
    about = ["mechanism", "rate", "dataset", "Quantity"]
    wide = pd.concat([damage, gain]).pivot(index=about, columns="policy", values="value")
    mechanisms = names.in_order("mechanism", cells["mechanism"])
    datasets = names.in_order("dataset", cells["dataset"])
    order = sorted(
        wide.index, key=lambda row: (mechanisms.index(row[0]), row[1], datasets.index(row[2]), row[3])
    )
    labels = [
        (names.mechanism_name(mechanism), f"{rate:g}", names.dataset_name(dataset), quantity)
        for mechanism, rate, dataset, quantity in order
    ]
    wide = wide.loc[order, list(policies)].rename_axis(columns=None)
    return wide.set_axis(pd.MultiIndex.from_tuples(labels, names=_ABOUT), axis=0)


def fixed(value: float, decimals: int = 3, sign: str = "") -> str:
    """Write a number with a fixed number of decimals, and a dash where there is none."""
    rounded = round(value, decimals) + 0.0  # no negative zero
    return NOTHING if math.isnan(value) else f"{rounded:{sign}.{decimals}f}"


signed = partial(fixed, sign="+")


def _with_errors(table: pd.DataFrame, measure: str) -> list[str]:
    """Format means with their standard errors, where there are any."""
    pairs = zip(table[measure], table[f"{measure}_se"], strict=True)
    return [fixed(mean) + ("" if math.isnan(mean + se) else f" ± {se:.3f}") for mean, se in pairs]


def _range_of(counts: "pd.Series[int]", noun: str) -> str:
    """How many, or from how many to how many: `5 splits`, `1 dataset`, `3 to 5 splits`."""
    low, high = counts.min(), counts.max()
    number = f"{high}" if low == high else f"{low} to {high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"


def latex_cell(text: str) -> str:
    r"""Convert a cell for reading to LaTeX: numbers to mathematics, a dash to a dash, other text escaped.

    Examples
    --------
    >>> print(latex_cell("50% of a_b"), latex_cell("+0.062"), latex_cell("0.700 ± 0.100"))
    50\% of a\_b $+0.062$ $0.700 \pm 0.100$
    """
    number = text.replace("\N{MINUS SIGN}", "-")
    if _NUMBER.fullmatch(number):
        return f"${number}$".replace("±", r"\pm")
    return "--" if text == NOTHING else "".join(_SPECIAL.get(character, character) for character in text)


def _latex_heading(policy: str) -> str:
    """Set a state variant below its method: columns of numbers are narrow."""
    method, bracket, state = policy.partition(" (")
    return rf"\shortstack{{{latex_cell(method)}\\({latex_cell(state)}}}" if bracket else latex_cell(policy)


def latex_table(
    caption: str,
    label: str,
    columns: str,
    header: Sequence[str],
    groups: Sequence[Sequence[Sequence[str]]],
    size: str = "footnotesize",
) -> str:
    """Build a floating table of cells for reading, with a rule between groups of rows."""
    bodies = ["".join(f"{' & '.join(map(latex_cell, row))} \\\\\n" for row in rows) for rows in groups]
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{{label}}}\n"
        f"{{\\{size}\n\\setlength{{\\tabcolsep}}{{3pt}}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(header)} \\\\\n\\midrule\n"
        + "\\midrule\n".join(bodies)
        + "\\bottomrule\n\\end{tabular}\n}\n\\end{table}\n"
    )
