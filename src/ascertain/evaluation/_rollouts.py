"""Rollouts of a policy for the rows of a table, at one or several budgets.

`budget_rollouts` and `soft_rollouts` are pure functions of arrays, so that hundreds of policies can be
stacked and evaluated in one `vmap`. `roll_out` and `budget_episodes` compile for one policy.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.arrays import on_device
from ascertain._core.checks import check_count
from ascertain._core.sampling import stratified_rows
from ascertain.acquisition import Episodes, acquire
from ascertain.policy import Policy
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

MAX_ROWS = 4096  # that studies score
ROWS_AT_ONCE = 4096  # that are rolled out in one program


class Rollouts(NamedTuple):
    """How the episodes of a table's rows end, at each of several budgets (or thresholds)."""

    acquired: Bool[Array, "budgets instances actions"]
    spent: Float[Array, "budgets instances"]
    forced_stop: Bool[Array, "budgets instances"]  # ended by a choice that the budget could not pay
    frequencies: Float[Array, "budgets steps actions"]  # the share of rows with each action at each step


def roll_out(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    budgets: Sequence[float],
    *,
    protocol: Protocol = PAPER,
) -> Rollouts:
    """Roll out a policy at every budget, many rows at once in one program; see `ascertain.evaluate`."""
    amounts, plain = on_device(budgets, np.float32), problem.without_names()
    n_rows, parts, sizes = len(table.y), [], []
    for number, start in enumerate(range(0, n_rows, ROWS_AT_ONCE)):
        whole = n_rows <= ROWS_AT_ONCE
        part = table if whole else table.take(np.arange(start, min(start + ROWS_AT_ONCE, n_rows)))
        found = _budget_rollouts(
            jr.fold_in(key, number) if number else key,
            policy,
            plain,
            part,
            amounts,
            protocol=protocol,
            n_steps=most_steps(problem, budgets),
            separate=needs_separate_rollouts(problem, protocol),
        )
        parts.append(found)
        sizes.append(len(part.y))
    if len(parts) == 1:
        return parts[0]
    acquired, spent, forced, shares = zip(*parts, strict=True)
    frequencies = sum(share * (size / n_rows) for share, size in zip(shares, sizes, strict=True))
    together = [jnp.concatenate(each, axis=1) for each in (acquired, spent, forced)]
    return Rollouts._make([*together, jnp.asarray(frequencies)])


def budget_episodes(
    policy: Policy,
    problem: Problem,
    table: Table,
    budget: float,
    *,
    protocol: Protocol = PAPER,
    key: PRNGKeyArray | None = None,
) -> Episodes:
    """Roll out a policy at one budget, step by step."""
    key, limited = jr.key(0) if key is None else key, problem.without_names().at(budget)
    n_steps = most_steps(problem, [budget])
    found: Episodes = compiled_acquire(key, policy.at(limited.budget), limited, table, protocol, n_steps)
    return found


def budget_rollouts(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    budgets: Float[Array, " budgets"],
    *,
    protocol: Protocol,
    n_steps: int,
    separate: bool,
) -> Rollouts:
    """Roll out a policy at every budget, each time with the same random key. Can be jitted and vmapped.

    `most_steps` is the number of steps to make. If each budget needs a rollout of its own, as
    `needs_separate_rollouts` says, set `separate`; otherwise the rollout at the largest budget is truncated
    for the others, unless the policy itself depends on the budget. The problem's own budget is not used.
    """
    episodes_at = episodes_by_budget(
        key, policy, problem, table, budgets, protocol=protocol, n_steps=n_steps, separate=separate
    )
    return jax.lax.map(lambda budget: _summarise(problem, episodes_at(budget)), budgets)


def episodes_by_budget(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    budgets: Float[Array, " budgets"],
    *,
    protocol: Protocol,
    n_steps: int,
    separate: bool,
) -> Callable[[Float[Array, ""]], Episodes]:
    """A function from a budget to its episodes; parameters are those of `budget_rollouts`."""
    depends_on_budget = policy.at(budgets.max()) is not policy
    longest = None
    if not (separate or depends_on_budget):
        longest = acquire(key, policy, problem.at(budgets.max()), table, protocol, n_steps)

    def at_budget(budget: Float[Array, ""]) -> Episodes:
        limited = problem.at(budget)
        if longest is None:
            return acquire(key, policy.at(budget), limited, table, protocol, n_steps)
        return _truncate(limited, longest, protocol)

    return at_budget


