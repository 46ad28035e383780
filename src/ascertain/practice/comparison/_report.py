"""What was fitted to a table, as one self-contained page of HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ascertain import methods
from ascertain._core.version import __version__
from ascertain.estimator._habits import habit_sentences
from ascertain.evaluation._auto import Treated
from ascertain.practice._formatting import html_table, names_text, number_cell, share_cell
from ascertain.practice.comparison._calibration import (
    Calibration,
    calibration_sentences,
    measure_calibration,
)
from ascertain.practice.comparison._decisions import draw_decision_curves
from ascertain.practice.comparison._figures import draw_budget_curves, draw_calibration
from ascertain.practice.comparison._followed import FollowedRows, follow
from ascertain.practice.comparison._held_out import HeldOut
from ascertain.practice.comparison._leaderboard import DEFAULTS, FittedCandidate, Leaderboard
from ascertain.practice.comparison._policy_tree import PolicyTree, describe_policy
from ascertain.practice.comparison._simulation import SimulatedEpisodes, simulate_policy
from ascertain.practice.comparison._subgroups import Subgroups, find_columns, score_subgroups
from ascertain.practice.comparison._summary import (
    ESTIMATES,
    USE,
    bound_text,
    choice_sentences,
    costs_estimate,
    decision_cost_text,
    difference_text,
    marked,
    mean_cost_text,
    score_text,
    subgroup_cells,
    subgroups_estimate,
    support_text,
)
from ascertain.reporting._figures import Exhibit, draw_frequencies, figure_exhibit
from ascertain.reporting._html import part, render_page
from ascertain.reporting._names import policy_name, restorer_name
from ascertain.reporting._tables import NOTHING, Cell, Fact, HtmlTable, number_text, to_table
from ascertain.reporting._text import counted, duration, joined

DECIDES = (
    "What a decision costs, as it was given. The decision is always the one with the least expected cost, "
    "which need not be the likeliest class."
)
_STOPS = "yes, once no measurement is expected to save what it costs"


@dataclass(frozen=True, eq=False)
class FitReport:
    """The contents of the page and of what the terminal prints."""

    data: HeldOut
    board: Leaderboard
    file_hash: str  # SHA-256 of the table's file
    episodes: SimulatedEpisodes  # of the best policy
    tree: PolicyTree  # its first steps
    followed: FollowedRows  # what it predicts on test rows
    calibration: Calibration  # whether that can be believed
    subgroups: tuple[Subgroups, ...] = ()  # of the test rows


def report_fit(data: HeldOut, board: Leaderboard, file_hash: str, by: Sequence[str] = ()) -> FitReport:
    """Simulate the best policy, score it in subgroups `by` columns, and put all results together."""
    advisor = board.best.advisor
    episodes = simulate_policy(advisor, data.training, seed=board.seed)
    tested = data.table.columns.iloc[data.tested].reset_index(drop=True)
    columns = find_columns(tested, by, data.table.target)
    subgroups = [
        score_subgroups(
            *(advisor, data.test, each, advisor.restorer),
            habits=data.habits,
            weights=data.weights_of(data.tested),
            effort=board.effort,
            seed=board.seed,
        )
        for each in columns
    ]
    tree = describe_policy(episodes, data.encoding)
    weights = data.weights_of(data.tested)
    followed = follow(advisor, data.test, data.habits, weights=weights, seed=board.seed)
    error = board.best.score(board.budgets[-1], followed.estimator, "ece")
    calibration = measure_calibration(followed.sample, error, seed=board.seed)
    return FitReport(data, board, file_hash, episodes, tree, followed, calibration, tuple(subgroups))


def result_sentences(report: FitReport) -> list[str]:
    """What was chosen, what it reaches, and a warning where its probabilities are off."""
    return [*choice_sentences(report.data, report.board), *_calibration_sentences(report)]


def _calibration_sentences(report: FitReport) -> list[str]:
    return calibration_sentences(report.calibration, stop_early=report.board.stop_early)


def render(report: FitReport) -> str:
    """The page as text."""
    data, board = report.data, report.board
    estimator, sample = board.best_candidates_estimator, report.followed.sample
    return render_page(
        part("report.html", __package__),
        subtitle="Which policy was chosen, how well it does, what it does first, and how far to trust it",
        title=f"What to measure next for {data.table.target!r}, learned from {data.table.name}",
        best=board.best.name,
        sentences=result_sentences(report),
        leaderboard=leaderboard_table(board),
        treatments=_treatments(board),
        costs_estimate=costs_estimate(board),
        curve_estimate=ESTIMATES[estimator],
        curves=figure_exhibit("AUROC by budget", lambda: draw_budget_curves(board, estimator), "curves"),
        tree=report.tree,
        steps=figure_exhibit("What is acquired when", lambda: _draw_steps(report), "steps"),
        subgroups=[(each, subgroup_table(each), subgroups_estimate(each)) for each in report.subgroups],
        use=USE,
        habits=habit_sentences(data.signs),
        calibration=figure_exhibit(
            "Calibration", lambda: draw_calibration(sample, data.table.classes), "calibration"
        ),
        calibrated_rows=report.followed.caption,
        calibration_facts=_calibration_facts(report),
        calibration_sentences=_calibration_sentences(report),
        decisions=_decision_curves(report),
        decision_costs=decision_cost_table(data),
        decides=DECIDES,
        knows_decision_costs=board.knows_decision_costs,
        stop_early=board.stop_early,
        prices=price_table(data),
        left_out=left_out_sentences(data, board),
        model_facts=model_facts(report),
        provenance=provenance_facts(report),
    )


def _decision_curves(report: FitReport) -> Exhibit | None:
    """The net benefit of decisions, for two classes."""
    data, board = report.data, report.board
    if len(data.table.classes) != 2:
        return None
    estimator = board.best_candidates_estimator
    return figure_exhibit("Net benefit", lambda: draw_decision_curves(data, board, estimator), "decisions")


def decision_cost_table(data: HeldOut) -> HtmlTable | None:
    """The matrix of costs that was given."""
    if data.problem.decision_costs is None:
        return None
    classes, costs = data.table.classes, np.asarray(data.problem.decision_costs, np.float64)
    rows = [
        [Cell(true), *(number_cell(f"{cost:g}") for cost in row)]
        for true, row in zip(classes, costs.tolist(), strict=True)
    ]
    return html_table(("True class", *(f"Decided: {each}" for each in classes)), rows)


def _draw_steps(report: FitReport) -> Figure:
    shares = report.episodes.frequencies(report.data.encoding.action_names)
    return draw_frequencies(shares, f"{report.board.best.name}, budget {report.data.budget:g}")


def leaderboard_table(board: Leaderboard) -> HtmlTable | None:
    budget, rows = board.budgets[-1], []
    for fitted in board.candidates:
        estimated = fitted.score(budget, "dr")
        few = "tone-near" if estimated.warning or not estimated.exists else ""
        cells = [
            number_cell(bound_text(fitted, board.ranked_by or "restricted")),
            number_cell(score_text(estimated), tone=few),
            number_cell(score_text(fitted.score(budget, "restricted"))),
            number_cell(mean_cost_text(board, fitted)),
            *_decision_cells(board, fitted),
            *([] if board.panel is None else [Cell(_to_panel(board, fitted), tone="words")]),
            Cell(support_text(estimated) if estimated.exists else NOTHING, tone=f"words {few}".strip()),
        ]
        name = fitted.name + (", chosen" if fitted is board.best else "")
        rows.append([Cell(name, tone="words"), *cells])
    decisions = ("Decisions cost",) if board.knows_decision_costs else ()
    panel = () if board.panel is None else ("Ahead of the panel by",)
    tested = ("Test rows, estimated", "Test rows, as they are", "Mean cost", *decisions, *panel)
    sorted_by = "decisions cost at most" if board.knows_decision_costs else "validation, at least"
    if board.stop_early:
        sorted_by = "all costs at most"
    return html_table(("Policy", f"Sorted by: {sorted_by}", *tested, "Effective rows"), rows)


def _to_panel(board: Leaderboard, fitted: FittedCandidate) -> str:
    found = board.to_panel(fitted)
    return NOTHING if found is None else marked(difference_text(found), found.estimator)


def _decision_cells(board: Leaderboard, fitted: FittedCandidate) -> list[Cell]:
    if not board.knows_decision_costs:
        return []
    return [number_cell(decision_cost_text(board, fitted))]


def subgroup_table(found: Subgroups) -> HtmlTable | None:
    """What the policy does in each subgroup."""
    rows = []
    for group in found.groups:
        name, *numbers = subgroup_cells(group)
        tone = "tone-near" if group.warning else ""
        rows.append(
            [
                Cell(name),
                *(number_cell(text, tone=tone) for text in numbers),
                Cell(group.warning, tone="words"),
            ]
        )
    headers = ("Rows", "Of the rarest class", "AUROC", "Mean cost", "Stops after", "Remark")
    return html_table((found.column, *headers), rows)


def _treatments(board: Leaderboard) -> HtmlTable | None:
    """What `auto` considered for each method; None if it was not asked."""
    choices = [(each, auto) for each in board.candidates if (auto := each.advisor.auto) is not None]
    frames = [auto.frame().assign(policy=each.name) for each, auto in choices]
    if not frames:
        return None
    found = pd.concat(frames, ignore_index=True)
    return to_table(found[["policy", *found.columns.drop("policy")]])


def _calibration_facts(report: FitReport) -> list[Fact]:
    """Scores of the predictions in the figure; their AUROC would be another estimate than the headline's."""
    scores, error = report.followed.sample.scores(), report.calibration.error
    shown = score_text(error) if error.exists else number_text(scores["ece"])
    return [
        Fact("Log loss", number_text(scores["log_loss"])),
        Fact("Brier score", number_text(scores["brier"])),
        Fact("Calibration error", shown),
    ]


