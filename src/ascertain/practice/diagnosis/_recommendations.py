"""Recommendations in plain words: each is a small rule over the findings that cites their numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from ascertain.practice._formatting import expected_text, p_text, percent_text
from ascertain.practice.diagnosis._adaptivity import Adaptivity
from ascertain.practice.diagnosis._findings import Findings
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes
from ascertain.practice.diagnosis._holes import Holes
from ascertain.practice.diagnosis._profile import FEWEST_PER_CLASS, TableProfile
from ascertain.practice.diagnosis._support import Support
from ascertain.reporting._text import counted, joined

# A share among 100 rows is known to within 10 percentage points, among 25 to within 20 (95%, at worst).
ENOUGH = 100
SCARCE = 25
MOSTLY_COMPLETE = 0.9  # of the rows: dropping the others loses little
_MOST_NAMES = 5
_COMMON = 0.2  # of the rows: what a plan measures in fewer is not listed
_MOST_NOISE = 0.05  # with which a small difference can be called small
_LITTLE_SENSITIVITY = 0.02  # of balanced accuracy between the best fixed route and an average one
_LITTLE_GAIN = 0.02  # of balanced accuracy: less is not worth adapting for
_LITTLE_LEFT = 0.04  # of balanced accuracy, up to 1: a fixed set that leaves no more is nearly always right

Kind = Literal["do", "care", "limit"]
Treatment = Literal["complete", "complete rows", "restricted", "restored"]


@dataclass(frozen=True)
class Recommendation:
    """Something to do (`do`), to be careful about (`care`) or not to conclude (`limit`)."""

    kind: Kind
    title: str
    text: str


def recommend(findings: Findings) -> list[Recommendation]:
    """All recommendations that the findings call for: what to do first, then what to be careful about."""
    support, holes = findings.support, findings.holes
    found = [
        *on_routes(findings.routes),
        on_treatment(support, holes),
        *on_training(support, holes),
        *on_rows(support, holes, findings.table),
        *on_missingness(holes),
    ]
    return sorted(found, key=lambda each: ("do", "care", "limit").index(each.kind))


def choose_treatment(support: Support, holes: Holes) -> Treatment:
    """Choose how to treat the holes.

    Without holes nothing needs to be done. A single acquisition is valued correctly by restricted training
    (proposition 1). Where nearly all rows are complete, these suffice. Otherwise restoration needs rows that
    support the steps within the budget, and filtering rows that have every action (theorem 1).
    """
    if holes.rate == 0:
        return "complete"
    if support.steps.most == 1:
        return "restricted"
    enough = min(support.complete_by_class.values()) >= ENOUGH
    return "complete rows" if enough and support.complete >= MOSTLY_COMPLETE * support.rows else "restored"


def on_treatment(support: Support, holes: Holes) -> Recommendation:
    """Which treatment to use, and why."""
    match choose_treatment(support, holes):
        case "complete":
            title = "Train on the table as it is"
            text = "Every row has all actions, so nothing must be done about holes."
        case "restricted":
            title = "Leave the holes as they are"
            text = (
                "The budget pays for one measurement. If values are missing completely at random, holes do "
                "not change what a single one is worth (proposition 1 of the paper). So nothing must be "
                "filled in: while a policy learns, it cannot buy what a row lacks (--treatment restricted)."
            )
        case "complete rows":
            title = "Train on the complete rows"
            share = percent_text(support.complete / support.rows)
            text = (
                f"{support.complete:,} of {support.rows:,} rows ({share}) have all actions. Dropping the "
                "others loses little and invents nothing. Look at which rows you drop: those with holes may "
                "differ from the rest."
            )
        case "restored":
            title = "Fill the holes for training, and compare with leaving them"
            text = (
                f"The budget pays for {_steps_text(support)}. Of {support.steps.typical} that are chosen at "
                f"random, {counted(support.paths.median, 'row')} of your table have all (median; "
                f"{support.paths.low:,} to {support.paths.high:,} for the middle 80%); all {support.actions} "
                f"actions are in {counted(support.complete, 'row')}. "
                "With holes that are filled by likely values (--treatment restored), all rows teach about "
                "all actions. With holes that are left (--treatment restricted), an action looks less useful "
                "than it is where those that should follow it are missing. Filling does not always help, so "
                "try both: scores on other rows show which is better here. The planner can also learn from "
                "holes as they are (--treatment direct), which invents nothing. `ascertain fit --treatment "
                "auto` compares all of them."
            )
    return Recommendation("do", title, text)


def on_training(support: Support, holes: Holes) -> Iterator[Recommendation]:
    """Whether the policy should see which actions a row has, and whether complete rows suffice."""
    if holes.rate == 0:
        return
    treatment = choose_treatment(support, holes)
    text = (
        "Where holes are filled, or rows are complete, a policy can buy everything in every row. So it need "
        "not be told what a row lacks (--state s). "
    )
    if treatment == "restricted":
        text = (
            "A single measurement is worth the same whatever else a row lacks, if values are missing "
            "completely at random. So the policy need not be told what a row lacks (--state s)."
        )
    elif support.complete >= ENOUGH and min(support.complete_by_class.values()) >= SCARCE:
        text += (
            "If you leave the holes, try it with a policy that is told (--state sm) as well: in use nothing "
            f"is missing, and {support.complete:,} complete rows teach what to do then."
        )
    else:
        text += (
            "If you leave the holes, neither is good. A policy that is told (--state sm) learns what to do "
            f"in use, where nothing is missing, from {counted(support.complete, 'complete row')} only. One "
            "that is not told mixes rows with different holes. Fill the holes, or collect complete rows."
        )
    yield Recommendation("do", "Show the policy results, not what is missing", text)
    if treatment != "complete rows":
        expected = expected_text(support.expected_complete)
        text = (
            f"Dropping rows with holes leaves {support.complete:,} of {support.rows:,} (if holes were "
            f"independent, {support.rows:,} * (1 - {holes.rate:.2f})^{support.actions} = {expected})."
        )
        if support.complete and holes.against_mcar:
            text += " They are not a random part of the table: missingness is associated with what is in it."
        yield Recommendation("care", "Do not keep complete rows only", text)


def on_rows(support: Support, holes: Holes, table: TableProfile) -> Iterator[Recommendation]:
    """Actions, classes, paths and pairs of actions with too few rows."""
    if support.unaffordable:
        prices = {column.action: column.price_text for column in table.columns if column.action}
        named = _first_of([f"{name!r} ({prices[name]})" for name in support.unaffordable])
        yield Recommendation(
            "do",
            "Leave out what the budget can never buy",
            f"These cost more than the budget: {named}. Without them {support.complete_affordable:,} of "
            f"{support.rows:,} rows are complete, instead of {support.complete:,}.",
        )
    few = {name: count for name, count in table.classes.items() if count < SCARCE}
    if few:
        tiny = min(few.values()) < FEWEST_PER_CLASS
        what = (
            "cannot even be split into rows to learn from and rows to check with" if tiny else "are too few"
        )
        yield Recommendation(
            "care",
            "Too few rows of a class",
            f"The rows of {_first_of(_with_counts(few))} {what}: a share among {SCARCE} rows is known to "
            "within 20 percentage points at best. Merge classes or collect more before trusting any policy.",
        )
    rarest = support.paths_rarest_class.median
    if support.paths.median < ENOUGH or rarest < SCARCE:
        yield Recommendation(
            "care",
            "Few rows have what the budget pays for",
            f"What it pays for, chosen at random, is in {counted(support.paths.median, 'row')} (median), "
            f"{rarest:,} of the class {support.rarest_class!r}{_unsupported_text(support)}. What a policy "
            "learns of such choices is mostly made up by the model that fills the holes. A smaller budget, "
            "fewer candidate actions, or a fixed set of actions needs less.",
        )
    yield from _rarely_measured(support, holes)
    if support.pairs_apart:
        named = _first_of([f"{one!r} with {other!r}" for one, other in support.pairs_apart])
        yield Recommendation(
            "care",
            "Actions that are never measured together",
            f"No row has {named}. How such values depend on each other is nowhere in the table, so a "
            "model that fills holes can only treat them as unrelated given the rest.",
        )


def _rarely_measured(support: Support, holes: Holes) -> Iterator[Recommendation]:
    """Actions that few rows have: since they are hardly measured, or since there are few rows at all."""
    few = dict(sorted((each for each in holes.measured.items() if each[1] < ENOUGH), key=itemgetter(1, 0)))
    rare = {name: count for name, count in few.items() if count < support.rows / 2}
    usual = {name: count for name, count in few.items() if name not in rare}
    if usual:
        yield Recommendation(
            "care",
            "Few rows",
            f"Of the {counted(support.rows, 'row')}, fewer than {ENOUGH} have "
            f"{_first_of(_with_counts(usual))}. What these are worth is known only roughly: collect more "
            "rows before trusting any policy.",
        )
    if rare:
        yield Recommendation(
            "care",
            "Actions that are hardly ever measured",
            f"Hardly any row has {_first_of(_with_counts(rare))}. Nothing reliable can be learned of their "
            "worth; leave them out, or measure them on purpose in a sample.",
        )


def on_missingness(holes: Holes) -> Iterator[Recommendation]:
    """What the signs about the mechanism mean, and what no table can show."""
    if holes.rate == 0:
        return
    if holes.label_signs:
        sign = holes.label_signs[0]
        shares = [f"{percent_text(share)} of {name!r}" for name, share in list(sign.measured.items())[:4]]
        yield Recommendation(
            "care",
            "What was measured tells the class",
            f"{len(holes.label_signs)} of {counted(holes.label_comparisons, 'action')} were measured more "
            f"often in some classes, most of all {sign.action!r} (in {joined(shares)}). A predictor that "
            "reads which tests were ordered profits from the habits of whoever ordered them; when the policy "
            "does the ordering, that is gone. Fill holes with a model that knows the class, and judge "
            "policies by values, not by presence.",
        )
    if holes.against_mcar:
        yield Recommendation(
            "care",
            "Values are not missing completely at random",
            f"{_signs_text(holes)} So numbers for independent holes are a guide, no more. Filling holes "
            "remains sound as long as what decides about a measurement is in the table (missing at random): "
            "keep such columns, even if nobody would buy them.",
        )
    else:
        yield Recommendation(
            "limit",
            "No sign against chance is no proof of chance",
            "Nothing in the table speaks against values that are missing completely at random. Weak "
            "dependence would not show, and dependence on the missing values themselves cannot show.",
        )
    yield Recommendation(
        "limit",
        "Nobody can see the missing values",
        "Whether a value is missing because of what it would have been (missing not at random) cannot be "
        "told from any table, this one included. Ask the people who ordered the tests.",
    )
    yield Recommendation(
        "limit",
        "A test that is rarely ordered is not a useless test",
        "Shares of missing cells say what was ordered, not what is worth ordering. And scores on the rows "
        "that happen to have what a policy asks for are not its scores on everybody.",
    )


def on_routes(routes: FixedRoutes | str) -> Iterator[Recommendation]:
    """Whether it matters what is bought, and whether results should decide about it."""
    if isinstance(routes, str):
        return
    title, text = _on_adapting(routes, routes.adaptivity)
    parts = [_scores_text(routes), _sensitivity_text(routes), text, _noise_text(routes)]
    yield Recommendation("do", title, " ".join(part for part in parts if part))


def _on_adapting(routes: FixedRoutes, found: Adaptivity | str) -> tuple[str, str]:
    """Whether results should decide what comes next: the title of the advice, and its reasons."""
    compare = "Compare a policy with the best fixed set"
    if isinstance(found, str):
        return compare, f"Whether results should decide what comes next cannot be told here: {found}."
    pays = found.low > 0
    if pays and routes.whole:
        return "Let results decide what comes next", (
            f"{_plan_text(found)} has {found.plan_score:.2f}: adapting gains {_gain_text(found)} over "
            f"{found.over}, and more if a policy decides at every step. Train the planner (`ascertain fit` "
            "does)."
        )
    fixed = "Try a fixed set of actions first"
    enough = "the same set for everybody may be enough. Take it as the yardstick for any policy."
    if routes.best_is_known and routes.whole and found.high < _LITTLE_GAIN:
        return fixed, f"Letting a result decide what comes next gains {_gain_text(found)}: {enough}"
    if routes.best_is_known and not pays and routes.left < _LITTLE_LEFT:
        return fixed, f"That leaves about {routes.left:.2f} to be gained by adapting: {enough}"
    gain = f"Letting a result decide what comes next gains {_gain_text(found)} over {found.over}"
    unclear = ": these rows do not show whether adapting pays."
    if not routes.whole:
        unclear = (
            " that enough rows have. Too few rows have larger sets, so they cannot show whether adapting "
            "pays with those."
        )
    return compare, f"{gain}{unclear} `ascertain fit` compares the planner with a fixed panel."


def _scores_text(routes: FixedRoutes) -> str:
    """What sets achieve."""
    others = f"an average one {routes.mean_score:.2f}, buying nothing {routes.no_acquisition:.2f}."
    sets = f"{routes.routes:,} fixed sets within the budget"
    if routes.best_is_known:
        best = f"{_quoted(routes.best[:8])}, has a balanced accuracy of {routes.best_score:.2f}"
        return f"The best of {sets}, {best}, {others}"
    return (
        f"Which of {sets} is the best cannot be told from these rows: what half of them prefer has a "
        f"balanced accuracy of {routes.best_score:.2f} in the others, {others}"
    )


def _sensitivity_text(routes: FixedRoutes) -> str:
    """Whether sets differ, where that can be said."""
    if routes.sensitivity > max(routes.noise, _LITTLE_SENSITIVITY):
        return "It matters which set is bought."
    tellable = routes.best_is_known and routes.whole and routes.noise <= _MOST_NOISE
    return (
        "It hardly matters which set is bought."
        if tellable and routes.sensitivity < _LITTLE_SENSITIVITY
        else ""
    )


def _noise_text(routes: FixedRoutes) -> str:
    """How far the scores can be trusted."""
    text = (
        f"A quick predictor, {routes.rows:,} rows, those that have a set: take differences below "
        f"{routes.noise:.2f} for noise."
    )
    if routes.shortened:
        text += (
            f" Too few rows have all that the budget pays for: {percent_text(routes.shortened)} of the sets "
            "were cut to a part that enough rows have."
        )
    return text


def _plan_text(found: Adaptivity) -> str:
    """The plan that adapts, in words."""
    common = [each for each in found.then if each.share >= _COMMON]
    choices = [f"{_quoted(each.actions)} (in {percent_text(each.share)} of the rows)" for each in common]
    others = ["something else"] if len(common) < len(found.then) else []
    results = "result" if len(found.then) <= 2 else "results"
    start = "Measuring, by what is known from the start,"
    if found.first:
        start = f"Measuring {_quoted(found.first)} first and then, depending on the {results},"
    return f"{start} {', or '.join(choices + others)},"


def _quoted(actions: tuple[str, ...]) -> str:
    return joined([repr(name) for name in actions]) if actions else "nothing more"


def _gain_text(found: Adaptivity) -> str:
    return f"{found.gain:.2f} ({found.low:.2f} to {found.high:.2f})"


def _signs_text(holes: Holes) -> str:
    parts = []
    if holes.label_signs:
        parts.append(
            f"the missingness of {counted(len(holes.label_signs), 'action')} is associated with the class"
        )
    if holes.value_signs:
        sign = holes.value_signs[0]
        larger = "larger" if sign.auroc > 0.5 else "smaller"
        parts.append(
            f"the missingness of {counted(len(holes.value_signs), 'action')} is associated with other "
            f"columns' values (rows without {sign.action!r} have {larger} values of {sign.feature!r}, AUROC "
            f"{max(sign.auroc, 1 - sign.auroc):.2f})"
        )
    if holes.little is not None:
        parts.append(f"Little's test has {p_text(holes.little.p_value)}")
    text = joined(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _steps_text(support: Support) -> str:
    steps = support.steps
    if steps.fewest == steps.most:
        return counted(steps.most, "measurement")
    return f"{steps.fewest} to {steps.most} measurements, typically {steps.typical}"


def _unsupported_text(support: Support) -> str:
    share = support.unsupported_paths
    return f"; {percent_text(share)} of the choices are in no row at all" if share else ""


def _with_counts(counts: dict[str, int]) -> list[str]:
    return [f"{name!r} ({counted(count, 'row')})" for name, count in counts.items()]


def _first_of(items: list[str]) -> str:
    more = f", and {len(items) - _MOST_NAMES} more" if len(items) > _MOST_NAMES else ""
    return joined(items[:_MOST_NAMES]) + more
