"""Prices and forbidden tests of one case, where they are not those of training."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool

from ascertain._core.checks import check_costs, check_numbers, spending_limit
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advisor
from ascertain.problem import Problem
from ascertain.tables._amounts import read_amounts
from ascertain.tables._encoding import Encoding

_MOST_NAMED = 4  # prices in a sentence


def check_case_costs(encoding: Encoding, costs: Any) -> dict[str, float]:
    """Return prices by the name of an action or set-up; anything else raises an `InputError`."""
    if costs is None:
        return {}
    if not isinstance(costs, Mapping):
        raise InputError(f"costs must be a dict by name, such as {{'ecg': 15.5}}, got {costs!r}")
    names = [*encoding.action_names, *(each.name for each in encoding.setups)]
    found = {}
    for name, given in ((str(name), given) for name, given in costs.items()):
        if name not in names:
            raise InputError(f"costs has {name!r}{_panel_hint(encoding, name, names)}")
        what = f"the cost of {name!r}"
        number = check_numbers(
            what, read_amounts({what: given})[what] if isinstance(given, str) else given, 0
        )
        found[name] = float(check_costs(number[None], [repr(name)])[0])
    return found


def at_prices(advisor: Advisor, costs: Mapping[str, float]) -> Advisor:
    """The same advisor, and its policy, at other prices; those that are not named stay."""
    changed = {name: cost for name, cost in costs.items() if cost != stated_prices(advisor.encoding)[name]}
    if not changed:
        return advisor
    encoding = advisor.encoding
    return advisor.priced(
        replace(
            encoding,
            actions=tuple(replace(each, price=costs.get(each.name, each.price)) for each in encoding.actions),
            setups=tuple(replace(each, cost=costs.get(each.name, each.cost)) for each in encoding.setups),
        )
    )


def forbidden_actions(encoding: Encoding, forbid: Any) -> Bool[np.ndarray, " actions"]:
    """Which actions are forbidden by the names of actions, of any of their columns, or of their set-ups."""
    if forbid is None:
        forbid = ()
    if isinstance(forbid, str) or not isinstance(forbid, Iterable):
        raise InputError(f"forbid must list actions or columns, got {forbid!r}")
    given = [*map(str, forbid)]
    if not given:  # nearly always, and asked at every step of a case
        return np.zeros(len(encoding.actions), bool)
    columns_of = {action.name: {*action.columns} for action in encoding.actions}
    columns_of |= {each.name: {*each.columns} for each in encoding.setups}
    single = {column: {column} for action in encoding.actions for column in action.columns}
    closed: set[str] = set()
    for name in given:
        if name not in columns_of and name not in single:
            names = dict.fromkeys([*columns_of, *single])
            raise InputError(f"forbid has {name!r}, which cannot be measured; {did_you_mean(name, names)}")
        closed |= columns_of.get(name) or single[name]
    return np.array([bool(closed & {*action.columns}) for action in encoding.actions])


def case_notes(advisor: Advisor, costs: Mapping[str, float], largest_budget: float) -> tuple[str, ...]:
    """What to say where a case is not what the policy was trained for: its prices, or a larger budget."""
    notes = []
    trained = stated_prices(advisor.encoding)
    changed = [
        f"{name} {cost:g} instead of {trained[name]:g}"
        for name, cost in costs.items()
        if cost != trained[name]
    ]
    if changed:
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        use = (
            "it counts with the new ones, but has learned what is best at the old ones"
            if _knows_prices(advisor)
            else "it does not look at prices, so that the new ones only decide what can be paid for"
        )
        notes.append(
            f"The policy was trained for other prices ({', '.join(changed[:_MOST_NAMED])}{more}): {use}. "
            "If they are to stay, fit again."
        )
    budget = float(str(np.asarray(advisor.problem.budget)))
    if largest_budget > spending_limit(budget):
        notes.append(
            f"The policy was trained for a budget of {budget:g}, and has not learned what to do with more."
        )
    return tuple(notes)


def stated_prices(encoding: Encoding) -> dict[str, float]:
    """The prices of actions and set-ups by name."""
    actions = {action.name: action.price for action in encoding.actions}
    return actions | {each.name: each.cost for each in encoding.setups}


def _knows_prices(advisor: Advisor) -> bool:
    held = jax.tree.leaves(advisor.policy, is_leaf=lambda node: isinstance(node, Problem))
    return any(isinstance(node, Problem) for node in held)


def _panel_hint(encoding: Encoding, name: str, names: list[str]) -> str:
    for action in encoding.actions:
        if name in action.columns:
            return f", which is measured with the panel {action.name!r}; give the price of the panel"
    if name in encoding.known:
        return ", which is known from the start and costs nothing"
    return f", which cannot be bought; {did_you_mean(name, names)}"
