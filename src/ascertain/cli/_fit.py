"""The command `fit`: policies for a user's own table, compared on held-out rows."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table
from rich.tree import Tree

from ascertain._core.files import leftovers
from ascertain.cli import _table_options as options
from ascertain.cli._app import app, console, errors, progress_bar, warn
from ascertain.cli._evaluate import print_subgroups
from ascertain.cli._outputs import check_writable
from ascertain.errors import InputError

if TYPE_CHECKING:
    from ascertain.practice.comparison._leaderboard import Candidate, Leaderboard
    from ascertain.practice.comparison._policy_tree import Branch
    from ascertain.practice.comparison._report import FitReport

_BY_AUROC = "lower end of the AUROC's interval"
_FORKS = 3  # of the policy's first steps, in the terminal
_WRITTEN = (".safetensors", ".html", ".md")  # the kinds of files that are written


@app.command(
    epilog="""
Examples:

`ascertain fit patients.csv --target died --costs prices.csv --budget 30 --out model`

`ascertain fit patients.csv --target died --costs some.csv --default-cost 1 --budget 30 --out model`

`ascertain fit patients.csv --target died --known age,sex --groups panels.json --effort low --out model`

`ascertain fit patients.csv --target died --costs prices.csv --setup draws.csv --out model`

`ascertain fit patients.csv --target died --method jafa --state sm --treatment restricted --out model`

`ascertain fit patients.csv --target died --treatment auto --out model`

`ascertain fit patients.csv --target died --costs prices.csv --decision-costs harm.csv --out model`

`ascertain fit visits.csv --target died --rows-of patient --out model` — several rows of one patient

