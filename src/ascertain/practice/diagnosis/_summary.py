"""The findings as labelled facts and sentences, for the page and for the terminal."""

from ascertain.missingness._label_signs import LEVEL
from ascertain.practice._formatting import expected_text, names_text, p_text, percent_text
from ascertain.practice.diagnosis._adaptivity import Adaptivity
from ascertain.practice.diagnosis._findings import Findings
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes
from ascertain.practice.diagnosis._holes import Holes
from ascertain.practice.diagnosis._profile import TableProfile
from ascertain.practice.diagnosis._restorers import RestorerFinding, RestorerFindings
from ascertain.practice.diagnosis._support import Spread, Support
from ascertain.reporting._tables import NOTHING, Fact
from ascertain.reporting._text import counted, joined


def table_facts(table: TableProfile) -> list[Fact]:
    """What the table is."""
    classes = [f"{name!r} {count:,} ({count / table.rows:.1%})" for name, count in table.classes.items()]
    aside = [column.name for column in table.columns if column.kind == "set aside"]
    return [
        Fact("Rows", f"{table.rows:,}{_instances_text(table)}"),
        Fact("Target", f"{table.target}: {names_text(classes, 10)}"),
        Fact("Columns", f"{len(table.columns):,} besides the target"),
        *([Fact("Set aside", names_text(aside, 10))] if aside else []),
        *_weights_facts(table),
    ]


def _weights_facts(table: TableProfile) -> list[Fact]:
    if table.weighted_by is None:
        return []
    worth = f"which makes them worth {table.effective_rows:,.0f} of the same weight"
    text = f"by {table.weighted_by!r}, {worth}: in shares of what is missing and in scores of sets"
    return [Fact("Rows count", f"{text}. Rows are counted, and associations tested, as they are")]


def _instances_text(table: TableProfile) -> str:
    return "" if table.rows_of is None else f" of {table.instances:,} in {table.rows_of!r}, kept together"


def holes_facts(findings: Findings) -> list[Fact]:
    """What is missing."""
    holes, support = findings.holes, findings.support
    return [
        Fact("Actions", f"{support.actions:,} that can be bought"),
        Fact("Missing", f"{holes.rate:.1%} of them, averaged over rows and actions (p)"),
        Fact("Complete rows", f"{support.complete:,} of {support.rows:,}"),
        Fact("Patterns", f"{holes.patterns:,} different combinations of missing actions"),
    ]


def signs_sentences(holes: Holes) -> list[str]:
    """What missingness is associated with, and how far one may conclude from that."""
    if holes.rate == 0:
        return ["Nothing is missing."]
    if holes.little is None:
        little = "Little's test cannot be computed: there are too few different patterns of holes."
    else:
        meaning = (
            "rows with different holes differ in their values by more than chance explains, so values are "
            "not missing completely at random"
            if holes.little.p_value < LEVEL
            else "it finds no difference between rows with different holes, which proves nothing"
        )
        little = (
            f"Little's test of 'missing completely at random', on the ranks of {holes.little.rows:,} rows, "
            f"has {p_text(holes.little.p_value)} (chi-square {holes.little.statistic:,.0f} on "
            f"{holes.little.degrees_of_freedom:,}): {meaning}. The test assumes that columns are jointly "
            "normal."
        )
    return [
        f"{len(holes.label_signs)} of {counted(holes.label_comparisons, 'action')} with holes are measured "
        "more often in some classes than in others (chi-square test).",
        f"The missingness of {counted(len(holes.value_signs), 'action')} is associated with the values of "
        f"some other column ({holes.value_comparisons:,} pairs compared by rank-sum tests, among rows that "
        "have the other value).",
        little,
        f"Tests of each kind together err with a probability of at most {LEVEL:g}. Neither they nor any "
        "other test can see whether values are missing because of what they are.",
    ]


def support_sentence(findings: Findings) -> str:
    """How many rows have what the budget pays for, and all actions: theorem 1 in the table's numbers."""
    support, rate = findings.support, findings.holes.rate
    b, d, n = support.steps.typical, support.actions, support.rows
    return (
        f"Of {n:,} rows with a share of {rate:.2f} missing, {expected_text(support.expected_path)} would "
        f"have a given {b} actions if holes were independent ({n:,} * (1 - {rate:.2f})^{b}), and "
        f"{expected_text(support.expected_complete)} all {d}. Real holes are not independent: in the table "
        f"itself what the budget pays for, chosen at random, is in {counted(support.paths.median, 'row')} "
        f"(median), and {counted(support.complete, 'row')} {'is' if support.complete == 1 else 'are'} "
        "complete. Learning with filled holes (restoration) needs many rows of the first kind, learning from "
        "complete rows only (filtering) many of the second: theorem 1 of the paper."
    )


