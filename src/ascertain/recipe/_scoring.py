"""Scores of a fitted policy at every budget, on complete rows or by estimates from rows with holes."""

from typing import Any

import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Float

from ascertain._core.arrays import on_device
from ascertain.datasets._dataset import Dataset
from ascertain.errors import InputError
from ascertain.evaluation._incomplete import evaluate_incomplete
from ascertain.evaluation._scores import score_table
from ascertain.policy import Policy
from ascertain.problem import Table
from ascertain.recipe._jobs import Job
from ascertain.recipe._materials import Load, Materials
from ascertain.recipe._stages import Fitted
from ascertain.restoration import fit_hotdeck

_BY = ["budget", "estimator"]
_DRAWING = 2  # folded into a cell's key for the draws of incomplete evaluation


def score_cell(
    cell: Job, materials: Materials, fitted: Fitted, load: Load
) -> tuple[pd.DataFrame, Float[np.ndarray, "steps actions"] | None]:
    """Score a fitted policy at every budget.

    Also returns the share of rows with each action at each step, at the largest budget; None if rows have
    holes.
    """
    dataset, part = materials.datasets[cell.dataset], materials.part(cell.dataset, cell.split)
    if not materials.has_holes(cell.dataset):
        shares = fitted.outcomes.frequencies[int(np.argmax(dataset.budgets))]
        n_valid = materials.n_valid_scored(cell.dataset, cell.split) if materials.both else None
        return _complete_scores(dataset, part.scored, fitted, n_valid), np.asarray(shares, np.float64)
    predictor = cell.needed("predictor")
    assert predictor is not None
    return _incomplete_scores(cell, materials, fitted.policy, load(predictor)), None


def _score_column(dataset: Dataset) -> str:
    """The metric that a dataset is scored by, as tables of scores call it."""
    return "accuracy" if dataset.metric == "accuracy" else "f1"


def _complete_scores(
    dataset: Dataset, scored: Table, fitted: Fitted, n_valid: int | None = None
) -> pd.DataFrame:
    """One row per budget: `budget`, the dataset's `score`, and all other metrics.

    If the first `n_valid` rows are validation rows, all are theirs, and `test_score` is that of the others.
    """
    frame = _scores_of(scored, fitted, slice(0, n_valid))
    frame.insert(0, "budget", [float(budget) for budget in dataset.budgets])
    frame.insert(1, "score", frame[_score_column(dataset)])
    if n_valid is not None:
        test = _scores_of(scored, fitted, slice(n_valid, None))
        frame.insert(2, "test_score", test[_score_column(dataset)])
    return frame


def _scores_of(scored: Table, fitted: Fitted, rows: slice) -> pd.DataFrame:
    """The scores of some of the rows."""
    outcomes = fitted.outcomes
    some = outcomes._replace(
        acquired=outcomes.acquired[:, rows],
        spent=outcomes.spent[:, rows],
        forced_stop=outcomes.forced_stop[:, rows],
    )
    return score_table(some, fitted.probabilities[:, rows], scored.y[rows])


def _incomplete_scores(cell: Job, materials: Materials, policy: Policy, predictor: Any) -> pd.DataFrame:
    """Estimated scores from rows with holes that were used in neither training nor selection.

    All policies are evaluated with the same completions, drawn by a hot deck of the training rows.

    Returns
    -------
    DataFrame
        One row per budget and `estimator` (`ipw`, `dr`): `score` with its interval from `score_low` to
        `score_high`, all metrics, `effective_rows` and `n_rows`. Scores are NaN where too few rows support a
        whole rollout.
    """
    dataset, part = materials.datasets[cell.dataset], materials.part(cell.dataset, cell.split)
    key = jr.fold_in(jr.wrap_key_data(on_device(cell.key)), _DRAWING)
    budgets = [float(budget) for budget in dataset.budgets]
    try:
        found = evaluate_incomplete(
            policy,
            dataset.problem,
            part.scored,
            predictor,
            restorer=fit_hotdeck(key, dataset.problem, part.train),
            protocol=materials.protocol,
            budgets=budgets,
            key=key,
            seed=cell.seed,
        )
    except InputError:  # no budget has enough rows that support a whole rollout: there is no estimate
        rows = [(budget, name) for budget in budgets for name in ("dr", "ipw")]
        nothing = dict.fromkeys(("score", "score_low", "score_high", "effective_rows"), np.nan)
        return pd.DataFrame(rows, columns=_BY).assign(**nothing, n_rows=len(part.scored.y))
    wide = found.pivot(index=_BY, columns="metric", values="estimate")
    own = found[found["metric"] == _score_column(dataset)].set_index(_BY)
    wide.insert(0, "score", own["estimate"])
    wide.insert(1, "score_low", own["low"])
    wide.insert(2, "score_high", own["high"])
    wide[["effective_rows", "n_rows"]] = own[["effective_rows", "n_rows"]]
    return wide.rename_axis(columns=None).reset_index()
