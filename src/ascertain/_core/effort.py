"""How long to train on a user's own table.

The paper's settings are for tables of some thousand rows and a whole cluster. An effort bounds the number of
updates, so that the training time grows with a table's columns but hardly with its rows. Settings of a part
have a method `shortened(effort, n_rows)`, which returns them with shorter training.
"""

import math
from dataclasses import dataclass
from typing import Any

from ascertain.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Effort:
    """The most updates of the parameters, by kind of training."""

    predictor_updates: int
    restorer_updates: int
    pretraining_updates: int
    policy_updates: int  # of greedy selectors, at each temperature
    pretraining_rounds: int  # of reinforcement learners, 100 batches each
    share_of_batches: float  # of reinforcement learners
    planner_updates: int
    most_epochs: int  # on tables of few rows, whatever the number of updates

    def epochs(self, updates: int, n_rows: int, batch_size: int) -> int:
        """The number of epochs for a number of updates: at least three, at most `most_epochs`."""
        return min(self.most_epochs, max(3, math.ceil(updates / batches_per_epoch(n_rows, batch_size))))


EFFORTS = {
    "standard": Effort(6000, 4000, 3000, 600, 60, 0.5, 3000, 400),
    "low": Effort(2000, 400, 400, 100, 4, 0.05, 2000, 60),
}


def effort(name: str) -> Effort:
    """Look up an effort by its name."""
    if name not in EFFORTS:
        raise InputError(f"no effort is called {name!r}; {did_you_mean(name, EFFORTS)}")
    return EFFORTS[name]


def shortened(settings: Any, effort: Effort, n_rows: int) -> Any:
    """Settings for an effort and a number of rows; those without a method `shortened` are not changed."""
    shorten = getattr(settings, "shortened", None)
    return settings if shorten is None else shorten(effort, n_rows)


def batches_per_epoch(n_rows: int, batch_size: int) -> int:
    """The number of batches, the last of which may be short."""
    return math.ceil(n_rows / batch_size)
