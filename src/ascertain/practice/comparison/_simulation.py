"""What a policy acquires in rows of which everything can be bought, step by step."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Int

from ascertain.estimator._advisor import Advisor
from ascertain.evaluation._rollouts import budget_episodes, sample_rows
from ascertain.problem import Table
from ascertain.restoration import label_free, restore

MOST_ROWS = 2048


@dataclass(frozen=True, eq=False)
class SimulatedEpisodes:
    """Rows whose holes were filled, in the units of their columns, and what the policy acquires in each."""

    rows: pd.DataFrame
    choices: Int[np.ndarray, "rows steps"]  # 1 + the action; 0 once it has stopped

    def frequencies(self, action_names: tuple[str, ...]) -> pd.DataFrame:
        """The share of rows with each action at each step: `step` (from 1), `action`, `share`."""
        n_steps = max(1, int((self.choices > 0).sum(axis=1).max()))
        return pd.DataFrame(
            {"step": step + 1, "action": name, "share": float((self.choices[:, step] == place + 1).mean())}
            for step in range(n_steps)
            for place, name in enumerate(action_names)
        )


def simulate_policy(advisor: Advisor, table: Table, *, seed: int = 0) -> SimulatedEpisodes:
    """Fill the holes of at most 2,048 rows without using their classes, and let the policy acquire."""
    some = sample_rows(table, MOST_ROWS, seed)
    unlabelled = eqx.tree_at(lambda each: each.y, some, jnp.zeros_like(some.y))
    filled = _restore(jr.key(seed), label_free(advisor.restorer), unlabelled)
    # There and back, so that draws of a category are one category and not a bit of each.
    rows = advisor.encoding.inverse(np.asarray(filled.x), np.ones(filled.x.shape, bool))
    x, available = advisor.encoding.transform(rows, unseen="missing")
    complete = Table(x, np.zeros(len(x), int), available, n_classes=table.n_classes)
    found = budget_episodes(
        advisor.policy, advisor.problem, complete, float(advisor.problem.budget), protocol=advisor.protocol
    )
    return SimulatedEpisodes(rows, np.asarray(found.choices))


_restore = eqx.filter_jit(restore)
