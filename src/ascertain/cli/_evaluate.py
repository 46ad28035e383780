"""The command `evaluate`: how a saved model scores on other rows."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli import _table_options as options
from ascertain.cli._app import app, console, errors, numbers, warn
from ascertain.cli._outputs import check_table

if TYPE_CHECKING:
    from ascertain.practice._evaluate import Evaluation
    from ascertain.practice.comparison._subgroups import Subgroups


@app.command(
    epilog="""
Examples:

`ascertain evaluate model test.csv`

`ascertain evaluate model test.csv --target died --by sex,ward --budgets 0,10,20 --out scores.csv`

`ascertain evaluate model test.csv --json`
"""
)
def evaluate(
    model: options.ModelFolder,
    table: options.TableFile,
    target: Annotated[
        str | None, typer.Option(help="The column of classes.", show_default="as in training")
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            help="What may be spent on a row, as 0,5,10.",
            show_default="five, up to what the model was fitted for",
        ),
    ] = None,
    by: options.By = "",
    rows_of: options.RowsOf = None,
    weights: options.Weights = None,
    effort: Annotated[str, typer.Option(help="standard, or low for fewer draws.")] = "standard",
    out: Annotated[
        Path | None, typer.Option(help="Also write all scores to this file, .csv or .parquet.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the same result every time.", min=0)] = 0,
    sep: options.Separator = None,
    na: options.Markers = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all scores as JSON instead.")] = False,
) -> None:
    """Score a saved model on rows that it was not fitted to, by budget and in subgroups.

    Rows may have holes: then the scores that the policy would reach if everything could be bought are
    estimated. All scores have 95% intervals.
    """
    from ascertain._core.effort import effort as check_effort
    from ascertain.estimator._classifier import AcquisitionClassifier
    from ascertain.practice._evaluate import evaluate_rows
    from ascertain.tables._reading import read_frame
    from ascertain.tables._writing import write_frame

    if out is not None:
        check_table(out, table)
    check_effort(effort)
    wanted = None if budgets is None else numbers("--budgets", budgets)
    rows = read_frame(table, separator=sep, markers=na or (), encoding=encoding, sheet=sheet)
    classifier = AcquisitionClassifier.load(model)
    with errors.status("Scoring"):
        found = evaluate_rows(
            classifier,
            rows,
            table.name,
            target=target,
            budgets=wanted,
            by=options.names_in(by),
            rows_of=rows_of,
            weights=weights,
            effort=effort,
            seed=seed,
        )
    if out is not None:
        write_frame(found.scores, out)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, allow_nan=False))
        return
    for note in found.notes:
        warn(note)
    _print_scores(found)
    for each in found.subgroups:
        print_subgroups(each)
    if out is not None:
        console.print(f"\nWritten  {escape(str(out))}", soft_wrap=True)


def _print_scores(found: "Evaluation") -> None:
    from ascertain.practice.comparison._scoring import ESTIMATORS
    from ascertain.practice.comparison._summary import (
        amount_text,
        cost_text,
        estimates_text,
        marked,
        score_text,
        support_text,
    )

    name, size = found.rarest
    console.print(
        f"\n[bold]{found.rows:,} rows, {size:,} of the rarest class {escape(repr(name))}[/] "
        "[dim](95% intervals)[/]"
    )
    knows_costs = bool((found.scores["metric"] == "decision_cost").any())
    costs = ("cost", "decisions cost") if knows_costs else ("cost",)
    headers = ("budget", "AUROC, estimated", "rows as they are", "accuracy", *costs, "effective rows")
    printed = Table(*headers, box=None, padding=(0, 2, 0, 0))
    best = [
        next(each for each in ESTIMATORS if each == "restricted" or found.score(budget, each).exists)
        for budget in found.budgets
    ]
    for budget, estimator in zip(found.budgets, best, strict=True):
        estimated, decisions = found.score(budget, "dr"), found.score(budget, estimator, "decision_cost")
        printed.add_row(
            f"{budget:g}",
            score_text(estimated),
            score_text(found.score(budget, "restricted")),
            marked(score_text(found.score(budget, estimator, "accuracy")), estimator),
            marked(amount_text(found.score(budget, estimator, "mean_cost").estimate), estimator),
            *([marked(cost_text(decisions), estimator)] if knows_costs else []),
            escape(support_text(estimated)) if estimated.exists else "-",
        )
        if (few := found.score(budget, estimator).warning) and budget == found.budgets[-1]:
            warn(f"The AUROC at a budget of {budget:g} {few}.")
    console.print(printed)
    console.print(
        "[dim]Estimated: if everything could be bought. As they are: the policy chooses among what a row "
        f"has. Accuracy and cost: {estimates_text(best)}. Effective rows: of all, and of the class with "
        "fewest.[/]"
    )


def print_subgroups(found: "Subgroups") -> None:
    """Print what a policy does in each subgroup."""
    from ascertain.practice.comparison._summary import subgroup_cells, subgroups_estimate

    console.print(
        f"\n[bold]By {escape(found.column)}, budget {found.budget:g}[/] "
        f"[dim]({subgroups_estimate(found)}, 95% intervals)[/]"
    )
    headers = ("", "rows", "of the rarest class", "AUROC", "cost", "stops after")
    printed = Table(*headers, box=None, padding=(0, 2, 0, 0))
    for group in found.groups:
        printed.add_row(*map(escape, subgroup_cells(group)))
    console.print(printed)
    for group in found.groups:
        if group.warning:
            warn(f"{found.column} {group.name}: {group.warning}.")
