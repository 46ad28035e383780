"""Fitting an advisor to a table with holes: predictor, calibration, restorer and policy, in this order.

Only the policy is trained on restored cells. Predictor and calibration, and so every prediction, learn from
observed cells alone.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray
from sklearn.base import clone

from ascertain import methods, predictors, restoration
from ascertain._core.arrays import on_device
from ascertain._core.clusters import draw_instances
from ascertain._core.compilation import compiled
from ascertain._core.effort import effort, shortened
from ascertain._core.padding import round_up
from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._advisor import Advisor, Origin, measurable_columns
from ascertain.estimator._ranges import Ranges, fit_ranges
from ascertain.estimator._weights import repeat_in_proportion
from ascertain.evaluation._auto import AUTO, AutoChoice, Treated
from ascertain.methods._registry import State
from ascertain.missingness._label_signs import LabelSign
from ascertain.models._saving import hash_table
from ascertain.policy import Policy
from ascertain.predictors._calibration import Calibrated, fit_calibration
from ascertain.predictors._masked_mlp import HostPredictor, Predictor, SklearnPredictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER
from ascertain.recipe._keys import key_data
from ascertain.recipe._presets import overridden
from ascertain.recipe._stages import fit_restorer
from ascertain.restoration import Restorer, complete
from ascertain.restoration._registry import check_completions
from ascertain.restoration._restorer import prepared
from ascertain.restoration._treatments import check_treatment
from ascertain.tables._encoding import Encoding

TREATMENTS = ("restored", "restricted", "direct", AUTO)
COMPLETES_NEW_ROWS = "pvae_noise"
# What fills training rows, by effort. Policies recover most from the mixture (docs/data.md). It keeps
# training rows, which must not be in a saved model unasked, so new rows are completed by another restorer. A
# quick look makes do with that one.
_FILLS_TRAINING_ROWS = {"standard": "mixture", "low": COMPLETES_NEW_ROWS}
# Rows are repeated up to one of a few sizes, so that compiled programs are reused.
_LEAST_TRAINING, _LEAST_VALIDATION = 256, 64
_WEIGHTED_COPIES = 2  # of each row in the mean, so that few rows of little weight are lost to rounding
_MLP = {"batch_size": 128, "dropout": 0.1}  # the reference's, for tables that it has no settings for


def default_treatment(method: str) -> str:
    """Learning from holes directly where a method can, else restoration."""
    return "direct" if methods.get(method).learns_directly else "restored"


def usual_restorer(effort_name: str) -> str:
    """What fills training rows if nothing is named."""
    effort(effort_name)  # raises if there is none of this name
    return _FILLS_TRAINING_ROWS[effort_name]


@dataclass(frozen=True)
class FitChoices:
    """What to fit, as `AcquisitionClassifier` names it."""

    method: str
    state: str
    treatment: str
    restorer: str  # draws what training rows lack
    predictor: Any
    effort: str
    completions: int = 1
    stop_early: bool = False  # where a measurement costs more than it saves
    completing: str = COMPLETES_NEW_ROWS  # the restorer that completes new rows

    @property
    def treated(self) -> Treated:
        """The treatment, with the restorer where holes are filled."""
        if self.treatment != "restored":
            return Treated(self.treatment)
        return Treated(self.treatment, self.restorer, self.completions)

    def treating(self, treated: Treated) -> "FitChoices":
        """The same with another treatment of the training rows."""
        if not treated.restorer:
            return replace(self, treatment=treated.name)
        return replace(
            self, treatment=treated.name, restorer=treated.restorer, completions=treated.completions
        )

    @property
    def policy(self) -> str:
        """The method, and its state variant unless that is the usual one."""
        return self.method if self.state == "s" else f"{self.method} {self.state}"

    @property
    def stage(self) -> str:
        """The stage in which the policy is fitted, as users see it."""
        treatment = f"restored by {self.treated}" if self.treated.restorer else self.treatment
        return f"policy ({self.policy}, {treatment})"

    def check(self) -> None:
        """Raise where something is named that does not exist, or cannot do what is asked of it."""
        method = methods.get(self.method)
        method.check_state(self.state)
        check_treatment(self.treatment, TREATMENTS)
        method.treating(method.settings(), self.treatment)
        if self.stop_early:
            method.stopping_early(method.settings())
        restoration.get(self.completing).check_label_free("completing a new row")
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
    valid_numbers: Int[np.ndarray, " repeated"]  # which row each one of `valid` is
    weights: Float[np.ndarray, " rows"] | None = None  # of all rows, by number; None: all the same

    @property
    def validation(self) -> Table:
        """The validation rows, each once."""
        _, first = np.unique(self.valid_numbers, return_index=True)
        return self.valid.take(first)

    @property
    def numbered_validation(self) -> Table:
        """The same, with the numbers of rows as `ids`."""
        numbers = on_device(np.unique(self.valid_numbers), np.int32)
        return cast(Table, eqx.tree_at(lambda table: table.ids, self.validation, numbers))

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return bool(jnp.all(self.train.available) & jnp.all(self.valid.available))

    @classmethod
    def split(
        cls,
        x: Float[np.ndarray, "rows features"],
        available: Bool[np.ndarray, "rows features"],
        y: Int[np.ndarray, " rows"],
        n_classes: int,
        fraction: float,
        rng: np.random.RandomState,
        weights: Float[np.ndarray, " rows"] | None = None,
        instances: Int[np.ndarray, " rows"] | None = None,
    ) -> "TrainingRows":
        """Hold out a fraction of each class for validation; at least one row of each is trained on.

        With weights, rows are repeated in proportion to them. Rows with the same number in `instances` are
        on the same side, and stay together wherever rows are held out later.
        """
        # scikit-learn's train_test_split refuses classes of one row, and may leave none of a rare class.
        held_out = np.zeros(len(y), bool)
        if instances is not None:
            held_out = draw_instances(y, instances, fraction, rng)
        for label in range(n_classes) if instances is None else ():
            rows = rng.permutation(np.flatnonzero(y == label))
            held_out[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
        if not held_out.any():  # too few rows to spare one of any class
            held_out[:] = True
            train = np.arange(len(y))
        else:
            train = np.flatnonzero(~held_out)
        valid = np.flatnonzero(held_out)

        def repeat(rows: np.ndarray, least: int) -> Int[np.ndarray, " repeated"]:
            if weights is None:
                return np.resize(rng.permutation(rows), max(least, round_up(len(rows), digits=5)))
            size = max(least, round_up(_WEIGHTED_COPIES * len(rows), digits=5))
            return repeat_in_proportion(rng, rows, weights[rows], y[rows], size)

        def table(repeated: Int[np.ndarray, " repeated"]) -> Table:
            ids = repeated if instances is None else instances[repeated]
            return Table(x[repeated], y[repeated], available[repeated], n_classes=n_classes, ids=ids)

        numbers = repeat(train, _LEAST_TRAINING), repeat(valid, _LEAST_VALIDATION)
        return cls(table(numbers[0]), table(numbers[1]), train, valid, numbers[1], weights)


@dataclass(frozen=True, eq=False)
class Shared:
    """What several advisors of the same rows share: each part is fitted once, when it is first needed.

    `weights` are those of the classes in the predictor's loss. `on_stage` is called with a stage's name when
    it begins, and with name and time when it ends.
    """

    seed: int
    problem: Problem
    rows: TrainingRows
    weights: Float[np.ndarray, " classes"]
    predictor_choice: Any = "mlp"
    effort: str = "standard"
    on_stage: Callable[[str], object] = lambda stage: None
    habits: tuple[LabelSign, ...] = ()  # of measuring, which models tell
    _kept: dict[str, Any] = field(default_factory=dict)

    def once(self, stage: str, compute: Callable[[], Any]) -> Any:
        """The result of a stage, which is computed unless it was before."""
        if stage not in self._kept:
            with _stage(stage, self.on_stage):
                self._kept[stage] = compute()
        return self._kept[stage]

    @property
    def predictor(self) -> Calibrated:
        """The predictor, calibrated."""
        found: Calibrated = self.once("predictor", self._fit_predictor)
        return found

    @property
    def predictor_settings(self) -> Any:
        """The settings of a predictor that is registered; None for a scikit-learn classifier."""
        if not isinstance(self.predictor_choice, str):
            return None
        settings = predictors.get(self.predictor_choice).settings()
        if self.predictor_choice == "mlp":
            settings = overridden(settings, _MLP, "predictor")
        return self._shortened(settings)

    def restorer(self, name: str) -> Restorer:
        """A restorer that was fitted to the training rows."""
        found: Restorer = self.once(restorer_stage(name), lambda: self._fit_restorer(name))
        return found

    def adopt_restorer(self, name: str, restorer: Restorer) -> None:
        """Keep a restorer that was made of others, so that it is not fitted."""
        self._kept[restorer_stage(name)] = restorer

    def restorer_settings(self, name: str) -> Any:
        """The settings of a restorer."""
        return self._shortened(restoration.get(name).settings())

    def ranges(self, name: str, encoding: Encoding) -> Ranges:
        """What makes ranges of predictions hold, with completions by a restorer."""
        restorer, columns = self.restorer(name), measurable_columns(encoding)
        if not isinstance(restorer, eqx.Module):  # it cannot complete new rows
            return Ranges.guess(len(columns))
        key = self.key("ranges", restorer=name)

        def fit() -> Ranges:
            fitted = self.predictor, prepared(restorer)
            return fit_ranges(key, self._plain, columns, *fitted, self.rows.validation)

        found: Ranges = self.once(ranges_stage(name), fit)
        return found

    def policy(self, choices: FitChoices) -> Policy:
        """The policy for a method and a treatment."""
        method = methods.get(choices.method)
        predictor, settings = self.predictor.predictor, self.method_settings(choices)  # not calibrated
        train, valid = self._treated(choices)
        data = {"treatment": choices.treatment}
        if choices.treatment == "restored":
            data["restorer"] = str(choices.treated)

        def fit() -> Policy:
            return methods.fit(
                method.name,
                self.key("fit", method=method.name, state=choices.state, **data),
                self._plain,
                train,
                valid,
                predictor=predictor,
                pretrained=None if method.adopts is None else method.adopts(predictor, settings),
                settings=settings,
                state=cast(State, choices.state),
            )

        found: Policy = self.once(choices.stage, fit)
        return found

    def method_settings(self, choices: FitChoices) -> Any:
        """The settings of a method for a treatment."""
        method = methods.get(choices.method)
        settings = method.completed(method.settings(), self._plain, PAPER)
        if choices.stop_early:
            settings = method.stopping_early(settings)
        return self._shortened(method.treating(settings, choices.treatment))

    def key(self, stage: str, **parts: Any) -> PRNGKeyArray:
        """A random key from what is fitted; it does not depend on the table."""
        return jr.wrap_key_data(on_device(key_data(stage, seed=self.seed, **parts)))

    @cached_property
    def _plain(self) -> Problem:
        return self.problem.without_names()

    def _shortened(self, settings: Any) -> Any:
        return shortened(settings, effort(self.effort), len(self.rows.train.y))

    def _fit_predictor(self) -> Calibrated:
        choice, plain, rows, weights = self.predictor_choice, self._plain, self.rows, self.weights
        key = self.key("predictor")
        if isinstance(choice, str):
            part = predictors.get(choice)
            fit = part.fit if part.on_host else compiled(part.fit)
            shares = on_device(weights / weights.sum(), np.float32)
            found = fit(key, plain, rows.train, rows.valid, settings=self.predictor_settings, weights=shares)
            fitted = HostPredictor(found, plain.n_classes) if part.on_host else cast(Predictor, found)
        else:
            chosen = SklearnPredictor(clone(choice), plain.n_classes)
            unequal = None if np.ptp(weights) == 0 else weights
            learned = chosen.fit(key, rows.train, problem=plain, weights=unequal)
            fitted = HostPredictor(learned, plain.n_classes)
        return fit_calibration(self.key("calibrate"), plain, fitted, rows.valid, weights)

    def _fit_restorer(self, name: str) -> Restorer:
        part, settings = restoration.get(name), self.restorer_settings(name)
        fit = fit_restorer if part.on_host else compiled(fit_restorer)
        key = self.key("restorer", restorer=part.name)
        return cast(Restorer, fit(key, part.name, self._plain, self.rows.train, self.rows.valid, settings))

    def _treated(self, choices: FitChoices) -> tuple[Table, Table]:
        """The tables that a policy learns from; those that are restored are drawn once for all methods."""
        train, valid = self.rows.train, self.rows.valid
        if choices.treatment != "restored":
            return train, valid
        name = str(choices.treated)
        if name not in self._kept:
            restorer = self.restorer(choices.restorer)
            drawing = jr.split(self.key("restore", treatment="restored", restorer=name))
            # A validation row counts once, so it is restored once.
            self._kept[name] = (
                _completed(drawing[0], restorer, train, choices.completions),
                _completed(drawing[1], restorer, valid, 1),
            )
        found: tuple[Table, Table] = self._kept[name]
        return found


def fit_advisor(
    choices: FitChoices,
    encoding: Encoding,
    classes: np.ndarray,
    shared: Shared,
    auto: AutoChoice | None = None,
) -> Advisor:
    """Fit predictor, restorer and policy, as far as they are not there yet.

    `auto` says how the treatment was chosen, where it was.
    """
    predictor, restorer = shared.predictor, shared.restorer(choices.completing)
    policy, rows = shared.policy(choices), shared.rows
    origin = Origin(
        method=choices.method,
        state=cast(State, choices.state),
        settings=shared.method_settings(choices),
        train_rows=len(rows.train.y),
        completions=choices.completions if choices.treatment == "restored" else 1,
        valid_rows=len(rows.valid.y),
        data_hash=hash_table(rows.train),
        seed=shared.seed,
        predictor_name=choices.predictor if isinstance(choices.predictor, str) else "",
        predictor_settings=shared.predictor_settings,
        restorer_name=choices.completing,
        restorer_settings=shared.restorer_settings(choices.completing),
    )
    ranges = shared.ranges(choices.completing, encoding)
    learned = (policy, predictor, restorer, ranges)
    return Advisor(
        *(encoding, classes, shared.problem, *learned, origin),
        auto=auto,
        table_rows=(len(rows.trained), len(rows.validated)),
        habits=shared.habits,
    )


def ranges_stage(name: str) -> str:
    """The stage in which ranges are calibrated, as users see it."""
    return f"ranges ({name})"


def restorer_stage(name: str) -> str:
    """The stage in which a restorer is fitted, as users see it."""
    return f"restorer ({name})"


@contextmanager
def _stage(name: str, on_stage: Callable[[str], object]) -> Iterator[None]:
    """Report that a stage begins, and how long it took unless it failed."""
    on_stage(name)
    start = time.perf_counter()
    yield
    on_stage(f"{name}: {time.perf_counter() - start:.1f} s")


def _completed(key: PRNGKeyArray, restorer: Restorer, table: Table, completions: int) -> Table:
    # What runs on the host cannot be traced.
    draw = compiled(complete) if isinstance(restorer, eqx.Module) else complete
    return cast(Table, draw(key, restorer, table, completions=int(completions)))  # NumPy's would be traced
