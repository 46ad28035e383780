"""The findings in words, for the page and for the terminal."""

from ascertain.practice.advice import names_text, p_text
from ascertain.practice.diagnosis import Findings
from ascertain.practice.fixed_routes import FixedRoutes
from ascertain.practice.holes import LEVEL, Holes
from ascertain.practice.profile import TableProfile
from ascertain.practice.support import Support
from ascertain.reporting.tables import NOTHING
from ascertain.reporting.text import counted, joined

Facts = list[tuple[str, str]]


def table_facts(table: TableProfile) -> Facts:
    """List what the table is."""
    classes = [f"{name!r} {count:,} ({count / table.rows:.1%})" for name, count in table.classes.items()]
    aside = [column.name for column in table.columns if column.kind == "set aside"]
    facts = [
        ("Rows", f"{table.rows:,}"),
        ("Target", f"{table.target}: {names_text(classes, 10)}"),
        ("Columns", f"{len(table.columns):,} besides the target"),
    ]
    if aside:
        facts.append(("Set aside", names_text(aside, 10)))
    return facts


def holes_facts(findings: Findings) -> Facts:
    """List what is missing."""
    holes, support = findings.holes, findings.support
    return [
        ("Actions", f"{support.actions:,} that can be bought"),
        ("Missing", f"{holes.rate:.1%} of them, averaged over rows and actions (p)"),
        ("Complete rows", f"{support.complete:,} of {support.rows:,}"),
        ("Patterns", f"{holes.patterns:,} different combinations of missing actions"),
    ]


def signs_sentences(holes: Holes) -> list[str]:
    """Say what missingness goes with, and how far one may conclude from that."""
    if holes.rate == 0:
        return ["Nothing is missing."]
    said = [
        f"{len(holes.label_signs)} of {counted(holes.label_comparisons, 'action')} with holes are measured "
        "more "
        "often in some classes than in others (chi-square test).",
        f"The missingness of {counted(len(holes.value_signs), 'action')} goes with the values of some other "
        "column "
        f"({holes.value_comparisons:,} pairs compared by rank-sum tests, among rows that have the other "
        "value).",
    ]
    if holes.little is not None:
        low = holes.little.p_value < LEVEL
        meaning = (
            "rows with different holes differ in their values by more than chance explains, so values are "
            "not "
            "missing completely at random"
            if low
            else "it finds no difference between rows with different holes, which proves nothing"
        )
        said.append(
            f"Little's test of 'missing completely at random', on the ranks of {holes.little.rows:,} rows, "
            "has "
            f"{p_text(holes.little.p_value)} (chi-square {holes.little.statistic:,.0f} on "
            f"{holes.little.degrees_of_freedom:,}): {meaning}. The test takes columns for jointly normal."
        )
    else:
        said.append("Little's test cannot be computed: there are too few different patterns of holes.")
    said.append(
        f"Tests of each kind together err with a probability of at most {LEVEL:g}. None of them, nor any "
        "other, can "
        "see whether values are missing because of what they are."
    )
    return said


def support_sentence(findings: Findings) -> str:
    """Put theorem 1 into the table's numbers."""
    support, rate = findings.support, findings.holes.rate
    b, d, n = support.steps.typical, support.actions, support.rows
    return (
        f"With n = {n:,} rows, a share of p = {rate:.2f} missing, b = {b} acquisitions and d = {d} actions, "
        f"independent holes would leave n (1 - p)^b = {_number(support.expected_path)} rows for a path of b "
        "actions "
        f"and n (1 - p)^d = {_number(support.expected_complete)} complete rows (the paper's theorem 1: "
        "restoration "
        "needs the first number to be large, filtering the second). Real holes are not independent: in the "
        "table "
        f"itself a random path within the budget has {support.paths.median:,} rows (median), and "
        f"{counted(support.complete, 'row')} {'is' if support.complete == 1 else 'are'} complete."
    )


def support_facts(support: Support) -> Facts:
    """List what the budget buys, and what supports it."""
    steps = support.steps
    budget = "none given; everything can be bought" if support.budget is None else f"{support.budget:g}"
    complete = [f"{name!r} {count:,}" for name, count in support.complete_by_class.items()]
    apart = [f"{one} with {other}" for one, other in support.pairs_apart]
    facts = [
        ("Budget", budget),
        (
            "Acquisitions",
            f"typically {steps.typical} (random order); {steps.fewest} with the dearest first, {steps.most} "
            "with the "
            f"cheapest first; budget / mean cost = {steps.at_mean_cost:.1f}",
        ),
        (
            "Rows for a path",
            f"median {support.paths.median:,}, middle 80% {support.paths.low:,} to {support.paths.high:,}; "
            f"{support.unsupported_paths:.1%} of the paths have none",
        ),
        (
            f"Of class {support.rarest_class!r}",
            f"median {support.paths_rarest_class.median:,}, middle 80% {support.paths_rarest_class.low:,} to "
            f"{support.paths_rarest_class.high:,} (the rarest class)",
        ),
        ("Complete rows", f"{support.complete:,}: {names_text(complete, 10)}"),
    ]
    if apart:
        facts.append(("Never together", names_text(apart, 8)))
    return facts


def routes_facts(routes: FixedRoutes | str) -> Facts:
    """List what fixed sets of actions achieve; nothing where that was not computed."""
    if isinstance(routes, str):
        return []
    scored = (
        "complete rows, which may be of a special kind"
        if routes.scored_on == "complete"
        else "rows whose holes were filled from the nearest other row, without looking at the label; this "
        "understates actions that are rarely measured"
    )
    return [
        ("Best fixed set", f"{joined(list(routes.best))}: macro-F1 {routes.best_score:.3f}"),
        (
            "Average set",
            f"{routes.mean_score:.3f} over {routes.routes:,} random sets; the best gains "
            f"{routes.sensitivity:+.3f} (route sensitivity)",
        ),
        ("No acquisition", f"{routes.no_acquisition:.3f}"),
        (
            "Overlap",
            NOTHING
            if routes.overlap is None
            else f"{routes.overlap:.3f} between sets, weighted by their gain",
        ),
        ("Scored on", f"{routes.chosen_on:,} rows to choose, {routes.checked_on:,} to check: {scored}"),
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
