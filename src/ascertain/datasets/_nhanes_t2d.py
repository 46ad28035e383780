"""NHANES 1999-2016: examinations of a survey's participants, and their blood glucose in three classes."""

from pathlib import Path

import numpy as np
import pandas as pd

from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.datasets._real import check_classes, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find
from ascertain.tables._encoding import actions_of

_ETHNICITIES = ("Mexican American", "other Hispanic", "White", "Black", "other")  # codes 1 to 5
_ETHNICITY = tuple(f"ethnicity={name}" for name in _ETHNICITIES)
_MEASURED = (
    *("gender", "age", "education", "SBP1", "DBP1", "SBP2", "DBP2", "SBP3", "DBP3", "SBP4", "DBP4"),
    *("BMI", "waist", "height", "TC", "TG", "LDL", "HDL"),
    *("famhist_T2D", "ever_hypertension", "current_smoker", "active", "born_USA", "fasting_hr"),
)
FEATURES = (*_MEASURED[:2], *_ETHNICITY, *_MEASURED[2:14], "weight", *_MEASURED[14:])
BUDGETS = (5, 10, 15)

_REFUSED = (7, 9, 77, 99)
_CODED = (
    *("education", "famhist_T2D", "ever_hypertension"),
    *("current_smoker", "active", "born_USA"),
)
_LAST_SURVEY = 9  # 2015-2016: with it, the people of the paper's Diabetes data
_MG_PER_DL = 18.0182  # of glucose, in a mmol/L
_BORDERS = (100, 125)  # mg/dL

_FILE = Source(
    path="diabetes/nhanes_t2d_1999_2018.csv.gz",
    home="https://github.com/Tirgit/NHANES_T2D",
    others=("diabetes/nhanes_t2d_1999_2018.csv",),
    sha256="00016910b51d3fc2142fe23c97146ad3b9ee495866e3769ee51029ea6f37f44d",
    note="save the data frame of Data/full_df.rds as nhanes_t2d_1999_2018.csv, with a header, commas "
    "between cells and nothing or NA in empty ones (in R: write.csv(d, file, row.names = FALSE))",
)
_SHAPE = (101316, 44)
_CLASSES = (43428, 9782, 4860)


def nhanes_t2d(data_dir: Path | None = None) -> Dataset:
    """NHANES 1999-2016, a stand-in for the paper's Diabetes: 30 features of 58,070 people in 26 actions.

    The class is serum glucose, at most 100 mg/dL, between, or at least 125, of those in whom it was
    measured. The five one-hot columns of ethnicity are one action; all actions cost 1, and the budgets
    are those of `diabetes`. Answers that were refused or not known are missing, and missing cells stay
    missing. Codes of the survey are kept as numbers. Splits are stratified, as those of the dataset it
    stands in for.
    """
    path = find(_FILE, data_dir)
    table = read_table(path, _SHAPE)
    survey, glucose = numbers(path, table, ["survey_nr", "glucose"]).T
    kept = (survey <= _LAST_SURVEY) & ~np.isnan(glucose)
    amount = glucose[kept] * _MG_PER_DL
    y = (amount > _BORDERS[0]).astype(np.int64) + (amount >= _BORDERS[1])
    check_classes(path, y, _CLASSES)
    return real_dataset(
        "nhanes_t2d",
        RawRows(_features(path, table[kept]), y),
        FEATURES,
        classes=("normal", "raised", "diabetic"),
        budgets=BUDGETS,
        actions=actions_of(FEATURES, {"ethnicity": _ETHNICITY}),
        source="NHANES 1999-2016 (US CDC/NCHS), as prepared in Tirgit/NHANES_T2D",
        licence="public domain",
    )


def _features(path: Path, table: pd.DataFrame) -> np.ndarray:
    columns = dict(zip(_MEASURED, numbers(path, table, _MEASURED).T, strict=True))
    for name in _CODED:
        columns[name] = np.where(np.isin(columns[name], _REFUSED), np.nan, columns[name])
    columns["weight"] = columns["BMI"] * (columns["height"] / 100) ** 2
    code = numbers(path, table, ["ethnicity"])[:, 0]
    for number, name in enumerate(_ETHNICITY, start=1):
        columns[name] = np.where(np.isnan(code), np.nan, code == number)
    return np.column_stack([columns[name] for name in FEATURES])
