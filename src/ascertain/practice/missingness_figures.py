"""The holes of a table, drawn."""

import numpy as np
from matplotlib.figure import Figure

from ascertain.missingness.diagnosis import Diagnosis
from ascertain.reporting.style import GRID, INK, MUTED, TEXT_WIDTH

_MISSING = "#B5479B"
_MOST_NAMES = 45  # beyond this, names would not be readable


def draw_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw how much of each column is missing, how predictably, what goes together, and row counts."""
    columns = diagnosis.columns
    height = max(3.0, 0.13 * len(columns) + 1.2)
    figure = Figure(figsize=(TEXT_WIDTH * 1.5, height), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.3, 1))
    place = np.arange(len(columns))[::-1]

    left.barh(place, columns["missing"], color=_MISSING, height=0.7)
    left.plot(columns["predictable"], place, "o", color=INK, markersize=3, label="AUROC of its missingness")
    left.axvline(0.5, color=MUTED, linewidth=0.8, linestyle="--")
    left.set_xlim(0, 1)
    left.set_ylim(-0.7, len(columns) - 0.3)
    if len(columns) <= _MOST_NAMES:
        left.set_yticks(place, [name.replace("$", r"\$") for name in columns.index])
    else:
        left.set_yticks([])
    left.grid(axis="y", visible=False)
    left.set_title("share missing, and predictability")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06))

    image = middle.imshow(diagnosis.together, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    middle.set_title("missing together (correlation)")
    middle.grid(visible=False)
    middle.set_xticks([])
    middle.set_yticks([])
    middle.set_facecolor(GRID)
    figure.colorbar(image, ax=middle, shrink=0.6)

    right.bar(diagnosis.rows.index, diagnosis.rows, color="#5B6770", width=0.8)
    right.set_title("rows by number of actions")
    right.set_xlabel("actions that a row has")
    right.grid(axis="x", visible=False)
    if diagnosis.little is not None:
        figure.supxlabel(
            f"Little's test of MCAR: chi-square {diagnosis.little.statistic:.0f} on "
            f"{diagnosis.little.degrees_of_freedom} degrees of freedom, p = {diagnosis.little.p_value:.2g}",
            fontsize=7,
        )
    return figure
