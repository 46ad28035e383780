"""Tables of what rollouts achieve: scores of their predictions, costs, and who acquires what when."""

import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from ascertain.decisions import decide
from ascertain.evaluation._rollouts import Rollouts
from ascertain.metrics import measure
from ascertain.problem import Problem


def score_table(
    rollouts: Rollouts,
    probabilities: Float[Array | np.ndarray, "budgets instances classes"],
    y: Int[Array | np.ndarray, " instances"],
    decision_costs: Float[Array, "classes classes"] | None = None,
) -> pd.DataFrame:
    """Score rollouts and the predictions after them: one row per budget or threshold."""
    labels, spent = np.asarray(y), np.asarray(rollouts.spent, np.float64)
    n_acquired, forced = np.asarray(rollouts.acquired).sum(axis=-1), np.asarray(rollouts.forced_stop)
    return pd.DataFrame(
        {
            **measure(predicted, labels),
            **_cost_scores(predicted, labels, spent[point], decision_costs),
            "mean_cost": spent[point].mean(),
            "mean_acquisitions": n_acquired[point].mean(),
            "forced_stop_rate": forced[point].mean(),
            "n_rows": len(labels),
        }
        for point, predicted in enumerate(np.asarray(probabilities))
    )


def _cost_scores(
    probabilities: Float[np.ndarray, "instances classes"],
    y: Int[np.ndarray, " instances"],
    spent: Float[np.ndarray, " instances"],
    decision_costs: Float[Array, "classes classes"] | None,
) -> dict[str, float]:
    if decision_costs is None:
        return {}
    costs = np.asarray(decision_costs, np.float64)
    mean = costs[y, decide(probabilities.astype(np.float64), costs)].mean()
    return {"decision_cost": mean, "total_cost": mean + spent.mean()}


def frequency_table(
    frequencies: Float[Array | np.ndarray, "steps actions"], problem: Problem
) -> pd.DataFrame:
    """Tabulate acquisition frequencies: `step` (from 1), `action` by name, and `share` of the rows."""
    n_steps, n_actions = frequencies.shape
    names = problem.action_names or tuple(f"action {number}" for number in range(n_actions))
    return pd.DataFrame(
        {
            "step": np.repeat(np.arange(1, n_steps + 1), n_actions),
            "action": np.tile(np.array(names, object), n_steps),
            "share": np.asarray(frequencies, np.float64).ravel(),
        }
    )
