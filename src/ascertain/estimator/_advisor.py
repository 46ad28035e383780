"""A fitted policy, predictor and restorer: what to measure next, and what to predict meanwhile."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.acquisition import choose
from ascertain.methods._registry import State
from ascertain.policy import Policy
from ascertain.predictors._calibration import Calibrated
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer, label_free, restore
from ascertain.tables._encoding import Encoding

COMPLETIONS = 32  # draws of a row's unknown features
# Rows are predicted in blocks of a fixed size, so that a row's numbers do not depend on the other rows.
_ROWS_AT_ONCE = 256
_FEW_ROWS = 16  # with completions


class Advice(NamedTuple):
    """Recommendations and predictions for partly known rows."""

    choice: Int[np.ndarray, " rows"]  # 0: to stop; 1 + a: to acquire action a
    scores: Float[np.ndarray, "rows actions"]  # of the policy; higher is better
    legal: Bool[np.ndarray, "rows actions"]  # not acquired yet, not closed, affordable
    probabilities: Float[np.ndarray, "rows classes"]  # predicted now
    low: Float[np.ndarray, "rows classes"]  # the 5% and 95% quantiles over completions of the row
    high: Float[np.ndarray, "rows classes"]


@dataclass(frozen=True)
class Origin:
    """What an advisor was fitted with, and to how many rows; fields as in `SavedModel`."""

    method: str
    state: State
    settings: Any
    train_rows: int
    valid_rows: int
    data_hash: str
    seed: int
    predictor_name: str = ""  # empty for a scikit-learn classifier
    predictor_settings: Any = None
    restorer_name: str = ""
    restorer_settings: Any = None


@dataclass(frozen=True, eq=False)
class Advisor:
    """A policy, a predictor and a restorer, with the encoding of the table that they were fitted to."""

    encoding: Encoding
    classes: np.ndarray  # as in the training table
    problem: Problem
    policy: Policy
    predictor: Calibrated
    restorer: Restorer  # completes rows, without their label
    origin: Origin
    protocol: Protocol = PAPER

    @cached_property
    def _parts(self) -> tuple[Policy, Problem, Calibrated, Restorer]:
        return self.policy, self.problem.without_names(), self.predictor, label_free(self.restorer)

    def at(self, budget: float) -> "Advisor":
        """The same advisor for another budget."""
        problem = self.problem.at(budget)
        return replace(self, problem=problem, policy=self.policy.at(problem.budget))

    def acquired(self, available: Bool[np.ndarray, "rows features"]) -> Bool[np.ndarray, "rows actions"]:
        """The actions of which a row has all features."""
        reveals = np.asarray(self.problem.reveals)
        return ~(~available @ reveals.T)

    def predict(
        self, x: Float[np.ndarray, "rows features"], available: Bool[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """Class probabilities from the known features of each row."""
        blocks = _blocks(_ROWS_AT_ONCE, x, available)
        found = np.concatenate([np.asarray(_predict(self.predictor, *block), np.float64) for block in blocks])
        found = found[: len(x)]
        return found / found.sum(axis=1, keepdims=True)

    def advise(
        self,
        x: Float[np.ndarray, "rows features"],
        available: Bool[np.ndarray, "rows features"],
        spent: Float[np.ndarray, " rows"] | None = None,
        closed: Bool[np.ndarray, "rows actions"] | None = None,
    ) -> Advice:
        """Recommend what to acquire next for each row, and predict.

        `spent` is by default the cost of the acquired actions; `closed` actions cannot be taken.
        """
        acquired = self.acquired(available)
        if spent is None:
            spent = acquired @ np.asarray(self.problem.costs, np.float64)
        if closed is None:
            closed = np.zeros_like(acquired)
        size = 1 if len(x) == 1 else _FEW_ROWS
        blocks = _blocks(size, x, available, acquired, np.asarray(spent, np.float32), closed)
        found = [_advise(self._parts, *block) for block in blocks]
        return Advice(*(np.concatenate(part)[: len(x)] for part in zip(*jax.device_get(found), strict=True)))

    def benefits(
        self, x: Float[np.ndarray, " features"], available: Bool[np.ndarray, " features"]
    ) -> Float[np.ndarray, " actions"]:
        """The expected information of each action about a row's class, in bits.

        This is the mutual information of the action's features and the class under restorer and predictor:
        the entropy of the mean prediction over draws of the features, less the mean of the entropies.
        """
        return np.asarray(_benefits(self._parts, x[None], available[None]), np.float64)

    def consult(
        self,
        x: Float[np.ndarray, " features"],
        available: Bool[np.ndarray, " features"],
        spent: float,
        closed: Bool[np.ndarray, " actions"],
    ) -> tuple[Advice, Float[np.ndarray, " actions"]]:
        """`advise` and `benefits` for one row, by one program that draws completions once."""
        acquired = self.acquired(available[None])
        row = (x[None], available[None], acquired, np.array([spent], np.float32), closed[None])
        advice, benefits = jax.device_get(_consult(self._parts, *row))
        return Advice(*advice), benefits.astype(np.float64)

    def track(
        self, x: Float[np.ndarray, "rows features"], available: Bool[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows classes"]:
        """As `predict`, by a program for few rows: faster for them, and rounded differently."""
        found = [_predict(self.predictor, *block) for block in _blocks(_FEW_ROWS, x, available)]
        return np.concatenate(jax.device_get(found))[: len(x)].astype(np.float64)


@eqx.filter_jit
def _predict(predictor: Calibrated, x: Any, available: Any) -> Array:
    return predictor(x, available)


@eqx.filter_jit
def _advise(parts: Any, x: Any, available: Any, acquired: Any, spent: Any, closed: Any) -> Any:
    return _advice(parts, _drawn(parts, x, available), x, available, acquired, spent, closed)


@eqx.filter_jit
def _benefits(parts: Any, x: Any, available: Any) -> Float[Array, " actions"]:
    return _information(parts, _drawn(parts, x, available), available)


@eqx.filter_jit
def _consult(parts: Any, x: Any, available: Any, acquired: Any, spent: Any, closed: Any) -> Any:
    drawn = _drawn(parts, x, available)
    advice = _advice(parts, drawn, x, available, acquired, spent, closed)
    return advice, _information(parts, drawn, available)


def _advice(
    parts: Any, drawn: Array, x: Array, available: Array, acquired: Array, spent: Array, closed: Array
) -> tuple[Array, ...]:
    policy, problem, predictor, _ = parts
    legal = problem.affordable(acquired, spent) & ~acquired & ~closed
    scores = policy(x, available, acquired, ~acquired & ~closed, key=jr.key(0))
    everything = jnp.ones_like(available)
    possible = jax.lax.map(lambda each: predictor(each, everything), drawn)
    low, high = jnp.quantile(possible, jnp.array([0.05, 0.95]), axis=0)
    probabilities = predictor(x, available)
    return choose(scores, legal), scores[:, 1:], legal, probabilities, low, high


def _information(
    parts: Any, drawn: Float[Array, "draws 1 features"], available: Bool[Array, "1 features"]
) -> Float[Array, " actions"]:
    """Mutual information of each action's features and the class of one row, in bits."""
    _, problem, predictor, _ = parts
    draws = drawn[:, 0]
    shown = jnp.broadcast_to((available | problem.reveals)[:, None], (problem.n_actions, *draws.shape))
    rows = jnp.where(shown, draws[None], 0.0)
    after = predictor(rows.reshape(-1, problem.n_features), shown.reshape(-1, problem.n_features))
    after = after.reshape(problem.n_actions, len(draws), -1)
    return _entropy(after.mean(axis=1)) - _entropy(after).mean(axis=1)


