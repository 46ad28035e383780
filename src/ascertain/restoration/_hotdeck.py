"""Hot deck: missing values are copied from a training row of the same class that has them."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.checks import check_count
from ascertain._core.sampling import stratified_rows
from ascertain.problem import Problem, Table
from ascertain.registry import NoSettings
from ascertain.restoration._impute import MeanFill, fit_mean
from ascertain.restoration._registry import register

MAX_DONORS = 2000  # rows to search for nearest neighbours


class HotDeck(eqx.Module):
    """Draws each missing action from a donor of the same class, uniformly or among the nearest.

    If no row of the class has the action, the donor is of any class; if no row at all has it, the columns'
    means are used.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> from ascertain.restoration import fit_hotdeck, restore
    >>> restore(jr.key(1), fit_hotdeck(jr.key(0), problem, table), table).x.tolist()
    [[0.5, 1.0], [1.5, 2.0], [0.0, 1.0]]
    """

    problem: Problem
    donors: Table
    means: MeanFill
    neighbours: int | None = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw a donor for every row and action."""
        if self.neighbours is None:
            donor = self._uniform_donors(key, table)
        else:
            donor = self._near_donors(key, table, self.neighbours)
        exists = self._readable().any(axis=0)
        return _copied(self.problem, self.donors.x, donor, exists, self.means.draw(key, table))

    def label_free(self) -> "HotDeck | SortedDeck":
        """Draw donors of any class: with one class for all, every donor is of the row's class."""
        one_class = jnp.zeros_like(self.donors.y)
        free: HotDeck = eqx.tree_at(lambda deck: deck.donors.y, self, one_class)
        return free.prepared()

    def prepared(self) -> "HotDeck | SortedDeck":
        """Sort the donors once; the nearest ones differ from row to row."""
        if self.neighbours is not None:
            return self
        order, start, size = _sorted(self._readable(), self.donors.y, self.donors.n_classes)
        return SortedDeck(self.problem, self.donors.x, order, start, size, self.means)

    def thinned(self, most: int, seed: int = 0) -> "HotDeck":
        """A deck of at most so many donors, all of a rare class and as many of each other; it is quicker."""
        y = np.asarray(self.donors.y)
        if len(y) <= most:
            return self
        kept = stratified_rows(y, most, np.random.default_rng(seed))
        thinned: HotDeck = eqx.tree_at(lambda deck: deck.donors, self, self.donors.take(kept))
        return thinned

    def _readable(self) -> Bool[Array, "donors actions"]:
        return self.problem.readable(self.donors.available)

    def _uniform_donors(self, key: PRNGKeyArray, table: Table) -> Int[Array, "instances actions"]:
        """Pick uniformly: rows sorted by class, those that have the action first, form a deck per class."""
        has = self._readable()
        n_classes = self.donors.n_classes
        same = jax.nn.one_hot(self.donors.y, n_classes)
        in_class = (same.T @ has.astype(jnp.float32)).astype(jnp.int32)  # classes x actions
        start = jnp.cumsum(same.sum(axis=0)).astype(jnp.int32) - same.sum(axis=0).astype(jnp.int32)
        by_class = jnp.argsort(2 * self.donors.y[:, None] + ~has, axis=0, stable=True)
        anywhere = jnp.argsort(~has, axis=0, stable=True)
        uniform = jr.uniform(key, (table.x.shape[0], has.shape[1]))
        size = in_class[table.y]
        place = start[table.y][:, None] + _below(uniform, size)
        from_class = jnp.take_along_axis(by_class, place, axis=0)
        from_any = jnp.take_along_axis(anywhere, _below(uniform, has.sum(axis=0)[None]), axis=0)
        return jnp.where(size > 0, from_class, from_any)

    def _near_donors(
        self, key: PRNGKeyArray, table: Table, neighbours: int
    ) -> Int[Array, "instances actions"]:
        """Pick among the nearest donors of the class, by mean squared distance over shared features."""
        has = self._readable()
        shared_x, shared = self.donors.x, self.donors.available.astype(jnp.float32)

        def for_row(row: tuple[Array, Array, Array, PRNGKeyArray]) -> Int[Array, " actions"]:
            x, available, y, key = row
            support = shared * available[None]
            overlap = support.sum(axis=1)
            distance = jnp.sum(support * (x[None] - shared_x) ** 2, axis=1) / jnp.maximum(overlap, 1)
            # Donors that share no feature with the row come last, but before those that are not eligible.
            distance = jnp.where(overlap > 0, jnp.minimum(distance, _FARTHEST), _FARTHEST)
            eligible = has & (self.donors.y == y)[:, None]
            eligible = jnp.where(eligible.any(axis=0)[None], eligible, has)
            ranked = jnp.where(eligible, distance[:, None], jnp.inf)
            _, rows = jax.lax.top_k(-ranked.T, min(neighbours, ranked.shape[0]))
            size = jnp.minimum(eligible.sum(axis=0), neighbours)
            pick = _below(jr.uniform(key, (ranked.shape[1],)), size)
            return jnp.take_along_axis(rows, pick[:, None], axis=1)[:, 0]

        keys = jr.split(key, table.x.shape[0])
        donor: Array = jax.lax.map(for_row, (table.x, table.available, table.y, keys), batch_size=64)
        return donor


