"""Scores of a fitted policy at every budget, on complete rows or by estimates from rows with holes."""

from typing import Any

import jax.random as jr
import numpy as np
import pandas as pd

from ascertain.datasets._dataset import Dataset
from ascertain.errors import InputError
from ascertain.evaluation._incomplete import evaluate_incomplete
from ascertain.evaluation._scores import score_table
from ascertain.policy import Policy
from ascertain.problem import Table
from ascertain.protocol import Protocol
from ascertain.recipe._stages import Fitted
from ascertain.restoration import fit_hotdeck

_BY = ["budget", "estimator"]
_DRAWING = 2  # folded into a cell's key for the draws of incomplete evaluation


def score_column(dataset: Dataset) -> str:
    """The metric that a dataset is scored by, as tables of scores call it."""
    return "accuracy" if dataset.metric == "accuracy" else "f1"


def complete_scores(dataset: Dataset, scored: Table, fitted: Fitted) -> pd.DataFrame:
    """One row per budget: `budget`, the dataset's `score`, and all other metrics."""
    frame = score_table(fitted.outcomes, fitted.probabilities, scored.y)
    frame.insert(0, "budget", [float(budget) for budget in dataset.budgets])
    frame.insert(1, "score", frame[score_column(dataset)])
    return frame


def incomplete_scores(
    key_data: Any,
    dataset: Dataset,
    policy: Policy,
    predictor: Any,
    train: Table,
    scored: Table,
    protocol: Protocol,
    seed: int,
) -> pd.DataFrame:
    """Estimated scores from rows with holes that were used in neither training nor selection.

    All policies are evaluated with the same completions, drawn by a hot deck of the training rows.

    Returns
    -------
    DataFrame
        One row per budget and `estimator` (`ipw`, `dr`): `score` with its interval from `score_low` to
        `score_high`, all metrics, and `effective_rows`. Where too few rows support a rollout, scores are NaN.
    """
    key = jr.fold_in(jr.wrap_key_data(key_data), _DRAWING)
    budgets = [float(budget) for budget in dataset.budgets]
    try:
        found = evaluate_incomplete(
            policy,
            dataset.problem,
            scored,
            predictor,
            restorer=fit_hotdeck(key, dataset.problem, train),
            protocol=protocol,
            budgets=budgets,
            key=key,
            max_rows=None,
            seed=seed,
        )
    except InputError:  # no budget has enough rows that support a whole rollout: there is no estimate
        rows = [(budget, name) for budget in budgets for name in ("dr", "ipw")]
        return pd.DataFrame(rows, columns=_BY).assign(score=np.nan, score_low=np.nan, score_high=np.nan)
    wide = found.pivot(index=_BY, columns="metric", values="estimate")
    own = found[found["metric"] == score_column(dataset)].set_index(_BY)
    wide.insert(0, "score", own["estimate"])
    wide.insert(1, "score_low", own["low"])
    wide.insert(2, "score_high", own["high"])
    wide["effective_rows"] = own["effective_rows"]
    return wide.rename_axis(columns=None).reset_index()


def shares_of_actions(dataset: Dataset, fitted: Fitted) -> np.ndarray:
    """The share of rows with each action at each step, at the largest budget."""
    return np.asarray(fitted.outcomes.frequencies[int(np.argmax(dataset.budgets))], np.float64)