def _drawn(parts: Any, x: Array, available: Array) -> Float[Array, "draws rows features"]:
    _, problem, _, restorer = parts
    return _completions(jr.key(0), restorer, problem, x, available)


def _completions(
    key: PRNGKeyArray, restorer: Restorer, problem: Problem, x: Array, available: Array
) -> Float[Array, "draws rows features"]:
    table = Table(np.zeros((1, problem.n_features)), [0], n_classes=problem.n_classes)
    rows = eqx.tree_at(
        lambda t: (t.x, t.y, t.available), table, (x, jnp.zeros(x.shape[0], jnp.int32), available)
    )
    return jax.vmap(lambda key: restore(key, restorer, rows).x)(jr.split(key, COMPLETIONS))


def _entropy(probabilities: Float[Array, "*batch classes"]) -> Float[Array, "*batch"]:
    safe = jnp.maximum(probabilities, np.finfo(np.float32).tiny)
    return -jnp.sum(probabilities * jnp.log2(safe), axis=-1)


def _blocks(size: int, *arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Split rows into blocks of one size, for one program; the last block is padded with the last row."""
    n_rows = len(arrays[0])
    places = np.arange(-(-n_rows // size) * size).reshape(-1, size)
    return [tuple(array[np.minimum(block, n_rows - 1)] for array in arrays) for block in places]
