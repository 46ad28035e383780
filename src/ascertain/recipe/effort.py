"""How long to train on a user's own table.

The paper's settings are for tables of some thousand rows and a whole cluster. Here the number of updates is
bounded, so that the time to train grows with a table's columns but hardly with its rows.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from ascertain._core.training import Schedule
from ascertain.methods.registry import Method
from ascertain.predictors import masked_mlp as predictor
from ascertain.problem import Problem
from ascertain.protocol import Protocol
from ascertain.restoration import pvae

Effort = Literal["standard", "low"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)


class _Limits(NamedTuple):
    """Updates of the parameters, at most; the first is aimed at, however few rows there are."""

    predictor: int
    restorer: int
    pretraining: int  # of GDFS, DIME
    greedy: int  # of GDFS, DIME, at each of their temperatures or in all
    rounds: int  # of the pretraining of JAFA and OL, 100 batches each
    share: float  # of the batches of JAFA, OL and ODIN
    epochs: int  # on tables of few rows, whatever the number of updates


_LIMITS: dict[Effort, _Limits] = {
    "standard": _Limits(
        predictor=6000, restorer=4000, pretraining=3000, greedy=600, rounds=60, share=0.5, epochs=400
    ),
    "low": _Limits(predictor=600, restorer=400, pretraining=400, greedy=100, rounds=4, share=0.05, epochs=60),
}


def predictor_settings(effort: Effort, n_rows: int) -> predictor.Settings:
    """Give the settings of the predictor for so many training rows."""
    settings = predictor.Settings(batch_size=128, dropout=0.1)
    limits = _LIMITS[effort]
    return dataclasses.replace(settings, epochs=_epochs(limits.predictor, n_rows, 128, limits.epochs))


def pvae_settings(effort: Effort, n_rows: int) -> pvae.Settings:
    """Give the settings of the Partial VAE for so many training rows."""
    settings, limits = pvae.Settings(), _LIMITS[effort]
    batches = min(limits.restorer, limits.epochs * _per_epoch(n_rows, settings.schedule.batch_size))
    per_round = max(1, min(100, batches // 10))
    schedule = dataclasses.replace(
        settings.schedule,
        batches_per_round=per_round,
        max_rounds=math.ceil(batches / per_round),
        track_from=0,
        stop_from=batches // 4,
        patience=10,
    )
    return dataclasses.replace(settings, schedule=schedule)


def method_settings(method: Method, effort: Effort, problem: Problem, protocol: Protocol, n_rows: int) -> Any:
    """Give the settings of a method for so many training rows: its own, with less to do.

    Numbers of epochs, batches and rounds are known by their names, so that this holds for the methods of
    other packages too, where they are dataclasses with such names.
    """
    settings = method.completed(method.settings_for(problem, protocol, None), problem, protocol)
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        return settings
    limits = _LIMITS[effort]
    batch_size = getattr(settings, "batch_size", 128)
    shorter: dict[str, Callable[[Any], Any]] = {
        "epochs": lambda epochs: min(epochs, _epochs(limits.greedy, n_rows, batch_size, limits.epochs)),
        "pretraining_epochs": lambda epochs: min(
            epochs, _epochs(limits.pretraining, n_rows, batch_size, limits.epochs)
        ),
        "batches": lambda batches: max(1, round(limits.share * batches)),
        "pretraining": lambda schedule: (
            dataclasses.replace(schedule, max_rounds=min(schedule.max_rounds, limits.rounds))
            if isinstance(schedule, Schedule)
            else schedule
        ),
        "vae": lambda _: pvae_settings(effort, n_rows),
    }
    changes = {
        field.name: shorter[field.name](getattr(settings, field.name))
        for field in dataclasses.fields(settings)
        if field.name in shorter
    }
    return dataclasses.replace(settings, **changes)


def _epochs(updates: int, n_rows: int, batch_size: int, most: int) -> int:
    """Give the number of epochs that come to so many updates: some at least, and not too many."""
    return min(most, max(3, math.ceil(updates / _per_epoch(n_rows, batch_size))))


def _per_epoch(n_rows: int, batch_size: int) -> int:
    return math.ceil(n_rows / batch_size)
