"""How probable it is that what a policy wants to acquire next was measured, given what is known by then.

One model for every action: a logistic regression on the rows in which the policy came to choose it. A row is
never judged by a model that was fitted to it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit

FOLDS = 5
_STRENGTHS = (100.0, 10.0, 1.0)  # of the L2 penalty on standardised covariates; each begins at the last
_LEAST_OF_EACH = 5  # rows with and without the action, below which a rate is all that can be told
_NEWTON_STEPS = 30
_LARGEST_STEP = 4.0  # in logits, so that Newton's method does not overshoot
_SMALL_STEP = 1e-3  # after which the error is about its square
_TOLERANCE = 1e-6


class Choices(NamedTuple):
    """The choices that rows came to: what was known of the row, and whether it had what was chosen."""

    action: Int[np.ndarray, " choices"]
    available: Bool[np.ndarray, " choices"]
    x: Float[np.ndarray, "choices features"]
    seen: Bool[np.ndarray, "choices features"]  # known at this point, in this row
    acquired: Bool[np.ndarray, "choices actions"]
    y: Int[np.ndarray, " choices"]  # the row's class: test rows have it, and who is ill is tested more
    fold: Int[np.ndarray, " choices"]  # of the row, 0 to `FOLDS - 1`


def assign_folds(n_rows: int, seed: int) -> Int[np.ndarray, " rows"]:
    """Put rows into folds of equal size (but for one row) at random."""
    return np.random.default_rng(seed).permutation(n_rows) % FOLDS


def propensities(choices: Choices) -> Float[np.ndarray, " choices"]:
    """Give the probability that each chosen action is available, by models fitted to other rows.

    The covariates are the values that are known, which actions were acquired, and the class. Their
    coefficients are penalised; how strongly, or whether only a rate can be told, is chosen for each action by
    the likelihood of rows that were left out. An action that no row lacked has probability 1.
    """
    found = np.ones(len(choices.action))
    for action in np.unique(choices.action[~choices.available]):
        here = choices.action == action
        part = Choices(*(each[here] for each in choices))
        found[here] = cross_fit(_covariates(part), part.available, part.fold)
    return found


def cross_fit(
    covariates: Float[np.ndarray, "rows covariates"],
    outcome: Bool[np.ndarray, " rows"],
    fold: Int[np.ndarray, " rows"],
) -> Float[np.ndarray, " rows"]:
    """Give each row's probability of the outcome, as fitted to the other folds."""
    in_training = np.arange(FOLDS)[:, None] != fold[None]
    size, hits = in_training.sum(axis=1), (in_training & outcome).sum(axis=1)
    rate = (hits + 0.5) / (size + 1)  # never 0 or 1
    by_rate = rate[fold]
    fitted = np.flatnonzero(np.minimum(hits, size - hits) >= _LEAST_OF_EACH)
    if not len(fitted) or not covariates.shape[1]:
        return by_rate
    design = np.column_stack([np.ones(len(covariates)), covariates])
    coefficients = np.zeros((len(fitted), design.shape[1]))
    coefficients[:, 0] = logit(rate[fitted])
    candidates = [by_rate]
    for strength in _STRENGTHS:
        coefficients = fit_logistic(design, outcome, in_training[fitted], strength, coefficients)
        candidate = by_rate.copy()
        for each, held_out in zip(coefficients, fitted, strict=True):
            candidate[fold == held_out] = expit(design[fold == held_out] @ each)
        candidates.append(np.clip(candidate, _TOLERANCE, 1 - _TOLERANCE))
    return candidates[_least_penalised(np.array(candidates), outcome)]


def _least_penalised(
    candidates: Float[np.ndarray, "candidates rows"], outcome: Bool[np.ndarray, " rows"]
) -> int:
    """Choose the last candidate that is within a standard error of the best and better than the first.

    What a penalty hides of the missingness stays in the estimate as bias, and the interval does not show it;
    what its absence adds is noise, which it does. But nothing is gained by a model worse than a rate.
    """
    scores = np.log(np.where(outcome, candidates, 1 - candidates))
    total = scores.sum(axis=1)
    behind = scores[total.argmax()] - scores
    within = behind.sum(axis=1) <= behind.std(axis=1) * np.sqrt(len(outcome))
    return int(np.flatnonzero(within & (total >= total[0]))[-1])


def fit_logistic(
    design: Float[np.ndarray, "rows columns"],
    outcome: Bool[np.ndarray, " rows"],
    weight: Bool[np.ndarray, "fits rows"],
    strength: float,
    start: Float[np.ndarray, "fits columns"],
) -> Float[np.ndarray, "fits columns"]:
    """Fit logistic regressions to several parts of the rows by Newton's method.

    Parameters
    ----------
    design
        The covariates behind a column of ones, whose coefficient is not penalised.
    outcome
        What to predict.
    weight
        The rows of each fit, which must have both outcomes.
    strength
        Half of this times the squared coefficients is taken from the log-likelihood.
    start
        The coefficients to begin with.
    """
    penalty = np.full(design.shape[1], strength)
    penalty[0] = 0.0
    coefficients = start
    for _ in range(_NEWTON_STEPS):
        probability = expit(coefficients @ design.T)
        gradient = (weight * (outcome - probability)) @ design - penalty * coefficients
        spread = weight * probability * (1 - probability)
        curvature = np.stack([(design.T * each) @ design for each in spread]) + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        change = np.abs(step @ design.T).max(axis=1, keepdims=True)
        coefficients = coefficients + step * np.minimum(1.0, _LARGEST_STEP / np.maximum(change, _TOLERANCE))
        if change.max() < _SMALL_STEP:
            break
    return coefficients


def _covariates(choices: Choices) -> Float[np.ndarray, "choices covariates"]:
    """Standardise known values (the mean where they are not known), and marks of acquisitions and classes."""
    seen = choices.seen.astype(float)
    count = np.maximum(seen.sum(axis=0), 1)
    centred = seen * (choices.x - (seen * choices.x).sum(axis=0) / count)
    values = centred / _nonzero(np.sqrt((centred**2).sum(axis=0) / count))
    of_class = choices.y[:, None] == np.unique(choices.y)[1:]
    marks = np.concatenate([choices.acquired, of_class], axis=1)
    marks = marks - marks.mean(axis=0)
    both = np.concatenate([values, marks / _nonzero(marks.std(axis=0))], axis=1)
    return both[:, np.ptp(both, axis=0) > _TOLERANCE]


def _nonzero(deviation: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " columns"]:
    return np.where(deviation > _TOLERANCE, deviation, 1.0)
