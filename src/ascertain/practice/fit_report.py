"""What was fitted to a table, as one page of HTML that needs nothing but itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import jax
import numpy as np
from matplotlib.figure import Figure

from ascertain._core.version import __version__
from ascertain.metrics import measure
from ascertain.practice.advice import names_text
from ascertain.practice.fit_figures import draw_budget_curves, draw_calibration
from ascertain.practice.fit_words import ESTIMATES, choice_sentences, score_text
from ascertain.practice.held_out import HeldOut
from ascertain.practice.leaderboard import Contender, Leaderboard
from ascertain.practice.policy_tree import PolicyTree, describe_policy
from ascertain.practice.walks import Walks, walk
from ascertain.reporting.figures import draw_frequencies, figure_exhibit
from ascertain.reporting.html import part, render_page
from ascertain.reporting.names import restorer_name
from ascertain.reporting.tables import NOTHING, Cell, Fact, HtmlTable, number_text
from ascertain.reporting.text import duration


@dataclass(frozen=True, eq=False)
class FitReport:
    """All that the page and the terminal tell about a fit.

    Parameters
    ----------
    data, board
        What was fitted to, and what came out.
    restorer, effort, seed
        How it was fitted.
    file_hash
        The SHA-256 of the table's file.
    walks, tree
        What the best policy does, and its first steps.
    """

    data: HeldOut
    board: Leaderboard
    restorer: str
    effort: str
    seed: int
    file_hash: str
    walks: Walks
    tree: PolicyTree


def report_fit(
    data: HeldOut, board: Leaderboard, *, restorer: str, effort: str, seed: int, file_hash: str
) -> FitReport:
    """Look at what the best policy does, and put all together."""
    walks = walk(board.best.advisor, data.training, seed=seed)
    tree = describe_policy(walks, data.encoding)
    return FitReport(data, board, restorer, effort, seed, file_hash, walks, tree)


def render(report: FitReport) -> str:
    """Give the page as text."""
    data, board = report.data, report.board
    advisor = board.best.advisor
    observed = advisor.predict(np.asarray(data.test.x), np.asarray(data.test.available))
    y = np.asarray(data.test.y)
    return render_page(
        part("fit.html", "ascertain.practice"),
        subtitle="Which policy was chosen, how well it does, what it does first, and how far to trust it",
        title=f"What to measure next for {data.table.target!r}, learned from {data.table.name}",
        best=board.best.candidate.name,
        sentences=choice_sentences(data, board),
        leaderboard=_leaderboard(board),
        estimate=ESTIMATES[board.reported],
        curve_estimate=ESTIMATES[board.told],
        curves=figure_exhibit("AUROC by budget", lambda: draw_budget_curves(board, board.told), "curves"),
        tree=report.tree,
        steps=figure_exhibit("What is acquired when", lambda: _draw_steps(report), "steps"),
        calibration=figure_exhibit(
            "Calibration", lambda: draw_calibration(observed, y, data.table.classes), "calibration"
        ),
        calibration_facts=_calibration_facts(observed, y),
        prices=_prices(data),
        left_out=_left_out(data, board),
        model_facts=_model_facts(report),
        provenance=_provenance(report),
    )


def _draw_steps(report: FitReport) -> Figure:
    shares = report.walks.frequencies(report.data.encoding.action_names)
    return draw_frequencies(shares, f"{report.board.best.candidate.name}, budget {report.data.budget:g}")


def _leaderboard(board: Leaderboard) -> HtmlTable:
    headers = (
        ("Policy", False),
        ("Validation, at least", True),
        ("Test rows, estimated", True),
        ("Test rows, as they are", True),
        ("Mean cost", True),
        ("Rows that tell", True),
    )
    rows = [_row(board, contender) for contender in board.contenders]
    return HtmlTable([Cell(text, number=number) for text, number in headers], rows)


def _row(board: Leaderboard, contender: Contender) -> list[Cell]:
    budget, estimator = board.budgets[-1], board.reported
    estimated = contender.score(budget, "dr")
    chosen = contender.choice(board.estimator or "restricted")
    best = contender is board.best
    return [
        Cell(contender.candidate.name + (" (chosen)" if best else "")),
        Cell(number_text(chosen.low) if chosen.exists else NOTHING, number=True),
        Cell(score_text(estimated), number=True, tone="" if estimated.exists else "tone-near"),
        Cell(score_text(contender.score(budget, "restricted")), number=True),
        Cell(number_text(contender.score(budget, estimator, "mean_cost").estimate, 1), number=True),
        Cell(NOTHING if not estimated.exists else number_text(estimated.effective_rows, 0), number=True),
    ]


def _calibration_facts(probabilities: np.ndarray, y: np.ndarray) -> list[Fact]:
    scores = measure(probabilities.astype(np.float64), y)
    names = {"auroc": "AUROC", "log_loss": "Log loss", "brier": "Brier score", "ece": "Calibration error"}
    return [Fact(name, number_text(scores[metric])) for metric, name in names.items()]


def _prices(data: HeldOut) -> HtmlTable:
    headers = [
        Cell("Action"),
        Cell("Cost", number=True),
        Cell("Columns"),
        Cell("Training rows that have it", number=True),
    ]
    readable = np.asarray(data.problem.readable(data.training.available)).mean(axis=0)
    rows = [
        [
            Cell(action.name),
            Cell(f"{action.price:g}", number=True, tone="tone-near" if action.price > data.budget else ""),
            Cell(
                "itself" if action.columns == (action.name,) else names_text(action.columns, 12), tone="words"
            ),
            Cell(f"{share:.1%}", number=True),
        ]
        for action, share in zip(data.encoding.actions, readable.tolist(), strict=True)
    ]
    return HtmlTable(headers, rows)


def _left_out(data: HeldOut, board: Leaderboard) -> list[str]:
    """Say what was not used, and what was not compared."""
    said = [f"The column {name!r}: {reason}." for name, reason in data.aside.items()]
    if data.table.unlabelled:
        said.append(f"{data.table.unlabelled:,} rows without {data.table.target!r}.")
    dear = [action.name for action in data.encoding.actions if action.price > data.budget]
    if dear:
        said.append(f"What costs more than the budget and so is never bought: {names_text(dear, 10)}.")
    if len(board.contenders) > 1:
        said.append(
            "AACO, whose model would hold the training rows themselves, and the methods of reinforcement "
            "learning (JAFA, OL, ODIN), which take much longer: --method fits one of them."
        )
    said.append(
        f"The {len(data.test.y):,} test rows: the model was not fitted anew to all rows, so that the scores "
        "are those of the very model that was saved."
    )
    return said


def _model_facts(report: FitReport) -> list[Fact]:
    data, candidate = report.data, report.board.best.candidate
    encoding = data.encoding
    facts = [
        ("Policy", f"{candidate.name} (method {candidate.method}, state {candidate.state})"),
        ("Target", f"{data.table.target}: {names_text(list(data.table.classes), 10)}"),
        ("Budget", f"{data.budget:g} for one row"),
        ("Actions", f"{len(encoding.actions):,}"),
        ("Known from the start", names_text(list(encoding.known), 12) or "nothing"),
        ("Restorer", restorer_name(report.restorer)),
        ("Effort", report.effort),
    ]
    return [Fact(label, text) for label, text in facts]


def _provenance(report: FitReport) -> list[Fact]:
    data = report.data
    counts: Sequence[tuple[str, int]] = (
        ("to train on", len(data.training.y)),
        ("to validate and choose with", len(data.selection.y)),
        ("to test", len(data.test.y)),
    )
    facts = [
        ("Table", data.table.name),
        ("SHA-256", report.file_hash),
        ("Rows", ", ".join(f"{number:,} {purpose}" for purpose, number in counts)),
        ("Seed", str(report.seed)),
        (
            "Fitted in",
            ", ".join(f"{duration(e.seconds)} ({e.candidate.name})" for e in report.board.contenders),
        ),
        ("Made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Versions", f"ascertain {__version__}, JAX {jax.__version__}, NumPy {np.__version__}"),
        ("Device", jax.devices()[0].device_kind),
    ]
    return [Fact(label, text) for label, text in facts]
