"""Where a predicted probability will lie once everything is measured: ranges that hold in 90% of rows.

Completions of a row say where, as far as the restorer is right. How far it is not, validation rows tell: some
of what they have is hidden, and the prediction from all that they have is compared with the range made from
completions of the rest. As in conformal prediction (Romano, Patterson and Candès 2019), ranges are then
widened or narrowed so that 90% of these predictions lie inside.

Ranges are computed on the logit scale. There a range is a middle and a half-width. The square of the
half-width grows by a number for each column that is not known, which is what completions of it leave
unexplained; a restorer that always draws the same would otherwise make a point of it. What is left to a
factor depends on how many columns are not known, as rows that lack much should tell about others that do.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, PRNGKeyArray
from scipy.optimize import nnls

from ascertain._core.arrays import on_device
from ascertain.estimator._completions import for_each_draw, joint_completions
from ascertain.predictors._calibration import Calibrated
from ascertain.problem import Problem, Table
from ascertain.restoration import Restorer

LEVEL = 0.9
_TAIL = (1 - LEVEL) / 2
_CERTAIN = 1e-6  # probabilities nearer to 0 or 1 count as such
_NEXT_TO_CERTAIN = 1.1 * _CERTAIN  # with room for rounding
_ROWS, _COPIES = 1024, 8  # validation rows at most; copies of each at most, with other things hidden
_AT_ONCE = 1024  # copies of all rows together, so that one program serves tables of any size
_DEVIATIONS = 1.645  # from the mean of a normal distribution to its 95% quantile
_LEAST_SHARE = 0.2  # of the typical deviation, that counts as unexplained for every column
_SLOPES = np.linspace(-0.6, 0.6, 25)
_BANDWIDTH = 0.35  # of the kernel, in the logarithm of the number of unknown columns


class _Raw(NamedTuple):
    """Ranges on the logit scale, as completions say."""

    middle: Float[Array, "rows classes"]
    half_width: Float[Array, "rows classes"]
    predicted: Bool[Array, "rows classes"]  # the class that is the likeliest now


class Ranges(eqx.Module):
    """What makes ranges of completions hold; `fit_ranges` finds it."""

    unexplained: Float[Array, " columns"]  # added to the squared half-width for each that is unknown
    factors: Float[Array, "2 counts"]  # of other classes and of the predicted one, by the number of unknown

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return self.unexplained.shape[0]

    @classmethod
    def guess(cls, n_columns: int) -> "Ranges":
        """Ranges for want of rows to learn from: a deviation of one logit for each unknown column."""
        return cls(jnp.full(n_columns, _DEVIATIONS**2), jnp.ones((2, n_columns + 1)))

    def __call__(
        self,
        now: Float[Array, "rows classes"],
        possible: Float[Array, "draws rows classes"],
        unknown: Bool[Array, "rows columns"],
    ) -> tuple[Float[Array, "rows classes"], Float[Array, "rows classes"]]:
        """Turn predictions now, and from completions, into the range of each class's probability."""
        raw = _raw(now, possible)
        squares = raw.half_width**2 + (unknown.astype(now.dtype) @ self.unexplained)[:, None]
        factor = self.factors[raw.predicted.astype(jnp.int32), unknown.sum(axis=1)[:, None]]
        half_width = factor * jnp.sqrt(squares)
        low = jax.nn.sigmoid(raw.middle - half_width)
        high = jax.nn.sigmoid(raw.middle + half_width)
        low = jnp.where(low <= _NEXT_TO_CERTAIN, 0.0, low)
        high = jnp.where(high >= 1 - _NEXT_TO_CERTAIN, 1.0, high)
        open_yet = unknown.any(axis=1)[:, None]
        # Measuring may leave a prediction as it is, so that the present one is always possible.
        return (
            jnp.where(open_yet, jnp.minimum(low, now), now),
            jnp.where(open_yet, jnp.maximum(high, now), now),
        )


def fit_ranges(
    key: PRNGKeyArray,
    problem: Problem,
    columns: Bool[np.ndarray, "columns features"],
    predictor: Calibrated,
    restorer: Restorer,
    table: Table,
) -> Ranges:
    """Calibrate ranges on rows of which some measured actions are hidden.

    Parameters
    ----------
    key
        The random key, to choose rows and to hide actions.
    problem, columns
        Which features come together as actions, and which as columns; without those that nobody can measure.
    predictor, restorer
        What predicts, and what completes rows.
    table
        Validation rows, each once. What a row lacks stays out of it: the range is that of the prediction from
        all that the row has.
    """
    hideable = np.asarray(problem.reveals.any(axis=0)) & columns.any(axis=0)
    useful = np.flatnonzero((np.asarray(table.available) & hideable).any(axis=1))
    if not len(useful):
        return Ranges.guess(len(columns))
    rng = np.random.default_rng(np.asarray(jr.key_data(key)).ravel())
    rows = rng.permutation(useful)[:_ROWS]
    copies = min(_COPIES, _AT_ONCE // len(rows))
    numbers = np.resize(np.tile(rows, copies), _AT_ONCE)
    part = table.take(numbers)
    hidden = _hide(rng, problem, np.asarray(part.available) & hideable)
    seen = _compare(columns, predictor, restorer, part, on_device(hidden))
    count = len(rows) * copies  # the rest only fills the program
    found = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64)[:count], seen)
    return _calibrate(_Comparison(*found), numbers[:count])


def unknown_columns(
    columns: Bool[Array, "columns features"], lacking: Bool[Array, "rows features"]
) -> Bool[Array, "rows columns"]:
    """The columns of which rows lack any feature."""
    return lacking.astype(jnp.float32) @ columns.T.astype(jnp.float32) > 0


