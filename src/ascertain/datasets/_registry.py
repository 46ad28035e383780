"""The datasets by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass

from ascertain.registry import Function, Part, Registry


@dataclass(frozen=True, kw_only=True)
class DatasetPart(Part):
    """A registered dataset.

    Parameters
    ----------
    fit
        The function that returns the `Dataset`; it takes nothing, or the folder to look for files in.

    Examples
    --------
    >>> from ascertain import datasets
    >>> datasets.get("cube").label
    'CUBE'
    """


_DATASETS = Registry("dataset", "ascertain.datasets", ("_catalog",), DatasetPart)
get, names, find = _DATASETS.get, _DATASETS.names, _DATASETS.find


def register(
    name: str, *, summary: str | None = None, label: str | None = None
) -> Callable[[Function], Function]:
    """Register a dataset under a name; decorates a function that returns a `Dataset`.

    The function takes nothing, or the folder to look for files in (`data_dir`, perhaps None). An installed
    package makes its datasets known by an entry point in the group `ascertain.datasets` that names the module
    with the decorated function.

    Parameters
    ----------
    name
        What users type.
    summary
        One line about it; by default the first line of the function's docstring.
    label
        What figures and tables call it; by default the name.

    Examples
    --------
    >>> from ascertain import datasets
    >>> @datasets.register("large_cube", summary="CUBE with 10,000 rows.")
    ... def large_cube():
    ...     return datasets.cube(10_000)
    >>> datasets.get("large_cube").summary
    'CUBE with 10,000 rows.'
    """
    return _DATASETS.register(name, summary=summary, label=label)
