"""Whether what a study file names exists, and whether its numbers make sense."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

from ascertain import datasets, methods, missingness, predictors, restoration
from ascertain._core.checks import check_rate
from ascertain.errors import InputError, did_you_mean
from ascertain.evaluation._auto import AUTO
from ascertain.recipe._presets import overridden
from ascertain.restoration._registry import Restoring
from ascertain.restoration._treatments import PAPERS

if TYPE_CHECKING:
    from ascertain.study._file import Study

_MOST_SPLITS = 2**31  # seeds of splits are numbers of 32 bits
_LONGEST_NAME = 80  # bytes; names of cells are longer by what else they are about


def check_study(study: "Study") -> None:
    """Raise an `InputError` that names the key and what is wrong with it."""
    _check_names(study)
    _check_values(study)


def _check_file_name(key: str, name: str) -> None:
    """Raise unless a name can be that of a file or folder, wherever the study is run."""
    if any(unicodedata.category(character)[0] == "C" for character in name):
        raise InputError(f"{key}: {name!r} has a control character")
    wrong = [character for character in '/\\:*?"<>|' if character in name]
    if wrong:
        raise InputError(f"{key}: {name!r} names files, so it cannot contain {wrong[0]}")
    if not name or name != name.strip() or name[0] in ".-" or name[-1] == ".":
        raise InputError(
            f"{key}: {name!r} names files, so it must begin with a letter or digit, and not end in a space "
            "or dot"
        )
    if len(name.encode()) > _LONGEST_NAME:
        raise InputError(f"{key}: {name[:20]!r}... names files, so it can have {_LONGEST_NAME} bytes at most")


def _check_names(study: "Study") -> None:
    """Raise where something is named that does not exist, or twice, or cannot name files."""
    _check_file_name("name", study.name)
    for name in study.tables:
        _check_file_name("tables", name)
    for name, state in study.variants:
        methods.get(name).check_state(state)
    predictors.get(study.predictor)
    for name in study.tables:
        if name in datasets.names():
            raise InputError(f"tables.{name}: there is a dataset of this name; give the table another one")
        if name not in study.datasets:
            raise InputError(f"tables.{name} is not used: list {name!r} in datasets")
    known: dict[str, Iterable[str]] = {
        "datasets": (*study.tables, *datasets.names()),
        "restorers": restoration.names(),
        "mechanisms": missingness.names(),
        "holes": missingness.names(),
        "budgets": study.datasets,
        "settings": ("predictor", *restoration.names(), *methods.names()),
    }
    for key, names in known.items():
        for entry in getattr(study, key) or ():
            name = entry.partition(":")[0] if key == "restorers" else entry[0] if key == "holes" else entry
            if name not in names:
                hint = did_you_mean(name, names)
                if hint.startswith("there are"):
                    hint += "; one of your own is known after ascertain --plugin FILE study ..."
                raise InputError(f"{key}: there is no {name!r}; {hint}")
    for entry in study.restorers:
        if len(entry.encode()) > _LONGEST_NAME:
            raise InputError(f"restorers: {entry[:20]!r}... can have {_LONGEST_NAME} bytes at most")
        Restoring.parse(entry)
    for name, table in study.tables.items():
        for key in ("path", "costs", "setup"):
            value = getattr(table, key)
            if isinstance(value, str) and "\0" in value:
                raise InputError(f"tables.{name}.{key}: a path cannot contain the character NUL")
    for key in ("datasets", "methods", "treatments", "restorers", "mechanisms", "rates", "holes", "splits"):
        values = getattr(study, key) or ()
        for value in values:
            if values.count(value) > 1:
                raise InputError(f"{key} lists {value!r} twice")


def _check_values(study: "Study") -> None:
    """Raise where a number is out of range, or a treatment lacks what it needs."""
    for rate in (*study.rates, *(rate for _, rate in study.holes or ())):
        check_rate(rate)
    for split in study.splits:
        if not 0 <= split < _MOST_SPLITS:
            raise InputError(f"splits are numbered from 0 to {_MOST_SPLITS - 1}, got {split}")
    budgets = {f"budgets.{name}": amounts for name, amounts in study.budgets.items()}
    budgets |= {f"tables.{name}.budgets": table.budgets for name, table in study.tables.items()}
    for key, amounts in budgets.items():
        if not amounts or not all(_is_finite(amount) and amount > 0 for amount in amounts):
            raise InputError(f"{key} must be one or more positive numbers, got {list(amounts)}")
    for name, changes in study.settings.items():
        _check_settings(name, changes, study.predictor)
    if study.holes is not None:
        for key in ("mechanisms", "rates"):
            if key in study.model_fields_set:
                raise InputError(f"holes says which mechanisms hide cells at which rates: leave {key} out")
    treatments = set(study.treatments or PAPERS)
    if treatments - {"complete"} and (study.mechanisms == () or not study.rates or study.holes == ()):
        raise InputError(
            "restricted and restored data need at least one of mechanisms and of rates, or holes"
        )
    if AUTO in treatments and not ("restricted" in treatments and treatments & {"restored", "direct"}):
        raise InputError(
            "treatments: auto chooses among the other treatments of rows with holes; list restricted, and "
            "restored or direct, beside it"
        )
    if "restored" in treatments and not study.restorers:
        raise InputError("restored data need at least one of restorers")


def _is_finite(amount: SupportsFloat) -> bool:
    """Whether an amount is finite as a float; a whole number may be too large for one."""
    try:
        return math.isfinite(float(amount))
    except OverflowError:
        return False


def _check_settings(name: str, changes: Mapping[str, Any], predictor: str) -> None:
    """Raise where a setting does not exist, has the wrong type, or belongs to a shared model."""
    if name in methods.names():
        part: Any = methods.get(name)
    else:
        part = predictors.get(predictor) if name == "predictor" else restoration.get(name)
    shared = getattr(part, "shares", None)
    if shared is not None and name != shared.settings_name:
        own = type(shared.settings())
        for field in changes:
            if name in restoration.names() or isinstance(getattr(part.settings(), field, None), own):
                table = shared.settings_name
                raise InputError(f"settings.{name}.{field}: set this in [settings.{table}], as it is shared")
    overridden(part.settings(), changes, f"settings.{name}")
