"""Diabetes: the survey data of Kachuee et al., with fasting glucose in three classes."""

from pathlib import Path

import numpy as np

from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.datasets._real import IMPUTE, damaged, labels, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find

BUDGETS = (5, 10, 15)
N_FEATURES = 45
_CLASS_NAMES = ("normal", "raised", "diabetic")
_TARGET = "Outcome"

_FILE = Source(
    path="diabetes/diabetes.csv",
    home="https://github.com/iancovert/dynamic-selection",
    url="https://raw.githubusercontent.com/iancovert/dynamic-selection/main/datasets/diabetes.csv",
    others=("diabetes/diabetes.csv.gz",),
    git_blob="eb6b124adf8f133e193e0beaf6b30cf543251dcd",
)
_ROWS = 92062


def diabetes(data_dir: Path | None = None) -> Dataset:
    """Diabetes, one of the paper's: 45 features of 92,062 people at unit costs, in three classes.

    The class is fasting glucose, at most 100 mg/dL, between, or at least 125, taken as the mean where it
    was not measured. As in the reference, one-hot columns are acquired one by one, and missing cells are
    imputed by their column's mean.
    """
    path = find(_FILE, data_dir)
    table = read_table(path, (_ROWS, N_FEATURES + 1))
    if table.columns[-1] != _TARGET:
        raise damaged(path, f"ends in the column {table.columns[-1]!r}, not in {_TARGET!r}")
    features = [str(name) for name in table.columns[:-1]]
    y = labels(path, numbers(path, table, [_TARGET])[:, 0], len(_CLASS_NAMES))
    for absent in np.setdiff1d(np.arange(len(_CLASS_NAMES)), y)[:1]:
        raise damaged(path, f"has no row of class {absent}")
    return real_dataset(
        "diabetes",
        RawRows(numbers(path, table, features), y),
        features,
        classes=_CLASS_NAMES,
        budgets=BUDGETS,
        preprocessing=IMPUTE,
        source="NHANES 1999-2016, Kachuee et al. (2019), as prepared in iancovert/dynamic-selection",
        licence="MIT; the survey is in the public domain",
    )
