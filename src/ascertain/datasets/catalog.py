"""The datasets by name."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ascertain.datasets import synthetic
from ascertain.datasets.actg175 import actg175
from ascertain.datasets.dataset import Dataset
from ascertain.datasets.diabetes import diabetes
from ascertain.datasets.heart_disease import heart_disease, heart_sites
from ascertain.datasets.magic import magic
from ascertain.datasets.miniboone import miniboone
from ascertain.datasets.nhanes_i import nhanes_i
from ascertain.datasets.nhanes_mortality import nhanes_mortality
from ascertain.datasets.nhanes_t2d import nhanes_t2d
from ascertain.datasets.physionet2012 import physionet2012
from ascertain.errors import InputError

# Loaders of synthetic data take no folder; loaders of real data take the one that files are looked for in.
_SYNTHETIC: dict[str, Callable[[], Dataset]] = {
    "cube": synthetic.cube,
    "cube_nm": synthetic.cube_nm,
    "cube_nuc": synthetic.cube_nuc,
    "cube_noiseless": synthetic.cube_noiseless,
    "cube_nm_noiseless": synthetic.cube_nm_noiseless,
    "cube_nuc_noiseless": synthetic.cube_nuc_noiseless,
}
_REAL: dict[str, Callable[[Path | None], Dataset]] = {
    "actg175": actg175,
    "heart_disease": heart_disease,
    "nhanes_mortality": nhanes_mortality,
    "diabetes": diabetes,
    "miniboone": miniboone,
    # Not the paper's, and named apart from its own so that no result is taken for one of them.
    "heart_sites": heart_sites,
    "nhanes_i": nhanes_i,
    "nhanes_t2d": nhanes_t2d,
    "magic": magic,
    "physionet2012": physionet2012,
}

NAMES: tuple[str, ...] = (*_SYNTHETIC, *_REAL)


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name
        One of `NAMES`.
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
    if name in _SYNTHETIC:
        return replace(_SYNTHETIC[name](), name=name)
    if name in _REAL:
        return _REAL[name](data_dir)
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(NAMES)}"
    raise InputError(f"no dataset is called {name!r}{hint}")
