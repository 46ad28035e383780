"""Observed values: what a model generated is replaced by the nearest values that a training row has.

So categories, one-hot groups, counts and panels stay what they are. Features that go together are replaced
together, by those of one row.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain.problem import Problem, Table
from ascertain.restoration._hotdeck import some_donors

_FARTHEST = float(np.finfo(np.float32).max)
_ROWS_AT_ONCE = 8


class ObservedValues(eqx.Module):
    """Replaces the missing cells of each action by those of the nearest training row that has all of it.

    A feature of several actions goes with the last of them, one of no action by itself. What no training row
    has stays as it was generated.
    """

    problem: Problem
    donors: Table

    def nearest(
        self, x: Float[Array, "instances features"], table: Table
    ) -> Float[Array, "instances features"]:
        """Replace generated values by observed ones; cells that are available in `table` keep theirs.

        Rows are near if they differ little, in squares, from what was generated and from what the row has of
        the action.
        """
        # Each group of features is stored at the place of its first one.
        group = self._groups()
        has = self._owned(group)
        donors = self.donors.x.T

        def for_row(row: Float[Array, " features"]) -> Float[Array, " features"]:
            squares = (row[:, None] - donors) ** 2
            distance = jnp.minimum(jax.ops.segment_sum(squares, group, len(group)), _FARTHEST)
            chosen = _first_least(jnp.where(has, distance, jnp.inf))
            return jnp.take_along_axis(donors, chosen[group][:, None], axis=1)[:, 0]

        wanted = jnp.where(table.available, table.x, x)
        replaced = jax.lax.map(for_row, wanted, batch_size=_ROWS_AT_ONCE)
        missing = ~table.available & has.any(axis=1)[group][None]
        return jnp.where(missing, replaced, wanted)

    def _groups(self) -> Int[Array, " features"]:
        """The first feature of the group that each one belongs to."""
        reveals, known = self.problem.reveals, self.problem.known
        n_actions, n_features = reveals.shape
        last = n_actions - 1 - jnp.argmax(reveals[::-1], axis=0)
        owner = jnp.where(known, n_actions + jnp.arange(n_features), last)
        return jnp.argmax(owner[:, None] == owner[None], axis=1)

    def _owned(self, group: Int[Array, " features"]) -> Bool[Array, "features donors"]:
        """Which donors have all features of each group."""
        lacking = jax.ops.segment_sum((~self.donors.available.T).astype(jnp.int32), group, len(group))
        return lacking == 0


def keep_observed_values(key: PRNGKeyArray, problem: Problem, train: Table) -> ObservedValues:
    """Keep training rows, at most `MAX_DONORS` of them, to take values from."""
    return ObservedValues(problem.without_names(), some_donors(key, train))


def _first_least(distance: Float[Array, "features donors"]) -> Int[Array, " features"]:
    """Do as `argmin` does: two plain minima are several times as fast on a CPU, where they are vectorised."""
    n_donors = distance.shape[1]
    is_least = distance == distance.min(axis=1, keepdims=True)
    return jnp.min(jnp.where(is_least, jnp.arange(n_donors)[None], n_donors - 1), axis=1)
