"""Every method and baseline, in both state variants and under both protocols, keeps every promise.

Compiling takes nearly all the time. So methods with two state variants are trained in one of them under each
protocol, and only traced in the other two combinations; `make test-full` trains them there, too.
"""

from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
import pytest

from ascertain import AFABENCH, PAPER, Protocol
from ascertain.methods import get, names
from ascertain.methods._registry import State
from ascertain.testing import check_method
from ascertain.testing._cases import FEATURES
from ascertain.testing._checks import OF_POLICIES, companions_do_not_matter, trial_checks
from ascertain.testing._trial import Trial, stack

from .short_settings import SHORT

ALL = [
    (name, state, protocol)
    for name in names()
    for state in get(name).states
    for protocol in (PAPER, AFABENCH)
]
SECOND = [
    each for each in ALL if get(each[0]).states == ("s", "sm") and (each[1] == "sm") == (each[2] is PAPER)
]
FIRST = [each for each in ALL if each not in SECOND]


def label(value: object) -> str:
    return value.name if isinstance(value, Protocol) else str(value)


def test_the_battery_covers_all_methods_states_and_protocols() -> None:
    for name in names():  # ours, and whatever is added
        assert {state for each, state, _ in FIRST if each == name} == set(get(name).states)
        assert {protocol for each, _, protocol in FIRST if each == name} == {PAPER, AFABENCH}
    paper = {"aaco", "dime", "gdfs", "jafa", "odin", "ol"}
    assert {name for name, _, _ in ALL} >= paper | {"random", "sequential", "static", "stop"}
    assert {name for name, _, _ in SECOND} >= {"jafa", "odin", "ol"}


@pytest.mark.parametrize(("name", "state", "protocol"), FIRST, ids=label)
def test_promises(name: str, state: State, protocol: Protocol) -> None:
    check_method(name, settings=SHORT.get(name), state=state, protocol=protocol)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "state", "protocol"), SECOND, ids=label)
def test_promises_of_the_other_combinations(name: str, state: State, protocol: Protocol) -> None:
    check_method(name, settings=SHORT.get(name), state=state, protocol=protocol)


class Untrained(Trial):
    """Has policies of the structure that fitting gives, with any numbers in it."""

    @cached_property
    def policies(self) -> Any:
        structure = jax.eval_shape(partial(self._fit_all, self.settings), stack(self.cases))
        rng = np.random.default_rng(0)
        return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), structure)


@pytest.mark.parametrize(("name", "state", "protocol"), SECOND, ids=label)
def test_promises_that_need_no_training(name: str, state: State, protocol: Protocol) -> None:
    trial = Untrained(get(name), state, protocol, SHORT.get(name), FEATURES - 1)
    for check in OF_POLICIES:
        check(trial)
    assert trial.traces == 1


def test_promises_of_the_references_subset_search() -> None:
    """Under its protocol AACO searches single actions where some are groups, else subsets."""
    for _, check in trial_checks(Trial(get("aaco"), "s", AFABENCH, SHORT["aaco"], n_actions=FEATURES)):
        check()


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_companions_do_not_matter_to_optimised_programs(name: str) -> None:
    trial = Trial(get(name), get(name).states[-1], PAPER, SHORT.get(name), FEATURES, optimise=True)
    companions_do_not_matter(trial)
