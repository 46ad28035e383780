"""A policy that looks ahead without training: what it expects follows from what is left to spend."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain.estimator._advisor import Advisor
from ascertain.policy import Policy
from ascertain.problem import Problem


class Foresight(Policy):
    """Goes through the actions in order, or backwards once it has seen a positive value."""

    problem: Problem
    watched: int = eqx.field(static=True)  # the feature of that value

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        places = jnp.arange(1.0, acquired.shape[1] + 1)[None]
        backwards = (observed & (x > 0))[:, self.watched, None]
        scores = jnp.where(backwards, places, -places)
        return jnp.concatenate([jnp.full_like(scores[:, :1], -jnp.inf), scores], axis=1)

    def outlook(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
    ) -> Float[Array, "instances actions"]:
        left = self.problem.budget - self.problem.total_cost(acquired)
        return jnp.broadcast_to(expected_right(left)[:, None], acquired.shape)

    def at(self, budget: float | Float[Array, ""]) -> "Foresight":
        return eqx.tree_at(lambda policy: policy.problem, self, self.problem.at(budget))


def expected_right(left: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """What the policy expects while so much is left."""
    return (1 + left) / (2 + left)


def with_foresight(advisor: Advisor, watched: str) -> Advisor:
    """Give an advisor this policy; it watches a feature."""
    place = advisor.encoding.feature_names.index(watched)
    return replace(advisor, policy=Foresight(advisor.problem.without_names(), place))
