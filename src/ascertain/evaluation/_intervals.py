"""Intervals of scores that are estimated from weighted predictions, by influence functions or a bootstrap.

Weights are inverse propensities that were fitted to the same rows. Estimated propensities make a weighted
estimate less variable than known ones: its influence function is the residual of a projection onto the score
functions of the propensity model (Robins, Rotnitzky & Zhao, 1995; Hirano, Imbens & Ridder, 2003; Lunceford &
Davidian, 2004). So what a linear regression on these explains is removed; without that, intervals would be
too wide. In a bootstrap, rows keep their weights, and the regression is on the resampled sums.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, logit
from scipy.stats import norm

from ascertain._core.threads import one_thread
from ascertain.evaluation._influence import influences
from ascertain.metrics import rankings_from_sums, scores_from_sums, sum_once, weighted_sum

# Where estimates must lie; those of negative weights may not.
_RANGES = {
    **dict.fromkeys(("accuracy", "f1", "auroc", "auprc", "ece", "forced_stop_rate"), (0.0, 1.0)),
    "brier": (0.0, 2.0),
    **dict.fromkeys(("log_loss", "mean_cost", "mean_acquisitions"), (0.0, np.inf)),
}
_ANYWHERE = (-np.inf, np.inf)
_RANKINGS = ("auroc", "auprc")
_THRESHOLDS = 512  # of rankings in resamples
_COUNTS_AT_ONCE = 2**23  # of rows in resamples, held in memory
_RESAMPLES_PER_REGRESSOR = 20


class WeightedPredictions(NamedTuple):
    """Predictions for rows; a row may have several or none, and weights may be negative."""

    row: Int[np.ndarray, " points"]
    weight: Float[np.ndarray, " points"]
    probabilities: Float[np.ndarray, "points classes"]
    y: Int[np.ndarray, " points"]
    amounts: dict[str, Float[np.ndarray, " points"]]  # whose means are wanted, such as what was spent

    def concatenate(self, other: "WeightedPredictions") -> "WeightedPredictions":
        """Append other predictions for the same rows."""
        arrays = [np.concatenate(pair) for pair in zip(self[:4], other[:4], strict=True)]
        amounts = {name: np.concatenate([each, other.amounts[name]]) for name, each in self.amounts.items()}
        return WeightedPredictions._make([*arrays, amounts])

    def scores(self) -> dict[str, float]:
        """Compute the scores of `ascertain.metrics.measure`, and the means of the amounts."""
        found = scores_from_sums(
            self.probabilities.astype(float), self.y, sum_once(self.weight), self.amounts
        )
        return {name: float(score[0]) for name, score in found.items()}

    def effective_rows(self, n_classes: int) -> Float[np.ndarray, " classes"]:
        """The effective sample size of each class (Kish, 1965), from what each row weighs altogether."""
        n_rows = self.row.max() + 1
        weight = np.bincount(self.row, self.weight, minlength=n_rows)
        label = np.zeros(n_rows, int)
        label[self.row] = self.y
        total, squares = (np.bincount(label, each, minlength=n_classes) for each in (weight, weight**2))
        return np.square(np.maximum(total, 0.0)) / np.where(squares > 0, squares, 1.0)

    def resampled_scores(
        self, counts: Float[np.ndarray, "resamples rows"]
    ) -> dict[str, Float[np.ndarray, " resamples"]]:
        """Compute the scores of resamples in which each row occurs so many times.

        Rankings are computed at about 512 thresholds, and corrected by what that changes in the sample.
        """
        p = self.probabilities.astype(float)
        total = weighted_sum(self.weight, self.row, counts)
        found = scores_from_sums(p, self.y, total, self.amounts, n_thresholds=_THRESHOLDS)
        exact = self.scores()
        for name, rough in rankings_from_sums(p, self.y, sum_once(self.weight), _THRESHOLDS).items():
            found[name] = found[name] + (exact[name] - rough)
        return found


def within_range(metric: str, value: float) -> float:
    """An estimate, moved to the nearest value that its metric can have."""
    return float(np.clip(value, *_RANGES.get(metric, _ANYWHERE)))


def intervals(
    predictions: WeightedPredictions,
    scores: dict[str, float],
    n_rows: int,
    residuals: Float[np.ndarray, "rows models"] | None = None,
    *,
    level: float,
    clusters: Int[np.ndarray, " rows"] | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Compute both ends of an interval of every score from its standard error.

    Shares, such as AUROC, have their interval on the logit scale, so that it stays between 0 and 1. Where all
    rows agree the standard error would be 0; it is at least half a row in all that there are, or a quarter
    of one of the rarest class for rankings, in which a row is compared with many.

    Parameters
    ----------
    predictions, scores
        The weighted predictions and their scores.
    n_rows
        The number of rows, with and without predictions.
    residuals
        The score functions of the fitted propensities, a column for each model: for a logistic regression
        with an intercept, whether the action was available less its propensity.
    level
        How often the interval should hold the truth.
    clusters
        Numbers, from 0, of the instances that rows belong to: those of one instance count as one. None: each
        row is an instance.
    """
    moved = row_influences(predictions, scores, n_rows, residuals, clusters=clusters)
    error = {name: float(np.sqrt(np.square(each).sum())) for name, each in moved.items()}
    share = 1.0 if clusters is None else (int(clusters.max()) + 1) / n_rows
    effective = predictions.effective_rows(predictions.probabilities.shape[1])
    present = effective[effective > 0]
    z = float(norm.ppf((1 + level) / 2))
    low, high = {}, {}
    for name, score in scores.items():
        rows = share * (2 * present.min(initial=np.inf) if name in _RANKINGS else present.sum())
        low[name], high[name] = _ends(name, score, error[name], rows, z)
    return low, high


