"""Policies in the finite world: exact values of learned ones, and plans as policies.

The features of a `FiniteProblem` become columns of value numbers, one action each (`problem_of`, `table_of`).
A policy for such tables is evaluated in all states at once. Its choices form a `Plan` (`plan_of`), whose
value needs no sampling. Conversely, `plan_policy` turns a plan into a policy, and `optimal_policy` the
optimal one. These are not in the registry of methods: they come from a known distribution, not from tables.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from ascertain._core.arrays import on_device
from ascertain.acquisition import choose
from ascertain.errors import InputError
from ascertain.exact._finite import FiniteProblem
from ascertain.exact._observations import Observations
from ascertain.exact._plan import TIE_MARGIN, Plan
from ascertain.policy import Policy
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


def problem_of(problem: FiniteProblem) -> Problem:
    """Convert a finite problem for methods: one action per feature, with its costs and budget.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> problem = problem_of(shortcut(d=6, budget=2))
    >>> problem.n_actions, float(problem.budget)
    (6, 2.0)
    """
    return Problem(
        np.eye(len(problem.n_values)),
        problem.costs,
        problem.budget,
        problem.n_labels,
        action_names=problem.feature_names,
        feature_names=problem.feature_names,
        class_names=problem.label_names,
    )


def table_of(problem: FiniteProblem, observations: Observations) -> Table:
    """Convert observations for methods: value numbers as floats, missing where unavailable.

    Examples
    --------
    >>> from ascertain.exact import problem_of, table_of
    >>> from ascertain.exact import shortcut
    >>> world = shortcut(d=6, budget=2)
    >>> table = table_of(world, world.sample(rng=0, n=100, rate=0.7))
    >>> table.x.shape, table.n_classes
    ((100, 6), 2)
    >>> problem_of(world).check(table)
    """
    problem.check(observations)
    return Table(observations.x, observations.y, observations.available, n_classes=problem.n_labels)


def plan_of(
    problem: FiniteProblem, policy: Policy, *, protocol: Protocol = PAPER, key: PRNGKeyArray | None = None
) -> Plan:
    """Tabulate what a policy does in every state, with all features available, as a plan.

    `problem.value(plan)` and `problem.regret(plan)` are then the policy's own. The plan's action values only
    encode its choices: 1 for the action taken, 0 for the others, 1/2 for stopping.

    Parameters
    ----------
    problem
        The finite problem whose tables the policy is for.
    policy
        The policy.
    protocol
        Under `illegal` affordability the policy chooses among affordable actions; under `blind` its first
        unaffordable choice ends the episode.
    key
        The random key, for stochastic policies; the plan is then one draw of all choices. No state is
        visited twice in an episode, so the mean value over keys is the policy's.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import methods
    >>> from ascertain.exact import plan_of, problem_of, table_of
    >>> from ascertain.exact import shortcut
    >>> world = shortcut(d=4, budget=2)
    >>> table = table_of(world, world.sample(rng=0, n=10))
    >>> policy = methods.fit("sequential", jr.key(0), problem_of(world), table, table)
    >>> plan = plan_of(world, policy)
    >>> print(plan)
    acquire context (cost 1)
    ├─ 0: acquire branch0.1 (cost 1)
    │  ├─ 0: predict 0
    │  └─ 1: predict 1
    └─ 1: acquire branch0.1 (cost 1)
       ├─ 0: predict 1
       └─ 1: predict 1
    >>> world.regret(plan)
    0.25
    """
    x, acquired = state_rows(problem)
    scores = _score_states(policy, x, acquired, jr.key(0) if key is None else key)
    return plan_from_scores(problem, scores, protocol)


def state_rows(
    problem: FiniteProblem,
) -> tuple[Float[Array, "states features"], Bool[Array, "states features"]]:
    """Write every state as a row of a table: its values (0 where not acquired), and what is acquired."""
    acquired = problem.space.values >= 0
    return on_device(np.where(acquired, problem.space.values, 0), np.float32), on_device(acquired)


def score_states(
    policy: Policy,
    x: Float[Array, "states features"],
    acquired: Bool[Array, "states features"],
    key: PRNGKeyArray,
) -> Float[Array, "states choices"]:
    """Score all states (`state_rows`) with all features available; can be jitted and vmapped."""
    return policy(x, acquired, acquired, jnp.ones_like(acquired), key=key)


_score_states = eqx.filter_jit(score_states)


def plan_from_scores(problem: FiniteProblem, scores: ArrayLike, protocol: Protocol = PAPER) -> Plan:
    """Turn a policy's scores in all states (`score_states`) into a plan; see `plan_of`."""
    space = problem.space
    found = np.asarray(scores, np.float32)
    if found.shape != (expected := (len(space), 1 + len(problem.n_values))):
        raise InputError(f"scores has shape {found.shape}; with a row per state it would be {expected}")
    for state, choice in np.argwhere(np.isnan(found))[:1]:
        raise InputError(f"scores[{state}, {choice}] is NaN; a policy's scores rank its choices")
    edge_of = np.full(space.values.shape, -1)  # by state and action; -1 if it is not affordable
    edge_of[space.edge_state, space.edge_action] = np.arange(len(space.edge_state))
    legal = space.values < 0 if protocol.affordability == "blind" else edge_of >= 0
    action = np.asarray(choose(on_device(found), on_device(legal))) - 1
    edge = np.where(action >= 0, edge_of[np.arange(len(space)), action], -1)
    edge_values = np.zeros(len(space.edge_state))
    edge_values[edge[edge >= 0]] = 1.0
    return Plan(problem, edge_values, np.full(len(space), 0.5))


