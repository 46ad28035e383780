"""Shared by the pretraining of JAFA, OL, GDFS and DIME: random subsets of the features, and a schedule."""

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain._core.training import Schedule
from ascertain.problem import Problem
from ascertain.protocol import Protocol

MOST_MASKED = 0.9  # the highest masking rate of a batch; rates are uniform

SCHEDULE = Schedule(
    batch_size=128, batches_per_round=100, max_rounds=10_000, track_from=500, stop_from=1000, patience=50
)


def random_rate(key: PRNGKeyArray) -> Float[Array, ""]:
    """Draw the masking rate of a batch."""
    return MOST_MASKED * jr.uniform(key)


def random_subset(
    key: PRNGKeyArray, problem: Problem, protocol: Protocol, n_rows: int, rate: Float[Array, "..."]
) -> Bool[Array, "instances features"]:
    """Draw which features are kept: each action's together, or each column by itself, and all known ones.

    `rate` is the probability of hiding: one number, or a column with one for each row.
    """
    if protocol.pretrain_mask == "column":
        return (jr.uniform(key, (n_rows, problem.n_features)) > rate) | problem.known[None]
    return problem.observed(jr.uniform(key, (n_rows, problem.n_actions)) > rate)


def mask_inputs(
    x: Float[Array, "*batch features"], mask: Bool[Array, "*batch features"]
) -> Float[Array, "*batch inputs"]:
    """The observed values (zero elsewhere), then the mask."""
    return jnp.concatenate([jnp.where(mask, x, 0.0), mask.astype(x.dtype)], axis=-1)
