"""How good predictions are: scores of class probabilities, in NumPy and quick to compute.

A study scores tens of thousands of sets of predictions, of which scikit-learn would take longer than the
predictions. What cannot be computed, as a ranking of rows that are all of one class, is NaN.
"""

from typing import Literal, TypeVar

import numpy as np
from jaxtyping import Array, Float, Int, Num

from ascertain._core.checks import check_labels, check_numbers
from ascertain.errors import InputError

Metric = Literal["accuracy", "macro_f1"]

AnyArray = TypeVar("AnyArray", np.ndarray, Array)  # of one library: what comes in is what comes out

CALIBRATION_BINS = 15
# Single precision, in which predictors compute, does not tell smaller ones from zero beside one.
LEAST_PROBABILITY = float(np.finfo(np.float32).eps)


def measure(
    probabilities: Float[np.ndarray, "instances classes"], y: Int[np.ndarray, " instances"]
) -> dict[str, float]:
    """Compute every score of a set of predictions.

    Parameters
    ----------
    probabilities
        The predicted probability of each class.
    y
        The true classes, from 0.

    Returns
    -------
    scores
        `accuracy`; `f1`, averaged over the classes that occur; `auroc` and `auprc` (see `ranking_scores`);
        `log_loss`; `brier`, a sum over classes; `ece` (see `calibration_error`).

    Examples
    --------
    >>> import numpy as np
    >>> scores = measure(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 1]))
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'accuracy': 0.667, 'f1': 0.667, 'auroc': 1.0, 'auprc': 1.0,
     'log_loss': 0.607, 'brier': 0.44, 'ece': 0.4}
    """
    probabilities, y = _check(probabilities, y)
    counts = confusion(y, probabilities.argmax(axis=1), probabilities.shape[1])
    auroc, auprc = _rank(probabilities, y)
    return {
        "accuracy": float(score_counts(counts, "accuracy")),
        "f1": float(score_counts(counts, "macro_f1")),
        "auroc": auroc,
        "auprc": auprc,
        "log_loss": _log_loss(probabilities, y),
        "brier": _brier(probabilities, y),
        "ece": _calibration_error(probabilities, y),
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

    A class occurs if it is some row's, or some row's prediction; without a row of which both hold its F1
    is 0. Works on NumPy's and on JAX's arrays, inside `jit` too, and gives the same kind.

    Parameters
    ----------
    counts
        The number (or weight) of rows by class and by prediction, in the last two axes.
    metric
        Which score.

    Examples
    --------
    >>> import numpy as np
    >>> score_counts(np.array([[[2, 0], [1, 1]], [[2, 0], [2, 0]]]), "accuracy")
    array([0.75, 0.5 ])
    """
    xp = counts.__array_namespace__()
    right = xp.linalg.diagonal(counts)
    if metric == "accuracy":
        return xp.asarray(right.sum(axis=-1) / counts.sum(axis=(-2, -1)))  # not a scalar, as NumPy's may be
    either = counts.sum(axis=-1) + counts.sum(axis=-2)
    occurs = either > 0
    f1 = 2 * right / xp.where(occurs, either, 1)
    return xp.asarray(f1.sum(axis=-1) / occurs.sum(axis=-1))


def ranking_scores(
    probabilities: Float[np.ndarray, "instances classes"], y: Int[np.ndarray, " instances"]
) -> tuple[float, float]:
    """Compute the areas under the ROC curve and the precision-recall curve (average precision).

    With two classes these are of the second one; with more, the mean over the classes that occur, each
    against the rest. Rows with equal probabilities share a threshold.
    """
    return _rank(*_check(probabilities, y))


def log_loss(
    probabilities: Float[np.ndarray, "instances classes"], y: Int[np.ndarray, " instances"]
) -> float:
    """Compute the mean of minus the log of the true class's probability, of 1.2e-7 at least."""
    return _log_loss(*_check(probabilities, y))


def brier(probabilities: Float[np.ndarray, "instances classes"], y: Int[np.ndarray, " instances"]) -> float:
    """Compute the mean squared error of the probabilities, summed over the classes: from 0 to 2.

    With two classes this is twice the error of either one's probability.
    """
    return _brier(*_check(probabilities, y))


def calibration_error(
    probabilities: Float[np.ndarray, "instances classes"], y: Int[np.ndarray, " instances"]
) -> float:
    """Compute the expected calibration error of the predicted class.

    Rows are put into 15 bins of equal width (low, high] by the probability of the class that is predicted;
    the error is the mean, weighted by rows, of how far accuracy and mean probability in a bin are apart
    (Guo et al., 2017).
    """
    return _calibration_error(*_check(probabilities, y))


def _check(probabilities: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both in double precision, or say which entry cannot be scored."""
    values = check_numbers("probabilities", probabilities, ndim=2)
    if 0 in values.shape:
        raise InputError(f"there is nothing to score: probabilities has shape {values.shape}")
    for row, label in np.argwhere(~((values >= 0) & (values <= 1 + LEAST_PROBABILITY * 8)))[:1]:
        raise InputError(
            f"the probability of class {label} in row {row} is {values[row, label]}, not between 0 and 1"
        )
    return values, check_labels("y", y, len(values), values.shape[1])


def _log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    of_truth = probabilities[np.arange(len(y)), y]
    return float(-np.log(np.maximum(of_truth, LEAST_PROBABILITY)).mean())


def _brier(probabilities: np.ndarray, y: np.ndarray) -> float:
    error = probabilities.copy()
    error[np.arange(len(y)), y] -= 1
    return float(np.square(error).sum() / len(y))


def _calibration_error(probabilities: np.ndarray, y: np.ndarray) -> float:
    predicted = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(y)), predicted]
    excess = (predicted == y) - confidence
    place = np.clip(np.ceil(confidence * CALIBRATION_BINS).astype(int) - 1, 0, CALIBRATION_BINS - 1)
    return float(np.abs(np.bincount(place, excess, minlength=CALIBRATION_BINS)).sum() / len(y))


def _rank(probabilities: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    occurring = np.flatnonzero(np.bincount(y))
    if len(occurring) == 1:
        return float("nan"), float("nan")
    columns = np.ascontiguousarray(probabilities.T)
    ordered = np.sort(columns, axis=1)
    ranked = occurring[1:] if len(columns) == 2 else occurring
    areas = [_areas(np.sort(columns[label][y == label]), ordered[label]) for label in ranked.tolist()]
    return float(np.mean([auroc for auroc, _ in areas])), float(np.mean([auprc for _, auprc in areas]))


def _areas(
    hits: Float[np.ndarray, " positives"], scores: Float[np.ndarray, " instances"]
) -> tuple[float, float]:
    """Compute the areas under both curves from the sorted scores of the positives, and of all rows."""
    n_hits, n_others = len(hits), len(scores) - len(hits)
    below = scores.searchsorted(hits, "left")
    # Each hit is above some of the others, and half above those with an equal score. Of the hits
    # themselves, which are counted along, there are n^2 / 2 such pairs.
    pairs = (below.sum() + scores.searchsorted(hits, "right").sum() - n_hits**2) / 2
    precision = (n_hits - hits.searchsorted(hits, "left")) / (len(scores) - below)
    return float(pairs / (n_hits * n_others)), float(precision.mean())
