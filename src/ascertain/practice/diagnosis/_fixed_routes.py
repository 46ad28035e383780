"""What fixed sets of acquisitions achieve on a table with holes, as far as that can be said (section 5.3).

A quick look before anything is trained in earnest: a small network of scikit-learn's, which needs no
compilation, one split, and some of the rows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.impute import KNNImputer
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from ascertain.evaluation._routes import sample_routes, weighted_overlap
from ascertain.metrics import confusion, score_counts
from ascertain.practice.diagnosis._support import as_masks
from ascertain.problem import Problem

N_ROUTES = 300
FEWEST_ROWS = 200
FEWEST_PER_CLASS = 20
_MOST_ROWS = 1000  # that routes are scored on, in each part
_STEPS = 1000  # of training the network
_BATCH = 128
_MOST_HIDDEN = 0.9  # features are hidden with a probability of up to this, as for the paper's predictor
_MOST_DEVIATIONS = 5.0  # larger values are clipped, so that an outlier does not upset the network


@dataclass(frozen=True)
class FixedRoutes:
    """Route structure of a table: section 5.3 of the paper, on one split."""

    scored_on: Literal["complete", "restored"]  # rows
    chosen_on: int  # rows
    checked_on: int  # rows
    routes: int
    best: tuple[str, ...]
    best_score: float  # macro-F1, V_static
    mean_score: float
    no_acquisition: float
    sensitivity: float  # best - mean
    overlap: float | None  # None where no route gains anything
    noise: float  # about two standard errors of a score


def find_routes(
    x: Float[np.ndarray, "rows features"],
    available: Bool[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    problem: Problem,
) -> FixedRoutes | str:
    """Score random sets of actions within the budget, or say why that cannot be done.

    The predictor learns from rows with their holes; `x` is standardised. Routes are scored on complete rows
    where there are enough, and else on rows whose holes are filled from the row that is nearest in what was
    measured. The label is not used for that, so that it cannot leak into what is scored.
    """
    sizes = np.bincount(y, minlength=problem.n_classes)
    if len(y) < FEWEST_ROWS or sizes.min() < FEWEST_PER_CLASS:
        return (
            f"this needs {FEWEST_ROWS} rows, and {FEWEST_PER_CLASS} of each class; there are {len(y)}, and "
            f"{sizes.min()} of the rarest class"
        )
    costs = np.asarray(problem.costs, np.float64)
    routes = sample_routes(np.random.default_rng(0), costs, float(problem.budget), N_ROUTES)
    if len(routes) < 2:
        return "only one set of actions is possible within the budget, so there is nothing to choose"
    chosen = as_masks([*routes, ()], problem.n_actions)  # the last one buys nothing
    reveals = np.asarray(problem.reveals)
    masks = (chosen.astype(np.float32) @ reveals > 0) | ~reveals.any(axis=0)

    x = np.clip(x, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    train, valid = train_test_split(np.arange(len(y)), test_size=0.4, random_state=0, stratify=y)
    network = _fit(x[train], available[train], y[train])
    scored_on, (choosing, checking) = _scored_rows(x, available, y, train, valid)
    on_train, on_valid = (_scores(network, *part, masks, problem.n_classes) for part in (choosing, checking))
    best = int(np.argmax(on_train[:-1]))
    mean = float(on_valid[:-1].mean())
    overlap = weighted_overlap(chosen[:-1], np.maximum(on_train[:-1] - on_train[-1], 0.0))
    names = problem.action_names or tuple(map(str, range(problem.n_actions)))
    return FixedRoutes(
        scored_on=scored_on,
        chosen_on=len(choosing[1]),
        checked_on=len(checking[1]),
        routes=len(routes),
        best=tuple(names[action] for action in routes[best]),
        best_score=float(on_valid[best]),
        mean_score=mean,
        no_acquisition=float(on_valid[-1]),
        sensitivity=float(on_valid[best]) - mean,
        overlap=None if np.isnan(overlap) else overlap,
        noise=_noise(checking[1], problem.n_classes),
    )


def _fit(x: np.ndarray, available: np.ndarray, y: np.ndarray) -> MLPClassifier:
    """Train on random subsets of what each row has, with the classes equally often."""
    rng = np.random.default_rng(1)
    network = MLPClassifier((64,), random_state=0)
    classes = np.unique(y)
    of_class = [np.flatnonzero(y == each) for each in classes]
    for _ in range(_STEPS):
        rows = np.concatenate([rng.choice(members, -(-_BATCH // len(classes))) for members in of_class])
        seen = available[rows] & (rng.random((len(rows), x.shape[1])) >= rng.uniform(0, _MOST_HIDDEN))
        network.partial_fit(_inputs(x[rows], seen), y[rows], classes=classes)
    return network


def _scored_rows(
    x: np.ndarray, available: np.ndarray, y: np.ndarray, train: np.ndarray, valid: np.ndarray
) -> tuple[Literal["complete", "restored"], list[tuple[np.ndarray, np.ndarray]]]:
    """Features and classes of complete rows of both parts, or of filled ones where too few are complete."""
    complete = np.asarray(available.all(axis=1))
    sizes = np.bincount(y[complete], minlength=y.max() + 1)
    if complete.sum() >= FEWEST_ROWS and sizes.min() >= FEWEST_PER_CLASS:
        parts = [part[complete[part]][:_MOST_ROWS] for part in (train, valid)]
        return "complete", [(x[rows], y[rows]) for rows in parts]
    donors = train[_MOST_ROWS : 3 * _MOST_ROWS] if len(train) > 2 * _MOST_ROWS else train
    holes = np.where(available, x, np.nan)
    # One neighbour, as the mean of several would vary too little.
    imputer = KNNImputer(n_neighbors=1, keep_empty_features=True).fit(holes[donors])
    parts = [train[:_MOST_ROWS], valid[:_MOST_ROWS]]
    return "restored", [(imputer.transform(holes[rows]), y[rows]) for rows in parts]


def _scores(
    network: MLPClassifier, x: np.ndarray, y: np.ndarray, masks: np.ndarray, n_classes: int
) -> Float[np.ndarray, " masks"]:
    """Macro-F1 of the predictions for all rows under each of several fixed masks."""
    counts = [
        confusion(y, network.predict(_inputs(x, np.broadcast_to(mask, x.shape))), n_classes) for mask in masks
    ]
    return score_counts(np.stack(counts), "macro_f1")


def _noise(y: np.ndarray, n_classes: int) -> float:
    """Two standard errors of macro-F1, if the F1 of a class were a share of its n rows.

    The standard error of a share is at most 1 / (2 sqrt(n)).
    """
    counts = np.bincount(y, minlength=n_classes)
    return float(np.sqrt((1 / np.maximum(counts, 1)).sum()) / n_classes)


def _inputs(x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.concatenate([np.where(seen, x, 0.0), seen], axis=1)
