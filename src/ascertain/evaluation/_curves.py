"""Scores of a policy over hard budgets, or over its own thresholds for when to stop."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Float, PRNGKeyArray

from ascertain import methods
from ascertain._core.checks import check_numbers
from ascertain._core.prices import PriceList
from ascertain.errors import InputError
from ascertain.evaluation._rollouts import Rollouts, may_stop, roll_out, sample_rows, soft_rollouts
from ascertain.evaluation._scores import score_table
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.predictors._predictions import predict_sets
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_CURVE_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the budget


def evaluate(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    protocol: Protocol = PAPER,
    budgets: Sequence[float] | None = None,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Score a policy at one or more hard budgets.

    Parameters
    ----------
    policy
        The policy.
    problem
        Actions, costs, and the budget to use without `budgets`.
    table
        The rows to acquire for. They may have missing values: an action that a row lacks is illegal in it. A
        row in which nothing can be acquired is predicted from nothing.
    predictor
        Predicts from what was acquired; need not be written in JAX.
    protocol
        Whether the policy chooses among what the budget allows, or stops at its first choice beyond it.
    budgets
        The budgets, in any order. Below the cheapest action, nothing is acquired.
    key
        The random key, for stochastic policies; by default made from `seed`.
    max_rows
        The most rows to score; None for all.
    seed
        Which rows to score if there are more.

    Returns
    -------
    scores
        One row per budget: `budget`, the scores of `ascertain.metrics.measure`, `mean_cost`,
        `mean_acquisitions`, `forced_stop_rate` and `n_rows`. Where the problem says what decisions cost, also
        `decision_cost`, the mean cost of the decisions that are expected to cost least, and `total_cost`,
        that and the `mean_cost` of acquisitions.

    Examples
    --------
    A policy that buys the first column, then the second, and a predictor that knows only what the second one
    says:

    >>> import jax.numpy as jnp
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table, methods
    >>> problem = Problem([[True, False], [False, True]], [1, 3], budget=4, n_classes=2)
    >>> table = Table([[0.0, -1.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]], y=[0, 1, 0, 1])
    >>> policy = methods.fit("sequential", jr.key(0), problem, table, table)
    >>> def predictor(x, observed):
    ...     chance = jnp.where(observed[:, 1], x[:, 1] > 0, 0.5)
    ...     return jnp.stack([1 - chance, chance], axis=1)
    >>> evaluate(policy, problem, table, predictor, budgets=[1, 4])[["budget", "accuracy", "mean_cost"]]
       budget  accuracy  mean_cost
    0     1.0       0.5        1.0
    1     4.0       1.0        4.0

    `docs/methods.md` fits a policy to a dataset and scores it.
    """
    problem.check(table)
    amounts = check_budgets(problem, budgets)
    rows = sample_rows(table, max_rows, seed)
    key = jr.key(seed) if key is None else key
    rollouts = roll_out(key, policy, problem, rows, amounts.tolist(), protocol=protocol)
    predicted = predict_sets(predictor, problem, rows, rollouts.acquired)
    frame = score_table(rollouts, predicted, rows.y, problem.decision_costs)
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
    max_rows: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Score a policy that decides itself when to stop, without a hard budget.

    An episode ends when the policy stops or nothing is left to acquire. What it costs is part of the result.

    Parameters
    ----------
    policy, problem, table, predictor, key, max_rows, seed
        As for `evaluate`; the problem's budget is not used.
    thresholds
        When to stop, for policies with a method `stopping_at`. None for a policy that learned when to stop.

    Returns
    -------
    scores
        One row per threshold: `threshold` (NaN where none is given), the scores of
        `ascertain.metrics.measure`, `mean_cost`, `mean_acquisitions` and `n_rows`; and what decisions cost,
        as for `evaluate`.

    Examples
    --------
    A policy that stops at once, and a predictor that always predicts the same:

    >>> import jax.numpy as jnp
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table, methods
    >>> problem, table = Problem([[True]], [1], budget=1, n_classes=2), Table([[0.0], [1.0]], [0, 1])
    >>> policy = methods.fit("stop", jr.key(0), problem, table, table)
    >>> def guess(x, observed):
    ...     return jnp.broadcast_to(jnp.array([[0.4, 0.6]]), (len(x), 2))
    >>> scores = evaluate_soft(policy, problem, table, guess)
    >>> scores["accuracy"].item(), scores["mean_cost"].item()
    (0.5, 0.0)
    """
    problem.check(table)
    rows, anonymous = sample_rows(table, max_rows, seed), problem.without_names()
    key = jr.key(seed) if key is None else key
    each = [_soft_rollouts(key, rule, anonymous, rows) for rule in _with_thresholds(policy, thresholds)]
    rollouts = Rollouts(*(jnp.concatenate(points) for points in zip(*each, strict=True)))
    if thresholds is None:
        _refuse_endless(key, policy, anonymous, rows, rollouts)
    predicted = predict_sets(predictor, problem, rows, rollouts.acquired)
    frame = score_table(rollouts, predicted, rows.y, problem.decision_costs)
    frame.insert(0, "threshold", [np.nan] if thresholds is None else [float(each) for each in thresholds])
    return frame.drop(columns="forced_stop_rate")


_soft_rollouts = eqx.filter_jit(soft_rollouts)
_may_stop = eqx.filter_jit(may_stop)


def curve_budgets(prices: PriceList, budget: float) -> tuple[float, ...]:
    """Choose budgets from nothing to all of it, whole numbers where prices are.

    Examples
    --------
    >>> curve_budgets(PriceList(np.ones(9)), 5.0), curve_budgets(PriceList(np.array([0.5, 30.0])), 30.0)
    ((0.0, 1.0, 2.0, 3.0, 5.0), (0.0, 7.5, 15.0, 22.5, 30.0))
    """
    shares = [share * budget for share in _CURVE_SHARES]
    if prices.whole:
        shares = [*np.floor(shares[:-1]).tolist(), budget]
    return tuple(sorted({float(each) for each in shares}))


def check_budgets(problem: Problem, budgets: Sequence[float] | None) -> Float[np.ndarray, " budgets"]:
    """Return the budgets, or the problem's own where there are none; raise where one is no amount."""
    if budgets is None:
        return np.array([float(str(np.asarray(problem.budget)))])  # 0.3, not the nearest 0.30000001
    amounts = check_numbers("budgets", budgets, ndim=1)
    if not len(amounts):
        raise InputError("budgets is empty; leave it out to evaluate at the problem's budget")
    for place in np.flatnonzero(~(np.isfinite(amounts) & (amounts >= 0)))[:1]:
        raise InputError(f"budgets[{place}] is {amounts[place]}; budgets are finite and not negative")
    return amounts


