"""MiniBooNE: electron neutrinos (signal) among muon neutrinos (background), by 50 particle variables."""

from pathlib import Path

import numpy as np

from ascertain.datasets._dataset import Dataset, RawRows
from ascertain.datasets._real import IMPUTE, damaged, labelled_rows, numbers, read_table, real_dataset
from ascertain.datasets._sources import Source, find

FEATURES = tuple(f"pid{i}" for i in range(50))  # they have no names of their own
BUDGETS = (5, 10, 15)

_FILE = Source(
    path="miniboone/miniboone.csv",
    home="https://archive.ics.uci.edu/dataset/199",
    url="https://raw.githubusercontent.com/iancovert/dynamic-selection/main/datasets/miniboone.csv",
    others=("miniboone/miniboone.csv.gz", "miniboone/MiniBooNE_PID.txt"),
    git_blob="1c2bee82e8d5d8ca5c1e238c5322456610c63ef6",
)
_CLASSES = (93565, 36499)


def miniboone(data_dir: Path | None = None) -> Dataset:
    """MiniBooNE, one of the paper's: 50 features of 130,064 events at unit costs; class 1 is signal.

    The file is the reference's, or UCI's `MiniBooNE_PID.txt`, whose rows come in another order. As in
    the reference, missing cells would be imputed by their column's mean, but the value -999, which stands for
    a failed fit, is left as it is.
    """
    path = find(_FILE, data_dir)
    return real_dataset(
        "miniboone",
        _read_uci(path) if path.suffix == ".txt" else _read_csv(path),
        FEATURES,
        classes=("background", "signal"),
        budgets=BUDGETS,
        preprocessing=IMPUTE,
        source="UCI data set 199, Roe (2005), as prepared in iancovert/dynamic-selection",
        licence="CC BY 4.0",
    )


def _read_csv(path: Path) -> RawRows:
    table = read_table(path, (sum(_CLASSES), len(FEATURES) + 1)).set_axis([*FEATURES, "class"], axis=1)
    return labelled_rows(path, table, FEATURES, "class", _CLASSES)


def _read_uci(path: Path) -> RawRows:
    """Read UCI's layout: a line with the numbers of signals and backgrounds, then all signals first."""
    background, signal = _CLASSES
    with path.open(errors="replace") as file:
        head = file.readline().split()
    if head != [str(signal), str(background)]:
        raise damaged(path, f"starts with {' '.join(head)!r}, not with '{signal} {background}'")
    table = read_table(path, (sum(_CLASSES), len(FEATURES)), names=FEATURES, separator=" ", skip=1)
    return RawRows(numbers(path, table, FEATURES), np.repeat([1, 0], [signal, background]))
