"""The command `demo`: a short study of learned policies, a short exact study, and a report."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ascertain.cli._app import app, console
from ascertain.cli._exact import JOBS, run_exact
from ascertain.cli._study import run_with_progress
from ascertain.exact._study import Sweep


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("ascertain-demo"),
) -> None:
    """Run a short study on simulated data and end with the path of its report (minutes)."""
    from ascertain.analysis.report import write_report
    from ascertain.study import read_study
    from ascertain.study._runners import LocalRunner

    run_exact(Sweep(sizes=[n for n in Sweep.sizes if n <= 10**5], replicates=20), out / "exact", JOBS)
    summary = run_with_progress(read_study("quick"), out, LocalRunner())
    page = write_report(out)
    console.print(f"\nOpen [bold]{escape(str(page.resolve()))}[/]", soft_wrap=True)
    if summary.failed:
        raise typer.Exit(1)
