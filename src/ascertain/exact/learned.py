"""Learned policies in the finite world: the tables they learn from, and their exact value.

The features of a `FiniteProblem` become columns that hold value numbers, one acquisition each. A policy that
was trained on such tables is asked in every state of the problem at once; its answers are a `Plan`, which is
valued without sampling, with the problem's own predictor.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from ascertain.acquisition import choose
from ascertain.errors import InputError
from ascertain.exact.finite import FiniteProblem
from ascertain.exact.observations import Observations
from ascertain.exact.plan import Plan
from ascertain.exact.states import StateSpace
from ascertain.policy import Policy
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


def problem_of(problem: FiniteProblem) -> Problem:
    """Give a finite problem as methods take it: one action per feature, at its cost, within the budget."""
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
    """Give observations as methods take them: value numbers as floats, with holes where unavailable.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> from ascertain.exact.learned import problem_of, table_of
    >>> world = shortcut(d=6, budget=2)
    >>> table = table_of(world, world.sample(rng=0, n=100, rate=0.7))
    >>> table.x.shape, table.n_classes
    ((100, 6), 2)
    >>> problem_of(world).check(table)
    """
    problem.bit_rows(observations)  # refuses values and labels that the problem does not have
    return Table(observations.x, observations.y, observations.available, n_classes=problem.n_labels)


def plan_of(
    problem: FiniteProblem, policy: Policy, *, protocol: Protocol = PAPER, key: PRNGKeyArray | None = None
) -> Plan:
    """Give what a policy does in every state, with every feature to be had, as a plan to read and value.

    The plan's action values only say what the policy takes: 1 for that, 0 for everything else, 1/2 for
    stopping.

    Parameters
    ----------
    problem
        The finite problem whose tables the policy was made for.
    policy
        The policy.
    protocol
        Under `illegal` affordability the policy chooses among what fits the budget; under `blind` its first
        choice that does not fit ends the episode.
    key
        The random key, for policies that draw lots; the plan is then one draw of all lots. No state is
        passed twice in an episode, so the mean value over keys is the policy's own.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import methods
    >>> from ascertain.exact import shortcut
    >>> from ascertain.exact.learned import plan_of, problem_of, table_of
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


def policy_value(
    problem: FiniteProblem, policy: Policy, *, protocol: Protocol = PAPER, key: PRNGKeyArray | None = None
) -> float:
    """Give the accuracy that a policy reaches under the true distribution; see `plan_of`."""
    return problem.value(plan_of(problem, policy, protocol=protocol, key=key))


def policy_regret(
    problem: FiniteProblem, policy: Policy, *, protocol: Protocol = PAPER, key: PRNGKeyArray | None = None
) -> float:
    """Give the accuracy that a policy loses against the optimal plan; see `plan_of`."""
    return problem.regret(plan_of(problem, policy, protocol=protocol, key=key))


def state_rows(
    problem: FiniteProblem,
) -> tuple[Float[Array, "states features"], Bool[Array, "states features"]]:
    """Give every state as a row: its values (0 where not acquired), and what is acquired."""
    acquired = problem.space.values >= 0
    return jnp.asarray(np.where(acquired, problem.space.values, 0), jnp.float32), jnp.asarray(acquired)


def score_states(
    policy: Policy,
    x: Float[Array, "states features"],
    acquired: Bool[Array, "states features"],
    key: PRNGKeyArray,
) -> Float[Array, "states choices"]:
    """Ask a policy in all states (`state_rows`), with every feature to be had; can be jitted and vmapped."""
    return policy(x, acquired, acquired, jnp.ones_like(acquired), key=key)


def plan_from_scores(problem: FiniteProblem, scores: ArrayLike, protocol: Protocol = PAPER) -> Plan:
    """Make a plan of a policy's scores in all states; see `plan_of` and `score_states`."""
    space = problem.space
    found = np.asarray(scores, np.float32)
    if found.shape != (expected := (len(space), 1 + len(problem.n_values))):
        raise InputError(f"scores has shape {found.shape}; with a row per state it would be {expected}")
    for state, choice in np.argwhere(np.isnan(found))[:1]:
        raise InputError(f"scores[{state}, {choice}] is NaN; a policy's scores rank its choices")
    edge_of = _edge_table(space)
    legal = space.values < 0 if protocol.affordability == "blind" else edge_of >= 0
    action = np.asarray(choose(jnp.asarray(found), jnp.asarray(legal))) - 1
    edge = np.where(action >= 0, edge_of[np.arange(len(space)), action], -1)
    edge_values = np.zeros(len(space.edge_state))
    edge_values[edge[edge >= 0]] = 1.0
    return Plan(problem, edge_values, np.full(len(space), 0.5))


def _edge_table(space: StateSpace) -> Int[np.ndarray, "states features"]:
    """Give the number of each state's edge for each action, -1 where the budget cannot pay it."""
    edge_of = np.full(space.values.shape, -1)
    edge_of[space.edge_state, space.edge_action] = np.arange(len(space.edge_state))
    return edge_of


_score_states = eqx.filter_jit(score_states)
