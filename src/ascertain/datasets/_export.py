"""A dataset as a person would hold it: a table with names and holes, a price list, and panels."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ascertain._core.files import replacing
from ascertain.datasets._dataset import FIRST_SEED, Dataset
from ascertain.errors import InputError

TARGET = "outcome"
"""The column of classes in an exported table; `examples/heart_sites.py` takes it apart from the others."""


class Exported(NamedTuple):
    """What is written."""

    table: pd.DataFrame  # with its target
    prices: dict[str, float]  # of each action
    panels: dict[str, list[str]]  # the columns of actions that reveal several
    setups: dict[str, tuple[str, float]]  # by action: the set-up that it needs, and its price


def export(dataset: Dataset) -> Exported:
    """Turn a dataset's rows into a table in their own units; synthetic ones are those of split 0.

    One-hot columns that one action reveals (`site=a`, `site=b` by `site`) become one column again.

    Examples
    --------
    >>> from ascertain import load
    >>> exported = export(load("cube"))
    >>> exported.table.shape, exported.prices["x0"]  # 20 features and the outcome
    ((1000, 21), 1.0)
    """
    rows, problem = dataset.draw(FIRST_SEED), dataset.problem
    features = list(problem.feature_names or (f"x{i}" for i in range(problem.n_features)))
    actions = list(problem.action_names or (f"action {i}" for i in range(problem.n_actions)))
    table = pd.DataFrame(rows.x, columns=features)
    panels: dict[str, list[str]] = {}
    for action, reveals in zip(actions, np.asarray(problem.reveals), strict=True):
        revealed = [feature for feature, there in zip(features, reveals, strict=True) if there]
        if all(feature.startswith(f"{action}=") for feature in revealed):
            table = _merged(table, action, revealed)
        elif revealed != [action]:
            panels[action] = revealed
    classes = np.array(problem.class_names or [str(i) for i in range(problem.n_classes)], object)
    # 102.9, not the 102.900002 that single precision makes of it.
    prices = {name: float(str(cost)) for name, cost in zip(actions, np.asarray(problem.costs), strict=True)}
    return Exported(table.assign(**{TARGET: classes[rows.y]}), prices, panels, _setups(dataset, actions))


def write(exported: Exported, folder: Path, name: str) -> list[Path]:
    """Write the table, its prices, and its panels if it has any; return the files."""
    prices = pd.DataFrame(exported.prices.items(), columns=["name", "cost"])
    if exported.setups:
        nothing = ("", None)
        prices["setup"], prices["setup cost"] = zip(
            *(exported.setups.get(action, nothing) for action in exported.prices), strict=True
        )
    tables = {f"{name}.csv": exported.table, "prices.csv": prices}
    if exported.panels:
        pairs = [(column, panel) for panel, columns in exported.panels.items() for column in columns]
        tables["panels.csv"] = pd.DataFrame(pairs, columns=["column", "group"])
    folder.mkdir(parents=True, exist_ok=True)
    for file, table in tables.items():
        with replacing(folder / file) as temporary:
            table.to_csv(temporary, index=False)
    return [folder / file for file in tables]


def _setups(dataset: Dataset, actions: list[str]) -> dict[str, tuple[str, float]]:
    problem = dataset.problem
    if problem.setup_costs is None or problem.needs is None:
        return {}
    needs, costs = np.asarray(problem.needs), np.asarray(problem.setup_costs)
    if (needs.sum(axis=1) > 1).any():
        raise InputError("an action needs two set-ups, which a price list cannot say; it cannot be exported")
    names = problem.setup_names or tuple(f"set-up {i}" for i in range(len(costs)))
    return {actions[action]: (names[setup], float(str(costs[setup]))) for action, setup in np.argwhere(needs)}


def _merged(table: pd.DataFrame, name: str, columns: list[str]) -> pd.DataFrame:
    """Put the name of the category that is 1 into one column."""
    categories = np.array([column.removeprefix(f"{name}=") for column in columns], object)
    block = table[columns].to_numpy()
    value = np.where(np.isnan(block).any(axis=1), None, categories[np.nan_to_num(block).argmax(axis=1)])
    place = list(table.columns).index(columns[0])
    merged = table.drop(columns=columns)
    merged.insert(place, name, value)
    return merged
