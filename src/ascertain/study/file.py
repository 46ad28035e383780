"""Study files: what to run, as TOML that is checked before anything is computed."""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ascertain import datasets, methods
from ascertain._core.checks import check_rate
from ascertain._core.files import replacing
from ascertain.errors import InputError
from ascertain.missingness import MECHANISMS
from ascertain.predictors import masked_mlp as predictor
from ascertain.recipe.pipeline import RESTORERS
from ascertain.restoration import pvae
from ascertain.restoration.treatments import TREATMENTS, Treatment

Names = tuple[str, ...]
SHARED_SETTINGS = ("predictor", "pvae")  # what `[settings]` may name besides methods


class Study(BaseModel):
    """Everything that decides which cells a study has and how each is computed.

    Attributes
    ----------
    name
        What the report calls it.
    protocol
        `paper` or `afabench`.
    datasets
        Names of the catalog.
    methods
        Names of the registry; `jafa` means all of its state variants, `jafa:sm` one.
    treatments, restorers, mechanisms, rates, splits
        What to cross. Complete data are trained on once, whatever the mechanisms and rates.
    budgets
        By dataset, if others than its own are to be evaluated; the largest is trained for.
    settings
        By method, or for `predictor` and `pvae`: settings other than the paper's.
    routes
        Whether to also measure the structure of fixed routes (table 1 of the paper).
    seed
        Enters every random key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1)
    protocol: Literal["paper", "afabench"] = "paper"
    datasets: Names = Field(min_length=1)
    methods: Names = Field(min_length=1)
    treatments: tuple[Treatment, ...] = Field(TREATMENTS, min_length=1)
    restorers: Names = ("pvae",)
    mechanisms: Names = ("mcar",)
    rates: tuple[float, ...] = (0.7,)
    splits: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1)
    budgets: dict[str, tuple[float, ...]] = {}
    settings: dict[str, dict[str, Any]] = {}
    routes: bool = True
    seed: int = Field(0, ge=0, lt=2**32)

    @property
    def variants(self) -> list[tuple[str, str]]:
        """The methods with each of the state variants that are asked for, in order."""
        found = []
        for entry in self.methods:
            name, _, state = entry.partition(":")
            found += [(name, each) for each in ([state] if state else methods.get(name).states)]
        return list(dict.fromkeys(found))

    def narrowed(self, names: Iterable[str] | None, protocol: str | None) -> "Study":
        """Give the study on some of its datasets only, or under the other protocol."""
        chosen: dict[str, Any] = {} if protocol is None else {"protocol": protocol}
        if names is not None:
            wanted = tuple(names)
            for name in wanted:
                if name not in self.datasets:
                    raise InputError(f"the study has no dataset {name!r}; {_hint(name, self.datasets)}")
            chosen |= {"datasets": wanted, "budgets": {k: v for k, v in self.budgets.items() if k in wanted}}
        return _validated(self.model_dump() | chosen, f"study {self.name!r}")


def shipped() -> dict[str, str]:
    """Give the names of the study files that come with the package, with their first comment."""
    found = {}
    for entry in sorted(resources.files("ascertain.study").joinpath("files").iterdir(), key=lambda e: e.name):
        found[entry.name.removesuffix(".toml")] = entry.read_text().splitlines()[0].lstrip("# ")
    return found


def read_study(source: str | Path) -> Study:
    """Read a study file, or one of those that come with the package by its name.

    Examples
    --------
    >>> len(read_study("paper").datasets)
    8
    """
    path = Path(source)
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    elif str(source).removesuffix(".toml") in shipped():
        name = str(source).removesuffix(".toml")
        text = resources.files("ascertain.study").joinpath("files", f"{name}.toml").read_text()
    else:
        raise InputError(f"there is no study file {source}; those that come along: {', '.join(shipped())}")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}") from error
    return _validated(content, str(source))


def write_study(study: Study, path: Path) -> None:
    """Write a study file that `read_study` gives back."""
    with replacing(path) as temporary:
        temporary.write_text(study_text(study), encoding="utf-8")


def study_text(study: Study) -> str:
    """Give a study as TOML."""
    lines = []
    tables: dict[str, Mapping[str, Any]] = {"budgets": study.budgets, "settings": study.settings}
    for key, value in study.model_dump(exclude=set(tables)).items():
        lines.append(f"{key} = {_toml(value)}")
    for table, entries in tables.items():
        lines += ["", f"[{table}]"] * bool(entries)
        lines += [f"{_toml(key)} = {_toml(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def overridden(settings: Any, changes: Mapping[str, Any], where: str) -> Any:
    """Give a settings dataclass with some fields changed, nested ones as nested tables."""
    fields = {field.name: field for field in dataclasses.fields(settings)}
    merged = {name: getattr(settings, name) for name in fields}
    for name, value in changes.items():
        if name not in fields:
            raise InputError(f"{where} has no setting {name!r}; {_hint(name, fields)}")
        nested = dataclasses.is_dataclass(merged[name]) and isinstance(value, Mapping)
        merged[name] = overridden(merged[name], value, f"{where}.{name}") if nested else value
    try:
        return TypeAdapter(type(settings)).validate_python(merged)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}.{place}: {first['msg']}, got {first['input']!r}") from error


def _validated(content: dict[str, Any], where: str) -> Study:
    try:
        study = Study.model_validate(_tuples(content))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise InputError(
                f"{where}: no key is called {place!r}; {_hint(place, Study.model_fields)}"
            ) from None
        if first["type"] == "missing":
            raise InputError(f"{where}: the key {place!r} is missing") from None
        raise InputError(f"{where}: {place}: {first['msg']}, got {first['input']!r}") from None
    try:
        _check_names(study)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return study


def _check_names(study: Study) -> None:
    """Raise where something is named that does not exist, or twice."""
    for name, state in study.variants:
        methods.get(name).check_state(state)
    known: dict[str, Iterable[str]] = {
        "datasets": datasets.NAMES,
        "restorers": RESTORERS,
        "mechanisms": MECHANISMS,
        "budgets": study.datasets,
        "settings": (*SHARED_SETTINGS, *methods.names()),
    }
    for key, names in known.items():
        for name in getattr(study, key):
            if name not in names:
                raise InputError(f"{key}: there is no {name!r}; {_hint(name, names)}")
    for key in ("datasets", "methods", "treatments", "restorers", "mechanisms", "rates", "splits"):
        values = getattr(study, key)
        for value in values:
            if values.count(value) > 1:
                raise InputError(f"{key} lists {value!r} twice")
    for rate in study.rates:
        check_rate(rate)
    for split in study.splits:
        if split < 0:
            raise InputError(f"splits are numbered from 0, got {split}")
    for name, amounts in study.budgets.items():
        if not amounts or not all(np.isfinite(amount) and amount > 0 for amount in amounts):
            raise InputError(f"budgets.{name} must be one or more positive numbers, got {list(amounts)}")
    for name, changes in study.settings.items():
        if "vae" in changes:
            raise InputError(f"settings.{name}.vae: the Partial VAE is shared; change it in [settings.pvae]")
        overridden(_usual_settings(name), changes, f"settings.{name}")
    _check_treatments(study)


def _usual_settings(name: str) -> Any:
    """Give the settings that a table of `[settings]` changes, for no dataset in particular."""
    shared = {"predictor": predictor.Settings, "pvae": pvae.Settings}
    return shared[name]() if name in shared else methods.get(name).settings()


def _check_treatments(study: Study) -> None:
    """Raise where a treatment lacks what it needs."""
    if set(study.treatments) - {"complete"} and not (study.mechanisms and study.rates):
        raise InputError("restricted and restored data need at least one of mechanisms and of rates")
    if "restored" in study.treatments and not study.restorers:
        raise InputError("restored data need at least one of restorers")


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


def _tuples(value: Any) -> Any:
    """Turn lists into tuples, and whole numbers stay as they are."""
    if isinstance(value, Mapping):
        return {key: _tuples(each) for key, each in value.items()}
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
