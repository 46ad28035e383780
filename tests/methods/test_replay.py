"""The replay buffer against a plain list: what is kept, what is drawn, and in which order."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain.acquisition import Frames
from ascertain.methods._replay import Replay, Sample, pack_bits, unpack_bits

from .by_hand import FAST

ALPHA = 1e-5  # of each statistical test; the keys are fixed
N_BATCHES, N_SLOTS, N_STEPS, N_ACTIONS = 5, 3, 2, 35  # room for 15 slices; two words to a state
WANTED = 4  # so a full buffer is used up in four parts, the last of three

push = jax.jit(Replay.push, compiler_options=FAST)


@partial(jax.jit, static_argnums=3, compiler_options=FAST)
def draw(replay: Replay, seed: jax.Array, number: jax.Array, wanted: int) -> Sample:
    return replay.sample(seed, number, wanted, N_SLOTS, N_ACTIONS)


# Packing.


@pytest.mark.parametrize("n_bits", [1, 31, 32, 33, 64, 70])
def test_flags_survive_packing(n_bits: int) -> None:
    flags = np.random.default_rng(n_bits).random((3, 2, n_bits)) < 0.5
    packed = np.asarray(pack_bits(jnp.asarray(flags)))
    assert packed.shape == (3, 2, -(-n_bits // 32))
    # Read as one long number, the lowest bit is the first flag.
    for row, words in zip(flags.reshape(-1, n_bits), packed.reshape(6, -1), strict=True):
        number = sum(int(word) << 32 * place for place, word in enumerate(words))
        assert number == sum(1 << int(bit) for bit in np.flatnonzero(row))
    np.testing.assert_array_equal(unpack_bits(jnp.asarray(packed), n_bits), flags)


# What is kept. Every number below is different, so that a slice can be recognised by any of its parts.


def batch(number: int) -> tuple[Frames, jax.Array]:
    rng = np.random.default_rng([7, number])
    shape = (N_STEPS, N_SLOTS)
    row = number * 100 + np.arange(N_STEPS * N_SLOTS).reshape(shape)
    frames = Frames(
        row=jnp.asarray(row, jnp.int32),
        acquired=jnp.asarray(rng.random((*shape, N_ACTIONS)) < 0.5),
        choice=jnp.asarray(rng.integers(1, N_ACTIONS + 1, shape), jnp.int32),
        done=jnp.asarray(rng.random(shape) < 0.5),
    )
    return frames, jnp.asarray(row + 0.25, jnp.float32)


Slice = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...], tuple[bool, ...], bytes]


def slices(frames: Frames, reward: jax.Array) -> list[Slice]:
    """Give each slot's steps as plain numbers."""
    row, choice, kept_reward, done = (
        np.asarray(leaf).T.tolist() for leaf in (frames.row, frames.choice, reward, frames.done)
    )
    states = np.asarray(frames.acquired).swapaxes(0, 1)
    return [
        (tuple(row[i]), tuple(choice[i]), tuple(kept_reward[i]), tuple(done[i]), states[i].tobytes())
        for i in range(len(row))
    ]


def pushed(last: int) -> Replay:
    replay = Replay.empty(N_BATCHES, N_SLOTS, N_STEPS, N_ACTIONS)
    for number in range(last + 1):
        replay = push(replay, jnp.asarray(number), *batch(number))
    return replay


def kept(last: int) -> set[Slice]:
    """Give what must be in the buffer after a batch: the slices of the last five."""
    batches = range(max(0, last + 1 - N_BATCHES), last + 1)
    return {each for number in batches for each in slices(*batch(number))}


def drawn(sample: Sample) -> list[Slice]:
    """Give the slices that count, and check that these come first and weigh the same."""
    weight = np.asarray(sample.weight)
    n = int((weight > 0).sum())
    np.testing.assert_allclose(weight, np.repeat([1 / n, 0], [n, len(weight) - n]), rtol=1e-6)
    return slices(sample.frames, sample.reward)[:n]


