"""What a fitted method is: a rule that scores every action from what is known of a row."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Policy(eqx.Module):
    """Scores stopping and every acquisition; the caller takes the best one that is legal.

    A policy is a PyTree of its parameters, so it can be jitted, vmapped and saved.
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
        """Score the choices of each row: 0 is to stop, 1 + a is to acquire action a.

        Parameters
        ----------
        x
            The rows' values; those that are not observed are not looked at.
        observed
            Which features are known.
        acquired
            Which actions were taken.
        available
            Which actions the row supports; only policies of the state variant `sm` look at it.
        key
            The random key, for policies that draw lots.

        Returns
        -------
        scores
            The higher the better. Stopping scores minus infinity where a method has no rule for it. Illegal
            actions have some score, too: the caller leaves them out.
        """

    def at(self, budget: float | Float[Array, ""]) -> "Policy":
        """Give the policy for another budget. Most do not look at the budget, and are the same for all."""
        del budget
        return self
