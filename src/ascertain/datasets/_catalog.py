"""The datasets by name."""

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ascertain.datasets import _synthetic as synthetic
from ascertain.datasets._actg175 import actg175
from ascertain.datasets._dataset import FIRST_SEED, Dataset
from ascertain.datasets._diabetes import diabetes
from ascertain.datasets._heart_disease import heart_disease, heart_sites
from ascertain.datasets._magic import magic
from ascertain.datasets._miniboone import miniboone
from ascertain.datasets._nhanes_i import nhanes_i
from ascertain.datasets._nhanes_mortality import nhanes_mortality
from ascertain.datasets._nhanes_t2d import nhanes_t2d
from ascertain.datasets._physionet2012 import physionet2012
from ascertain.datasets._registry import get, register
from ascertain.errors import InputError
from ascertain.problem import Problem

for _name, _label, _load in (
    ("cube", "CUBE", synthetic.cube),
    ("cube_nm", "CUBE-NM", synthetic.cube_nm),
    ("cube_nuc", "CUBE-NUC", synthetic.cube_nuc),
    ("cube_noiseless", "CUBE (noiseless)", synthetic.cube_noiseless),
    ("cube_nm_noiseless", "CUBE-NM (noiseless)", synthetic.cube_nm_noiseless),
    ("cube_nuc_noiseless", "CUBE-NUC (noiseless)", synthetic.cube_nuc_noiseless),
    ("actg175", "ACTG175", actg175),
    ("diabetes", "Diabetes", diabetes),
    ("nhanes_mortality", "NHANES", nhanes_mortality),
    ("miniboone", "MiniBooNE", miniboone),
    ("heart_disease", "Heart Disease", heart_disease),
    # Not the paper's, and named apart from its own so that no result is taken for one of them.
    ("heart_sites", "Heart Disease (sites)", heart_sites),
    ("nhanes_i", "NHANES I", nhanes_i),
    ("nhanes_t2d", "NHANES (diabetes)", nhanes_t2d),
    ("magic", "MAGIC", magic),
    ("physionet2012", "PhysioNet 2012", physionet2012),
):
    register(_name, label=_label)(_load)


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name
        One of `names()`.
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
    function = get(name).fit
    takes_folder = "data_dir" in inspect.signature(function).parameters
    dataset = function(None if data_dir is None else Path(data_dir)) if takes_folder else function()
    if not isinstance(dataset, Dataset):
        raise InputError(f"the dataset {name!r} is registered by a function that returns no Dataset")
    return replace(dataset, name=name)


def _setups(problem: Problem) -> dict[str, Any]:
    """The prices of set-ups by name; nothing where there are none."""
    if problem.setup_costs is None:
        return {}
    names = problem.setup_names or tuple(f"set-up {i}" for i in range(len(problem.setup_costs)))
    costs = [round(float(cost), 6) for cost in problem.setup_costs]
    return {"setups": dict(zip(names, costs, strict=True))}


def describe(dataset: Dataset) -> dict[str, Any]:
    """Facts about a dataset: shape, classes, actions, costs, budgets and what is missing from it.

    Examples
    --------
    >>> from ascertain import load
    >>> facts = describe(load("cube"))
    >>> facts["rows"], len(facts["actions"]), facts["actions"][0]["cost"]
    (1000, 20, 1.0)
    """
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
        **_setups(problem),
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
