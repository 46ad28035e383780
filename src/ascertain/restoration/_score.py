"""How good a restorer's draws are, found without complete rows.

Whole actions that validation rows have are hidden, the restorer draws them several times, and the draws are
compared with what was hidden by the energy score, a strictly proper score of a distribution (Gneiting &
Raftery 2007). For one cell it is the CRPS. The root mean squared error rewards means; this score is best in
expectation for the true conditional distribution. Holding out observed cells to rank imputations follows the
Imputation Scores of Näf, Spohn, Michel and Meinshausen (2022, arXiv 2106.03742) and the energy-I-Score of
Näf, Grzesiak and Scornet (2025, arXiv 2507.11297), who discuss why that needs care unless values are missing
completely at random.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from ascertain._core.checks import check_count
from ascertain._core.compilation import compiled
from ascertain.errors import InputError
from ascertain.problem import Problem, Table
from ascertain.restoration._restorer import Restorer

MAX_ROWS = 2000  # that are scored, by default
N_DRAWS = 20
_LEAST_RATE = 0.02  # actions that are rarer count as this, so that no row has too much weight


class ScoreEstimate(NamedTuple):
    """A weighted mean over rows, and its standard error.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> ScoreEstimate(jnp.array(0.64), jnp.array(0.02)).mean.item() > 0.6
    True
    """

    mean: Float[Array, ""]
    standard_error: Float[Array, ""]


class RestorationScore(NamedTuple):
    """The energy scores of a restorer, row by row; smaller is better.

    A score is in standard deviations of the training cells, per cell.

    Examples
    --------
    `score_restorer` returns it, and has an example; `examples/score_restorers.py` compares restorers by it.
    """

    single: Float[Array, " rows"]  # one action was hidden
    block: Float[Array, " rows"]  # half of the row's actions were hidden
    weight: Float[Array, " rows"]  # 0 where a row has no action to hide
    rows: Int[Array, " rows"]  # which of the validation rows these are
    hidden: Bool[Array, "2 rows actions"]  # singly and in the block

    @property
    def by_row(self) -> Float[Array, " rows"]:
        """The mean of both parts."""
        return (self.single + self.block) / 2

    @property
    def mean(self) -> Float[Array, ""]:
        """The weighted mean over rows; NaN if no row has an action."""
        return _estimate(self.by_row, self.weight).mean

    @property
    def standard_error(self) -> Float[Array, ""]:
        """The standard error of the mean."""
        return _estimate(self.by_row, self.weight).standard_error

    @property
    def singly(self) -> ScoreEstimate:
        """The score of actions that were hidden one at a time."""
        return _estimate(self.single, self.weight)

    @property
    def in_blocks(self) -> ScoreEstimate:
        """The score of blocks of actions, which also shows whether they fit together."""
        return _estimate(self.block, self.weight)

    @property
    def n_rows(self) -> Int[Array, ""]:
        """The number of rows that have something to hide."""
        return jnp.sum(self.weight > 0)

    def minus(self, other: "RestorationScore") -> ScoreEstimate:
        """The difference to another restorer's score, paired by rows; below 0: this one is better.

        Both must have been scored with the same key on the same rows; else an `InputError` is raised.
        """
        own, others = ((each.rows, each.hidden, each.weight) for each in (self, other))
        if not all(np.array_equal(a, b) for a, b in zip(own, others, strict=True)):
            raise InputError(
                "the two scores are about different hidden cells; score both restorers with the same key, "
                "rows, weights and max_rows"
            )
        return _estimate(self.by_row - other.by_row, self.weight)


def score_restorer(
    key: PRNGKeyArray,
    problem: Problem,
    restorer: Restorer,
    train: Table,
    valid: Table,
    *,
    weights: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
    max_rows: int = MAX_ROWS,
) -> RestorationScore:
    """Hide actions that validation rows have, draw them, and score the draws by what was hidden.

    In every row one action is hidden, and then, anew, a random half of the row's actions. For each the energy
    score is estimated without bias from draws X and the hidden cells x as the mean of |X - x| less half the
    mean of |X - X'| over pairs of different draws, where |.| is the root mean square over the hidden cells,
    each in standard deviations of the available training cells. (Cells of one-hot groups count as cells.
    Columns without variance in training count as 0.) Keys decide what is hidden, so restorers that are scored
    with one key are compared on the same cells; see `RestorationScore.minus`.

    It cannot see errors in cells that hide themselves: a value that is missing because of what it is (MNAR)
    cannot be held out. Weights make up only for what is associated with observed values.

    Parameters
    ----------
    key
        The random key: of the rows, of what is hidden, and of the draws.
    problem
        Its actions say which features are hidden together. Features of no action are never hidden.
    restorer
        Fitted to the training rows.
    train
        The training rows, for the standard deviations.
    valid
        Rows that the restorer was not fitted to, with their holes, each once. At most `max_rows` are scored.
    weights
        For each validation row and action, 1 / P(the row has it), given the rest of the row
        (`evaluation.availability_weights` estimates it). By default 1 / the share of rows that have it, which
        is enough if values are missing completely at random. A row's action is hidden with a probability in
        proportion to its weight, and the row counts as much as the weights of its actions add up to. So on
        average every row and every action counts as if nothing were missing. A block has no weight of its
        own: the product of its actions' weights would leave the result to a few rows.
    n_draws
        The number of draws per row and hidden set.
    max_rows
        The most rows to score, drawn at random, which bounds time and memory.

    Examples
    --------
    >>> import jax.numpy as jnp, jax.random as jr, numpy as np
    >>> from ascertain import Problem, Table
    >>> from ascertain.restoration import fit_hotdeck, fit_mean, score_restorer
    >>> problem = Problem(np.eye(3), np.ones(3), budget=1, n_classes=2)
    >>> rng = np.random.default_rng(0)
    >>> rows = Table(rng.normal(size=(400, 3)), np.arange(400) % 2, rng.random((400, 3)) < 0.7)
    >>> train, valid = rows.take(jnp.arange(200)), rows.take(jnp.arange(200, 400))
    >>> deck = score_restorer(jr.key(0), problem, fit_hotdeck(jr.key(1), problem, train), train, valid)
    >>> mean = score_restorer(jr.key(0), problem, fit_mean(train), train, valid)
    >>> difference = deck.minus(mean)
    >>> bool(difference.mean < -2 * difference.standard_error)
    True
    """
    n_draws = check_count("n_draws", n_draws, least=2)
    max_rows = check_count("max_rows", max_rows, least=1)
    problem.check(train)
    problem.check(valid)
    given = None if weights is None else _check_weights(weights, (valid.x.shape[0], problem.n_actions))
    # What runs on the host cannot be traced.
    score = compiled(score_rows) if isinstance(restorer, eqx.Module) else score_rows
    found: RestorationScore = score(
        key, problem.without_names(), restorer, train, valid, given, n_draws, max_rows
    )
    if not bool(jnp.any(found.weight > 0)):
        raise InputError("no validation row has an action that could be hidden")
    return found


def score_rows(
    key: PRNGKeyArray,
    problem: Problem,
    restorer: Restorer,
    train: Table,
    valid: Table,
    weights: Float[Array, "instances actions"] | None = None,
    n_draws: int = N_DRAWS,
    max_rows: int = MAX_ROWS,
) -> RestorationScore:
    """`score_restorer` without checks; can be jitted and vmapped unless the restorer runs on the host."""
    choosing, hiding, drawing = jr.split(key, 3)
    if weights is None:
        rates = jnp.mean(problem.readable(valid.available), axis=0)
        weights = jnp.broadcast_to(1 / jnp.maximum(rates, _LEAST_RATE)[None], (valid.x.shape[0], len(rates)))
    rows = jnp.arange(valid.x.shape[0])
    if len(rows) > max_rows:
        rows = jnp.sort(jr.choice(choosing, rows, (max_rows,), replace=False))
    table = valid.take(rows)
    has = problem.readable(table.available)
    weights = jnp.where(has, weights[rows], 0.0)
    count = has.sum(axis=1)
    one = jnp.minimum(count, 1)
    sizes = jnp.stack([one, jnp.maximum(count // 2, one)])
    hidden = jax.vmap(_choose, (0, None, 0))(jr.split(hiding), weights, sizes)
    cells = jnp.concatenate(hidden).astype(jnp.float32) @ problem.reveals.astype(jnp.float32) > 0
    # Every row twice, once for each part, so that the restorer is compiled and called once for both.
    twice: Table = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), table)
    seen = twice.with_cells(twice.x, twice.available & ~cells)
    drawn = _draw_independently(drawing, restorer, seen, n_draws)
    scale = _inverse_deviations(train)[None]
    single, block = jnp.split(energy_scores(drawn * scale[None], twice.x * scale, cells), 2)
    return RestorationScore(single, block, weights.sum(axis=1) / has.shape[1], rows, hidden)


def _draw_independently(
    key: PRNGKeyArray, restorer: Restorer, table: Table, n: int
) -> Float[Array, "draws instances features"]:
    """Draw with a key for each; `draws` need not be independent, and without that the score has a bias."""
    keys = jr.split(key, n)
    if isinstance(restorer, eqx.Module):
        drawn: Array = jax.lax.map(lambda each: restorer.draw(each, table), keys)
        return drawn
    return jnp.stack([jnp.asarray(restorer.draw(each, table)) for each in keys])


def energy_scores(
    drawn: Float[Array, "draws rows features"],
    x: Float[Array, "rows features"],
    cells: Bool[Array, "rows features"],
) -> Float[Array, " rows"]:
    """The energy score of each row's draws in its marked cells, without bias; 0 where none is marked."""
    n, count = drawn.shape[0], jnp.maximum(cells.sum(axis=1), 1)
    away = jnp.where(cells[None], drawn - x[None], 0.0)

    def length(difference: Float[Array, "draws rows features"]) -> Float[Array, "draws rows"]:
        return jnp.sqrt(jnp.sum(difference**2, axis=2) / count[None])

    # One draw at a time against all: the differences of all pairs at once would need much memory.
    between = jax.lax.map(lambda one: length(away - one[None]).sum(axis=0), away).sum(axis=0) / (n * (n - 1))
    return length(away).mean(axis=0) - between / 2


