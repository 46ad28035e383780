"""The command `ascertain` itself: options of every command, errors, and how things are printed."""

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperGroup

from ascertain._core.compilation import enable_cache
from ascertain._core.text import visible
from ascertain._core.version import __version__
from ascertain.errors import AscertainError
from ascertain.registry import load_plugin

# What people with a table of their own need, in the order in which they need it.
_FIRST = ("diagnose", "fit", "consult", "recommend", "evaluate", "serve")


class _Commands(TyperGroup):
    """The commands, with those for one's own table first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order in which the help shows them."""
        names = super().list_commands(ctx)
        return [*(name for name in _FIRST if name in names), *(name for name in names if name not in _FIRST)]


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


class Terminal(Console):
    """A console that shows control characters of names and values as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text, with its control characters counted as what is shown of them."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, as every part of what is printed is."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


console = Terminal(highlight=False)
errors = Terminal(stderr=True, highlight=False)

DataDir = Annotated[
    Path | None, typer.Option(help="Folder to look for data files in; by default ASCERTAIN_DATA.")
]


def main() -> None:
    """Run the command line; errors that a user can put right become a short message and exit code 2."""
    warnings.showwarning = lambda message, *_, **__: warn(str(message))
    try:
        app()
    except (AscertainError, OSError) as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)


def _print_version(wanted: bool) -> bool:
    if wanted:
        console.print(f"ascertain {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _ascertain(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    plugins: Annotated[
        list[Path] | None,
        typer.Option("--plugin", metavar="FILE", help="A Python file that registers parts of your own."),
    ] = None,
) -> None:
    """Active feature acquisition: which costly feature to measure next, learned from incomplete data."""
    del version
    for file in plugins or []:
        load_plugin(file)
    try:
        enable_cache()
    except AscertainError as error:
        warn(str(error))


def numbers(option: str, text: str) -> list[float]:
    """Read numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        problem = f"{text!r} is not a list of numbers such as 10,100"
        raise typer.BadParameter(problem, param_hint=option) from error


def whole_numbers(option: str, text: str) -> list[int]:
    """Read whole numbers separated by commas."""
    values = numbers(option, text)
    for number in values:
        if not number.is_integer():
            raise typer.BadParameter(f"{number:g} in {text!r} is not a whole number", param_hint=option)
    return [int(number) for number in values]


def listed(values: Sequence[float]) -> str:
    """Write numbers as an option takes them."""
    return ",".join(f"{number:g}" for number in values)


def progress_bar() -> Progress:
    """A progress bar with the time that is left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
    )


@contextmanager
def late_progress(description: str, total: int, after: float = 2.0) -> Iterator[Callable[[int], None]]:
    """Show progress if something takes longer than some seconds; call the function with what is done."""
    begin, bar = time.monotonic(), progress_bar()
    task = bar.add_task(description, total=total)

    def show(done: int) -> None:
        if not bar.live.is_started and time.monotonic() - begin > after:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def warn(message: str) -> None:
    """Print a warning."""
    errors.print(f"[yellow]Warning:[/] {escape(message)}", soft_wrap=True)
