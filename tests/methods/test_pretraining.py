"""Random subsets of the features: how often, how far together, and of which rate."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Array

from ascertain import AFABENCH, PAPER, Problem, Protocol
from ascertain.methods._pretraining import MOST_MASKED, SCHEDULE, mask_inputs, random_rate, random_subset

from .by_hand import FAST

ALPHA = 1e-5  # of each statistical test; the keys are fixed
N_ROWS = 20_000
# Two columns together, one alone, and one that two actions reveal.
PROBLEM = Problem([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]], [1] * 4, 2, 2)

draw = jax.jit(random_subset, static_argnums=(2, 3), compiler_options=FAST)


def patterns(kept: Array, columns: list[int]) -> np.ndarray:
    """Count how often each combination of some columns occurs."""
    powers = 2 ** np.arange(len(columns))
    return np.bincount(np.asarray(kept)[:, columns] @ powers, minlength=2 ** len(columns))


def test_the_schedule_is_the_references() -> None:
    """As in methods.md 0.5; a bound on the rounds stands in for 1e9 epochs."""
    assert MOST_MASKED == 0.9
    assert (SCHEDULE.batch_size, SCHEDULE.batches_per_round) == (128, 100)
    assert (SCHEDULE.track_from, SCHEDULE.stop_from, SCHEDULE.patience) == (500, 1000, 50)
    assert SCHEDULE.max_rounds >= 10_000


def test_rates_are_uniform_up_to_nine_tenths() -> None:
    keys = jr.split(jr.key(0), N_ROWS)
    rates = np.asarray(jax.jit(jax.vmap(random_rate), compiler_options=FAST)(keys))
    assert scipy.stats.kstest(rates, scipy.stats.uniform(0, 0.9).cdf).pvalue > ALPHA


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_columns_are_hidden_one_by_one_in_the_references_reading(rate: float) -> None:
    kept = draw(jr.key(1), PROBLEM, AFABENCH, N_ROWS, jnp.asarray(rate))
    one_column = np.array([rate, 1 - rate])
    expected = N_ROWS * np.multiply.outer(one_column, one_column).ravel()
    for pair in ([0, 1], [1, 2], [3, 4]):  # also parts of a group, at least 800 to a cell
        assert scipy.stats.chisquare(patterns(kept, pair), expected).pvalue > ALPHA


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_what_an_action_reveals_is_hidden_together_in_the_papers_reading(rate: float) -> None:
    kept = draw(jr.key(2), PROBLEM, PAPER, N_ROWS, jnp.asarray(rate))
    group = patterns(kept, [0, 1])
    assert group[1] == group[2] == 0, "a group was cut in two"
    assert scipy.stats.chisquare(group[[0, 3]], N_ROWS * np.array([rate, 1 - rate])).pvalue > ALPHA
    one_action = np.array([rate, 1 - rate])
    independent = N_ROWS * np.multiply.outer(one_action, one_action).ravel()
    assert scipy.stats.chisquare(patterns(kept, [0, 2]), independent).pvalue > ALPHA
    # Either of two actions shows column 3, the second one column 4: never 4 without 3.
    hidden, shown_by_first, shown_by_second = rate**2, rate * (1 - rate), 1 - rate
    shared = patterns(kept, [3, 4])
    assert shared[2] == 0
    expected = N_ROWS * np.array([hidden, shown_by_first, shown_by_second])
    assert scipy.stats.chisquare(shared[[0, 1, 3]], expected).pvalue > ALPHA


@pytest.mark.parametrize("protocol", [PAPER, AFABENCH])
def test_rows_may_have_rates_of_their_own(protocol: Protocol) -> None:
    rate = jnp.repeat(jnp.asarray([0.0, 0.5, 0.9]), N_ROWS // 4)[:, None]
    n = len(rate) // 3
    kept = np.asarray(draw(jr.key(3), PROBLEM, protocol, 3 * n, rate)[:, 2]).reshape(3, n)
    assert kept[0].all()
    for row, expected in ((1, 0.5), (2, 0.1)):
        assert scipy.stats.binomtest(int(kept[row].sum()), n, expected).pvalue > ALPHA


def test_inputs_are_the_observed_values_beside_the_mask() -> None:
    x = jnp.asarray([[1.5, -2.0], [jnp.nan, 4.0]])
    mask = jnp.asarray([[True, False], [False, True]])
    expected = [[1.5, 0, 1, 0], [0, 4, 0, 1]]  # what is hidden is not looked at, not even NaN
    np.testing.assert_array_equal(mask_inputs(x, mask), expected)
    np.testing.assert_array_equal(mask_inputs(x[None], mask[None]), [expected])
