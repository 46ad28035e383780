"""The command `consult`: one case at the terminal, with a model that `ascertain fit` has saved."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ascertain._core.text import visible
from ascertain.cli import _table_options as options
from ascertain.cli._app import app, console

if TYPE_CHECKING:
    from ascertain.practice._consult import Session


@app.command(
    epilog="""
Examples:

`ascertain consult model`

`ascertain consult model --budget 20 --case patient7.json`

`ascertain consult model --cost scan=30 --forbid biopsy`
"""
)
def consult(
    model: Annotated[Path, typer.Argument(help="The folder that `ascertain fit` has written, or its file.")],
    budget: Annotated[
        float | None,
        typer.Option(help="What may be spent.", min=0, show_default="what the model was fitted for"),
    ] = None,
    case: Annotated[Path | None, typer.Option(help="Continue with a case that was saved.")] = None,
    cost: options.CaseCosts = None,
    forbid: options.Forbidden = None,
) -> None:
    """Say for one case, step by step, what to measure next and what to predict meanwhile."""
    from ascertain.estimator._case_prices import check_case_costs
    from ascertain.estimator._classifier import AcquisitionClassifier
    from ascertain.estimator._consultation import Consultation
    from ascertain.estimator._habits import habit_sentences
    from ascertain.practice._consult import Session, prediction_text, read_case

    with console.status("Reading the model"):
        advisor = AcquisitionClassifier.load(model).advisor_
    for sentence in habit_sentences(advisor.habits):
        console.print(f"[yellow]Note[/] {escape(sentence)}", highlight=False)
    start = Consultation(advisor, budget=budget) if case is None else read_case(advisor, case, budget)
    costs = check_case_costs(advisor.encoding, {**start.costs, **options.read_case_costs(cost)})
    start = replace(start, costs=costs, forbid=(*start.forbid, *(forbid or ())))
    session = Session(start, _ask, console, saved=case)
    try:
        end = session.run()
    except (EOFError, KeyboardInterrupt) as error:
        console.print()
        _print_how_to_continue(session, model)
        raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else 0) from None
    answer = end.answer()
    console.print(
        f"\n[bold]Prediction[/] {prediction_text(answer)}\nSpent {answer.spent:g} of {answer.budget:g}.",
    )
    _print_how_to_continue(session, model)


def _ask(prompt: str) -> str:
    """Ask at the terminal; lines from a pipe are shown, so that the output can be read."""
    if sys.stdin.isatty():
        import readline  # noqa: F401  # line editing and history, as a side effect
    line = input(visible(prompt))
    if not sys.stdin.isatty():
        print(visible(line))
    return line


def _print_how_to_continue(session: "Session", model: Path) -> None:
    again = f"ascertain consult {model} --case"
    if session.saved is not None:
        text = f"Continue with: {again} {session.saved}"
        if session.unsaved:
            text += " (without the steps since the last save)"
    elif session.unsaved:
        text = f"The case was not saved. Next time, `save FILE` keeps it; then continue with: {again} FILE"
    else:
        return
    console.print(escape(text), style="dim", soft_wrap=True)
