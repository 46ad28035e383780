"""Labels, order and colours of datasets, methods, mechanisms and restorers in figures and tables.

A name that is not listed here is its own label.
"""

from collections.abc import Iterable
from itertools import cycle
from typing import Literal, NamedTuple

import pandas as pd

from ascertain.reporting.style import MUTED

Kind = Literal["myopic", "intermediate", "terminal", "other"]

_DATASETS = {
    "cube": "CUBE",
    "cube_nm": "CUBE-NM",
    "cube_nuc": "CUBE-NUC",
    "cube_noiseless": "CUBE (noiseless)",
    "cube_nm_noiseless": "CUBE-NM (noiseless)",
    "cube_nuc_noiseless": "CUBE-NUC (noiseless)",
    "actg175": "ACTG175",
    "diabetes": "Diabetes",
    "nhanes_mortality": "NHANES",
    "miniboone": "MiniBooNE",
    "heart_disease": "Heart Disease",
    "heart_sites": "Heart Disease (sites)",
    "nhanes_i": "NHANES I",
    "nhanes_t2d": "NHANES (diabetes)",
    "magic": "MAGIC",
    "physionet2012": "PhysioNet 2012",
}


class _Method(NamedTuple):
    """How a method is shown; its kind is that of the paper's figure 5: whether it plans, and its rewards."""

    label: str
    colour: str = MUTED
    kind: Kind = "other"
    two_states: bool = False


_METHODS = {
    "dime": _Method("DIME", "#1777AE", "myopic"),
    "gdfs": _Method("GDFS", "#00825F", "myopic"),
    "aaco": _Method("AACO", "#BB5300", "terminal"),
    "jafa": _Method("JAFA", "#882255", "terminal", two_states=True),
    "ol": _Method("OL", "#976800", "intermediate", two_states=True),
    "odin": _Method("ODIN", "#6F69AF", "intermediate", two_states=True),
    "static": _Method("static route"),
    "random": _Method("random"),
    "sequential": _Method("sequential"),
    "stop": _Method("no acquisition"),
}
_BASELINES = ("static", "random", "sequential", "stop")
_FURTHER_COLOURS = ("#A03C5A", "#3B6B3B", "#2F4B7C", "#8A6FBF", "#5B6770", "#C2571A")
_MECHANISMS = {
    "mcar": "MCAR",
    "mar": "MAR",
    "mnar_logistic": "MNAR (logistic)",
    "mnar_self": "MNAR (self-masking)",
}
_RESTORERS = {"pvae": "PVAE", "hotdeck": "hot deck", "mean": "mean"}
_METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}


def dataset_name(dataset: str) -> str:
    """Label of a dataset, the paper's where it has one."""
    return _DATASETS.get(dataset, dataset)


def policy_name(method: str, state: str = "") -> str:
    """Label of a method, or of one of its state variants: `OL`, `OL (s,m)`.

    A method with a single variant has no suffix.
    """
    shown = _METHODS.get(method, _Method(method))
    if state == "sm":
        return f"{shown.label} (s,m)"
    return f"{shown.label} (s)" if state == "s" and shown.two_states else shown.label


def with_policies(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `policy`: the label of each row's method and state variant."""
    pairs = zip(frame["method"], frame["state"], strict=True)
    return frame.assign(policy=[policy_name(method, state) for method, state in pairs])


def mechanism_name(mechanism: str) -> str:
    """Label of a missingness mechanism."""
    return _MECHANISMS.get(mechanism, mechanism)


def restorer_name(restorer: str) -> str:
    """Label of a restorer."""
    return _RESTORERS.get(restorer, restorer)


def metric_name(metric: str) -> str:
    """Label of a metric."""
    return _METRICS.get(metric, metric)


def kind_of(method: str) -> Kind:
    """Kind of a method, by which the paper's figure 5 shades rows; `other` if it is not in the paper."""
    return _METHODS[method].kind if method in _METHODS else "other"


def without_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the baselines, unless there is nothing else."""
    compared = frame[~frame["method"].isin(_BASELINES)]
    return compared if len(compared) else frame


def only_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the baselines."""
    return frame[frame["method"].isin(_BASELINES)]


def in_order(kind: Literal["dataset", "method", "mechanism"], names: Iterable[str]) -> list[str]:
    """Distinct names in the order in which they are listed here, unknown ones last by alphabet."""
    known = {"dataset": [*_DATASETS], "method": [*_METHODS], "mechanism": [*_MECHANISMS]}[kind]
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def colours(methods: Iterable[str]) -> dict[str, str]:
    """Colour of each method: the paper's, grey for baselines, distinct ones for others."""
    ordered = in_order("method", methods)
    further = cycle(_FURTHER_COLOURS)
    return {name: _METHODS[name].colour if name in _METHODS else next(further) for name in ordered}


def plain(text: str, most: int = 30) -> str:
    """Shorten a name for a figure, and keep Matplotlib from reading it as mathematics."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def panel_title(dataset: str, metric: str) -> str:
    """Title of a dataset's panel: its label and its metric."""
    return f"{plain(dataset_name(dataset))}, {plain(metric_name(metric))}"