def price_table(data: HeldOut) -> HtmlTable | None:
    readable = np.asarray(data.problem.readable(data.training.available)).mean(axis=0)
    first = data.encoding.price_list.first.tolist()
    rows = []
    for action, whole, share in zip(data.encoding.actions, first, readable.tolist(), strict=True):
        setups = [each.name for each in data.encoding.setups if {*each.columns} & {*action.columns}]
        extra = f" + {whole - action.price:g} set-up ({', '.join(setups)})" if setups else ""
        price = number_cell(f"{action.price:g}{extra}", tone="tone-near" if whole > data.budget else "")
        columns = "itself" if action.columns == (action.name,) else names_text(action.columns, 12)
        rows.append([Cell(action.name), price, Cell(columns, tone="words"), share_cell(share)])
    return html_table(("Action", "Cost", "Columns", "Training rows that have it"), rows)


def left_out_sentences(data: HeldOut, board: Leaderboard) -> list[str]:
    """What was not used, and what was not compared."""
    sentences = [f"The column {name!r}: {reason}." for name, reason in data.aside.items()]
    if data.table.unlabelled:
        sentences.append(f"{counted(data.table.unlabelled, 'row')} without {data.table.target!r}.")
    if data.table.weightless:
        weightless = counted(data.table.weightless, "row")
        sentences.append(f"{weightless} whose weight in {data.table.weighted_by!r} is 0.")
    first = data.encoding.price_list.first
    unaffordable = [data.encoding.action_names[place] for place in np.flatnonzero(first > data.budget)]
    if unaffordable:
        names = names_text(unaffordable, 10)
        sentences.append(f"What costs more than the budget and so is never bought: {names}.")
    if len(board.candidates) > 1:
        sentences += _quick_look(board)
        sentences.append(
            "AACO, whose model would contain the training rows themselves, and the methods of reinforcement "
            "learning (JAFA, OL, ODIN), which take much longer: --method fits one of them."
        )
    sentences.append(
        f"The {len(data.test.y):,} test rows: the model was not fitted again to all rows, so that the scores "
        "are those of the very model that was saved."
    )
    return sentences


