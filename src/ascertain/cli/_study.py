"""Studies: plan, run, and see how far they are."""

import os
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ascertain.cli._app import DataDir, app, console, errors, progress_bar, warn
from ascertain.cli._processes import run_in_processes
from ascertain.errors import StoreError

if TYPE_CHECKING:
    from ascertain.study import Study
    from ascertain.study._engine import Progress, Summary
    from ascertain.study._runners import Runner

study_app = typer.Typer(no_args_is_help=True, help="Run grids of policies from one file.")
app.add_typer(study_app, name="study")

File = Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or a name that `study list` shows.")]
Datasets = Annotated[str | None, typer.Option(help="Only these of the study's datasets, with commas.")]
Protocol = Annotated[str | None, typer.Option(help="paper or afabench, instead of the file's.")]
Width = Annotated[
    int | None,
    typer.Option(
        help="Replicates per program; part of the record.", show_default="64 on a GPU, else 1", min=1
    ),
]


@study_app.command("list")
def study_list() -> None:
    """List the study files that come with the package."""
    from ascertain.study import shipped

    printed = Table("name", "what it is")
    for name, summary in shipped().items():
        printed.add_row(name, escape(summary))
    console.print(printed)


@study_app.command(
    "plan",
    epilog="""
Examples:

`ascertain study plan quick`

`ascertain study plan paper --datasets cube,cube_nm --width 125`
""",
)
def study_plan(
    file: File,
    datasets: Datasets = None,
    protocol: Protocol = None,
    width: Width = None,
    data_dir: DataDir = None,
) -> None:
    """Say what a study would compute, and about how long that takes on this device, before anything runs."""
    from ascertain.study._plan import plan_study, size

    plan = plan_study(_read(file, datasets, protocol), width=width, data_dir=data_dir)
    printed = Table("stage", "jobs", "programs", "chunks", "memory", "seconds", title=escape(plan.title))
    for row in plan.rows:
        amounts = (
            f"{row.jobs:,}",
            str(row.programs),
            f"{row.chunks:,}",
            size(row.memory),
            f"{row.seconds:,.0f}",
        )
        printed.add_row(escape(row.stage), *amounts)
    console.print(printed)
    console.print(escape(plan.summary), highlight=False, soft_wrap=True)


