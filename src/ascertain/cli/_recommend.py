"""The command `recommend`: what to measure next for every row of a table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli import _table_options as options
from ascertain.cli._app import app, console, late_progress, warn
from ascertain.cli._outputs import check_table
from ascertain.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ascertain.practice._recommend import Recommended

_MOST_LINES = 12  # of a list in the terminal


@app.command(
    epilog="""
Examples:

`ascertain recommend model new.csv --out next.csv`

`ascertain recommend model new.csv --id patient --budget 20 --spent paid --out next.parquet`

`ascertain recommend model new.csv --batch 3 --out orders.csv`

`ascertain recommend model new.csv --cost scan=30 --forbid biopsy --out next.csv`

`ascertain recommend model new.csv --json`
"""
)
def recommend(
    model: options.ModelFolder,
    table: options.TableFile,
    out: Annotated[
        Path | None, typer.Option(help="The file to write, .csv or .parquet.", show_default=False)
    ] = None,
    ids: Annotated[
        str,
        typer.Option(
            "--id",
            help="Columns to keep, such as a patient's number, as a,b.",
            show_default="row, counted as in a spreadsheet: the first below the names is 2",
        ),
    ] = "",
    budget: Annotated[
        float | None,
        typer.Option(help="What may be spent on a row.", min=0, show_default="what the model was fitted for"),
    ] = None,
    spent: Annotated[
        str | None,
        typer.Option(
            help="What was spent already: a number for all rows, or a column.",
            show_default="the price of all that a row has",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Order up to so many at once, when results come back together.", min=1, max=100),
    ] = None,
    cost: options.CaseCosts = None,
    forbid: options.Forbidden = None,
    sep: options.Separator = None,
    na: options.Markers = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON; without --out, with every row.")
    ] = False,
) -> None:
    """Say for every row of a table what to measure next, and what to predict meanwhile.

    Columns are found by name. Those that the model does not know are ignored, and those that the table lacks
    count as not measured; a line says which.
    """
    from ascertain.estimator._classifier import AcquisitionClassifier
    from ascertain.practice._recommend import recommend_rows, rounded
    from ascertain.tables._reading import read_frame
    from ascertain.tables._writing import write_frame

    if out is None and not as_json:
        raise InputError("name a file for the recommendations with --out, or add --json to print them")
    if out is not None:
        check_table(out, table)
    rows = read_frame(table, separator=sep, markers=na or (), encoding=encoding, sheet=sheet)
    classifier = AcquisitionClassifier.load(model)
    names = options.names_in(ids)
    with late_progress("Rows", len(rows)) as show:
        found = recommend_rows(
            classifier,
            rows,
            ids=names,
            budget=budget,
            spent=spent,
            batch=batch,
            costs=options.read_case_costs(cost),
            forbid=forbid or (),
            on_rows=show,
        )
    if out is not None:
        write_frame(rounded(found.table), out)
    if as_json:
        more = {} if out is not None else {"recommendations": _records(found.table)}
        print(json.dumps(found.summary() | more, indent=2, allow_nan=False))
        return
    for note in found.notes:
        warn(note)
    _print_summary(found, out)


def _records(table: "pd.DataFrame") -> list[dict[str, object]]:
    """The rows as plain data, with null for what is empty."""
    plain = table.astype(object).where(table.notna(), None)
    records: list[dict[str, object]] = json.loads(plain.to_json(orient="records", double_precision=15))
    return records


def _print_summary(found: "Recommended", out: Path | None) -> None:
    from ascertain.practice._recommend import stop_text
    from ascertain.reporting._text import counted

    content, rows = found.summary(), len(found.table)
    console.print(f"\n[bold]{counted(rows, 'row')}, budget {found.budget:g}[/]")
    printed = Table("  measure next", box=None, padding=(0, 2, 0, 0))
    printed.add_column("rows", justify="right")
    printed.add_column("", justify="right")
    nexts = list(content["next"].items())
    stops = [(f"nothing: {stop_text(why)}", count) for why, count in content["stops"].items()]
    for name, count in [*nexts[:_MOST_LINES], *stops]:
        printed.add_row(f"  {escape(name)}", f"{count:,}", f"{count / rows:.0%}")
    console.print(printed)
    if len(nexts) > _MOST_LINES:
        console.print(f"  … and {len(nexts) - _MOST_LINES} more that are asked for less often", style="dim")
    what = "the next step" if len(found.chosen) == 1 else "what is ordered"
    console.print(f"Mean cost of {what}: {content['mean_cost']:.3g}.")
    if content["outside"]:
        console.print(
            f"{counted(content['outside'], 'row')} with a value that training did not have (column outside): "
            "do not rely on what is said of them."
        )
    console.print(f"\nWritten  {escape(str(out))}", soft_wrap=True)
