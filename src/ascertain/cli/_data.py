"""Datasets and their fixed routes."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli._app import DataDir, app, console, progress_bar
from ascertain.protocol import protocol as named_protocol

data_app = typer.Typer(no_args_is_help=True, help="List, show and export the datasets.")
app.add_typer(data_app, name="data")


@data_app.command("list")
def data_list() -> None:
    """List the datasets by name."""
    from ascertain import datasets

    printed = Table("name", "what it is")
    for name in datasets.names():
        printed.add_row(escape(name), escape(datasets.get(name).summary))
    console.print(printed)


@data_app.command("show", epilog="Example: `ascertain data show heart_disease --data-dir ~/data --json`")
def data_show(
    name: Annotated[str, typer.Argument(help="A name that `ascertain data list` shows.")],
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Show a dataset: its shape, classes, actions, costs, budgets, and what is missing from it."""
    from ascertain import datasets

    facts = datasets.describe(datasets.load(name, data_dir))
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    actions = facts.pop("actions")
    for fact, value in facts.items():
        console.print(f"[bold]{fact}[/]: {escape(_shown(value))}", highlight=False)
    printed = Table("action", "cost", "reveals", "missing")
    for action in actions:
        row = (
            action["name"],
            f"{action['cost']:g}",
            ", ".join(action["reveals"]),
            f"{action['missing']:.1%}",
        )
        printed.add_row(*map(escape, row))
    console.print(printed)


@data_app.command("export", epilog="Example: `ascertain data export heart_sites --out heart`")
def data_export(
    name: Annotated[str, typer.Argument(help="A name that `ascertain data list` shows.")],
    out: Annotated[Path, typer.Option(help="The folder to write into.")],
    data_dir: DataDir = None,
) -> None:
    """Write a dataset as CSV files: its table, prices and panels, as `diagnose` and `fit` read them."""
    from ascertain import datasets
    from ascertain.datasets._export import TARGET, export, write

    dataset = datasets.load(name, data_dir)
    files = write(export(dataset), out, name)
    for file in files:
        console.print(escape(str(file)), highlight=False, soft_wrap=True)
    table, prices, *panels = files
    options = f"--target {TARGET} --costs {prices}" + "".join(f" --groups {file}" for file in panels)
    command = f"ascertain diagnose {table} {options} --budget {dataset.budgets[-1]:g}"
    console.print(f"Next: [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


@app.command(
    epilog="""
Examples:

`ascertain routes cube cube_nuc --protocol afabench` — two rows of the paper's table 1

`ascertain routes heart_disease --budget 4 --splits 2 --json`
"""
)
def routes(
    names: Annotated[list[str], typer.Argument(help="Names that `ascertain data list` shows.")],
    splits: Annotated[int, typer.Option(help="How many of the five splits.", min=1, max=5)] = 5,
    budget: Annotated[float | None, typer.Option(help="By default each dataset's largest.")] = None,
    protocol: Annotated[str, typer.Option(help="paper or afabench.")] = "paper",
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say how much it matters which fixed set of features is bought (table 1 of the paper)."""
    from ascertain import datasets
    from ascertain.evaluation._routes import route_table_row
    from ascertain.recipe._presets import predictor_settings

    chosen = named_protocol(protocol)
    loaded = [datasets.load(name, data_dir) for name in names]
    rows = []
    with progress_bar() as bar:
        progress = bar.add_task("", total=len(loaded) * (splits + 1))
        for dataset in loaded:
            bar.update(progress, description=f"{dataset.name}: predictors and routes")
            settings = predictor_settings(dataset)
            rows.append(
                route_table_row(dataset, splits, chosen, settings, budget, lambda: bar.advance(progress))
            )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    printed = Table("dataset", "budget", "V_static", "sensitivity", "overlap", "routes")
    for row in rows:
        scores = (_with_error(row[k], row[f"{k}_se"]) for k in ("v_static", "sensitivity", "overlap"))
        printed.add_row(escape(row["dataset"]), f"{row['budget']:g}", *scores, str(row["routes"]))
    console.print(printed)


def _with_error(mean: float | None, error: float | None) -> str:
    return "" if mean is None else f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
