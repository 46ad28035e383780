"""The two central classes: a `Problem` to solve and a `Table` to learn from."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from ascertain._core.arrays import on_device, take_rows
from ascertain._core.checks import (
    BUDGET_TOLERANCE,
    check_budget,
    check_costs,
    check_count,
    check_labels,
    check_mask,
    check_names,
    check_numbers,
)
from ascertain._core.prices import PriceList
from ascertain.decisions import check_decision_costs
from ascertain.errors import InputError


class Problem(eqx.Module):
    """What can be measured, what it costs, and how much may be spent before predicting a class.

    The arrays are leaves of a PyTree; the number of classes and the names are static.

    Parameters
    ----------
    reveals
        One row per action: the features that this acquisition reveals (a single column, or a group such
        as a one-hot block or a lab panel). Features that no action reveals, such as a patient's age, are
        known from the start, at no cost; every row should have them.
    costs
        The price of each action: finite, not negative.
    budget
        How much may be spent on one instance; at least the cheapest action's price.
    n_classes
        The number of classes to tell apart, at least two.
    action_names, feature_names, class_names, setup_names
        What to call them, for errors and reports.
    decision_costs
        What it costs to decide for a class (columns) where another one is true (rows); see
        `ascertain.decisions`. None: nobody said; decisions are for the most probable class.
    setup_costs
        The prices of set-ups that actions share, such as a blood draw: the first action that needs one pays
        for it, later ones do not. None: there are no set-ups.
    needs
        One row per action: the set-ups that it needs.

    Examples
    --------
    >>> import numpy as np
    >>> tests = ["glucose", "ecg", "scan"]
    >>> problem = Problem(np.eye(3), [1, 1, 2.5], budget=2.5, n_classes=2, action_names=tests)
    >>> problem.affordable(jnp.array([True, False, False]))  # after the glucose test
    Array([ True,  True, False], dtype=bool)

    The first of two blood tests, whichever it is, pays 5 for the blood draw:

    >>> blood = [[True], [True], [False]]
    >>> problem = Problem(np.eye(3), [1, 2, 9], 8, 2, setup_costs=[5], needs=blood)
    >>> problem.prices(jnp.array([False, False, False])).tolist()
    [6.0, 7.0, 9.0]
    >>> problem.prices(jnp.array([True, False, False])).tolist()
    [1.0, 2.0, 9.0]
    """

    reveals: Bool[Array, "actions features"]
    costs: Float[Array, " actions"]  # without set-ups
    budget: Float[Array, ""]
    n_classes: int = eqx.field(static=True)
    action_names: tuple[str, ...] | None = eqx.field(static=True)
    feature_names: tuple[str, ...] | None = eqx.field(static=True)
    class_names: tuple[str, ...] | None = eqx.field(static=True)
    decision_costs: Float[Array, "classes classes"] | None
    setup_costs: Float[Array, " setups"] | None
    needs: Bool[Array, "actions setups"] | None
    setup_names: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        reveals: ArrayLike,
        costs: ArrayLike,
        budget: ArrayLike,
        n_classes: int,
        *,
        action_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        decision_costs: Any = None,
        setup_costs: ArrayLike | None = None,
        needs: ArrayLike | None = None,
        setup_names: Sequence[str] | None = None,
    ):
        matrix = check_mask("reveals", reveals, ndim=2)
        n_actions, n_features = matrix.shape
        if 0 in matrix.shape:
            raise InputError(f"reveals has shape {matrix.shape}: there is nothing to acquire")
        self.n_classes = n_classes = check_count("n_classes", n_classes, least=2)
        self.action_names = check_names("action_names", action_names, n_actions)
        self.feature_names = check_names("feature_names", feature_names, n_features)
        self.class_names = check_names("class_names", class_names, n_classes)

        named = [f"action {i}" for i in range(n_actions)]
        if self.action_names is not None:
            named = [f"{number} ({name!r})" for number, name in zip(named, self.action_names, strict=True)]
        for action in np.flatnonzero(~matrix.any(axis=1))[:1]:
            raise InputError(f"{named[action]} reveals no feature; drop it or say what it reveals")
        prices = PriceList(check_costs(costs, named), *_check_setups(setup_costs, needs, setup_names, named))
        self.decision_costs = None
        if decision_costs is not None:
            checked = check_decision_costs(decision_costs, self.class_names or range(n_classes))
            self.decision_costs = on_device(checked, np.float32)
        self.reveals = on_device(matrix)
        self.costs = on_device(prices.costs, np.float32)
        self.budget = on_device(check_budget(budget, prices.first), np.float32)
        self.setup_costs = self.needs = None
        if prices.needs is not None:
            self.setup_costs = on_device(prices.setup_costs, np.float32)
            self.needs = on_device(prices.needs)
        self.setup_names = check_names("setup_names", setup_names, len(prices.setup_costs))

    @property
    def n_actions(self) -> int:
        """The number of things that can be acquired."""
        return self.reveals.shape[0]

    @property
    def n_features(self) -> int:
        """The number of columns of a table for this problem."""
        return self.reveals.shape[1]

    @property
    def limit(self) -> Float[Array, ""]:
        """The most that may be spent: the budget, with room for rounding (0.1 + 0.2 fits into 0.3)."""
        return self.budget + BUDGET_TOLERANCE * self.budget

    def prices(self, acquired: Bool[Array, "*batch actions"]) -> Float[Array, "*batch actions"]:
        """The cost of each action after some were acquired; methods ask for prices in no other way."""
        alone = jnp.broadcast_to(self.costs, acquired.shape)
        if self.setup_costs is None or self.needs is None:
            return alone
        unpaid = jnp.where(self._paid(acquired), 0.0, _batched(self.setup_costs, acquired))
        needs = _batched(self.needs, acquired)
        return alone + jnp.sum(jnp.where(needs, unpaid[..., None, :], 0.0), axis=-1)

    def affordable(
        self, acquired: Bool[Array, "*batch actions"], spent: Float[Array, "*batch"] | None = None
    ) -> Bool[Array, "*batch actions"]:
        """Which actions still fit the budget after some were acquired, by default at their own total cost."""
        spent = self.total_cost(acquired) if spent is None else spent
        return spent[..., None] + self.prices(acquired) <= self.limit

    def total_cost(self, acquired: Bool[Array, "*batch actions"]) -> Float[Array, "*batch"]:
        """What a set of actions costs altogether."""
        # On a GPU a matrix product might be rounded to fewer digits, and budgets are compared exactly.
        total = jnp.sum(jnp.where(acquired, _batched(self.costs, acquired), 0.0), axis=-1)
        if self.setup_costs is None:
            return total
        setups = jnp.where(self._paid(acquired), _batched(self.setup_costs, acquired), 0.0)
        return total + jnp.sum(setups, axis=-1)

    def added_cost(
        self, acquired: Bool[Array, "*batch actions"], more: Bool[Array, "*batch actions"]
    ) -> Float[Array, "*batch"]:
        """What further actions cost altogether after some were acquired."""
        new = more & ~acquired
        total = jnp.sum(jnp.where(new, _batched(self.costs, new), 0.0), axis=-1)
        if self.setup_costs is None:
            return total
        unpaid = self._paid(new) & ~self._paid(acquired)
        return total + jnp.sum(jnp.where(unpaid, _batched(self.setup_costs, new), 0.0), axis=-1)

    @property
    def price_list(self) -> PriceList:
        """The prices in double precision, for use outside of compiled programs."""
        costs = np.asarray(self.costs, np.float64)
        if self.setup_costs is None:
            return PriceList(costs)
        return PriceList(costs, np.asarray(self.setup_costs, np.float64), np.asarray(self.needs))

    def _paid(self, acquired: Bool[Array, "*batch actions"]) -> Bool[Array, "*batch setups"]:
        """Which set-ups the acquired actions have paid for."""
        assert self.needs is not None
        # Sums of zeros and ones are exact, however a GPU rounds products.
        return acquired.astype(jnp.float32) @ self.needs.astype(jnp.float32) > 0

    def at(self, budget: float | Float[Array, ""]) -> "Problem":
        """The same problem under another budget, which may be traced and is not checked."""
        changed: Problem = eqx.tree_at(lambda each: each.budget, self, jnp.asarray(budget, jnp.float32))
        return changed

    def with_decision_costs(self, decision_costs: Any) -> "Problem":
        """The same problem, where wrong decisions have these costs."""
        changed = object.__new__(Problem)
        for field in dataclasses.fields(self):
            object.__setattr__(changed, field.name, getattr(self, field.name))
        checked = check_decision_costs(decision_costs, self.class_names or range(self.n_classes))
        object.__setattr__(changed, "decision_costs", on_device(checked, np.float32))
        return changed

    def at_prices_of(self, other: "Problem") -> "Problem":
        """The same problem at the prices of another one of the same actions; they are not checked."""
        prices = (other.costs,) if self.setup_costs is None else (other.costs, other.setup_costs)

        def places(each: Problem) -> tuple[Any, ...]:
            return (each.costs,) if self.setup_costs is None else (each.costs, each.setup_costs)

        changed: Problem = eqx.tree_at(places, self, prices)
        return changed

    @property
    def known(self) -> Bool[Array, " features"]:
        """Which features are known from the start: those that no action reveals."""
        return ~jnp.any(self.reveals, axis=0)

    def observed(self, acquired: Bool[Array, "*batch actions"]) -> Bool[Array, "*batch features"]:
        """Which features are observed after a set of actions: what they reveal, and what is known anyway."""
        return _observed(acquired, self.reveals)

    def most_acquisitions(self) -> int:
        """How many acquisitions the budget can pay for at most; not to be asked inside `jit`."""
        if isinstance(self.costs, jax.core.Tracer):
            raise InputError("the number of steps must be known before compilation; set it in the settings")
        return self.price_list.most(float(np.asarray(self.budget)))

    def readable(self, available: Bool[Array, "*batch features"]) -> Bool[Array, "*batch actions"]:
        """Which actions a record supports: every feature that an action reveals must be available."""
        return _readable(available, self.reveals)

    def without_names(self) -> "Problem":
        """Drop the names, so that problems which differ only in them share one compiled program."""
        # Without __init__, which checks values: these may be traced or stacked.
        anonymous = object.__new__(Problem)
        for field in dataclasses.fields(self):
            named = field.name.endswith("_names")
            object.__setattr__(anonymous, field.name, None if named else getattr(self, field.name))
        return anonymous

    def check(self, table: "Table") -> None:
        """Raise an `InputError` unless the table has this problem's features and classes."""
        if table.x.shape[1] != self.n_features:
            raise InputError(
                f"the table has {table.x.shape[1]} features, but the problem has {self.n_features}"
            )
        if table.n_classes != self.n_classes:
            raise InputError(
                f"the table has {table.n_classes} classes, but the problem has {self.n_classes}; "
                "give the table's number with n_classes="
            )


