"""What a study found, in sentences computed from its numbers."""

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Literal, NamedTuple

import pandas as pd

from ascertain.analysis._compute import compute_comparison
from ascertain.analysis._damage import paired_scores
from ascertain.analysis._results import PAPER_SETTING, Results, Setting, at_setting, main_setting
from ascertain.analysis._routes import adaptivity
from ascertain.analysis.paper._numbers import METHODS, ROUTES
from ascertain.analysis.report._effects import DIGITS, Differences, Effect, Verdict, comparable
from ascertain.errors import InputError
from ascertain.reporting import _names as names
from ascertain.reporting._tables import number_text
from ascertain.reporting._text import counted, duration, joined

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

_HEADINGS: dict[str, dict[Verdict, str]] = {
    "damage": {
        "above": "Clearly damaged",
        "unclear": "No clear damage (the interval includes zero)",
        "below": "Clearly better after restricted training, so with negative damage",
        "unknown": "Damage in a single split",
    },
    "gain": {
        "above": "Clearly better on restored than on restricted data, by",
        "unclear": "No clear gain (the interval includes zero)",
        "below": "Clearly worse on restored than on restricted data, by",
        "unknown": "Gain in a single split",
    },
}


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
    paired = names.without_baselines(paired_scores(results))
    damage = damages(paired, main)
    where = f"{names.mechanism_name(main.mechanism)} at rate {main.rate:g}"
    restorers = sorted(set(paired["restorer"]) - {""}, key=lambda name: (name != main.restorer, name))
    gains = (gain_sentences(paired, main._replace(restorer=restorer)) for restorer in restorers)
    groups = {
        f"Damage under {where}": [] if damage is None else damage_sentences(damage),
        f"Restoration under {where}": [sentence for said in gains for sentence in said],
        "Rates and mechanisms": setting_sentences(paired, main),
        "Adaptivity": adaptivity_sentences(results),
        "Order of methods under MCAR at rate 0.7": order_sentences(results, paired),
        "Time": compute_sentences(results),
    }
    return [FindingGroup(title, sentences) for title, sentences in groups.items() if sentences]


def damages(paired: pd.DataFrame, setting: Setting) -> Differences | None:
    """The comparable damages in a setting, from paired scores."""
    here = at_setting(paired, setting)
    return comparable(here.assign(difference=here["complete"] - here["restricted"]))


def damage_sentences(damage: Differences) -> list[str]:
    """Say what missing data cost, which methods and datasets most and least, and whether planning matters."""
    methods, datasets = damage.by("method"), damage.by("dataset")
    return [
        _overall_damage(damage),
        *_by_verdict(methods, "damage"),
        *_extremes("method", methods, names.policy_name, len(damage.datasets), "datasets"),
        *_extremes("dataset", datasets, names.dataset_name, len(damage.methods), "methods"),
        *_myopia(damage),
        *_left_out(damage),
    ]


def gain_sentences(paired: pd.DataFrame, setting: Setting) -> list[str]:
    """Say what one restorer recovered."""
    here = at_setting(paired, setting)
    here = here[here["restorer"] == setting.restorer]
    gain = comparable(here.assign(difference=here["restored"] - here["restricted"]))
    if gain is None:
        return []
    return [
        _overall_gain(gain, _damage_of_same(here, gain), names.restorer_name(setting.restorer)),
        *_by_verdict(gain.by("method"), "gain"),
        *_counted_cells(gain),
        *_left_out(gain),
    ]


