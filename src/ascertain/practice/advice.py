"""Advice in plain words, each a small rule over the findings that cites their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ascertain.practice.diagnosis import Findings
from ascertain.practice.fixed_routes import FixedRoutes
from ascertain.practice.holes import Holes
from ascertain.practice.profile import FEWEST_PER_CLASS
from ascertain.practice.support import Support
from ascertain.reporting.text import counted, joined

# A share among 100 rows is known to within 10 percentage points, among 25 to within 20 (95%, at worst).
ENOUGH = 100
SCARCE = 25
MOSTLY_COMPLETE = 0.9  # of the rows: dropping the others loses little
_MOST_NAMES = 5
_MOST_NOISE = 0.05  # with which a small difference can be called small
_LITTLE_SENSITIVITY = 0.02  # of macro-F1 between the best fixed route and an average one

Kind = Literal["do", "care", "limit"]
Treatment = Literal["complete", "complete rows", "restricted", "restored"]


@dataclass(frozen=True)
class Advice:
    """A piece of advice: something to do, to be careful about, or not to conclude."""

    kind: Kind
    title: str
    text: str


@dataclass(frozen=True)
class Choice:
    """A treatment of the training data, and a state variant of the policy."""

    treatment: Treatment
    state: Literal["s", "sm"]


def advise(findings: Findings) -> list[Advice]:
    """Give all advice that the findings call for, what to do first."""
    support, holes = findings.support, findings.holes
    rules = (
        on_treatment(support, holes),
        on_state(support, holes),
        on_complete_rows(support, holes),
        on_too_dear(support),
        on_class_sizes(findings.table.classes),
        on_thin_paths(support),
        on_rare_actions(support, holes),
        on_pairs(support),
        on_label(holes),
        on_mechanism(holes),
        on_routes(findings.routes),
        on_unseen_values(holes),
        on_scores(holes),
    )
    found = [advice for advice in rules if advice is not None]
    order = ("do", "care", "limit")
    return sorted(found, key=lambda advice: order.index(advice.kind))


def choose(support: Support, holes: Holes) -> Choice:
    """Choose how to treat the holes.

    Without holes nothing needs to be done. A single acquisition is valued correctly by restricted training
    (proposition 1). Where nearly all rows are complete, these suffice. Otherwise restoration needs rows that
    support the steps within the budget, and filtering rows that have every action (theorem 1).
    """
    if holes.rate == 0:
        return Choice("complete", "s")
    if support.steps.most == 1:
        return Choice("restricted", "s")
    enough = min(support.complete_by_class.values()) >= ENOUGH
    if enough and support.complete >= MOSTLY_COMPLETE * support.rows:
        return Choice("complete rows", "s")
    return Choice("restored", "s")


def on_treatment(support: Support, holes: Holes) -> Advice:
    """Say which treatment to use, and why."""
    steps = _steps(support)
    match choose(support, holes).treatment:
        case "complete":
            text = "No action is missing from any row: all treatments are the same here, and nothing is lost."
            return Advice("do", "Train on the table as it is", text)
        case "restricted":
            text = (
                "The budget buys one acquisition. If values are missing completely at random, holes leave "
                "the "
                "value of a single acquisition as it is (proposition 1 of the paper), so nothing must be "
                "filled "
                "in: train 'restricted', where a row's missing actions cannot be chosen."
            )
            return Advice("do", "Train restricted", text)
        case "complete rows":
            text = (
                f"{support.complete:,} of {support.rows:,} rows "
                f"({_percent(support.complete / support.rows)}) have "
                "all actions. Dropping the others loses little and invents nothing. Look at whom you drop: "
                "rows "
                "with holes may be of another kind."
            )
            return Advice("do", "Train on the complete rows", text)
        case "restored":
            text = (
                f"The budget buys {steps}. A given path of {support.steps.typical} is supported by "
                f"{counted(support.paths.median, 'row')} of your table (median over random paths; "
                f"{support.paths.low:,} to {support.paths.high:,} for the middle 80%), all {support.actions} "
                f"actions together by {counted(support.complete, 'row')}. Restoration learns from the "
                "former, "
                "filtering from the latter alone, and restricted training undervalues first steps whose "
                "sequels "
                "are missing. Train 'restored', and 'restricted' beside it: restoration is no free lunch, "
                "and "
                "rows that were kept out can say which is better here."
            )
            return Advice("do", "Train restored, and compare with restricted", text)


def on_state(support: Support, holes: Holes) -> Advice | None:
    """Say whether the policy should see which actions a row has."""
    if holes.rate == 0:
        return None
    if choose(support, holes).treatment == "restricted":
        return Advice(
            "do",
            "Use the state (s)",
            "A single acquisition is worth the same whatever else a row lacks, if values are missing "
            "completely "
            "at random; so the policy need not see the mask m, which (s, m) would.",
        )
    if support.complete >= ENOUGH and min(support.complete_by_class.values()) >= SCARCE:
        other = (
            "If you train restricted, try (s, m) as well: in use nothing is missing, and there are "
            f"{support.complete:,} complete rows to learn from what to do then."
        )
    else:
        other = (
            "If you train restricted, (s, m) learns what to do in use, where nothing is missing, from "
            f"{counted(support.complete, 'complete row')} only, and (s) mixes rows with different holes. No "
            "method cures that; more complete rows or restoration do."
        )
    return Advice(
        "do",
        "Use the state (s)",
        "On restored or complete rows every action can be chosen, so the mask m tells nothing that the "
        "state s "
        f"does not. {other}",
    )


def on_complete_rows(support: Support, holes: Holes) -> Advice | None:
    """Warn against keeping complete rows only, where these are few."""
    if holes.rate == 0 or choose(support, holes).treatment == "complete rows":
        return None
    expected = (
        f"{support.rows:,} * (1 - {holes.rate:.2f})^{support.actions} = {_few(support.expected_complete)}"
    )
    text = (
        f"Dropping rows with holes leaves {support.complete:,} of {support.rows:,} (independent holes would "
        "leave "
        f"{expected})."
    )
    if support.complete and holes.against_mcar:
        text += " They are not a random part of the table, since missingness goes with what is in it."
    return Advice("care", "Do not keep complete rows only", text)


def on_too_dear(support: Support) -> Advice | None:
    """Name the actions that the budget can never buy."""
    if not support.too_dear:
        return None
    named = joined([repr(name) for name in support.too_dear[:_MOST_NAMES]])
    more = f", and {len(support.too_dear) - _MOST_NAMES} more" if len(support.too_dear) > _MOST_NAMES else ""
    return Advice(
        "do",
        "Leave out what the budget can never buy",
        f"These cost more than the budget: {named}{more}. Without them {support.complete_but_too_dear:,} of "
        f"{support.rows:,} rows are complete, instead of {support.complete:,}.",
    )


def on_class_sizes(classes: dict[str, int]) -> Advice | None:
    """Say where a class has too few rows."""
    few = {name: count for name, count in classes.items() if count < SCARCE}
    if not few:
        return None
    tiny = any(count < FEWEST_PER_CLASS for count in few.values())
    named = joined([f"{name!r} ({counted(count, 'row')})" for name, count in list(few.items())[:_MOST_NAMES]])
    what = "cannot even be split into rows to learn from and rows to check with" if tiny else "are too few"
    return Advice(
        "care",
        "Too few rows of a class",
        f"The rows of {named} {what}: a share among {SCARCE} rows is known to within 20 percentage points at "
        "best. Merge classes or collect more before trusting any policy.",
    )


def on_thin_paths(support: Support) -> Advice | None:
    """Warn where few rows support what the budget allows."""
    if support.paths.median >= ENOUGH and support.paths_rarest_class.median >= SCARCE:
        return None
    rarest = support.paths_rarest_class.median
    return Advice(
        "care",
        "Few rows support whole paths",
        f"A path within the budget is supported by {counted(support.paths.median, 'row')} (median), of the "
        "class "
        f"{support.rarest_class!r} by {rarest:,}; no row at all supports "
        f"{_percent(support.unsupported_paths)} of "
        "the paths. What a policy learns of such paths is what the restorer makes up. A smaller budget, "
        "fewer "
        "candidate actions, or a fixed set of actions needs less.",
    )


def on_rare_actions(support: Support, holes: Holes) -> Advice | None:
    """Name the actions that hardly any row has."""
    measured = {name: round((1 - missing) * support.rows) for name, missing in holes.missing.items()}
    rare = sorted((count, name) for name, count in measured.items() if count < ENOUGH)
    if not rare:
        return None
    named = joined([f"{name!r} ({counted(count, 'row')})" for count, name in rare[:_MOST_NAMES]])
    more = f", and {len(rare) - _MOST_NAMES} more" if len(rare) > _MOST_NAMES else ""
    return Advice(
        "care",
        "Actions that are hardly ever measured",
        f"Hardly any row has {named}{more}. Nothing reliable can be learned of their worth; leave them out, "
        "or "
        "measure them on purpose in a sample.",
    )


def on_pairs(support: Support) -> Advice | None:
    """Name actions that no row has together."""
    pairs = support.pairs_apart
    if not pairs:
        return None
    named = joined([f"{one!r} with {other!r}" for one, other in pairs[:_MOST_NAMES]])
    more = f", and {len(pairs) - _MOST_NAMES} more" if len(pairs) > _MOST_NAMES else ""
    return Advice(
        "care",
        "Actions that are never measured together",
        f"No row has {named}{more}. How such values go together is nowhere in the table, so a restorer can "
        "only "
        "take them for unrelated given the rest.",
    )


def on_label(holes: Holes) -> Advice | None:
    """Warn where whether something was measured tells the class."""
    if not holes.label_signs:
        return None
    sign = holes.label_signs[0]
    shares = joined([f"{_percent(share)} of {name!r}" for name, share in list(sign.measured.items())[:4]])
    return Advice(
        "care",
        "What was measured tells the class",
        f"{len(holes.label_signs)} of {counted(holes.label_comparisons, 'action')} were measured more often "
        "in "
        f"some classes, most of all {sign.action!r} (in {shares}). A predictor that reads which tests were "
        "ordered profits from the habits of whoever ordered them; when the policy does the ordering, that is "
        "gone. Restore with a restorer that knows the label, and judge policies by values, not by presence.",
    )


def on_mechanism(holes: Holes) -> Advice | None:
    """Say what the signs about the mechanism mean for the theory."""
    if holes.rate == 0:
        return None
    if not holes.against_mcar:
        return Advice(
            "limit",
            "No sign against chance is no proof of chance",
            "Nothing in the table speaks against values that are missing completely at random. Weak "
            "dependence "
            "would not show, and dependence on the missing values themselves cannot show.",
        )
    return Advice(
        "care",
        "Values are not missing completely at random",
        f"{_signs(holes)} The paper's theorem assumes otherwise, so take its numbers as a guide. Restoration "
        "remains sound as long as what decides about a measurement is in the table (missing at random): keep "
        "such columns, even if nobody would buy them.",
    )


def on_routes(routes: FixedRoutes | str) -> Advice | None:
    """Say whether choosing well matters at all, where that was computed."""
    if isinstance(routes, str):
        return None
    noise = routes.noise
    scores = (
        f"The best of {routes.routes:,} fixed sets within the budget scores {routes.best_score:.2f} "
        "(macro-F1), an "
        f"average one {routes.mean_score:.2f}, no acquisition {routes.no_acquisition:.2f}"
    )
    caveat = (
        f"One split, {routes.checked_on:,} {_scored(routes)}: take differences below {noise:.2f} for noise."
    )
    if routes.sensitivity < _LITTLE_SENSITIVITY and noise <= _MOST_NOISE:
        return Advice(
            "do",
            "Try a fixed set of actions first",
            f"{scores}: it hardly matters what is bought. Holes are then less likely to do damage, and a "
            "fixed "
            f"set may do. {caveat}",
        )
    if routes.sensitivity < noise:
        return Advice(
            "do",
            "Try a fixed set of actions first",
            f"{scores}: so few rows do not show that it matters what is bought. Take a fixed set, such as "
            f"{joined([repr(name) for name in routes.best[:8]])}, as the yardstick for any policy. {caveat}",
        )
    return Advice(
        "do",
        "Beat the best fixed set",
        f"{scores}: it matters what is bought. A policy is worth its trouble if it beats the set "
        f"{joined([repr(name) for name in routes.best[:8]])}. {caveat}",
    )


def on_unseen_values(holes: Holes) -> Advice | None:
    """Say what no table can."""
    if holes.rate == 0:
        return None
    return Advice(
        "limit",
        "Nobody can see the missing values",
        "Whether a value is missing because of what it would have been (missing not at random) cannot be "
        "told "
        "from any table, this one included. Ask the people who ordered the tests.",
    )


def on_scores(holes: Holes) -> Advice | None:
    """Say what a score on rows with holes is not."""
    if holes.rate == 0:
        return None
    return Advice(
        "limit",
        "A test that is rarely ordered is not a useless test",
        "Shares of missing cells say what was ordered, not what is worth ordering. And scores on the rows "
        "that "
        "happen to have what a policy asks for are not its scores on everybody.",
    )


def _signs(holes: Holes) -> str:
    parts = []
    if holes.label_signs:
        parts.append(f"{len(holes.label_signs)} actions go missing with the class")
    if holes.value_signs:
        sign = holes.value_signs[0]
        way = "larger" if sign.auroc > 0.5 else "smaller"
        parts.append(
            f"{len(holes.value_signs)} with other columns' values (rows without {sign.action!r} have {way} "
            "values "
            f"of {sign.feature!r}, AUROC {max(sign.auroc, 1 - sign.auroc):.2f})"
        )
    if holes.little is not None:
        parts.append(f"Little's test has {p_text(holes.little.p_value)}")
    text = joined(parts)
    return f"{text[:1].upper()}{text[1:]}."


def p_text(p_value: float) -> str:
    """Write a p-value, not more exactly than it is known.

    Examples
    --------
    >>> p_text(1e-30), p_text(0.034)
    ('p < 0.001', 'p = 0.034')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def names_text(names: Sequence[str], most: int = 6) -> str:
    """List names in a row, the first ones only where there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _scored(routes: FixedRoutes) -> str:
    return "complete rows" if routes.scored_on == "complete" else "rows with filled holes"


def _steps(support: Support) -> str:
    steps = support.steps
    if steps.fewest == steps.most:
        return counted(steps.most, "acquisition")
    return f"{steps.fewest} to {steps.most} acquisitions, typically {steps.typical}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def _few(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