def row_influences(
    predictions: WeightedPredictions,
    scores: dict[str, float],
    n_rows: int,
    residuals: Float[np.ndarray, "rows models"] | None = None,
    *,
    clusters: Int[np.ndarray, " rows"] | None = None,
) -> dict[str, Float[np.ndarray, " instances"]]:
    """How much every instance moves each score, less what estimated propensities explain.

    The square root of their sum of squares is a standard error. Those of two policies in the same rows can be
    subtracted: then it is the standard error of the difference. The parameters are those of `intervals`.
    """
    moved = influences(predictions, scores, n_rows)
    values = np.stack(list(moved.values()), axis=1)
    if clusters is not None:  # rows of an instance move a score together (Liang & Zeger, 1986)
        values = _summed(values, clusters)
        residuals = None if residuals is None else _summed(residuals, clusters)
    with one_thread():
        values = _unexplained(values, residuals)
    return dict(zip(moved, values.T, strict=True))


def _ends(metric: str, score: float, error: float, rows: float, z: float) -> tuple[float, float]:
    """Both ends of one interval, which holds the score itself as far as that is possible."""
    if not np.isfinite(score):  # no ranking: all rows are of one class
        return np.nan, np.nan
    lowest, highest = _RANGES.get(metric, _ANYWHERE)
    inside = within_range(metric, score)
    if (lowest, highest) != (0.0, 1.0):
        return max(lowest, score - z * error), min(highest, score + z * error)
    error = min(0.5, max(error, 1 / (2 * rows + 2)))
    middle = float(np.clip(score, error, 1 - error))
    width = z * error / (middle * (1 - middle))
    ends = expit(logit(middle) + width * np.array([-1.0, 1.0]))
    return min(float(ends[0]), inside), max(float(ends[1]), inside)


def _summed(
    values: Float[np.ndarray, "rows columns"], clusters: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "clusters columns"]:
    """The sums over the rows of each cluster."""
    sums = np.zeros((int(clusters.max()) + 1, values.shape[1]))  # there may be no column
    np.add.at(sums, clusters, values)
    return sums


