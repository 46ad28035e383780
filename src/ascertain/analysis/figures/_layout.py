"""What the figures share: canvas, grids of panels, legends."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ascertain.reporting._style import INK, TEXT_WIDTH

Entry = tuple[Any, str]  # of a legend: an artist and its label


def canvas(height: float) -> Figure:
    """Empty figure as wide as the paper's text."""
    return Figure(figsize=(TEXT_WIDTH, height), layout="constrained")


def ceil_div(total: int, size: int) -> int:
    """How many groups of a size it takes."""
    return -(-total // size)


def grid_shape(panels: int, most: int = 4) -> tuple[int, int]:
    """Rows and columns for some panels: at most so many beside each other, rows equally full."""
    rows = ceil_div(panels, most)
    return rows, ceil_div(panels, rows)


def fill_panels(axes: Any, names: Sequence[str]) -> Iterator[tuple[Axes, str]]:
    """Pair axes with names, and hide the axes that are left over."""
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    yield from zip(axes.flat, names, strict=False)


def line(**style: Any) -> Line2D:
    """Line or mark for a legend, black unless a colour is given."""
    return Line2D([], [], **{"color": INK, **style})


def legend_below(figure: Figure, entries: Iterable[Entry], columns: int, **style: Any) -> None:
    """Put a legend below all panels."""
    handles, labels = zip(*entries, strict=True)
    style = {"fontsize": 6.5, "columnspacing": 1.0, **style}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **style)
