"""A diagnosis as one page of HTML that needs nothing but itself."""

from collections.abc import Iterable
from pathlib import Path

from ascertain.missingness import Diagnosis
from ascertain.practice.advice import Advice, advise, names_text
from ascertain.practice.diagnosis import Findings
from ascertain.practice.diagnosis_figures import draw_support
from ascertain.practice.missingness_figures import draw_diagnosis
from ascertain.practice.words import (
    holes_facts,
    routes_facts,
    signs_sentences,
    support_facts,
    support_sentence,
    table_facts,
)
from ascertain.reporting.figures import figure_exhibit
from ascertain.reporting.html import part, render_page, write_page
from ascertain.reporting.tables import NOTHING, Cell, Fact, HtmlTable, number_text

_HEADINGS = {"do": "What to do", "care": "Be careful", "limit": "What not to conclude"}


def write_diagnosis(findings: Findings, drawing: Diagnosis, path: Path) -> Path:
    """Write the page, at once or not at all, and give its path.

    Parameters
    ----------
    findings, drawing
        What `diagnose_table` gives.
    path
        The file to write.
    """
    write_page(render(findings, drawing), path)
    return path


def render(findings: Findings, drawing: Diagnosis) -> str:
    """Give the page as text."""
    return render_page(
        part("diagnosis.html", "ascertain.practice"),
        subtitle="What its holes mean for learning which measurement to take next",
        title=f"Diagnosis of {findings.table.file}",
        advice=_grouped(advise(findings)),
        warnings=findings.table.warnings,
        table_facts=_facts(table_facts(findings.table)),
        columns=_columns_table(findings),
        holes_facts=_facts(holes_facts(findings)),
        holes_figure=figure_exhibit("Holes", lambda: draw_diagnosis(drawing._replace(little=None)), "holes"),
        signs=signs_sentences(findings.holes),
        label_table=_label_table(findings),
        value_table=_value_table(findings),
        patterns=_pattern_table(findings),
        support_sentence=support_sentence(findings),
        support_facts=_facts(support_facts(findings.support)),
        support_figure=figure_exhibit(
            "Rows that support acquisitions", lambda: draw_support(findings.support), "rows"
        ),
        depths=_depth_table(findings),
        routes=_facts(routes_facts(findings.routes)),
        routes_missing=findings.routes if isinstance(findings.routes, str) else "",
    )


def _grouped(found: list[Advice]) -> list[tuple[str, list[Advice]]]:
    groups = [(title, [each for each in found if each.kind == kind]) for kind, title in _HEADINGS.items()]
    return [(title, group) for title, group in groups if group]


def _facts(pairs: Iterable[tuple[str, str]]) -> list[Fact]:
    return [Fact(label, text) for label, text in pairs]


def _table(headers: Iterable[tuple[str, bool]], rows: list[list[Cell]]) -> HtmlTable | None:
    return HtmlTable([Cell(text, number=number) for text, number in headers], rows) if rows else None


def _columns_table(findings: Findings) -> HtmlTable | None:
    headers = (
        ("Column", False),
        ("Type", False),
        ("Missing", True),
        ("Distinct", True),
        ("Bought as", False),
    )
    rows = [
        [
            Cell(column.name),
            Cell(column.kind, tone="tone-near" if column.kind == "set aside" else ""),
            _share(column.missing),
            _count(column.distinct),
            Cell(
                "known from the start"
                if column.known
                else NOTHING
                if column.action is None
                else "itself"
                if column.action == column.name
                else column.action
            ),
            Cell(NOTHING) if column.cost is None else Cell(f"{column.cost:g}", number=True),
            Cell(column.remark or NOTHING, tone="words" if column.remark else ""),
        ]
        for column in findings.table.columns
    ]
    return _table((*headers, ("Cost", True), ("Remark", False)), rows)


def _label_table(findings: Findings) -> HtmlTable | None:
    signs = findings.holes.label_signs
    classes = list(findings.table.classes)[:6]
    rows = [
        [Cell(sign.action), *(_share(sign.measured[name]) for name in classes), _p(sign.p_value)]
        for sign in signs
    ]
    return _table(
        [("Action", False), *((f"Measured in {name}", True) for name in classes), ("p", True)], rows
    )


def _value_table(findings: Findings) -> HtmlTable | None:
    rows = [
        [
            Cell(sign.action),
            Cell(sign.feature),
            Cell("larger" if sign.auroc > 0.5 else "smaller"),
            Cell(number_text(sign.auroc, 2), number=True),
            _p(sign.p_value),
        ]
        for sign in findings.holes.value_signs
    ]
    headers = (("Rows without", False), ("have values of", False), ("that are", False), ("AUROC", True))
    return _table((*headers, ("p", True)), rows)


def _pattern_table(findings: Findings) -> HtmlTable | None:
    rows = [
        [
            _count(pattern.rows),
            Cell(f"{len(pattern.missing)}", number=True),
            Cell(names_text(pattern.missing, 12) or "nothing", tone="words"),
        ]
        for pattern in findings.holes.commonest
    ]
    return _table((("Rows", True), ("Missing actions", True), ("These are", False)), rows)


def _depth_table(findings: Findings) -> HtmlTable | None:
    rows = [
        [
            Cell(str(depth.k), number=True),
            Cell(number_text(depth.expected, 0 if depth.expected >= 10 else 2), number=True),
            _count(depth.random.low),
            _count(depth.random.median),
            _count(depth.random.high),
            _count(depth.best_observed),
        ]
        for depth in findings.support.depths
    ]
    headers = ("k", "n (1 - p)^k", "Random, 10%", "Random, median", "Random, 90%", "Measured most often")
    return _table([(text, True) for text in headers], rows)


def _share(share: float) -> Cell:
    return Cell(f"{share:.1%}", number=True)


def _count(number: int) -> Cell:
    return Cell(number_text(number, 0), number=True)


def _p(p_value: float) -> Cell:
    return Cell("< 0.001" if p_value < 0.001 else f"{p_value:.3f}", number=True)
