"""Scores of predicted class probabilities, weighted or not, in NumPy.

A study scores tens of thousands of sets of predictions, for which scikit-learn would take longer than the
predictions themselves. A score that is not defined, such as a ranking of rows of one class, is NaN.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Array, Float, Int, Num
from scipy.sparse import csr_array

from ascertain._core.checks import check_labels, check_numbers
from ascertain.errors import InputError

Metric = Literal["accuracy", "macro_f1"]
AnyArray = TypeVar("AnyArray", np.ndarray, Array)  # of one library: what comes in is what comes out
# Weighted column sums of a matrix with a row for each prediction, under each of several sets of weights.
Sum = Callable[[np.ndarray | csr_array], Float[np.ndarray, "sets columns"]]

_CALIBRATION_BINS = 15
# Single precision, in which predictors compute, does not tell smaller ones from zero beside one.
_LEAST_PROBABILITY = float(np.finfo(np.float32).eps)


def measure(
    probabilities: Float[np.ndarray, "instances classes"],
    y: Int[np.ndarray, " instances"],
    weights: Float[np.ndarray, " weights"] | None = None,
) -> dict[str, float]:
    """Compute every score of a set of predictions.

    Parameters
    ----------
    probabilities
        The predicted probability of each class.
    y
        The true classes, from 0.
    weights
        The weight of each prediction, by default equal ones. Weights may be negative, as those of a doubly
        robust estimate are, if their sum is positive; a precision is then clipped to [0, 1].

    Returns
    -------
    scores
        `accuracy`; `f1`, averaged over the classes that occur; `auroc` and `auprc` (average precision), of
        the second of two classes, else the mean over the classes that occur, each against the rest;
        `log_loss`, with probabilities of at least 1.2e-7; `brier`, the squared error summed over the classes,
        from 0 to 2; `ece`, the expected calibration error of the predicted class in 15 bins (low, high] of
        equal width (Guo et al., 2017).

    Examples
    --------
    >>> import numpy as np
    >>> p, y = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 1])
    >>> {name: round(score, 3) for name, score in measure(p, y).items()}
    {'accuracy': 0.667, 'f1': 0.667, 'auroc': 1.0, 'auprc': 1.0,
     'log_loss': 0.607, 'brier': 0.44, 'ece': 0.4}
    >>> measure(p, y, weights=np.array([1.0, 1.0, 2.0]))["accuracy"]
    0.5
    """
    p, y = _check(probabilities, y)
    if weights is not None:
        total = sum_once(_check_weights(weights, len(y)))
        return {name: float(score[0]) for name, score in scores_from_sums(p, y, total).items()}
    predicted = p.argmax(axis=1)
    counts = confusion(y, predicted, p.shape[1])
    auroc, auprc = _rank(p, y)
    excess, place = calibration_excess(p, y, predicted)
    return {
        "accuracy": float(score_counts(counts, "accuracy")),
        "f1": float(score_counts(counts, "macro_f1")),
        "auroc": auroc,
        "auprc": auprc,
        "log_loss": float(-log_of_truth(p, y).mean()),
        "brier": float(squared_errors(p, y).sum() / len(y)),
        "ece": float(np.abs(np.bincount(place, excess, minlength=_CALIBRATION_BINS)).sum() / len(y)),
    }


def confusion(
    y: Int[np.ndarray, " instances"], predicted: Int[np.ndarray, " instances"], n_classes: int
) -> Float[np.ndarray, "classes classes"]:
    """Count rows by class and by prediction."""
    counts = np.bincount(y * n_classes + predicted, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes).astype(float)


def score_counts(
    counts: Num[AnyArray, "*batch classes classes"], metric: Metric
) -> Float[AnyArray, "*batch"]:
    """Turn confusion counts into accuracy, or into F1 averaged over the classes that occur.

    Counts (or weights) are by class and by prediction, in the last two axes. A class occurs if a row is of it
    or predicted as it. Works on arrays of NumPy and of JAX, also in `jit`.

    Examples
    --------
    >>> import numpy as np
    >>> score_counts(np.array([[[2, 0], [1, 1]], [[2, 0], [2, 0]]]), "accuracy")
    array([0.75, 0.5 ])
    """
    xp = counts.__array_namespace__()
    correct = xp.linalg.diagonal(counts)
    if metric == "accuracy":
        return xp.asarray(correct.sum(axis=-1) / counts.sum(axis=(-2, -1)))  # NumPy's may be a scalar
    return _macro_f1(correct, counts.sum(axis=-1) + counts.sum(axis=-2))


def _macro_f1(
    correct: Num[AnyArray, "*batch classes"], true_and_predicted: Num[AnyArray, "*batch classes"]
) -> Float[AnyArray, "*batch"]:
    xp = correct.__array_namespace__()
    occurs = true_and_predicted > 0
    f1 = 2 * correct / xp.where(occurs, true_and_predicted, 1)
    return xp.asarray(f1.sum(axis=-1) / occurs.sum(axis=-1))


def sum_once(weight: Float[np.ndarray, " points"]) -> Sum:
    """Make the function that sums weighted values of predictions, each of which counts once."""

    def total(values: np.ndarray | csr_array) -> Float[np.ndarray, "1 columns"]:
        summed: np.ndarray = values.T @ weight
        return summed[None]

    return total


def weighted_sum(
    weight: Float[np.ndarray, " points"],
    row: Int[np.ndarray, " points"],
    counts: Float[np.ndarray, "resamples rows"],
) -> Sum:
    """Make the function that sums weighted values of predictions over resamples of their rows.

    A row may have several predictions or none, and occurs in a resample as often as `counts` says.
    """
    by_row = csr_array((weight, (row, np.arange(len(row)))), shape=(counts.shape[1], len(row)))

    def total(values: np.ndarray | csr_array) -> Float[np.ndarray, "sets columns"]:
        summed: np.ndarray = ((by_row @ values).T @ counts.T).T
        return summed

    return total


def scores_from_sums(
    p: Float[np.ndarray, "points classes"],
    y: Int[np.ndarray, " points"],
    total: Sum,
    amounts: Mapping[str, Float[np.ndarray, " points"]] | None = None,
    *,
    n_thresholds: int | None = None,
) -> dict[str, Float[np.ndarray, " sets"]]:
    """Compute the scores of `measure`, and the means of further amounts, for several sets of weights.

    Rankings use every distinct probability as a threshold, or about `n_thresholds` of them.
    """
    classes, predicted = np.arange(p.shape[1]), p.argmax(axis=1)
    is_predicted, is_true = predicted[:, None] == classes, y[:, None] == classes
    excess, place = calibration_excess(p, y, predicted)
    in_bins = excess[:, None] * (place[:, None] == np.arange(_CALIBRATION_BINS))
    weight = total(np.ones((len(y), 1)))[:, 0]

    def mean(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " sets"]:
        return total(values[:, None].astype(float))[:, 0] / weight

    correct = total((is_predicted & is_true).astype(float))
    true_and_predicted = total(is_predicted.astype(float) + is_true)
    return {
        "accuracy": correct.sum(axis=1) / weight,
        # Weights of a class that sum to less than 0 count as if it did not occur.
        "f1": _macro_f1(np.where(true_and_predicted > 0, correct, 0.0), true_and_predicted),
        **rankings_from_sums(p, y, total, n_thresholds),
        "log_loss": mean(-log_of_truth(p, y)),
        "brier": mean(squared_errors(p, y).sum(axis=1)),
        "ece": np.abs(total(in_bins)).sum(axis=1) / weight,
        **{name: mean(amount) for name, amount in (amounts or {}).items()},
    }


def rankings_from_sums(
    p: Float[np.ndarray, "points classes"],
    y: Int[np.ndarray, " points"],
    total: Sum,
    n_thresholds: int | None = None,
) -> dict[str, Float[np.ndarray, " sets"]]:
    """Compute `auroc` and `auprc` for several sets of weights; see `scores_from_sums`."""
    ranked = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = np.array([_weighted_areas(p[:, label], y == label, total, n_thresholds) for label in ranked])
    occurs = ~np.isnan(areas)
    mean = np.where(occurs, areas, 0.0).sum(axis=0) / np.maximum(occurs.sum(axis=0), 1)
    auroc, auprc = np.where(occurs.any(axis=0), mean, np.nan)
    return {"auroc": auroc, "auprc": auprc}


def _weighted_areas(
    score: Float[np.ndarray, " points"], positive: np.ndarray, total: Sum, n_thresholds: int | None
) -> tuple[Float[np.ndarray, " sets"], Float[np.ndarray, " sets"]]:
    """Compute the areas under the ROC and precision-recall curves; NaN where one class has no weight."""
    level = np.sort(score).searchsorted(score, "left")  # which equal scores share
    if n_thresholds is not None:
        level = level * n_thresholds // len(score)
    _, level = np.unique(level, return_inverse=True)
    place = np.arange(len(score)), level
    positives, negatives = (total(csr_array((each.astype(float), place))) for each in (positive, ~positive))
    n_positive, n_negative = positives.sum(axis=1), negatives.sum(axis=1)
    # A positive is ranked above the negatives at lower levels, and by half above those at its own.
    pairs = (positives * (np.cumsum(negatives, axis=1) - negatives / 2)).sum(axis=1)
    true_positives = np.cumsum(positives[:, ::-1], axis=1)[:, ::-1]
    called = true_positives + np.cumsum(negatives[:, ::-1], axis=1)[:, ::-1]
    precision = np.clip(true_positives / np.where(called > 0, called, np.inf), 0.0, 1.0)
    both = (n_positive > 0) & (n_negative > 0)
    n_positive = np.where(both, n_positive, 1.0)
    auroc = np.where(both, pairs / (n_positive * np.where(both, n_negative, 1.0)), np.nan)
    return auroc, np.where(both, (positives * precision).sum(axis=1) / n_positive, np.nan)


def _rank(p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Compute the areas of `rankings_from_sums` for equal weights, which takes sorting only."""
    occurring = np.flatnonzero(np.bincount(y))
    if len(occurring) == 1:
        return float("nan"), float("nan")
    columns = np.ascontiguousarray(p.T)
    ordered = np.sort(columns, axis=1)
    ranked = occurring[1:] if len(columns) == 2 else occurring
    areas = [_areas(np.sort(columns[label][y == label]), ordered[label]) for label in ranked.tolist()]
    return float(np.mean([auroc for auroc, _ in areas])), float(np.mean([auprc for _, auprc in areas]))


