"""The datasets by name: ours, and those that users register."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ascertain.registry import Part, Registry

Load = TypeVar("Load", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class DatasetPart(Part):
    """What there is to know about a dataset before it is loaded.

    Parameters
    ----------
    fit
        The function that returns the `Dataset`; it takes nothing, or the folder to look for files in.
    """


_DATASETS: Registry[DatasetPart] = Registry("dataset", "ascertain.datasets", ("_catalog",))
get, names, find = _DATASETS.get, _DATASETS.names, _DATASETS.find


def register(name: str, *, summary: str | None = None, label: str | None = None) -> Callable[[Load], Load]:
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
    """

    def add(load: Load) -> Load:
        line = summary or (load.__doc__ or "").strip().partition("\n")[0]
        _DATASETS.add(DatasetPart(name=name, summary=line, label=label or name, fit=load))
        return load

    return add
