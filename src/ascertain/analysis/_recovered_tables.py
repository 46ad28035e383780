"""The tables of what restorers recover, for reading and for LaTeX."""

from collections.abc import Callable, Sequence

import pandas as pd

from ascertain.analysis._recovered import (
    AUTO,
    HOLES,
    POLICY,
    SETTING,
    WAY,
    against_one_choice,
    by_dataset,
    compared_changes,
    in_order_of,
    losses,
    recovered,
    summary,
    with_groups,
)
from ascertain.analysis._results import Results
from ascertain.analysis._tables import latex_cell, latex_table
from ascertain.errors import InputError
from ascertain.reporting import _names as names
from ascertain.reporting._tables import NOTHING, number_text
from ascertain.reporting._text import joined
from ascertain.restoration._treatments import TREATMENTS

_BY_POLICY = ["mechanism", "rate", *WAY, *POLICY]
_MOST_NAMED = 3


def shares_table(results: Results) -> pd.DataFrame:
    """Everything about a way of treating holes in one row, by policies, mechanism and rate."""
    changes = compared_changes(results)
    found = summary(changes)
    worst = names.with_policies(found.rename(columns={f"worst_{name}": name for name in POLICY}))["policy"]
    worst += " on " + found["worst_dataset"].map(names.dataset_name)
    return pd.concat(
        [
            _about(found, changes),
            pd.DataFrame(
                {
                    "Damage": found["damage"].map(_signed),
                    "Gain": found["gain"].map(_signed),
                    "Recovered": found["share"].map(percent),
                    "95% interval": _interval(found, "share", percent),
                    "Change where undamaged": found["change"].map(_signed),
                    "Its 95% interval": _interval(found, "change", _signed),
                    "Losing pairs": found["losing"].astype(str) + " of " + found["pairs"].astype(str),
                    "Worst pair": worst,
                    "Its gain": _with_error(found["worst_gain"], found["worst_gain_se"]),
                }
            ),
        ],
        axis="columns",
    )


def shares_numbers(results: Results) -> pd.DataFrame:
    """The numbers of `shares_table`."""
    return summary(compared_changes(results))


def shares_latex(results: Results) -> str:
    """`shares_table` as LaTeX."""
    caption = (
        "Share of the damage that is recovered (mean gain over restricted training / mean damage), the mean "
        "change of policies and datasets whose damage on the other splits is below $0.01$, and how many lose "
        "against restricted training (paired over splits, Holm at 5\\%)."
    )
    return _latex(shares_table(results), caption, "tab:recovered-shares")


def datasets_table(results: Results) -> pd.DataFrame:
    """The share that is recovered on each dataset."""
    changes = compared_changes(results)
    alone = recovered(changes, [*SETTING, "dataset"])
    order = [names.dataset_name(dataset) for dataset in names.in_order("dataset", alone["dataset"])]
    shares = _wide(alone.assign(column=alone["dataset"].map(names.dataset_name)), SETTING, order)
    together = recovered(changes)
    about = _about(together, changes).assign(All=together["share"].map(percent))
    return pd.concat([about, shares], axis="columns")


def datasets_numbers(results: Results) -> pd.DataFrame:
    """The numbers of `datasets_table`, and those without each dataset."""
    return by_dataset(compared_changes(results))


def datasets_latex(results: Results) -> str:
    """`datasets_table` as LaTeX."""
    caption = "Share of the damage that is recovered, by dataset; none where the damage is below $0.01$."
    return _latex(datasets_table(results), caption, "tab:recovered-by-dataset")


def policies_table(results: Results) -> pd.DataFrame:
    """The share that is recovered for each policy."""
    changes, by = compared_changes(results), _BY_POLICY[:4]
    found = names.with_policies(policies_numbers(results))
    # The paper's come first.
    policies = names.with_policies(in_order_of(changes, ["policies", *POLICY]))["policy"].unique().tolist()
    about = _about(found[by].drop_duplicates(ignore_index=True), changes)
    return pd.concat([about, _wide(found.assign(column=found["policy"]), by, policies)], axis="columns")


def policies_numbers(results: Results) -> pd.DataFrame:
    """The numbers of `policies_table`."""
    return recovered(in_order_of(compared_changes(results), _BY_POLICY), _BY_POLICY)


def policies_latex(results: Results) -> str:
    """`policies_table` as LaTeX."""
    caption = "Share of the damage that is recovered, by policy; none where the damage is below $0.01$."
    return _latex(policies_table(results), caption, "tab:recovered-by-policy")


def losses_table(results: Results) -> pd.DataFrame:
    """The pairs of policy and dataset that lose, the largest loss of each setting first."""
    found = _losing(results)
    if found.empty:
        raise InputError("no policy loses against restricted training on any dataset")
    return found


def losses_numbers(results: Results) -> pd.DataFrame:
    """The tests of all pairs."""
    return losses(compared_changes(results))


def losses_latex(results: Results) -> str:
    """`losses_table` as LaTeX, perhaps without rows."""
    caption = "Policies and datasets that lose against restricted training (paired t-test, Holm at 5\\%)."
    return _latex(_losing(results), caption, "tab:recovered-losses")


