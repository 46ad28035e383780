"""A study's results as one page of HTML that needs nothing but itself."""

from collections.abc import Iterable
from pathlib import Path

from ascertain.analysis.artefacts import ARTEFACTS, Artefact
from ascertain.analysis.report.cells import cells_island
from ascertain.analysis.report.comparison import compare
from ascertain.analysis.report.exhibits import make_exhibits
from ascertain.analysis.report.findings import NOTE, NOTHING_FOUND, find
from ascertain.analysis.report.overview import describe_run, notices
from ascertain.analysis.report.provenance import read_provenance
from ascertain.analysis.results import Results, read_results
from ascertain.reporting.html import part, render_page, write_page


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
        The file to write, `report.html` in the folder unless given; it is replaced at once, never left
        half-written.

    Returns
    -------
    Path
        The file that was written.
    """
    results = read_results(folder)
    path = folder / "report.html" if out is None else out
    write_page(render(results, ARTEFACTS.values()), path)
    return path


def render(results: Results, artefacts: Iterable[Artefact]) -> str:
    """Give the page as text, with those of the figures and tables that can be made."""
    name = results.study.get("name")
    exhibits, left_out = make_exhibits(results, artefacts)
    return render_page(
        part("template.html", __package__),
        js=part("cells.js", __package__),
        made_from=" from the files listed above",
        title=f"Study {name}" if name else "Study results",
        subtitle="Active feature acquisition with incomplete training data",
        notices=notices(results.results),
        overview=describe_run(results),
        findings=find(results),
        findings_note=NOTE,
        no_findings=NOTHING_FOUND,
        exhibits=exhibits,
        left_out=left_out,
        comparison=compare(results),
        cells=cells_island(results.results),
        provenance=read_provenance(results),
    )
