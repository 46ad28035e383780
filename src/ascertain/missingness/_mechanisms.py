"""Four ways in which values go missing (section 3.3 and appendix B.1 of the paper), one action at a time.

A mechanism is fitted on training data, where it calibrates how often each action goes missing, and then
sampled. Whatever an action reveals goes missing together. Everything here can be jitted and vmapped.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.checks import check_rate
from ascertain.errors import InputError
from ascertain.missingness._registry import MechanismPart, register
from ascertain.problem import Problem, Table

DRIVER_FRACTION = 0.3  # of the actions, under MAR and logistic MNAR
_BISECTIONS = 80
_LARGEST_INTERCEPT = 80.0
_SMALLEST_SCALE = float(np.finfo(np.float64).eps)
_LARGEST_PROBABILITY = float(np.nextafter(np.float32(1), np.float32(0)))


class Mechanism(eqx.Module):
    """The probability that each action of a row is missing.

    Examples
    --------
    `docs/extend.md` writes one:

    >>> from ascertain import missingness
    >>> issubclass(missingness.MCAR, missingness.Mechanism)
    True
    """

    reveals: eqx.AbstractVar[Bool[Array, "actions features"]]

    @classmethod
    @abstractmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "Mechanism":
        """Calibrate the mechanism on training data.

        Parameters
        ----------
        key
            The random key, to choose which actions drive the missingness of others, and their weights.
        problem
            Its actions say which features go missing together.
        table
            The training data.
        rate
            The share of rows in which an action is missing, at least 0 and below 1.
        """

    @abstractmethod
    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """Probability that each action is missing."""

    def sample(self, key: PRNGKeyArray, table: Table) -> Table:
        """Hide cells of a table; a row keeps at least one action, if it had one.

        With one key, what is missing at a rate is also missing at every higher rate, except in rows that had
        to be redrawn.
        """
        drawn, redrawn = jr.split(key)
        readable = _readable(self.reveals, table.available)
        # Probabilities of large logits are rounded to 1; such a row must keep an action, too.
        missing = jnp.minimum(self.probabilities(table.x), _LARGEST_PROBABILITY)
        if missing.shape != readable.shape:
            raise InputError(
                f"{type(self).__name__}.probabilities returns {missing.shape}; one number per row and action "
                f"is needed: {readable.shape}"
            )
        hidden = jr.uniform(drawn, missing.shape) < missing
        emptied = jnp.all(hidden | ~readable, axis=1, keepdims=True)
        nonempty = _draw_nonempty(redrawn, jnp.where(readable, missing, 1.0))
        hidden = jnp.where(emptied & readable, nonempty, hidden)
        lost = hidden.astype(jnp.float32) @ self.reveals.astype(jnp.float32) > 0
        available = table.available & ~lost
        return table.with_cells(table.x, available)


@register(
    "mcar", summary="Completely at random: every action, independently, at the same rate.", label="MCAR"
)
class MCAR(Mechanism):
    """Missing completely at random: every action, independently, at the same rate.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import load
    >>> cube = load("cube")
    >>> train, valid, test = cube.split(0)
    >>> holey = MCAR.fit(jr.key(0), cube.problem, train, 0.5).sample(jr.key(1), train)
    >>> round(float(holey.available.mean()), 1)
    0.5
    """

    reveals: Bool[Array, "actions features"]
    rate: Float[Array, ""]

    @classmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "MCAR":
        """Take the rate; there is nothing to calibrate."""
        del key, table
        return cls(problem.reveals, _rate(rate))

    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """The rate, for every action."""
        return jnp.full((x.shape[0], self.reveals.shape[0]), self.rate)


@register(
    "mar", summary="At random: some actions, always there, drive the missingness of the others.", label="MAR"
)
class MAR(Mechanism):
    """Missing at random: some actions, always there, drive the missingness of the others.

    Examples
    --------
    >>> from ascertain.datasets import cube
    >>> dataset = cube(100)
    >>> train, valid, _ = dataset.split(0)
    >>> holey, _ = mask_tables(jr.key(0), MAR, dataset.problem, train, valid, 0.7)
    >>> bool(holey.available.all(axis=0).any())  # those that drive the others are never missing
    True
    """

    reveals: Bool[Array, "actions features"]
    driver: Bool[Array, " actions"]
    weights: Float[Array, "features actions"]  # zero except from drivers' features to other actions
    intercepts: Float[Array, " actions"]

    @classmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "MAR":
        """Choose the drivers and weights at random, and the intercepts to match the rate."""
        return cls(problem.reveals, *_fit_logistic(key, problem, table, _rate(rate)))

    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """A logistic function of the drivers' values, and 0 for the drivers."""
        missing = jax.nn.sigmoid(x @ self.weights + self.intercepts[None])
        return jnp.where(self.driver[None], 0.0, missing)


@register(
    "mnar_logistic",
    summary="Not at random: as mar, but the drivers go missing too.",
    label="MNAR (logistic)",
)
class LogisticMNAR(Mechanism):
    """Missing not at random: as MAR, but the drivers go missing too, completely at random.

    Examples
    --------
    `docs/data.md` hides cells with another mechanism; all are used in the same way, and known by name:

    >>> from ascertain import missingness
    >>> missingness.get("mnar_logistic").fit == LogisticMNAR.fit
    True
    """

    reveals: Bool[Array, "actions features"]
    driver: Bool[Array, " actions"]
    weights: Float[Array, "features actions"]
    intercepts: Float[Array, " actions"]
    rate: Float[Array, ""]

    @classmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "LogisticMNAR":
        """Choose the drivers and weights at random, and the intercepts to match the rate."""
        return cls(problem.reveals, *_fit_logistic(key, problem, table, _rate(rate)), _rate(rate))

    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """A logistic function of the drivers' true values, and the rate for the drivers."""
        missing = jax.nn.sigmoid(x @ self.weights + self.intercepts[None])
        return jnp.where(self.driver[None], self.rate, missing)


