"""A mixture of diagonal Gaussians that knows the label, with shrunken means and exact conditional draws.

A row of class c belongs to a component k with probability p(k | c); then its cells are independent Gaussians.
The mean of a cell is a sum of effects: of the column, of the class, of the component, and of both together.
Each kind of effect has a prior whose variance is estimated column by column (empirical Bayes; MacKay 1992,
"Bayesian interpolation"), so that an effect that the data do not support is shrunk to nothing. Variances are
shrunk to their column's (Smyth 2004, "Linear models and empirical Bayes methods"). Cells that are missing
drop out of the likelihood, and drawing them given the others is exact.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.settings import AtOnce, Count, CountOrZero, Counts
from ascertain.problem import Problem, Table
from ascertain.restoration._observed_values import ObservedValues, keep_observed_values
from ascertain.restoration._registry import register

_LEAST_VARIANCE = 1e-3  # of values; columns have variance 1
_LEAST_PRIOR, _LARGEST_PRIOR = 1e-6, 25.0  # variances of effects
_FREEDOM = (1.0, 4.0, 16.0, 64.0, 256.0)  # prior observations of a variance
_PRIOR_ROWS = 8.0  # that a class borrows from all, for the probabilities of components
_TIE = 1e-3  # nats a row that do not count
_IMPOSSIBLE = -1e30  # the logarithm of no probability, without infinities
_BLOCK = 512  # rows to draw at once


@dataclass(frozen=True)
class Settings:
    """The numbers of components to choose from, and the length of expectation maximisation."""

    components: Counts = (1, 2, 4, 8, 16, 32)
    starts: AtOnce = 3  # for each number
    wide_updates: CountOrZero = 20  # before priors are estimated: else components never part
    updates: Count = 60
    most_rows: Count = 20_000  # to learn from

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Use as many starts as an effort allows; an update passes over all rows."""
        del n_rows
        possible = effort.restorer_updates // (len(self.components) * self.updates)
        return replace(self, starts=max(1, min(self.starts, possible)))


