"""Every method and baseline, in both state variants and under both protocols, keeps every promise.

Compiling takes nearly all the time. So `make test` trains most methods once, under the paper's protocol, and
one that sees availability under the other protocol; `make test-full` trains all in every combination.
"""

import pytest

from ascertain import AFABENCH, PAPER, Protocol
from ascertain.methods import get, names
from ascertain.methods._registry import State
from ascertain.testing import check_method
from ascertain.testing._cases import FEATURES
from ascertain.testing._checks import companions_do_not_matter, trial_checks
from ascertain.testing._trial import Trial

from .short_settings import SHORT

ALL = [
    (name, state, protocol)
    for name in names()
    for state in get(name).states
    for protocol in (PAPER, AFABENCH)
]
# These learn like one of the others, and have tests of their own.
LEFT_TO_TEST_FULL = {"aaco_nn", "concrete", "cwcf", "dime", "eddi", "odin", "odin_mb", "ol", "sefa"}
LEFT_TO_TEST_FULL |= {"permutation"}
PAPERS = ("aaco", "dime", "gdfs", "jafa", "odin", "ol")  # whose studies must not depend on chunks
OTHERWISE: dict[str, tuple[State, Protocol]] = {"jafa": ("sm", AFABENCH)}
FIRST = [
    (name, *OTHERWISE.get(name, (get(name).states[0], PAPER)))
    for name in names()
    if name not in LEFT_TO_TEST_FULL
]
SECOND = [each for each in ALL if each not in FIRST]


def label(value: object) -> str:
    return value.name if isinstance(value, Protocol) else str(value)


def test_the_battery_covers_all_methods_states_and_protocols() -> None:
    assert {name for name, _, _ in FIRST} == {*names()} - LEFT_TO_TEST_FULL  # ours, and whatever is added
    assert {state for _, state, _ in FIRST} == {"s", "sm"}
    assert {protocol for _, _, protocol in FIRST} == {PAPER, AFABENCH}
    paper = {"aaco", "dime", "gdfs", "jafa", "odin", "ol"}
    assert {name for name, _, _ in ALL} >= paper | {"random", "sequential", "static", "stop"}


@pytest.mark.parametrize(("name", "state", "protocol"), FIRST, ids=label)
def test_promises(name: str, state: State, protocol: Protocol) -> None:
    check_method(name, settings=SHORT.get(name), state=state, protocol=protocol)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "state", "protocol"), SECOND, ids=label)
def test_promises_of_the_other_combinations(name: str, state: State, protocol: Protocol) -> None:
    check_method(name, settings=SHORT.get(name), state=state, protocol=protocol)


@pytest.mark.slow
def test_promises_of_the_references_subset_search() -> None:
    """Under its protocol AACO searches single actions where some are groups, else subsets."""
    for _, check in trial_checks(Trial(get("aaco"), "s", AFABENCH, SHORT["aaco"], n_actions=FEATURES)):
        check()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAPERS, "planner"])
def test_companions_do_not_matter_to_optimised_programs(name: str) -> None:
    trial = Trial(get(name), get(name).states[-1], PAPER, SHORT.get(name), FEATURES, optimise=True)
    companions_do_not_matter(trial)
