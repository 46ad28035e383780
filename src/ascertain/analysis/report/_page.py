"""A study's results as one self-contained HTML page."""

import re
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from ascertain.analysis._artefacts import ARTEFACTS, Artefact
from ascertain.analysis._results import Results, read_results
from ascertain.analysis.report._cells import cells_json
from ascertain.analysis.report._comparison import compare
from ascertain.analysis.report._findings import NOTE, NOTHING_FOUND, find
from ascertain.analysis.report._overview import describe_run, notices, trace_sources
from ascertain.analysis.report._recovered import NOTE as RECOVERED_NOTE
from ascertain.analysis.report._recovered import recovered_sentences
from ascertain.errors import InputError
from ascertain.reporting._figures import Exhibit, embed_figure
from ascertain.reporting._html import part, render_page, write_page
from ascertain.reporting._style import paper_style
from ascertain.reporting._tables import Cell, HtmlTable, to_table


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the results of a study as one HTML page.

    The page holds what was run, what was found, every figure and table that the results allow, the
    comparison with the paper's numbers, all cells in a table that can be filtered, and where the numbers
    come from. It loads nothing, so it can be mailed, archived and opened without a network.

    Parameters
    ----------
    folder
        The results of a study. Only `results.parquet` must be there.
    out
        The file to write, by default `report.html` in the folder. An existing file is replaced only once the
        new one is complete.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    `examples/several_completions.py` writes one about a study that it ran.
    """
    results = read_results(folder)
    path = folder / "report.html" if out is None else out
    write_page(render(results, ARTEFACTS.values()), path)
    return path


def render(results: Results, artefacts: Iterable[Artefact]) -> str:
    """Render the page, with those of the figures and tables that can be made."""
    name, everything = results.study.get("name"), results.everything
    every = list(artefacts)
    exhibits, left_out = _make_exhibits(results, [one for one in every if one.section == "exhibits"])
    # A study that compares no restorers does not miss these.
    recovered, _ = _make_exhibits(results, [one for one in every if one.section == "recovered"], "recovered")
    return render_page(
        part("template.html", __package__),
        js=part("cells.js", __package__),
        made_from=" from the files listed above",
        title=f"Study {name}" if name else "Study results",
        subtitle="Active feature acquisition with incomplete training data",
        notices=notices(everything.results),
        overview=describe_run(everything),
        findings=find(results),
        findings_note=NOTE,
        no_findings=NOTHING_FOUND,
        recovered=recovered,
        recovered_note=RECOVERED_NOTE,
        recovered_sentences=recovered_sentences(results) if recovered else [],
        exhibits=exhibits,
        left_out=left_out,
        comparison=compare(results),
        cells=cells_json(everything.results),
        provenance=trace_sources(results),
    )


def _make_exhibits(
    results: Results, artefacts: Iterable[Artefact], prefix: str = "exhibit"
) -> tuple[list[Exhibit], HtmlTable | None]:
    """Make all that can be made; the table lists the others with the reasons, if there are any."""
    made: list[Exhibit] = []
    reasons: list[list[Cell]] = []
    for number, artefact in enumerate(artefacts):
        anchor = f"{prefix}-{number}-{re.sub(r'[^a-z0-9]+', '-', artefact.name.lower())}"
        words = artefact.name.replace("_", " ").replace("-", " ").strip()
        title = words[:1].upper() + words[1:]
        try:
            with paper_style():
                product = artefact.make(results)
                made.append(
                    Exhibit(anchor, title, artefact.summary, table=to_table(product))
                    if isinstance(product, pd.DataFrame)
                    else embed_figure(product, anchor, title, artefact.summary)
                )
        except InputError as error:
            # Files are named relative to the folder: a shared page should not show its author's disk layout.
            reason = str(error).replace(f"{results.folder}/", "").replace(str(results.folder), ".")
            reasons.append([Cell(title), Cell(artefact.kind), Cell(reason, tone="note")])
    headers = [Cell("What"), Cell("Kind"), Cell("Why it is not here")]
    return made, HtmlTable(headers, reasons) if reasons else None
