"""The Bellman recursions of the paper's sections 3 and 4 over estimated or true probabilities.

Values are expected accuracies, one plus the paper's values under zero-one loss.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ascertain.exact._bits import BitRows, count_first_available
from ascertain.exact._states import StateSpace, Step

PSEUDOCOUNT = 0.5  # for every outcome, appendix B.2


class Estimates(NamedTuple):
    """The probabilities that a planner works with, estimated or true."""

    stop: Float[np.ndarray, " states"]  # the fixed predictor's accuracy, 1 + V_0
    transition: Float[np.ndarray, "edges max_values"]  # p(x_a | s); 0 beyond the last value
    support: Float[np.ndarray, " states"]  # the number of instances, or the probability, of a state


def estimate(
    space: StateSpace, prediction: Int[np.ndarray, " states"], counts: Int[np.ndarray, "states labels"]
) -> Estimates:
    """Turn counts into smoothed probabilities: (N_v + 1/2) / (N + K/2) for each of K outcomes."""
    support = counts.sum(axis=1).astype(np.float64)
    right = counts[np.arange(len(space)), prediction]
    stop = (right + PSEUDOCOUNT) / (support + PSEUDOCOUNT * counts.shape[1])
    outcomes = np.where(space.has_value, support[space.children] + PSEUDOCOUNT, 0.0)
    return Estimates(stop, outcomes / outcomes.sum(axis=1, keepdims=True), support)


def lookahead(
    space: StateSpace,
    estimates: Estimates,
    values: Float[np.ndarray, " states"],
    edges: Int[np.ndarray, " some_edges"],
) -> Float[np.ndarray, " some_edges"]:
    """Compute Q(s, a), the expected value of the state that an acquisition leads to."""
    return (estimates.transition[edges] * values[space.children[edges]]).sum(axis=1)


def solve(space: StateSpace, estimates: Estimates, horizon: int | None = None) -> Float[np.ndarray, " edges"]:
    """Compute the action value of every edge by backward induction (equation 3)."""
    values = estimates.stop.copy()
    action_values = np.zeros(len(space.edge_state))
    for step in space.steps(horizon):
        q = lookahead(space, estimates, values, step.edges)
        action_values[step.edges] = q
        values[step.states] = np.maximum(estimates.stop[step.states], np.maximum.reduceat(q, step.starts))
    return action_values


def solve_aliasing(
    space: StateSpace, estimates: Estimates, rows: BitRows, horizon: int | None = None
) -> Float[np.ndarray, " edges"]:
    """Compute the action values that pool instances with different masks (definition 1).

    Each instance continues with the best action among its available ones, so a state's value is an average
    over its instances, with the pseudocount of all estimates. Only the last step of the budget (and, in
    states other than the first, of the horizon) is the plug-in value that restoration uses.
    """
    n_labels = len(rows.labels)
    pooled = estimates.support * estimates.stop  # the sum of the values of a state's instances
    action_values = np.zeros(len(space.edge_state))
    steps = space.steps(horizon)
    for k, step in enumerate(steps, start=1):
        children = space.children[step.edges]
        counted = space.has_value[step.edges]
        total = (pooled[children] * counted).sum(axis=1) + PSEUDOCOUNT
        q = total / ((estimates.support[children] * counted).sum(axis=1) + PSEUDOCOUNT * n_labels)
        if k == 1:
            plug_in = (space.edge_state[step.edges] != 0) | (space.remaining[0] == 1)
            q = np.where(plug_in, lookahead(space, estimates, estimates.stop, step.edges), q)
        action_values[step.edges] = q
        if k < len(steps):
            pooled[step.states] = _pool(space, estimates, rows, step, q)
    return action_values


def _pool(
    space: StateSpace, estimates: Estimates, rows: BitRows, step: Step, q: np.ndarray
) -> Float[np.ndarray, " updated"]:
    """Sum, over the instances of each state, the value of the best action available to each."""
    stop = estimates.stop[step.states, None]
    by_action = np.full((len(step.states), len(space.n_values)), -np.inf)
    owner = np.repeat(np.arange(len(step.states)), np.diff(np.append(step.starts, len(q))))
    by_action[owner, space.edge_action[step.edges]] = q
    order = np.argsort(-by_action, axis=1, kind="stable")
    gain = np.maximum(np.take_along_axis(by_action, order, axis=1) - stop, 0.0)
    order[gain == 0] = -1
    counts = count_first_available(rows, space, step.states, order)
    return estimates.support[step.states] * stop[:, 0] + (counts * gain).sum(axis=1)
