"""The commands `figures` and `report`: the results of a finished study."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ascertain.cli._app import app, console, warn

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a study.")]


@app.command(
    epilog="""
Examples:

`ascertain figures paper-main` — everything that the results allow

`ascertain figures paper-main main-summary route-structure --out mine`
"""
)
def figures(
    folder: Folder,
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones.", show_default="all that the results allow")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="DIR/figures")] = None,
) -> None:
    """Draw the paper's figures and tables from a study's results: PNG and PDF, or CSV and LaTeX."""
    from ascertain.analysis._artefacts import write_artefacts

    def on_progress(name: str, left_out: str | None) -> None:
        if left_out is not None:
            warn(f"{name}: {left_out}")

    for path in write_artefacts(folder, names or None, out, on_progress=on_progress):
        console.print(escape(str(path)), soft_wrap=True)


@app.command(epilog="Example: `ascertain report paper-main`")
def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="DIR/report.html")] = None,
) -> None:
    """Write one self-contained HTML page about a study: findings, figures, tables, and all cells."""
    from ascertain.analysis.report import write_report

    console.print(escape(str(write_report(folder, out).resolve())), soft_wrap=True)
