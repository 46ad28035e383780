"""What was run: the axes of the study, how far it came, and what it took."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ascertain.analysis.damage import ARMS
from ascertain.analysis.results import Results
from ascertain.errors import InputError
from ascertain.reporting.names import dataset_name, in_order, mechanism_name, policy_name, restorer_name
from ascertain.reporting.tables import number_text


@dataclass(frozen=True)
class Fact:
    """A label and what stands beside it."""

    label: str
    text: str


@dataclass(frozen=True)
class Notice:
    """Something that a reader must know before reading any number."""

    title: str
    text: str


def describe_run(found: Results) -> list[Fact]:
    """List what was run, from the rows themselves; the study file only says what was planned."""
    study, results = found.study, found.results
    datasets = in_order("dataset", results["dataset"])
    hidden = results[results["mechanism"] != ""]
    facts = [
        Fact("Study", str(study["name"])) if study.get("name") else None,
        Fact("Datasets", ", ".join(map(dataset_name, datasets))),
        Fact("Methods", ", ".join(_policies(results))),
        Fact("Treatments", ", ".join(sorted(set(results["treatment"]), key=_treatment_order))),
        _named("Restorers", set(results["restorer"]) - {""}, restorer_name),
        _named("Mechanisms", in_order("mechanism", hidden["mechanism"]), mechanism_name),
        listed_values("Missingness rates", hidden, "rate"),
        listed_values("Splits", results, "split"),
        listed_values("Protocol", results, "protocol"),
        Fact("Evaluation budgets", "; ".join(_budgets(results, each) for each in datasets)),
        Fact("Cells", _progress(found)),
        _seconds(found.timings),
        listed_values("Device", results, "device"),
    ]
    return [fact for fact in facts if fact is not None]


def notices(results: pd.DataFrame) -> list[Notice]:
    """Warn about rows that must not be taken for the paper's experiment."""
    short = results.loc[results["shortened"].astype(bool), "cell"].nunique()
    if not short:
        return []
    part = "All" if short == results["cell"].nunique() else f"{number_text(short, 0)} of the"
    text = (
        f"{part} {_counted(results['cell'].nunique(), 'cell')} were trained with shortened settings. Their "
        "numbers are not the paper's and must not be compared with them."
    )
    return [Notice("Shortened settings", text)]


def planned_cells(file: Path) -> int | None:
    """Count the cells that a study file asks for, or give None where that cannot be known."""
    if not file.is_file():
        return None
    from ascertain.study.file import read_study  # loads every method, for which nothing else here waits

    try:
        study = read_study(file)
    except InputError:  # of another version, or with a method that is not installed here
        return None
    masks = len(study.mechanisms) * len(study.rates)
    times = {"complete": 1, "restricted": masks, "restored": masks * len(study.restorers)}
    per_split = len(study.variants) * sum(times[treatment] for treatment in study.treatments)
    return per_split * len(study.datasets) * len(study.splits)


def duration(seconds: float) -> str:
    """Write seconds as people say them.

    Examples
    --------
    >>> duration(0.031), duration(4.2), duration(600), duration(9000)
    ('0.03 s', '4.2 s', '10.0 min', '2.5 h')
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def listed_values(label: str, frame: pd.DataFrame, column: str) -> Fact | None:
    """List the distinct values of a column; None if there are none."""
    found = frame[column].dropna().unique()
    texts = _texts(found)
    return Fact(label, ", ".join(texts)) if texts else None


def _texts(values: Iterable[Any]) -> list[str]:
    """Give values as texts in their own order: numbers by size, names by the alphabet."""
    kept = sorted(value for value in values if value != "")
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in kept]


def _named(label: str, keys: Iterable[str], name: Callable[[str], str]) -> Fact | None:
    names = [name(key) for key in keys]
    return Fact(label, ", ".join(names)) if names else None


def _policies(results: pd.DataFrame) -> list[str]:
    """Name each method, with its state variants where it has several."""
    texts = []
    for method in in_order("method", results["method"]):
        states = sorted(set(results.loc[results["method"] == method, "state"]))
        variants = [policy_name(method, state) for state in states]
        texts.append(" and ".join(variants) if len(states) > 1 else policy_name(method))
    return texts


def _treatment_order(treatment: str) -> tuple[int, str]:
    return (ARMS.index(treatment) if treatment in ARMS else len(ARMS), treatment)


def _budgets(results: pd.DataFrame, dataset: str) -> str:
    found = results.loc[results["dataset"] == dataset, "budget"].unique()
    return f"{dataset_name(dataset)}: {', '.join(_texts(found))}"


def _progress(found: Results) -> str:
    done = found.results["cell"].nunique()
    planned = planned_cells(found.folder / "study.toml")
    if planned is None or planned < done:
        return f"{number_text(done, 0)} done"
    if planned == done:
        return f"all {number_text(done, 0)} done"
    return f"{number_text(done, 0)} of {number_text(planned, 0)} planned done ({100 * done // planned}%)"


def _seconds(timings: pd.DataFrame) -> Fact | None:
    if timings.empty:
        return None
    whole = timings.assign(seconds=timings["chunk_seconds"] / timings["chunk_jobs"])  # empty places included
    by_stage = whole.groupby("stage")["seconds"].sum().sort_values(ascending=False)
    parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in by_stage.items())
    return Fact("Compute time", f"{duration(float(by_stage.sum()))} without compilation ({parts})")


def _counted(number: int, noun: str) -> str:
    return f"{number_text(number, 0)} {noun}{'' if number == 1 else 's'}"
