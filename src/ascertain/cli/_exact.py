"""The command `exact`: the exact study (section 5.1 of the paper)."""

import math
import os
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli._app import app, console, errors, listed, numbers, progress_bar, whole_numbers
from ascertain.exact._study import Sweep, run_study

JOBS = min(os.cpu_count() or 1, 8)


@app.command(
    epilog="""
Examples:

`ascertain exact` — the paper's whole study (minutes)

`ascertain exact --replicates 20 --sizes 10,100,1000,1e4` — a quick look

`ascertain exact --dims 8,12 --budgets 2 --rates 0.4 --out mine` — another corner of the problem
"""
)
def exact(
    dims: Annotated[str, typer.Option(help="Numbers of features, at the smallest budget.")] = listed(
        Sweep.dims
    ),
    budgets: Annotated[str, typer.Option(help="Budgets, at the largest number of features.")] = listed(
        Sweep.budgets
    ),
    rates: Annotated[
        str, typer.Option(help="Missingness rates: the main figure's first, then the collapse figure's.")
    ] = listed(Sweep.rates),
    sizes: Annotated[
        str, typer.Option(help="Training sizes.", show_default="21 sizes from 10 to 1e6")
    ] = listed(Sweep.sizes),
    replicates: Annotated[int, typer.Option(help="Training sets for each size.")] = Sweep.replicates,
    seed: Annotated[int, typer.Option(help="Seed of the training sets.")] = Sweep.seed,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes; the result does not depend on it.", show_default="one per core, at most 8"
        ),
    ] = JOBS,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; what it holds is not computed again.")
    ] = Path("exact-study"),
) -> None:
    """Solve the paper's shortcut problem exactly under aliasing, filtering and restoration (section 5.1).

    Writes `regret.parquet` and the figures `exact-study`, `exact-collapse`, `planning-effect` and
    `availability` (PNG and PDF). It can be interrupted: the same command continues where it stopped.
    """
    sweep = Sweep(
        dims=whole_numbers("--dims", dims),
        budgets=whole_numbers("--budgets", budgets),
        rates=numbers("--rates", rates),
        sizes=whole_numbers("--sizes", sizes),
        replicates=replicates,
        seed=seed,
    )
    run_exact(sweep, out, jobs)


def run_exact(sweep: Sweep, out: Path, jobs: int) -> None:
    """Run a sweep with a progress bar, draw its figures and print its summary."""
    with progress_bar() as bar:
        progress = bar.add_task("training sets solved", total=None)
        try:
            table = run_study(
                sweep,
                out,
                jobs=jobs,
                on_progress=lambda done, total: bar.update(progress, completed=done, total=total),
            )
        except KeyboardInterrupt:
            bar.stop()
            errors.print(
                f"Interrupted. What was finished is kept in {escape(str(out))}; "
                "the same command continues from there."
            )
            raise typer.Exit(130) from None
    from ascertain.analysis._exact import regret_summary
    from ascertain.analysis.figures._exact import draw_exact_figures

    figures = draw_exact_figures(table, sweep, out)
    _print_summary(regret_summary(table))
    for path in (out / "regret.parquet", *figures):
        console.print(escape(str(path)), soft_wrap=True)


def _print_summary(summary: pd.DataFrame) -> None:
    """Print, for each arm of the study, where every approach ends and how much data it took to get there."""
    approaches = ("aliasing", "filtering", "restoration", "complete")
    printed = Table(title="Regret at the largest n, or the n from which on it is zero")
    for name in ("d", "budget", "rate", *approaches):
        printed.add_column(name, justify="right", no_wrap=True)
    for arm, rows in summary.groupby(["d", "budget", "rate"]):
        ends = zip(rows["approach"], rows["regret"], rows["zero_from"], strict=True)
        cells = {
            approach: f"{regret:.4f}" if math.isnan(zero_from) else f"n ≥ {zero_from:,.0f}"
            for approach, regret, zero_from in ends
        }
        printed.add_row(*map(str, arm), *(cells[approach] for approach in approaches))
    console.print(printed)
