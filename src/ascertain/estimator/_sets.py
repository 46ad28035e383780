"""Several actions at once: the best set to order now, when all results come back together.

Policies choose one action at a time, and adapt to its result. A set that is ordered at once cannot adapt, so
it is chosen by what the prediction is expected to be worth once all of it is known: 1 less half the Brier
score, over completions of the row that are drawn jointly. So a test that tells what another one of the set
tells adds nothing.

The set grows by the action that adds most (greedy forward selection), once by what an action adds and once by
what it adds per price, within the budget; the better of the two sets is taken. If values were submodular, it
would be worth at least 1 - 1/e of the best set where prices are equal (Nemhauser, Wolsey & Fisher, 1978), and
(1 - 1/e) / 2 of it otherwise (Leskovec et al., 2007). Predictions need not be: two tests may tell something
only together.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ascertain._core.checks import check_count
from ascertain.estimator._advisor import (
    Advisor,
    AdvisorParts,
    CaseRows,
    draw_completions,
    in_blocks,
    nearest_values,
)

DRAWS = 64  # completions of a row, over which values are means
_ROWS_AT_ONCE = 64
_LEAST_GAIN = 1e-6  # less is rounding
_LEAST_PRICE = 1e-6  # what is free adds very much per price, but not infinitely much


class BestSets(NamedTuple):
    """A set of actions for each row, and what is expected once they are known."""

    actions: Int[np.ndarray, "rows size"]  # in the order in which they were chosen; -1: no more
    cost: Float[np.ndarray, " rows"]
    value: Float[np.ndarray, " rows"]  # expected, 1 less half the Brier score
    right: Float[np.ndarray, " rows"]  # the expected probability that the prediction is right


def best_sets(
    advisor: Advisor,
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    spent: Float[np.ndarray, " rows"] | None,
    closed: Bool[np.ndarray, "rows actions"],
    size: int,
    budget: Float[np.ndarray, " rows"] | None = None,
) -> BestSets:
    """Choose for each row up to `size` actions that are best known together, within its budget.

    Parameters
    ----------
    advisor
        The predictor, the restorer and the budget.
    x, available
        The rows, and what is known of them.
    spent
        What was spent on each; by default the cost of the acquired actions.
    closed
        Actions that cannot be taken.
    size
        The most actions.
    budget
        What may be spent on each row, altogether; by default the advisor's budget.
    """
    check_count("batch", size, least=1)
    size, acquired = min(size, advisor.problem.n_actions), advisor.acquired(available)
    if spent is None:
        spent = np.asarray(advisor.problem.total_cost(jnp.asarray(acquired)))
    if budget is None:
        budget = np.full(len(x), advisor.problem.budget)
    spent, budget = np.asarray(spent, np.float32), np.asarray(budget, np.float32)
    given = (x, available, acquired, spent, closed, budget)
    at_once = 1 if len(x) == 1 else _ROWS_AT_ONCE
    found = [_best_sets(advisor.parts, *block, size=size) for block in in_blocks(at_once, *given)]
    return BestSets(*(np.concatenate(part)[: len(x)] for part in zip(*jax.device_get(found), strict=True)))


@eqx.filter_jit
def _best_sets(parts: Any, *row: Any, size: int) -> Any:
    rows = CaseRows(*row)
    _, drawn = draw_completions(parts, rows.x, rows.available, seed=1, draws=DRAWS)
    drawn = jax.vmap(lambda each: nearest_values(parts.discrete, each))(drawn)
    by_value, by_price = (_greedy(parts, drawn, rows, size, per_price) for per_price in (False, True))
    return _chosen_by(by_price[2] > by_value[2], by_price, by_value)


def _greedy(
    parts: AdvisorParts,
    drawn: Float[Array, "draws rows features"],
    rows: CaseRows,
    size: int,
    per_price: bool,
) -> tuple[Array, ...]:
    """Add the best action until the set is full or nothing is affordable; then drop the last ones in vain.

    An action is also added if it tells nothing by itself, as it may tell something with the next.
    """
    problem, begin = parts.problem, rows.spent
    everyone = jnp.arange(rows.x.shape[0])
    value, right = (each[:, 0] for each in _values(parts, drawn, rows.available[:, None]))
    chosen, course = [], [(rows.spent, value, right)]
    for _ in range(size):
        values, rights = _values(parts, drawn, rows.available[:, None] | problem.reveals[None])
        price = jnp.maximum(problem.prices(rows.acquired), _LEAST_PRICE)
        gain = values - value[:, None]
        # What adds nothing does not add less for being cheap.
        merit = jnp.where(gain > 0, gain / price, gain) if per_price else gain
        legal = rows.legal(problem)
        best, add = jnp.argmax(jnp.where(legal, merit, -jnp.inf), axis=1), legal.any(axis=1)
        chosen.append(jnp.where(add, best, -1))
        value = jnp.where(add, values[everyone, best], value)
        right = jnp.where(add, rights[everyone, best], right)
        rows = CaseRows(*_chosen_by(add, rows.after(problem, best, rows.x), rows))
        course.append((rows.spent, value, right))
    spent, value, right = (jnp.stack(each) for each in zip(*course, strict=True))
    length = jnp.argmax(value >= value.max(axis=0)[None] - _LEAST_GAIN, axis=0)  # the first
    kept = jnp.arange(size)[None] < length[:, None]
    actions = jnp.where(kept, jnp.stack(chosen, axis=1), -1)
    return actions, spent[length, everyone] - begin, value[length, everyone], right[length, everyone]


def _chosen_by(condition: Bool[Array, " rows"], one: Any, other: Any) -> list[Array]:
    """Take each array of a tuple, row by row, from one or the other."""
    return [
        jnp.where(jnp.expand_dims(condition, range(1, first.ndim)), first, second)
        for first, second in zip(one, other, strict=True)
    ]


def _values(
    parts: AdvisorParts, drawn: Float[Array, "draws rows features"], shown: Bool[Array, "rows sets features"]
) -> tuple[Float[Array, "rows sets"], Float[Array, "rows sets"]]:
    """What the prediction from each set of features is worth on average, and how often it is right."""
    n_rows, n_sets, n_features = shown.shape
    observed = shown.reshape(-1, n_features)

    def one(values: Float[Array, "rows features"]) -> tuple[Array, Array]:
        cells = jnp.where(shown, values[:, None], 0.0).reshape(-1, n_features)
        probabilities = parts.predictor(cells, observed)
        worth = (1 + jnp.sum(probabilities**2, axis=1)) / 2
        return worth.reshape(n_rows, n_sets), probabilities.max(axis=1).reshape(n_rows, n_sets)

    value, right = jax.lax.map(one, drawn)
    return value.mean(axis=0), right.mean(axis=0)