class Mixture(eqx.Module):
    """Draws a component from its posterior given a row's cells and label, then every missing cell.

    Examples
    --------
    `fit_mixture` makes one; `examples/score_restorers.py` scores its draws.
    """

    observed: ObservedValues
    centre: Float[Array, " features"]
    scale: Float[Array, " features"]
    rounding: Float[Array, " features"]
    log_joint: Float[Array, "components classes"]
    means: Float[Array, "components classes features"]
    variances: Float[Array, "components classes features"]
    see_label: bool = eqx.field(static=True, default=True)

    @property
    def n_components(self) -> Int[Array, ""]:
        """The number of components that was chosen."""
        return jnp.sum(jnp.any(self.log_joint > _IMPOSSIBLE / 2, axis=1))

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw from the conditional distribution, and take the nearest values that were observed."""
        flat = (-1, self.centre.shape[0])
        means, deviations = self.means.reshape(flat), jnp.sqrt(self.variances).reshape(flat)
        coefficients = _coefficients(self.means, self.variances, rounding=self.rounding)
        classes = jnp.arange(self.log_joint.shape[1])

        def for_row(row: tuple[Array, Array, Array, PRNGKeyArray]) -> Float[Array, " features"]:
            x, available, y, key = row
            choosing, varying = jr.split(key)
            cells = _cells(((x - self.centre) / self.scale)[None], available[None])
            logits = self.log_joint + _log_likelihood(cells, coefficients)[0]
            if self.see_label:
                logits = jnp.where((classes == y)[None], logits, _IMPOSSIBLE)
            chosen = jr.categorical(choosing, logits.reshape(-1))
            return means[chosen] + deviations[chosen] * jr.normal(varying, x.shape)

        keys = jr.split(key, table.x.shape[0])
        rows = (table.x, table.available, table.y, keys)
        drawn = jax.lax.map(for_row, rows, batch_size=min(_BLOCK, table.x.shape[0]))
        return self.observed.nearest(self.centre[None] + self.scale[None] * drawn, table)

    def label_free(self) -> "Mixture":
        """Draw the class along with the component."""
        return replace(self, see_label=False)


class _Effect(NamedTuple):
    """A part of the cells' means: its Gaussian posterior, and its prior's variance."""

    mean: Float[Array, "#components #classes features"]
    variance: Float[Array, "#components #classes features"]
    prior: Float[Array, "#components #classes features"]


class _State(NamedTuple):
    effects: tuple[_Effect, ...]  # of the class, the component, and both
    variances: Float[Array, "components classes features"]
    log_weights: Float[Array, "components classes"]


class _Sums(NamedTuple):
    """The expected number of cells, and the sums of their values and squares."""

    number: Float[Array, "components classes features"]
    values: Float[Array, "components classes features"]
    squares: Float[Array, "components classes features"]


@register(
    "mixture",
    summary="Mixture of diagonal Gaussians with the label: shrunken means, exact conditional draws.",
    label="mixture",
    settings=Settings,
    label_free=True,
    keeps_rows=True,
)
def fit_mixture(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    settings: Settings = Settings(),
) -> Mixture:
    """Fit every number of components from several starts; the validation rows' likelihood chooses one.

    Examples
    --------
    `examples/score_restorers.py` fits one and scores its draws beside those of other restorers.
    """
    keeping, choosing, starting = jr.split(key, 3)
    observed = keep_observed_values(keeping, problem, train)
    if train.x.shape[0] > settings.most_rows:
        train = train.take(jr.choice(choosing, train.x.shape[0], (settings.most_rows,), replace=False))
    centre, scale = _moments(train)
    rounding = _rounding(train) / scale**2
    train, valid = (_standardised(table, centre, scale) for table in (train, valid))
    numbers = jnp.repeat(jnp.asarray(settings.components), settings.starts)
    most = max(settings.components)

    def fitted(run: tuple[Int[Array, ""], PRNGKeyArray]) -> tuple[Array, tuple[Array, ...]]:
        number, key = run
        state = _em(key, train, rounding, jnp.arange(most) < number, settings)
        means, variances = _predictive(state)
        coefficients = _coefficients(means, variances, rounding=rounding)
        logits = state.log_weights[None] + _log_likelihood(_cells(valid.x, valid.available), coefficients)
        return logsumexp(_of_class(logits, valid.y), axis=1), (state.log_weights, means, variances)

    scores, models = jax.lax.map(fitted, (numbers, jr.split(starting, len(numbers))))
    chosen = _choose(scores.reshape(len(settings.components), settings.starts, -1))
    log_weights, means, variances = jax.tree.map(lambda leaf: leaf[chosen], models)
    in_class = jnp.bincount(train.y, length=problem.n_classes)
    log_classes = jnp.log((in_class + 1) / jnp.sum(in_class + 1))
    return Mixture(observed, centre, scale, rounding, log_weights + log_classes[None], means, variances)


def _choose(scores: Float[Array, "numbers starts instances"]) -> Int[Array, ""]:
    """The best run of the smallest number of components within one standard error of the best of all."""
    n_starts, n_rows = scores.shape[1:]
    best_start = jnp.argmax(scores.mean(axis=2), axis=1)
    of_number = jnp.take_along_axis(scores, best_start[:, None, None], axis=1)[:, 0]
    behind = of_number[jnp.argmax(of_number.mean(axis=1))][None] - of_number
    close = behind.mean(axis=1) <= behind.std(axis=1) / jnp.sqrt(n_rows) + _TIE
    number = jnp.argmax(close)  # the first of these
    return number * n_starts + best_start[number]


def _em(
    key: PRNGKeyArray,
    train: Table,
    rounding: Float[Array, " features"],
    used: Bool[Array, " components"],
    settings: Settings,
) -> _State:
    """Alternate between rows' components and the parameters; components that are not used stay empty."""
    cells = _cells(train.x, train.available)
    classes = jax.nn.one_hot(train.y, train.n_classes)

    def update(state: _State, estimate: Array) -> tuple[_State, None]:
        expected = _coefficients(
            _total(state.effects), state.variances, rounding=rounding, spread=_spread(state.effects)
        )
        logits = state.log_weights[None] + _log_likelihood(cells, expected)
        belongs = jax.nn.softmax(_of_class(logits, train.y), axis=1)
        shares = belongs[:, :, None] * classes[:, None]
        return _maximised(state, shares, cells, used, estimate), None

    estimate = jnp.arange(settings.updates) >= settings.wide_updates
    state, _ = jax.lax.scan(update, _start(key, train, used), estimate)
    return state


