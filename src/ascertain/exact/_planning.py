"""Planning from incomplete data by each approach of the paper (section 4.2)."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ascertain._core.checks import check_count, check_mask
from ascertain.errors import InputError
from ascertain.exact._bits import BitRows, count_states
from ascertain.exact._finite import FiniteProblem
from ascertain.exact._observations import Observations
from ascertain.exact._plan import Plan
from ascertain.exact._recursion import Estimates, estimate, lookahead, solve, solve_aliasing

Approach = Literal["aliasing", "filtering", "restoration", "complete"]
"""The type of an approach; see `fit_plan`."""
APPROACHES: tuple[Approach, ...] = get_args(Approach)
"""The names of all approaches; see `fit_plan`."""


def fit_plan(
    problem: FiniteProblem, observations: Observations, approach: Approach, horizon: int | None = None
) -> Plan:
    """Learn a plan from incomplete observations by one of the paper's approaches (section 4.2).

    Parameters
    ----------
    problem
        The features, costs, budget and fixed predictor; its distribution is not used.
    observations
        The training instances.
    approach
        `"aliasing"` pools instances of all masks, each of which continues only with its available features;
        `"filtering"` uses complete instances only; `"restoration"` estimates the acquisition dynamics from
        all instances that have the features in question, and plans with those; `"complete"` ignores the
        masks (and therefore needs every value).
    horizon
        How many acquisitions to look ahead from every state: 1 is myopic, None plans to the end of the
        budget.

    Examples
    --------
    >>> import numpy as np
    >>> from ascertain.exact import fit_plan
    >>> from ascertain.exact import shortcut
    >>> problem = shortcut(d=6, budget=3)
    >>> observations = problem.sample(np.random.default_rng(0), n=5000, rate=0.6)
    >>> print(fit_plan(problem, observations, "aliasing"))
    acquire shortcut (cost 3)
    ├─ 0: predict 0
    └─ 1: predict 1
    >>> plan = fit_plan(problem, observations, "restoration")
    >>> plan.first_action, problem.regret(plan)
    ('context', 0.0)
    >>> APPROACHES == get_args(Approach)
    True
    """
    if approach not in APPROACHES:
        raise InputError(f"approach must be one of {', '.join(APPROACHES)}, got {approach!r}")
    if horizon is not None:
        check_count("horizon", horizon, least=1)
    rows = problem.bit_rows(observations, ignore_mask=approach == "complete")
    rows = rows.complete() if approach == "filtering" else rows
    return plan_from(problem, estimate_from(problem, rows), rows, approach, horizon)


def estimate_from(problem: FiniteProblem, rows: BitRows) -> Estimates:
    """Estimate what planning needs from training rows."""
    return estimate(problem.space, problem.prediction, count_states(rows, problem.space))


def plan_from(
    problem: FiniteProblem, estimates: Estimates, rows: BitRows, approach: Approach, horizon: int | None
) -> Plan:
    """Plan with estimates from the rows that an approach uses."""
    if approach == "aliasing":
        values = solve_aliasing(problem.space, estimates, rows, horizon)
    else:
        values = solve(problem.space, estimates, horizon)
    return Plan(problem, values, estimates.stop)


def restricted_values(
    problem: FiniteProblem, mask: ArrayLike, horizon: int | None = None
) -> tuple[Float[np.ndarray, "values states"], Float[np.ndarray, "steps states actions"]]:
    """Solve the training Bellman recursion under one missingness mask exactly (equation 4).

    Parameters
    ----------
    problem
        The finite problem.
    mask
        The paper's m: true where a feature is missing and so cannot be acquired.
    horizon
        The number of steps; by default, and at most, as many as the budget allows.

    Returns
    -------
    values, action_values
        `values[k, s]` is 1 + V_k(s, m) and `action_values[k - 1, s, a]` is 1 + Q_k(s, m, a), NaN where the
        action is not legal; both are 0 in states that cannot occur. If nothing is missing, these are the
        evaluation values of equation 3. `problem.state(known)` finds the number of a state.

    Examples
    --------
    The paper's figure 1: with both branch features missing, the context looks worthless.

    >>> from ascertain.exact import restricted_values
    >>> from ascertain.exact import shortcut
    >>> problem = shortcut(d=6, budget=2)
    >>> _, q = restricted_values(problem, [0, 1, 1, 0, 0, 0])
    >>> q[1, 0, problem.feature("context")].item(), q[1, 0, problem.feature("shortcut")].item()
    (0.5, 0.75)
    """
    space = problem.space
    missing = check_mask("mask", mask, ndim=1)
    if len(missing) != len(problem.n_values):
        raise InputError(f"mask has {len(missing)} entries for {len(problem.n_values)} features")
    steps = int(space.remaining[0])  # to the end of the budget, beyond which nothing changes
    if horizon is not None:
        steps = min(steps, check_count("horizon", horizon, least=1))
    truth = problem.truth
    legal = ~missing[space.edge_action]
    edges = np.arange(len(space.edge_state))
    values = np.empty((steps + 1, len(space)))
    values[0] = truth.stop
    action_values = np.full((steps, len(space), len(missing)), np.nan)
    for k in range(steps):
        q = lookahead(space, truth, values[k], edges)
        action_values[k, space.edge_state[legal], space.edge_action[legal]] = q[legal]
        values[k + 1] = truth.stop
        np.maximum.at(values[k + 1], space.edge_state[legal], q[legal])
    return values, action_values