def choices_table(results: Results) -> pd.DataFrame:
    """What `auto` gains beside the best single choice, and how often it chose what."""
    found, changes = choices_numbers(results), compared_changes(results)
    columns = _about(found.assign(treatment=AUTO, restorer=""), changes).drop(columns="Trained on")
    told = {
        "Gain of auto": found["auto"].map(_signed),
        "Gain of one choice": found["single"].map(_signed),
        "Difference": found["difference"].map(_signed),
        "95% interval": _interval(found, "difference", _signed),
        "Chosen": _chosen(results, found),
    }
    return pd.concat([columns, pd.DataFrame(told)], axis="columns")


def choices_numbers(results: Results) -> pd.DataFrame:
    """The numbers of `choices_table`."""
    changes = compared_changes(results)
    if not (changes["treatment"] == AUTO).any():
        raise InputError("the results hold no cell of the treatment 'auto'")
    found = against_one_choice(changes)
    if found.empty:
        raise InputError("a single choice is made on other splits, and there is one split only")
    return found


def choices_latex(results: Results) -> str:
    """`choices_table` as LaTeX."""
    caption = (
        "Mean gain of the automatic treatment, and of one choice for each policy and dataset that is made "
        "on the scores of the other splits."
    )
    return _latex(choices_table(results), caption, "tab:recovered-auto")


def percent(share: float) -> str:
    """Write a share; a dash where there is none.

    Examples
    --------
    >>> percent(0.784), percent(-0.021), percent(float("nan"))
    ('78%', '−2%', '–')
    """
    return NOTHING if pd.isna(share) else f"{number_text(100 * share, 0)}%"


def policies_names(changes: pd.DataFrame) -> dict[str, str]:
    """What the two groups of policies are called."""
    others = changes.loc[changes["policies"] == "other", "method"].unique()
    named = [names.policy_name(method) for method in names.in_order("method", others)]
    other = joined(named) if 0 < len(named) <= _MOST_NAMED else "other policies"
    return {"paper": "the paper's policies", "other": other}


def _about(found: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """The first columns: which policies, how cells were hidden, what was done about it."""
    columns = {}
    if "policies" in found:
        columns["Policies"] = found["policies"].map(policies_names(changes))
    ways = zip(found["treatment"], found["restorer"], strict=True)
    return pd.DataFrame(
        {
            **columns,
            "Mechanism": found["mechanism"].map(names.mechanism_name),
            "Rate": found["rate"].map("{:g}".format),
            "Trained on": [names.way_name(*way) for way in ways],
        }
    )


def _wide(found: pd.DataFrame, by: Sequence[str], order: Sequence[str]) -> pd.DataFrame:
    """Shares with the values of `column` side by side, rows as they appear."""
    shares = found.pivot(index=list(by), columns="column", values="share")
    rows = pd.MultiIndex.from_frame(found[list(by)].drop_duplicates())
    return shares.loc[rows, list(order)].map(percent).reset_index(drop=True).rename_axis(columns=None)


def _losing(results: Results) -> pd.DataFrame:
    changes = compared_changes(results)
    found = losses(changes)
    found = found[found["loses"]]
    place = found.groupby(SETTING, sort=False).ngroup()
    found = found.assign(place=place).sort_values(["place", "gain"]).reset_index(drop=True)
    return _about(found, changes).assign(
        Policy=names.with_policies(found)["policy"],
        Dataset=found["dataset"].map(names.dataset_name),
        Gain=_with_error(found["gain"], found["gain_se"]),
        Splits=found["splits"],
        **{"p (Holm)": found["p_holm"].map(lambda p: number_text(p, 4))},
    )


def _signed(value: float) -> str:
    return NOTHING if pd.isna(value) else number_text(value, sign=True)


def _interval(found: pd.DataFrame, name: str, write: Callable[[float], str]) -> list[str]:
    ends = zip(found[f"{name}_low"], found[f"{name}_high"], strict=True)
    return [NOTHING if pd.isna(low) else f"{write(low)} to {write(high)}" for low, high in ends]


def _chosen(results: Results, found: pd.DataFrame) -> list[str]:
    """The treatments that were chosen, the most frequent first."""
    scores = names.without_baselines(results.scores)
    auto = scores[scores["treatment"] == AUTO]
    counts = with_groups(auto).groupby(HOLES)["picked"].value_counts(normalize=True)
    told = []
    for key in found[HOLES].itertuples(index=False, name=None):
        parts = [f"{_picked_name(str(picked))} {percent(share)}" for picked, share in counts[key].items()]
        told.append(", ".join(parts))
    return told


def _picked_name(picked: str) -> str:
    return picked if picked in TREATMENTS else names.restorer_name(picked)


def _with_error(means: "pd.Series[float]", errors: "pd.Series[float]") -> list[str]:
    pairs = zip(means, errors, strict=True)
    return [_signed(mean) + ("" if pd.isna(error) else f" ± {number_text(error)}") for mean, error in pairs]


def _latex(table: pd.DataFrame, caption: str, label: str) -> str:
    """A LaTeX table with a rule between settings."""
    settings = table.groupby(["Mechanism", "Rate"], sort=False)
    groups = [part.astype(str).to_numpy().tolist() for _, part in settings]
    header = [latex_cell(name) for name in table.columns]
    return latex_table(caption, label, "l" * len(header), header, groups, "scriptsize")
