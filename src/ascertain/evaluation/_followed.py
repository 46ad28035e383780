"""What a policy does in rows with holes, recorded so that policies can be compared later.

Policies are judged with common propensities, and these are known only once all policies are. `follow` keeps
what does not depend on them: how far a policy can be followed in each row, and what it is worth from every
step on by an outcome model. `followed_values` puts the records of several policies together. The values are
those of `ascertain.evaluation._row_values`, but policies need not be kept, and hundreds of them can be
followed in one `vmap`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ascertain._core.clusters import clusters_of
from ascertain.acquisition import acquire
from ascertain.evaluation._futures import Resumed
from ascertain.evaluation._partial_rollouts import (
    PartialRollouts,
    common_importance_weights,
    readable_actions,
    support,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._rollouts import budget_rollouts, episodes_by_budget
from ascertain.evaluation._row_values import CLIP, ENOUGH_ROWS, FILLINGS, RowValues, all_alike
from ascertain.evaluation._worth import worth
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_in_jax
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.restoration import Restorer, restore

Numbers = Array | np.ndarray  # on the device, or as they were recorded
BUDGETS = 8  # equally spaced up to the largest
DRAWS = 4  # of the outcome model


class Followed(NamedTuple):
    """A policy in rows with holes, at several budgets; worths are those of `worth`."""

    budgets: Float[Numbers, " budgets"]
    choices: Int[Numbers, "budgets rows steps"]  # 1 + the action, as if every action were available
    futures: Float[Numbers, "budgets rows steps"]  # the worth expected before each step; 0 with too few rows
    ends: Float[Numbers, "budgets rows"]  # the worth at the end; valid if the row supports all choices
    complete: Int[Numbers, " budgets"]  # in how many rows that is so
    filled: Float[Numbers, " rows"]  # the worth at the largest budget, if the outcome model fills the holes

    def shortened(self, enough: float = ENOUGH_ROWS) -> "Followed":
        """Without the budgets at which too few rows support all choices, in small types."""
        kept = np.flatnonzero(np.asarray(self.complete) >= enough)
        budgets, choices, futures, ends, complete = (np.asarray(each)[kept] for each in self[:5])
        smaller = choices.astype(np.int16)
        return Followed(budgets, smaller, futures, ends, complete, np.asarray(self.filled))


def judging_budgets(problem: Problem) -> Float[np.ndarray, " budgets"]:
    """Budgets to compare policies at, up to the problem's own."""
    return np.linspace(0, float(problem.budget), 1 + BUDGETS, dtype=np.float32)[1:]


