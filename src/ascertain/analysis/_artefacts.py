"""Every figure and table of a study, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure

from ascertain._core.files import remove_abandoned, replacing
from ascertain.analysis import _recovered_tables as restorers
from ascertain.analysis import _tables as tables
from ascertain.analysis._exact import check_regrets, read_exact
from ascertain.analysis._results import Results, read_results
from ascertain.analysis._routes import adaptivity, route_table
from ascertain.analysis.figures import _exact as exact
from ascertain.analysis.figures._budgets import draw_budget_curves
from ascertain.analysis.figures._compute import draw_compute
from ascertain.analysis.figures._heatmaps import draw_acquisition_heatmaps
from ascertain.analysis.figures._recovered import draw_recovered
from ascertain.analysis.figures._recovery import draw_law_grid
from ascertain.analysis.figures._states import draw_state_variants
from ascertain.analysis.figures._summary import draw_main_summary, draw_summary_grid
from ascertain.errors import InputError, did_you_mean
from ascertain.reporting._style import save_figure


@dataclass(frozen=True)
class Artefact:
    """A figure or a table that can be made from the results of a study.

    `make` draws the figure or makes the table for reading, and raises `InputError` where the results lack
    what it needs. Tables also have `numbers` and `latex`. Those of the section `recovered` are about studies
    that compare restorers, so the report of another study does not mention them.
    """

    name: str
    summary: str
    make: Callable[[Results], Any]
    numbers: Callable[[Results], pd.DataFrame] | None = None
    latex: Callable[[Results], str] | None = None
    section: Literal["exhibits", "recovered"] = "exhibits"

    @property
    def kind(self) -> Literal["figure", "table"]:
        """Whether it is drawn or written."""
        return "figure" if self.latex is None else "table"

    def write(self, results: Results, folder: Path) -> list[Path]:
        """Write a figure as PNG and PDF, a table as CSV and LaTeX."""
        if self.numbers is None or self.latex is None:
            return save_figure(lambda: self.make(results), folder, self.name)
        texts = {
            folder / f"{self.name}.csv": self.numbers(results).to_csv(index=False, lineterminator="\n"),
            folder / f"{self.name}.tex": self.latex(results),
        }
        for path, text in texts.items():
            with replacing(path) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")
            remove_abandoned(path)
        return list(texts)


def _draw_exact(draw: Callable[..., Figure], results: Results) -> Figure:
    regrets, sweep = read_exact(results.folder)
    check_regrets(regrets)
    return draw(regrets, sweep)


_ALL = (
    Artefact(
        "main-summary",
        "Complete, restricted and restored training of every method on every dataset, in the main setting.",
        draw_main_summary,
    ),
    Artefact(
        "summary-grid",
        "The same under every missingness mechanism, at the main rate.",
        draw_summary_grid,
    ),
    Artefact(
        "law-grid",
        "Restoration gain against missingness damage, by policy and mechanism, with the recovery slope.",
        draw_law_grid,
    ),
    Artefact(
        "compute",
        "Score against the time per trained policy, from restricted training to restoration.",
        draw_compute,
    ),
    Artefact(
        "budget-curves",
        "Score over budgets for every dataset and method, by treatment of the training data.",
        draw_budget_curves,
    ),
    Artefact(
        "acquisition-heatmaps",
        "What the most damaged policy of each dataset acquires at which step, by treatment.",
        draw_acquisition_heatmaps,
    ),
    Artefact(
        "state-variants",
        "What it changes that a policy sees which acquisitions are available: (s,m) against (s).",
        draw_state_variants,
    ),
    Artefact(
        "route-structure",
        "What fixed routes achieve: the best one's score, its lead over a typical one, and their overlap.",
        tables.route_structure_table,
        route_table,
        tables.route_structure_latex,
    ),
    Artefact(
        "adaptivity",
        "Each method's score on complete data, its margin over the best fixed route, and its damage.",
        tables.adaptivity_table,
        lambda results: adaptivity(results).table,
        tables.adaptivity_latex,
    ),
    Artefact(
        "estimates",
        "Scores of policies on tables with holes of their own, estimated from test rows.",
        tables.estimates_table,
        tables.estimates_numbers,
        tables.estimates_latex,
    ),
    Artefact(
        "damage",
        "Missingness damage and restoration gain of every policy in every setting.",
        tables.damage_table,
        tables.damage_numbers,
        tables.damage_latex,
    ),
    Artefact(
        "exact-study",
        "Regret against training size in the exact study, by approach, dimension and budget.",
        partial(_draw_exact, exact.exact_study),
    ),
    Artefact(
        "exact-collapse",
        "Regret against the effective training size in the exact study.",
        partial(_draw_exact, exact.exact_collapse),
    ),
    Artefact(
        "recovered",
        "What each restorer recovers of the damage, with 95% intervals over splits, by mechanism and rate.",
        draw_recovered,
        section="recovered",
    ),
    Artefact(
        "recovered-shares",
        "What each restorer recovers, what it changes where nothing is damaged, and where it hurts.",
        restorers.shares_table,
        restorers.shares_numbers,
        restorers.shares_latex,
        section="recovered",
    ),
    Artefact(
        "recovered-by-dataset",
        "Share of the damage that each restorer recovers, by dataset; a dash where the damage is below 0.01.",
        restorers.datasets_table,
        restorers.datasets_numbers,
        restorers.datasets_latex,
        section="recovered",
    ),
    Artefact(
        "recovered-by-policy",
        "Share of the damage that each restorer recovers, by policy; a dash where the damage is below 0.01.",
        restorers.policies_table,
        restorers.policies_numbers,
        restorers.policies_latex,
        section="recovered",
    ),
    Artefact(
        "recovered-losses",
        "Policies and datasets that lose against restricted training, and how clearly.",
        restorers.losses_table,
        restorers.losses_numbers,
        restorers.losses_latex,
        section="recovered",
    ),
    Artefact(
        "recovered-auto",
        "What the automatic treatment gains beside one choice made on the other splits, and what it chose.",
        restorers.choices_table,
        restorers.choices_numbers,
        restorers.choices_latex,
        section="recovered",
    ),
)
ARTEFACTS: dict[str, Artefact] = {artefact.name: artefact for artefact in _ALL}


def write_artefacts(
    folder: str | Path,
    names: Sequence[str] | None = None,
    out: str | Path | None = None,
    on_progress: Callable[[str, str | None], object] = lambda name, left_out: None,
) -> list[Path]:
    """Write figures as PNG and PDF, tables as CSV and LaTeX.

    Parameters
    ----------
    folder
        The results of a study.
    names
        What to write, of `ARTEFACTS`; by default all that the results allow.
    out
        Where to write; by default into `figures` in the folder.
    on_progress
        Called after each one with its name, and with the reason if it could not be made. One that was named
        and cannot be made raises `InputError` instead.

    Returns
    -------
    list of Path
        The files that were written.

    Examples
    --------
    `examples/several_completions.py` draws a figure of a study that it ran.
    """
    wanted = list(ARTEFACTS) if names is None else list(names)
    for name in wanted:
        if name not in ARTEFACTS:
            raise InputError(f"no figure or table is called {name!r}; {did_you_mean(name, ARTEFACTS)}")
    results = read_results(folder)
    target = results.folder / "figures" if out is None else Path(out)
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in wanted:
        reason = None
        try:
            written += ARTEFACTS[name].write(results, target)
        except InputError as error:
            if names is not None:
                raise InputError(f"{name} cannot be made: {error}") from error
            reason = str(error)
        on_progress(name, reason)
    return written
