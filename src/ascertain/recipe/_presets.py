"""The settings that the paper and its reference implementation use, by dataset: one table for all parts.

Settings that are not listed are the part's defaults. Rows for `magic`, `nhanes_i` and `nhanes_t2d` are our
choice: tables of their size are trained for some hundred epochs by the reference.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ascertain import methods, predictors, restoration
from ascertain.datasets._dataset import Dataset
from ascertain.errors import InputError, did_you_mean
from ascertain.protocol import Protocol

Changes = Mapping[str, Any]

_PREDICTOR_ON_CUBE: dict[str, Changes] = {"predictor": {"epochs": 2000, "batch_size": 128, "dropout": 0.1}}
_CUBE: dict[str, Changes] = {**_PREDICTOR_ON_CUBE, "dime": {"pretraining_epochs": 100}}
_CUBE_NM: dict[str, Changes] = {
    **_PREDICTOR_ON_CUBE,
    "pvae": {"schedule": {"patience": 500, "min_delta": 1e-2}},
}
_HUNDRED_EPOCHS = {"epochs": 100, "batch_size": 128, "dropout": 0.1}
_MORE_EPOCHS = {"epochs": 300, "batch_size": 128, "dropout": 0.1}


def _search(**changes: Any) -> dict[str, Changes]:
    """Settings of AACO, also for the network that imitates it."""
    return {"aaco": changes, "aaco_nn": changes}


PRESETS: dict[str, dict[str, Changes]] = {
    "cube": _CUBE,
    "cube_noiseless": _CUBE,
    "cube_nuc": _CUBE,
    "cube_nuc_noiseless": _CUBE,
    "cube_nm": _CUBE_NM,
    "cube_nm_noiseless": _CUBE_NM,
    "actg175": _search(acquisition_cost=0.02),
    "diabetes": {"predictor": _MORE_EPOCHS, **_search(neighbours=3, acquisition_cost=0.1)},
    "magic": {"predictor": _MORE_EPOCHS},
    "miniboone": {"predictor": {"epochs": 1000, "batch_size": 128, "dropout": 0.1}},
    "nhanes_i": {"predictor": _HUNDRED_EPOCHS},
    "nhanes_mortality": _search(acquisition_cost=0.02),
    "nhanes_t2d": {"predictor": _HUNDRED_EPOCHS},
    "physionet2012": {"predictor": _HUNDRED_EPOCHS, **_search(acquisition_cost=0.02)},
}

# Under the reference's reading GDFS and DIME acquire for as many steps as CUBE-NUC has features.
_AFABENCH_CUBE_NUC: dict[str, Changes] = {"gdfs": {"steps": 20}, "dime": {"steps": 20}}
_AFABENCH: dict[str, dict[str, Changes]] = {
    "cube_nuc": _AFABENCH_CUBE_NUC,
    "cube_nuc_noiseless": _AFABENCH_CUBE_NUC,
}


def predictor_settings(dataset: Dataset, name: str = "mlp", changes: Changes | None = None) -> Any:
    """Settings of the fixed predictor.

    Examples
    --------
    >>> from ascertain import load
    >>> predictor_settings(load("cube"), changes={"epochs": 20}).epochs
    20
    """
    # The paper's settings are those of its own predictor.
    table = "predictor" if name == "mlp" else ""
    settings = _settings(table, predictors.get(name).settings(), dataset, None, None)
    return overridden(settings, changes or {}, "settings.predictor")


def restorer_settings(name: str, dataset: Dataset, changes: Changes | None = None) -> Any:
    """Settings of a restorer, or of the model that it shares with others.

    Examples
    --------
    >>> from ascertain import load
    >>> restorer_settings("mixture", load("cube"), {"starts": 1}).starts
    1
    """
    part = restoration.get(name)
    return _settings(
        part.shares.settings_name if part.shares else name, part.settings(), dataset, None, changes
    )


def method_settings(
    name: str, dataset: Dataset, protocol: Protocol, changes: Changes | None = None, shared: Any = None
) -> Any:
    """Settings of a method, completed for the dataset's problem.

    Parameters
    ----------
    name
        The method.
    dataset
        The dataset, at the budget that is planned for.
    protocol
        How to read the paper.
    changes
        What to set otherwise.
    shared
        Settings of the model that the method shares with others, if it does.

    Examples
    --------
    >>> from ascertain import PAPER, load
    >>> method_settings("gdfs", load("cube"), PAPER, {"epochs": 10}).epochs
    10
    """
    method = methods.get(name)
    settings = _settings(name, method.settings(), dataset, protocol, changes)
    if shared is not None:
        own = [
            f.name for f in dataclasses.fields(settings) if type(getattr(settings, f.name)) is type(shared)
        ]
        settings = dataclasses.replace(settings, **dict.fromkeys(own, shared))
    return method.completed(settings, dataset.problem, protocol)


def overridden(settings: Any, changes: Changes, where: str) -> Any:
    """Settings with some fields changed; nested dataclasses by nested mappings.

    A value must have the type of its field, and be in the range that the type says (`_core.settings`).
    """
    fields = [field.name for field in dataclasses.fields(settings)]
    types = get_type_hints(type(settings), include_extras=True)
    changed = {}
    for name, value in changes.items():
        if name not in fields:
            raise InputError(f"{where} has no setting {name!r}; {did_you_mean(name, fields)}")
        now = getattr(settings, name)
        if dataclasses.is_dataclass(now) and isinstance(value, Mapping):
            changed[name] = overridden(now, value, f"{where}.{name}")
        else:
            changed[name] = _validated(types[name], value, f"{where}.{name}")
    return dataclasses.replace(settings, **changed)


def _validated(kind: Any, value: Any, where: str) -> Any:
    """A value of a setting; neither `true` nor a text is a number, and a list stands for a tuple."""
    value = tuple(value) if isinstance(value, list) else value
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
        what = first["msg"].removeprefix("Value error, ")  # of a check of our own
        raise InputError(f"{where}{place}: {what}, got {first['input']!r}") from error


def _settings(
    table: str, settings: Any, dataset: Dataset, protocol: Protocol | None, changes: Changes | None
) -> Any:
    """Defaults, then the paper's for a dataset, then the dataset's metric, then the user's changes."""
    preset = dict(PRESETS.get(dataset.name, {}).get(table, {}))
    if protocol is not None and protocol.greedy_horizon == "steps":
        preset |= _AFABENCH.get(dataset.name, {}).get(table, {})
    if any(field.name == "metric" for field in dataclasses.fields(settings)):
        preset["metric"] = dataset.metric  # routes are compared by the metric that scores them
    settings = overridden(settings, preset, f"presets.{dataset.name}.{table}")
    return overridden(settings, changes or {}, f"settings.{table}")
