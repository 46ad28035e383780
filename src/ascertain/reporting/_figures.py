"""Figures inside HTML pages, and the heat map of what a policy acquires at which step."""

import base64
import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from ascertain._core.text import visible
from ascertain.reporting._style import INK, TEXT_WIDTH, paper_style
from ascertain.reporting._tables import HtmlTable

_MOST_SVG = 400_000  # bytes; a figure with more marks than that is smaller as pixels
_DPI = 200
_SCREEN = 130  # screen pixels per inch of a figure: the paper's 8 points become readable
_MOST_NAMES = 60  # beyond this, names would not be readable


@dataclass(frozen=True)
class Exhibit:
    """A figure (with a `source`) or a table, under its title."""

    anchor: str
    title: str
    caption: str = ""
    source: str = ""
    width: int = 0
    height: int = 0
    table: HtmlTable | None = None

    @property
    def alternative(self) -> str:
        """The text for a reader who cannot see the figure."""
        return f"{self.title}. {self.caption}"


def figure_exhibit(title: str, draw: Callable[[], Figure], anchor: str) -> Exhibit:
    """Draw a figure in the paper's style, for a page that has its caption in the template."""
    with paper_style():
        return embed_figure(draw(), f"figure-{anchor}", title)


def embed_figure(figure: Figure, anchor: str, title: str, caption: str = "") -> Exhibit:
    """Put a figure that is drawn already into an exhibit."""
    width, height = (math.ceil(_SCREEN * inches) for inches in figure.get_size_inches())
    return Exhibit(anchor, title, caption, data_uri(figure), width, height)


def data_uri(figure: Figure) -> str:
    """Encode a figure as a `data:` URI: SVG, or PNG where that would be large.

    An image may not load or run anything, and its styles are its own, so the page's strict security policy
    holds. The same figure always gives the same text.
    """
    FigureCanvasAgg(figure)
    _show_controls(figure)
    image, kind = io.BytesIO(), "svg+xml"
    with mpl.rc_context({"svg.hashsalt": "ascertain", "svg.fonttype": "path"}):
        figure.savefig(image, format="svg", metadata={"Date": None})
    if image.tell() > _MOST_SVG:
        image, kind = io.BytesIO(), "png"
        figure.savefig(image, format="png", dpi=_DPI)
    return f"data:image/{kind};base64,{base64.b64encode(image.getvalue()).decode('ascii')}"


def _show_controls(figure: Figure) -> None:
    """Write control characters in labels, which come from tables, as escapes."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):  # whose texts are set anew when it draws
                texts = [label.get_text() for label in axis.get_ticklabels()]
                shown = [visible(text) for text in texts]
                if shown != texts:
                    axis.set_ticks(axis.get_ticklocs(), shown)
    for text in figure.findobj(Text):
        text.set_text(visible(text.get_text()))


def draw_frequencies(shares: pd.DataFrame, title: str) -> Figure:
    """Draw the share of rows that take each action at each step, without the actions that are never taken.

    `shares` is a table of `ascertain.evaluation._scores.frequency_table`: `step`, `action`, `share`.
    """
    table = shares.pivot(index="action", columns="step", values="share")
    table = table.reindex(pd.unique(shares["action"]))
    taken = table[table.sum(axis=1) > 0]
    n_never = len(table) - len(taken)
    height = max(2.4, 0.14 * len(taken) + 1.0)
    figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    if len(taken):
        image = axes.imshow(taken.to_numpy(), cmap="Purples", vmin=0, vmax=1, aspect="auto")
        figure.colorbar(
            image, ax=axes, label="share of rows (numbers: percent)", shrink=min(1.0, 1.4 / height * 2)
        )
        _annotate(axes, taken)
        axes.set_xticks(range(taken.shape[1]), [str(step) for step in taken.columns])
        axes.set_xlabel("step")
    else:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing is acquired", ha="center", color=INK)
    names = list(taken.index) if len(taken) <= _MOST_NAMES else []
    axes.set_yticks(range(len(names)), [str(name).replace("$", r"\$") for name in names])
    axes.grid(visible=False)
    axes.set_title(title.replace("$", r"\$"), loc="left", wrap=True)
    if n_never:
        figure.supxlabel(f"{n_never} of {len(table)} actions are never taken", fontsize=7)
    return figure


def _annotate(axes: Axes, taken: pd.DataFrame) -> None:
    """Write the larger shares into their cells, where there is room."""
    values = taken.to_numpy()
    if values.shape[1] > 15:
        return
    for row, column in np.argwhere(values >= 0.1):
        share = values[row, column]
        colour = "white" if share > 0.6 else INK
        axes.text(column, row, f"{share:.0%}"[:-1], ha="center", va="center", color=colour, fontsize=5.5)
