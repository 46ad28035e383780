"""The figures of the exact study: the paper's figures 1 to 4."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator

from ascertain.analysis._exact import check_regrets
from ascertain.analysis.figures._layout import canvas, line
from ascertain.exact import restricted_values, shortcut
from ascertain.exact._study import Sweep
from ascertain.reporting._style import GRID, INK, MUTED, save_figure

_TITLES = {
    "aliasing": "(a) Aliasing",
    "filtering": "(b) Filtering",
    "restoration": "(c) Generative restoration",
}
_APPROACH_COLOURS = {"aliasing": "#B5479B", "filtering": "#4C92D9", "restoration": "#0E7A4A"}
_OBSERVED: dict[str, Any] = {"facecolor": "#5B6770", "edgecolor": "none"}
_MISSING: dict[str, Any] = {"facecolor": "white", "edgecolor": GRID}
_GENERATED: dict[str, Any] = {"facecolor": "#9FCDB4", "edgecolor": "none"}
_BLUES = ("#6BAED6", "#2171B5", "#08306B")
_ORANGES = ("#FD8D3C", "#D94801", "#7F2704")
_RATE_STYLES: tuple[Any, ...] = (":", "-", "--", "-.")

# The paper's figure 2: six instances of the shortcut problem at p = 0.3; 1 = observed.
_INSTANCES = ("110111", "100110", "111110", "011111", "010011", "111111")
_AVAILABILITY = np.array([list(row) for row in _INSTANCES]) == "1"


def draw_exact_figures(table: pd.DataFrame, sweep: Sweep, folder: Path) -> list[Path]:
    """Write `exact-study`, `exact-collapse`, `planning-effect` and `availability` as PNG and PDF."""
    check_regrets(table)
    figures: dict[str, Callable[[], Figure]] = {
        "exact-study": partial(exact_study, table, sweep),
        "exact-collapse": partial(exact_collapse, table, sweep),
        "planning-effect": planning_effect,
        "availability": availability,
    }
    return [path for name, draw in figures.items() for path in save_figure(draw, folder, name)]


def exact_study(table: pd.DataFrame, sweep: Sweep) -> Figure:
    """Draw regret against training size (figure 3): by dimension above, by budget below."""
    main, budget, d = sweep.rates[0], min(sweep.budgets), max(sweep.dims)
    at_main = table[table["rate"] == main]
    rows = (
        ("d", "d", sweep.dims, at_main[at_main["budget"] == budget], _BLUES, f"$b = {budget}$"),
        ("budget", "b", sweep.budgets, at_main[at_main["d"] == d], _ORANGES, f"$d = {d}$"),
    )
    figure = canvas(3.9)
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    myopic: dict[str, Any] = {"color": MUTED, "linestyle": "--", "linewidth": 0.9}
    for row, (swept, symbol, values, part, colours, fixed) in zip(axes, rows, strict=True):
        for ax, approach in zip(row, _TITLES, strict=True):
            for value, colour in zip(values, _shades(colours, len(values)), strict=True):
                mine = part[(part[swept] == value) & (part["approach"] == approach)]
                _draw_curve(ax, mine[mine["horizon"] == 1], **myopic, zorder=1)
                label = f"${symbol} = {value}$"
                _draw_curve(ax, mine[mine["horizon"] > 1], band=True, color=colour, label=label)
            _set_axes(ax)
        row[0].set_ylabel(f"regret ({fixed})")
        handles, labels = row[2].get_legend_handles_labels()
        row[2].legend([*handles, line(**myopic)], [*labels, "myopic"], loc="upper right")
    for above, below, title in zip(*axes, _TITLES.values(), strict=True):
        above.set_title(title)
        below.set_xlabel("training instances $n$")
    return figure


def exact_collapse(table: pd.DataFrame, sweep: Sweep) -> Figure:
    """Draw regret against the effective training size of theorem 1 (figure 4): the curves coincide."""
    budget = min(sweep.budgets)
    rates = sorted(sweep.rates[1:] or sweep.rates)
    colours = dict(zip(sweep.dims, _shades(_BLUES, len(sweep.dims)), strict=True))
    styles = {rate: _RATE_STYLES[i % len(_RATE_STYLES)] for i, rate in enumerate(rates)}
    figure = canvas(2.2)
    axes = figure.subplots(1, 2, sharey=True)
    part = table[(table["budget"] == budget) & (table["horizon"] == budget)]
    for ax, letter, approach, power in zip(axes, "ab", ("filtering", "restoration"), "db", strict=True):
        for (d, colour), (rate, style) in product(colours.items(), styles.items()):
            mine = part[(part["approach"] == approach) & (part["d"] == d) & (part["rate"] == rate)]
            mean = mine.groupby("n")["regret"].mean()
            exponent = d if power == "d" else budget
            ax.plot(mean.index * (1 - rate) ** exponent, mean, color=colour, linestyle=style)
        _set_axes(ax)
        ax.set_title(f"({letter}) {_TITLES[approach][4:]}")
        ax.set_xlabel(f"effective instances $n(1-p)^{power}$")
    axes[0].set_ylabel("regret")
    handles = [line(color=colour) for colour in colours.values()]
    handles += [line(linestyle=style) for style in styles.values()]
    labels = [f"$d = {d}$" for d in colours] + [f"$p = {rate:g}$" for rate in styles]
    axes[1].legend(handles, labels, loc="upper right", ncols=2, handlelength=1.8, columnspacing=1)
    return figure


def planning_effect() -> Figure:
    """Draw what two missing branch features do to one- and two-step values (figure 1)."""
    problem = shortcut(d=6, budget=2)
    names = [problem.feature("context"), problem.feature("shortcut")]
    missing = np.zeros(6, bool)
    missing[[problem.feature("branch0.1"), problem.feature("branch1.1")]] = True
    _, training = restricted_values(problem, missing)
    _, evaluation = restricted_values(problem, np.zeros(6, bool))

    figure = canvas(1.7)
    cells, values = figure.subplots(1, 2)
    _draw_instance(cells, missing)
    rows = [(k, action) for k in (1, 2) for action in names]
    heights = (3.4, 2.6, 1.4, 0.6)
    for y, (k, action) in zip(heights, rows, strict=True):
        trained, true = training[k - 1, 0, action], evaluation[k - 1, 0, action]
        values.plot([trained, true], [y, y], color=INK, linewidth=0.8)
        values.plot(true, y, "o", color=INK, markersize=4 if trained != true else 2.5, zorder=3)
        values.plot(trained, y, "o", color=INK, markerfacecolor="white", markersize=5.5, zorder=2)
    values.set_yticks(heights, [f"$k = {k}$: acquire $x_{action + 1}$" for k, action in rows])
    values.set_xticks((0.5, 0.75, 1.0))
    values.set_xlim(0.46, 1.04)
    values.set_ylim(0.1, 3.9)
    values.set_xlabel("$1 + Q_k$")
    values.grid(axis="y", visible=False)
    marks = [
        line(marker="o", markersize=4, linestyle=""),
        line(marker="o", markerfacecolor="white", markersize=5.5, linestyle=""),
    ]
    values.legend(marks, ["evaluation", "training"], loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    return figure


def availability() -> Figure:
    """Draw which training instances each approach can use (figure 2)."""
    observed, d = _AVAILABILITY, _AVAILABILITY.shape[1]
    complete = np.flatnonzero(observed.all(axis=1))
    figure = canvas(2.0)
    for ax, (approach, title) in zip(figure.subplots(1, 3), _TITLES.items(), strict=True):
        filled = _GENERATED if approach == "restoration" else _MISSING
        for row, column in np.ndindex(observed.shape):
            style = _OBSERVED if observed[row, column] else filled
            ax.add_patch(Rectangle((column + 0.08, row + 0.08), 0.84, 0.84, **style))
        used, caption = np.arange(len(observed)), f"all {len(observed)} instances"
        if approach == "filtering":
            used, caption = complete, f"{len(complete)} complete instance"
        corner, height = (-0.06, used.min() - 0.06), np.ptp(used) + 1.12
        edge = _APPROACH_COLOURS[approach]
        ax.add_patch(Rectangle(corner, d + 0.12, height, fill=False, edgecolor=edge))
        ax.set_title(title, pad=14)
        ax.set_xticks(np.arange(d) + 0.5, [f"$x_{i + 1}$" for i in range(d)])
        ax.xaxis.tick_top()
        ax.set_xlabel(caption)
        _hide_axes(ax, (-0.2, d + 0.2), (len(observed) + 0.2, -0.2))
    legend = [Patch(facecolor="#5B6770"), Patch(**_MISSING), Patch(facecolor="#9FCDB4")]
    labels = ["observed", "missing (MCAR, $p = 0.3$)", "generated"]
    figure.legend(legend, labels, loc="outside lower center", ncols=3)
    return figure


def _draw_instance(ax: Axes, missing: np.ndarray) -> None:
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
    _hide_axes(ax, (-2.6, 7.4), (-0.4, 4.5))
    ax.set_xticks([])


def _hide_axes(ax: Axes, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
    ax.set_xlim(*xlim)
    ax.set_ylim(*ylim)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _draw_curve(ax: Axes, part: pd.DataFrame, *, band: bool = False, **style: Any) -> None:
    """Draw mean regret against n, with a pointwise 95% band from the replicates."""
    regret = part.groupby("n")["regret"]
    mean = regret.mean()
    ax.plot(mean.index, mean, **style)
    if band:
        half = 1.96 * regret.std(ddof=1) / regret.size() ** 0.5
        ax.fill_between(mean.index, mean - half, mean + half, color=style["color"], alpha=0.2, linewidth=0)


def _set_axes(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(-0.015, 0.52)
    ax.set_yticks((0, 0.25, 0.5), ("0", ".25", ".5"))


def _shades(base: Sequence[str], count: int) -> list[str]:
    """Some colours from light to dark, the paper's three where there are three."""
    ramp = LinearSegmentedColormap.from_list("ramp", list(base))
    return [to_hex(ramp(position)) for position in np.linspace(0, 1, count)]
