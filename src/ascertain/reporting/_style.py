"""The look of every figure, and how it is saved."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ascertain._core.files import remove_abandoned, replacing

TEXT_WIDTH = 5.5  # inches, the paper's
INK = "#0B0B0B"
MUTED = "#9A9994"
GRID = "#D8D7D2"

_RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Use the house style inside the block; Matplotlib's own settings stay as they were."""
    with mpl.rc_context(_RC):
        yield


def save_figure(draw: Callable[[], Figure], folder: Path, name: str) -> list[Path]:
    """Draw a figure in the house style and write it as `name.png` and `name.pdf`."""
    paths = [folder / f"{name}.png", folder / f"{name}.pdf"]
    with paper_style():
        figure = draw()
        FigureCanvasAgg(figure)
        for path in paths:
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=200)
            remove_abandoned(path)
    return paths
