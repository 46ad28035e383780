"""A fitted `AcquisitionClassifier` on disk: a saved model with encoding and parameters in `preprocessing`."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import numpy as np
from pydantic import Field, PositiveInt

from ascertain._core.arrays import on_device
from ascertain._core.json import Strict, canonical, first_finding
from ascertain.errors import InputError, StoreError
from ascertain.estimator._advisor import Advisor, Origin
from ascertain.estimator._ranges import Ranges
from ascertain.evaluation._auto import AutoChoice
from ascertain.missingness._label_signs import LabelSign
from ascertain.models._files import REMEDY
from ascertain.models._saving import SavedModel, load_model, save_model
from ascertain.predictors._calibration import Calibrated
from ascertain.predictors._masked_mlp import HostPredictor
from ascertain.tables._dates import day_name
from ascertain.tables._encoding import Encoding

_KINDS = {"b": bool, "i": int, "u": int, "f": float, "U": str}
_MOST = 1e30  # of a number: far beyond any of a model, and sums of them do not overflow single precision
_MOST_BYTES = 2**28  # of all classes, each with room for the longest one

_Amount = Annotated[float, Field(ge=0, le=_MOST)]


class _Ranges(Strict):
    """The numbers of `Ranges`; those of the classes that are not predicted come first."""

    unexplained: list[_Amount] = Field(min_length=1)
    factors: tuple[list[_Amount], list[_Amount]]


class _Preprocessing(Strict):
    """What a classifier has in addition to a saved model."""

    encoding: dict[str, Any]
    classes: list[bool | int | float | str] = Field(min_length=2)
    # As NumPy names it, which would read far more than classes are saved with, such as structures.
    class_type: str = Field(pattern=r"^(\|b1|[<>|][iu][1248]|[<>]f[0-9]{1,2}|[<>]U[0-9]{1,9}|O)$")
    temperature: float = Field(gt=0, le=_MOST)
    ranges: _Ranges
    parameters: dict[str, Any]
    auto: AutoChoice | None = None
    target: str | None = None
    table_rows: tuple[PositiveInt, PositiveInt] | None = None
    habits: tuple[LabelSign, ...] = ()


class _Parameters(Strict, extra="allow"):
    """The parameters of the constructor that must be there in this type; it looks at the others itself."""

    method: str = ""
    state: str = ""
    treatment: str | None = None
    restorer: str | None = None
    predictor: str = ""
    effort: str = ""
    completions: int = 1
    budget: float | None = None
    costs: dict[str, float] | None = None
    groups: dict[str, list[str]] | None = None
    known: list[str] | None = None
    default_cost: float | None = None
    class_weight: str | None = None
    validation_fraction: float = 0.2
    random_state: int | None = None
    stop_early: bool = False


def save_advisor(path: str | Path, advisor: Advisor, parameters: dict[str, Any]) -> None:
    """Write an advisor, with the parameters of the classifier's constructor as plain data."""
    if isinstance(advisor.predictor.predictor, HostPredictor):
        found = advisor.predictor.predictor.predictor
        name = type(getattr(found, "estimator", found)).__name__
        raise InputError(
            f"a {name} can only be saved with pickle, which executes code when it is loaded; fit with "
            'predictor="mlp" to save the model'
        )
    classes = advisor.classes
    more = _Preprocessing(
        encoding=advisor.encoding.to_json(),
        classes=_as_json(classes),
        class_type=classes.dtype.str if classes.dtype.kind in _KINDS else "O",
        temperature=float(advisor.predictor.temperature),
        ranges=_Ranges(
            unexplained=advisor.ranges.unexplained.tolist(), factors=tuple(advisor.ranges.factors.tolist())
        ),
        parameters=parameters,
        auto=advisor.auto,
        target=advisor.target,
        table_rows=advisor.table_rows,
        habits=advisor.habits,
    )
    model = SavedModel(
        **vars(advisor.origin),
        policy=advisor.policy,
        problem=advisor.problem,
        protocol=advisor.protocol,
        predictor=advisor.predictor.predictor,
        restorer=advisor.restorer,
        preprocessing=more.model_dump(mode="json"),
    )
    save_model(path, model)


def load_advisor(path: str | Path) -> tuple[Advisor, dict[str, Any]]:
    """Read an advisor, and the parameters that were saved with it."""
    model = load_model(path)
    if model.predictor is None or model.restorer is None:
        raise StoreError(f"{path} holds a policy but no classifier; it can be read with ascertain.load_model")
    try:
        more = _Preprocessing.model_validate_json(canonical(model.preprocessing))
        _Parameters.model_validate_json(canonical(more.parameters))
        encoding = Encoding.from_json(more.encoding)
        _check_dates(encoding)
        classes = _from_json(more.classes, more.class_type)
        problem = encoding.problem(float(model.problem.budget), [str(each) for each in classes])
        if model.problem.decision_costs is not None:
            problem = problem.with_decision_costs(np.asarray(model.problem.decision_costs))
    except (TypeError, ValueError, OverflowError) as error:  # whole numbers in JSON can be of any size
        raise StoreError(
            f"{path} does not hold a classifier that can be used: {first_finding(error)}; {REMEDY}"
        ) from error
    ranges = Ranges(on_device(more.ranges.unexplained), on_device(more.ranges.factors))
    if ranges.n_columns != len(encoding.columns) or ranges.factors.shape[1] != 1 + ranges.n_columns:
        raise StoreError(f"the ranges of {path} do not fit its columns; {REMEDY}")
    if not eqx.tree_equal(problem, model.problem):
        raise StoreError(f"the columns of {path} do not fit its policy; {REMEDY}")
    origin = Origin(**{each.name: getattr(model, each.name) for each in fields(Origin)})
    predictor = Calibrated(model.predictor, on_device(more.temperature, np.float32))
    learned = (model.policy, predictor, model.restorer, ranges)
    advisor = Advisor(encoding, classes, model.problem, *learned, origin, model.protocol)
    told = {name: getattr(more, name) for name in ("auto", "target", "table_rows", "habits")}
    return replace(advisor, **told), more.parameters


def _as_json(classes: np.ndarray) -> list[Any]:
    """Classes as plain data."""
    if classes.dtype.kind in _KINDS:
        return [_KINDS[classes.dtype.kind](each) for each in classes]
    for each in classes:
        if not isinstance(each, str):
            raise InputError(
                f"the class {each!r} cannot be written as JSON; use texts or numbers for classes"
            )
    return list(classes)


def _from_json(classes: list[Any], kind: str) -> np.ndarray:
    """Classes as they were in the training table; raises rather than take much memory."""
    found = np.dtype(kind)
    if found.itemsize * len(classes) > _MOST_BYTES:
        raise InputError(f"{len(classes):,} classes of {found.itemsize:,} bytes each are too large")
    return np.array(classes, found)


def _check_dates(encoding: Encoding) -> None:
    """Raise where a column of dates has any that no calendar has, so that they could not be told."""
    for column in encoding.columns:
        days = (column.low, column.high, column.mean[0]) if column.kind == "date" else ()
        try:
            _ = [day_name(each) for each in days if each is not None]
        except OverflowError as error:
            raise InputError(f"the dates of the column {column.name!r} are in no calendar") from error
