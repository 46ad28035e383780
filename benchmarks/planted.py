"""Whether policies find the best route of tables with a planted structure.

Fits `AcquisitionClassifier` with its defaults to every planted table, follows the policy on complete rows,
and prints its AUROC beside that of the best route with the same predictor.

    python benchmarks/planted.py                      # the planner and the fixed panel, five seeds
    python benchmarks/planted.py --tables maintenance --methods planner,gdfs --seeds 1 --effort low
"""

import argparse
import time
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from ascertain import AcquisitionClassifier, enable_cache
from ascertain.estimator._advisor import Advisor
from ascertain.evaluation._rollouts import budget_episodes
from ascertain.problem import Table
from ascertain.testing import PlantedTable, planted_names, planted_table


def main() -> None:
    """Print one line per fit, then the mean over seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join(planted_names()))
    parser.add_argument("--methods", default="planner,static")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--treatment", help="By default direct for the planner, else restored.")
    parser.add_argument(
        "--restorer", default="hotdeck", help="Completes rows; restored ones are learned from."
    )
    parser.add_argument("--completions", type=int, default=1)
    chosen = parser.parse_args()
    enable_cache()
    found = []
    for name in chosen.tables.split(","):
        for seed in range(chosen.seeds):
            table = planted_table(name, seed)
            for method in chosen.methods.split(","):
                found.append({"table": name, "seed": seed, "method": method})
                found[-1] |= trial(
                    table,
                    seed,
                    method=method,
                    treatment=chosen.treatment,
                    restorer=chosen.restorer,
                    completions=chosen.completions,
                    effort=chosen.effort,
                )
                print(
                    " ".join(
                        f"{value:.4f}" if isinstance(value, float) else str(value)
                        for value in found[-1].values()
                    ),
                    flush=True,
                )
    results = pd.DataFrame(found)
    means = results.groupby(["table", "method"], sort=False)[["policy", "route", "same", "seconds"]]
    print(
        means.mean()
        .assign(worst=(results.route - results.policy).groupby([results.table, results.method]).max())
        .round(4)
        .to_string()
    )


def trial(table: PlantedTable, seed: int, **parameters: Any) -> dict[str, float]:
    """Fit and follow one policy."""
    start = time.process_time()
    model = AcquisitionClassifier(
        budget=table.budget,
        costs=dict(table.costs),
        known=list(table.known),
        random_state=seed,
        **parameters,
    ).fit(table.train, table.train_labels)
    seconds = time.process_time() - start
    advisor = model.advisor_
    x, available = advisor.encoding.transform(table.test, unseen="missing")
    rows = Table(x, table.test_labels, available, n_classes=2)
    episodes = budget_episodes(advisor.policy, advisor.problem, rows, table.budget)
    acquired = np.asarray(episodes.acquired(advisor.problem.n_actions)[-1])
    order = [list(table.costs).index(name) for name in advisor.problem.action_names or ()]
    route = table.route[:, order]
    return {
        "policy": auroc(advisor, x, acquired, table.test_labels),
        "route": auroc(advisor, x, route, table.test_labels),
        "same": float((acquired == route).all(axis=1).mean()),
        "seconds": seconds,
    }


def auroc(advisor: Advisor, x: np.ndarray, acquired: np.ndarray, labels: np.ndarray) -> float:
    """The AUROC of predictions from what was acquired."""
    observed = np.asarray(advisor.problem.observed(jnp.asarray(acquired)))
    return float(
        roc_auc_score(labels, advisor.predict(np.where(observed, x, 0).astype(np.float32), observed)[:, 1])
    )


if __name__ == "__main__":
    main()
