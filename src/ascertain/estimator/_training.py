"""Fitting an advisor to a table with holes: predictor, calibration, restorer and policy, in this order.

Only the policy is trained on restored cells. Predictor and calibration, and so every prediction, learn from
observed cells alone.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from ascertain.methods._registry import State
from ascertain.models._saving import hash_table
from ascertain.predictors._calibration import Calibrated, fit_calibration
from ascertain.predictors._masked_mlp import HostPredictor, Predictor, SklearnPredictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER
from ascertain.recipe._keys import key_data
from ascertain.recipe._presets import overridden
from ascertain.recipe._stages import fit_restorer
from ascertain.restoration import Restorer, complete
from ascertain.restoration._registry import Restoring, check_completions
from ascertain.restoration._treatments import check_treatment
from ascertain.tables._encoding import Encoding

TREATMENTS = ("restored", "restricted", "direct")
# Rows are repeated up to one of a few sizes, so that compiled programs are reused.
_LEAST_TRAINING, _LEAST_VALIDATION = 256, 64
_MLP = {"batch_size": 128, "dropout": 0.1}  # the reference's, for tables that it has no settings for


def default_treatment(method: str) -> str:
    """Learning from holes directly where a method can, else restoration."""
    return "direct" if methods.get(method).learns_directly else "restored"


@dataclass(frozen=True)
class FitChoices:
    """What to fit, as `AcquisitionClassifier` names it."""

    method: str
    state: str
    treatment: str
    restorer: str
    predictor: Any
    effort: str
    completions: int = 1

    def check(self) -> None:
        """Raise where something is named that does not exist, or cannot do what is asked of it."""
        method = methods.get(self.method)
        method.check_state(self.state)
        check_treatment(self.treatment, TREATMENTS)
        method.treating(method.settings(), self.treatment)
        restoration.get(self.restorer).check_label_free("completing a new row")
        effort(self.effort)
        check_completions(self.completions)
        if isinstance(self.predictor, str) and self.predictor not in predictors.names():
            hint = did_you_mean(self.predictor, predictors.names())
            raise InputError(
                f"no predictor is called {self.predictor!r}; {hint}; or give a scikit-learn classifier"
            )


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Encoded rows with their classes, split for training and validation."""

    train: Table  # with some rows repeated
    valid: Table
    trained: Int[np.ndarray, " some"]  # which rows these are
    validated: Int[np.ndarray, " others"]

    @classmethod
    def split(
        cls,
        x: Float[np.ndarray, "rows features"],
        available: Bool[np.ndarray, "rows features"],
        y: Int[np.ndarray, " rows"],
        n_classes: int,
        fraction: float,
        rng: np.random.RandomState,
    ) -> "TrainingRows":
        """Hold out a fraction of each class for validation; at least one row of each is trained on."""
        # scikit-learn's train_test_split refuses classes of one row, and may leave none of a rare class.
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
            return Table(x[repeated], y[repeated], available[repeated], n_classes=n_classes, ids=repeated)

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
    """Fit predictor, restorer and policy.

    `weights` are those of the classes in the predictor's loss. `on_stage` is called with a stage's name when
    it begins, and with name and time when it ends. What `shared` holds was fitted to the same rows before,
    and is not fitted again.
    """
    plain, n_rows = problem.without_names(), len(rows.train.y)
    shared = Shared() if shared is None else shared
    if shared.predictor is None:
        with _stage("predictor", on_stage):
            fitted = _fit_predictor(_key("predictor", seed), choices, plain, rows, weights)
            shared.predictor = fit_calibration(_key("calibrate", seed), plain, fitted, rows.valid, weights)
    if shared.restorer is None:
        with _stage(f"restorer ({choices.restorer})", on_stage):
            shared.restorer = _fit_restorer(seed, choices, plain, rows)
    train, valid = rows.train, rows.valid
    data = {"treatment": choices.treatment}
    if choices.treatment == "restored":
        data["restorer"] = str(Restoring(choices.restorer, choices.completions))
        drawing = jr.split(_key("restore", seed, **data))
        train = _completed(drawing[0], shared.restorer, train, choices.completions)
        valid = _completed(drawing[1], shared.restorer, valid, 1)
    method, state = methods.get(choices.method), cast(State, choices.state)
    settings = method.completed(method.settings(), plain, PAPER)
    settings = shortened(method.treating(settings, choices.treatment), effort(choices.effort), n_rows)
    predictor = shared.predictor.predictor  # not calibrated
    with _stage(f"policy ({choices.method}, {choices.treatment})", on_stage):
        policy = methods.fit(
            method.name,
            _key("fit", seed, method=method.name, state=state, **data),
            plain,
            train,
            valid,
            predictor=predictor,
            pretrained=None if method.adopts is None else method.adopts(predictor, settings),
            settings=settings,
            state=state,
        )
    named = isinstance(choices.predictor, str)
    origin = Origin(
        method=method.name,
        state=state,
        settings=settings,
        train_rows=n_rows,
        completions=train.completions,
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
    """A random key from what is fitted; it does not depend on the table."""
    return jr.wrap_key_data(jnp.asarray(key_data(stage, seed=seed, **parts)))


@dataclass
class Shared:
    """What several advisors of the same rows share; the first fit fills it in."""

    predictor: Calibrated | None = None
    restorer: Restorer | None = None


@contextmanager
def _stage(name: str, on_stage: Callable[[str], object]) -> Iterator[None]:
    """Report that a stage begins, and how long it took unless it failed."""
    on_stage(name)
    start = time.perf_counter()
    yield
    on_stage(f"{name}: {time.perf_counter() - start:.1f} s")


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
        fitted = chosen.fit(key, rows.train, problem=problem, weights=unequal)
        return HostPredictor(fitted, problem.n_classes)
    part, settings = predictors.get(choices.predictor), _predictor_settings(choices, len(rows.train.y))
    fit = part.fit if part.on_host else compiled(part.fit)
    shares = jnp.asarray(weights / weights.sum(), jnp.float32)
    found = fit(key, problem, rows.train, rows.valid, settings=settings, weights=shares)
    return HostPredictor(found, problem.n_classes) if part.on_host else cast(Predictor, found)


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


def _completed(key: PRNGKeyArray, restorer: Restorer, table: Table, completions: int) -> Table:
    # What runs on the host cannot be traced.
    draw = compiled(complete) if isinstance(restorer, eqx.Module) else complete
    return cast(Table, draw(key, restorer, table, completions=int(completions)))  # NumPy's would be traced
