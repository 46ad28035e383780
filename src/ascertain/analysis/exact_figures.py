"""The figures of the exact study: the paper's figures 1 to 4."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator

from ascertain.errors import InputError
from ascertain.exact import restricted_values, shortcut
from ascertain.exact.study import Sweep
from ascertain.reporting.style import GRID, INK, MUTED, TEXT_WIDTH, save_figure

_TITLES = {
    "aliasing": "(a) Aliasing",
    "filtering": "(b) Filtering",
    "restoration": "(c) Generative restoration",
}
_APPROACH_COLOURS = {"aliasing": "#B5479B", "filtering": "#4C92D9", "restoration": "#0E7A4A"}
_BLUES = ("#6BAED6", "#2171B5", "#08306B")
_ORANGES = ("#FD8D3C", "#D94801", "#7F2704")
_RATE_STYLES: tuple[Any, ...] = (":", "-", "--", "-.")

# The paper's figure 2: six instances of the shortcut problem at p = 0.3; 1 = observed.
_AVAILABILITY = np.array(
    [
        [1, 1, 0, 1, 1, 1],
        [1, 0, 0, 1, 1, 0],
        [1, 1, 1, 1, 1, 0],
        [0, 1, 1, 1, 1, 1],
        [0, 1, 0, 0, 1, 1],
        [1, 1, 1, 1, 1, 1],
    ],
    dtype=bool,
)


def draw_exact_figures(table: pd.DataFrame, sweep: Sweep, folder: Path) -> list[Path]:
    """Write the four figures, as PNG and PDF, and return their paths.

    Parameters
    ----------
    table
        The study's regrets.
    sweep
        What was studied.
    folder
        Where to write `exact-study`, `exact-collapse`, `planning-effect` and `availability`.
    """
    check_regrets(table)
    figures: dict[str, Callable[[], Figure]] = {
        "exact-study": partial(exact_study, table, sweep),
        "exact-collapse": partial(exact_collapse, table, sweep),
        "planning-effect": planning_effect,
        "availability": availability,
    }
    return [path for name, draw in figures.items() for path in save_figure(draw, folder, name)]


def check_regrets(table: pd.DataFrame) -> None:
    """Raise unless every replicate is there once, with both of its horizons."""
    identity = ["d", "budget", "rate", "n", "approach", "replicate"]
    duplicated = table.duplicated([*identity, "horizon"])
    if duplicated.any():
        raise InputError(f"the regrets hold a replicate twice: {table[duplicated].iloc[0].to_dict()}")
    horizons = table.groupby(identity).size()
    if (horizons != 2).any():
        first = dict(zip(identity, horizons.index[horizons != 2][0], strict=True))
        raise InputError(f"the regrets lack one of the two horizons of {first}")


def exact_study(table: pd.DataFrame, sweep: Sweep) -> Figure:
    """Draw regret against training size (figure 3): by dimension above, by budget below."""
    main, budget, d = sweep.rates[0], min(sweep.budgets), max(sweep.dims)
    at_main = table[table["rate"] == main]
    rows = {
        "d": (sweep.dims, at_main[at_main["budget"] == budget], _shades(_BLUES, len(sweep.dims))),
        "budget": (sweep.budgets, at_main[at_main["d"] == d], _shades(_ORANGES, len(sweep.budgets))),
    }
    figure = Figure(figsize=(TEXT_WIDTH, 3.9), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for row, (swept, (values, part, colours)) in enumerate(rows.items()):
        symbol = {"d": "d", "budget": "b"}[swept]
        for column, (approach, title) in enumerate(_TITLES.items()):
            ax = axes[row, column]
            for value, colour in zip(values, colours, strict=True):
                mine = part[(part[swept] == value) & (part["approach"] == approach)]
                _curve(ax, mine[mine["horizon"] == 1], color=MUTED, linestyle="--", linewidth=0.9, zorder=1)
                _curve(ax, mine[mine["horizon"] > 1], band=True, color=colour, label=f"${symbol} = {value}$")
            _regret_axis(ax)
            if row == 0:
                ax.set_title(title)
            else:
                ax.set_xlabel("training instances $n$")
        fixed = {"d": f"$b = {budget}$", "budget": f"$d = {d}$"}[swept]
        axes[row, 0].set_ylabel(f"regret ({fixed})")
        handles, labels = axes[row, 2].get_legend_handles_labels()
        handles.append(Line2D([], [], color=MUTED, linestyle="--", linewidth=0.9))
        axes[row, 2].legend(handles, [*labels, "myopic"], loc="upper right")
    return figure


def exact_collapse(table: pd.DataFrame, sweep: Sweep) -> Figure:
    """Draw regret against the effective training size of theorem 1 (figure 4): the curves coincide."""
    budget = min(sweep.budgets)
    rates = sorted(sweep.rates[1:] or sweep.rates)
    effective = {"filtering": ("d", "n(1-p)^d"), "restoration": ("budget", "n(1-p)^b")}
    figure = Figure(figsize=(TEXT_WIDTH, 2.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    part = table[(table["budget"] == budget) & (table["horizon"] == budget)]
    for ax, letter, (approach, (power, label)) in zip(axes, "ab", effective.items(), strict=True):
        for d, colour in zip(sweep.dims, _shades(_BLUES, len(sweep.dims)), strict=True):
            for rate, style in zip(rates, _styles(len(rates)), strict=True):
                mine = part[(part["approach"] == approach) & (part["d"] == d) & (part["rate"] == rate)]
                mean = mine.groupby("n")["regret"].mean()
                exponent = d if power == "d" else budget
                ax.plot(mean.index * (1 - rate) ** exponent, mean, color=colour, linestyle=style)
        _regret_axis(ax)
        ax.set_title(f"({letter}) {_TITLES[approach][4:]}")
        ax.set_xlabel(f"effective instances ${label}$")
    axes[0].set_ylabel("regret")
    by_d = [Line2D([], [], color=c) for c in _shades(_BLUES, len(sweep.dims))]
    by_rate = [Line2D([], [], color=INK, linestyle=style) for style in _styles(len(rates))]
    names = [f"$d = {d}$" for d in sweep.dims] + [f"$p = {rate:g}$" for rate in rates]
    axes[1].legend(by_d + by_rate, names, loc="upper right", ncols=2, handlelength=1.8, columnspacing=1)
    return figure


def planning_effect() -> Figure:
    """Draw what two missing branch features do to one- and two-step values (figure 1)."""
    problem = shortcut(d=6, budget=2)
    names = [problem.feature("context"), problem.feature("shortcut")]
    missing = np.zeros(6, bool)
    missing[[problem.feature("branch0.1"), problem.feature("branch1.1")]] = True
    _, training = restricted_values(problem, missing)
    _, evaluation = restricted_values(problem, np.zeros(6, bool))

    figure = Figure(figsize=(TEXT_WIDTH, 1.7), layout="constrained")
    cells, values = figure.subplots(1, 2)
    _instance(cells, missing)
    rows = [(k, action) for k in (1, 2) for action in names]
    for y, (k, action) in zip((3.4, 2.6, 1.4, 0.6), rows, strict=True):
        trained, true = training[k - 1, 0, action], evaluation[k - 1, 0, action]
        values.plot([trained, true], [y, y], color=INK, linewidth=0.8)
        values.plot(true, y, "o", color=INK, markersize=4 if trained != true else 2.5, zorder=3)
        values.plot(trained, y, "o", color=INK, markerfacecolor="white", markersize=5.5, zorder=2)
    values.set_yticks((3.4, 2.6, 1.4, 0.6), [f"$k = {k}$: acquire $x_{action + 1}$" for k, action in rows])
    values.set_xticks((0.5, 0.75, 1.0))
    values.set_xlim(0.46, 1.04)
    values.set_ylim(0.1, 3.9)
    values.set_xlabel("$1 + Q_k$")
    values.grid(axis="y", visible=False)
    marks = [
        Line2D([], [], color=INK, marker="o", markersize=4, linestyle=""),
        Line2D([], [], color=INK, marker="o", markerfacecolor="white", markersize=5.5, linestyle=""),
    ]
    values.legend(marks, ["evaluation", "training"], loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return figure


def availability() -> Figure:
    """Draw which training instances each approach can use (figure 2)."""
    observed, d = _AVAILABILITY, _AVAILABILITY.shape[1]
    complete = np.flatnonzero(observed.all(axis=1))
    plural = "s" if len(complete) != 1 else ""
    captions = {
        "aliasing": f"all {len(observed)} instances",
        "filtering": f"{len(complete)} complete instance{plural}",
        "restoration": f"all {len(observed)} instances",
    }
    figure = Figure(figsize=(TEXT_WIDTH, 2.0), layout="constrained")
    for ax, approach in zip(figure.subplots(1, 3), _TITLES, strict=True):
        colour = _APPROACH_COLOURS[approach]
        for row, column in np.ndindex(observed.shape):
            filled: dict[str, Any] = {"facecolor": "white", "edgecolor": GRID}
            if observed[row, column]:
                filled = {"facecolor": "#5B6770", "edgecolor": "none"}
            elif approach == "restoration":
                filled = {"facecolor": "#9FCDB4", "edgecolor": "none"}
            ax.add_patch(Rectangle((column + 0.08, row + 0.08), 0.84, 0.84, **filled))
        used = complete if approach == "filtering" else range(len(observed))
        first, last = min(used), max(used)
        ax.add_patch(
            Rectangle((-0.06, first - 0.06), d + 0.12, last - first + 1.12, fill=False, edgecolor=colour)
        )
        ax.set_title(_TITLES[approach], pad=14)
        ax.set_xticks(np.arange(d) + 0.5, [f"$x_{i + 1}$" for i in range(d)])
        ax.xaxis.tick_top()
        ax.set_xlabel(captions[approach])
        _bare(ax, (-0.2, d + 0.2), (len(observed) + 0.2, -0.2))
    legend = [
        Patch(facecolor="#5B6770"),
        Patch(facecolor="white", edgecolor=GRID),
        Patch(facecolor="#9FCDB4"),
    ]
    names = ["observed", "missing (MCAR, $p = 0.3$)", "generated"]
    figure.legend(legend, names, loc="outside lower center", ncols=3)
    return figure


def _instance(ax: Axes, missing: np.ndarray) -> None:
    """Draw one instance of the shortcut problem as evaluation and as training see it."""
    for name, y, holes in (("evaluation", 1.4, np.zeros(6, bool)), ("training", 0.0, missing)):
        for i in range(6):
            face = GRID if holes[i] else "white"
            ax.add_patch(Rectangle((i, y), 0.86, 0.9, facecolor=face, edgecolor=INK, linewidth=0.6))
            ax.text(i + 0.43, y + 0.42, r"$\times$" if holes[i] else f"$x_{i + 1}$", ha="center", va="center")
        ax.add_patch(Rectangle((6.4, y), 0.86, 0.9, facecolor="white", edgecolor=INK, linewidth=0.6))
        ax.text(6.83, y + 0.42, "$y$", ha="center", va="center")
        ax.text(-0.2, y + 0.42, name, ha="right", va="center")
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
    for start, end, height, text in (
        (0.43, 2.0, 2.95, "$y = x_2$ or $y = x_3$"),
        (3.43, 6.83, 3.75, r"$P(x_4 = y) = 3/4$"),
    ):
        ax.plot([start, start, end], [2.35, height, height], color=INK, linewidth=0.6)
        ax.annotate("", xy=(end, 2.35), xytext=(end, height), arrowprops=arrow)
        ax.text((start + end) / 2, height + 0.08, text, ha="center", va="bottom", fontsize=7)
    _bare(ax, (-2.6, 7.4), (-0.4, 4.5))
    ax.set_xticks([])


def _bare(ax: Axes, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
    ax.set_xlim(*xlim)
    ax.set_ylim(*ylim)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _curve(ax: Axes, part: pd.DataFrame, *, band: bool = False, **style: Any) -> None:
    """Draw mean regret against n, with a pointwise 95% band from the replicates."""
    regret = part.groupby("n")["regret"]
    mean = regret.mean()
    ax.plot(mean.index, mean, **style)
    if band:
        half = 1.96 * regret.std(ddof=1) / regret.size() ** 0.5
        ax.fill_between(mean.index, mean - half, mean + half, color=style["color"], alpha=0.2, linewidth=0)


def _regret_axis(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(-0.015, 0.52)
    ax.set_yticks((0, 0.25, 0.5), ("0", ".25", ".5"))


def _shades(base: Sequence[str], count: int) -> list[str]:
    """Give `count` colours from light to dark, the paper's three where there are three."""
    ramp = LinearSegmentedColormap.from_list("ramp", list(base))
    return [to_hex(ramp(position)) for position in np.linspace(0, 1, count)]


def _styles(count: int) -> list[Any]:
    return [_RATE_STYLES[i % len(_RATE_STYLES)] for i in range(count)]
