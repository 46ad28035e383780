"""Several actions at once: the best set to order now, when all results come back together.

Policies choose one action at a time, and adapt to its result. A set that is ordered at once cannot adapt, so
it is chosen by what the prediction is expected to be worth once all of it is known: 1 less half the Brier
score, over completions of the row that are drawn jointly. So a test that tells what another one of the set
tells adds nothing.

On average over the completions, a prediction must stay where it is. That of a learned predictor drifts, so
its mean is put back: what a set adds is half the variance of the predictions that it may lead to.

Sets grow by the action that adds most (greedy forward selection), once by what an action adds and once by
what it adds per price, within the budget. If values were submodular, the better of these two sets would be
worth at least 1 - 1/e of the best set where prices are equal (Nemhauser, Wolsey & Fisher, 1978), and
(1 - 1/e) / 2 of it otherwise (Leskovec et al., 2007). They need not be: two tests may tell something only
together. So sets are also grown from what the policy asks for first and from the best pair, and the best of
all is taken. What adds next to nothing to it is dropped (backward elimination), as a predictor also reacts a
little to noise.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ascertain._core.arrays import on_device
from ascertain._core.checks import check_count
from ascertain.decisions import decide
from ascertain.estimator._advisor import (
    Advisor,
    AdvisorParts,
    CaseRows,
    draw_completions,
    in_blocks,
    nearest_values,
    probability_of_decision,
)

DRAWS = 64  # completions of a row, over which values are means
_ROWS_AT_ONCE = 64
_LEAST_GAIN = 1e-3  # of a set: the predictions that it leads to differ by a few hundredths
_LEAST_SHARE = 0.25  # of an action in what its set adds, relative to equal shares
_LEAST_PRICE = 1e-6  # what is free adds very much per price, but not infinitely much
_MOST_PAIRS = 300  # that are all tried


class BestSets(NamedTuple):
    """A set of actions for each row, and what is expected once they are known."""

    actions: Int[np.ndarray, "rows size"]  # the most useful first; -1: no more
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
    first: Int[np.ndarray, " rows"] | None = None,
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
    first
        An action from which a set is grown, too, such as the one that the policy asks for; -1: none.
    """
    check_count("batch", size, least=1)
    size, acquired = min(size, advisor.problem.n_actions), advisor.acquired(available)
    if spent is None:
        spent = np.asarray(advisor.problem.total_cost(on_device(acquired)))
    if budget is None:
        budget = np.full(len(x), advisor.problem.budget)
    spent, budget = np.asarray(spent, np.float32), np.asarray(budget, np.float32)
    if first is None:
        first = np.full(len(x), -1)
    given = (first, x, available, acquired, spent, closed, budget)
    at_once = 1 if len(x) == 1 else _ROWS_AT_ONCE
    found = [_best_sets(advisor.parts, *block, size=size) for block in in_blocks(at_once, *given)]
    return BestSets(*(np.concatenate(part)[: len(x)] for part in zip(*jax.device_get(found), strict=True)))


@eqx.filter_jit
def _best_sets(parts: Any, first: Any, *row: Any, size: int) -> Any:
    rows = CaseRows(*row)
    now, drawn = draw_completions(parts, rows.x, rows.available, seed=1, draws=DRAWS)
    drawn = jax.vmap(lambda each: nearest_values(parts.discrete, each))(drawn)
    search = _Search(parts, drawn, rows)
    chosen = search.best(search.grown(search.starts(first, size), size))
    chosen = jax.lax.fori_loop(0, size, lambda _, each: search.pruned(each), chosen)
    worth = (1 + jnp.sum(now**2, axis=1)) / 2 + search.gains(chosen)[:, 0]
    return search.listed(chosen, size), search.costs(chosen)[:, 0], worth, search.right(now, chosen)


Sets = Bool[Array, "rows sets actions"]
OneSet = Bool[Array, "rows 1 actions"]  # for each row


