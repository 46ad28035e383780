"""Propensities: how probable it is that an action is available when the policy chooses it.

Each action has its own logistic regression on what is known at that step, fitted to the rows in which the
policy chose it. Rows are cross-fitted: no row is used in the model that predicts it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit

from ascertain._core.arrays import on_device
from ascertain._core.clusters import clusters_of
from ascertain._core.threads import one_thread
from ascertain.problem import Problem, Table

FOLDS = 5
_PENALTIES = (100.0, 10.0, 1.0)  # L2, on standardised covariates; each fit starts at the one before
_MOST_FEATURES = 16  # of which values and indicators are covariates: time grows with their square
_LEAST_PER_OUTCOME = 5  # rows; with fewer, only a rate is fitted
_NEWTON_STEPS = 30
_LARGEST_STEP = 4.0  # in logits, so that Newton's method does not overshoot
_SMALL_STEP = 1e-3  # after which the error is about its square
_TOLERANCE = 1e-6


class Choices(NamedTuple):
    """Choices of a policy: what is known of the row at that step, and whether the row has the action."""

    action: Int[np.ndarray, " choices"]
    available: Bool[np.ndarray, " choices"]
    x: Float[np.ndarray, "choices features"]
    observed: Bool[np.ndarray, "choices features"]
    acquired: Bool[np.ndarray, "choices actions"]
    y: Int[np.ndarray, " choices"]  # the row's class: test rows have it, and who is ill is tested more
    fold: Int[np.ndarray, " choices"]  # of the row, 0 to `FOLDS - 1`


def assign_folds(
    n_rows: int, seed: int, clusters: Int[np.ndarray, " rows"] | None = None
) -> Int[np.ndarray, " rows"]:
    """Assign rows to folds at random; their sizes differ by one at most. Those of a cluster stay together."""
    if clusters is not None:
        return assign_folds(int(clusters.max()) + 1, seed)[clusters]
    return np.random.default_rng(seed).permutation(n_rows) % FOLDS


def propensities(choices: Choices) -> Float[np.ndarray, " choices"]:
    """Cross-fit the probability that each chosen action is available.

    The covariates are the observed values, indicators of what was acquired, and the class. An action that no
    row lacks has probability 1.
    """
    found = np.ones(len(choices.action))
    with one_thread():
        for action in np.unique(choices.action[~choices.available]):
            here = choices.action == action
            part = Choices(*(each[here] for each in choices))
            found[here] = cross_fit(_covariates(part), part.available, part.fold)
    return found


def availability_weights(
    problem: Problem, table: Table, *, clip: float = 0.02, seed: int = 0
) -> Float[np.ndarray, "instances actions"]:
    """1 / P(a row has an action), given the rest of the row, for each row and action.

    These are weights for `restoration.score_restorer`. Each action has its own cross-fitted logistic
    regression on the row's other values, on which other actions it has (the 16 that are there most often),
    and on its class. Some thousand rows are enough, and take seconds.

    Parameters
    ----------
    problem
        Its actions.
    table
        The rows to score a restorer on.
    clip
        The least probability; a smaller one counts as this one, which bounds the weights.
    seed
        Seed of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from ascertain import Problem, Table
    >>> x = np.zeros((40, 2))
    >>> x[:20, 1] = np.nan  # half of the rows lack the second action, for no reason
    >>> problem = Problem(np.eye(2), [1, 1], budget=2, n_classes=2)
    >>> availability_weights(problem, Table(x, np.arange(40) % 2)).mean(axis=0).round(1).tolist()
    [1.0, 2.0]
    """
    x, available, y = (np.asarray(each) for each in (table.x, table.available, table.y))
    reveals, has = np.asarray(problem.reveals), np.asarray(problem.readable(on_device(available)))
    fold = assign_folds(len(x), seed, clusters_of(table.ids))
    probability = np.ones(has.shape)
    for action in np.flatnonzero(~has.all(axis=0)):
        others = has.copy()
        others[:, action] = False
        rest = available & ~reveals[action][None]
        own = Choices(np.full(len(x), action), has[:, action], x, rest, others, y, fold)
        probability[:, action] = propensities(own)
    return 1 / np.maximum(probability, clip)


def cross_fit(
    covariates: Float[np.ndarray, "rows covariates"],
    outcome: Bool[np.ndarray, " rows"],
    fold: Int[np.ndarray, " rows"],
) -> Float[np.ndarray, " rows"]:
    """Predict each row's probability of the outcome by a model of the other folds.

    The model is a rate or a logistic regression, whose L2 penalty is selected by held-out likelihood.
    """
    in_training = np.arange(FOLDS)[:, None] != fold[None]
    size, hits = in_training.sum(axis=1), (in_training & outcome).sum(axis=1)
    rate = (hits + 0.5) / (size + 1)  # never 0 or 1
    by_rate = rate[fold]
    fitted = np.flatnonzero(np.minimum(hits, size - hits) >= _LEAST_PER_OUTCOME)
    if not len(fitted) or not covariates.shape[1]:
        return by_rate
    design = np.column_stack([np.ones(len(covariates)), covariates])
    coefficients = np.zeros((len(fitted), design.shape[1]))
    coefficients[:, 0] = logit(rate[fitted])
    candidates = [by_rate]
    for penalty in _PENALTIES:
        coefficients = fit_logistic(design, outcome, in_training[fitted], penalty, coefficients)
        candidate = by_rate.copy()
        for each, held_out in zip(coefficients, fitted, strict=True):
            candidate[fold == held_out] = expit(design[fold == held_out] @ each)
        candidates.append(np.clip(candidate, _TOLERANCE, 1 - _TOLERANCE))
    return candidates[_select(np.array(candidates), outcome)]


def _select(candidates: Float[np.ndarray, "candidates rows"], outcome: Bool[np.ndarray, " rows"]) -> int:
    """Select the least penalised candidate within a standard error of the best, if not worse than the rate.

    A penalty that hides part of the missingness biases the estimate, which the interval does not show. Too
    weak a penalty adds noise, which it does show.
    """
    likelihood = np.log(np.where(outcome, candidates, 1 - candidates))
    total = likelihood.sum(axis=1)
    behind = likelihood[total.argmax()] - likelihood
    close = behind.sum(axis=1) <= behind.std(axis=1) * np.sqrt(len(outcome))
    return int(np.flatnonzero(close & (total >= total[0]))[-1])


def fit_logistic(
    design: Float[np.ndarray, "rows columns"],
    outcome: Bool[np.ndarray, " rows"],
    subsets: Bool[np.ndarray, "fits rows"],
    penalty: float,
    start: Float[np.ndarray, "fits columns"],
) -> Float[np.ndarray, "fits columns"]:
    """Fit a logistic regression to each of several subsets of the rows by Newton's method.

    The first column of the design is constant and not penalised. Half of `penalty` times the other squared
    coefficients is subtracted from the log-likelihood. Every subset must have both outcomes.
    """
    penalties = np.full(design.shape[1], penalty)
    penalties[0] = 0.0
    coefficients = start
    for _ in range(_NEWTON_STEPS):
        probability = expit(coefficients @ design.T)
        gradient = (subsets * (outcome - probability)) @ design - penalties * coefficients
        variance = subsets * probability * (1 - probability)
        curvature = np.stack([(design.T * each) @ design for each in variance]) + np.diag(penalties)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        change = np.abs(step @ design.T).max(axis=1, keepdims=True)
        coefficients = coefficients + step * np.minimum(1.0, _LARGEST_STEP / np.maximum(change, _TOLERANCE))
        if change.max() < _SMALL_STEP:
            break
    return coefficients


def _covariates(choices: Choices) -> Float[np.ndarray, "choices covariates"]:
    """Standardise observed values (0 where not observed) and indicators of acquisitions and classes.

    Of many features and actions, those that were observed most often are used.
    """
    seen = _most_often(choices.observed)
    observed, x = choices.observed[:, seen].astype(float), choices.x[:, seen]
    count = np.maximum(observed.sum(axis=0), 1)
    centred = observed * (x - (observed * x).sum(axis=0) / count)
    values = centred / _nonzero(np.sqrt((centred**2).sum(axis=0) / count))
    of_class = choices.y[:, None] == np.unique(choices.y)[1:]
    acquired = choices.acquired[:, _most_often(choices.acquired)]
    indicators = np.concatenate([acquired, of_class], axis=1)
    indicators = indicators - indicators.mean(axis=0)
    both = np.concatenate([values, indicators / _nonzero(indicators.std(axis=0))], axis=1)
    return both[:, np.ptp(both, axis=0) > _TOLERANCE]


def _most_often(observed: Bool[np.ndarray, "choices columns"]) -> Int[np.ndarray, " some"]:
    """The columns that are observed at all, and not more than the most frequent ones."""
    count = observed.sum(axis=0)
    return np.sort(np.argsort(-count, kind="stable")[: min(_MOST_FEATURES, int((count > 0).sum()))])


def _nonzero(deviation: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " columns"]:
    return np.where(deviation > _TOLERANCE, deviation, 1.0)
