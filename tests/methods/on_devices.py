"""Fit one method to the same rows on one device and on eight, and print how the policies compare, as JSON.

Run in a process of its own, with eight virtual devices:

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python on_devices.py NAME ROWS UPDATES [MORE ...]

MORE is any of `many` (draw rows as in tables of more than a million), `direct` (rows have holes, from which
the planner learns directly) and `valid` (validation rows are split, too).
"""

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain import PAPER, Policy, Problem, Table, acquire, methods
from ascertain._core import row_draws
from ascertain._core.training import Schedule
from ascertain.methods import _gdfs as gdfs
from ascertain.methods import _planner as planner
from ascertain.tables import shard

FEATURES, BUDGET, TEST_ROWS = 6, 2, 4000
PROBLEM = Problem(np.eye(FEATURES), np.ones(FEATURES), BUDGET, 2)


def draw(seed: int, n: int, holes: float) -> Table:
    """The first feature tells a part, and which of the next two tells the rest; the others are noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, FEATURES))
    x[:, 0] = np.sign(x[:, 0]) * (0.5 + np.abs(x[:, 0]))
    y = x[:, 0] + 2 * np.where(x[:, 0] > 0, x[:, 1], x[:, 2]) > 0
    return Table(np.where(rng.random(x.shape) < holes, np.nan, x), y.astype(int), n_classes=2)


def settings(name: str, updates: int, rows: int, *, direct: bool) -> Any:
    hidden = (32, 32) if updates > 100 else (16,)
    if name == "gdfs":
        passes = max(1, updates // (rows // 128))
        return gdfs.Settings(
            epochs=passes, pretraining_epochs=passes, hidden=hidden, temperatures=(0.5,), steps=BUDGET
        )
    rounds = Schedule(batches_per_round=20, max_rounds=max(1, updates // 20), patience=20)
    return planner.Settings(
        updates=updates,
        updates_per_round=20,
        exploring=updates // 2,
        hidden=hidden,
        predictor=rounds,
        direct=direct,
    )


def largest_difference(one: Policy, other: Policy) -> float:
    """Of the numbers that were learned."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    numbers = ((np.asarray(a, float), np.asarray(b, float)) for a, b in pairs)
    return max(float(np.max(np.abs(a - b))) for a, b in numbers if np.isfinite(a).all())


def first_scores(policy: Policy, test: Table) -> np.ndarray:
    """What the policy thinks of each action once the first feature is known."""
    acquired = jnp.zeros((TEST_ROWS, FEATURES), bool).at[:, 0].set(True)
    scores = policy(test.x, PROBLEM.observed(acquired), acquired, ~acquired, key=jr.key(0))
    return np.asarray(scores)[:, 2:]


def main(name: str, rows: int, updates: int, *more: str) -> None:
    if "many" in more:  # the algorithms for tables of more than a million rows
        row_draws.MANY = 1
    direct = "direct" in more
    holes = 0.3 if direct else 0.0
    train, valid, test = draw(0, rows, holes), draw(1, 1001, holes), draw(2, TEST_ROWS, 0.0)
    chosen = settings(name, updates, rows, direct=direct)

    def fit(train: Any, valid: Any) -> tuple[Policy, float]:
        start = time.perf_counter()
        policy = methods.fit(name, jr.key(0), PROBLEM, train, valid, settings=chosen)
        return policy, time.perf_counter() - start

    one, seconds_on_one = fit(train, valid)
    several, seconds = fit(shard(train), shard(valid) if "valid" in more else valid)
    routes = [np.asarray(acquire(jr.key(0), p, PROBLEM, test, PAPER, BUDGET).choices) for p in (one, several)]
    scores = [first_scores(policy, test) for policy in (one, several)]
    right = np.stack([np.ones(TEST_ROWS, int), np.where(np.asarray(test.x)[:, 0] > 0, 2, 3)], axis=1)
    print(
        json.dumps(
            {
                "devices": len(jax.devices()),
                "largest_difference": largest_difference(one, several),
                "scores_differ": float(np.abs(scores[0] - scores[1]).max() / scores[0].std()),
                "same_routes": float((routes[0] == routes[1]).all(axis=1).mean()),
                "right_routes": float((routes[1] == right).all(axis=1).mean()),
                "on_one_device": all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(several)),
                "seconds": [seconds_on_one, seconds],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
