"""Cheap random numbers by hashing counters, for uses that need many of no great quality."""

import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio: spreads consecutive counters
_ROUNDS = 16


def mix(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Scramble 32-bit words: the multiply-xorshift finaliser "lowbias32"."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def random_words(seed: UInt32[Array, ""], n: int) -> UInt32[Array, " n"]:
    """Draw `n` random 32-bit words, the hashes of as many counters."""
    return random_words_at(seed, jnp.arange(n, dtype=jnp.uint32))


def random_words_at(seed: UInt32[Array, ""], place: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Look up words of `random_words` without drawing all of them."""
    return mix(place * jnp.uint32(_GOLDEN) + seed)


def shuffled(
    seed: UInt32[Array, ""], position: Int[Array, "*batch"], n: Int[Array, ""]
) -> Int[Array, "*batch"]:
    """Look up positions of a random permutation of 0, ..., n - 1 without computing all of it.

    This is a swap-or-not shuffle (Hoang, Morris and Rogaway, 2012): in every round each number is paired
    with its reflection about a random point, and a coin that both share decides whether they swap. It
    needs no memory and no sorting, and `n` may be known only at run time. After 16 rounds the result is
    uniform up to 2^-16.
    """
    size = n.astype(jnp.uint32)
    place = position.astype(jnp.uint32)
    for i in range(1, _ROUNDS + 1):
        round_seed = mix(seed + jnp.uint32(_GOLDEN * i % 2**32))
        partner = (round_seed % size + size - place) % size
        coin = mix(jnp.maximum(place, partner) ^ mix(round_seed)) & 1
        place = jnp.where(coin == 1, partner, place)
    return place.astype(position.dtype)
