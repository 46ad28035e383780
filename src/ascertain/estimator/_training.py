"""Fitting an advisor to a table with holes: predictor, calibration, restorer and policy, in this order.

Restored cells serve the training of the policy only. Predictor and calibration, and with them every
prediction, learn from observed cells alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray
from sklearn.base import clone

from ascertain import methods, predictors, restoration
from ascertain._core.compilation import compiled
from ascertain._core.effort import effort, shortened
from ascertain._core.padding import round_up
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advisor, Origin
from ascertain.methods._registry import Method, State
from ascertain.models._saving import hash_table
from ascertain.policy import Policy
from ascertain.predictors._calibration import Calibrated, fit_calibration
from ascertain.predictors._masked_mlp import HostPredictor, Predictor, SklearnPredictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER
from ascertain.recipe._keys import key_data
from ascertain.recipe._presets import overridden
from ascertain.recipe._stages import fit_restorer
from ascertain.restoration import Restorer, restore
from ascertain.tables._encoding import Encoding

TREATMENTS = ("restored", "restricted")
# Rows are repeated up to a number out of few, so that a program that was compiled once serves again.
_LEAST_TRAINING, _LEAST_VALIDATION = 256, 64
_MLP = {"batch_size": 128, "dropout": 0.1}  # the reference's, for tables that it has no settings for


@dataclass(frozen=True)
class FitChoices:
    """What to fit, in the words of `AcquisitionClassifier`."""

    method: str
    state: str
    treatment: str
    restorer: str
    predictor: Any
    effort: str

    def check(self) -> None:
        """Raise where something is named that does not exist, or cannot do what is asked of it."""
        methods.get(self.method).check_state(self.state)
        if self.treatment not in TREATMENTS:
            hint = did_you_mean(str(self.treatment), TREATMENTS)
            raise InputError(f"no treatment is called {self.treatment!r}; {hint}")
        restoration.get(self.restorer).check_label_free("completing a new row")
        effort(self.effort)
        if isinstance(self.predictor, str):
            predictors.get(self.predictor)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Encoded rows with their classes, cut into those to train on and those to validate with.

    Parameters
    ----------
    train, valid
        The rows, of which some are repeated.
    trained, validated
        Which rows these are.
    """

    train: Table
    valid: Table
    trained: Int[np.ndarray, " some"]
    validated: Int[np.ndarray, " others"]

    @classmethod
    def cut(
        cls,
        x: Float[np.ndarray, "rows features"],
        available: Bool[np.ndarray, "rows features"],
        y: Int[np.ndarray, " rows"],
        n_classes: int,
        fraction: float,
        rng: np.random.RandomState,
    ) -> "TrainingRows":
        """Hold out a fraction of each class; each has a row left to train on."""
        held_out = np.zeros(len(y), bool)
        for label in range(n_classes):
            rows = rng.permutation(np.flatnonzero(y == label))
            held_out[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
        if not held_out.any():  # too few rows to spare one of any class
            held_out[:] = True
            train = np.arange(len(y))
        else:
            train = np.flatnonzero(~held_out)
        valid = np.flatnonzero(held_out)

        def table(rows: np.ndarray, least: int) -> Table:
            repeated = np.resize(rng.permutation(rows), max(least, round_up(len(rows), digits=5)))
            return Table(x[repeated], y[repeated], available[repeated], n_classes=n_classes)

        return cls(table(train, _LEAST_TRAINING), table(valid, _LEAST_VALIDATION), train, valid)


def fit_advisor(
    seed: int,
    choices: FitChoices,
    encoding: Encoding,
    classes: np.ndarray,
    problem: Problem,
    rows: TrainingRows,
    weights: Float[np.ndarray, " classes"],
    on_stage: Callable[[str], object] = lambda stage: None,
    shared: "Shared | None" = None,
) -> Advisor:
    """Fit everything that it takes to advise.

    Parameters
    ----------
    seed
        What random keys are made of.
    choices
        What to fit.
    encoding, classes, problem
        How the table was read, and what is to be solved.
    rows
        The training data.
    weights
        What a row of each class counts for the predictor.
    on_stage
        Called with a few words when a stage begins or ends.
    shared
        What was fitted to the same rows before, and need not be again.
    """
    plain, n_rows = problem.without_names(), len(rows.train.y)
    shared = Shared() if shared is None else shared
    if shared.predictor is None:
        with _Stage("predictor", on_stage):
            predictor = _fit_predictor(_key("predictor", seed), choices, plain, rows, weights)
            calibrating = _key("calibrate", seed)
            shared.predictor = fit_calibration(calibrating, plain, predictor, rows.valid, weights)
    if shared.restorer is None:
        with _Stage(f"restorer ({choices.restorer})", on_stage):
            shared.restorer = _fit_restorer(seed, choices, plain, rows)
    train, valid = rows.train, rows.valid
    if choices.treatment == "restored":
        drawing = jr.split(_key("restore", seed, treatment="restored", restorer=choices.restorer))
        train, valid = (
            _restored(k, shared.restorer, table) for k, table in zip(drawing, (train, valid), strict=True)
        )
    method = methods.get(choices.method)
    settings = method.completed(method.settings(), plain, PAPER)
    settings = shortened(settings, effort(choices.effort), n_rows)
    with _Stage(f"policy ({choices.method}, {choices.treatment})", on_stage):
        policy = _fit_policy(seed, method, choices, plain, train, valid, shared.predictor, settings)
    named = isinstance(choices.predictor, str)
    origin = Origin(
        method=choices.method,
        state=cast(State, choices.state),
        settings=settings,
        train_rows=n_rows,
        valid_rows=len(rows.valid.y),
        data_hash=hash_table(rows.train),
        seed=seed,
        predictor_name=choices.predictor if named else "",
        predictor_settings=_predictor_settings(choices, n_rows) if named else None,
        restorer_name=choices.restorer,
        restorer_settings=_restorer_settings(choices, n_rows),
    )
    return Advisor(encoding, classes, problem, policy, shared.predictor, shared.restorer, origin)


def _key(stage: str, seed: int, **parts: Any) -> PRNGKeyArray:
    """A random key from what is fitted; the same for whatever table."""
    return jr.wrap_key_data(jnp.asarray(key_data(stage, seed=seed, **parts)))


@dataclass
class Shared:
    """What several advisors of the same rows have in common; filled in by the first of them."""

    predictor: Calibrated | None = None
    restorer: Restorer | None = None


class _Stage:
    """Says that a stage begins, and how long it has taken."""

    def __init__(self, name: str, on_stage: Callable[[str], object]):
        self.name, self.on_stage = name, on_stage

    def __enter__(self) -> None:
        self.on_stage(self.name)
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.on_stage(f"{self.name}: {time.perf_counter() - self.start:.1f} s")


def _fit_predictor(
    key: PRNGKeyArray,
    choices: FitChoices,
    problem: Problem,
    rows: TrainingRows,
    weights: Float[np.ndarray, " classes"],
) -> Predictor:
    if not isinstance(choices.predictor, str):
        chosen = SklearnPredictor(clone(choices.predictor), problem.n_classes)
        unequal = None if np.ptp(weights) == 0 else weights
        return HostPredictor(chosen.fit(key, rows.train, problem=problem, weights=unequal))
    part, settings = predictors.get(choices.predictor), _predictor_settings(choices, len(rows.train.y))
    fit = part.fit if part.on_host else compiled(part.fit)
    shares = jnp.asarray(weights / weights.sum(), jnp.float32)
    fitted = fit(key, problem, rows.train, rows.valid, settings=settings, weights=shares)
    return cast(Predictor, fitted)


def _predictor_settings(choices: FitChoices, n_rows: int) -> Any:
    settings = predictors.get(choices.predictor).settings()
    if choices.predictor == "mlp":
        settings = overridden(settings, _MLP, "predictor")
    return shortened(settings, effort(choices.effort), n_rows)


def _restorer_settings(choices: FitChoices, n_rows: int) -> Any:
    return shortened(restoration.get(choices.restorer).settings(), effort(choices.effort), n_rows)


def _fit_restorer(seed: int, choices: FitChoices, problem: Problem, rows: TrainingRows) -> Restorer:
    part, settings = restoration.get(choices.restorer), _restorer_settings(choices, len(rows.train.y))
    fit = fit_restorer if part.on_host else compiled(fit_restorer)
    key = _key("restorer", seed, restorer=part.name)
    return cast(Restorer, fit(key, part.name, problem, rows.train, rows.valid, settings))


def _fit_policy(
    seed: int,
    method: Method,
    choices: FitChoices,
    problem: Problem,
    train: Table,
    valid: Table,
    predictor: Calibrated,
    settings: Any,
) -> Policy:
    restorer = choices.restorer if choices.treatment == "restored" else ""
    adopted = None if method.adopts is None else method.adopts(predictor.predictor, settings)
    own = {
        "treatment": choices.treatment,
        "restorer": restorer,
        "method": choices.method,
        "state": choices.state,
    }
    return methods.fit(
        method.name,
        _key("fit", seed, **own),
        problem,
        train,
        valid,
        predictor=predictor.predictor,
        pretrained=adopted,
        settings=settings,
        state=cast(State, choices.state),
    )


def _restored(key: PRNGKeyArray, restorer: Restorer, table: Table) -> Table:
    # What runs on the host cannot be traced.
    draw = compiled(restore) if isinstance(restorer, eqx.Module) else restore
    return cast(Table, draw(key, restorer, table))
