"""A study's results as one page of HTML that needs nothing but itself."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ascertain import __version__
from ascertain.analysis.artefacts import ARTEFACTS, Artefact
from ascertain.analysis.report.cells import cells_island
from ascertain.analysis.report.comparison import compare
from ascertain.analysis.report.exhibits import make_exhibits
from ascertain.analysis.report.findings import NOTE, NOTHING_FOUND, find
from ascertain.analysis.report.overview import describe_run, notices
from ascertain.analysis.report.provenance import read_provenance
from ascertain.analysis.results import Results, read_results
from ascertain.files import replacing


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
    page = render(results, ARTEFACTS.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
    return path


def render(results: Results, artefacts: Iterable[Artefact]) -> str:
    """Give the page as text, with those of the figures and tables that can be made."""
    css, js = _part("style.css"), _part("cells.js")
    name = results.study.get("name")
    exhibits, left_out = make_exhibits(results, artefacts)
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_part("template.html")).render(
        policy=_policy(css, js),
        css=Markup(css),
        js=Markup(js),
        version=__version__,
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


def _policy(css: str, js: str) -> str:
    """Allow this page's own style and script, and images within it; nothing else."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in (css, js)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _part(name: str) -> str:
    return files("ascertain.analysis.report").joinpath(name).read_text(encoding="utf-8")