class SortedDeck(eqx.Module):
    """Draws as a `HotDeck` does, uniformly, from donors that were sorted when it was made.

    So a draw takes no longer for many donors than for few.
    """

    problem: Problem
    x: Float[Array, "donors features"]
    order: Int[Array, "donors actions"]  # by class; in each, those that have an action first
    start: Int[Array, " classes"]  # where each class begins
    size: Int[Array, "classes actions"]  # how many of it have an action
    means: MeanFill

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw a donor for every row and action."""
        uniform = jr.uniform(key, (table.x.shape[0], self.size.shape[1]))
        size, total = self.size[table.y], self.size.sum(axis=0)
        own = self.start[table.y][:, None] + _below(uniform, size)
        # Counted through all classes, where the row's own has no donor.
        rank, ends = _below(uniform, total[None]), jnp.cumsum(self.size, axis=0)
        other = jnp.minimum(jnp.sum(rank[None] >= ends[:, None], axis=0), len(self.start) - 1)
        within = rank - jnp.take_along_axis(ends - self.size, other, axis=0)
        place = jnp.where(size > 0, own, self.start[other] + within)
        donor = jnp.take_along_axis(self.order, place, axis=0)
        return _copied(self.problem, self.x, donor, total > 0, self.means.draw(key, table))


@partial(jax.jit, static_argnums=2, inline=True)  # one program, where it is called outside of any
def _sorted(
    has: Bool[Array, "donors actions"], y: Int[Array, " donors"], n_classes: int
) -> tuple[Int[Array, "donors actions"], Int[Array, " classes"], Int[Array, "classes actions"]]:
    """Sort the donors of each action by class, those that have it first; see `SortedDeck`."""
    order = jnp.argsort(2 * y[:, None] + ~has, axis=0, stable=True).astype(jnp.int32)
    classes = jnp.arange(n_classes)
    size = jnp.stack([(has & (y == each)[:, None]).sum(axis=0) for each in range(n_classes)])
    return order, jnp.searchsorted(jnp.sort(y), classes), size


@partial(jax.jit, inline=True)
def _copied(
    problem: Problem,
    x: Float[Array, "donors features"],
    donor: Int[Array, "instances actions"],
    exists: Bool[Array, " actions"],
    otherwise: Float[Array, "instances features"],
) -> Float[Array, "instances features"]:
    """Copy the features of an action together; those of several actions, with the last of them."""
    reveals = problem.reveals
    action = reveals.shape[0] - 1 - jnp.argmax(reveals[::-1], axis=0)
    from_donor = jnp.take_along_axis(x, donor[:, action], axis=0)
    return jnp.where((reveals.any(axis=0) & exists[action])[None], from_donor, otherwise)


_FARTHEST = float(np.finfo(np.float32).max)


def fit_hotdeck(key: PRNGKeyArray, problem: Problem, table: Table, neighbours: int | None = None) -> HotDeck:
    """Keep the training rows as donors.

    Parameters
    ----------
    key
        The random key, to choose rows if not all are kept.
    problem
        Its actions say which features are copied together.
    table
        The training data.
    neighbours
        Draw among this many nearest donors, out of at most `MAX_DONORS` rows; by default uniformly among
        all rows.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table
    >>> problem = Problem([[True, False], [False, True]], [1, 1], budget=2, n_classes=2)
    >>> table = Table([[0.5, float("nan")], [1.5, 2.0], [0.0, 1.0]], y=[0, 1, 0])
    >>> deck = fit_hotdeck(jr.key(0), problem, table)
    >>> deck.draw(jr.key(1), table)[0, 1].item()  # the only value of a row of the same class
    1.0
    """
    means = fit_mean(table)
    if neighbours is not None:
        check_count("neighbours", neighbours, least=1)
        table = some_donors(key, table)
    return HotDeck(problem.without_names(), table, means, neighbours)


def some_donors(key: PRNGKeyArray, table: Table) -> Table:
    """At most `MAX_DONORS` rows of a table, chosen at random."""
    n_rows = table.x.shape[0]
    if n_rows <= MAX_DONORS:
        return table
    return table.take(jr.choice(key, n_rows, (MAX_DONORS,), replace=False))


@register(
    "hotdeck",
    summary="Hot deck: copies what a row lacks from a random training row of its class.",
    label="hot deck",
    label_free=True,
    keeps_rows=True,
)
def fit_restorer(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, *, settings: NoSettings
) -> HotDeck:
    """Keep all training rows as donors."""
    del valid, settings
    return fit_hotdeck(key, problem, train)


def _below(uniform: Float[Array, "..."], size: Int[Array, "..."]) -> Int[Array, "..."]:
    """Uniform integers below `size`, from uniform numbers (0 where the size is 0)."""
    return jnp.clip((uniform * size).astype(jnp.int32), 0, jnp.maximum(size - 1, 0))
