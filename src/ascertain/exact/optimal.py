"""Plans of the finite world as policies, the exact optimum among them.

These are not in the registry: what they do was computed from a known distribution, not learned from tables.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.exact.finite import FiniteProblem
from ascertain.exact.plan import TIE_MARGIN, Plan
from ascertain.policy import Policy


class PlanPolicy(Policy):
    """Does what a plan says, on tables that hold the numbers of the values.

    The state of a row is found by adding its observed features one by one to the state that knows nothing.
    """

    successor: Int[Array, "states cells"]  # the state after learning that a feature has a value
    scores: Float[Array, "states choices"]
    first_cell: Int[Array, " features"]  # the number of each feature's first value
    n_values: Int[Array, " features"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by the plan's action values, with what the plan does first.

        Numbers that are no value count as the nearest one; a row with more than the budget pays for stops.
        """
        del acquired, available, key
        last = (self.n_values - 1).astype(x.dtype)
        value = jnp.clip(jnp.round(x), 0.0, last[None]).astype(self.first_cell.dtype)

        def add(state: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
            cell, known = column
            return jnp.where(known, self.successor[state, cell], state), None

        nothing = jnp.zeros(x.shape[0], self.successor.dtype)
        state, _ = jax.lax.scan(add, nothing, ((self.first_cell[None] + value).T, observed.T))
        return self.scores[state]


def plan_policy(plan: Plan) -> PlanPolicy:
    """Give a plan as a policy for tables of its problem (`ascertain.exact.learned.table_of`).

    Where a row lacks what the plan would acquire, the policy goes on with the next best action value.
    """
    space, n_values = plan.problem.space, np.array(plan.problem.n_values)
    n_states, first_cell = len(space), np.cumsum(n_values) - n_values
    # One more state stands for all that the budget does not pay for; nothing leads out of it.
    successor = np.full((n_states + 1, n_values.sum()), n_states, np.int32)
    edge, value = np.nonzero(space.has_value)
    owner, action = space.edge_state[edge], space.edge_action[edge]
    successor[owner, first_cell[action] + value] = space.children[edge, value]
    return PlanPolicy(
        successor=jnp.asarray(successor),
        scores=jnp.asarray(np.concatenate([_scores(plan), _only_stop(len(n_values))])),
        first_cell=jnp.asarray(first_cell, jnp.int32),
        n_values=jnp.asarray(n_values, jnp.int32),
    )


def optimal_policy(problem: FiniteProblem) -> PlanPolicy:
    """Give the policy that no other one beats, for the budget of a finite problem.

    A problem that is too large to be solved is refused with a `TooLargeError` when it is made.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> from ascertain.exact.learned import policy_regret
    >>> from ascertain.exact.optimal import optimal_policy
    >>> world = shortcut(d=6, budget=2)
    >>> policy_regret(world, optimal_policy(world))
    0.0
    """
    return plan_policy(problem.optimal_plan())


def _scores(plan: Plan) -> Float[np.ndarray, "states choices"]:
    """Give the plan's values with its decision first, whatever single precision makes of close ones."""
    space = plan.problem.space
    values = np.full((len(space), 1 + space.values.shape[1]), -np.inf)
    values[:, 0] = plan.stop_values
    values[space.edge_state, 1 + space.edge_action] = plan.edge_values
    decision, best = np.zeros(len(space), int), plan.stop_values
    for choice in range(1, values.shape[1]):  # as Plan.edge decides, for all states at once
        better = values[:, choice] > best + TIE_MARGIN
        decision, best = np.where(better, choice, decision), np.where(better, values[:, choice], best)
    scores = values.astype(np.float32)
    scores[np.arange(len(space)), decision] = np.nextafter(scores.max(axis=1), np.float32(np.inf))
    return scores


def _only_stop(n_actions: int) -> Float[np.ndarray, "one choices"]:
    return np.array([[np.inf] + [-np.inf] * n_actions], np.float32)
