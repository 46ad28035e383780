"""The true distribution of a finite problem, as a restorer and a predictor for its tables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.arrays import on_device
from ascertain.exact._finite import FiniteProblem
from ascertain.problem import Table

_MISFIT = 1e4  # subtracted from the log-probability of an atom for every cell that differs
_ROWS_AT_ONCE = 256  # bounds memory, which is rows times atoms


class TrueDistribution(eqx.Module):
    """The distribution of a finite problem over rows of its tables: the ideal restorer and predictor.

    Numbers that are not a value, as other restorers may draw them, count as the nearest one.

    Parameters
    ----------
    problem
        The finite problem.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from ascertain.exact import TrueDistribution
    >>> from ascertain.exact import shortcut
    >>> truth = TrueDistribution(shortcut(d=4, budget=2))
    >>> shortcut_only = jnp.array([[False, False, False, True]])
    >>> np.asarray(truth(jnp.ones((1, 4)), shortcut_only)).round(3)
    array([[0.25, 0.75]], dtype=float32)
    """

    x: Float[Array, "atoms features"]
    y: Int[Array, " atoms"]
    log_probability: Float[Array, " atoms"]
    n_labels: int = eqx.field(static=True)

    def __init__(self, problem: FiniteProblem):
        possible = problem.atoms.probability > 0
        self.x = on_device(problem.atoms.x[possible], np.float32)
        self.y = on_device(problem.atoms.y[possible], np.int32)
        self.log_probability = on_device(np.log(problem.atoms.probability[possible]), np.float32)
        self.n_labels = problem.n_labels

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        """Draw each row given its available cells and its label (as a `Restorer` does).

        If no possible instance has them, the draw is from those that differ in the fewest.
        """

        def one(row: tuple[Array, Array, Array, PRNGKeyArray]) -> Float[Array, " features"]:
            x, available, y, key = row
            fits = self._given(x, available) - _MISFIT * (self.y != y)
            return self.x[jr.categorical(key, fits - fits.max())]

        rows = (table.x, table.available, table.y, jr.split(key, len(table.y)))
        drawn: Array = jax.lax.map(one, rows, batch_size=_ROWS_AT_ONCE)
        return drawn

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        """Compute the probabilities of the labels given the observed features (as a `Predictor` does)."""

        def one(row: tuple[Array, Array]) -> Float[Array, " classes"]:
            probability = jax.nn.softmax(self._given(*row))
            return jnp.zeros(self.n_labels).at[self.y].add(probability)

        predicted: Array = jax.lax.map(one, (x, observed), batch_size=_ROWS_AT_ONCE)
        return predicted

    def _given(
        self, x: Float[Array, " features"], observed: Bool[Array, " features"]
    ) -> Float[Array, " atoms"]:
        """Compute the atoms' log-probabilities, lowered for every observed value that differs."""
        value = jnp.clip(jnp.round(x), 0.0, self.x.max(axis=0))
        differ = observed[None] & (self.x != value[None])
        return self.log_probability - _MISFIT * differ.sum(axis=1)
