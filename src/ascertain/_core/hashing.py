"""Cheap random numbers by hashing counters, where they are many and little is asked of them."""

import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio: spreads consecutive counters
_ROUNDS = 16


def mix(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Scramble 32-bit words: the multiply-xorshift finaliser "lowbias32"."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def words(seed: UInt32[Array, ""], n: int) -> UInt32[Array, " n"]:
    """Give `n` random words: the hashes of so many counters."""
    return mix(jnp.arange(n, dtype=jnp.uint32) * jnp.uint32(_GOLDEN) + seed)


def shuffled(
    seed: UInt32[Array, ""], position: Int[Array, "*batch"], n: Int[Array, ""]
) -> Int[Array, "*batch"]:
    """Say which of `n` things stands at a position of a random order, without laying out the order.

    The order is a swap-or-not shuffle (Hoang, Morris and Rogaway, 2012): in every round a thing changes
    places with the one at a random point's reflection, or does not, by a coin that both share. Any number
    of things will do, known only at run time; no memory and no sorting is needed. After 16 rounds a place
    is uniform up to 2^-16.
    """
    size = n.astype(jnp.uint32)
    place = position.astype(jnp.uint32)
    for number in range(_ROUNDS):
        round_seed = mix(seed + jnp.uint32(_GOLDEN * (number + 1) % 2**32))
        partner = (round_seed % size + size - place) % size
        coin = mix(jnp.maximum(place, partner) ^ mix(round_seed)) & 1
        place = jnp.where(coin == 1, partner, place)
    return place.astype(position.dtype)
