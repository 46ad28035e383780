"""A diagnosis as one self-contained page of HTML."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ascertain.analysis.report.exhibits import figure_exhibit
from ascertain.missingness import Diagnosis
from ascertain.practice.diagnosis.figures import draw_diagnosis, draw_support
from ascertain.practice.diagnosis.findings import Findings
from ascertain.practice.diagnosis.profile import ColumnProfile
from ascertain.practice.diagnosis.recommendations import recommend
from ascertain.practice.diagnosis.summary import (
    holes_facts,
    routes_facts,
    signs_sentences,
    support_facts,
    support_sentence,
    table_facts,
)
from ascertain.practice.text import names_text
from ascertain.reporting.html import part, render_page, write_page
from ascertain.reporting.tables import NOTHING, Cell, HtmlTable, number_text

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
        table_facts=table_facts(findings.table),
        columns=_columns_table(findings),
        holes_facts=holes_facts(findings),
        holes_figure=figure_exhibit("Holes", lambda: draw_diagnosis(drawing._replace(little=None)), "holes"),
        signs=signs_sentences(findings.holes),
        label_table=_label_table(findings),
        value_table=_value_table(findings),
        patterns=_pattern_table(findings),
        support_sentence=support_sentence(findings),
        support_facts=support_facts(findings.support),
        support_figure=figure_exhibit(
            "Rows that support acquisitions", lambda: draw_support(findings.support), "rows"
        ),
        depths=_depth_table(findings),
        routes=routes_facts(findings.routes),
        routes_missing=findings.routes if isinstance(findings.routes, str) else "",
    )


def _columns_table(findings: Findings) -> HtmlTable | None:
    return _table(
        ("Column", "Type", "Missing", "Distinct", "Bought as", "Cost", "Remark"),
        "..rr.r.",
        [
            [
                Cell(column.name),
                Cell(column.kind, tone="tone-near" if column.kind == "set aside" else ""),
                _share(column.missing),
                _count(column.distinct),
                Cell(_bought_as(column)),
                Cell(NOTHING) if column.cost is None else _number(f"{column.cost:g}"),
                Cell(column.remark or NOTHING, tone="words" if column.remark else ""),
            ]
            for column in findings.table.columns
        ],
    )


def _bought_as(column: ColumnProfile) -> str:
    if column.known:
        return "known from the start"
    return "itself" if column.action == column.name else column.action or NOTHING


def _label_table(findings: Findings) -> HtmlTable | None:
    classes = list(findings.table.classes)[:6]
    return _table(
        ("Action", *(f"Measured in {name}" for name in classes), "p"),
        "." + "r" * (len(classes) + 1),
        [
            [Cell(sign.action), *(_share(sign.measured[name]) for name in classes), _p(sign.p_value)]
            for sign in findings.holes.label_signs
        ],
    )


def _value_table(findings: Findings) -> HtmlTable | None:
    return _table(
        ("Rows without", "have values of", "that are", "AUROC", "p"),
        "...rr",
        [
            [
                Cell(sign.action),
                Cell(sign.feature),
                Cell("larger" if sign.auroc > 0.5 else "smaller"),
                _number(number_text(sign.auroc, 2)),
                _p(sign.p_value),
            ]
            for sign in findings.holes.value_signs
        ],
    )


def _pattern_table(findings: Findings) -> HtmlTable | None:
    return _table(
        ("Rows", "Missing actions", "These are"),
        "rr.",
        [
            [
                _count(pattern.rows),
                _number(f"{len(pattern.missing)}"),
                Cell(names_text(pattern.missing, 12) or "nothing", tone="words"),
            ]
            for pattern in findings.holes.commonest
        ],
    )


def _depth_table(findings: Findings) -> HtmlTable | None:
    return _table(
        ("k", "n (1 - p)^k", "Random, 10%", "Random, median", "Random, 90%", "Measured most often"),
        "rrrrrr",
        [
            [
                _number(str(depth.k)),
                _number(number_text(depth.expected, 0 if depth.expected >= 10 else 2)),
                *map(_count, (depth.random.low, depth.random.median, depth.random.high, depth.best_observed)),
            ]
            for depth in findings.support.depths
        ],
    )


def _table(headers: Iterable[str], aligned: str, rows: Sequence[list[Cell]]) -> HtmlTable | None:
    """A table whose columns of numbers are marked with an r; None without rows."""
    cells = [Cell(text, number=mark == "r") for text, mark in zip(headers, aligned, strict=True)]
    return HtmlTable(cells, list(rows)) if rows else None


def _number(text: str) -> Cell:
    return Cell(text, number=True)


def _share(share: float) -> Cell:
    return _number(f"{share:.1%}")


def _count(number: int) -> Cell:
    return _number(number_text(number, 0))


def _p(p_value: float) -> Cell:
    return _number("< 0.001" if p_value < 0.001 else f"{p_value:.3f}")
