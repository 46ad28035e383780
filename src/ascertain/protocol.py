"""Protocols: how to read the paper where its text and its reference implementation, AFABench, differ."""

from dataclasses import dataclass
from typing import Literal

from ascertain.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Protocol:
    """How to read the paper where its text and its reference implementation differ.

    There are two: `PAPER`, the text (the default everywhere), and `AFABENCH`, the reference
    implementation, for comparing numbers. Settings of a method are not part of it.

    Examples
    --------
    >>> from ascertain import AFABENCH, PAPER
    >>> PAPER.affordability, AFABENCH.affordability  # may a policy choose what the budget does not pay?
    ('illegal', 'blind')
    """

    name: str

    affordability: Literal["illegal", "blind"]
    """How unaffordable actions are treated. `illegal`: they cannot be chosen, in training or evaluation.
    `blind`: the policy does not see the budget; a training episode ends after the action that exceeds it,
    an evaluation episode before."""

    greedy_horizon: Literal["affordable", "steps"]
    """How long GDFS and DIME acquire in training: while an action is affordable, or for a number of steps."""

    aaco_no_support: Literal["exclude", "infinite"]
    """AACO's training rows that share no feature with the query. `exclude`: they are not neighbours, unless
    no row shares any; then all rows are. `infinite`: their distance is infinite, so that the first k rows
    are the neighbours of the empty query."""

    aaco_groups: Literal["subsets", "one_step"]
    """What AACO searches if actions reveal several features: subsets of actions within the remaining budget,
    or single actions."""

    aaco_fallback: Literal["best_action", "lowest_index"]
    """What AACO acquires if stopping is best but not possible."""

    ol_availability: Literal["respect", "ignore"]
    """Whether OL's pretraining respects availability, or treats missing cells as observed zeros."""

    gdfs_cost: Literal["log", "log_then_divide"]
    """How GDFS weighs costs: logits - log c throughout, or logits - log c in training and logits / c when
    acting."""

    dime_shared_updates: Literal[1, 2]
    """How often DIME's optimiser updates the layers that its two networks share, per step."""

    standardise: Literal["train", "all"]
    """The rows that standardise a dataset (and impute it, where the reference imputes): the training split,
    or all rows where the reference uses them."""

    pretrain_mask: Literal["action", "column"]
    """What the methods' pretraining hides at random: all features of an action together, or single columns.
    The PVAE (also ODIN's) hides single columns under both."""

    ray_fit: Literal["damaged", "all"]
    """The cells that the recovery slope is fitted to: those with damage of at least 0.01, or all."""


PAPER = Protocol(
    name="paper",
    affordability="illegal",
    greedy_horizon="affordable",
    aaco_no_support="exclude",
    aaco_groups="subsets",
    aaco_fallback="best_action",
    ol_availability="respect",
    gdfs_cost="log",
    dime_shared_updates=1,
    standardise="train",
    pretrain_mask="action",
    ray_fit="damaged",
)
"""The paper as its text has it; see `Protocol`."""

AFABENCH = Protocol(
    name="afabench",
    affordability="blind",
    greedy_horizon="steps",
    aaco_no_support="infinite",
    aaco_groups="one_step",
    aaco_fallback="lowest_index",
    ol_availability="ignore",
    gdfs_cost="log_then_divide",
    dime_shared_updates=2,
    standardise="all",
    pretrain_mask="column",
    ray_fit="all",
)
"""The paper as its reference implementation does it; see `Protocol`."""


def protocol(name: str) -> Protocol:
    """Look up a protocol by its name, `paper` or `afabench`.

    Examples
    --------
    >>> protocol("afabench").name
    'afabench'
    """
    named = {each.name: each for each in (PAPER, AFABENCH)}
    if name not in named:
        raise InputError(f"no protocol is called {name!r}; {did_you_mean(name, named)}")
    return named[name]
