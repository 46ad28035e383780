"""Heart disease: the Cleveland data of the paper, and the same tests at four hospitals, full of holes."""

from pathlib import Path

import numpy as np

from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.datasets._real import IMPUTE, check_classes, labels, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find
from ascertain.tables._encoding import actions_of

# P. Turney's prices in Canadian dollars, each feature on its own (his group discounts are left out).
COSTS = {
    "age": 1.00,
    "sex": 1.00,
    "cp": 1.00,
    "trestbps": 1.00,
    "chol": 7.27,
    "fbs": 5.20,
    "restecg": 15.50,
    "thalach": 102.90,
    "exang": 87.30,
    "oldpeak": 87.30,
    "slope": 87.30,
    "ca": 100.90,
    "thal": 102.90,
}
FEATURES = tuple(COSTS)
BUDGETS = (2, 4, 7)
SITES_BUDGETS = (7, 30, 120)

_HOME = "https://archive.ics.uci.edu/dataset/45"
_ORIGIN = "UCI data set 45, Janosi, Steinbrunn, Pfisterer and Detrano (1989)"
_LICENCE = "CC BY 4.0"
_CLASS_NAMES = ("healthy", "diseased")
_SEVERITIES = 5  # 0 is healthy
_DISGUISED = ("trestbps", "chol")  # no living patient has a 0 here


def _file(site: str, sha256: str | None = None) -> Source:
    name = f"processed.{site}.data"
    url = f"https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/{name}"
    return Source(f"heart_disease/{name}", _HOME, url, sha256=sha256)


# Copies of the other three differ in how they write numbers, so only Cleveland's bytes are checked.
_FILES = {
    "cleveland": _file("cleveland", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
    "hungarian": _file("hungarian"),
    "switzerland": _file("switzerland"),
    "va": _file("va"),
}
_CLASSES = {"cleveland": (164, 139), "hungarian": (188, 106), "switzerland": (8, 115), "va": (51, 149)}


def heart_disease(data_dir: Path | None = None) -> Dataset:
    """Heart Disease, one of the paper's: 13 features of 303 patients in Cleveland, at Turney's prices.

    The class says whether there is any disease. The prices are raw dollars, so that within the largest
    budget only five of the features can be bought. As in the reference, six missing cells (4 of `ca`, 2 of
    `thal`) are imputed by their column's mean.
    """
    return real_dataset(
        "heart_disease",
        _read("cleveland", data_dir),
        FEATURES,
        classes=_CLASS_NAMES,
        budgets=BUDGETS,
        costs=COSTS,
        stratified=False,
        preprocessing=IMPUTE,
        source=f"{_ORIGIN}, Cleveland",
        licence=_LICENCE,
    )


def heart_sites(data_dir: Path | None = None) -> Dataset:
    """Heart disease at four sites: 920 patients, whose holes are the hospitals' own.

    The features and prices of `heart_disease`, and `site`: four one-hot columns that one free action
    reveals. Zeros of `chol` and `trestbps` are missing values in disguise. Nothing is imputed. The smallest
    budget is the paper's largest; 30 adds chemistry and the electrocardiogram, 120 a costly test.
    Splits are stratified, as those of most of the paper's real datasets.
    """
    sites = [_read(site, data_dir) for site in _FILES]
    x = np.concatenate([site.x for site in sites])
    disguised = np.isin(FEATURES, _DISGUISED) & (x == 0)
    origin = np.repeat(np.eye(len(sites)), [len(site.y) for site in sites], axis=0)
    columns = tuple(f"site={name}" for name in _FILES)
    features = FEATURES + columns
    return real_dataset(
        "heart_sites",
        RawRows(np.hstack([np.where(disguised, np.nan, x), origin]), np.concatenate([s.y for s in sites])),
        features,
        classes=_CLASS_NAMES,
        budgets=SITES_BUDGETS,
        actions=actions_of(features, {"site": columns}),
        costs=COSTS | {"site": 0.0},
        source=f"{_ORIGIN}, Cleveland, Budapest, Zurich and Basel, Long Beach",
        licence=_LICENCE,
    )


def _read(site: str, data_dir: Path | None) -> RawRows:
    path = find(_FILES[site], data_dir)
    names = (*FEATURES, "num")
    table = read_table(path, (sum(_CLASSES[site]), len(names)), names=names, missing="?")
    y = np.minimum(labels(path, numbers(path, table, ["num"])[:, 0], _SEVERITIES), 1)
    check_classes(path, y, _CLASSES[site])
    return RawRows(numbers(path, table, FEATURES), y)
