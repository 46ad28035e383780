"""ACTG 175: a trial of HIV treatments, and whether the event was observed."""

from pathlib import Path

from ascertain.datasets._dataset import Dataset
from ascertain.datasets._real import IMPUTE, labelled_rows, read_table, real_dataset
from ascertain.datasets._sources import Source, find

FEATURES = (
    *("time", "trt", "age", "wtkg", "hemo", "homo", "drugs", "karnof", "oprior", "z30", "zprior"),
    *("preanti", "race", "gender", "str2", "strat", "symptom", "treat", "offtrt"),
    *("cd40", "cd420", "cd80", "cd820"),
)
BUDGETS = (3, 5, 10)

_FILE = Source(
    path="actg175/ACTG175.csv",
    home="https://archive.ics.uci.edu/dataset/890",
    url="https://raw.githubusercontent.com/CamDavidsonPilon/lifelines/master/lifelines/datasets/ACTG175.csv",
    others=("actg175/ACTG175.csv.gz",),
    sha256="56fba31fa0d7bfbff9667b7149fd96a97c352e72aa582871a62a935e812f0e07",
)
_UCI_NAMES = {"days": "time", "arms": "trt", "cens": "cid"}  # the file has those of the R package
_SHAPE = (2139, 28)
_CLASSES = (1618, 521)


def actg175(data_dir: Path | None = None) -> Dataset:
    """ACTG 175, one of the paper's: 23 features of 2,139 patients, at unit costs.

    The class says whether the event was observed or the patient censored. Note that `time`, the days to
    either, is among the reference's features. Nothing is missing that its mean imputation would fill.
    """
    path = find(_FILE, data_dir)
    table = read_table(path, _SHAPE).rename(columns=_UCI_NAMES)
    return real_dataset(
        "actg175",
        labelled_rows(path, table, FEATURES, "cid", _CLASSES),
        FEATURES,
        classes=("censored", "event"),
        budgets=BUDGETS,
        preprocessing=IMPUTE,
        source="UCI data set 890, Hammer et al. (1996), as distributed with lifelines",
        licence="CC BY 4.0",
    )
