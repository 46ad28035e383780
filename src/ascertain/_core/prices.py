"""What actions cost, in double precision and outside of compiled programs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from ascertain._core.checks import spending_limit


def _no_setups() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class PriceList:
    """The prices of actions, and of set-ups that they share.

    The first action of a set-up, such as a blood draw, pays for it; later ones do not.

    Examples
    --------
    >>> draw = PriceList(np.array([2.0, 3.0, 9.0]), np.array([5.0]), np.array([[True], [True], [False]]))
    >>> draw.first.tolist(), draw.prices(np.array([True, False, False])).tolist()
    ([7.0, 8.0, 9.0], [2.0, 3.0, 9.0])
    >>> draw.total(np.array([True, True, False])).item(), draw.most(10.0)
    (10.0, 2)
    """

    costs: Float[np.ndarray, " actions"]  # without set-ups
    setup_costs: Float[np.ndarray, " setups"] = field(default_factory=_no_setups)
    needs: Bool[np.ndarray, "actions setups"] | None = None  # None: there are no set-ups

    @property
    def first(self) -> Float[np.ndarray, " actions"]:
        """What each action costs as the first one."""
        return self.prices(np.zeros(len(self.costs), bool))

    def setups(self, acquired: Bool[np.ndarray, "*batch actions"]) -> Float[np.ndarray, "*batch actions"]:
        """What each action would have to pay for set-ups after some actions were acquired."""
        if self.needs is None:
            return np.zeros(acquired.shape)
        due = self.needs & ~self._paid(acquired)[..., None, :]
        return np.where(due, self.setup_costs, 0.0).sum(axis=-1)

    def prices(self, acquired: Bool[np.ndarray, "*batch actions"]) -> Float[np.ndarray, "*batch actions"]:
        """What each action costs after some actions were acquired."""
        if self.needs is None:
            return np.broadcast_to(self.costs, acquired.shape)
        return self.costs + self.setups(acquired)

    def total(self, acquired: Bool[np.ndarray, "*batch actions"]) -> Float[np.ndarray, "*batch"]:
        """What sets of actions cost altogether."""
        actions = np.asarray(acquired @ self.costs)
        return (
            actions if self.needs is None else np.asarray(actions + self._paid(acquired) @ self.setup_costs)
        )

    @property
    def everything(self) -> float:
        """What all actions cost together."""
        return float(self.costs.sum() + self.setup_costs.sum())

    @property
    def whole(self) -> bool:
        """Whether all prices are whole numbers."""
        return bool((self.costs % 1 == 0).all() and (self.setup_costs % 1 == 0).all())

    def route(self, order: Iterable[int], budget: float) -> list[int]:
        """Take actions in an order, each if it still fits the budget."""
        return next(self.routes([order], budget))

    def routes(self, orders: Iterable[Iterable[int]], budget: float) -> Iterator[list[int]]:
        """Take actions in each of several orders."""
        limit, (costs, setups) = spending_limit(budget), self._lists
        full = limit - min(costs)  # beyond this, nothing can be added
        for order in orders:
            spent, taken, paid = 0.0, [], set[int]()
            for action in order:
                price, due = costs[action], setups[action] - paid
                if due:
                    price += sum(self.setup_costs[setup] for setup in due)
                if spent + price <= limit:
                    spent += price
                    paid |= due
                    taken.append(action)
                    if spent > full:
                        break
            yield taken

    def most(self, budget: float) -> int:
        """How many actions a budget can pay for at most.

        With actions that need several set-ups this is a bound: only the dearest of them is counted.
        """
        totals = np.cumsum(np.sort(self.costs)) if self.needs is None else self._cheapest()
        return int((totals <= spending_limit(budget)).sum())

    @cached_property
    def _lists(self) -> tuple[list[float], list[frozenset[int]]]:
        """The price of each action and the set-ups that it needs, for loops over single actions."""
        needs = np.zeros((len(self.costs), 0), bool) if self.needs is None else self.needs
        return self.costs.tolist(), [frozenset(np.flatnonzero(row).tolist()) for row in needs]

    def _cheapest(self) -> Float[np.ndarray, " actions"]:
        """The price of the cheapest set of each size, by adding one set-up with its actions at a time."""
        assert self.needs is not None
        dearest = np.where(self.needs, 1 + self.setup_costs, 0.0).argmax(axis=1)
        setup_of = np.where(self.needs.any(axis=1), dearest, -1)
        best = np.zeros(1)
        for setup in np.unique(setup_of):
            once = self.setup_costs[setup] if setup >= 0 else 0.0
            own = np.concatenate([[0.0], once + np.cumsum(np.sort(self.costs[setup_of == setup]))])
            longer = np.full(len(best) + len(own) - 1, np.inf)
            for taken, price in enumerate(own):
                part = slice(taken, taken + len(best))
                longer[part] = np.minimum(longer[part], best + price)
            best = longer
        return best[1:]

    def _paid(self, acquired: Bool[np.ndarray, "*batch actions"]) -> Bool[np.ndarray, "*batch setups"]:
        return acquired @ self.needs
