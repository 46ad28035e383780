"""The datasets by name."""

import difflib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ascertain.datasets import synthetic
from ascertain.datasets.actg175 import actg175
from ascertain.datasets.dataset import FIRST_SEED, Dataset
from ascertain.datasets.diabetes import diabetes
from ascertain.datasets.heart_disease import heart_disease, heart_sites
from ascertain.datasets.magic import magic
from ascertain.datasets.miniboone import miniboone
from ascertain.datasets.nhanes_i import nhanes_i
from ascertain.datasets.nhanes_mortality import nhanes_mortality
from ascertain.datasets.nhanes_t2d import nhanes_t2d
from ascertain.datasets.physionet2012 import physionet2012
from ascertain.errors import InputError

# Loaders of synthetic data take no folder; loaders of real data take the one that files are looked for in.
_SYNTHETIC: dict[str, Callable[[], Dataset]] = {
    "cube": synthetic.cube,
    "cube_nm": synthetic.cube_nm,
    "cube_nuc": synthetic.cube_nuc,
    "cube_noiseless": synthetic.cube_noiseless,
    "cube_nm_noiseless": synthetic.cube_nm_noiseless,
    "cube_nuc_noiseless": synthetic.cube_nuc_noiseless,
}
_REAL: dict[str, Callable[[Path | None], Dataset]] = {
    "actg175": actg175,
    "heart_disease": heart_disease,
    "nhanes_mortality": nhanes_mortality,
    "diabetes": diabetes,
    "miniboone": miniboone,
    # Not the paper's, and named apart from its own so that no result is taken for one of them.
    "heart_sites": heart_sites,
    "nhanes_i": nhanes_i,
    "nhanes_t2d": nhanes_t2d,
    "magic": magic,
    "physionet2012": physionet2012,
}

NAMES: tuple[str, ...] = (*_SYNTHETIC, *_REAL)


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name
        One of `NAMES`.
    data_dir
        The folder to look for files in; by default `ASCERTAIN_DATA`, then the user's data directory, into
        which missing files are downloaded.

    Examples
    --------
    >>> from ascertain.datasets import load
    >>> dataset = load("cube")
    >>> dataset.budgets, dataset.metric
    ((3, 5, 10), 'accuracy')
    >>> dataset.split(0).train.x.shape
    (600, 20)
    """
    if name in _SYNTHETIC:
        return replace(_SYNTHETIC[name](), name=name)
    if name in _REAL:
        return _REAL[name](None if data_dir is None else Path(data_dir))
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(NAMES)}"
    raise InputError(f"no dataset is called {name!r}{hint}")


def summary(name: str) -> str:
    """Say in a line what a dataset is, without loading it."""
    loader = _SYNTHETIC.get(name) or _REAL[name]
    described = loader.func if isinstance(loader, partial) else loader
    first_line = (described.__doc__ or "").strip().splitlines()[0]
    return first_line + (" Without noise on the code." if isinstance(loader, partial) else "")


def describe(dataset: Dataset) -> dict[str, Any]:
    """Give the facts of a dataset: shape, classes, actions, costs, budgets and what is missing from it."""
    problem, rows = dataset.problem, dataset.draw(FIRST_SEED)
    features = problem.feature_names or tuple(f"x{i}" for i in range(problem.n_features))
    actions = problem.action_names or tuple(f"action{i}" for i in range(problem.n_actions))
    classes = problem.class_names or tuple(map(str, range(problem.n_classes)))
    missing = np.isnan(rows.x)
    reveals = np.asarray(problem.reveals)
    return {
        "name": dataset.name,
        "rows": len(rows.y),
        "features": len(features),
        "classes": dict(zip(classes, np.bincount(rows.y, minlength=len(classes)).tolist(), strict=True)),
        "budgets": list(dataset.budgets),
        "metric": dataset.metric,
        "missing": float(missing.mean()),
        "complete_rows": int((~missing.any(axis=1)).sum()),
        "missing_is": "imputed by the mean" if dataset.preprocessing.impute else "kept as unavailable",
        "source": dataset.source,
        "licence": dataset.licence,
        "actions": [
            {
                "name": action,
                "cost": round(float(cost), 6),
                "reveals": [features[column] for column in np.flatnonzero(row)],
                "missing": float(missing[:, row].any(axis=1).mean()),
            }
            for action, cost, row in zip(actions, problem.costs, reveals, strict=True)
        ],
    }
