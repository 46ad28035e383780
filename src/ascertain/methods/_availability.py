"""Which actions training rows have: how probable that is, and where too few have one to learn about it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain.problem import Problem, Table

_LARGEST_WEIGHT = 10.0  # of a row, against the mean
_UPDATES, _BATCH, _RATE, _PENALTY = 500, 512, 0.05, 1e-3
_LEAST_SHARE = 0.1  # of the rows must have an action for plans to count on it ...
_OF_MEDIAN = 0.5  # ... or this much of the share that rows have of the median action
_LEAST_TOGETHER, _LEAST_ROWS = 0.05, 100  # of all rows must have it beside the acquired ones, if fewer do
_REFERENCE = 256  # rows that tell how many have several actions
_TINY = 1e-12


class Overlap(eqx.Module):
    """Where enough rows have an action beside the acquired ones, given what is known from the start.

    What is rarer than usual must be there, together with the acquired ones, in so many of all rows that the
    value of the plan can be learned and checked.
    """

    coefficients: Float[Array, "inputs actions"]  # of features, acquired actions, and the intercept
    least: Float[Array, ""]  # the least probability
    usual: Float[Array, ""]  # the probability from which an action is not rare
    reference: Bool[Array, "rows actions"]  # what some training rows have
    least_together: Float[Array, ""]  # the least share of them that have all

    def __call__(
        self, x: Float[Array, "*batch features"], acquired: Bool[Array, "*batch actions"]
    ) -> Bool[Array, "*batch actions"]:
        """Whether a plan for a row may count on each action."""
        chance = jax.nn.sigmoid(_design(x, acquired) @ self.coefficients)
        common = (chance >= self.usual) | (self._together(acquired) >= self.least_together)
        return (chance >= self.least) & common

    def _together(self, acquired: Bool[Array, "*batch actions"]) -> Float[Array, "*batch actions"]:
        """The share of rows that have all that is acquired, and each action."""
        reference = self.reference.astype(jnp.float32)
        lacks = acquired.astype(jnp.float32) @ (1 - reference).T
        return (lacks == 0).astype(jnp.float32) @ reference / len(reference)


def overlap_everywhere(problem: Problem) -> Overlap:
    """Plans may count on everything."""
    n_inputs, n_actions = problem.n_features + problem.n_actions + 1, problem.n_actions
    nothing = jnp.asarray(0.0)
    return Overlap(
        jnp.zeros((n_inputs, n_actions)), nothing, nothing, jnp.ones((1, n_actions), bool), nothing
    )


def fit_overlap(
    key: PRNGKeyArray, problem: Problem, table: Table, available: Bool[Array, "rows actions"]
) -> Overlap:
    """Learn which actions rows have beside others, from random sets of what they have.

    Where a hospital never ran a test, its records say nothing about what the test would have shown there.
    Where no row has two tests, nothing is known about what the second adds to the first.
    """
    subsets, fitting = jr.split(key)
    rate, uniform = jr.split(subsets)
    share = jr.uniform(rate, (len(table.y), 1))
    drawn = jr.uniform(uniform, available.shape) < share
    acquired = available & drawn
    inputs = _design(_known(problem, table), acquired)
    usual = _OF_MEDIAN * jnp.median(jnp.mean(available.astype(jnp.float32), axis=0))
    n_rows = len(table.y)
    # With replacement, as nothing should have an entry for each of many rows.
    some = jr.randint(jr.fold_in(key, 2), (_REFERENCE,), 0, n_rows)
    return Overlap(
        # Only what was not drawn: of what was drawn and not acquired, it is known that the row lacks it.
        _regression(fitting, inputs, available, ~drawn),
        jnp.minimum(_LEAST_SHARE, usual),
        usual,
        available[some],
        jnp.asarray(max(_LEAST_TOGETHER, min(1.0, _LEAST_ROWS / n_rows))),
    )


def availability_weights(
    key: PRNGKeyArray, problem: Problem, table: Table, available: Bool[Array, "rows actions"]
) -> Float[Array, "rows actions"]:
    """Weights that make rows which have an action look like all rows.

    Where columns that every row has, or the class, decide what is measured, regressions on the rows that have
    an action are biased unless those are part of the state. The weight is the probability of having the
    action given what is known from the start (which is in every state), over that given all of these.
    """
    complete = jnp.all(table.available, axis=0)
    labels = jax.nn.one_hot(table.y, problem.n_classes)
    known, everything = _known(problem, table), jnp.where(complete[None], table.x, 0.0)
    weights = _propensities(key, _design(known), available) / _propensities(
        key, _design(everything, labels), available
    )
    return jnp.clip(weights, 1 / _LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _design(*parts: Array) -> Float[Array, "*batch inputs"]:
    """The inputs of a regression, with a one for the intercept."""
    one = jnp.ones_like(parts[0][..., :1])
    return jnp.concatenate([*(part.astype(one.dtype) for part in parts), one], axis=-1)


def _known(problem: Problem, table: Table) -> Float[Array, "rows features"]:
    """What is known of every row from the start; 0 elsewhere."""
    everywhere = problem.known & jnp.all(table.available, axis=0)
    return jnp.where(everywhere[None], table.x, 0.0)


def _propensities(
    key: PRNGKeyArray, design: Float[Array, "rows inputs"], available: Bool[Array, "rows actions"]
) -> Float[Array, "rows actions"]:
    """The probability that a row has each action."""
    coefficients = _regression(key, design, available, jnp.ones_like(available))
    return jnp.maximum(jax.nn.sigmoid(design @ coefficients), _TINY)


def _regression(
    key: PRNGKeyArray,
    design: Float[Array, "rows inputs"],
    available: Bool[Array, "rows actions"],
    counted: Bool[Array, "rows actions"],
) -> Float[Array, "inputs actions"]:
    """Logistic regression of having each action, where that is counted."""
    outcome, adam = available.astype(jnp.float32), optax.adam(_RATE)

    def step(carry: tuple[Array, Any], key: PRNGKeyArray) -> tuple[tuple[Array, Any], None]:
        coefficients, optimiser = carry
        rows = jr.randint(key, (_BATCH,), 0, len(design))

        def loss(coefficients: Array) -> Float[Array, ""]:
            logits = design[rows] @ coefficients
            unlikely = optax.sigmoid_binary_cross_entropy(logits, outcome[rows])
            lost = jnp.where(counted[rows], unlikely, 0.0)
            return jnp.mean(jnp.sum(lost, axis=1)) + _PENALTY * jnp.sum(coefficients**2)

        change, optimiser = adam.update(jax.grad(loss)(coefficients), optimiser)
        return (optax.apply_updates(coefficients, change), optimiser), None

    start = jnp.zeros((design.shape[1], available.shape[1]))
    (coefficients, _), _ = jax.lax.scan(step, (start, adam.init(start)), jr.split(key, _UPDATES))
    return coefficients
