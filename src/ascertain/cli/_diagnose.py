"""The command `diagnose`: what the holes of a user's table mean."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ascertain.cli import _table_options as options
from ascertain.cli._app import app, console, progress_bar, warn
from ascertain.cli._outputs import check_page

if TYPE_CHECKING:
    from ascertain.practice.diagnosis._findings import Findings
    from ascertain.practice.diagnosis._recommendations import Recommendation
    from ascertain.reporting._tables import Fact

_MOST_ACTIONS = 15  # in the terminal; the page has them all
_HEADINGS = {
    "do": "[bold green]Do[/]",
    "care": "[bold yellow]Careful[/]",
    "limit": "[bold cyan]Do not conclude[/]",
}


@app.command(
    epilog="""
Examples:

`ascertain diagnose patients.csv --target died`

`ascertain diagnose patients.csv --target died --costs prices.csv --budget 30 --known age,sex --na -9`

`ascertain diagnose patients.csv --target died --costs some-prices.csv --default-cost 1`

`ascertain diagnose patients.xlsx --sheet 2021 --target died` — a workbook of Excel

`ascertain diagnose patients.parquet --target died --groups panels.json --json`

`ascertain diagnose patients.csv --target died --restorers all` — also how well restorers fill its holes
"""
)
def diagnose(
    table: options.TableFile,
    target: options.Target,
    costs: options.Costs = None,
    default_cost: options.DefaultCost = None,
    budget: Annotated[
        float | None, typer.Option(help="What may be spent on one row.", show_default="any amount")
    ] = None,
    known: options.Known = "",
    groups: options.Groups = None,
    setup: options.Setups = None,
    rows_of: options.RowsOf = None,
    weights: options.Weights = None,
    sep: options.Separator = None,
    na: options.Markers = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="TABLE-diagnosis.html")
    ] = None,
    restorers: Annotated[
        str,
        typer.Option(
            help="Also fit restorers and score them: all, or names such as hotdeck,mean. Takes minutes.",
            show_default="none",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead.")] = False,
) -> None:
    """Say what the holes of a table mean for learning which measurement to take next.

    Prints a summary with advice, and writes a page of HTML with all findings.
    """
    from ascertain.practice.diagnosis._findings import diagnose_table
    from ascertain.practice.diagnosis._recommendations import recommend
    from ascertain.practice.diagnosis._report import write_diagnosis

    path = out or table.with_name(f"{table.name.split('.')[0]}-diagnosis.html")
    check_page(path)
    read = options.read_table(table, target, sep, na, encoding, sheet, rows_of, weights)
    prices = options.read_price_list(costs, groups, known, default_cost, setup, encoding)
    names = _restorer_names(restorers)
    if names:
        with progress_bar() as bar:
            task = bar.add_task("the table and its holes", total=None)

            def show(stage: str, done: int, total: int) -> None:
                bar.update(task, description=escape(stage), completed=done, total=total)

            findings, drawing = diagnose_table(read, **prices, budget=budget, restorers=names, on_stage=show)
    else:
        findings, drawing = diagnose_table(read, **prices, budget=budget)
    write_diagnosis(findings, drawing, path)
    advice = recommend(findings)
    if as_json:
        content = findings.to_json() | {"advice": [dataclasses.asdict(each) for each in advice]}
        print(json.dumps(content, indent=2, allow_nan=False))
        return
    _print_findings(findings)
    _print_restorers(findings)
    _print_advice(advice)
    if findings.restorers is None and findings.holes.rate > 0:
        console.print("Which restorer suits this table: add --restorers all (minutes)", style="dim")
    console.print(escape(str(path)), soft_wrap=True)


def _restorer_names(text: str) -> list[str]:
    """Read the names of restorers, and check them before the long work begins."""
    from ascertain import restoration
    from ascertain.practice.diagnosis._restorers import DEFAULTS

    if text.strip() == "all":
        return list(DEFAULTS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        restoration.get(name)
    return names


def _print_findings(findings: "Findings") -> None:
    from ascertain.practice.diagnosis import _summary as summary
    from ascertain.reporting._tables import Fact

    for warning in findings.table.warnings:
        warn(warning)
    _print_section(findings.table.file, summary.table_facts(findings.table))
    _print_section("What is missing", summary.holes_facts(findings))
    _print_actions(findings)
    for sentence in summary.signs_sentences(findings.holes):
        console.print(Padding(escape(f"• {sentence}"), (0, 0, 0, 2)))
    _print_section("Rows that support a policy", summary.support_facts(findings.support))
    console.print(Padding(escape(summary.support_sentence(findings)), (0, 0, 0, 2)))
    routes = summary.routes_facts(findings.routes) or [Fact("Not computed", str(findings.routes))]
    _print_section("Fixed sets of actions, and adapting", routes)


def _print_restorers(findings: "Findings") -> None:
    from ascertain.practice.diagnosis import _summary as summary

    found = findings.restorers
    if found is None:
        return
    console.print("\n[bold]Restorers[/]")
    if isinstance(found, str):
        console.print(f"  Not computed: {escape(found)}")
        return
    name, *numbers = (heading.lower() for heading in summary.RESTORER_HEADINGS)
    printed = Table(f"  {name}", box=None, padding=(0, 2, 0, 0))
    for heading in numbers:
        printed.add_column(heading, justify="right")
    for restorer in found.restorers:
        name, *texts = summary.restorer_cells(found, restorer)
        printed.add_row(f"  {escape(name)}", *texts)
    console.print(printed)
    for sentence in summary.restorers_sentences(found):
        console.print(Padding(escape(f"• {sentence}"), (0, 0, 0, 2)))


def _print_section(title: str, facts: "list[Fact]") -> None:
    console.print(f"\n[bold]{escape(title)}[/]")
    grid = Table.grid(padding=(0, 2))
    for fact in facts:
        grid.add_row(f"  [dim]{escape(fact.label)}[/]", escape(fact.text))
    console.print(grid)


def _print_actions(findings: "Findings") -> None:
    """Print the actions that are missing most often."""
    columns = {column.action: column for column in findings.table.columns}
    missing = sorted(findings.holes.missing.items(), key=lambda item: -item[1])
    setups = ("set-up, once",) if findings.table.has_setups else ()
    printed = Table("  action", "missing", "cost", *setups, box=None, padding=(0, 2, 0, 0))
    for name, share in missing[:_MOST_ACTIONS]:
        column = columns[name]
        texts = [f"{column.cost:g}", *(column.setups_text for _ in setups)]
        printed.add_row(f"  {escape(name)}", f"{share:.1%}", *map(escape, texts))
    console.print(printed)
    if len(missing) > _MOST_ACTIONS:
        console.print(f"  … and {len(missing) - _MOST_ACTIONS} more that are missing less often", style="dim")


def _print_advice(advice: "list[Recommendation]") -> None:
    console.print("\n[bold]Advice[/]")
    for each in advice:
        head = f"{_HEADINGS[each.kind]}: [bold]{escape(each.title)}[/]"
        console.print(Padding(f"{head}. {escape(each.text)}", (0, 0, 1, 2)))
