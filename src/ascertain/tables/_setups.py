"""Set-ups that tests share, such as a blood draw: the first test of one pays for it, the others do not."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from ascertain._core.checks import check_costs, check_numbers
from ascertain.errors import InputError
from ascertain.tables._amounts import read_amounts
from ascertain.tables._costs import warn_of_others

SHAPE = '{"blood draw": {"cost": 5, "columns": ["iron", "glucose"]}}'


@dataclass(frozen=True)
class SharedSetup:
    """A set-up: its price, and the columns that need it."""

    name: str
    cost: float
    columns: tuple[str, ...]


def needs_matrix(
    setups: Sequence[SharedSetup], actions: Sequence[Sequence[str]]
) -> Bool[np.ndarray, "actions setups"]:
    """Which set-ups each action needs: those of any of its columns."""
    return np.array([[bool({*columns} & {*each.columns}) for each in setups] for columns in actions], bool)


def as_setups(
    given: Any,
    columns: Sequence[str],
    *,
    groups: Mapping[str, Sequence[str]],
    known: Collection[str] = (),
    target: str | None = None,
    aside: Collection[str] = (),
) -> tuple[SharedSetup, ...]:
    """Check what a caller says about set-ups; one without columns that are used is dropped.

    Names of what is no column are ignored with a warning, as those in price lists are.

    Parameters
    ----------
    given
        By the name of the set-up: its cost and its columns or panels, as `{"cost": 5, "columns": [...]}` or
        `(5, [...])`. None: there are no set-ups.
    columns, groups, known, target, aside
        The columns of the table, panels, columns known from the start, the target, and columns left out.
    """
    found: list[SharedSetup] = []
    setup_of: dict[str, str] = {}
    others: list[str] = []
    for name, entry in _by_name(given).items():
        cost, members = cost_and_members(name, entry)
        own: dict[str, None] = {}
        for member in members:
            _check_member(name, member, known, target)
            if member in columns or member in groups:
                own |= dict.fromkeys(groups.get(member, (member,)))
            else:
                others.append(member)
        for column in own:
            if column in setup_of:
                raise InputError(
                    f"the column {column!r} is in two set-ups, {setup_of[column]!r} and {name!r}; keep one"
                )
            setup_of[column] = name
        if name == target or name in columns or name in groups:
            raise InputError(f"the set-up {name!r} has the name of a column or panel; rename the set-up")
        if used := tuple(column for column in own if column not in aside):
            found.append(SharedSetup(name, cost, used))
    if others:
        warn_of_others("setup", others, [*columns, *groups])
    return tuple(found)


def _by_name(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"setup must be a dict by name, such as {SHAPE}, got {given!r}")
    return {str(name): entry for name, entry in given.items()}


def cost_and_members(name: str, entry: Any) -> tuple[float, list[str]]:
    """Read what is said about one set-up."""
    if isinstance(entry, Mapping) and set(entry) == {"cost", "columns"}:
        cost, members = entry["cost"], entry["columns"]
    elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2:
        cost, members = entry
    else:
        raise InputError(f"the set-up {name!r} must have a cost and columns, as {SHAPE} has, got {entry!r}")
    if isinstance(members, str) or not isinstance(members, Iterable) or not (names := [*map(str, members)]):
        raise InputError(f"the set-up {name!r} must list the columns that need it, got {members!r}")
    what = f"the cost of the set-up {name!r}"
    number = check_numbers(what, read_amounts({what: cost})[what] if isinstance(cost, str) else cost, ndim=0)
    return float(check_costs(number[None], [f"the set-up {name!r}"])[0]), names


def _check_member(setup: str, name: str, known: Collection[str], target: str | None) -> None:
    if name == target:
        raise InputError(f"the set-up {setup!r} has the target {target!r}, which cannot be acquired")
    if name in known:
        raise InputError(f"the known column {name!r} is in the set-up {setup!r}; take it out of one")
