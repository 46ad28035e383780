"""Describing the missing values of a table, and testing whether they are missing completely at random."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ascertain.problem import Problem, Table

MAX_ROWS = 5000  # drawn at random for the tests, whose cost grows faster than the table
_EM_STEPS = 50
_EM_TOLERANCE = 1e-4
_RIDGE = 1e-6  # keeps covariances of collinear columns invertible
_RAREST = 20  # rows with, and rows without a value, that predicting missingness needs


class LittleTest(NamedTuple):
    """Little's test of MCAR (1988): whether rows with different missingness patterns differ in mean."""

    statistic: float
    degrees_of_freedom: int
    p_value: float  # small: not missing completely at random


class Diagnosis(NamedTuple):
    """The missing values of a table.

    Examples
    --------
    >>> import numpy as np
    >>> from ascertain import Problem, Table
    >>> problem = Problem(np.eye(2), [1, 1], budget=1, n_classes=2, action_names=["ecg", "scan"])
    >>> table = Table([[1.0, np.nan], [2.0, 0.5], [np.nan, 1.0], [0.0, 0.1]], y=[0, 1, 0, 1])
    >>> diagnose(table, problem).actions["missing"].to_dict()
    {'ecg': 0.25, 'scan': 0.25}
    """

    columns: pd.DataFrame  # per column: `missing` (rate) and `predictable` (AUROC; 0.5: chance; NaN: too few)
    actions: pd.DataFrame  # per action: `missing` (rate) and `cost`
    rows: "pd.Series[int]"  # the number of rows that have 0, 1, 2, ... of the actions
    together: pd.DataFrame  # correlation of columns' missingness; NaN if never or always missing
    little: LittleTest | None  # None if there is one pattern, or no column in two patterns


def diagnose(table: Table, problem: Problem, seed: int = 0) -> Diagnosis:
    """Describe the missing values of a table.

    If the other columns predict a column's missingness (AUROC well above 0.5), or the p-value of Little's
    test is small, values are not missing completely at random. A table cannot show whether missingness
    depends on the missing values themselves.

    Parameters
    ----------
    table
        The data.
    problem
        The names of the columns, and the actions with their costs.
    seed
        Seed of cross-validation, and of the rows that are drawn from a large table.

    Examples
    --------
    >>> import numpy as np
    >>> from ascertain import Problem, Table
    >>> problem = Problem(np.eye(2), [1, 1], budget=1, n_classes=2)
    >>> table = Table([[1.0, np.nan], [2.0, 0.5], [np.nan, 1.0], [0.0, 0.1]], y=[0, 1, 0, 1])
    >>> diagnose(table, problem).rows.tolist()  # no row has nothing, two have one action, two have both
    [0, 2, 2]
    """
    x, available = np.asarray(table.x, np.float64), np.asarray(table.available)
    features = problem.feature_names or [f"x{i}" for i in range(problem.n_features)]
    actions = problem.action_names or [f"action{i}" for i in range(problem.n_actions)]
    readable = np.asarray(problem.readable(table.available))
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(x))[:MAX_ROWS]
    predictable = [_predictability(x[some], available[some], column, seed) for column in range(x.shape[1])]
    return Diagnosis(
        columns=pd.DataFrame(
            {"missing": 1 - available.mean(axis=0), "predictable": predictable}, index=features
        ),
        actions=pd.DataFrame(
            {"missing": 1 - readable.mean(axis=0), "cost": np.asarray(problem.costs)}, index=actions
        ),
        rows=pd.Series(np.bincount(readable.sum(axis=1), minlength=len(actions) + 1), name="rows"),
        together=_together(available, list(features)),
        little=little_test(x[some], available[some]),
    )