def _with_thresholds(policy: Policy, thresholds: Sequence[float] | None) -> list[Policy]:
    if thresholds is None:
        return [policy]
    values = check_numbers("thresholds", thresholds, ndim=1)
    if not len(values) or np.isnan(values).any():
        raise InputError(f"thresholds must be one or more numbers, got {thresholds!r}")
    if not hasattr(policy, "stopping_at"):
        raise InputError(f"{type(policy).__name__} takes no stopping threshold; {_who_stops()}")
    return [policy.stopping_at(value) for value in values.tolist()]


def _refuse_endless(
    key: PRNGKeyArray, policy: Policy, problem: Problem, table: Table, rollouts: Rollouts
) -> None:
    """Raise if a policy acquires everything because it cannot stop, not because it wants everything."""
    if bool(jnp.any(problem.readable(table.available)[None] & ~rollouts.acquired)):
        return
    if not bool(_may_stop(key, policy, problem, table)):
        raise InputError(
            f"{type(policy).__name__} has no rule for when to stop, or none that any of these rows meets: "
            f"it acquires everything; {_who_stops()}"
        )


def _who_stops() -> str:
    """List the methods that stop by themselves, by how they do it."""
    by_rule: dict[str, list[str]] = {}
    for name in methods.names():
        by_rule.setdefault(methods.get(name).stops, []).append(name)
    stopping = "; ".join(f"{', '.join(names)} {rule}" for rule, names in by_rule.items() if rule)
    return f"these methods stop: {stopping}; others need a hard budget"