def setting_sentences(paired: pd.DataFrame, main: Setting) -> list[str]:
    """Say how the damage depends on the rate and the mechanism, over the cells that all settings share."""
    settings = [
        Setting(mechanism, float(rate), main.restorer)
        for mechanism in names.in_order("mechanism", paired["mechanism"])
        for rate in sorted(paired.loc[paired["mechanism"] == mechanism, "rate"].unique())
    ]
    found = {setting: damage for setting in settings if (damage := damages(paired, setting)) is not None}
    if len(found) < 2:
        return []
    shared = pd.concat([damage.values for damage in found.values()], axis="columns", join="inner")
    splits = set.intersection(*(set(damage.values.columns) for damage in found.values()))
    if shared.empty or not splits:
        return []
    by_mechanism: dict[str, dict[float, Effect]] = {}
    for setting, damage in found.items():
        effect = Effect.of(damage.values.loc[shared.index, sorted(splits)].mean())
        by_mechanism.setdefault(setting.mechanism, {})[setting.rate] = effect
    return [
        *(_by_rate(mechanism, effects) for mechanism, effects in by_mechanism.items()),
        f"These means are over the {counted(len(shared), 'pair')} of method and dataset and "
        f"{counted(len(splits), 'split')} that all these settings have.",
    ]


def adaptivity_sentences(results: Results) -> list[str]:
    """Say which methods beat the best fixed route, and whether those are damaged more."""
    if results.routes.empty:
        return []
    try:
        table, pearson, spearman = adaptivity(results)
    except InputError:
        return []
    margins = list(zip(table["method"], table["margin"].round(DIGITS), strict=True))
    said, sides = [], []
    for word, sign in (("positive", 1), ("negative", -1)):
        chosen = [(names.policy_name(method), margin) for method, margin in margins if sign * margin > 0]
        if chosen:
            sides.append(f"{word} for {joined([f'{name} ({number_text(m)})' for name, m in chosen])}")
    if sides:
        over = "The mean margin of the score on complete data over that of the static route is"
        said.append(f"{over} {', '.join(sides)}.")
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
    same = [METHODS[a].damage > METHODS[b].damage and printed[a] > printed[b] for a, b in pairs]
    order = ", ".join(names.policy_name(method) for method in printed)
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
    return [
        f"Training on restored data takes a median of {number_text(compute.median_ratio, 2)} times the "
        f"seconds of restricted training, over {counted(len(compute.pairs), 'pair')}; "
        f"{100 * compute.within_1_25:.0f}% are within 1.25 times, {100 * compute.within_1_5:.0f}% within 1.5 "
        "times.",
        "The restorer's part in the time of one trained policy has a median of "
        f"{duration(compute.median_amortised)}.",
    ]


def _overall_damage(damage: Differences) -> str:
    effect = damage.overall()
    said = {
        "above": f"Restricted training scores {effect} lower than training on complete data",
        "below": f"Restricted training scores {effect.size} higher than training on complete data",
        "unclear": f"There is no clear damage: it is {effect}",
        "unknown": f"Damage is {effect}, from a single split and so without an interval",
    }[effect.verdict]
    return f"{said}, {_averaged(damage)}."


def _overall_gain(gain: Differences, damage: Effect | None, restorer: str) -> str:
    effect = gain.overall()
    said = {
        "above": f"Restoration by {restorer} scores {effect} higher than restricted training",
        "below": f"Restoration by {restorer} scores {effect.size} lower than restricted training",
        "unclear": f"Restoration by {restorer} brings no clear gain over restricted training: it is {effect}",
        "unknown": f"The gain of restoration by {restorer} is {effect}, from a single split",
    }[effect.verdict]
    share = ""
    if effect.verdict == "above" and damage is not None and damage.verdict == "above":
        percent = 100 * effect.mean / damage.mean
        share = f"; that is {percent:.0f}% of the damage of {number_text(damage.mean)}"
    return f"{said}, {_averaged(gain)}{share}."


def _averaged(found: Differences) -> str:
    return (
        f"averaged over {counted(len(found.methods), 'method')}, {counted(len(found.datasets), 'dataset')} "
        f"and {counted(found.splits, 'split')}"
    )


def _damage_of_same(paired: pd.DataFrame, gain: Differences) -> Effect | None:
    """Damage over the cells and splits of some gains; None if one of them has no damage."""
    differences = paired.assign(difference=paired["complete"] - paired["restricted"])
    values = differences.pivot_table(index=["method", "dataset"], columns="split", values="difference")
    same = values.reindex(index=gain.values.index, columns=gain.values.columns)
    return None if same.isna().to_numpy().any() else Effect.of(same.mean())