def _hide(
    rng: np.random.Generator, problem: Problem, available: Bool[np.ndarray, "rows features"]
) -> Bool[np.ndarray, "rows features"]:
    """Hide what rows have of some actions, of at least one; the share of actions is uniform."""
    reveals = np.asarray(problem.reveals)
    chosen = rng.random((len(available), len(reveals))) < rng.random((len(available), 1))
    hidden = available & (chosen.astype(np.int64) @ reveals.astype(np.int64) > 0)
    return np.where(hidden.any(axis=1, keepdims=True), hidden, available)


class _Comparison(NamedTuple):
    """Predictions from all that rows have, and ranges made from completions of a part."""

    truth: Float[np.ndarray, "rows classes"]  # as logits
    middle: Float[np.ndarray, "rows classes"]
    half_width: Float[np.ndarray, "rows classes"]
    predicted: Float[np.ndarray, "rows classes"]  # 0 or 1, as all numbers here
    unknown: Float[np.ndarray, "rows columns"]


@eqx.filter_jit
def _compare(
    columns: Any, predictor: Calibrated, restorer: Restorer, table: Table, hidden: Array
) -> tuple[Array, ...]:
    has, shown = table.available, table.available & ~hidden
    now = predictor(jnp.where(shown, table.x, 0.0), shown)
    drawn = joint_completions(jr.key(0), restorer, table.with_cells(table.x, shown), now)
    # Only what the row has is revealed: with it the truth is known.
    possible = for_each_draw(lambda x: predictor(jnp.where(has, x, 0.0), has), drawn, len(table.y))
    truth = _logit(predictor(table.x, has))
    return truth, *_raw(now, possible), unknown_columns(columns, hidden)


def _calibrate(seen: _Comparison, rows: Int[np.ndarray, " copies"]) -> Ranges:
    """Find what is unexplained of each column, then the factors with which 90% of ranges hold."""
    unknown, predicted = seen.unknown, seen.predicted > 0
    counts = unknown.sum(axis=1)
    error = np.abs(seen.truth - seen.middle)
    own_error, own_half = error[predicted], seen.half_width[predicted]
    typical = np.sqrt(np.mean(own_error**2 / counts))
    # Least squares, weighted as the spread of errors grows with the range.
    weight = 1 / (own_half**2 + typical**2 * counts + np.finfo(np.float32).tiny)
    excess = (_DEVIATIONS * own_error) ** 2 - own_half**2
    found, _ = nnls(unknown * weight[:, None], excess * weight)
    unexplained = np.maximum(found, (_LEAST_SHARE * typical) ** 2)
    half_width = np.sqrt(seen.half_width**2 + (unknown @ unexplained)[:, None])
    ratio = error / np.maximum(half_width, np.finfo(np.float32).tiny)
    classes = (~predicted, predicted)
    factors = np.stack([_factors(ratio, each, counts, rows, unknown.shape[1]) for each in classes])
    return Ranges(on_device(unexplained, np.float32), on_device(factors, np.float32))


def _factors(
    ratio: Float64[np.ndarray, "copies classes"],
    member: Bool[np.ndarray, "copies classes"],
    counts: Float64[np.ndarray, " copies"],
    rows: Int[np.ndarray, " copies"],
    n_columns: int,
) -> Float64[np.ndarray, " counts"]:
    """The quantile of the ratios for each number of unknown columns, from copies with about as many."""
    copies = np.nonzero(member)[0]
    values = ratio[member]
    count, row = np.log(counts[copies]), rows[copies]
    slope = _trend(values, count)
    values = values / np.exp(slope * count)
    order = np.argsort(values)
    values, count, row = values[order], count[order], row[order]
    # Beyond it there is next to nothing to compare with, and the trend goes on.
    most = np.quantile(count, 0.98)
    found = np.ones(1 + n_columns)
    for number in range(1, 1 + n_columns):
        distance = (count - min(np.log(number), most)) / _BANDWIDTH
        weight = np.exp(-0.5 * distance**2)
        by_row = np.bincount(row, weight)
        effective = by_row.sum() ** 2 / (by_row**2).sum()
        # As for one more row, which is the one that is asked about.
        level = min(LEVEL * (1 + 1 / effective), 1.0)
        cumulative = np.cumsum(weight)
        place = np.searchsorted(cumulative, level * cumulative[-1])
        found[number] = values[min(place, len(values) - 1)] * number**slope
    return found


def _trend(values: Float64[np.ndarray, " copies"], count: Float64[np.ndarray, " copies"]) -> float:
    """The power of the number of unknown columns with which the quantile of the ratios grows.

    It is found by quantile regression: the mean pinball loss is the least.
    """

    def loss(slope: float) -> float:
        growth = np.exp(slope * count)
        excess = values - np.quantile(values / growth, LEVEL) * growth
        return float(np.mean(excess * (LEVEL - (excess < 0))))

    return float(min(_SLOPES, key=loss))


def _raw(now: Float[Array, "rows classes"], possible: Float[Array, "draws rows classes"]) -> _Raw:
    logits, present = _logit(possible), _logit(now)
    low, high = jnp.quantile(logits, jnp.array([_TAIL, 1 - _TAIL]), axis=0)
    low, high = jnp.minimum(low, present), jnp.maximum(high, present)
    predicted = jax.nn.one_hot(now.argmax(axis=1), now.shape[1], dtype=bool)
    return _Raw((low + high) / 2, (high - low) / 2, predicted)


def _logit(probability: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    safe = jnp.clip(probability, _CERTAIN, 1 - _CERTAIN)
    return jnp.log(safe) - jnp.log1p(-safe)
