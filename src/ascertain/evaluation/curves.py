"""How well a policy spends its budget: let it acquire for held-out rows, predict, and score.

`evaluate` and `evaluate_soft` do all of this for one policy. What they run on the device, `curve` and its
parts, are pure functions of arrays, so that hundreds of policies can be stacked and evaluated in one `vmap`;
`scores` then turns each one's arrays into a table on the host.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.checks import check_count, check_numbers
from ascertain.acquisition import Episodes, acquire
from ascertain.errors import InputError
from ascertain.metrics import measure
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.predictors.predictions import predict_in_jax, predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

MAX_ROWS = 4096
_CURVE_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the budget

_WHO_STOPS = (
    "gdfs, dime, random and sequential stop at a threshold that you give (thresholds=), jafa and odin if "
    "they are fitted with a cost_weight, aaco if it is with may_stop; other policies need a hard budget"
)


class Outcomes(NamedTuple):
    """How the episodes of a table's rows end, at each of several budgets (or thresholds)."""

    acquired: Bool[Array, "points instances actions"]
    spent: Float[Array, "points instances"]
    forced_stop: Bool[Array, "points instances"]  # ended by a choice that the budget could not pay
    frequencies: Float[Array, "points steps actions"]  # the share of rows with each action at each step


def evaluate(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    protocol: Protocol = PAPER,
    budgets: Sequence[float] | None = None,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = MAX_ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Score a policy at one or more hard budgets.

    Parameters
    ----------
    policy
        The policy.
    problem
        Actions, costs, and the budget that is meant if there are no `budgets`.
    table
        The rows to acquire for. They may have holes: actions that a row lacks are illegal in it. A row in
        which nothing can be acquired is predicted from nothing.
    predictor
        Makes the predictions from what was acquired; also one that is not written in JAX.
    protocol
        Whether the policy chooses among what the budget allows, or stops at its first choice beyond it.
    budgets
        The budgets, in any order; one that buys nothing gives the scores of knowing nothing.
    key
        The random key, for policies that draw lots; by default made from `seed`.
    max_rows
        The most rows to look at; None for all.
    seed
        Which rows to look at if there are more.

    Returns
    -------
    scores
        One row per budget: `budget`, the scores of `ascertain.metrics.measure`, `mean_cost`,
        `mean_acquisitions`, `forced_stop_rate` and `n_rows`.
    """
    problem.check(table)
    amounts = check_budgets(problem, budgets)
    rows = sample_rows(table, max_rows, seed)
    key = jr.key(seed) if key is None else key
    reached = reach(key, policy, problem, rows, amounts.tolist(), protocol=protocol)
    frame = scores(reached, predict_sets(predictor, problem, rows, reached.acquired), rows.y)
    frame.insert(0, "budget", amounts)
    return frame


def evaluate_soft(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    thresholds: Sequence[float] | None = None,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = MAX_ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Score a policy that decides itself when to stop, without a hard budget.

    An episode ends when the policy stops or nothing is left to acquire; what it has cost is part of the
    result.

    Parameters
    ----------
    policy, problem, table, predictor, key, max_rows, seed
        As for `evaluate`; the problem's budget is not looked at.
    thresholds
        When to stop, for policies that take this at evaluation (with a method `stopping_at`). None for a
        policy that has learned when to stop.

    Returns
    -------
    scores
        One row per threshold: `threshold` (NaN where none is given), the scores of
        `ascertain.metrics.measure`, `mean_cost`, `mean_acquisitions` and `n_rows`.
    """
    problem.check(table)
    rows, anonymous = sample_rows(table, max_rows, seed), problem.without_names()
    key = jr.key(seed) if key is None else key
    each = [_soft_outcomes(key, rule, anonymous, rows) for rule in _stopping(policy, thresholds)]
    reached = Outcomes(*(jnp.concatenate(points) for points in zip(*each, strict=True)))
    if thresholds is None:
        _refuse_endless(key, policy, anonymous, rows, reached)
    frame = scores(reached, predict_sets(predictor, problem, rows, reached.acquired), rows.y)
    frame.insert(0, "threshold", [np.nan] if thresholds is None else [float(each) for each in thresholds])
    return frame.drop(columns="forced_stop_rate")


def reach(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    budgets: Sequence[float],
    *,
    protocol: Protocol = PAPER,
) -> Outcomes:
    """Let a policy acquire for every row at every budget, in one compiled program; see `evaluate`."""
    return _outcomes(
        key,
        policy,
        problem.without_names(),
        table,
        jnp.asarray(budgets, jnp.float32),
        protocol=protocol,
        n_steps=most_steps(problem, budgets),
        separate=needs_separate_rollouts(problem, protocol),
    )


def episodes(
    policy: Policy,
    problem: Problem,
    table: Table,
    budget: float,
    *,
    protocol: Protocol = PAPER,
    key: PRNGKeyArray | None = None,
) -> Episodes:
    """Let a policy acquire for every row at one budget, and give the steps; see `evaluate`."""
    there = _at(problem.without_names(), jnp.asarray(budget, jnp.float32))
    n_steps = most_steps(problem, [budget])
    key = jr.key(0) if key is None else key
    found: Episodes = _acquire(key, policy.at(there.budget), there, table, protocol, n_steps)
    return found


def curve(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    budgets: Float[Array, " points"],
    *,
    protocol: Protocol,
    n_steps: int,
    separate: bool,
) -> tuple[Outcomes, Float[Array, "points instances classes"]]:
    """Let a policy acquire at every budget, and predict from what it has at the end.

    Can be jitted and vmapped, for predictors that are written in JAX. Takes what `outcomes` takes.
    """
    reached = outcomes(
        key, policy, problem, table, budgets, protocol=protocol, n_steps=n_steps, separate=separate
    )
    return reached, predict_in_jax(predictor, problem, table, reached.acquired)


def outcomes(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    budgets: Float[Array, " points"],
    *,
    protocol: Protocol,
    n_steps: int,
    separate: bool,
) -> Outcomes:
    """Let a policy acquire at every budget. Can be jitted and vmapped.

    Parameters
    ----------
    key
        The random key; the same lots are drawn at every budget.
    policy, problem, table, protocol
        As for `evaluate`; the problem's own budget is not looked at.
    budgets
        The budgets.
    n_steps
        The most steps to make: `most_steps`.
    separate
        Whether each budget needs a rollout of its own: `needs_separate_rollouts`. Otherwise the one with the
        largest budget is cut to fit the others, unless the policy itself looks at the budget.
    """

    def roll_out(budget: Float[Array, ""]) -> Outcomes:
        there = _at(problem, budget)
        return _ends(there, acquire(key, policy.at(budget), there, table, protocol, n_steps))

    looks_at_budget = policy.at(budgets.max()) is not policy
    if separate or looks_at_budget:
        return jax.lax.map(roll_out, budgets)
    longest = acquire(key, policy, _at(problem, budgets.max()), table, protocol, n_steps)

    def cut(budget: Float[Array, ""]) -> Outcomes:
        there = _at(problem, budget)
        return _ends(there, _within(there, longest, protocol))

    return jax.lax.map(cut, budgets)


def soft_outcomes(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Outcomes:
    """Let a policy acquire until it stops or nothing is left: a single point. Can be jitted and vmapped."""
    return jax.tree.map(lambda leaf: leaf[None], _ends(problem, _acquire_freely(key, policy, problem, table)))


def needs_separate_rollouts(problem: Problem, protocol: Protocol) -> bool:
    """Whether other actions are legal at a smaller budget, before it is spent; not to be asked in `jit`.

    They are not where costs are equal, nor where the policy does not see what is affordable.
    """
    return protocol.affordability == "illegal" and bool(np.ptp(np.asarray(problem.costs)) > 0)


def curve_budgets(prices: Float[np.ndarray, " actions"], budget: float) -> tuple[float, ...]:
    """Give budgets from nothing to all of it, whole numbers where prices are.

    Examples
    --------
    >>> curve_budgets(np.ones(9), 5.0), curve_budgets(np.array([0.5, 30.0]), 30.0)
    ((0.0, 1.0, 2.0, 3.0, 5.0), (0.0, 7.5, 15.0, 22.5, 30.0))
    """
    shares = [share * budget for share in _CURVE_SHARES]
    if (prices % 1 == 0).all():
        shares = [*np.floor(shares[:-1]).tolist(), budget]
    return tuple(sorted({float(each) for each in shares}))


def most_steps(problem: Problem, budgets: Sequence[float]) -> int:
    """Give the most acquisitions that any of the budgets can pay for, at least one; not in `jit`."""
    return max(1, _at(problem, jnp.asarray(max(budgets), jnp.float32)).most_acquisitions())


def sample_rows(table: Table, max_rows: int | None, seed: int) -> Table:
    """Give the table or, if it has more than `max_rows` rows, so many of them at random."""
    n_rows = table.x.shape[0]
    if max_rows is None or n_rows <= check_count("max_rows", max_rows, least=1):
        return table
    return table.take(jnp.asarray(np.random.default_rng(seed).permutation(n_rows)[:max_rows]))


def scores(
    reached: Outcomes,
    probabilities: Float[Array | np.ndarray, "points instances classes"],
    y: Int[Array | np.ndarray, " instances"],
) -> pd.DataFrame:
    """Score predictions and what they have cost: one row per budget or threshold.

    Takes what `curve` gives, on the device or fetched from it, and the true classes.
    """
    truth, spent = np.asarray(y), np.asarray(reached.spent, np.float64)
    taken, forced = np.asarray(reached.acquired).sum(axis=-1), np.asarray(reached.forced_stop)
    return pd.DataFrame(
        {
            **measure(predicted, truth),
            "mean_cost": spent[point].mean(),
            "mean_acquisitions": taken[point].mean(),
            "forced_stop_rate": forced[point].mean(),
            "n_rows": len(truth),
        }
        for point, predicted in enumerate(np.asarray(probabilities))
    )


def acquisition_frequencies(episodes: Episodes, n_actions: int) -> Float[Array, "steps actions"]:
    """Give the share of all rows that take each action at each step."""
    return jnp.mean(jax.nn.one_hot(episodes.choices - 1, n_actions), axis=0)


def frequency_table(
    frequencies: Float[Array | np.ndarray, "steps actions"], problem: Problem
) -> pd.DataFrame:
    """Tabulate acquisition frequencies for reports: `step` (from 1), `action` by name, and `share`."""
    n_steps, n_actions = frequencies.shape
    names = problem.action_names or tuple(f"action {number}" for number in range(n_actions))
    return pd.DataFrame(
        {
            "step": np.repeat(np.arange(1, n_steps + 1), n_actions),
            "action": np.tile(np.array(names, object), n_steps),
            "share": np.asarray(frequencies, np.float64).ravel(),
        }
    )


# One program for each shape: budgets, rows and parameters are arguments.
_acquire = eqx.filter_jit(acquire)
_outcomes = eqx.filter_jit(outcomes)
_soft_outcomes = eqx.filter_jit(soft_outcomes)


def _at(problem: Problem, budget: Float[Array, ""]) -> Problem:
    moved: Problem = eqx.tree_at(lambda each: each.budget, problem, budget)
    return moved


def _acquire_freely(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Episodes:
    plenty = policy.at(problem.costs.sum())  # for policies that would plan for a budget
    # The protocols differ in what happens at a hard budget only, so either will do.
    return acquire(key, plenty, problem, table, PAPER, problem.n_actions, hard=False)


def _ends(problem: Problem, episodes: Episodes) -> Outcomes:
    acquired = jax.nn.one_hot(episodes.choices - 1, problem.n_actions, dtype=bool).any(axis=1)
    frequencies = acquisition_frequencies(episodes, problem.n_actions)
    return Outcomes(acquired, episodes.spent[:, -1], episodes.forced_stop, frequencies)


def _within(problem: Problem, episodes: Episodes, protocol: Protocol) -> Episodes:
    """Cut episodes to what the problem's budget, smaller than theirs, can pay."""
    fits = episodes.spent <= problem.limit
    forced = episodes.forced_stop
    if protocol.affordability == "blind":
        forced = forced | ~fits.all(axis=1)
    spent = jax.lax.cummax(jnp.where(fits, episodes.spent, 0.0), axis=1)
    return Episodes(jnp.where(fits, episodes.choices, 0), spent, forced)


def check_budgets(problem: Problem, budgets: Sequence[float] | None) -> Float[np.ndarray, " points"]:
    """Give the budgets, or the problem's own where there are none; raise where one is no amount."""
    if budgets is None:
        return np.array([float(str(np.asarray(problem.budget)))])  # 0.3, not the 0.30000001 that is nearest
    amounts = check_numbers("budgets", budgets, ndim=1)
    if not len(amounts):
        raise InputError("budgets is empty; leave it out to evaluate at the problem's budget")
    for place in np.flatnonzero(~(np.isfinite(amounts) & (amounts >= 0)))[:1]:
        raise InputError(f"budgets[{place}] is {amounts[place]}; budgets are finite and not negative")
    return amounts


def _stopping(policy: Policy, thresholds: Sequence[float] | None) -> list[Policy]:
    """Give the policy with each of the thresholds."""
    if thresholds is None:
        return [policy]
    values = check_numbers("thresholds", thresholds, ndim=1)
    if not len(values) or np.isnan(values).any():
        raise InputError(f"thresholds must be one or more numbers, got {thresholds!r}")
    if not hasattr(policy, "stopping_at"):
        raise InputError(f"{type(policy).__name__} takes no stopping threshold; {_WHO_STOPS}")
    return [policy.stopping_at(value) for value in values.tolist()]


def _refuse_endless(
    key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table, reached: Outcomes
) -> None:
    """Raise if a policy acquires everything because it cannot stop, not because it wants all."""
    if bool(jnp.any(problem.readable(table.available)[None] & ~reached.acquired)):
        return
    if not bool(_may_stop(key, policy, problem, table)):
        raise InputError(
            f"{type(policy).__name__} has no rule for when to stop, or none that any of these rows meets: "
            f"it acquires everything; {_WHO_STOPS}"
        )


@eqx.filter_jit
def _may_stop(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Bool[Array, ""]:
    """Whether stopping has a score in any state that the policy comes through."""
    available = problem.readable(table.available)
    episodes = _acquire_freely(key, policy, problem, table)
    plenty = policy.at(problem.costs.sum())

    def finite(step: tuple[PRNGKeyArray, Array]) -> Bool[Array, ""]:
        step_key, acquired = step
        choices = plenty(table.x, problem.observed(acquired), acquired, available, key=step_key)
        return jnp.any(choices[:, 0] > -jnp.inf)

    before_each = episodes.acquired(problem.n_actions)[:-1]
    return jax.lax.map(finite, (jr.split(key, problem.n_actions), before_each)).any()