# Outside of a program, these are compiled as one and not operation by operation.


@partial(jax.jit, inline=True)
def _observed(
    acquired: Bool[Array, "*batch actions"], reveals: Bool[Array, "actions features"]
) -> Bool[Array, "*batch features"]:
    revealed = acquired.astype(jnp.float32) @ reveals.astype(jnp.float32) > 0
    known = ~jnp.any(reveals, axis=0)
    return revealed | jnp.expand_dims(known, range(acquired.ndim - 1))


@partial(jax.jit, inline=True)
def _readable(
    available: Bool[Array, "*batch features"], reveals: Bool[Array, "actions features"]
) -> Bool[Array, "*batch actions"]:
    missing = jnp.logical_not(available).astype(jnp.float32)
    return missing @ reveals.T.astype(jnp.float32) == 0


def _batched(array: Array, acquired: Bool[Array, "*batch actions"]) -> Array:
    """Put an axis of length 1 in front of an array for each batch axis."""
    return jnp.expand_dims(array, range(acquired.ndim - 1))


def _check_setups(
    costs: ArrayLike | None, needs: ArrayLike | None, names: Sequence[str] | None, actions: Sequence[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the prices of set-ups, and which of them each action needs (None where there are none)."""
    if costs is None and needs is None:
        return np.zeros(0), None
    if costs is None or needs is None:
        raise InputError("set-ups take both setup_costs and needs, which says which actions need them")
    matrix = check_mask("needs", needs, ndim=2)
    if not matrix.shape[1] and not np.size(costs):
        return np.zeros(0), None
    if len(matrix) != len(actions):
        raise InputError(f"needs has {len(matrix)} rows, but there are {len(actions)} actions")
    given = check_names("setup_names", names, matrix.shape[1])
    named = [f"set-up {i}" for i in range(matrix.shape[1])] if given is None else [*map(repr, given)]
    prices = check_costs(costs, named)
    for setup in np.flatnonzero(~matrix.any(axis=0))[:1]:
        raise InputError(f"no action needs {named[setup]}; drop it or say in needs which ones do")
    return prices, matrix


class Table(eqx.Module):
    """Instances to learn from: values, labels, and which of the values were measured.

    Parameters
    ----------
    x
        One row per instance, one column per feature; NaN means not measured.
    y
        The class of each instance, 0 to `n_classes - 1`.
    available
        Which cells were measured. By default every cell that is not NaN; cells that are not available
        are set to zero, whatever they held.
    n_classes
        The number of classes, at least two; by default one more than the largest label.
    ids
        The instance that each row shows, as a number; by default every row is an instance of its own. Rows
        with the same number, such as repetitions, are kept together where rows are held out.

    Examples
    --------
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0]], y=[0, 1])
    >>> table.available
    Array([[ True, False],
           [ True,  True]], dtype=bool)
    """

    x: Float[Array, "instances features"]
    y: Int[Array, " instances"]
    available: Bool[Array, "instances features"]
    n_classes: int = eqx.field(static=True)
    ids: Int[Array, " instances"]
    completions: int = eqx.field(static=True)  # of every instance; all of the first one come first

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        available: ArrayLike | None = None,
        *,
        n_classes: int | None = None,
        ids: ArrayLike | None = None,
    ):
        values = check_numbers("x", x, ndim=2)
        if 0 in values.shape:
            raise InputError(f"the table is empty: x has shape {values.shape}")
        if n_classes is not None:
            n_classes = check_count("n_classes", n_classes, least=2)
        labels = check_labels("y", y, len(values), n_classes)
        present = ~np.isnan(values) if available is None else check_mask("available", available, ndim=2)
        if present.shape != values.shape:
            raise InputError(f"available has shape {present.shape}, but x has shape {values.shape}")
        storable = np.abs(values) <= np.finfo(np.float32).max  # and neither infinite nor NaN
        for row, column in np.argwhere(present & ~storable)[:1]:
            raise InputError(
                f"x[{row}, {column}] is {values[row, column]} but counted as measured; values must be finite "
                "in single precision: write NaN for one that was not measured, or mark it in `available`"
            )
        self.x = on_device(np.where(present, values, 0.0), np.float32)
        self.y = on_device(labels, np.int32)
        self.available = on_device(present)
        self.n_classes = n_classes if n_classes is not None else max(2, int(labels.max()) + 1)
        numbers = np.arange(len(values)) if ids is None else np.asarray(ids)
        if numbers.shape != (len(values),) or numbers.dtype.kind not in "iu":
            raise InputError(f"ids must be {len(values)} whole numbers, one for each row")
        self.ids = on_device(numbers, np.int32)
        self.completions = 1

    @property
    def n_instances(self) -> int:
        """The number of rows, not counting further completions of the same ones."""
        return self.y.shape[-1] // self.completions

    def take(self, rows: Int[Array | np.ndarray, " taken"]) -> "Table":
        """Select rows by number."""
        return take_rows(self, rows).counted(completions=1)

    def with_cells(
        self, x: Float[Array, "instances features"], available: Bool[Array, "instances features"]
    ) -> "Table":
        """The same instances with other cells; `x` is set to zero where it is not available."""
        changed: Table = eqx.tree_at(
            lambda table: (table.x, table.available), self, (jnp.where(available, x, 0.0), available)
        )
        return changed

    def completed(self, x: Float[Array, "completions instances features"]) -> "Table":
        """Every row several times, each with its holes filled in another way; observed cells stay."""
        n = x.shape[0]
        filled = jnp.where(self.available[None], self.x[None], x).reshape(-1, x.shape[-1])
        several: Table = eqx.tree_at(
            lambda table: (table.x, table.y, table.available, table.ids),
            self,
            (filled, jnp.tile(self.y, n), jnp.ones(filled.shape, bool), jnp.tile(self.ids, n)),
        )
        return several.counted(completions=n)

    def counted(self, completions: int) -> "Table":
        """The same rows, counted as this many completions of each instance."""
        if completions == self.completions:
            return self
        # Without __init__, which checks values: these may be traced or stacked.
        changed = object.__new__(Table)
        for field in dataclasses.fields(self):
            object.__setattr__(changed, field.name, getattr(self, field.name))
        object.__setattr__(changed, "completions", completions)
        return changed