def soft_rollouts(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Rollouts:
    """Roll out a policy until it stops or nothing is left, as a single point. Can be jitted and vmapped."""
    found = _summarise(problem, _unlimited_episodes(key, policy, problem, table))
    return jax.tree.map(lambda leaf: leaf[None], found)


def may_stop(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Bool[Array, ""]:
    """Whether stopping has a score above minus infinity in any state of the policy's soft rollouts."""
    available = problem.readable(table.available)
    visited = _unlimited_episodes(key, policy, problem, table).acquired(problem.n_actions)[:-1]
    unlimited = policy.at(_total_cost(problem))

    def finite(step: tuple[PRNGKeyArray, Array]) -> Bool[Array, ""]:
        step_key, acquired = step
        scores = unlimited(table.x, problem.observed(acquired), acquired, available, key=step_key)
        return jnp.any(scores[:, 0] > -jnp.inf)

    return jax.lax.map(finite, (jr.split(key, problem.n_actions), visited)).any()


def needs_separate_rollouts(problem: Problem, protocol: Protocol) -> bool:
    """Whether a smaller budget changes what is legal before it is spent; not to be asked in `jit`.

    It does not where prices are equal and stay so, nor where the policy does not see what is affordable.
    """
    prices = problem.price_list
    changing = prices.needs is not None or bool(np.ptp(prices.first) > 0)
    return protocol.affordability == "illegal" and changing


def most_steps(problem: Problem, budgets: Sequence[float]) -> int:
    """The most acquisitions that any of the budgets can pay for, at least one; not to be asked in `jit`."""
    return max(1, problem.at(max(budgets)).most_acquisitions())


def sample_rows(table: Table, max_rows: int | None, seed: int) -> Table:
    """Draw `max_rows` of a table's rows without replacement, or return all where there are not more."""
    places = sample_places(table.x.shape[0], max_rows, seed)
    return table if places is None else table.take(places)


def sample_places(n_rows: int, max_rows: int | None, seed: int) -> Int[np.ndarray, " rows"] | None:
    """Which rows `sample_rows` draws; None: all of them."""
    if max_rows is None or n_rows <= check_count("max_rows", max_rows, least=1):
        return None
    return np.random.default_rng(seed).permutation(n_rows)[:max_rows]


def sample_by_class(table: Table, max_rows: int, seed: int) -> tuple[Table, Float[np.ndarray, " rows"]]:
    """Draw as many rows of each class, or all of a rare one, with weights that make up for that.

    Weights have mean 1, and are 1 where the table has not more than `max_rows`.
    """
    y = np.asarray(table.y)
    if len(y) <= max_rows:
        return table, np.ones(len(y))
    drawn = stratified_rows(y, max_rows, np.random.default_rng(seed))
    there, here = (np.bincount(each, minlength=table.n_classes) for each in (y, y[drawn]))
    weight = (there / np.maximum(here, 1))[y[drawn]]
    return table.take(drawn), weight / weight.mean()


def acquisition_frequencies(episodes: Episodes, n_actions: int) -> Float[Array, "steps actions"]:
    """The share of all rows that take each action at each step."""
    return jnp.mean(jax.nn.one_hot(episodes.choices - 1, n_actions), axis=0)


# One program for each shape: budgets, rows and parameters are arguments.
compiled_acquire = eqx.filter_jit(acquire)
_budget_rollouts = eqx.filter_jit(budget_rollouts)


def _unlimited_episodes(key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table) -> Episodes:
    # A policy that plans for a budget has one that pays for everything. Protocols differ only in what happens
    # at a hard budget, so either will do.
    unlimited = policy.at(_total_cost(problem))
    return acquire(key, unlimited, problem, table, PAPER, problem.n_actions, hard=False)


def _total_cost(problem: Problem) -> Float[Array, ""]:
    return problem.total_cost(jnp.ones(problem.n_actions, bool))


def _summarise(problem: Problem, episodes: Episodes) -> Rollouts:
    acquired = jax.nn.one_hot(episodes.choices - 1, problem.n_actions, dtype=bool).any(axis=1)
    frequencies = acquisition_frequencies(episodes, problem.n_actions)
    return Rollouts(acquired, episodes.spent[:, -1], episodes.forced_stop, frequencies)


def _truncate(problem: Problem, episodes: Episodes, protocol: Protocol) -> Episodes:
    """Cut episodes where they exceed the problem's budget, which is smaller than the one they had."""
    fits = episodes.spent <= problem.limit
    forced = episodes.forced_stop
    if protocol.affordability == "blind":
        forced = forced | ~fits.all(axis=1)
    spent = jax.lax.cummax(jnp.where(fits, episodes.spent, 0.0), axis=1)
    return Episodes(jnp.where(fits, episodes.choices, 0), spent, forced)
