"""Labels, order and colours of parts in figures and tables: what the parts say of themselves.

A name that is not registered, such as that of a plugin that is not loaded, is its own label.
"""

from collections.abc import Iterable
from itertools import cycle
from types import ModuleType
from typing import Literal

import pandas as pd

from ascertain import datasets, methods, missingness, restoration
from ascertain.methods._registry import Kind, Method
from ascertain.reporting._style import MUTED

_FURTHER_COLOURS = ("#A03C5A", "#3B6B3B", "#2F4B7C", "#8A6FBF", "#5B6770", "#C2571A")
_METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
_PACKAGES = {"dataset": datasets, "method": methods, "mechanism": missingness}


def dataset_name(dataset: str) -> str:
    """Label of a dataset, the paper's where it has one."""
    return _label(datasets, dataset)


def policy_name(method: str, state: str = "") -> str:
    """Label of a method, or of one of its state variants: `OL`, `OL (s,m)`.

    A method with a single variant has no suffix.
    """
    label, found = _label(methods, method), _method(method)
    if state == "sm":
        return f"{label} (s,m)"
    return f"{label} (s)" if state == "s" and found is not None and len(found.states) > 1 else label


def with_policies(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `policy`: the label of each row's method and state variant."""
    pairs = zip(frame["method"], frame["state"], strict=True)
    return frame.assign(policy=[policy_name(method, state) for method, state in pairs])


def mechanism_name(mechanism: str) -> str:
    """Label of a missingness mechanism."""
    return _label(missingness, mechanism)


def restorer_name(restorer: str) -> str:
    """Label of a restorer, with the number of completions if there are several."""
    name, _, completions = restorer.partition(":")
    label = _label(restoration, name)
    return f"{label} with {completions} completions" if completions else label


def way_name(treatment: str, restorer: str) -> str:
    """Label of what is done about holes: that of the restorer, or the treatment where nothing is restored."""
    return restorer_name(restorer) if restorer else treatment


def metric_name(metric: str) -> str:
    """Label of a metric."""
    return _METRICS.get(metric, metric)


def kind_of(method: str) -> Kind:
    """Kind of a method, by which the paper's figure 5 shades rows; `other` for what it does not show."""
    found = _method(method)
    return "other" if found is None or found.kind == "baseline" else found.kind


def without_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the baselines, unless there is nothing else."""
    compared = frame[~frame["method"].map(_is_baseline).astype(bool)]
    return compared if len(compared) else frame


def only_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the baselines."""
    return frame[frame["method"].map(_is_baseline).astype(bool)]


def in_order(kind: Literal["dataset", "method", "mechanism"], names: Iterable[str]) -> list[str]:
    """Distinct names in the order in which they are registered, unknown ones last by alphabet."""
    known = _PACKAGES[kind].names()
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def colours(names: Iterable[str]) -> dict[str, str]:
    """Colour of each method: its own, grey for baselines, distinct ones for others."""
    further, given = cycle(_FURTHER_COLOURS), {}
    for name in in_order("method", names):
        found = _method(name)
        own = MUTED if _is_baseline(name) else None if found is None else found.color
        given[name] = own or next(further)
    return given


def plain(text: str, most: int = 30) -> str:
    """Shorten a name for a figure, and keep Matplotlib from reading it as mathematics."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("$", r"\$")


def panel_title(dataset: str, metric: str) -> str:
    """Title of a dataset's panel: its label and its metric."""
    return f"{plain(dataset_name(dataset))}, {plain(metric_name(metric))}"


def _label(package: ModuleType, name: str) -> str:
    return str(package.get(name).label) if name in package.names() else name


def _is_baseline(method: str) -> bool:
    found = _method(method)
    return found is not None and found.kind == "baseline"


def _method(name: str) -> Method | None:
    return methods.get(name) if name in methods.names() else None
