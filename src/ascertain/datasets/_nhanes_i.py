"""NHANES I: eighteen of the survey's measurements, and who survived for 15 years."""

from pathlib import Path

import numpy as np

from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.datasets._nhanes_mortality import COSTS as COAI_COSTS
from ascertain.datasets._nhanes_mortality import FREE, UNKNOWN_COST
from ascertain.datasets._real import check_classes, damaged, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find
from ascertain.tables._encoding import actions_of

FEATURES = (
    *("Age", "Diastolic BP", "Poverty index", "Race", "Red blood cells", "Sedimentation rate"),
    *("Serum Albumin", "Serum Cholesterol", "Serum Iron", "Serum Magnesium", "Serum Protein", "Sex"),
    *("Systolic BP", "TIBC", "TS", "White blood cells", "BMI", "Pulse pressure"),
)
GROUPS = {
    "Blood pressure": ("Diastolic BP", "Systolic BP", "Pulse pressure"),
    "Iron studies": ("Serum Iron", "TIBC", "TS"),
}
COSTS = dict.fromkeys(("Age", "Blood pressure", "Poverty index", "Race", "Sex", "BMI"), FREE) | {
    "Red blood cells": COAI_COSTS["Red Blood Cells"],
    "Sedimentation rate": COAI_COSTS["Sedimentation Rate"],
    "Serum Albumin": COAI_COSTS["Serum Albumin"],
    "Serum Cholesterol": COAI_COSTS["Cholesterol"],
    "Iron studies": UNKNOWN_COST,
    "Serum Magnesium": UNKNOWN_COST,
    "Serum Protein": COAI_COSTS["Serum Protein"],
    "White blood cells": COAI_COSTS["CBC Auto"],
}
BUDGETS = (5, 10)
YEARS = 15

_HOME = "https://github.com/shap/shap/tree/master/data"
_RAW = "https://raw.githubusercontent.com/shap/shap/master/data"
_X_FILE = Source(
    path="nhanes_mortality/NHANESI_subset_X.csv.gz",
    home=_HOME,
    url=f"{_RAW}/NHANESI_subset_X.csv",
    others=("nhanes_mortality/NHANESI_subset_X.csv",),
    sha256="cef5336deb83640da63adb3a36ddd436da49f685480c87a37c8b2959602bcb99",
)
_Y_FILE = Source(
    path="nhanes_mortality/NHANESI_subset_y.csv.gz",
    home=_HOME,
    url=f"{_RAW}/NHANESI_subset_y.csv",
    others=("nhanes_mortality/NHANESI_subset_y.csv",),
    sha256="a26b0d295c0bbad0aa8034be8598274e35bd43c98e5a25cfcb407453cae4d7aa",
)
_ROWS = 9932
_CLASSES = (2484, 6794)


def nhanes_i(data_dir: Path | None = None) -> Dataset:
    """NHANES I, a stand-in for the paper's NHANES mortality: 18 features of 9,278 people in 14 actions.

    Class 1 survived for 15 years; the 654 people who were lost sight of earlier are left out. The blood
    pressures are taken together, and so are the iron studies. Prices are CoAI's, its rule for
    unknown ones included, and the budgets are those of `nhanes_mortality`. Missing cells stay missing.
    Splits are stratified, as those of the dataset it stands in for.
    """
    path = find(_X_FILE, data_dir)
    table = read_table(path, (_ROWS, 1 + len(FEATURES)))
    years_path = find(_Y_FILE, data_dir)
    years_table = read_table(years_path, (_ROWS, 2))
    if not table.iloc[:, 0].equals(years_table.iloc[:, 0]):
        raise damaged(years_path, f"numbers its rows otherwise than {path.name}")
    years = numbers(years_path, years_table, ["y"])[:, 0]  # negative if last known to be alive
    survived = np.abs(years) > YEARS
    known = survived | ((years > 0) & (years <= YEARS))
    y = survived[known].astype(np.int64)
    check_classes(years_path, y, _CLASSES)
    return real_dataset(
        "nhanes_i",
        RawRows(numbers(path, table, FEATURES)[known], y),
        FEATURES,
        classes=("died", "survived"),
        budgets=BUDGETS,
        actions=actions_of(FEATURES, GROUPS),
        costs=COSTS,
        source="NHANES I and its follow-up, as distributed with shap",
        licence="MIT; the survey is in the public domain",
    )