@study_app.command(
    "run",
    epilog="""
Examples:

`ascertain study run quick` — minutes on two cores

`ascertain study run paper-main --datasets cube,cube_nm --out mine` — part of the paper's grid

`ascertain study run mine.toml --engine dask --address tcp://10.0.0.1:8786` — on a cluster

`ascertain study run paper --stop-after 55` — in a job with an hour's limit

Interrupt it at will: the same command goes on where it stopped.
""",
)
def study_run(
    file: File,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study.", show_default="the study's name")
    ] = None,
    datasets: Datasets = None,
    protocol: Protocol = None,
    width: Width = None,
    engine: Annotated[str, typer.Option(help="local or dask.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="A Dask scheduler; by default a cluster on this machine.")
    ] = None,
    mix: Annotated[
        bool,
        typer.Option(
            "--mix",
            help="Go on with a folder computed at another width, on other cores or devices, or with other "
            "settings of XLA and JAX.",
        ),
    ] = False,
    stop_after: Annotated[
        float | None,
        typer.Option(
            help="Minutes after which nothing is begun. What runs then is still finished; long trainings are "
            "interrupted, and the next run goes on with them."
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes that share one GPU, where NVIDIA's MPS is running. They help where a study has "
            "many programs with few cells each; begin with one for each dataset.",
        ),
    ] = 1,
    first: Annotated[
        str | None,
        typer.Option(
            help="Datasets to begin with, with commas. Several processes or machines that share a folder "
            "compile less if each begins with others."
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Compute what is missing of a study, and write its tables."""
    if processes > 1:
        if engine != "local":
            raise typer.BadParameter("goes with --engine local", param_hint="--processes")
        if first is not None:
            raise typer.BadParameter("goes without --processes, which sets it", param_hint="--first")
        raise typer.Exit(run_in_processes(processes, sys.argv[1:], _read(file, datasets, protocol).datasets))
    study = _read(file, datasets, protocol)
    begin_with = () if first is None else study.narrowed(_names(first), None).datasets
    folder = out or Path(study.name)
    seconds = None if stop_after is None else 60 * stop_after
    summary = run_with_progress(
        study, folder, _runner(engine, address, width), data_dir, mix, seconds, begin_with
    )
    console.print(
        f"{summary.finished} of {summary.cells} cells are there after {summary.seconds:.0f} s.",
        highlight=False,
    )
    if summary.failed:
        errors.print(f"{summary.failed} jobs failed: ascertain study status {escape(str(folder))}")
        raise typer.Exit(1)
    if summary.finished < summary.cells:
        console.print("The same command goes on from there.")
    console.print(f"Next: ascertain report {escape(str(folder))}", highlight=False, soft_wrap=True)


@study_app.command("status", epilog="Example: `ascertain study status paper-main`")
def study_status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a study.")],
    data_dir: DataDir = None,
) -> None:
    """Show what is done, missing and failed, by dataset and method."""
    from ascertain.study._status import status_of

    status = status_of(folder, data_dir)
    printed = Table("dataset", "policy", "done", "missing", "failed", title=escape(status.title))
    for row in status.rows:
        printed.add_row(
            *map(escape, (row.dataset, row.policy)), str(row.done), str(row.missing), str(row.failed)
        )
    console.print(printed)
    for note in status.notes:
        console.print(escape(note), highlight=False, soft_wrap=True)


@study_app.command("timeline", epilog="Example: `ascertain study timeline paper-main`")
def study_timeline(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a study.")],
) -> None:
    """Show how long the device was busy in each run, and what it waited for otherwise."""
    from ascertain.study._timeline import read_timelines

    runs = read_timelines(folder)
    if not runs:
        raise StoreError(f"{folder} has no timeline of a run")
    printed = Table("began", "host", "device", "seconds", "busy", "waits for programs", "idle")
    work: dict[str, float] = {}
    for run in runs:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began))
        shares = (f"{part:.0f} s ({part / run.seconds:.0%})" for part in (run.busy, run.waiting, run.idle))
        printed.add_row(began, *map(escape, (run.host, run.device)), f"{run.seconds:.0f}", *shares)
        for name, seconds in run.work.items():
            work[name] = work.get(name, 0.0) + seconds
    console.print(printed)
    by_work = Table("work on the device", "seconds")
    for name, seconds in sorted(work.items(), key=lambda each: -each[1]):
        by_work.add_row(escape(name), f"{seconds:.1f}")
    console.print(by_work)


def run_with_progress(
    study: "Study",
    folder: Path,
    runner: "Runner",
    data_dir: Path | None = None,
    mix: bool = False,
    stop_after: float | None = None,
    first: Collection[str] = (),
) -> "Summary":
    """Run a study with a progress bar."""
    from ascertain.study import run_study

    with progress_bar() as bar:
        progress = bar.add_task("compiling", total=None)

        def show(state: "Progress") -> None:
            bar.update(progress, completed=state.done, total=state.total)
            if state.doing:
                bar.update(progress, description=escape(state.doing))

        try:
            return run_study(
                study,
                folder,
                runner=runner,
                data_dir=data_dir,
                mix=mix,
                stop_after=stop_after,
                first=first,
                on_progress=show,
                on_warning=warn,
            )
        except KeyboardInterrupt:
            bar.stop()
            errors.print(
                f"Interrupted. What was finished is kept in {escape(str(folder))}; "
                "the same command goes on from there."
            )
            # A program on the device cannot be stopped; waiting for it could take minutes.
            os._exit(130)


def _read(file: str, datasets: str | None, protocol: str | None) -> "Study":
    from ascertain.study import read_study

    return read_study(file).narrowed(None if datasets is None else _names(datasets), protocol)


def _names(datasets: str) -> list[str]:
    return [name.strip() for name in datasets.split(",")]


def _runner(engine: str, address: str | None, width: int | None) -> "Runner":
    from ascertain.study._runners import LocalRunner

    if engine == "local":
        if address is not None:
            raise typer.BadParameter("goes with --engine dask", param_hint="--address")
        return LocalRunner(width)
    if engine != "dask":
        raise typer.BadParameter(f"{engine!r} is neither local nor dask", param_hint="--engine")
    from ascertain.study._cluster import DaskRunner

    return DaskRunner(address, width)
