"""What wrong decisions cost: the decision with the least expected cost, and net benefit.

A matrix of costs has a row for each true class and a column for each class that is decided for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float, Int

from ascertain._core.checks import check_labels, check_numbers, is_real
from ascertain.errors import InputError, did_you_mean

AnyArray = TypeVar("AnyArray", np.ndarray, Array)  # of one library: what comes in is what comes out


def check_decision_costs(costs: Any, classes: Iterable[Any]) -> Float[np.ndarray, "classes classes"]:
    """Return costs of decisions as a matrix in the order of the classes.

    Parameters
    ----------
    costs
        A DataFrame whose index has the true and whose columns have the decided classes, a mapping
        `{true: {decided: cost}}` (a right decision that it does not list costs nothing), or a matrix in the
        order of the classes.
    classes
        The classes; those of a mapping or DataFrame are compared as text.
    """
    names = [str(each) for each in classes]
    if isinstance(costs, pd.DataFrame):
        costs = {true: row.to_dict() for true, row in costs.iterrows()}
    if isinstance(costs, Mapping):
        matrix = _from_mapping(costs, names)
    else:
        matrix = check_numbers("decision_costs", costs, ndim=2)
        if matrix.shape != (len(names), len(names)):
            raise InputError(
                f"decision_costs has shape {matrix.shape}; it needs a row and a column for each of the "
                f"{len(names)} classes {', '.join(map(repr, names))}"
            )
    for true, decided in np.argwhere(~np.isfinite(matrix))[:1]:
        raise InputError(
            f"decision_costs: deciding {names[decided]!r} where {names[true]!r} is true costs "
            f"{matrix[true, decided]}; costs are finite numbers"
        )
    return matrix


def decide(
    probabilities: Float[AnyArray, "*batch classes"], costs: Float[AnyArray, "classes classes"] | None = None
) -> Int[AnyArray, "*batch"]:
    """Decide for the class with the least expected cost; without costs, for the most probable one.

    Works on arrays of NumPy and of JAX, also in `jit`.

    Examples
    --------
    >>> import numpy as np
    >>> ill = np.array([0.05, 0.2, 0.7])
    >>> missed, alarm = 10.0, 1.0
    >>> decide(np.stack([1 - ill, ill], axis=1), np.array([[0.0, alarm], [missed, 0.0]]))  # from 1/11 on
    array([0, 1, 1])
    """
    xp = probabilities.__array_namespace__()
    if costs is None:
        return xp.asarray(xp.argmax(probabilities, axis=-1))
    return xp.asarray(xp.argmin(probabilities @ costs, axis=-1))


def net_benefit(
    probability: Float[np.ndarray, " instances"],
    positive: Bool[np.ndarray, " instances"],
    thresholds: Sequence[float] | Float[np.ndarray, " thresholds"],
    weights: Float[np.ndarray, " instances"] | None = None,
) -> Float[np.ndarray, " thresholds"]:
    """Net benefit of treating whoever has at least the threshold probability (Vickers & Elkin, 2006).

    At a threshold t it is the share of true positives, less that of false positives times t / (1 - t). Who
    treats from a probability of t on thinks that so much of a case left untreated is as bad as an unnecessary
    treatment.

    Parameters
    ----------
    probability
        The predicted probability of the positive class.
    positive
        Who is of that class.
    thresholds
        Probabilities above 0 and below 1.
    weights
        The weight of each instance; by default equal ones.

    Examples
    --------
    >>> import numpy as np
    >>> net_benefit(np.array([0.1, 0.6, 0.8, 0.3]), np.array([False, False, True, True]), [0.2, 0.5])
    array([0.4375, 0.    ])
    """
    chances = check_numbers("probability", probability, ndim=1)
    truth = check_labels("positive", positive, len(chances), 2).astype(bool)
    per_row = net_benefits_by_row(chances, truth, thresholds)
    total = np.ones(len(chances)) if weights is None else check_numbers("weights", weights, ndim=1)
    found: np.ndarray = total @ per_row / total.sum()
    return found


def net_benefits_by_row(
    probability: Float[np.ndarray, " instances"],
    positive: Bool[np.ndarray, " instances"],
    thresholds: Sequence[float] | Float[np.ndarray, " thresholds"],
) -> Float[np.ndarray, "instances thresholds"]:
    """What each instance adds to the net benefit, which is the mean of these."""
    levels = check_thresholds(thresholds)
    worth = np.where(positive[:, None], 1.0, -levels / (1 - levels))
    return np.where(probability[:, None] >= levels, worth, 0.0)


def check_thresholds(
    thresholds: Sequence[float] | Float[np.ndarray, " thresholds"],
) -> Float[np.ndarray, " thresholds"]:
    """Return probabilities above 0 and below 1."""
    levels = check_numbers("thresholds", np.asarray(thresholds), ndim=1)
    for place in np.flatnonzero(~((levels > 0) & (levels < 1)))[:1]:
        raise InputError(f"thresholds[{place}] is {levels[place]:g}; thresholds are above 0 and below 1")
    return levels


def _from_mapping(costs: Mapping[Any, Any], names: list[str]) -> Float[np.ndarray, "classes classes"]:
    by_class: dict[str, dict[str, Any]] = {}
    for true, row in costs.items():
        _check_class(true, names)
        if not isinstance(row, Mapping):
            raise InputError(
                f"decision_costs[{true!r}] is {row!r}; give a mapping from each decision to its cost, as in "
                f"{{{names[0]!r}: {{{names[1]!r}: 1.0}}}}"
            )
        by_class[str(true)] = {str(decided): cost for decided, cost in row.items()}
        for decided in row:
            _check_class(decided, names)
    matrix = np.zeros((len(names), len(names)))
    for i, true in enumerate(names):
        for j, decided in enumerate(names):
            cost = by_class.get(true, {}).get(decided, 0.0 if i == j else None)
            if cost is None:
                raise InputError(
                    f"decision_costs does not say what it costs to decide {decided!r} where {true!r} is true"
                )
            if not is_real(cost):
                raise InputError(f"decision_costs[{true!r}][{decided!r}] is {cost!r}, not a number")
            matrix[i, j] = cost
    return matrix


def _check_class(name: Any, names: list[str]) -> None:
    if str(name) not in names:
        raise InputError(
            f"decision_costs: no class is called {str(name)!r}; {did_you_mean(str(name), names)}"
        )
