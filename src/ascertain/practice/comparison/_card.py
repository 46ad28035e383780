"""The model card: what a person should know of a model before they use it, beside it in its folder."""

import numpy as np

from ascertain import methods
from ascertain.estimator._habits import habit_sentences
from ascertain.practice._formatting import html_table, number_cell, share_cell
from ascertain.practice.comparison._leaderboard import check_candidates
from ascertain.practice.comparison._report import (
    DECIDES,
    FitReport,
    decision_cost_table,
    leaderboard_table,
    left_out_sentences,
    model_facts,
    price_table,
    provenance_facts,
    result_sentences,
    subgroup_table,
)
from ascertain.practice.comparison._summary import USE, costs_estimate, subgroups_estimate
from ascertain.reporting._markdown import markdown_facts, markdown_list, markdown_table, markdown_text
from ascertain.reporting._tables import Cell, Fact, HtmlTable
from ascertain.reporting._text import counted

FILE_NAME = "card.md"
_TREATMENTS = {
    "restored": "While the policy was trained, holes were filled with draws of a restorer.",
    "restricted": "While the policy was trained, what a row lacks could not be chosen in it.",
    "direct": "The policy learned from what rows have; nothing was filled in for it.",
}


def render_card(report: FitReport) -> str:
    """The card in Markdown."""
    data, board = report.data, report.board
    title = f"# Model card: what to measure next for {markdown_text(repr(data.table.target))}"
    parts = [title, _purpose(report)]
    parts += ["## What it is for, and what not", markdown_list(USE)]
    parts += ["## Results", *map(markdown_text, result_sentences(report)), _scores(report)]
    if habits := habit_sentences(data.signs):
        parts += ["### Who was measured", *map(markdown_text, habits)]
    for each in report.subgroups:
        parts += [f"### By {markdown_text(each.column)}", _shown(subgroup_table(each))]
        parts.append(f"Test rows, {subgroups_estimate(each)}; 95% intervals.")
    parts += ["## Data", markdown_facts(_data_facts(report)), _shown(_class_table(report))]
    parts += ["### Not used", markdown_list(left_out_sentences(data, board))]
    if habits := habit_sentences(data.signs):
        parts += ["### Who was measured", markdown_list(habits)]
    parts += ["## Measurements, prices and holes", _shown(price_table(data))]
    if costs := decision_cost_table(data):
        parts += ["## What decisions cost", DECIDES, markdown_table(costs)]
    parts += ["## Method", *map(markdown_text, _method(report)), markdown_facts(model_facts(report))]
    if warnings := check_candidates([board.best.candidate], board.restorer, board.effort):
        parts += ["## Who may have it", markdown_list(_sentence(each) for each in warnings)]
    parts += ["## Where it comes from", markdown_facts(provenance_facts(report))]
    return "\n\n".join(parts) + "\n"


def _purpose(report: FitReport) -> str:
    data = report.data
    return markdown_text(
        f"It says which of {counted(len(data.encoding.actions), 'measurement')} to take next for one "
        f"instance, and predicts {data.table.target!r} from what is known so far, for up to {data.budget:g} "
        f"spent. It was learned from {data.table.name}. Everything below was written by the program from "
        "what it knows; add what only people know: where the table comes from, and who may decide by this."
    )


def _scores(report: FitReport) -> str:
    board = report.board
    note = (
        f"AUROC on test rows at a budget of {board.budgets[-1]:g}, with 95% intervals. Estimated: if "
        "everything could be bought. Effective rows: of all, and of the class with fewest. Costs: "
        f"{costs_estimate(board)}."
    )
    return f"{_shown(leaderboard_table(board))}\n\n{note}"


def _data_facts(report: FitReport) -> list[Fact]:
    data = report.data
    holes = 1 - float(np.asarray(data.training.available).mean())
    n_rows = len(data.table.y)
    return [
        Fact("Rows", f"{n_rows:,} with a class, {data.table.unlabelled:,} without"),
        Fact("Columns", f"{len(data.encoding.columns):,} used, {len(data.aside):,} left out"),
        Fact("Holes", f"{holes:.1%} of the cells of training rows"),
        Fact("Target", data.table.target),
    ]


def _class_table(report: FitReport) -> HtmlTable | None:
    data = report.data
    sizes = np.bincount(data.table.y, minlength=len(data.table.classes))
    tested = np.bincount(np.asarray(data.test.y), minlength=len(data.table.classes))
    rows = [
        [Cell(name), number_cell(f"{size:,}"), share_cell(size / sizes.sum()), number_cell(f"{test:,}")]
        for name, size, test in zip(data.table.classes, sizes.tolist(), tested.tolist(), strict=True)
    ]
    return html_table(("Class", "Rows", "Share", "Test rows"), rows)


def _method(report: FitReport) -> list[str]:
    """The method and the treatment of the holes, in words."""
    best = report.board.best
    name = best.candidate.method
    sentences = [f"{best.name}: {methods.get(name).summary}"]
    if best.treatment in _TREATMENTS:
        sentences.append(_TREATMENTS[best.treatment])
    sentences.append(
        "Predictions come from a neural network that takes any subset of the columns, trained on observed "
        "cells and calibrated on validation rows. A restorer completes a row for the range of a prediction."
    )
    return sentences


def _shown(table: HtmlTable | None) -> str:
    return "None." if table is None else markdown_table(table)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
