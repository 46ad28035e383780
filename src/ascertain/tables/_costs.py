"""What acquiring each column and panel costs, from a list of prices that may lack some or have others."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from ascertain._core.checks import check_costs, check_numbers
from ascertain._core.frames import listed
from ascertain.errors import InputError, did_you_mean
from ascertain.tables._amounts import read_amounts


def column_prices(
    costs: Any,
    default: float | None,
    groups: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    *,
    free: Collection[str],
    aside: Collection[str],
) -> dict[str, float]:
    """The price of each column and panel; entries for anything else are ignored with a warning.

    Parameters
    ----------
    costs
        Prices by name, which may be texts such as `$1`; numbers in the order of `columns`; None for 1 each.
    default
        What a column costs that `costs` does not list; None refuses gaps.
    groups
        The columns of each panel. A panel that is not listed costs what its columns cost together.
    columns
        All columns.
    free, aside
        Columns that need no price: those that are known from the start, and those that are not used.
    """
    if default is not None:
        default = float(check_costs([default], ["what the price list lacks (default_cost)"])[0])
    stated: dict[str, float] = {}
    if costs is None or isinstance(costs, Mapping | pd.Series):
        stated = _stated(by_name("costs", costs), {*columns, *groups})
        if default is None and costs is not None:
            _check_gaps(stated, groups, [name for name in columns if name not in {*free, *aside}])
        usual = 1.0 if default is None else default
        prices = {name: stated.get(name, usual) for name in columns}
    else:
        prices = dict(zip(columns, check_costs(costs, list(map(repr, columns))).tolist(), strict=True))
    sums = {panel: sum(prices[c] for c in members if c not in aside) for panel, members in groups.items()}
    return prices | sums | stated


def _stated(costs: Mapping[str, Any], names: Collection[str]) -> dict[str, float]:
    """The prices that are listed for one of the names, as numbers."""
    written = {f"the cost of {name!r}": price for name, price in costs.items() if isinstance(price, str)}
    read = read_amounts(written)
    found = {}
    for name, price in costs.items():
        what = f"the cost of {name!r}"
        number = check_numbers(what, read.get(what, price), ndim=0)
        found[name] = float(check_costs(number[None], [repr(name)])[0])
    others = [name for name in found if name not in names]
    if others:
        warn_of_others("costs", others, names, stacklevel=6)
    return {name: price for name, price in found.items() if name in names}


def warn_of_others(what: str, others: Sequence[str], names: Collection[str], stacklevel: int = 5) -> None:
    """Warn, in the caller of `fit_encoding`, of names that are no columns."""
    which = "is no column and is" if len(others) == 1 else "are no columns and are"
    hint = did_you_mean(others[0], names) if len(others) == 1 else ""
    similar = f"; {hint}" if hint.startswith("did") else ""
    message = f"{what}: {listed(others, most=20)} {which} ignored{similar}"
    warnings.warn(message, UserWarning, stacklevel=stacklevel)


def _check_gaps(stated: Collection[str], groups: Mapping[str, Sequence[str]], columns: Sequence[str]) -> None:
    """Raise where columns have no price, neither of their own nor as part of a panel."""
    paid = {column for panel, members in groups.items() if panel in stated for column in members}
    gaps = [name for name in columns if name not in stated and name not in paid]
    if gaps:
        raise InputError(
            f"the price list lacks {len(gaps)} of {len(columns)} columns: {listed(gaps, most=40)}; list "
            "them, name those that cost nothing with known (--known), or say what the others cost with "
            "default_cost (--default-cost 1)"
        )


def by_name(what: str, given: Any) -> dict[str, Any]:
    """What the caller lists by name, nothing for None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | pd.Series):
        raise InputError(f"{what} must be a dict by name, got {given!r}")
    return {str(name): value for name, value in given.items()}


def check_name(where: str, name: str, names: Collection[str], target: str | None = None) -> None:
    """Raise where a name is the target's, or no column's."""
    if name == target:
        raise InputError(f"{where} the target {target!r}, which cannot be acquired; leave it out")
    if name not in names:
        raise InputError(f"{where} {name!r}, which is no column; {did_you_mean(name, names)}")