def _unexplained(
    values: Float[np.ndarray, "rows scores"], residuals: Float[np.ndarray, "rows models"] | None
) -> Float[np.ndarray, "rows scores"]:
    """Remove what a linear regression on the residuals explains; degrees of freedom are corrected."""
    n_rows = len(values)
    used = np.zeros((n_rows, 0)) if residuals is None else residuals
    if not 0 < used.shape[1] < n_rows / 2:
        return values * np.sqrt(n_rows / max(1, n_rows - 1))
    gram = used.T @ used
    left = values - used @ np.linalg.lstsq(gram, used.T @ values, rcond=None)[0]
    freedom = n_rows - 1 - np.linalg.matrix_rank(gram)
    unexplained: np.ndarray = left * np.sqrt(n_rows / freedom)
    return unexplained


def bootstrap_intervals(
    predictions: WeightedPredictions,
    n_rows: int,
    residuals: Float[np.ndarray, "rows models"] | None = None,
    *,
    resamples: int,
    level: float,
    seed: int,
    clusters: Int[np.ndarray, " rows"] | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Compute both ends of the bootstrap percentile interval of every score.

    Parameters
    ----------
    predictions
        The weighted predictions.
    n_rows
        The number of rows, with and without predictions.
    residuals
        The score functions of the fitted propensities, a column for each model: for a logistic regression
        with an intercept, whether the action was available less its propensity. The first columns are used,
        one for every 20 resamples.
    resamples, level, seed
        How many resamples (none: the ends are NaN), the share of them that an interval holds, and the seed
        that they are drawn from.
    clusters
        As for `intervals`: resamples draw whole instances.
    """
    if resamples == 0:
        unknown = dict.fromkeys(predictions.scores(), np.nan)
        return unknown, unknown
    rng = np.random.default_rng(seed)
    most = resamples // _RESAMPLES_PER_REGRESSOR
    used = np.zeros((n_rows, 0)) if residuals is None else residuals[:, :most]
    at_once = max(1, _COUNTS_AT_ONCE // n_rows)
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    parts = [
        (predictions.resampled_scores(counts), counts @ used)
        for counts in (_draw_counts(rng, n_rows, size, clusters) for size in sizes)
    ]
    regressors = np.concatenate([sums for _, sums in parts])
    low, high = {}, {}
    for name in parts[0][0]:
        scores = np.concatenate([part[name] for part, _ in parts])
        defined = ~np.isnan(scores)  # not in resamples that lack a class
        remaining = _project_out(scores[defined], regressors[defined])
        ends = np.quantile(remaining, [(1 - level) / 2, (1 + level) / 2]) if len(remaining) else [np.nan] * 2
        low[name], high[name] = map(float, ends)
    return low, high


def _project_out(
    scores: Float[np.ndarray, " resamples"], regressors: Float[np.ndarray, "resamples models"]
) -> Float[np.ndarray, " resamples"]:
    """Remove what a linear regression explains; the mean stays, and the degrees of freedom are corrected."""
    n_resamples, n_regressors = regressors.shape
    if n_regressors == 0 or n_resamples < 2 * n_regressors:  # where most resamples lack a class
        return scores
    mean, centred = scores.mean(), regressors - regressors.mean(axis=0)
    coefficients = np.linalg.lstsq(centred, scores - mean, rcond=None)[0]
    left = scores - mean - centred @ coefficients
    remaining: np.ndarray = mean + left * np.sqrt((n_resamples - 1) / (n_resamples - 1 - n_regressors))
    return remaining


def _draw_counts(
    rng: np.random.Generator, n_rows: int, resamples: int, clusters: Int[np.ndarray, " rows"] | None = None
) -> Float[np.ndarray, "resamples rows"]:
    """Draw rows, or whole clusters, with replacement, and count how often each row is in each resample."""
    if clusters is not None:
        counts: np.ndarray = _draw_counts(rng, int(clusters.max()) + 1, resamples)[:, clusters]
        return counts
    places = rng.integers(0, n_rows, (resamples, n_rows)) + n_rows * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * n_rows).reshape(resamples, -1).astype(float)
