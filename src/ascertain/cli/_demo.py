"""The command `demo`: a policy for a small table, a short exact study and a short study of methods."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.markup import escape

from ascertain.cli._app import app, console
from ascertain.cli._exact import JOBS, run_exact
from ascertain.cli._fit import fit
from ascertain.cli._study import run_with_progress
from ascertain.errors import StoreError
from ascertain.exact._study import Sweep

_ROWS = 6000
_DATASET = "cube_nuc"  # where holes hurt, and restoration helps
_LARGEST = 10**5  # training instances of the exact study


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("ascertain-demo"),
) -> None:
    """Fit a policy to a small simulated table, run a short study, and end with the paths of two reports."""
    from ascertain.analysis.report import write_report
    from ascertain.study import read_study
    from ascertain.study._runners import LocalRunner

    _say("A table with holes", "machines that fail; half of the measurements were never made")
    report = _fit_small_table(out / "own-table")
    _say("The paper's exact study", "what holes do to plans, where everything can be computed")
    run_exact(Sweep(sizes=[n for n in Sweep.sizes if n <= _LARGEST], replicates=20), out / "exact", JOBS)
    _say("A study of methods", "trained on complete, on holed and on restored data")
    summary = run_with_progress(read_study("quick").narrowed([_DATASET], None), out, LocalRunner())
    page = write_report(out)
    console.print(f"\nThe table  {escape(str(report.resolve()))}", soft_wrap=True)
    console.print(f"The study  [bold]{escape(str(page.resolve()))}[/]", soft_wrap=True)
    if summary.failed:
        raise typer.Exit(1)


def _fit_small_table(folder: Path) -> Path:
    """Write a table as people have them, fit to it as `ascertain fit` does, and return the report's path."""
    from ascertain._core.files import replacing
    from ascertain.testing import planted_table

    machines = planted_table("maintenance", n_train=_ROWS, n_test=1)
    labels = pd.Series(machines.train_labels).map({0: "no", 1: "yes"})
    prices = pd.DataFrame({"name": list(machines.costs), "cost": list(machines.costs.values())})
    table, price_list, model = folder / "machines.csv", folder / "prices.csv", folder / "model"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in ((table, machines.train.assign(fails=labels)), (price_list, prices)):
            with replacing(path) as temporary:
                content.to_csv(temporary, index=False)
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error.strerror}") from error
    known = ",".join(machines.known)
    fit(table, "fails", model, costs=price_list, budget=machines.budget, known=known, effort="low")
    return model / "report.html"


def _say(title: str, what: str) -> None:
    console.print(f"\n[bold]{title}[/] [dim]{what}[/]\n")