class _Search(NamedTuple):
    """Rows, completions of them, and what sets of actions tell in these."""

    parts: AdvisorParts
    drawn: Float[Array, "draws rows features"]
    rows: CaseRows

    def starts(self, first: Int[Array, " rows"], size: int) -> Sets:
        """The sets from which to grow: nothing twice, the first action of the policy, the best pair."""
        n_actions = self.parts.problem.n_actions
        policy = jax.nn.one_hot(first, n_actions, dtype=bool)[:, None]
        nothing = jnp.zeros_like(policy)
        left, right = np.triu_indices(n_actions, 1)
        if size < 2 or not 0 < len(left) <= _MOST_PAIRS:
            return jnp.concatenate([nothing, nothing, policy], axis=1)
        pairs = on_device(np.eye(n_actions, dtype=bool)[left] | np.eye(n_actions, dtype=bool)[right])
        pair = self.best(jnp.broadcast_to(pairs[None], (len(first), *pairs.shape)))
        return jnp.concatenate([nothing, nothing, policy, pair], axis=1)

    def grown(self, chosen: Sets, size: int) -> Sets:
        """Add the best action to each set until it is full or nothing is affordable.

        The second set grows by what an action adds per price. Actions that tell nothing by themselves are
        added, too, as they may tell something with the next.
        """
        n_rows, n_sets, n_actions = chosen.shape
        alone = jnp.eye(n_actions, dtype=bool)[None, None]
        per_price = (jnp.arange(n_sets) == 1)[None, :, None]

        def step(_: Any, chosen: Sets) -> Sets:
            more = (chosen[:, :, None] | alone).reshape(n_rows, -1, n_actions)
            gain = self.gains(more).reshape(chosen.shape) - self.gains(chosen)[..., None]
            price = self.costs(more).reshape(chosen.shape) - self.costs(chosen)[..., None]
            # What adds nothing does not add less for being cheap.
            merit = jnp.where(per_price & (gain > 0), gain / jnp.maximum(price, _LEAST_PRICE), gain)
            legal = self.payable(more).reshape(chosen.shape) & ~chosen
            legal &= chosen.sum(axis=2, keepdims=True) < size
            best = jnp.argmax(jnp.where(legal, merit, -jnp.inf), axis=2)
            return chosen | (jax.nn.one_hot(best, n_actions, dtype=bool) & legal.any(axis=2, keepdims=True))

        return jax.lax.fori_loop(0, size, step, chosen)

    def best(self, sets: Sets) -> OneSet:
        """The one of a row's sets that adds most and can be paid for; nothing where none can be."""
        payable = self.payable(sets)
        place = jnp.argmax(jnp.where(payable, self.gains(sets), -jnp.inf), axis=1)
        return jnp.take_along_axis(sets, place[:, None, None], axis=1) & payable.any(axis=1)[:, None, None]

    def pruned(self, chosen: OneSet) -> OneSet:
        """Drop the action whose loss is smallest, if that is next to nothing."""
        gain, count = self.gains(chosen), chosen.sum(axis=2)
        loss = self._losses(chosen)
        share = jnp.where(count > 1, _LEAST_SHARE / jnp.maximum(count, 1), 0.0)
        drop = jnp.min(loss, axis=1, keepdims=True) < jnp.maximum(_LEAST_GAIN, share * gain)
        least = jax.nn.one_hot(jnp.argmin(loss, axis=1), chosen.shape[2], dtype=bool)
        return chosen & ~(least & drop)[:, None]

    def listed(self, chosen: OneSet, size: int) -> Int[Array, "rows size"]:
        """The actions of each row's set, first the one without which it loses most."""
        loss = jnp.where(chosen[:, 0], self._losses(chosen), -jnp.inf)
        order = jnp.argsort(-loss, axis=1)[:, :size]
        return jnp.where(jnp.take_along_axis(chosen[:, 0], order, axis=1), order, -1)

    def _losses(self, chosen: OneSet) -> Float[Array, "rows actions"]:
        """What each row's set loses without one of its actions; infinite for other actions."""
        without = chosen & ~jnp.eye(chosen.shape[2], dtype=bool)[None]
        return jnp.where(chosen[:, 0], self.gains(chosen) - self.gains(without), jnp.inf)

    def costs(self, sets: Sets) -> Float[Array, "rows sets"]:
        """What each set costs after what a row has."""
        acquired = jnp.broadcast_to(self.rows.acquired[:, None], sets.shape)
        return self.parts.problem.added_cost(acquired, sets)

    def payable(self, sets: Sets) -> Bool[Array, "rows sets"]:
        """Which sets have open actions only, and fit what is left of a row's budget."""
        limit = jax.vmap(lambda budget: self.parts.problem.at(budget).limit)(self.rows.budget)
        costs = self.costs(sets)
        fits = (self.rows.spent[:, None] + costs <= limit[:, None]) | (costs == 0)
        return fits & ~(sets & ~self.rows.open[:, None]).any(axis=2)

    def gains(self, sets: Sets) -> Float[Array, "rows sets"]:
        """What each set adds to the worth of the prediction: half the variance of where it may lead."""

        def one(values: Float[Array, "rows features"]) -> tuple[Array, Array]:
            found = self._predictions(values, sets)
            return found, jnp.sum(found**2, axis=2)

        found, squares = jax.lax.map(one, self.drawn)
        return (squares.mean(axis=0) - jnp.sum(found.mean(axis=0) ** 2, axis=2)) / 2

    def right(self, now: Float[Array, "rows classes"], chosen: OneSet) -> Float[Array, " rows"]:
        """How often the prediction is expected to be right once a row's set is known.

        Never less often than now, since results can be ignored.
        """
        costs = self.parts.problem.decision_costs
        found = jax.lax.map(lambda values: self._predictions(values, chosen)[:, 0], self.drawn)
        found = jnp.clip(found - found.mean(axis=0, keepdims=True) + now[None], 0.0, 1.0)
        after = jnp.take_along_axis(found, decide(found, costs)[..., None], axis=2)[..., 0]
        return jnp.maximum(after.mean(axis=0), probability_of_decision(now, costs))

    def _predictions(
        self, values: Float[Array, "rows features"], sets: Sets
    ) -> Float[Array, "rows sets classes"]:
        """The predictions from what a row has and each set reveals, if these are its values."""
        n_rows, n_sets, _ = sets.shape
        revealed = sets.astype(jnp.float32) @ self.parts.problem.reveals.astype(jnp.float32) > 0
        shown = self.rows.available[:, None] | revealed
        cells = jnp.where(shown, values[:, None], 0.0)
        flat = (each.reshape(n_rows * n_sets, -1) for each in (cells, shown))
        return self.parts.predictor(*flat).reshape(n_rows, n_sets, -1)
