"""The shortcut problem, example 1 of the paper, and a fast sampler of its training data."""

import math
from functools import reduce

import numpy as np
from jaxtyping import UInt64

from ascertain._core.checks import check_count, check_rate
from ascertain.errors import InputError, TooLargeError
from ascertain.exact._bits import BitRows, row_words
from ascertain.exact._finite import MAX_ATOMS, Atoms, FiniteProblem
from ascertain.exact._states import check_size

SHORTCUT = 3  # the shortcut feature
_FLIP = 0.25  # the probability that it is wrong
_DRAWN_AT_ONCE = 2048  # words, so that their random bytes stay in a core's cache


def shortcut(d: int, budget: int) -> FiniteProblem:
    """Build the shortcut problem (example 1).

    The label is the parity of one of two blocks of `budget - 1` bits; the context feature says which.
    Acquiring the context and then that block costs the whole budget and is always right. The shortcut
    costs the whole budget, too, and is right with probability 3/4.

    Parameters
    ----------
    d
        The number of features, at least `2 * budget`; the others are noise.
    budget
        The budget, at least 2.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> print(shortcut(d=4, budget=2).optimal_plan())
    acquire context (cost 1)
    ├─ 0: acquire branch0.1 (cost 1)
    │  ├─ 0: predict 0
    │  └─ 1: predict 1
    └─ 1: acquire branch1.1 (cost 1)
       ├─ 0: predict 0
       └─ 1: predict 1
    """
    check_shortcut(d, budget)
    branches = _branches(d, budget)
    x = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    parity = np.stack([x[:, block].sum(axis=1) % 2 for block in branches])
    y = parity[x[:, 0], np.arange(2**d)]
    probability = np.where(x[:, SHORTCUT] == y, 1 - _FLIP, _FLIP) / 2 ** (d - 1)
    names = [f"noise{feature - 2 * budget + 1}" for feature in range(d)]
    names[0], names[SHORTCUT] = "context", "shortcut"
    for branch, block in enumerate(branches):
        for place, feature in enumerate(block, start=1):
            names[feature] = f"branch{branch}.{place}"
    atoms = Atoms(x, y, probability, (2,) * d, 2)
    return FiniteProblem(atoms, costs=_costs(d, budget), budget=budget, feature_names=names)


def check_shortcut(d: int, budget: int) -> None:
    """Raise unless the shortcut problem exists and is small enough to be solved."""
    _branches(d, budget)
    if d > MAX_ATOMS.bit_length() - 1:
        raise TooLargeError(
            f"the shortcut problem with d = {d} has 2^{d} atoms; the exact solver takes at most {MAX_ATOMS:,}"
        )
    check_size((2,) * d, tuple(_costs(d, budget)), budget)


def sample_bits(
    rng: np.random.Generator, d: int, budget: int, n: int, rate: float
) -> tuple[BitRows, BitRows]:
    """Draw training data of the shortcut problem, 64 instances at a time.

    Given the label, all features are fair coins, except that the last bit of the relevant block is set so
    that the block has the label's parity, and that the shortcut is a noisy copy of the label. So instances
    are drawn label by label, as counting needs them.

    Returns
    -------
    complete, masked
        The same instances with all features, and with each feature missing with probability `rate`.
    """
    branches = _branches(d, budget)
    check_count("n", n, least=1)
    check_rate(rate)
    ones = int(rng.binomial(n, 0.5))
    rows, labels = row_words(n - ones, ones)
    y = np.zeros(len(rows), np.uint64)
    y[labels[1]] = ~np.uint64(0)
    bits = _random_words(rng, (d, len(rows)))
    for context, block in zip((~bits[0], bits[0]), branches, strict=True):
        wrong_parity = reduce(np.bitwise_xor, bits[block]) ^ y
        bits[block[-1]] ^= context & wrong_parity
    bits[SHORTCUT] = y ^ bernoulli_words(rng, _FLIP, (len(rows),))
    cells = np.stack([~bits, bits], axis=1).reshape(2 * d, -1) & rows
    complete = BitRows((2,) * d, cells, rows, labels)
    return complete, complete.masked(bernoulli_words(rng, 1 - rate, (d, len(rows))))


def bernoulli_words(
    rng: np.random.Generator, probability: float, shape: tuple[int, ...]
) -> UInt64[np.ndarray, "..."]:
    """Draw words whose bits are independent and 1 with the given probability.

    One random byte decides a bit unless it equals the first byte of the probability (1 in 256); then a
    second uniform number does, so that the probability is exact.
    """
    words = np.empty(math.prod(shape), np.uint64)
    threshold = 256 * probability
    for start in range(0, len(words), _DRAWN_AT_ONCE):
        block = words[start : start + _DRAWN_AT_ONCE]
        octets = _random_words(rng, (8 * len(block),)).view(np.uint8)
        success = octets < int(threshold)
        undecided = np.flatnonzero(octets == int(threshold))
        success[undecided] = rng.random(len(undecided)) < threshold - int(threshold)
        block[:] = np.packbits(success).view(np.uint64)
    return words.reshape(shape)


def _branches(d: int, budget: int) -> tuple[list[int], list[int]]:
    """List the features of each branch; the first of each come before the shortcut, the others after it."""
    check_count("budget", budget, least=2)
    if check_count("d", d, least=4) < 2 * budget:
        raise InputError(f"d must be at least twice the budget, got d = {d} with a budget of {budget}")
    return [1, *range(4, budget + 2)], [2, *range(budget + 2, 2 * budget)]


def _costs(d: int, budget: int) -> list[float]:
    return [float(budget) if feature == SHORTCUT else 1.0 for feature in range(d)]


def _random_words(rng: np.random.Generator, shape: tuple[int, ...]) -> UInt64[np.ndarray, "..."]:
    return rng.integers(0, 2**64, shape, dtype=np.uint64)
