"""Restorers where holes are a hospital's own and the truth is known.

    python benchmarks/hospital.py            # four tables, four treatments; ten minutes on two cores
    python benchmarks/hospital.py --tables 1 --restorers mixture nearest

Columns of PhysioNet 2012 that nearly everybody has get the holes of columns that some patients lack, 8% to
95% of them. So who is measured depends on the patient as it does in a hospital, and policies can be scored on
complete rows: AUROC of GDFS with three measurements besides age, sex and ward.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier, load
from ascertain.datasets._export import TARGET, export
from ascertain.restoration._registry import Restoring

KNOWN = ["Age", "Gender", "ICUType"]
BUDGET, N_TEST = 3, 2500
NEARLY_ALL, HARDLY_ANY = 0.97, 0.03  # shares of the patients
RESTRICTED = "restricted"


def hospital() -> tuple[pd.DataFrame, "pd.Series[str]", pd.DataFrame]:
    """Complete rows of columns that nearly everybody has, the outcome, and who has other columns."""
    exported = export(load("physionet2012")).table
    table = exported.drop(columns=TARGET).select_dtypes("number")
    share = table.notna().mean()
    whole = table[share.index[share >= NEARLY_ALL]]
    rows = whole.notna().all(axis=1)
    measured = table.notna()[share.index[(share > HARDLY_ANY) & (share < NEARLY_ALL)]]
    return whole[rows], exported.loc[rows, TARGET], measured[rows]


def hide(table: pd.DataFrame, measured: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Give every column that can be bought the holes of another one, drawn at random."""
    hidden = table.copy()
    columns = [name for name in table if name not in KNOWN]
    for name, other in zip(columns, rng.choice(measured.columns, len(columns), replace=False), strict=True):
        hidden[name] = hidden[name].where(measured[other])
    return hidden


def classifier(treatment: str) -> AcquisitionClassifier:
    """GDFS, trained on rows as they are or restored."""
    if treatment == RESTRICTED:
        return AcquisitionClassifier(treatment=RESTRICTED, budget=BUDGET, known=KNOWN, random_state=0)
    restorer, completions = Restoring.parse(treatment)
    return AcquisitionClassifier(
        restorer=restorer, completions=completions, budget=BUDGET, known=KNOWN, random_state=0
    )


def main() -> None:
    """Print the score of each treatment for each table, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--restorers", nargs="+", default=["pvae_noise", "mixture", "ensemble:6", RESTRICTED])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # who was measured tells the class, as it does in a hospital
    table, died, measured = hospital()
    scores: dict[str, list[float]] = {treatment: [] for treatment in arguments.restorers}
    for number in range(arguments.tables):
        rng = np.random.default_rng(number)
        hidden, order = hide(table, measured, rng), rng.permutation(len(table))
        test, train = order[:N_TEST], order[N_TEST:]
        for treatment, found in scores.items():
            model = classifier(treatment).fit(hidden.iloc[train], died.iloc[train])
            found.append(model.score(table.iloc[test], died.iloc[test], metric="auroc"))
            print(f"table {number}, {treatment}: {found[-1]:.3f}", flush=True)
    for treatment, found in scores.items():
        print(f"mean, {treatment}: {np.mean(found):.3f}")


if __name__ == "__main__":
    main()
