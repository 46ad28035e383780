"""Methods, and training one of them."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli.app import DataDir, app, console, progress_bar, warn
from ascertain.protocol import protocol as named_protocol

if TYPE_CHECKING:
    from ascertain.recipe.pipeline import Trained

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
    data_dir: DataDir = None,
) -> None:
    """Train one policy, score it on complete validation rows, and draw what it acquires when."""
    from ascertain import datasets
    from ascertain.recipe.pipeline import STAGES, Recipe, train_policy

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
    with progress_bar() as bar:
        progress = bar.add_task("", total=len(STAGES))

        def begin(stage: str) -> None:
            bar.update(progress, description=stage, completed=STAGES.index(stage))

        trained = train_policy(dataset, recipe, begin)
        bar.update(progress, description="done", completed=len(STAGES))
    _show_trained(dataset.name, trained, out or Path(f"{method}-{name}"))


def _show_trained(name: str, trained: "Trained", out: Path) -> None:
    """Print the scores and write model, scores and figure."""
    from ascertain._core.files import replacing
    from ascertain.evaluation.curves import frequency_table
    from ascertain.reporting.acquisition_figures import draw_frequencies
    from ascertain.reporting.style import save_figure

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
        warn(str(warning.message))
    with replacing(out / "scores.csv") as temporary:
        trained.scores.to_csv(temporary, index=False)
    shares = frequency_table(trained.frequencies, trained.problem)
    with replacing(out / "acquisitions.csv") as temporary:
        shares.to_csv(temporary, index=False)
    figures = save_figure(lambda: draw_frequencies(shares, title), out, "acquisitions")
    for path in (out / "model", out / "scores.csv", out / "acquisitions.csv", *figures):
        console.print(escape(str(path)), highlight=False, soft_wrap=True)
