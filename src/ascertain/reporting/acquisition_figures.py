"""What a policy acquires when, drawn."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ascertain.reporting.style import INK, TEXT_WIDTH

_MOST_NAMES = 60  # beyond this, names would not be readable


def draw_frequencies(shares: pd.DataFrame, title: str) -> Figure:
    """Draw the share of rows that take each action at each step; what is never taken is left out.

    Parameters
    ----------
    shares
        As `ascertain.evaluation.scores.frequency_table` gives it: `step`, `action`, `share`.
    title
        Stands above the figure.
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
    if 0 < len(taken) <= _MOST_NAMES:
        axes.set_yticks(range(len(taken)), [str(name).replace("$", r"\$") for name in taken.index])
    else:
        axes.set_yticks([])
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
