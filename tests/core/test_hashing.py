"""Hashed random numbers: exact against Python's integers, and statistically against fair dice."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain._core.hashing import mix, random_words, random_words_at, shuffled

ALPHA = 1e-5  # of each statistical test; the seeds are fixed

# One compiled program for all sizes up to this one: positions beyond the size are cut off afterwards.
MOST = 300
MASK = 2**32 - 1
N_SEEDS = 40_000

order_of = jax.jit(shuffled)
orders_of = jax.jit(jax.vmap(shuffled, in_axes=(0, None, None)))


def order(seed: int, n: int) -> np.ndarray:
    """Lay out the order of `n` things."""
    positions = jnp.arange(MOST) % n
    return np.asarray(order_of(jnp.uint32(seed), positions, jnp.asarray(n)))[:n]


def orders(seeds: np.ndarray, n: int, positions: list[int]) -> np.ndarray:
    """Look up some positions in the order of each seed."""
    return np.asarray(orders_of(jnp.asarray(seeds, jnp.uint32), jnp.asarray(positions), jnp.asarray(n)))


def some_seeds(kind: str) -> np.ndarray:
    """Make many seeds, counted up or drawn at random."""
    if kind == "counted":
        return np.arange(N_SEEDS, dtype=np.uint32)
    return np.random.default_rng(0).integers(0, 2**32, N_SEEDS, dtype=np.uint32)


def slow_mix(word: int) -> int:
    """Write lowbias32 in Python's integers."""
    word ^= word >> 16
    word = word * 0x7FEB352D & MASK
    word ^= word >> 15
    word = word * 0x846CA68B & MASK
    return word ^ word >> 16


def unmix(word: int) -> int:
    """Undo lowbias32, by the inverse that its author published."""
    word ^= word >> 16
    word = word * 0x43021123 & MASK
    word ^= word >> 15 ^ word >> 30
    word = word * 0x1D69E2A5 & MASK
    return word ^ word >> 16


# Words.


@given(st.integers(0, MASK))
@settings(max_examples=200, deadline=None)
def test_mixing_is_lowbias32_and_can_be_undone(word: int) -> None:
    mixed = int(mix(jnp.uint32(word)))
    assert mixed == slow_mix(word)
    assert unmix(mixed) == word


@pytest.mark.parametrize("seed", [0, 1, 12345, MASK])
def test_words_hash_counters_a_golden_step_apart(seed: int) -> None:
    found = np.asarray(random_words(jnp.uint32(seed), 5))
    places = jnp.asarray([4, 1], jnp.uint32)
    np.testing.assert_array_equal(random_words_at(jnp.uint32(seed), places), found[[4, 1]])
    assert found.dtype == np.uint32
    step = round(2**32 * (np.sqrt(5) - 1) / 2)
    assert found.tolist() == [slow_mix((i * step + seed) & MASK) for i in range(5)]


def test_no_words_can_be_had() -> None:
    assert random_words(jnp.uint32(3), 0).shape == (0,)