@pytest.mark.parametrize("last", [0, 2, 4, 5, 6, 13])
def test_the_oldest_slices_make_room_for_new_ones(last: int) -> None:
    """Asking for everything at the start of an order gives each slice once, all parts together."""
    everything = N_BATCHES * N_SLOTS
    found = drawn(draw(pushed(last), jnp.uint32(3), jnp.asarray(last), everything))
    assert len(found) == len(set(found))
    assert set(found) == kept(last)


def test_one_batch_of_room_holds_the_newest() -> None:
    replay = Replay.empty(1, N_SLOTS, N_STEPS, N_ACTIONS)
    for number in range(3):
        replay = push(replay, jnp.asarray(number), *batch(number))
    sample = draw(replay, jnp.uint32(0), jnp.asarray(2), WANTED)
    assert sorted(drawn(sample)) == sorted(slices(*batch(2)))


# What is drawn.


@pytest.fixture(scope="module")
def history() -> list[list[Slice]]:
    """Draw after each of 21 batches, as training does."""
    replay, samples = Replay.empty(N_BATCHES, N_SLOTS, N_STEPS, N_ACTIONS), []
    for number in range(21):
        replay = push(replay, jnp.asarray(number), *batch(number))
        samples.append(drawn(draw(replay, jnp.uint32(11), jnp.asarray(number), WANTED)))
    return samples


def test_a_draw_has_no_slice_twice_and_only_slices_that_are_there(history: list[list[Slice]]) -> None:
    for number, sample in enumerate(history):
        assert len(set(sample)) == len(sample)
        assert set(sample) <= kept(number)


def test_sizes_of_draws(history: list[list[Slice]]) -> None:
    """Three at first, for there are no more; then four; in a full buffer the fourth part is short.

    The buffer is full with the fifth batch, so that the orders end with batches 7, 11, 15, 19.
    """
    expected = [3, 4, 4, 4, 4, 4, 4, 3, 4, 4, 4, 3, 4, 4, 4, 3, 4, 4, 4, 3, 4]
    assert [len(sample) for sample in history] == expected


def places(seed: int, numbers: range) -> list[int]:
    """Give the places in a full buffer that are drawn after some batches, if nothing is written meanwhile."""
    full, found = pushed(N_BATCHES - 1), []
    place = {each: i for i, each in enumerate(each for n in range(N_BATCHES) for each in slices(*batch(n)))}
    for number in numbers:
        sample = draw(full, jnp.uint32(seed), jnp.asarray(number), WANTED)
        found += [place[each] for each in drawn(sample)]
    return found


def test_a_full_buffer_is_used_up_before_the_next_order() -> None:
    orders = [places(5, range(4 + 4 * turn, 8 + 4 * turn)) for turn in range(4)]
    for order in orders:
        assert sorted(order) == list(range(N_BATCHES * N_SLOTS))
    assert len({tuple(order) for order in orders}) == 4, "orders repeat"
    assert places(6, range(4, 8)) != orders[0], "the seed does not matter"


def test_every_slice_is_equally_likely_to_be_drawn() -> None:
    """Full or growing: any of fifteen (six) slices may come first, and any other one next."""
    seeds = jr.bits(jr.key(0), (6000,), jnp.uint32)

    @partial(jax.jit, compiler_options=FAST)
    def first_rows(replay: Replay, number: jax.Array) -> jax.Array:
        def one(seed: jax.Array) -> jax.Array:
            return replay.sample(seed, number, WANTED, N_SLOTS, N_ACTIONS).frames.row[0]

        return jax.vmap(one)(seeds)

    for last, there in ((4, 15), (1, 6)):
        drawn = np.asarray(first_rows(pushed(last), jnp.asarray(last)))
        _, counts = np.unique(drawn[:, 0] * 10_000 + drawn[:, 1], return_counts=True)
        assert len(counts) == there * (there - 1)
        assert scipy.stats.chisquare(counts).pvalue > ALPHA  # at least 28 to a cell