@register(
    "mnar_self",
    summary="Not at random: each action goes missing by its own values.",
    label="MNAR (self-masking)",
)
class SelfMNAR(Mechanism):
    """Missing not at random: each action goes missing by its own values.

    Examples
    --------
    `docs/data.md` hides cells with another mechanism; all are used in the same way, and known by name:

    >>> from ascertain import missingness
    >>> missingness.get("mnar_self").fit == SelfMNAR.fit
    True
    """

    reveals: Bool[Array, "actions features"]
    weights: Float[Array, "features actions"]  # zero except from an action's features to itself
    intercepts: Float[Array, " actions"]

    @classmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "SelfMNAR":
        """Choose a weight for every feature at random, and the intercepts to match the rate."""
        own = jr.normal(key, (problem.n_features, 1)) * problem.reveals.T
        weights = _scaled(own, table.x)
        return cls(problem.reveals, weights, _calibrate(table.x @ weights, _rate(rate)))

    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """A logistic function of the action's own values."""
        return jax.nn.sigmoid(x @ self.weights + self.intercepts[None])


def mask_tables(
    key: PRNGKeyArray,
    mechanism: type[Mechanism] | MechanismPart,
    problem: Problem,
    train: Table,
    valid: Table,
    rate: Any,
) -> tuple[Table, Table]:
    """Fit a mechanism on training data and hide cells of training and validation data with it.

    Examples
    --------
    >>> from ascertain.datasets import cube
    >>> dataset = cube(100)
    >>> train, valid, _ = dataset.split(0)
    >>> holey_train, holey_valid = mask_tables(jr.key(0), MCAR, dataset.problem, train, valid, 0.7)
    >>> bool(holey_train.available.mean() < 0.4), holey_valid.x.shape
    (True, (20, 20))
    """
    fitting, training, validating = jr.split(key, 3)
    fitted = mechanism.fit(fitting, problem, train, rate)
    return fitted.sample(training, train), fitted.sample(validating, valid)


def _rate(rate: Any) -> Float[Array, ""]:
    if isinstance(rate, jax.core.Tracer):  # has no value to check yet
        return jnp.asarray(rate, jnp.float32)
    is_scalar = isinstance(rate, jax.Array) and rate.ndim == 0
    return jnp.asarray(check_rate(rate.item() if is_scalar else rate), jnp.float32)


def _fit_logistic(
    key: PRNGKeyArray, problem: Problem, table: Table, rate: Float[Array, ""]
) -> tuple[Bool[Array, " actions"], Float[Array, "features actions"], Float[Array, " actions"]]:
    """Choose drivers, weights from their features to the other actions, and intercepts."""
    choosing, weighing = jr.split(key)
    n = problem.n_actions
    n_drivers = min(max(int(DRIVER_FRACTION * n), 1), n)
    driver = jnp.zeros(n, bool).at[jr.permutation(choosing, n)[:n_drivers]].set(True)
    drives = jnp.any(problem.reveals & driver[:, None], axis=0)
    weights = jr.normal(weighing, (problem.n_features, n)) * drives[:, None] * ~driver[None]
    weights = _scaled(weights, table.x)
    return driver, weights, _calibrate(table.x @ weights, rate)


def _scaled(
    weights: Float[Array, "features actions"], x: Float[Array, "instances features"]
) -> Float[Array, "features actions"]:
    """Scale weights so that each action's logits have a deviation of 1 (or none, where they are constant)."""
    deviation = jnp.std(x @ weights, axis=0)
    return weights / jnp.maximum(deviation, _SMALLEST_SCALE)[None]


def _calibrate(logits: Float[Array, "instances actions"], rate: Float[Array, ""]) -> Float[Array, " actions"]:
    """Find, by bisection, the intercepts at which each action's mean probability is the rate."""

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = jnp.mean(jax.nn.sigmoid(logits + middle[None]), axis=0) < rate
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = jnp.full(logits.shape[1], _LARGEST_INTERCEPT)
    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (-ends, ends))
    # At rate 0 nothing goes missing, however far off the logits are.
    return jnp.where(rate > 0, (low + high) / 2, -jnp.inf)


def _readable(
    reveals: Bool[Array, "actions features"], available: Bool[Array, "instances features"]
) -> Bool[Array, "instances actions"]:
    return (~available).astype(jnp.float32) @ reveals.T.astype(jnp.float32) == 0


def _draw_nonempty(
    key: PRNGKeyArray, missing: Float[Array, "instances actions"]
) -> Bool[Array, "instances actions"]:
    """Draw which actions are missing, given that not all are: the same as redrawing until one is left.

    The first action that is left is drawn from its conditional distribution; those before it are missing, and
    those after it independent. Rows where all have probability 1 get an arbitrary draw.
    """
    choosing, drawing = jr.split(key)
    log_missing = jnp.log(missing)
    all_before = jnp.cumsum(log_missing, axis=1) - log_missing
    first_left = jnp.where(missing < 1, all_before + jnp.log1p(-missing), -jnp.inf)
    first = jr.categorical(choosing, first_left, axis=1)[:, None]
    place = jnp.arange(missing.shape[1])[None]
    behind = (jr.uniform(drawing, missing.shape) < missing) & (place > first)
    return (place < first) | behind