def follow(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    restorer: Restorer,
    budgets: Float[Array, " budgets"],
    *,
    protocol: Protocol,
    n_steps: int,
    separate: bool,
    draws: int = DRAWS,
    enough: float = ENOUGH_ROWS,
) -> Followed:
    """Follow a policy at every budget in rows with holes. Can be jitted and vmapped.

    Parameters
    ----------
    key
        The random key; with the same one, all policies have the same futures.
    policy
        Fitted to other rows.
    problem, table
        The rows with holes, each once.
    predictor
        What judges all policies.
    restorer
        The outcome model for all policies; it sees the class of a row, as futures do.
    budgets
        The budgets.
    protocol, n_steps, separate
        As for `budget_rollouts`.
    draws
        Futures that are drawn from every step; holes are filled `FILLINGS` times as often.
    enough
        With fewer rows that support all choices, the futures at a budget are not computed. The effective
        sample size is never above their number.
    """
    rules: dict[str, Any] = {"protocol": protocol, "n_steps": n_steps, "separate": separate}
    costs = problem.decision_costs

    def filled_once(key: PRNGKeyArray) -> Float[Array, " rows"]:
        drawing, acting = jr.split(key)
        filled = restore(drawing, restorer, table)
        reached = budget_rollouts(acting, policy, problem, filled, budgets.max()[None], **rules).acquired
        return worth(predict_in_jax(predictor, problem, filled, reached)[0], table.y, costs)

    filled = jax.lax.map(filled_once, jr.split(jr.fold_in(key, 0), FILLINGS * draws)).mean(axis=0)
    readable = problem.readable(table.available)
    everything = table.with_cells(table.x, jnp.ones_like(table.available))
    episodes_at = episodes_by_budget(key, policy, problem, everything, budgets, **rules)
    always = table.available.all(axis=0)[None]

    def at_budget(budget: Float[Array, ""]) -> tuple[Array, Array, Array, Array]:
        limited, acting = problem.at(budget), policy.at(budget)
        episodes = episodes_at(budget)
        choices, acquired = episodes.choices, episodes.acquired(problem.n_actions)
        ends = worth(predict_in_jax(predictor, problem, table, acquired[-1:])[0], table.y, costs)
        supported = jnp.take_along_axis(readable, jnp.maximum(choices - 1, 0), axis=1) | (choices == 0)
        complete = supported.all(axis=1)
        n_valid = jnp.where(complete, (choices > 0).sum(axis=1), supported.argmin(axis=1) + 1)
        n_complete = complete.sum()

        def add_a_future(state: tuple[Array, Array]) -> tuple[Array, Array]:
            number, futures = state
            step = number // draws
            given = jax.lax.dynamic_index_in_dim(acquired, step, keepdims=False)
            drawing, continuing = jr.split(jr.fold_in(key, 1 + number))
            seen = table.with_cells(table.x, problem.observed(given) | always)
            completed = restore(drawing, restorer, seen)
            resumed = acquire(continuing, Resumed(acting, given), limited, completed, protocol, n_steps)
            reached = resumed.acquired(problem.n_actions)[-1:]
            value = worth(predict_in_jax(predictor, problem, completed, reached)[0], table.y, costs)
            return number + 1, futures.at[:, step].add(value / draws)

        last = draws * jnp.where(n_complete >= enough, n_valid.max(), 0)
        start = (jnp.zeros_like(last), jnp.zeros(choices.shape, jnp.float32))
        _, futures = jax.lax.while_loop(lambda state: state[0] < last, add_a_future, start)
        return choices, futures, ends, n_complete

    choices, futures, ends, complete = jax.lax.map(at_budget, budgets)
    return Followed(budgets, choices, futures, ends, complete, filled)


def followed_values(
    followed: Sequence[Followed],
    problem: Problem,
    table: Table,
    *,
    clip: float = CLIP,
    enough: float = ENOUGH_ROWS,
    seed: int = 0,
) -> RowValues:
    """Estimate what each of several policies is worth in each row, by the rule of `row_values`.

    Parameters
    ----------
    followed
        What was recorded of each policy, in the same rows with the same key and budgets.
    problem, table
        As they were followed.
    clip
        The least propensity.
    enough
        The least effective sample size of rows that support all choices.
    seed
        Seed of the folds.
    """
    fold = assign_folds(len(table.y), seed, clusters_of(table.ids))
    readable = readable_actions(problem, np.asarray(table.available))
    common = set.intersection(*(set(np.asarray(each.budgets).tolist()) for each in followed))
    for budget in sorted(common, reverse=True):
        places = [np.asarray(each.budgets).tolist().index(budget) for each in followed]
        here = list(zip(followed, places, strict=True))
        rollouts = [_supported(np.asarray(each.choices[place], int), readable) for each, place in here]
        weights = common_importance_weights(rollouts, problem, table, fold, clip)
        effective = min(each.effective_rows for each in weights)
        if effective < enough or any(each.gaps for each in weights) or all_alike(rollouts):
            continue
        values = []
        for (each, place), own in zip(here, weights, strict=True):
            # As in `doubly_robust_predictions`: those of a row sum to 1.
            expected = -np.diff(own.cumulative, axis=1) * np.asarray(each.futures[place], np.float64)
            values.append(expected.sum(axis=1) + own.cumulative[:, -1] * np.asarray(each.ends[place]))
        return RowValues(np.stack(values), "dr", budget, effective)
    filled = np.stack([np.asarray(each.filled, np.float64) for each in followed])
    return RowValues(filled, "filled", float(problem.budget), float(len(fold)))


def _supported(choices: Int[np.ndarray, "rows steps"], readable: np.ndarray) -> PartialRollouts:
    """How far rows support recorded choices; what was spent plays no part in values."""
    nothing = np.zeros(len(choices))
    return support(choices, nothing, nothing.astype(bool), readable)