`ascertain fit survey.csv --target died --weights weight --out model` — rows that count more or less
"""
)
def fit(
    table: options.TableFile,
    target: options.Target,
    out: Annotated[Path, typer.Option(help="The folder for the model and its report.")],
    costs: options.Costs = None,
    default_cost: options.DefaultCost = None,
    budget: Annotated[
        float | None, typer.Option(help="What may be spent on one row.", show_default="the sum of all costs")
    ] = None,
    known: options.Known = "",
    groups: options.Groups = None,
    setup: options.Setups = None,
    rows_of: options.RowsOf = None,
    weights: options.Weights = None,
    decision_costs: Annotated[
        Path | None,
        typer.Option(
            help="What wrong decisions cost: a CSV file with a line for each true class and a column for "
            "each decision.",
            show_default="nothing is known; policies are compared by AUROC",
        ),
    ] = None,
    stop_early: Annotated[
        bool,
        typer.Option(
            "--stop-early",
            help="With --decision-costs in the unit of the prices: stop once no measurement is expected to "
            "save what it costs (planner).",
        ),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(help="Fit this method only.", show_default="planner, gdfs, dime, fixed panel"),
    ] = None,
    state: Annotated[str, typer.Option(help="With --method: s, or sm to see what a row lacks.")] = "s",
    treatment: Annotated[
        str | None,
        typer.Option(
            help="auto: choose by validation rows. With --method also: restored, restricted, or direct "
            "(planner).",
            show_default="direct for the planner, else restored",
        ),
    ] = None,
    restorer: Annotated[
        str | None,
        typer.Option(
            help="What fills holes: mixture, pvae_noise, hotdeck or another that is registered; with "
            "ensemble:6, several do, and every row is drawn six times.",
            show_default="mixture for training rows and pvae_noise for new ones; with low effort hotdeck",
        ),
    ] = None,
    effort: Annotated[
        str,
        typer.Option(help="standard, or low for a quick look: fewer policies, hot deck, shorter training."),
    ] = "standard",
    test_fraction: Annotated[float, typer.Option(help="The share of rows to test on.")] = 0.25,
    by: options.By = "",
    seed: Annotated[int, typer.Option(help="For the same result every time.", min=0)] = 0,
    sep: options.Separator = None,
    na: options.Markers = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that contains other things.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all scores as JSON instead.")] = False,
) -> None:
    """Learn from a table with holes what to measure next, compare a few policies, and save the best.

    Holds out test rows, fits each policy to the others, chooses by validation rows, and reports how well all
    of them do on the test rows. Writes the model, `report.html` and the model card `card.md`; `ascertain
    consult` then uses the model.
    """
    from ascertain._core.effort import effort as check_effort
    from ascertain.estimator._habits import habit_sentences
    from ascertain.practice.comparison._data import fit_data
    from ascertain.practice.comparison._held_out import hold_out
    from ascertain.practice.comparison._leaderboard import (
        RESTORERS,
        check_candidates,
        compare,
        stages,
        with_floor,
    )
    from ascertain.practice.comparison._report import report_fit
    from ascertain.practice.comparison._subgroups import find_columns, subgroup_names
    from ascertain.reporting._text import counted, file_hash
    from ascertain.tables._decision_costs import read_decision_costs

    check_folder(out, force=force)
    abandoned = leftovers(out, *_WRITTEN)
    check_effort(effort)
    candidates = with_floor(_candidates(method, state, treatment, restorer, effort))
    restorer = restorer or RESTORERS[effort]
    if stop_early:
        _check_stopping(candidates, method, knows_costs=decision_costs is not None)
    for warning in check_candidates(candidates, restorer, effort):
        warn(warning)
    data = hold_out(
        options.read_table(table, target, sep, na, encoding, sheet, rows_of, weights),
        **options.read_price_list(costs, groups, known, default_cost, setup, encoding),
        decision_costs=None if decision_costs is None else read_decision_costs(decision_costs),
        budget=budget,
        test_fraction=test_fraction,
        seed=seed,
    )
    for name, reason in data.aside.items():
        warn(f"Column {name!r} is left out: {reason}.")
    for column in find_columns(data.table.columns, options.names_in(by), target):
        subgroup_names(column)  # so that a mistake is found before the long work begins
    for sentence in habit_sentences(data.habits.signs):
        warn(sentence)
    if data.table.weightless:
        verb, whose = ("is", "its") if data.table.weightless == 1 else ("are", "their")
        rows = counted(data.table.weightless, "row")
        warn(f"{rows} {verb} left out: {whose} weight in {weights!r} is 0.")
    if data.table.instances is not None:
        n_instances = int(data.table.instances.max()) + 1
        together = f"{len(data.table.y):,} rows of {n_instances:,} in {data.table.rows_of!r}, kept together"
        errors.print(escape(together), style="dim")
    with _stages_shown(stages(candidates, restorer, effort)) as on_stage:
        board = compare(
            data,
            candidates,
            restorer=restorer,
            effort=effort,
            seed=seed,
            stop_early=stop_early,
            on_stage=on_stage,
        )
    with errors.status("Writing the report"):
        report = report_fit(data, board, file_hash(table), options.names_in(by))
        _write(report, out)
        for path in abandoned:  # whoever began them before the fit is not writing them still
            path.unlink(missing_ok=True)
    if as_json:
        print(json.dumps(fit_data(report), indent=2, allow_nan=False))
        return
    _print_report(report, out)


def check_folder(out: Path, *, force: bool) -> None:
    """Raise where a folder for a model contains something else; what a killed run left is nothing."""
    from ascertain.models._files import is_model, model_file, refuse_foreign

    if out.suffix == ".safetensors" or (out.exists() and not out.is_dir()):
        raise InputError(f"{out} is a file; --out names a folder")
    check_writable(out)
    file = model_file(out)
    if force or not out.exists() or not {*out.iterdir()}.difference(leftovers(out, *_WRITTEN)):
        refuse_foreign(file)
    elif not is_model(file):
        raise InputError(
            f"{out} contains files but no model of ascertain; name another folder, or add --force to write "
            "into this one"
        )


def _candidates(
    method: str | None, state: str, treatment: str | None, restorer: str | None, effort: str
) -> "Sequence[Candidate]":
    from ascertain.estimator._training import default_treatment
    from ascertain.evaluation._auto import AUTO
    from ascertain.practice.comparison._leaderboard import DEFAULTS, Candidate, default_candidates

    if method is not None:
        return (Candidate(method, state, treatment or default_treatment(method)),)
    if state != "s" or treatment not in (None, AUTO):
        raise InputError(
            "--state and --treatment (other than auto) are about one method; name it with --method"
        )
    if treatment is None:
        return default_candidates(effort, restorer)
    compared = dict.fromkeys(each.method for each in DEFAULTS[effort])
    return tuple(Candidate(name, "s", AUTO) for name in compared)


def _check_stopping(candidates: "Sequence[Candidate]", method: str | None, *, knows_costs: bool) -> None:
    """Raise where nothing says what a measurement must save, or what was named cannot stop early."""
    from ascertain import methods

    if not knows_costs:
        raise InputError(
            "--stop-early weighs prices against what wrong decisions cost; say what these cost, in the same "
            "unit, with --decision-costs"
        )
    for each in candidates if method is not None else ():
        part = methods.get(each.method)
        part.stopping_early(part.settings())


@contextmanager
def _stages_shown(stages: list[str]) -> Iterator[Callable[[str], None]]:
    """Show progress; call the function with a stage's name when it begins, and with its time when it ends."""
    with progress_bar() as bar:
        task = bar.add_task("", total=len(stages))

        def show(text: str) -> None:
            if text in stages:
                bar.update(task, description=text)
            else:
                bar.console.print(f"[dim]{escape(text)}[/]")
                bar.advance(task)

        try:
            yield show
        except KeyboardInterrupt:
            bar.stop()
            errors.print("Interrupted. Nothing was written.")
            raise typer.Exit(130) from None


