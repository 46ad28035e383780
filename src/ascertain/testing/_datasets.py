"""The promises of every dataset, and a function that checks them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ascertain.datasets import load
from ascertain.datasets._dataset import N_SPLITS, Dataset
from ascertain.datasets._registry import find
from ascertain.protocol import AFABENCH, PAPER


def check_dataset(dataset: str | Callable[..., Any], data_dir: str | None = None) -> None:
    """Raise an `AssertionError` that says which promise a dataset breaks, and how; else do nothing.

    Parameters
    ----------
    dataset
        The name of a registered dataset, or the function that `datasets.register` decorates.
    data_dir
        The folder to look for its files in.

    Examples
    --------
    >>> from ascertain.testing import check_dataset
    >>> check_dataset("cube_nuc")
    """
    name = find(dataset).name
    loaded = load(name, data_dir)
    _budgets_can_be_spent(name, loaded)
    for protocol in (PAPER, AFABENCH):
        for index in range(N_SPLITS):
            split = loaded.split(index, protocol)
            for part, table in zip(split._fields, split, strict=True):
                where = f"{name}, split {index}, {part} rows"
                loaded.problem.check(table)
                _classes_and_features_occur(where, np.asarray(table.y), np.asarray(table.available), loaded)
        one, other = (jax.tree.leaves(each.split(0, protocol)) for each in (loaded, load(name, data_dir)))
        same = all(np.array_equal(*both) for both in zip(one, other, strict=True))
        assert same, f"{name}: a split must be the same every time; draw rows with the given seed"


def _budgets_can_be_spent(name: str, dataset: Dataset) -> None:
    budgets = dataset.budgets
    assert budgets, f"{name} has no budgets"
    assert list(budgets) == sorted(set(budgets)), f"{name}: budgets must be ascending, got {list(budgets)}"
    planned = float(dataset.problem.budget)
    assert np.isclose(planned, budgets[-1]), f"{name}: problem.budget is {planned:g}, not {budgets[-1]:g}"
    assert dataset.metric in ("accuracy", "macro_f1"), f"{name}: metric is accuracy or macro_f1"


def _classes_and_features_occur(where: str, y: np.ndarray, available: np.ndarray, dataset: Dataset) -> None:
    for label in range(dataset.problem.n_classes):
        assert (y == label).any(), f"{where}: class {label} does not occur"
    known = np.asarray(dataset.problem.known)
    empty = np.flatnonzero(~available[:, ~known].any(axis=0))
    for column in empty[:1]:
        raise AssertionError(f"{where}: no row has feature {np.flatnonzero(~known)[column]}")
