"""The scores of `ascertain.metrics` for weighted predictions, and for many resamples of the rows at once.

Weights may be negative, as those of a doubly robust estimate are. Every score is a function of sums over
rows, so a resample is a product of how often each row was drawn and what each row adds to the sums.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from ascertain._core.checks import check_labels, check_numbers
from ascertain.errors import InputError
from ascertain.metrics import CALIBRATION_BINS, LEAST_PROBABILITY

_THRESHOLDS = 512  # that rankings of resamples are computed at
_CELLS_AT_ONCE = 2**23  # counts of rows in resamples
_RESAMPLES_PER_COLUMN = 20  # of a regression on what chance gave to resamples


class Sample(NamedTuple):
    """Weighted predictions; several may belong to one row, and other rows may have none."""

    row: Int[np.ndarray, " points"]
    weight: Float[np.ndarray, " points"]
    probabilities: Float[np.ndarray, "points classes"]
    y: Int[np.ndarray, " points"]
    amounts: dict[str, Float[np.ndarray, " points"]]  # whose means are wanted, such as what was spent


def joined(first: Sample, second: Sample) -> Sample:
    """Put two samples of the same rows together."""
    return Sample(
        row=np.concatenate([first.row, second.row]),
        weight=np.concatenate([first.weight, second.weight]),
        probabilities=np.concatenate([first.probabilities, second.probabilities]),
        y=np.concatenate([first.y, second.y]),
        amounts={
            name: np.concatenate([amount, second.amounts[name]]) for name, amount in first.amounts.items()
        },
    )


def measure_weighted(
    probabilities: Float[np.ndarray, "points classes"],
    y: Int[np.ndarray, " points"],
    weights: Float[np.ndarray, " weights"],
) -> dict[str, float]:
    """Compute every score of weighted predictions; with equal weights it is what `measure` computes.

    With negative weights a precision that is not between 0 and 1 is moved to the nearer of them.

    Parameters
    ----------
    probabilities
        The predicted probability of each class.
    y
        The true classes, from 0.
    weights
        The weight of each prediction, also a negative one. What they add up to does not matter, but must
        be above 0.

    Examples
    --------
    >>> import numpy as np
    >>> p, y = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 1])
    >>> scores = measure_weighted(p, y, np.array([1.0, 1.0, 2.0]))
    >>> scores["accuracy"], round(scores["brier"], 3)
    (0.5, 0.575)
    """
    values = check_numbers("probabilities", probabilities, ndim=2)
    labels = check_labels("y", y, len(values), values.shape[1])
    amounts = check_numbers("weights", weights, ndim=1)
    if amounts.shape != labels.shape:
        raise InputError(f"weights has {len(amounts)} entries for {len(labels)} predictions")
    if not (np.isfinite(amounts).all() and amounts.sum() > 0):
        raise InputError("weights must be finite, and their sum above 0")
    return measure_sample(Sample(np.zeros(len(labels), int), amounts, values, labels, {}))


def measure_sample(sample: Sample) -> dict[str, float]:
    """Compute every score of a weighted sample, and the means of its amounts."""
    everything = np.ones((1, sample.row.max() + 1))
    return {name: float(score[0]) for name, score in _scores(sample, everything, thresholds=None).items()}


def resample(
    sample: Sample, counts: Float[np.ndarray, "resamples rows"]
) -> dict[str, Float[np.ndarray, " resamples"]]:
    """Compute the scores of many resamples.

    Rankings are computed at 512 thresholds, and moved by what that changes in the sample itself.

    Parameters
    ----------
    sample
        The weighted predictions.
    counts
        How often each row was drawn in each resample.
    """
    found = _scores(sample, counts, thresholds=_THRESHOLDS)
    exact = measure_sample(sample)
    everything = np.ones((1, counts.shape[1]))
    rough = _rankings(sample, everything, thresholds=_THRESHOLDS)
    return {
        name: scores + (exact[name] - rough[name]) if name in rough else scores
        for name, scores in found.items()
    }


def intervals(
    sample: Sample,
    n_rows: int,
    resamples: int,
    level: float,
    seed: int,
    surplus: Float[np.ndarray, "rows kinds"] | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Give the ends of the bootstrap percentile interval of every score.

    Parameters
    ----------
    sample
        The weighted predictions.
    n_rows
        The number of rows, also of those without predictions.
    resamples
        How often the rows are drawn with replacement.
    level
        How much of the resamples' scores an interval holds.
    seed
        Which rows are drawn.
    surplus
        What weights that were fitted to the rows make up for: columns whose sums fitting makes 0, or nearly.
        Resamples have other sums, and fitted to them the weights would make up for that too; so the part of a
        score that goes with these sums is no uncertainty. The first columns are used, as many as the
        resamples can bear.
    """
    rng = np.random.default_rng(seed)
    columns = np.zeros((n_rows, 0)) if surplus is None else surplus[:, : resamples // _RESAMPLES_PER_COLUMN]
    at_once = max(1, _CELLS_AT_ONCE // n_rows)
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    counts = (_draw_counts(rng, n_rows, size) for size in sizes)
    parts = [(resample(sample, each), each @ columns) for each in counts]
    sums = np.concatenate([each for _, each in parts])
    ends = (1 - level) / 2, (1 + level) / 2
    found = {}
    for name in parts[0][0]:
        scores = np.concatenate([part[name] for part, _ in parts])
        there = ~np.isnan(scores)  # not in resamples without any row of a class
        adjusted = _unexplained(scores[there], sums[there])
        found[name] = np.quantile(adjusted, ends) if len(adjusted) else np.full(2, np.nan)
    low, high = ({name: float(each[end]) for name, each in found.items()} for end in (0, 1))
    return low, high


def _unexplained(
    scores: Float[np.ndarray, " resamples"], sums: Float[np.ndarray, "resamples kinds"]
) -> Float[np.ndarray, " resamples"]:
    """Take from scores what goes with some sums, by linear regression; the mean stays."""
    n_resamples, n_kinds = sums.shape
    if n_kinds == 0 or n_resamples < 2 * n_kinds:  # resamples without a score are not among them
        return scores
    mean, sums = scores.mean(), sums - sums.mean(axis=0)
    coefficients = np.linalg.lstsq(sums, scores - mean, rcond=None)[0]
    left = scores - mean - sums @ coefficients
    unexplained: np.ndarray = mean + left * np.sqrt((n_resamples - 1) / (n_resamples - 1 - n_kinds))
    return unexplained


def _draw_counts(
    rng: np.random.Generator, n_rows: int, resamples: int
) -> Float[np.ndarray, "resamples rows"]:
    """Draw rows with replacement, and count how often each was drawn in each resample."""
    places = rng.integers(0, n_rows, (resamples, n_rows)) + n_rows * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * n_rows).reshape(resamples, -1).astype(float)


def _scores(
    sample: Sample, counts: Float[np.ndarray, "resamples rows"], *, thresholds: int | None
) -> dict[str, Float[np.ndarray, " resamples"]]:
    p, y = sample.probabilities.astype(float), sample.y
    at = np.arange(len(y))
    classes = np.arange(p.shape[1])
    predicted = p.argmax(axis=1)
    said, true = predicted[:, None] == classes, y[:, None] == classes
    confidence = p[at, predicted]
    place = np.clip(np.ceil(confidence * CALIBRATION_BINS).astype(int) - 1, 0, CALIBRATION_BINS - 1)
    excess = ((predicted == y) - confidence)[:, None] * (place[:, None] == np.arange(CALIBRATION_BINS))

    def mean(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " resamples"]:
        return _sums(sample, values[:, None].astype(float), counts)[:, 0] / total

    total = _sums(sample, np.ones((len(y), 1)), counts)[:, 0]
    right = _sums(sample, (said & true).astype(float), counts)
    either = _sums(sample, said.astype(float) + true, counts)
    occurs = either > 0
    f1 = np.where(occurs, 2 * right / np.where(occurs, either, 1.0), 0.0)
    gaps = np.abs(_sums(sample, excess, counts)).sum(axis=1)
    return {
        "accuracy": right.sum(axis=1) / total,
        "f1": f1.sum(axis=1) / occurs.sum(axis=1),
        **_rankings(sample, counts, thresholds=thresholds),
        "log_loss": mean(-np.log(np.maximum(p[at, y], LEAST_PROBABILITY))),
        "brier": mean(((p - true) ** 2).sum(axis=1)),
        "ece": gaps / total,
        **{name: mean(amount) for name, amount in sample.amounts.items()},
    }


def _sums(
    sample: Sample,
    values: Float[np.ndarray, "points columns"] | csr_array,
    counts: Float[np.ndarray, "resamples rows"],
) -> Float[np.ndarray, "resamples columns"]:
    """Add up weighted values over the rows of each resample."""
    entries = (sample.weight, (sample.row, np.arange(len(sample.row))))
    of_rows = csr_array(entries, shape=(counts.shape[1], len(sample.row))) @ values
    summed: np.ndarray = (of_rows.T @ counts.T).T
    return summed


def _rankings(
    sample: Sample, counts: Float[np.ndarray, "resamples rows"], *, thresholds: int | None
) -> dict[str, Float[np.ndarray, " resamples"]]:
    """Compute both areas: the mean over the classes that occur, or that of the second one of two."""
    n_classes = sample.probabilities.shape[1]
    ranked = [1] if n_classes == 2 else range(n_classes)
    areas = np.array([_areas(sample, label, counts, thresholds) for label in ranked])
    occurs = ~np.isnan(areas)
    mean = np.where(occurs, areas, 0.0).sum(axis=0) / np.maximum(occurs.sum(axis=0), 1)
    auroc, auprc = np.where(occurs.any(axis=0), mean, np.nan)
    return {"auroc": auroc, "auprc": auprc}


def _areas(
    sample: Sample, label: int, counts: Float[np.ndarray, "resamples rows"], thresholds: int | None
) -> tuple[Float[np.ndarray, " resamples"], Float[np.ndarray, " resamples"]]:
    """Compute the areas under both curves of one class; NaN where all rows, or none, are of it."""
    score = sample.probabilities[:, label]
    ordered = np.sort(score)
    level = ordered.searchsorted(score, "left")  # which equal scores share
    if thresholds is not None:
        level = level * thresholds // len(score)
    _, level = np.unique(level, return_inverse=True)
    at_level = csr_array((np.ones(len(score)), (np.arange(len(score)), level)))
    of_label = sample.y == label
    hits = _sums(sample._replace(weight=sample.weight * of_label), at_level, counts)
    others = _sums(sample._replace(weight=sample.weight * ~of_label), at_level, counts)
    n_hits, n_others = hits.sum(axis=1), others.sum(axis=1)
    # Each hit is above some of the others, and half above those with an equal score.
    pairs = (hits * (np.cumsum(others, axis=1) - others / 2)).sum(axis=1)
    caught = np.cumsum(hits[:, ::-1], axis=1)[:, ::-1]
    called = caught + np.cumsum(others[:, ::-1], axis=1)[:, ::-1]
    precision = np.clip(caught / np.where(called > 0, called, np.inf), 0.0, 1.0)
    both = (n_hits > 0) & (n_others > 0)
    ones = np.where(both, n_hits, 1.0)
    auroc = np.where(both, pairs / (ones * np.where(both, n_others, 1.0)), np.nan)
    return auroc, np.where(both, (hits * precision).sum(axis=1) / ones, np.nan)
