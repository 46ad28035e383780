"""What restorers recover, in sentences computed from the numbers."""

from typing import Any

import pandas as pd

from ascertain.analysis._recovered import HOLES, compared_changes, losses, summary
from ascertain.analysis._recovered_tables import percent, policies_names
from ascertain.analysis._results import Results
from ascertain.reporting import _names as names
from ascertain.reporting._tables import number_text
from ascertain.reporting._text import counted

NOTE = (
    "How much of the damage comes back. Damage is the score after training on complete data minus the score "
    "after restricted training; gain is the score after treating holes in some other way minus that after "
    "restricted training; both at each dataset's largest budget. The recovered share is mean gain / mean "
    "damage, over policies (state variants apart), datasets and splits, with 95% bootstrap intervals that "
    "resample whole splits; there is none where the mean damage is below 0.01. The best of several is named "
    "by the same numbers, so its share is a little optimistic. Where nothing is damaged there is only "
    "something to lose: in each split, these are the policies and datasets whose damage on the other splits "
    "is below 0.01. A policy loses on a dataset if a paired one-sided t-test over splits against restricted "
    "training finds so, with Holm's correction at 5% over the policies and datasets of one way of treating "
    "holes, mechanism and rate."
)


def recovered_sentences(results: Results) -> list[str]:
    """Say what recovers most in each setting, what happens without damage, and who loses."""
    changes = compared_changes(results)
    found, labels = summary(changes), policies_names(changes)
    said = [
        _setting(labels[str(key[0])], part)
        for key, part in found.groupby(HOLES, sort=False)
        if part["share"].notna().any()
    ]
    return [*said, *_harmed(changes, found), *_worst(found)]


def _setting(policies: str, found: pd.DataFrame) -> str:
    """Name what recovers most, and compare it with the paper's restorer."""
    known = found.dropna(subset="share").sort_values("share", ascending=False, kind="stable")
    best, *rest = known.to_dict("records")
    papers = [f"; {_way(row)} recovers {_share(row)}" for row in rest if row["restorer"] == "pvae"]
    return (
        f"{policies[:1].upper()}{policies[1:]} under {names.mechanism_name(best['mechanism'])} at rate "
        f"{best['rate']:g}: of a mean damage of {number_text(best['damage'])}, most is recovered by "
        f"{_way(best)}: {_share(best)}{''.join(papers)}."
    )


def _harmed(changes: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Count the pairs that lose, by way."""
    tests = losses(changes)
    tested = int(tests["p"].notna().sum())
    if not tested:
        return ["With a single split there is no telling who loses against restricted training."]
    lost = tests[tests["loses"]]
    if lost.empty:
        return [f"In none of {counted(tested, 'comparison')} does a policy lose on a dataset."]
    ways = pd.Series([_way(row) for row in lost.to_dict("records")]).value_counts(sort=False)
    parts = ", ".join(f"{way} {count}" for way, count in ways.items())
    families = counted(len(found), "family", "families")
    return [
        f"In {len(lost)} of {counted(tested, 'comparison')} a policy loses on a dataset, by way of treating "
        f"holes: {parts}. By chance alone, about one in twenty of the {families} of tests would hold a loss."
    ]


def _worst(found: pd.DataFrame) -> list[str]:
    row = found.sort_values("worst_gain", kind="stable").iloc[0]
    error = row["worst_gain_se"]
    told = "" if pd.isna(error) else f" ± {number_text(error)}"
    policy = names.policy_name(row["worst_method"], row["worst_state"])
    return [
        f"The worst mean change of all is {number_text(row['worst_gain'])}{told}: {policy} on "
        f"{names.dataset_name(row['worst_dataset'])} with {_way(row)} under "
        f"{names.mechanism_name(row['mechanism'])} at rate {row['rate']:g}."
    ]


def _way(row: Any) -> str:
    return names.way_name(row["treatment"], row["restorer"])


def _share(row: Any) -> str:
    if pd.isna(row["share_low"]):
        return percent(row["share"])
    return f"{percent(row['share'])} ({percent(row['share_low'])} to {percent(row['share_high'])})"