def _start(key: PRNGKeyArray, train: Table, used: Bool[Array, " components"]) -> _State:
    """Put each component at a random row, and at the mean where the row lacks a cell."""
    k, c, d = len(used), train.n_classes, train.x.shape[1]
    rows = jr.choice(key, train.x.shape[0], (k,), replace=train.x.shape[0] < k)
    shapes = ((1, c, d), (k, 1, d), (k, c, d))
    priors = ((1, 1, d), (1, 1, d), (k, 1, d))
    of_class, of_component, of_both = (
        _Effect(jnp.zeros(shape), jnp.zeros(shape), jnp.full(prior, wide))
        for shape, prior, wide in zip(shapes, priors, _WIDE, strict=True)
    )
    of_component = of_component._replace(mean=train.x[rows][:, None])
    log_weights = jnp.where(used, 0.0, _IMPOSSIBLE)[:, None] - jnp.log(used.sum())
    effects = (of_class, of_component, of_both)
    return _State(effects, jnp.ones((k, c, d)), jnp.broadcast_to(log_weights, (k, c)))


_WIDE = (1.0, 1.0, 0.25)  # the first variances of the effects of class, component and both


def _maximised(
    state: _State,
    shares: Float[Array, "instances components classes"],
    cells: Float[Array, "instances columns"],
    used: Bool[Array, " components"],
    estimate: Bool[Array, ""],
) -> _State:
    """Update effects, their priors, variances and weights, given which rows belong where."""
    sums = _Sums(*jnp.split(_product("ikc,ij->kcj", shares, cells), 3, axis=2))
    effects = list(state.effects)
    for place, effect in enumerate(effects):
        rest = _total([other for i, other in enumerate(effects) if i != place])
        effects[place] = _updated(effect, sums, rest, state.variances, estimate)
    return _State(
        tuple(effects),
        _variances(sums, _total(effects), _spread(effects)),
        _log_weights(shares.sum(axis=0), used),
    )


def _updated(
    effect: _Effect,
    sums: _Sums,
    rest: Float[Array, "components classes features"],
    variances: Float[Array, "components classes features"],
    estimate: Bool[Array, ""],
) -> _Effect:
    """The posterior of an effect given the other effects, and the variance of its prior."""
    pooled = tuple(axis for axis in (0, 1) if effect.mean.shape[axis] == 1)
    precision = jnp.sum(sums.number / variances, axis=pooled, keepdims=True)
    pull = jnp.sum((sums.values - sums.number * rest) / variances, axis=pooled, keepdims=True)
    variance = 1 / (precision + 1 / effect.prior)
    mean = variance * pull
    alike = tuple(axis for axis in (0, 1) if effect.prior.shape[axis] == 1)
    determined = jnp.sum(variance * precision, axis=alike, keepdims=True)
    fixed_point = jnp.sum(mean**2, axis=alike, keepdims=True) / jnp.maximum(determined, 1e-12)
    prior = jnp.where(determined > 1e-6, jnp.clip(fixed_point, _LEAST_PRIOR, _LARGEST_PRIOR), effect.prior)
    return _Effect(mean, variance, jnp.where(estimate, prior, effect.prior))


def _variances(
    sums: _Sums, means: Float[Array, "components classes features"], spread: Array
) -> Float[Array, "components classes features"]:
    """Variances, shrunk to their column's; the marginal likelihood says how much."""
    errors = jnp.maximum(sums.squares - 2 * means * sums.values + sums.number * means**2, 0.0)
    errors = errors + sums.number * spread
    number = jnp.maximum(sums.number.sum(axis=(0, 1), keepdims=True), 1e-6)
    pooled = jnp.maximum(errors.sum(axis=(0, 1), keepdims=True) / number, _LEAST_VARIANCE)

    def evidence(freedom: Float[Array, ""]) -> Float[Array, " features"]:
        prior, more = freedom / 2, (freedom + sums.number) / 2
        before = prior * jnp.log(freedom * pooled / 2) - gammaln(prior)
        after = gammaln(more) - more * jnp.log((freedom * pooled + errors) / 2)
        return jnp.sum(before + after, axis=(0, 1))

    candidates = jnp.asarray(_FREEDOM)
    freedom = candidates[jnp.argmax(jax.vmap(evidence)(candidates), axis=0)][None, None]
    return jnp.maximum((errors + freedom * pooled) / (sums.number + freedom), _LEAST_VARIANCE)