def support_facts(support: Support) -> list[Fact]:
    """What the budget buys, and how many rows support it."""
    steps = support.steps
    budget = "none given; everything can be bought" if support.budget is None else f"{support.budget:g}"
    complete = [f"{name!r} {count:,}" for name, count in support.complete_by_class.items()]
    apart = [f"{one} with {other}" for one, other in support.pairs_apart]
    return [
        Fact("Budget", budget),
        Fact(
            "It pays for",
            f"typically {counted(steps.typical, 'action')} (random order); {steps.fewest} with the most "
            f"expensive first, {steps.most} with the cheapest first; budget / mean cost = "
            f"{steps.at_mean_cost:.1f}",
        ),
        Fact(
            "Rows that have it",
            f"{_spread_text(support.paths)}, over random choices; {support.unsupported_paths:.1%} of these "
            "are in no row",
        ),
        Fact(
            f"Of class {support.rarest_class!r}",
            f"{_spread_text(support.paths_rarest_class)} (the rarest class)",
        ),
        Fact("Complete rows", f"{support.complete:,}: {names_text(complete, 10)}"),
        *([Fact("Never together", names_text(apart, 8))] if apart else []),
    ]


def routes_facts(routes: FixedRoutes | str) -> list[Fact]:
    """What fixed sets of actions achieve, and what adapting adds; nothing where that was not computed."""
    if isinstance(routes, str):
        return []
    overlap = (
        NOTHING if routes.overlap is None else f"{routes.overlap:.3f} between sets, weighted by their gain"
    )
    scored = (
        f"{routes.rows:,} rows, half to choose and half to check, both ways; those that have a set score it"
    )
    if routes.shortened:
        scored += (
            f". Too few have all that the budget pays for: {percent_text(routes.shortened)} of the sets were "
            "cut to a part that enough rows have"
        )
    best = f"{joined(list(routes.best))}: balanced accuracy {routes.best_score:.3f}"
    gains = f"; the best set gains {routes.sensitivity:+.3f} over it"
    if not routes.best_is_known:
        best = f"cannot be told: what half of the rows prefer has {routes.best_score:.3f} in the others"
        gains = ""
    return [
        Fact("Best fixed set", best),
        Fact("Average set", f"{routes.mean_score:.3f} over random sets{gains}"),
        Fact("Buying nothing", f"{routes.no_acquisition:.3f}"),
        Fact("Adapting", _adaptivity_text(routes, routes.adaptivity)),
        Fact("Overlap", overlap),
        Fact("Scored on", scored),
    ]


def _adaptivity_text(routes: FixedRoutes, found: Adaptivity | str) -> str:
    if isinstance(found, str):
        return f"cannot be told: {found}"
    gain = f"{found.gain:+.3f} ({found.low:.3f} to {found.high:.3f}) over {found.over}"
    if not routes.whole:
        return f"{gain} that enough rows have; with larger sets it may be different"
    return f"{gain}, by plans that decide once or twice; a policy may gain more"


RESTORER_HEADINGS = ("Restorer", "Score", "Difference", "Standard error", "Seconds")


def restorer_cells(found: RestorerFindings, restorer: RestorerFinding) -> tuple[str, ...]:
    """One restorer's line of the table, in the order of `RESTORER_HEADINGS`."""
    itself = restorer.name == found.baseline
    difference, error = f"{restorer.difference:+.4f}", f"{restorer.difference_error:.4f}"
    return (
        restorer.name,
        f"{restorer.score:.4f}",
        NOTHING if itself else difference,
        NOTHING if itself else error,
        f"{restorer.seconds:.1f}",
    )


def restorers_sentences(found: RestorerFindings) -> list[str]:
    """What the scores mean, and what they cannot show."""
    return [
        f"Each was fitted to {found.trained_on:,} rows. In {found.scored_on:,} other rows actions that were "
        "measured were hidden, one and then half of them, and drawn 20 times. The score is the energy score "
        "in standard deviations per cell: smaller is better. Cells count more where others like them are "
        "missing.",
        f"A difference to {found.baseline!r} of less than two standard errors may be chance.",
        "The scores cannot see values that are missing because of what they are: those cannot be hidden.",
    ]


def _spread_text(spread: Spread) -> str:
    return f"median {spread.median:,}, middle 80% {spread.low:,} to {spread.high:,}"
