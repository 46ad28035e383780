"""What a prediction is worth once the class is known: larger is better."""

from typing import TypeVar

import numpy as np
from jaxtyping import Array, Float, Int

from ascertain.decisions import decide

AnyArray = TypeVar("AnyArray", np.ndarray, Array)  # of one library: what comes in is what comes out


def worth(
    probabilities: Float[AnyArray, "points classes"],
    y: Int[AnyArray, " points"],
    decision_costs: Float[AnyArray, "classes classes"] | None = None,
) -> Float[AnyArray, " points"]:
    """Minus what the decision costs, if that is known; else 1 less half the Brier score.

    Unlike accuracy, the Brier score tells policies apart where one class is rare, and unlike the log loss it
    is bounded. Works on arrays of NumPy and of JAX, also in `jit`.
    """
    xp = probabilities.__array_namespace__()
    if decision_costs is not None:
        return -decision_costs[y, decide(probabilities, decision_costs)]
    error = probabilities - (xp.arange(probabilities.shape[1])[None] == y[:, None])
    return xp.asarray(1 - xp.sum(error**2, axis=1) / 2)
