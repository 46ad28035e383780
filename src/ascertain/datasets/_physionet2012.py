"""PhysioNet 2012: two days of measurements in intensive care, and who died in hospital."""

from pathlib import Path

from ascertain.datasets._dataset import Dataset, Preprocessing
from ascertain.datasets._real import labelled_rows, read_table, real_dataset
from ascertain.datasets._sources import Source, find

FEATURES = (
    *("Age", "BUN", "Creatinine", "GCS", "Gender", "Glucose", "HCO3", "HCT", "HR", "Height", "ICUType"),
    *("K", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na", "Platelets", "RespRate", "Temp", "Urine", "WBC"),
    *("Weight", "DiasABP", "FiO2", "MAP", "MechVent", "PaCO2", "PaO2", "SaO2", "SysABP", "pH", "ALP"),
    *("ALT", "AST", "Albumin", "Bilirubin", "Lactate", "Cholesterol", "TroponinI", "TroponinT"),
)
BUDGETS = (5, 10, 15)

_FILE = Source(
    path="physionet2012/physionet.csv.gz",
    home="https://physionet.org/content/challenge-2012",
    url="https://raw.githubusercontent.com/Linusaronsson/AFA-Benchmark/dev2/extra/data/misc/physionet.csv",
    others=("physionet2012/physionet.csv",),
    sha256="daca2ea78d228b93488f68938ab667a31e683adcbe916b77769633bc297aad91",
)
_CLASSES = (10293, 1707)


def physionet2012(data_dir: Path | None = None) -> Dataset:
    """PhysioNet 2012: 41 features of 12,000 patients at unit costs; class 1 died in hospital.

    26% of the cells are missing, and no patient has them all. Unlike the reference, which imputes them by
    the mean, they stay missing: these holes are the data's own. Costs and budgets are the reference's.
    Splits are stratified, since one patient in seven died.
    """
    path = find(_FILE, data_dir)
    table = read_table(path, (sum(_CLASSES), len(FEATURES) + 1))
    return real_dataset(
        "physionet2012",
        labelled_rows(path, table, FEATURES, "Outcome", _CLASSES),
        FEATURES,
        classes=("survived", "died"),
        budgets=BUDGETS,
        preprocessing=Preprocessing(scale=True, impute=False),
        source="PhysioNet/CinC Challenge 2012, as prepared for AFABench",
        licence="Open Data Commons Attribution",
    )
