"""The seeded training sets and golden regrets of the specification of the exact study."""

from collections.abc import Iterator

import numpy as np

from ascertain.exact import Observations

RATE = 0.6
REPLICATES = 150

# (d, budget, n) -> mean regret over 150 replicates with full planning, and some myopic ones.
FULL: dict[tuple[int, int, int], dict[str, float]] = {
    (6, 2, 10): {"aliasing": 0.2808, "filtering": 0.4983, "restoration": 0.2750, "complete": 0.0942},
    (6, 2, 32): {"aliasing": 0.2558, "filtering": 0.4900, "restoration": 0.2375, "complete": 0.0},
    (6, 2, 100): {"aliasing": 0.2467, "filtering": 0.4533, "restoration": 0.0317},
    (6, 2, 316): {"aliasing": 0.2500, "filtering": 0.3667, "restoration": 0.0},
    (6, 2, 1000): {"aliasing": 0.2500, "filtering": 0.2592, "restoration": 0.0},
    (6, 2, 3162): {"aliasing": 0.2500, "filtering": 0.0625, "restoration": 0.0},
    (6, 2, 10000): {"aliasing": 0.2500, "filtering": 0.0, "restoration": 0.0},
    (6, 2, 31623): {"aliasing": 0.2500, "filtering": 0.0, "restoration": 0.0},
    (6, 2, 100000): {"aliasing": 0.2500, "filtering": 0.0, "restoration": 0.0},
    (8, 2, 10): {"aliasing": 0.3000, "filtering": 0.4967, "restoration": 0.2925, "complete": 0.0950},
    (8, 2, 32): {"aliasing": 0.2600, "filtering": 0.4983, "restoration": 0.2600, "complete": 0.0},
    (8, 2, 100): {"aliasing": 0.2492, "filtering": 0.4883, "restoration": 0.0608},
    (8, 2, 316): {"aliasing": 0.2500, "filtering": 0.4717, "restoration": 0.0},
    (8, 2, 1000): {"aliasing": 0.2500, "filtering": 0.4317, "restoration": 0.0},
    (8, 2, 3162): {"aliasing": 0.2500, "filtering": 0.3392, "restoration": 0.0},
    (8, 2, 10000): {"aliasing": 0.2500, "filtering": 0.1717, "restoration": 0.0},
    (8, 2, 31623): {"aliasing": 0.2500, "filtering": 0.0100, "restoration": 0.0},
    (8, 2, 100000): {"aliasing": 0.2500, "filtering": 0.0, "restoration": 0.0},
    (10, 3, 100): {"aliasing": 0.2858, "filtering": 0.5000, "restoration": 0.3421},
    (10, 3, 316): {"aliasing": 0.2625, "filtering": 0.4983, "restoration": 0.2058},
    (10, 3, 1000): {"aliasing": 0.2500, "filtering": 0.4842, "restoration": 0.0},
    (10, 3, 3162): {"aliasing": 0.2500, "filtering": 0.4700, "restoration": 0.0},
    (10, 3, 10000): {"aliasing": 0.2500, "filtering": 0.4133, "restoration": 0.0},
    (10, 3, 31623): {"aliasing": 0.2500, "filtering": 0.3542, "restoration": 0.0},
    (10, 3, 100000): {"aliasing": 0.2500, "filtering": 0.2437, "restoration": 0.0},
}
MYOPIC: dict[tuple[int, int, int], dict[str, float]] = {
    (6, 2, 10): {"restoration": 0.2817, "filtering": 0.4983},
    (6, 2, 100): {"filtering": 0.4533},
    (6, 2, 316): {"filtering": 0.3733},
    (6, 2, 1000): {"filtering": 0.3100},
    (6, 2, 3162): {"filtering": 0.2550},
    (6, 2, 10000): {"filtering": 0.2500},
    (8, 2, 10): {"restoration": 0.2917},
}


def training_sets(d: int, budget: int, n: int, replicates: int = REPLICATES) -> Iterator[Observations]:
    """Draw the training sets in exactly the order of draws that the golden values were made with."""
    for replicate in range(replicates):
        key = (0, d, round(1000 * RATE), n, replicate) + ((budget,) if budget > 2 else ())
        rng = np.random.default_rng(np.random.SeedSequence(key))
        x = rng.integers(0, 2, (n, d), dtype=np.uint8)
        first = [1, *range(4, budget + 2)]
        second = [2, *range(budget + 2, 2 * budget)]
        y = np.where(x[:, 0] == 0, x[:, first].sum(axis=1), x[:, second].sum(axis=1)) % 2
        faithful = rng.random(n) < 0.75
        x[:, 3] = np.where(faithful, y, 1 - y)
        yield Observations(x, y, rng.random((n, d)) >= RATE)