class PlanPolicy(Policy):
    """Follows a plan, on tables of value numbers.

    The state of a row is found by adding its observed features one by one to the empty state.
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
        """Score by the plan's action values, with its decision first.

        Numbers that are not a value count as the nearest one; rows beyond the budget stop.
        """
        del acquired, available, key
        last = (self.n_values - 1).astype(x.dtype)
        value = jnp.clip(jnp.round(x), 0.0, last[None]).astype(self.first_cell.dtype)

        def add(state: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
            cell, known = column
            return jnp.where(known, self.successor[state, cell], state), None

        empty = jnp.zeros(x.shape[0], self.successor.dtype)
        state, _ = jax.lax.scan(add, empty, ((self.first_cell[None] + value).T, observed.T))
        return self.scores[state]


def plan_policy(plan: Plan) -> PlanPolicy:
    """Turn a plan into a policy for tables of its problem (`table_of`).

    Where a row lacks the feature that the plan would acquire, the next best action value decides.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> policy = plan_policy(shortcut(d=4, budget=2).optimal_plan())
    >>> policy.scores.shape[1]  # of stopping, and of four features
    5
    """
    space, n_values = plan.problem.space, np.array(plan.problem.n_values)
    n_states, first_cell = len(space), np.cumsum(n_values) - n_values
    # One more state stands for everything beyond the budget; nothing leads out of it, and it stops.
    successor = np.full((n_states + 1, n_values.sum()), n_states, np.int32)
    edge, value = np.nonzero(space.has_value)
    state, action = space.edge_state[edge], space.edge_action[edge]
    successor[state, first_cell[action] + value] = space.children[edge, value]
    beyond = np.array([[np.inf] + [-np.inf] * len(n_values)], np.float32)
    return PlanPolicy(
        successor=on_device(successor),
        scores=on_device(np.concatenate([_scores(plan), beyond])),
        first_cell=on_device(first_cell, np.int32),
        n_values=on_device(n_values, np.int32),
    )


def optimal_policy(problem: FiniteProblem) -> PlanPolicy:
    """Turn the optimal plan of a finite problem into a policy.

    Examples
    --------
    >>> from ascertain.exact import optimal_policy, plan_of
    >>> from ascertain.exact import shortcut
    >>> world = shortcut(d=6, budget=2)
    >>> world.regret(plan_of(world, optimal_policy(world)))
    0.0
    """
    return plan_policy(problem.optimal_plan())


def _scores(plan: Plan) -> Float[np.ndarray, "states choices"]:
    """Action values in single precision, with the plan's decision first even where they are too close."""
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