def _by_verdict(effects: dict[str, Effect], what: Literal["damage", "gain"]) -> list[str]:
    """List the methods of each verdict."""
    sentences = []
    for verdict, heading in _HEADINGS[what].items():
        loss = what == "gain" and verdict == "below"
        parts = [
            f"{names.policy_name(method)} {effect.size if loss else effect}"
            for method, effect in effects.items()
            if effect.verdict == verdict
        ]
        if parts:
            sentences.append(f"{heading}: {', '.join(parts)}.")
    return sentences


def _extremes(
    kind: str, effects: dict[str, Effect], name: Callable[[str], str], number: int, over: str
) -> list[str]:
    """Name the largest and the smallest, all of them where several print the same."""
    printed = {each: round(effect.mean, DIGITS) for each, effect in effects.items()}
    most, least = max(printed.values()), min(printed.values())
    if most == least:
        return []
    largest, smallest = (
        joined([name(each) for each, value in printed.items() if value == extreme])
        for extreme in (most, least)
    )
    average = f", on average over {number} {over}" if number > 1 else ""
    return [
        f"Among {kind}s, the largest damage is that of {largest} ({number_text(most)}), the smallest "
        f"that of {smallest} ({number_text(least)}){average}."
    ]


def _myopia(damage: Differences) -> list[str]:
    """Compare myopic with non-myopic methods."""
    myopic = [method for method in damage.methods if names.kind_of(method) == "myopic"]
    planning = [method for method in damage.methods if names.kind_of(method) in ("intermediate", "terminal")]
    if not myopic or not planning:
        return []
    near, far = damage.among(myopic), damage.among(planning)
    effect = Effect.of(far - near)
    said = {
        "above": f"a difference of {effect}, so the myopic ones are clearly damaged less",
        "below": f"a difference of {effect}, so the myopic ones are clearly damaged more",
        "unclear": f"a difference of {effect}, so neither kind is clearly damaged less",
        "unknown": "a single split does not tell whether that is chance",
    }[effect.verdict]
    listed = [joined([names.policy_name(method) for method in kind]) for kind in (myopic, planning)]
    return [
        f"The mean damage of myopic methods ({listed[0]}) is {number_text(near.mean())}, that of "
        f"non-myopic ones ({listed[1]}) {number_text(far.mean())}: {said}."
    ]


def _counted_cells(gain: Differences) -> list[str]:
    """Count the cells in which restoring clearly helped or did harm."""
    verdicts = [Effect.of(row).verdict for _, row in gain.values.iterrows()]
    if "unknown" in verdicts or len(verdicts) < 2:
        return []
    return [
        f"Of {len(verdicts)} pairs of method and dataset, restoration is clearly better than restricted "
        f"training in {verdicts.count('above')}, clearly worse in {verdicts.count('below')}, and neither in "
        f"{verdicts.count('unclear')}."
    ]


def _by_rate(mechanism: str, effects: dict[float, Effect]) -> str:
    parts = joined([f"{effect} at rate {rate:g}" for rate, effect in effects.items()])
    steps = list(pairwise(round(effect.mean, DIGITS) for effect in effects.values()))
    trend = ""
    if steps and all(after > before for before, after in steps):
        trend = "; these means grow with the rate"
    elif steps and any(after < before for before, after in steps):
        trend = "; these means do not grow at every step"
    return f"Under {names.mechanism_name(mechanism)} the mean damage is {parts}{trend}."


def _left_out(found: Differences) -> list[str]:
    missing = [names.policy_name(method) for method in found.left_out_methods]
    missing += [names.dataset_name(dataset) for dataset in found.left_out_datasets]
    if not missing:
        return []
    return [f"Left out of these means, because some of their cells are not there: {joined(missing)}."]