def _write(report: "FitReport", out: Path) -> None:
    """Write the model, and beside it the page and the card."""
    from ascertain.practice.comparison._card import FILE_NAME, render_card
    from ascertain.practice.comparison._leaderboard import as_classifier
    from ascertain.practice.comparison._report import render
    from ascertain.reporting._html import write_page

    page, card = render(report), render_card(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the warning about training rows was printed before
        as_classifier(report.data, report.board).save(out)
    write_page(page, out / "report.html")
    write_page(card, out / FILE_NAME)


def _print_report(report: "FitReport", out: Path) -> None:
    from ascertain.practice.comparison._report import result_sentences

    _print_leaderboard(report.board)
    _print_treatments(report.board)
    for sentence in result_sentences(report):
        console.print(Padding(escape(sentence), (0, 0, 1, 0)))
    for each in report.subgroups:
        print_subgroups(each)
    if report.subgroups:
        console.print()
    tree = Tree(f"[bold]What it does first[/] [dim]({report.tree.fidelity:.0%} of rows do exactly this)[/]")
    _add_branches(tree, report.tree.branches, _FORKS)
    console.print(tree)
    console.print()
    console.print(f"Report  {escape(str(out / 'report.html'))}", soft_wrap=True)
    console.print(f"Card    {escape(str(out / 'card.md'))}", soft_wrap=True)
    console.print(f"Use it  ascertain consult {escape(str(out))}", soft_wrap=True)


def _print_leaderboard(board: "Leaderboard") -> None:
    from ascertain.practice.comparison._summary import (
        bound_text,
        costs_estimate,
        decision_cost_text,
        mean_cost_text,
        score_text,
        support_text,
    )

    budget, by_costs = board.budgets[-1], board.knows_decision_costs
    longest = max(len(word) for each in board.candidates for word in each.name.split())
    policy = Column(min_width=longest, overflow="fold")  # names are wrapped between words, and never cut off
    sorted_by = "sorted by: at most" if by_costs else "sorted by: at least"
    decisions = ("decisions cost",) if by_costs else ()
    headers = (
        policy,
        sorted_by,
        "AUROC, estimated",
        "rows as they are",
        "cost",
        *decisions,
        "effective rows",
    )
    printed = Table(*headers, box=None, padding=(0, 2, 0, 0))
    for fitted in board.candidates:
        estimated = fitted.score(budget, "dr")
        printed.add_row(
            f"{'[bold]' if fitted is board.best else ''}{escape(fitted.name)}",
            bound_text(fitted, board.ranked_by or "dr"),
            score_text(estimated),
            score_text(fitted.score(budget, "restricted")),
            mean_cost_text(board, fitted),
            *([decision_cost_text(board, fitted)] if by_costs else []),
            f"{'[yellow]' if estimated.warning else ''}{escape(support_text(estimated))}"
            if estimated.exists
            else "-",
        )
    console.print(f"\n[bold]Test rows, budget {budget:g}[/] [dim](95% intervals)[/]")
    console.print(printed)
    console.print(
        f"[dim]Sorted by the {_by_costs(board) if by_costs else _BY_AUROC} "
        "on validation rows. Estimated: if everything "
        "could be bought. Effective rows: of all, and of the class with fewest. Costs: "
        f"{costs_estimate(board)}.[/]\n"
    )


def _by_costs(board: "Leaderboard") -> str:
    spent = ", with what is spent," if board.stop_early else ""
    return f"upper end of the interval of what decisions cost{spent}"


def _print_treatments(board: "Leaderboard") -> None:
    """Print what `auto` considered for the best policy; the page has it for all."""
    if board.best.advisor.auto is None:
        return
    shown = ("", "score of draws", "value", "to the best", "")
    printed = Table(*shown, box=None, padding=(0, 2, 0, 0))
    for each in board.best.advisor.auto.considered:
        score = "" if each.restorer_score is None else f"{each.restorer_score:.3f}"
        value = "" if each.value is None else f"{each.value:.3f}"
        behind = "" if each.difference is None else f"{each.difference:.4f} ± {each.standard_error:.4f}"
        bold = "[bold]" if each.chosen else ""
        printed.add_row(f"{bold}{escape(each.candidate)}", score, value, behind, each.rule)
    console.print(f"[bold]Treatment of the holes: {escape(board.best.name)}[/] [dim](validation rows)[/]")
    console.print(printed)
    console.print()


def _add_branches(tree: Tree, branches: "Sequence[Branch]", depth: int) -> None:
    """Print the first forks only; the page has them all."""
    for branch in branches if depth else ():
        first = "first: " if depth == _FORKS else "then: "
        condition = f"if {branch.condition}: " if branch.condition else first
        label = f"{escape(condition)}[bold]{escape(branch.actions_text)}[/] [dim]{branch.rows_text}[/]"
        _add_branches(tree.add(label), branch.then, depth - 1)
