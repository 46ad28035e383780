"""The command `ascertain`: parses, calls, prints.

What takes long to import (Matplotlib, scikit-learn) is imported by the commands that need it.
"""

import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

import ascertain
from ascertain.errors import AscertainError
from ascertain.exact.study import Sweep, run_study
from ascertain.protocol import protocol as named_protocol

if TYPE_CHECKING:
    from ascertain.pipeline import Trained

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
console = Console()
errors = Console(stderr=True)

_JOBS = min(os.cpu_count() or 1, 8)


def main() -> None:
    """Run the command line; what a user can put right is a short message and exit code 2."""
    try:
        app()
    except (AscertainError, OSError) as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _print_version(wanted: bool) -> bool:
    if wanted:
        console.print(f"ascertain {ascertain.__version__}", highlight=False)
        raise typer.Exit
    return wanted


@app.callback()
def _ascertain(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Active feature acquisition: which costly feature to measure next, learned from incomplete data."""
    del version
    try:
        ascertain.enable_cache()
    except AscertainError as error:
        errors.print(f"[yellow]Warning:[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def _numbers(option: str, text: str) -> list[float]:
    """Read numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        problem = f"{text!r} is not a list of numbers such as 10,100"
        raise typer.BadParameter(problem, param_hint=option) from error


def _whole_numbers(option: str, text: str) -> list[int]:
    numbers = _numbers(option, text)
    for number in numbers:
        if not number.is_integer():
            raise typer.BadParameter(f"{number:g} in {text!r} is not a whole number", param_hint=option)
    return [int(number) for number in numbers]


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


@app.command(
    epilog="""
Examples:

`ascertain exact` — the paper's whole study (minutes)

`ascertain exact --replicates 20 --sizes 10,100,1000,1e4` — a quick look

`ascertain exact --dims 8,12 --budgets 2 --rates 0.4 --out mine` — another corner of the problem
"""
)
def exact(
    dims: Annotated[str, typer.Option(help="Numbers of features, at the smallest budget.")] = _listed(
        Sweep.dims
    ),
    budgets: Annotated[str, typer.Option(help="Budgets, at the largest number of features.")] = _listed(
        Sweep.budgets
    ),
    rates: Annotated[
        str, typer.Option(help="Missingness rates: the main figure's first, then the collapse figure's.")
    ] = _listed(Sweep.rates),
    sizes: Annotated[
        str, typer.Option(help="Training sizes.", show_default="21 sizes from 10 to 1e6")
    ] = _listed(Sweep.sizes),
    replicates: Annotated[int, typer.Option(help="Training sets for each size.")] = Sweep.replicates,
    seed: Annotated[int, typer.Option(help="Seed of the training sets.")] = Sweep.seed,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes; the result does not depend on it.", show_default="one per core, at most 8"
        ),
    ] = _JOBS,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; what it holds is not computed again.")
    ] = Path("exact-study"),
) -> None:
    """Solve the paper's shortcut problem exactly under aliasing, filtering and restoration (section 5.1).

    Writes `regret.parquet` and the figures `exact-study`, `exact-collapse`, `planning-effect` and
    `availability` (PNG and PDF). Interrupt it at will: the same command goes on where it stopped.
    """
    sweep = Sweep(
        dims=_whole_numbers("--dims", dims),
        budgets=_whole_numbers("--budgets", budgets),
        rates=_numbers("--rates", rates),
        sizes=_whole_numbers("--sizes", sizes),
        replicates=replicates,
        seed=seed,
    )
    _run_exact(sweep, out, jobs)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("ascertain-demo"),
) -> None:
    """Run a short exact study on simulated data and say where its figure is (about half a minute)."""
    sweep = Sweep(sizes=[n for n in Sweep.sizes if n <= 10**5], replicates=20)
    _run_exact(sweep, out, jobs=_JOBS)
    console.print(f"\nOpen [bold]{escape(str((out / 'exact-study.png').resolve()))}[/]", soft_wrap=True)


data_app = typer.Typer(no_args_is_help=True, help="List and show the datasets.")
app.add_typer(data_app, name="data")
_DATA_DIR = typer.Option(help="Folder to look for data files in; by default ASCERTAIN_DATA.")


@data_app.command("list")
def data_list() -> None:
    """List the datasets by name."""
    from ascertain import datasets

    printed = Table("name", "what it is")
    for name in datasets.NAMES:
        printed.add_row(name, datasets.summary(name))
    console.print(printed)


