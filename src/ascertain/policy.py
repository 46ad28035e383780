"""Policies, which methods fit: they score every choice from the observed features of a row."""

import abc
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain.problem import Problem


class Policy(eqx.Module):
    """Scores stopping and every action; the caller takes the best legal one.

    A policy is a PyTree of its parameters, so it can be jitted, vmapped and saved.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class LastFirst(Policy):
    ...     def __call__(self, x, observed, acquired, available, *, key):
    ...         scores = jnp.arange(1.0 + acquired.shape[1])
    ...         return jnp.broadcast_to(scores[None], (len(x), len(scores)))
    >>> nothing = jnp.zeros((1, 2), bool)
    >>> LastFirst()(jnp.zeros((1, 2)), nothing, nothing, ~nothing, key=None).tolist()
    [[0.0, 1.0, 2.0]]
    """

    @abc.abstractmethod
    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score the choices of each row: 0 is to stop, 1 + a is to take action a.

        Parameters
        ----------
        x
            The rows' values; those that are not observed must not matter.
        observed
            Which features are observed.
        acquired
            Which actions were taken.
        available
            Which actions the row has the features of; only the state variant `sm` uses it.
        key
            The random key, for policies that choose at random.

        Returns
        -------
        scores
            The higher the better. Stopping scores minus infinity if the method never stops. Scores of
            illegal actions are ignored.
        """

    def at(self, budget: float | Float[Array, ""]) -> "Policy":
        """Return the policy for another budget; by default the same for all."""
        del budget
        return self


def at_prices_of(problem: Problem, policy: Policy) -> Policy:
    """The policy at the prices of a problem; one that holds no problem of its own does not see them."""

    def change(node: Any) -> Any:
        return node.at_prices_of(problem) if isinstance(node, Problem) else node

    changed: Policy = jax.tree.map(change, policy, is_leaf=lambda node: isinstance(node, Problem))
    return changed


@runtime_checkable
class LooksAhead(Protocol):
    """A policy that also says what it expects once the budget is spent."""

    def outlook(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
    ) -> Float[Array, "instances actions"]:
        """The probability that the last prediction is right, if an action is taken now and the best follow.

        Takes what a policy takes, for the policy's budget.
        """
