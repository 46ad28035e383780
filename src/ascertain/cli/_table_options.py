"""The options of `diagnose` and `fit` that describe a user's table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from ascertain.errors import InputError

if TYPE_CHECKING:
    from ascertain.tables._reading import UserTable

ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder that `ascertain fit` has written, or its file.")
]
TableFile = Annotated[
    Path, typer.Argument(help="A CSV file with a line of names, an Excel workbook, or a Parquet file.")
]
Target = Annotated[str, typer.Option(help="The column of classes.")]
Costs = Annotated[
    Path | None,
    typer.Option(
        help="A CSV file of names and costs, such as 15.5, $1 or 1,50 EUR.",
        show_default="each action costs 1",
    ),
]
DefaultCost = Annotated[
    float | None,
    typer.Option(help="What is not in the price list costs this much.", show_default="the list has all"),
]
Known = Annotated[str, typer.Option(help="Columns that are known from the start, as a,b,c.")]
Groups = Annotated[
    Path | None, typer.Option(help="What is bought together: a CSV file column,group, or JSON by group.")
]
Setups = Annotated[
    Path | None,
    typer.Option(
        help="What tests share, as a blood draw: a CSV file name,setup,cost. The first test pays for it.",
        show_default="the columns setup and setup cost of --costs, if it has them",
    ),
]
CaseCosts = Annotated[
    list[str] | None,
    typer.Option(help="What something costs here, if not as in training: NAME=AMOUNT; can be repeated."),
]
Forbidden = Annotated[
    list[str] | None,
    typer.Option(help="What is out of the question here: a column, panel or set-up; can be repeated."),
]
Separator = Annotated[str | None, typer.Option(help="What separates cells.", show_default="found by itself")]
Markers = Annotated[
    list[str] | None,
    typer.Option(help="A text that means 'not measured', besides ?, NA and empty; can be repeated."),
]

By = Annotated[str, typer.Option(help="Also score subgroups: the rows with each value of a column, as a,b.")]


Encoding = Annotated[
    str | None,
    typer.Option(help="How the files are written, such as cp1252 or latin-1.", show_default="UTF-8"),
]
Sheet = Annotated[
    str | None,
    typer.Option(help="The sheet of a workbook, by name or number.", show_default="the first"),
]


RowsOf = Annotated[
    str | None,
    typer.Option(
        help="The column that says which rows belong together, such as the patient: they are never split "
        "between training and test, nor in resamples.",
        show_default="each row by itself",
    ),
]


Weights = Annotated[
    str | None,
    typer.Option(
        help="The column that says how much each row counts, such as the weights of a survey.",
        show_default="all the same",
    ),
]


class Prices(TypedDict):
    """What the options say about prices, panels, known columns and set-ups."""

    costs: Mapping[str, float] | None
    groups: Mapping[str, Sequence[str]] | None
    known: Sequence[str]
    default_cost: float | None
    setup: Mapping[str, Any] | None


def read_table(
    table: Path,
    target: str,
    sep: str | None,
    na: list[str] | None,
    encoding: str | None = None,
    sheet: str | None = None,
    rows_of: str | None = None,
    weights: str | None = None,
) -> "UserTable":
    """Read the table."""
    from ascertain.tables._reading import read_user_table

    return read_user_table(
        table,
        target,
        separator=sep,
        markers=na or (),
        encoding=encoding,
        sheet=sheet,
        rows_of=rows_of,
        weights=weights,
    )


def names_in(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_case_costs(given: Sequence[str] | None) -> dict[str, str]:
    """Read NAME=AMOUNT; a name may have an equals sign of its own."""
    found = {}
    for text in given or ():
        name, mark, amount = text.rpartition("=")
        if not mark or not name.strip() or not amount.strip():
            raise InputError(f"--cost takes NAME=AMOUNT, such as scan=30, got {text!r}")
        found[name.strip()] = amount.strip()
    return found


def read_price_list(
    costs: Path | None,
    groups: Path | None,
    known: str,
    default_cost: float | None,
    setup: Path | None,
    encoding: str | None = None,
) -> Prices:
    """Read prices, panels, known columns and set-ups."""
    from ascertain.tables._prices import read_panels, read_prices
    from ascertain.tables._setup_files import lists_setups, read_setups

    if setup is None and costs is not None and lists_setups(costs, encoding):
        setup = costs
    return {
        "costs": None if costs is None else read_prices(costs, encoding),
        "groups": None if groups is None else read_panels(groups, encoding),
        "setup": None if setup is None else read_setups(setup, encoding),
        "known": names_in(known),
        "default_cost": default_cost,
    }
