"""What a study found, in sentences computed from its numbers."""

from itertools import combinations
from typing import NamedTuple

import pandas as pd

from ascertain.analysis.compute import compute_comparison
from ascertain.analysis.damage import paired_scores
from ascertain.analysis.paper.numbers import METHODS, ROUTES
from ascertain.analysis.report.effects import DIGITS
from ascertain.analysis.report.sentences import damage_sentences, damages, gain_sentences, setting_sentences
from ascertain.analysis.results import Results
from ascertain.analysis.routes import adaptivity
from ascertain.analysis.setting import PAPER_SETTING, main_setting
from ascertain.errors import InputError
from ascertain.reporting.names import mechanism_name, policy_name, without_baselines
from ascertain.reporting.tables import number_text
from ascertain.reporting.text import counted, duration, joined

NOTE = (
    "Every sentence is computed from the results. Damage is the score after training on complete data minus "
    "the score after restricted training; gain is the score after training on restored data minus the score "
    "after restricted training; both at each dataset's largest budget, with the state variants of a method "
    "averaged. In brackets are 95% bootstrap intervals over splits. A difference is called clear if its "
    "interval, to three decimals, leaves out zero."
)
NOTHING_FOUND = (
    "Nothing can be said yet: damage needs a method trained on complete and on restricted data in the same "
    "split."
)


class FindingGroup(NamedTuple):
    """Sentences under a heading."""

    title: str
    sentences: list[str]


def find(results: Results) -> list[FindingGroup]:
    """Everything that can be said about the results, by topic; topics without a sentence are left out."""
    try:
        main = main_setting(results)
    except InputError:
        return []
    paired = without_baselines(paired_scores(results))
    damage = damages(paired, main)
    where = f"{mechanism_name(main.mechanism)} at rate {main.rate:g}"
    groups = []
    if damage is not None:
        groups.append(FindingGroup(f"Damage under {where}", damage_sentences(damage)))
    restorers = sorted(set(paired["restorer"]) - {""}, key=lambda name: (name != main.restorer, name))
    recovered = [
        sentence
        for restorer in restorers
        for sentence in gain_sentences(paired, main._replace(restorer=restorer))
    ]
    groups += [
        FindingGroup(f"Restoration under {where}", recovered),
        FindingGroup("Rates and mechanisms", setting_sentences(paired, main)),
        FindingGroup("Adaptivity", adaptivity_sentences(results)),
        FindingGroup("Order of methods under MCAR at rate 0.7", order_sentences(results, paired)),
        FindingGroup("Time", compute_sentences(results)),
    ]
    return [group for group in groups if group.sentences]


def adaptivity_sentences(results: Results) -> list[str]:
    """Say which methods beat the best fixed route, and whether those are damaged more."""
    if results.routes.empty:
        return []
    try:
        table, pearson, spearman = adaptivity(results)
    except InputError:
        return []
    names = [policy_name(method) for method in table["method"]]
    margins = dict(zip(names, table["margin"].round(DIGITS), strict=True))
    sides = [
        f"{word} for {joined([f'{name} ({number_text(margin)})' for name, margin in chosen])}"
        for word, sign in (("positive", 1), ("negative", -1))
        if (chosen := [(name, margin) for name, margin in margins.items() if sign * margin > 0])
    ]
    said = []
    if sides:
        said.append(
            "The mean margin of the score on complete data over that of the static route is "
            f"{', '.join(sides)}."
        )
    known = {"Pearson's r": pearson, "Spearman's rho": spearman}
    parts = [f"{name} = {number_text(value, 2)}" for name, value in known.items() if value == value]
    if parts:
        pairs = counted(int(table["datasets"].sum()), "pair")
        said.append(
            f"Margin over the static route and damage correlate over {pairs} of method and dataset with "
            f"{joined(parts)}."
        )
    return said


def order_sentences(results: Results, paired: pd.DataFrame) -> list[str]:
    """Say how many pairs of methods are damaged in the same order as in the paper's table 2."""
    paper = paired[paired["dataset"].isin(list(ROUTES)) & paired["method"].isin(list(METHODS))]
    damage = damages(paper, PAPER_SETTING)
    if results.results["shortened"].any() or damage is None or len(damage.methods) < 2:
        return []
    printed = {method: round(effect.mean, DIGITS) for method, effect in damage.by("method").items()}
    pairs = list(combinations(printed, 2))  # the first of each is damaged more in ours, or as much
    same = [
        METHODS[one].damage > METHODS[other].damage and printed[one] > printed[other] for one, other in pairs
    ]
    order = ", ".join(policy_name(method) for method in printed)
    return [
        f"From the most to the least damaged, over {len(damage.datasets)} of the paper's eight datasets, "
        f"the methods are {order}; {sum(same)} of {counted(len(pairs), 'pair')} of methods are in the order "
        "of the paper's table 2."
    ]


def compute_sentences(results: Results) -> list[str]:
    """Say what restoring adds to the time of training."""
    try:
        compute = compute_comparison(results)
    except InputError:
        return []
    ratio = number_text(compute.median_ratio, 2)
    pairs = counted(len(compute.pairs), "pair")
    return [
        f"Training on restored data takes a median of {ratio} times the seconds of restricted training, over "
        f"{pairs}; {100 * compute.within_1_25:.0f}% are within 1.25 times, {100 * compute.within_1_5:.0f}% "
        "within 1.5 times.",
        "The restorer's part in the time of one trained policy has a median of "
        f"{duration(compute.median_amortised)}.",
    ]
