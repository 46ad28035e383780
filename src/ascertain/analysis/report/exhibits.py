"""The figures and tables that the results allow, ready for the page, and why the others are not there."""

import base64
import io
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ascertain.analysis.artefacts import Artefact
from ascertain.analysis.results import Results
from ascertain.errors import InputError
from ascertain.reporting.style import paper_style
from ascertain.reporting.tables import Cell, HtmlTable, to_table

_MOST_SVG = 400_000  # bytes; a figure with more marks than that is smaller as pixels
_DPI = 200
_SCREEN = 130  # screen pixels per inch of a figure: the paper's 8 points become readable


@dataclass(frozen=True)
class Exhibit:
    """A figure (with a `source`) or a table, under its title."""

    anchor: str
    title: str
    caption: str
    source: str = ""
    width: int = 0
    height: int = 0
    table: HtmlTable | None = None

    @property
    def alternative(self) -> str:
        """What a reader who cannot see the figure is told."""
        return f"{self.title}. {self.caption}"


def make_exhibits(results: Results, artefacts: Iterable[Artefact]) -> tuple[list[Exhibit], HtmlTable | None]:
    """Make all that can be made; the table lists the rest with the reason for each, if there is any."""
    made: list[Exhibit] = []
    reasons: list[list[Cell]] = []
    for number, artefact in enumerate(artefacts):
        anchor = f"exhibit-{number}-{re.sub(r'[^a-z0-9]+', '-', artefact.name.lower())}"
        title = _title(artefact.name)
        try:
            made.append(_make(artefact, results, anchor, title))
        except InputError as error:
            reasons.append(
                [Cell(title), Cell(artefact.kind), Cell(_reason(error, results.folder), tone="note")]
            )
    headers = [Cell("What"), Cell("Kind"), Cell("Why it is not here")]
    return made, HtmlTable(headers, reasons) if reasons else None


def _make(artefact: Artefact, results: Results, anchor: str, title: str) -> Exhibit:
    with paper_style():
        product = artefact.make(results)
        if isinstance(product, pd.DataFrame):
            return Exhibit(anchor, title, artefact.summary, table=to_table(product))
        return _figure(anchor, title, artefact.summary, product)


def figure_exhibit(title: str, draw: Callable[[], Figure], anchor: str) -> Exhibit:
    """Draw a figure in the paper's style, for a page that says itself what it shows."""
    with paper_style():
        return _figure(f"figure-{anchor}", title, "", draw())


def _figure(anchor: str, title: str, caption: str, figure: Figure) -> Exhibit:
    width, height = (math.ceil(_SCREEN * inches) for inches in figure.get_size_inches())
    return Exhibit(anchor, title, caption, data_uri(figure), width, height)


def data_uri(figure: Figure) -> str:
    """Give a figure as a `data:` address: SVG, or PNG where that would be large.

    An image may not load or run anything, and its styles are its own, so that the page's strict policy
    holds. The same figure always gives the same text.
    """
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "ascertain", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    if buffer.tell() <= _MOST_SVG:
        return _encoded("image/svg+xml", buffer)
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=_DPI)
    return _encoded("image/png", pixels)


def _encoded(kind: str, content: io.BytesIO) -> str:
    return f"data:{kind};base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def _reason(error: InputError, folder: Path) -> str:
    """Say why something could not be made, with files named from the results folder on.

    A page that is passed on should not tell how its author's disk is laid out.
    """
    return str(error).replace(f"{folder}/", "").replace(str(folder), ".")


def _title(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]