@pytest.mark.parametrize("seed", [0, 1, 2**31])
def test_words_are_uniform_and_serially_independent(seed: int) -> None:
    n = 2**16
    drawn = np.asarray(random_words(jnp.uint32(seed), n))
    assert len(np.unique(drawn)) == n  # the hash is one-to-one and the counters differ
    bits = (drawn[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    # 32 sums of n coins, each within the two-sided quantile at ALPHA / 32.
    bound = scipy.stats.norm.isf(ALPHA / 64) * np.sqrt(n) / 2
    assert np.abs(bits.sum(axis=0) - n / 2).max() < bound
    # The top four bits of neighbours: 16 x 16 cells, 128 of the n / 2 disjoint pairs to each.
    tops = (drawn >> 28).reshape(-1, 2)
    counts = np.bincount(tops[:, 0] * 16 + tops[:, 1], minlength=256)
    assert scipy.stats.chisquare(counts).pvalue > ALPHA


def test_words_of_different_seeds_differ() -> None:
    first, second = (np.asarray(random_words(jnp.uint32(seed), 4096)) for seed in (7, 8))
    agreeing = np.unpackbits((~(first ^ second)).view(np.uint8)).sum()
    n = 4096 * 32
    assert abs(agreeing - n / 2) < scipy.stats.norm.isf(ALPHA / 2) * np.sqrt(n) / 2


# Orders.


@given(st.integers(0, MASK), st.integers(1, MOST))
@settings(max_examples=200, deadline=None)
def test_an_order_has_everything_once(seed: int, n: int) -> None:
    assert sorted(order(seed, n)) == list(range(n))


@pytest.mark.parametrize("n", [2**16, 99_991, 2**20 + 1])
def test_a_large_order_has_everything_once(n: int) -> None:
    found = np.asarray(shuffled(jnp.uint32(5), jnp.arange(n), jnp.asarray(n)))
    np.testing.assert_array_equal(np.bincount(found, minlength=n), np.ones(n))


def test_an_order_does_not_depend_on_which_places_are_asked_for() -> None:
    whole = order(9, 50)
    asked = jnp.asarray([[7, 3], [3, 49]])
    np.testing.assert_array_equal(
        shuffled(jnp.uint32(9), asked, jnp.asarray(50)), [[whole[7], whole[3]], [whole[3], whole[49]]]
    )


def test_different_seeds_give_different_orders() -> None:
    found = orders(some_seeds("counted")[:1000], 30, list(range(30)))
    assert len({tuple(row) for row in found}) == 1000  # of 30! = 3e32


@pytest.mark.parametrize("kind", ["counted", "random"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_orders_of_few_things_are_all_as_likely(n: int, kind: str) -> None:
    found = orders(some_seeds(kind), n, list(range(n)))
    numbers = {order: i for i, order in enumerate(itertools.permutations(range(n)))}
    counts = np.bincount([numbers[tuple(row)] for row in found.tolist()], minlength=len(numbers))
    # 40,000 seeds, at least 1,667 to a cell. Worked out as a Markov chain, 16 rounds leave the probabilities
    # for n = 4 within 0.12% of each other, a twentieth of a cell's standard deviation.
    assert scipy.stats.chisquare(counts).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["counted", "random"])
@pytest.mark.parametrize("n", [5, 64, 97])
def test_every_place_is_uniform(n: int, kind: str) -> None:
    positions = [0, 1, n // 2, n - 1]
    found = orders(some_seeds(kind), n, positions)
    for column in found.T:  # 40,000 seeds, at least 412 to a cell
        assert scipy.stats.chisquare(np.bincount(column, minlength=n)).pvalue > ALPHA


@pytest.mark.parametrize("n", [11, 12])
def test_pairs_of_places_are_uniform(n: int) -> None:
    """Neighbours, mirror images and places half the order apart: what a reflection could tie together."""
    places = [0, 1, n // 2, n - 1]
    found = orders(some_seeds("counted"), n, places)
    for i, j in itertools.combinations(range(len(places)), 2):
        counts = np.bincount(found[:, i] * n + found[:, j], minlength=n * n).reshape(n, n)
        assert np.all(np.diag(counts) == 0)
        off_diagonal = counts[~np.eye(n, dtype=bool)]  # at least 303 to a cell
        assert scipy.stats.chisquare(off_diagonal).pvalue > ALPHA, (places[i], places[j])


def test_neighbours_end_up_any_distance_apart() -> None:
    """Rounds in which both are reflected keep their distance up to its sign: the slowest thing to mix."""
    n = 101
    found = orders(some_seeds("counted"), n, [40, 41])
    distance = (found[:, 1] - found[:, 0]) % n
    counts = np.bincount(distance, minlength=n)
    assert counts[0] == 0
    assert scipy.stats.chisquare(counts[1:]).pvalue > ALPHA  # 400 to a cell


def test_orders_of_consecutive_seeds_are_independent() -> None:
    """A training set gets a new order for every pass, from consecutive numbers."""
    n = 16
    found = orders(np.arange(2 * N_SEEDS, dtype=np.uint32), n, [3])[:, 0].reshape(-1, 2)
    table = np.bincount(found[:, 0] * n + found[:, 1], minlength=n * n)  # 156 to a cell
    assert scipy.stats.chisquare(table).pvalue > ALPHA