@data_app.command("show", epilog="Example: `ascertain data show heart_disease --data-dir ~/data --json`")
def data_show(
    name: Annotated[str, typer.Argument(help="A name that `ascertain data list` shows.")],
    data_dir: Annotated[Path | None, _DATA_DIR] = None,
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
    data_dir: Annotated[Path | None, _DATA_DIR] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say how much it matters which fixed set of features is bought (table 1 of the paper)."""
    from ascertain import datasets
    from ascertain.routes import route_table_row

    chosen = named_protocol(protocol)
    loaded = [datasets.load(name, data_dir) for name in names]
    rows = []
    with _progress_bar() as bar:
        progress = bar.add_task("", total=len(loaded) * (splits + 1))
        for dataset in loaded:
            bar.update(progress, description=f"{dataset.name}: predictors and routes")
            rows.append(route_table_row(dataset, splits, chosen, budget, lambda: bar.advance(progress)))
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    printed = Table("dataset", "budget", "V_static", "sensitivity", "overlap", "routes")
    for row in rows:
        scores = (_with_error(row[k], row[f"{k}_se"]) for k in ("v_static", "sensitivity", "overlap"))
        printed.add_row(escape(row["dataset"]), f"{row['budget']:g}", *scores, str(row["routes"]))
    console.print(printed)


methods_app = typer.Typer(no_args_is_help=True, help="List the acquisition methods.")
app.add_typer(methods_app, name="methods")


@methods_app.command("list")
def methods_list() -> None:
    """List the methods by name: the paper's, baselines, and those of installed packages."""
    from ascertain import methods

    printed = Table("name", "state variants", "what it does")
    for name in methods.names():
        method = methods.get(name)
        variants = ", ".join(f"({','.join(state)})" for state in method.states)
        printed.add_row(escape(name), variants, escape(method.summary))
    console.print(printed)


@app.command(
    epilog="""
Examples:

`ascertain train gdfs cube` — complete data, the largest budget

`ascertain train jafa cube --state sm --treatment restricted --rate 0.5` — with half of the cells missing

`ascertain train aaco heart_disease --treatment restored --restorer hotdeck --budget 4 --out mine`
"""
)
def train(
    method: Annotated[str, typer.Argument(help="A name that `ascertain methods list` shows.")],
    name: Annotated[str, typer.Argument(metavar="DATASET", help="A name that `ascertain data list` shows.")],
    state: Annotated[str, typer.Option(help="s, or sm: the policy also sees what is available.")] = "s",
    treatment: Annotated[str, typer.Option(help="complete, restricted or restored.")] = "complete",
    mechanism: Annotated[
        str, typer.Option(help="What hides cells: mcar, mar, mnar_logistic, mnar_self, or none.")
    ] = "mcar",
    rate: Annotated[float, typer.Option(help="The share of cells that it hides.")] = 0.7,
    restorer: Annotated[str, typer.Option(help="pvae, hotdeck or mean.")] = "pvae",
    split: Annotated[int, typer.Option(help="Which split of the dataset.", min=0)] = 0,
    budget: Annotated[float | None, typer.Option(help="By default the dataset's largest.")] = None,
    protocol: Annotated[str, typer.Option(help="paper or afabench.")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for model, scores and figure.", show_default="METHOD-DATASET")
    ] = None,
    data_dir: Annotated[Path | None, _DATA_DIR] = None,
) -> None:
    """Train one policy, score it on complete validation rows, and draw what it acquires when."""
    from ascertain import datasets
    from ascertain.pipeline import STAGES, Recipe, train_policy

    recipe = Recipe(
        method=method,
        state=state,
        treatment=treatment,
        mechanism=None if mechanism == "none" else mechanism,
        rate=rate,
        restorer=restorer,
        split=split,
        budget=budget,
        protocol=named_protocol(protocol),
        seed=seed,
    )
    recipe.check()
    dataset = datasets.load(name, data_dir)
    with _progress_bar() as bar:
        progress = bar.add_task("", total=len(STAGES))

        def begin(stage: str) -> None:
            bar.update(progress, description=stage, completed=STAGES.index(stage))

        trained = train_policy(dataset, recipe, begin)
        bar.update(progress, description="done", completed=len(STAGES))
    _show_trained(dataset.name, trained, out or Path(f"{method}-{name}"))


def _show_trained(name: str, trained: "Trained", out: Path) -> None:
    """Print the scores and write model, scores and figure."""
    from ascertain.analysis.acquisition_figures import draw_frequencies
    from ascertain.analysis.style import save_figure
    from ascertain.evaluation import frequency_table
    from ascertain.files import replacing

    title = f"{name}: {trained.recipe.describe()}"
    printed = Table("budget", *(f"{budget:g}" for budget in trained.scores["budget"]), title=escape(title))
    for score in trained.scores.columns[1:]:
        values = (f"{value:.4g}" for value in trained.scores[score])
        printed.add_row(str(score).replace("_", " "), *values)
    console.print(printed)
    out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained.save(out / "model")
    for warning in caught:
        errors.print(f"[yellow]Warning:[/] {escape(str(warning.message))}", highlight=False, soft_wrap=True)
    with replacing(out / "scores.csv") as temporary:
        trained.scores.to_csv(temporary, index=False)
    shares = frequency_table(trained.frequencies, trained.problem)
    with replacing(out / "acquisitions.csv") as temporary:
        shares.to_csv(temporary, index=False)
    figures = save_figure(lambda: draw_frequencies(shares, title), out, "acquisitions")
    for path in (out / "model", out / "scores.csv", out / "acquisitions.csv", *figures):
        console.print(escape(str(path)), highlight=False, soft_wrap=True)


def _with_error(mean: float | None, error: float | None) -> str:
    return "" if mean is None else f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _run_exact(sweep: Sweep, out: Path, jobs: int) -> None:
    with _progress_bar() as bar:
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
                "the same command goes on from there."
            )
            raise typer.Exit(130) from None
    from ascertain.analysis.exact_figures import draw_exact_figures
    from ascertain.analysis.exact_tables import regret_summary

    figures = draw_exact_figures(table, sweep, out)
    _print_summary(regret_summary(table))
    for path in (out / "regret.parquet", *figures):
        console.print(escape(str(path)), highlight=False, soft_wrap=True)


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
