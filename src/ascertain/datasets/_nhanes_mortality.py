"""NHANES mortality: a survey's examinations, in 27 panels with prices, and who lived on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ascertain.datasets._dataset import Dataset, Preprocessing, RawRows
from ascertain.datasets._real import check_classes, damaged, labels, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find

FREE = 0.001  # what CoAI adds to every price, so that nothing costs 0
_UNKNOWN_PRICE = 4.83029411765  # CoAI's for a test without a price: the mean of its 34 known ones
UNKNOWN_COST = _UNKNOWN_PRICE + FREE
BUDGETS = (5, 10)
N_FEATURES = 118


# In CoAI's order: the price of a panel, and what it measures. The columns of a measurement, its indicators
# included, have its name in theirs.
_PANELS: dict[str, tuple[float, tuple[str, ...]]] = {
    "BUN": (4.39, ("bun",)),
    "Age": (0.0, ("age",)),
    "Alkaline Phosphatase": (9.56, ("alkaline_phosphatase",)),
    "CBC w/Diff": (
        8.63,
        (
            *("band_neutrophils", "basophils", "eosinophils"),
            *("lymphocytes", "monocytes", "segmented_neutrophils"),
        ),
    ),
    "Calcium": (5.73, ("calcium",)),
    "Cholesterol": (14.88, ("cholesterol",)),
    "Creatinine": (5.69, ("creatinine",)),
    "Height": (0.0, ("height",)),
    "Hemoglobin": (2.63, ("hematocrit", "hemoglobin")),
    "Physical Activity": (0.0, ("physical_activity",)),
    "CBC Auto": (7.18, ("platelets", "white_blood_cells")),
    "Potassium": (5.11, ("potassium",)),
    "Pulse Pressure": (0.0, ("pulse_pressure",)),
    "Red Blood Cells": (3.35, ("red_blood_cells",)),
    "Sedimentation Rate": (3.00, ("sedimentation_rate",)),
    "Serum Albumin": (5.50, ("serum_albumin",)),
    "Serum Protein": (4.07, ("serum_protein",)),
    "Sex": (0.0, ("sex",)),
    "Sodium": (5.35, ("sodium",)),
    "Systolic BP": (0.0, ("systolic_blood_pressure",)),
    "Total Bilirubin": (5.57, ("total_bilirubin",)),
    "Uric Acid": (5.02, ("uric_acid",)),
    "Urine Albumin": (6.42, ("urine_albumin",)),
    "Urine Glucose": (4.37, ("urine_glucose",)),
    "Urinalysis": (2.41, ("urine_hematest", "urine_ph")),
    "Weight": (0.0, ("weight",)),
    "SGOT": (_UNKNOWN_PRICE, ("sgot",)),
}
COSTS = {name: price + FREE for name, (price, _) in _PANELS.items()}

_HOME = "https://github.com/suinleelab/coai"
_RAW = f"{_HOME}/raw/4b5abba/data/nhanes"
_X_FILE = Source(
    path="nhanes_mortality/X_nhanes_binary.csv",
    home=_HOME,
    url=f"{_RAW}/X_nhanes_binary.csv",
    others=("nhanes_mortality/X_nhanes_binary.csv.gz",),
    sha256="22074d137dadfdf18a949c84f7d5efc6ce68ca731472f2b1cbc7c9d3271af4b4",
    git_blob="5dd8543ad05a7b0d39173bc1080b6e6f6d76efa3",
)
_Y_FILE = Source(
    path="nhanes_mortality/y_nhanes_binary.npy",
    home=_HOME,
    url=f"{_RAW}/y_nhanes_binary.npy",
    sha256="5f6ad190e7a97d37ce1de17a54f912a823b72b60391d2fbdfcfa5491a1561d5e",
)
_CLASSES = (3371, 10071)


def nhanes_mortality(data_dir: Path | None = None) -> Dataset:
    """NHANES mortality, one of the paper's: 118 features of 13,442 people in 27 panels at CoAI's prices.

    Class 1 survived for 15 years (the reference calls it ten-year mortality). As in the reference,
    missing cells are imputed by their column's mean; this and the scaling use the training part alone,
    in both protocols.
    """
    path = find(_X_FILE, data_dir)
    table = read_table(path, (sum(_CLASSES), 1 + N_FEATURES))
    features = [str(name) for name in table.columns[1:]]  # the first column numbers the participants
    return real_dataset(
        "nhanes_mortality",
        RawRows(numbers(path, table, features), _read_labels(data_dir)),
        features,
        classes=("died", "survived"),
        budgets=BUDGETS,
        actions=panel_columns(path, features),
        costs=COSTS,
        preprocessing=Preprocessing(impute=True, over_all_rows=False),
        source="NHANES I and its follow-up, as prepared by CoAI (suinleelab/coai)",
        licence="MIT; the survey is in the public domain",
    )


def panel_columns(path: Path, features: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns of each panel: those with the name of one of its measurements in theirs."""
    panel_of = {measured: panel for panel, (_, measurements) in _PANELS.items() for measured in measurements}
    columns: dict[str, list[str]] = {panel: [] for panel in _PANELS}
    for feature in features:
        measured = [measurement for measurement in panel_of if measurement in feature.lower()]
        if len(measured) != 1:
            raise damaged(path, f"has the column {feature!r}, which belongs to no measurement or to several")
        columns[panel_of[measured[0]]].append(feature)
    for panel in [name for name, members in columns.items() if not members][:1]:
        raise damaged(path, f"has no column for {panel!r}")
    return {name: tuple(members) for name, members in columns.items()}


def _read_labels(data_dir: Path | None) -> np.ndarray:
    path = find(_Y_FILE, data_dir)
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise damaged(path, f"cannot be read as an array ({error})") from error
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise damaged(path, f"has {values.dtype} in shape {values.shape}, not one number for each row")
    y = labels(path, values, len(_CLASSES))
    check_classes(path, y, _CLASSES)
    return y
