"""A diagnosis as one self-contained page of HTML."""

from pathlib import Path

from ascertain.missingness import Diagnosis
from ascertain.practice._formatting import count_cell, html_table, names_text, number_cell, share_cell
from ascertain.practice.diagnosis import _summary as summary
from ascertain.practice.diagnosis._figures import draw_diagnosis, draw_support
from ascertain.practice.diagnosis._findings import Findings
from ascertain.practice.diagnosis._profile import ColumnProfile
from ascertain.practice.diagnosis._recommendations import recommend
from ascertain.reporting._figures import figure_exhibit
from ascertain.reporting._html import part, render_page, write_page
from ascertain.reporting._tables import NOTHING, Cell, HtmlTable, number_text

_HEADINGS = {"do": "What to do", "care": "Be careful", "limit": "What not to conclude"}


def write_diagnosis(findings: Findings, drawing: Diagnosis, path: Path) -> Path:
    """Write the page about what `diagnose_table` returned, all of it or nothing, and return its path."""
    write_page(render(findings, drawing), path)
    return path


def render(findings: Findings, drawing: Diagnosis) -> str:
    """The page as text."""
    advice = recommend(findings)
    grouped = [(title, [each for each in advice if each.kind == kind]) for kind, title in _HEADINGS.items()]
    return render_page(
        part("report.html", __package__),
        subtitle="What its holes mean for learning which measurement to take next",
        title=f"Diagnosis of {findings.table.file}",
        advice=[(title, group) for title, group in grouped if group],
        warnings=findings.table.warnings,
        table_facts=summary.table_facts(findings.table),
        columns=_columns_table(findings),
        holes_facts=summary.holes_facts(findings),
        holes_figure=figure_exhibit("Holes", lambda: draw_diagnosis(drawing._replace(little=None)), "holes"),
        signs=summary.signs_sentences(findings.holes),
        label_table=_label_table(findings),
        value_table=_value_table(findings),
        patterns=_pattern_table(findings),
        support_sentence=summary.support_sentence(findings),
        support_facts=summary.support_facts(findings.support),
        support_figure=figure_exhibit(
            "Rows that support acquisitions", lambda: draw_support(findings.support), "rows"
        ),
        depths=_depth_table(findings),
        restorers=_restorers_table(findings),
        restorers_sentences=[]
        if findings.restorers is None or isinstance(findings.restorers, str)
        else summary.restorers_sentences(findings.restorers),
        restorers_missing=findings.restorers if isinstance(findings.restorers, str) else "",
        routes=summary.routes_facts(findings.routes),
        routes_missing=findings.routes if isinstance(findings.routes, str) else "",
    )


def _columns_table(findings: Findings) -> HtmlTable | None:
    setups = ("Set-up, once",) if findings.table.has_setups else ()
    rows = [
        [
            Cell(column.name),
            Cell(column.kind, tone="tone-near" if column.kind == "set aside" else ""),
            share_cell(column.missing),
            count_cell(column.distinct),
            Cell(_bought_as(column)),
            Cell(NOTHING) if column.cost is None else number_cell(f"{column.cost:g}"),
            *(Cell(column.setups_text or NOTHING) for _ in setups),
            Cell(column.remark or NOTHING, tone="words" if column.remark else ""),
        ]
        for column in findings.table.columns
    ]
    headers = ("Column", "Type", "Missing", "Distinct", "Bought as", "Cost", *setups, "Remark")
    return html_table(headers, rows)


def _bought_as(column: ColumnProfile) -> str:
    if column.known:
        return "known from the start"
    return "itself" if column.action == column.name else column.action or NOTHING


def _label_table(findings: Findings) -> HtmlTable | None:
    classes = list(findings.table.classes)[:6]
    rows = [
        [Cell(sign.action), *(share_cell(sign.measured[name]) for name in classes), _p_cell(sign.p_value)]
        for sign in findings.holes.label_signs
    ]
    return html_table(("Action", *(f"Measured in {name}" for name in classes), "p"), rows)


def _value_table(findings: Findings) -> HtmlTable | None:
    rows = [
        [
            Cell(sign.action),
            Cell(sign.feature),
            Cell("larger" if sign.auroc > 0.5 else "smaller"),
            number_cell(number_text(sign.auroc, 2)),
            _p_cell(sign.p_value),
        ]
        for sign in findings.holes.value_signs
    ]
    return html_table(("Rows without", "have values of", "that are", "AUROC", "p"), rows)


def _pattern_table(findings: Findings) -> HtmlTable | None:
    rows = [
        [
            count_cell(pattern.rows),
            count_cell(len(pattern.missing)),
            Cell(names_text(pattern.missing, 12) or "nothing", tone="words"),
        ]
        for pattern in findings.holes.commonest
    ]
    return html_table(("Rows", "Missing actions", "These are"), rows)


def _depth_table(findings: Findings) -> HtmlTable | None:
    headers = ("k", "n (1 - p)^k", "Random, 10%", "Random, median", "Random, 90%", "Measured most often")
    rows = []
    for depth in findings.support.depths:
        expected = number_cell(number_text(depth.expected, 0 if depth.expected >= 10 else 2))
        counted = (depth.random.low, depth.random.median, depth.random.high, depth.best_observed)
        rows.append([count_cell(depth.k), expected, *map(count_cell, counted)])
    return html_table(headers, rows)


def _restorers_table(findings: Findings) -> HtmlTable | None:
    found = findings.restorers
    if found is None or isinstance(found, str):
        return None
    texts = [summary.restorer_cells(found, each) for each in found.restorers]
    return html_table(
        summary.RESTORER_HEADINGS, [[Cell(name), *map(number_cell, numbers)] for name, *numbers in texts]
    )


def _p_cell(p_value: float) -> Cell:
    return number_cell("< 0.001" if p_value < 0.001 else f"{p_value:.3f}")
