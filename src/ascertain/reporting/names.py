"""What datasets, methods and mechanisms are called in figures and tables, their order and their colours."""

from collections.abc import Iterable
from typing import Literal

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
_METHODS = {
    "dime": "DIME",
    "gdfs": "GDFS",
    "aaco": "AACO",
    "jafa": "JAFA",
    "ol": "OL",
    "odin": "ODIN",
    "static": "static route",
    "random": "random",
    "sequential": "sequential",
    "stop": "no acquisition",
}
_MECHANISMS = {
    "mcar": "MCAR",
    "mar": "MAR",
    "mnar_logistic": "MNAR (logistic)",
    "mnar_self": "MNAR (self-masking)",
}
_RESTORERS = {"pvae": "PVAE", "hotdeck": "hot deck", "mean": "mean"}
_METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}

# The colours of the paper's text.
_COLOURS = {
    "aaco": "#BB5300",
    "dime": "#1777AE",
    "gdfs": "#00825F",
    "jafa": "#882255",
    "ol": "#976800",
    "odin": "#6F69AF",
}
_FURTHER_COLOURS = ("#A03C5A", "#3B6B3B", "#2F4B7C", "#8A6FBF", "#5B6770", "#C2571A")

# How the paper's figure 5 tells methods apart: by whether they plan, and what they are rewarded by.
_KINDS: dict[str, Kind] = {
    "dime": "myopic",
    "gdfs": "myopic",
    "ol": "intermediate",
    "odin": "intermediate",
    "aaco": "terminal",
    "jafa": "terminal",
}
_BASELINES = ("static", "random", "sequential", "stop")
_TWO_STATES = ("jafa", "ol", "odin")

PAPER_DATASETS = (
    *("cube", "cube_nm", "cube_nuc", "actg175", "diabetes", "nhanes_mortality", "miniboone"),
    "heart_disease",
)
PAPER_METHODS = tuple(_COLOURS)


def dataset_name(dataset: str) -> str:
    """Name a dataset as the paper does; one that we do not know keeps its own name."""
    return _DATASETS.get(dataset, dataset)


def policy_name(method: str, state: str = "") -> str:
    """Name a method, or one of its state variants: `OL`, `OL (s,m)`.

    A method with a single variant is called by its own name.
    """
    name = _METHODS.get(method, method)
    if state == "sm":
        return f"{name} (s,m)"
    return f"{name} (s)" if state == "s" and method in _TWO_STATES else name


def with_policies(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `policy`: the name of each row's method and state variant."""
    pairs = zip(frame["method"], frame["state"], strict=True)
    return frame.assign(policy=[policy_name(method, state) for method, state in pairs])


def mechanism_name(mechanism: str) -> str:
    """Name a missingness mechanism."""
    return _MECHANISMS.get(mechanism, mechanism)


def restorer_name(restorer: str) -> str:
    """Name a way of restoring."""
    return _RESTORERS.get(restorer, restorer)


def metric_name(metric: str) -> str:
    """Name a score."""
    return _METRICS.get(metric, metric)


def kind_of(method: str) -> Kind:
    """Say what kind of method it is, for the style of its rows; `other` for those not in the paper."""
    return _KINDS.get(method, "other")


def without_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out the methods that only set a mark for others, unless there is nothing else."""
    compared = frame[~frame["method"].isin(_BASELINES)]
    return compared if len(compared) else frame


def only_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the methods that only set a mark for others."""
    return frame[frame["method"].isin(_BASELINES)]


def in_order(kind: Literal["dataset", "method", "mechanism"], names: Iterable[str]) -> list[str]:
    """Put names in the order in which we list them, others last by alphabet; each once."""
    known = list({"dataset": _DATASETS, "method": _METHODS, "mechanism": _MECHANISMS}[kind])
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def colours(methods: Iterable[str]) -> dict[str, str]:
    """Give each method its colour: the paper's, grey for baselines, and distinct ones for others."""
    ordered = in_order("method", methods)
    others = [name for name in ordered if name not in _COLOURS and name not in _BASELINES]
    further = {name: _FURTHER_COLOURS[i % len(_FURTHER_COLOURS)] for i, name in enumerate(others)}
    return {name: _COLOURS.get(name) or further.get(name, MUTED) for name in ordered}


def plain(text: str, most: int = 30) -> str:
    """Make a name fit for a figure: not too long, and not read as mathematics."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def panel_title(dataset: str, metric: str) -> str:
    """Title a dataset's panel: its name, and what it is scored by."""
    return f"{plain(dataset_name(dataset))}, {plain(metric_name(metric))}"
