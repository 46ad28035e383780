"""Methods, and training one of them."""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from ascertain._core.toml import parse_toml
from ascertain.cli._app import DataDir, app, console, progress_bar, warn
from ascertain.errors import InputError, did_you_mean
from ascertain.protocol import protocol as named_protocol

if TYPE_CHECKING:
    from ascertain.recipe import Trained

_LONGEST_SHOWN = 80  # characters of a setting in a message

methods_app = typer.Typer(no_args_is_help=True, help="List the acquisition methods.")
app.add_typer(methods_app, name="methods")


@methods_app.command("list")
def methods_list() -> None:
    """List the methods by how they decide, and when to use each."""
    from ascertain import methods
    from ascertain.methods._registry import FAMILIES

    printed = Table("name", "states", "what it does", "when to use it")
    known = [methods.get(name) for name in methods.names()]
    for family in FAMILIES:
        members = [method for method in known if method.family == family]
        if members:
            printed.add_section()
            printed.add_row(f"[bold]{family}[/]")
        for method in members:
            variants = ", ".join(f"({','.join(state)})" for state in method.states)
            printed.add_row(escape(method.name), variants, escape(method.summary), escape(method.use_when))
    console.print(printed)


@app.command()
def parts() -> None:
    """List every part by kind: methods, restorers, mechanisms, datasets and predictors, with their names."""
    from ascertain import datasets, methods, missingness, predictors, restoration

    kinds = {"method": methods, "restorer": restoration, "mechanism": missingness}
    printed = Table("kind", "name", "what it does")
    for kind, package in {**kinds, "dataset": datasets, "predictor": predictors}.items():
        for name in package.names():
            printed.add_row(kind, escape(name), escape(package.get(name).summary))
    console.print(printed)


@app.command(
    epilog="""
Examples:

`ascertain train gdfs cube` — complete data, the largest budget

`ascertain train jafa cube --state sm --treatment restricted --rate 0.5` — with half of the cells missing

`ascertain train aaco heart_disease --treatment restored --restorer hotdeck --budget 4 --out mine`

`ascertain train gdfs cube --split 3 --json` — the scores of a study's cell, as JSON

`ascertain train gdfs cube --set gdfs.epochs=10 --set predictor.epochs=200` — shorter training
"""
)
def train(
    method: Annotated[str, typer.Argument(help="A name that `ascertain methods list` shows.")],
    name: Annotated[str, typer.Argument(metavar="DATASET", help="A name that `ascertain data list` shows.")],
    state: Annotated[str, typer.Option(help="s, or sm: the policy also sees what is available.")] = "s",
    treatment: Annotated[
        str, typer.Option(help="complete, restricted, restored or direct (planner).")
    ] = "complete",
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="What hides cells, such as mcar or none; `ascertain parts` lists them.",
            show_default="mcar, or none where a dataset has holes of its own",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="The share of cells that it hides.")] = 0.7,
    restorer: Annotated[
        str, typer.Option(help="What fills holes, such as pvae or hotdeck; ensemble:6 does so six times.")
    ] = "pvae",
    split: Annotated[int, typer.Option(help="Which split of the dataset.", min=0)] = 0,
    budget: Annotated[float | None, typer.Option(help="By default the dataset's largest.")] = None,
    protocol: Annotated[str, typer.Option(help="paper or afabench.")] = "paper",
    scored: Annotated[str, typer.Option(help="Rows to score on: valid or test.")] = "valid",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.", min=0)] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PART.FIELD=VALUE", help="A setting, as TOML writes it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for model, scores and figure.", show_default="METHOD-DATASET")
    ] = None,
    data_dir: DataDir = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the scores by budget as JSON; files only with --out.")
    ] = False,
) -> None:
    """Train one policy, score it, and draw what it acquires when: one cell of a study."""
    from ascertain import datasets
    from ascertain.recipe import Recipe, train_policy

    if scored not in ("valid", "test"):
        raise InputError(f"--scored must be valid or test, got {scored!r}")
    dataset = datasets.load(name, data_dir)
    if treatment == "complete" and mechanism not in (None, "none"):
        raise InputError("complete data have no holes: add --treatment restricted or restored to --mechanism")
    if mechanism is None:
        mechanism = "mcar" if dataset.complete else "none"
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
        scored=cast(Literal["valid", "test"], scored),
        seed=seed,
        settings=_settings(settings or []),
    )
    recipe.check()
    for part in recipe.settings:
        if part not in recipe.settings_names:
            hint = did_you_mean(part, sorted(recipe.settings_names))
            raise InputError(f"--set {part}... changes nothing here; {hint}")
    with progress_bar() as bar:
        progress = bar.add_task("")

        def begin(stage: str, done: int, total: int) -> None:
            bar.update(progress, description=stage, completed=done, total=total)

        trained = train_policy(dataset, recipe, begin)
        bar.update(progress, description="done", completed=1, total=1)
    if as_json:
        print(json.dumps(trained.scores.replace({np.nan: None}).to_dict("records"), indent=2))
    else:
        _show_scores(f"{dataset.name}: {recipe.describe()}", trained)
    if not as_json or out is not None:
        files = _write_trained(dataset.name, trained, out or Path(f"{method}-{name}"))
        if not as_json:
            for path in files:
                console.print(escape(str(path)), highlight=False, soft_wrap=True)


def _settings(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Read `part.field=value`, as in a study file's `[settings]`."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        try:
            content = parse_toml(text)
        except ValueError as error:
            raise InputError(f"--set {shown} is not of the form gdfs.epochs=10: {error}") from error
        for part, changes in content.items():
            if not isinstance(changes, dict):
                raise InputError(f"--set {shown} names no part; write for example gdfs.epochs=10")
            found.setdefault(part, {}).update(changes)
    return found


def _show_scores(title: str, trained: "Trained") -> None:
    printed = Table("budget", *(f"{budget:g}" for budget in trained.scores["budget"]), title=escape(title))
    for score in trained.scores.columns[1:]:
        values = (each if isinstance(each, str) else f"{each:.4g}" for each in trained.scores[score])
        printed.add_row(str(score).replace("_", " "), *values)
    console.print(printed)


def _write_trained(name: str, trained: "Trained", out: Path) -> list[Path]:
    """Write model, scores and, where rows are complete, who acquires what when."""
    from ascertain._core.files import replacing
    from ascertain.evaluation._scores import frequency_table
    from ascertain.reporting._figures import draw_frequencies
    from ascertain.reporting._style import save_figure

    out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained.save(out / "model")
    for warning in caught:
        warn(str(warning.message))
    files = [out / "model", out / "scores.csv"]
    with replacing(out / "scores.csv") as temporary:
        trained.scores.to_csv(temporary, index=False)
    if trained.frequencies is None:
        return files
    shares = frequency_table(trained.frequencies, trained.problem)
    with replacing(out / "acquisitions.csv") as temporary:
        shares.to_csv(temporary, index=False)
    title = f"{name}: {trained.recipe.describe()}"
    figures = save_figure(lambda: draw_frequencies(shares, title), out, "acquisitions")
    return [*files, out / "acquisitions.csv", *figures]