def _check_weights(weights: ArrayLike, shape: tuple[int, int]) -> Float[Array, "instances actions"]:
    given = np.asarray(weights, np.float32)
    if given.shape != shape or not np.all(np.isfinite(given) & (given > 0)):
        raise InputError(f"weights must be {shape[0]} x {shape[1]} finite numbers above 0")
    return jnp.asarray(given)


def _choose(
    key: PRNGKeyArray, weights: Float[Array, "rows actions"], size: Int[Array, " rows"]
) -> Bool[Array, "rows actions"]:
    """Choose `size` actions of each row without replacement, the next always in proportion to the weights.

    By Gumbel's trick: the largest values of log(weight) plus Gumbel noise.
    """
    noisy = jnp.log(weights) + jr.gumbel(key, weights.shape)
    place = jnp.argsort(jnp.argsort(-noisy, axis=1), axis=1)
    return place < size[:, None]


def _inverse_deviations(table: Table) -> Float[Array, " features"]:
    """1 / the standard deviations of the available cells; 0 where they do not vary."""
    has, count = table.available, jnp.maximum(table.available.sum(axis=0), 1)
    mean = jnp.where(has, table.x, 0.0).sum(axis=0) / count
    variance = jnp.where(has, (table.x - mean[None]) ** 2, 0.0).sum(axis=0) / count
    # Not by the variance: rounding leaves a little of it in a column of one value.
    lowest = jnp.where(has, table.x, jnp.inf).min(axis=0)
    varies = lowest < jnp.where(has, table.x, -jnp.inf).max(axis=0)
    return jnp.where(varies, 1 / jnp.sqrt(jnp.where(varies, variance, 1.0)), 0.0)


def _estimate(values: Float[Array, " rows"], weight: Float[Array, " rows"]) -> ScoreEstimate:
    """The weighted mean, and its standard error as that of a ratio of two sums over rows."""
    total, n = weight.sum(), jnp.sum(weight > 0)
    mean = jnp.sum(weight * values) / total
    squares = jnp.sum((weight * (values - mean)) ** 2)
    return ScoreEstimate(mean, jnp.sqrt(squares * n / jnp.maximum(n - 1, 1)) / total)