def little_test(
    x: Float[np.ndarray, "rows columns"], available: Bool[np.ndarray, "rows columns"]
) -> LittleTest | None:
    """Test whether values are missing completely at random, assuming that columns are jointly normal.

    The means of the rows with each missingness pattern are compared with the maximum-likelihood means,
    found by EM.

    Examples
    --------
    The second column is missing where the first one is high:

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> available = np.stack([np.ones(500, bool), x[:, 0] < 0.5], axis=1)
    >>> bool(little_test(x, available).p_value < 0.001)
    True
    """
    columns = zip(x.T, available.T, strict=True)
    varies = np.array([has.any() and np.ptp(column[has]) > 0 for column, has in columns])
    x, available = x[:, varies], available[:, varies]
    keep = available.any(axis=1)
    x, available = x[keep], available[keep]
    patterns, which = np.unique(available, axis=0, return_inverse=True)
    freedom = int(patterns.sum()) - x.shape[1]
    if len(patterns) < 2 or freedom < 1:  # no column is in two patterns: nothing to compare
        return None
    groups = [x[which == number][:, has] for number, has in enumerate(patterns)]
    mean, covariance = _normal_by_em(groups, patterns)
    statistic = 0.0
    for rows, has in zip(groups, patterns, strict=True):
        difference = rows.mean(axis=0) - mean[has]
        statistic += len(rows) * difference @ np.linalg.solve(covariance[np.ix_(has, has)], difference)
    return LittleTest(float(statistic), freedom, float(stats.chi2.sf(statistic, freedom)))


def _normal_by_em(
    groups: list[np.ndarray], patterns: Bool[np.ndarray, "patterns columns"]
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, "columns columns"]]:
    """Fit a normal distribution to rows with missing values."""
    d = patterns.shape[1]
    n = sum(map(len, groups))
    rows = np.full((n, d), np.nan)
    start = 0
    for group, has in zip(groups, patterns, strict=True):
        rows[start : start + len(group), has] = group
        start += len(group)
    mean, covariance = np.nanmean(rows, axis=0), np.diag(np.nanvar(rows, axis=0))
    scale = np.sqrt(np.diag(covariance))
    for _ in range(_EM_STEPS):
        total, squares = np.zeros(d), np.zeros((d, d))
        for group, has in zip(groups, patterns, strict=True):
            filled = np.tile(mean, (len(group), 1))
            filled[:, has] = group
            if not has.all():
                inside = covariance[np.ix_(has, has)]
                slope = np.linalg.solve(inside, covariance[np.ix_(has, ~has)])
                filled[:, ~has] += (group - mean[has]) @ slope
                left = covariance[np.ix_(~has, ~has)] - covariance[np.ix_(~has, has)] @ slope
                squares[np.ix_(~has, ~has)] += len(group) * left
            total += filled.sum(axis=0)
            squares += filled.T @ filled
        new_mean = total / n
        new_covariance = squares / n - np.outer(new_mean, new_mean) + np.diag(_RIDGE * scale**2)
        # Not of the mean alone: from a diagonal covariance, the first step does not change it.
        moved = max(
            np.abs((new_mean - mean) / scale).max(),
            np.abs((new_covariance - covariance) / np.outer(scale, scale)).max(),
        )
        mean, covariance = new_mean, new_covariance
        if moved < _EM_TOLERANCE:
            break
    return mean, covariance


def _predictability(x: np.ndarray, available: np.ndarray, column: int, seed: int) -> float:
    """Cross-validated AUROC of a logistic regression of a column's missingness on the other columns."""
    missing = ~available[:, column]
    if min(missing.sum(), (~missing).sum()) < _RAREST:
        return float("nan")
    others = np.delete(np.where(available, x, np.nan), column, axis=1)
    others = others[:, ~np.isnan(others).all(axis=0)]
    if others.shape[1] == 0:
        return float("nan")
    filled = np.where(np.isnan(others), np.nanmean(others, axis=0), others)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, filled, missing, cv=folds, method="decision_function")
    return float(roc_auc_score(missing, scores))


def _together(available: np.ndarray, names: list[str]) -> pd.DataFrame:
    missing = (~available).astype(float)
    missing -= missing.mean(axis=0)
    length = np.sqrt((missing**2).sum(axis=0))
    scaled = missing / np.where(length > 0, length, np.nan)
    correlation = scaled.T @ scaled
    return pd.DataFrame(correlation, index=names, columns=names)