def _areas(
    positives: Float[np.ndarray, " positives"], scores: Float[np.ndarray, " instances"]
) -> tuple[float, float]:
    """Compute the areas under both curves from the sorted scores of the positives, and of all rows."""
    n_positive, n_negative = len(positives), len(scores) - len(positives)
    below = scores.searchsorted(positives, "left")
    # As above; of the positives themselves, which are counted along, there are n^2 / 2 such pairs.
    pairs = (below.sum() + scores.searchsorted(positives, "right").sum() - n_positive**2) / 2
    precision = (n_positive - positives.searchsorted(positives, "left")) / (len(scores) - below)
    return float(pairs / (n_positive * n_negative)), float(precision.mean())


def log_of_truth(p: np.ndarray, y: np.ndarray) -> Float[np.ndarray, " points"]:
    """The logarithm of the probability of each true class, which counts as at least 1.2e-7."""
    return np.log(np.maximum(p[np.arange(len(y)), y], _LEAST_PROBABILITY))


def squared_errors(p: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "points classes"]:
    """The squared error of every probability."""
    error = p.copy()
    error[np.arange(len(y)), y] -= 1
    return np.square(error)


def calibration_excess(
    p: np.ndarray, y: np.ndarray, predicted: np.ndarray
) -> tuple[Float[np.ndarray, " points"], Int[np.ndarray, " points"]]:
    """Compute how far each prediction is from its confidence, and the bin of the latter."""
    confidence = p[np.arange(len(y)), predicted]
    place = np.clip(np.ceil(confidence * _CALIBRATION_BINS).astype(int) - 1, 0, _CALIBRATION_BINS - 1)
    return (predicted == y) - confidence, place


def _check(probabilities: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both in double precision, or say which entry cannot be scored."""
    values = check_numbers("probabilities", probabilities, ndim=2)
    if 0 in values.shape:
        raise InputError(f"there is nothing to score: probabilities has shape {values.shape}")
    for row, label in np.argwhere(~((values >= 0) & (values <= 1 + _LEAST_PROBABILITY * 8)))[:1]:
        raise InputError(
            f"the probability of class {label} in row {row} is {values[row, label]}, not between 0 and 1"
        )
    return values, check_labels("y", y, len(values), values.shape[1])


def _check_weights(weights: np.ndarray, n_rows: int) -> Float[np.ndarray, " instances"]:
    values = check_numbers("weights", weights, ndim=1)
    if len(values) != n_rows:
        raise InputError(f"weights has {len(values)} entries for {n_rows} predictions")
    if not (np.isfinite(values).all() and values.sum() > 0):
        raise InputError("weights must be finite, and their sum above 0")
    return values