def _log_weights(
    count: Float[Array, "components classes"], used: Bool[Array, " components"]
) -> Float[Array, "components classes"]:
    """Probabilities of the components in each class, shrunk to those in all classes."""
    overall = count.sum(axis=1) + used / used.sum()
    overall = overall / overall.sum()
    weights = (count + _PRIOR_ROWS * overall[:, None]) / (count.sum(axis=0) + _PRIOR_ROWS)[None]
    return jnp.where(used[:, None], jnp.log(jnp.maximum(weights, 1e-30)), _IMPOSSIBLE)


def _total(effects: "tuple[_Effect, ...] | list[_Effect]") -> Float[Array, "components classes features"]:
    return sum((effect.mean for effect in effects), jnp.zeros(()))


def _spread(effects: "tuple[_Effect, ...] | list[_Effect]") -> Float[Array, "components classes features"]:
    """What is not known about the means, as variances."""
    return sum((effect.variance for effect in effects), jnp.zeros(()))


def _predictive(state: _State) -> tuple[Array, Array]:
    """Means and variances of new values: what is not known about the means adds to the variance."""
    return _total(state.effects), state.variances + _spread(state.effects)


def _cells(
    x: Float[Array, "instances features"], available: Bool[Array, "instances features"]
) -> Float[Array, "instances columns"]:
    """Ones, values and squares of the available cells, from which the likelihood is linear."""
    seen, value = available.astype(x.dtype), jnp.where(available, x, 0.0)
    return jnp.concatenate([seen, value, value**2], axis=1)


def _coefficients(
    means: Float[Array, "components classes features"],
    variances: Float[Array, "components classes features"],
    *,
    rounding: Float[Array, " features"],
    spread: Float[Array, "components classes features"] | float = 0.0,
) -> Float[Array, "components classes columns"]:
    """What a Gaussian's expected log density is made of: factors of 1, x and x squared."""
    variances = variances + rounding[None, None]
    constant = -0.5 * (jnp.log(2 * jnp.pi * variances) + (means**2 + spread) / variances)
    return jnp.concatenate([constant, means / variances, -0.5 / variances], axis=2)


def _log_likelihood(
    cells: Float[Array, "instances columns"], coefficients: Float[Array, "components classes columns"]
) -> Float[Array, "instances components classes"]:
    return _product("ij,kcj->ikc", cells, coefficients)


def _product(subscripts: str, one: Array, other: Array) -> Array:
    # On a GPU the default may round to fewer digits, and the terms of a square cancel.
    return jnp.einsum(subscripts, one, other, precision=jax.lax.Precision.HIGHEST)


def _of_class(
    logits: Float[Array, "instances components classes"], y: Int[Array, " instances"]
) -> Float[Array, "instances components"]:
    return jnp.take_along_axis(logits, y[:, None, None], axis=2)[:, :, 0]


def _standardised(table: Table, centre: Float[Array, " features"], scale: Float[Array, " features"]) -> Table:
    return table.with_cells((table.x - centre[None]) / scale[None], table.available)


def _moments(table: Table) -> tuple[Float[Array, " features"], Float[Array, " features"]]:
    """The mean and the standard deviation of each column's available cells; 0 and 1 where there are none."""
    count = jnp.maximum(table.available.sum(axis=0), 1)
    centre = jnp.sum(jnp.where(table.available, table.x, 0.0), axis=0) / count
    squares = jnp.where(table.available, (table.x - centre[None]) ** 2, 0.0)
    deviation = jnp.sqrt(squares.sum(axis=0) / count)
    return centre, jnp.where(deviation > 1e-6 * jnp.maximum(1.0, jnp.abs(centre)), deviation, 1.0)


def _rounding(table: Table) -> Float[Array, " features"]:
    """The variance of rounding to a column's values: a twelfth of the square of the least difference.

    Without it a density rewards components that split a discrete column, beyond any bound.
    """
    last = jnp.max(jnp.where(table.available, table.x, -jnp.inf), axis=0)
    ordered = jnp.sort(jnp.where(table.available, table.x, last[None]), axis=0)
    steps = jnp.diff(ordered, axis=0)
    least = jnp.min(jnp.where(steps > 0, steps, jnp.inf), axis=0, initial=jnp.inf)
    return jnp.where(jnp.isfinite(least), least, 0.0) ** 2 / 12
