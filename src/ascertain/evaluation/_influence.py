"""Influence functions of scores: how much a score moves if a row counts a little more.

A score of many rows is nearly its expectation plus the sum of the rows' influences, so that the sum of their
squares is its variance (Hampel, 1974). For AUROC this is the variance of DeLong, DeLong & Clarke-Pearson
(1988), here with weights. Predictions are sorted once, whatever the number of rows.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from ascertain.metrics import calibration_excess, log_of_truth, squared_errors

if TYPE_CHECKING:
    from ascertain.evaluation._intervals import WeightedPredictions


def influences(
    sample: "WeightedPredictions", scores: dict[str, float], n_rows: int
) -> dict[str, Float[np.ndarray, " rows"]]:
    """Compute the influence of every row on every score.

    Parameters
    ----------
    sample
        Predictions for rows; a row may have several or none.
    scores
        The sample's scores.
    n_rows
        The number of rows, with and without predictions.
    """
    p, y, weight = sample.probabilities.astype(float), sample.y, sample.weight
    predicted, total = p.argmax(axis=1), weight.sum()
    excess, place = calibration_excess(p, y, predicted)
    gap = np.sign(np.bincount(place, weight * excess))[place]
    means = {
        "accuracy": (predicted == y).astype(float),
        "log_loss": -log_of_truth(p, y),
        "brier": squared_errors(p, y).sum(axis=1),
        "ece": gap * excess,
        **sample.amounts,
    }
    found = {name: (values - scores[name]) / total for name, values in means.items()}
    found["f1"] = _of_macro_f1(predicted, y, weight, p.shape[1])
    found |= _of_rankings(p, y, weight)
    by_row = {name: np.bincount(sample.row, weight * each, minlength=n_rows) for name, each in found.items()}
    return {name: by_row[name] for name in scores}


def _of_macro_f1(
    predicted: Int[np.ndarray, " points"],
    y: Int[np.ndarray, " points"],
    weight: Float[np.ndarray, " points"],
    n_classes: int,
) -> Float[np.ndarray, " points"]:
    found, occurring = np.zeros(len(y)), 0
    for label in range(n_classes):
        either = (y == label) + (predicted == label).astype(float)
        size = (weight * either).sum()
        if size <= 0:
            continue
        both = (y == label) & (predicted == label)
        f1 = 2 * (weight * both).sum() / size
        found += (2 * both - f1 * either) / size
        occurring += 1
    return found / max(1, occurring)


def _of_rankings(
    p: Float[np.ndarray, "points classes"],
    y: Int[np.ndarray, " points"],
    weight: Float[np.ndarray, " points"],
) -> dict[str, Float[np.ndarray, " points"]]:
    """Influences on AUROC and AUPRC, averaged over the classes that have both sides; 0 if none has."""
    ranked = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = [_of_areas(p[:, label], y == label, weight) for label in ranked]
    defined = [each for each in areas if each is not None]
    if not defined:
        return dict.fromkeys(("auroc", "auprc"), np.zeros(len(y)))
    auroc, auprc = (np.mean(each, axis=0) for each in zip(*defined, strict=True))
    return {"auroc": auroc, "auprc": auprc}


def _of_areas(
    score: Float[np.ndarray, " points"],
    positive: Bool[np.ndarray, " points"],
    weight: Float[np.ndarray, " points"],
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]] | None:
    """Influences on the areas under both curves, as `ascertain.metrics` computes them."""
    _, level = np.unique(score, return_inverse=True)
    positives, negatives = np.bincount(level, weight * positive), np.bincount(level, weight * ~positive)
    n_positive, n_negative = positives.sum(), negatives.sum()
    if n_positive <= 0 or n_negative <= 0:
        return None
    # The share of the negatives that a positive is ranked above, and of positives above a negative.
    above = (np.cumsum(negatives) - negatives / 2) / n_negative
    below = 1 - (np.cumsum(positives) - positives / 2) / n_positive
    area = positives @ above / n_positive
    auroc = np.where(positive, (above[level] - area) / n_positive, (below[level] - area) / n_negative)

    true_positives = np.cumsum(positives[::-1])[::-1]
    called = np.cumsum((positives + negatives)[::-1])[::-1]
    raw = true_positives / np.where(called > 0, called, np.inf)
    precision = np.clip(raw, 0.0, 1.0)
    average = positives @ precision / n_positive
    # A prediction is among those called at all lower levels, whose precision it raises or lowers.
    moves = np.where((called > 0) & (raw == precision), positives / np.where(called > 0, called, 1.0), 0.0)
    raised, lowered = np.cumsum(moves)[level], np.cumsum(moves * precision)[level]
    auprc = (positive * (precision[level] - average + raised) - lowered) / n_positive
    return auroc, auprc