def _quick_look(board: Leaderboard) -> list[str]:
    """The methods that only a longer comparison has."""
    compared = {each.candidate.method for each in board.candidates}
    longer = dict.fromkeys(each.method for each in DEFAULTS["standard"] if each.method not in compared)
    if not longer:
        return []
    names = joined([policy_name(each) for each in longer])
    return [f"{names}, which a quick look (low effort) leaves out: --effort standard compares them, too."]


def model_facts(report: FitReport) -> list[Fact]:
    data, best = report.data, report.board.best
    candidate, origin = best.candidate, best.advisor.origin
    return [
        Fact("Policy", f"{best.name} (method {candidate.method}, state {candidate.state})"),
        Fact("Target", f"{data.table.target}: {names_text(list(data.table.classes), 10)}"),
        Fact("Budget", f"{data.budget:g} for one row"),
        Fact("Actions", f"{len(data.encoding.actions):,}"),
        Fact("Known from the start", names_text(list(data.encoding.known), 12) or "nothing"),
        Fact("Holes of training rows", _filled_by(report.board.treated)),
        Fact("New rows are completed by", restorer_name(origin.restorer_name)),
        Fact("Effort", report.board.effort),
        *_optional_facts(report),
    ]


def _filled_by(treated: Treated) -> str:
    """What became of the holes while the policy was trained."""
    return f"filled by {restorer_name(str(treated))}" if treated.restorer else "left as they are"


def _optional_facts(report: FitReport) -> list[Fact]:
    """What only some models were fitted with."""
    data, board = report.data, report.board
    found = []
    if board.knows_decision_costs:
        found.append(Fact("Decides", "by the least expected cost, not for the likeliest class"))
    if board.stop_early:
        stops = methods.get(board.best.candidate.method).weighs_prices
        found.append(Fact("Stops early", _STOPS if stops else "no: this method cannot"))
    if data.table.rows_of is not None:
        together = f"all rows with the same {data.table.rows_of!r}, in training, validation and test"
        found.append(Fact("Rows kept together", together))
    if data.table.weighted_by:
        found.append(Fact("Rows count by", data.table.weighted_by))
    return found


def provenance_facts(report: FitReport) -> list[Fact]:
    data, fitted = report.data, report.board.candidates
    rows = (
        f"{len(data.training.y):,} to train on, {len(data.selection.y):,} to validate and choose with, "
        f"{len(data.test.y):,} to test"
    )
    times = ", ".join(f"{duration(each.seconds)} ({each.name})" for each in fitted)
    return [
        Fact("Table", data.table.name),
        Fact("SHA-256", report.file_hash),
        Fact("Rows", rows),
        Fact("Seed", str(report.board.seed)),
        Fact("Fitted in", times),
        Fact("Made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        Fact("Versions", f"ascertain {__version__}, JAX {jax.__version__}, NumPy {np.__version__}"),
        Fact("Device", jax.devices()[0].device_kind),
    ]
