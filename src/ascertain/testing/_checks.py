"""The promises of every method, one function each, and two ways to check them.

A method is fitted to three small problems side by side, as in a study: a plain one, one with groups and
unequal costs, and one whose rows have holes; in some of its rows nothing can be acquired. Under the paper's
protocol some of their actions share the cost of a set-up.
"""

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain._core.checks import spending_limit
from ascertain.methods._registry import State, find
from ascertain.models._saving import SavedModel, hash_table, load_model, save_model
from ascertain.policy import Policy
from ascertain.protocol import AFABENCH, PAPER, Protocol
from ascertain.testing._cases import (
    FEATURES,
    PREDICTOR,
    TRAIN_ROWS,
    VALID_ROWS,
    TrialCase,
    at_prices,
    with_other_availability,
    with_other_hidden_values,
    with_other_unmeasured_values,
)
from ascertain.testing._trial import NAMES, Look, Trial, bits

_DRAWS = re.compile(r"random_bits|random_seed|threefry2x32|rng_bit_generator")


def check_method(
    method: str | Callable[..., Policy],
    *,
    settings: Any = None,
    state: State | None = None,
    protocol: Protocol | None = None,
    optimise: bool = False,
) -> None:
    """Raise an `AssertionError` that says which promise a method breaks, and how, if it breaks one.

    Parameters
    ----------
    method
        The name of a registered method, or the function that `register` decorates.
    settings
        The method's settings; by default its own for a small problem. Shorten the training here: no promise
        depends on its length.
    state, protocol
        The only state variant or protocol to check; by default all.
    optimise
        Whether to compile as for real use, which takes several times as long.

    Examples
    --------
    >>> from ascertain import PAPER
    >>> from ascertain.testing import check_method
    >>> check_method("sequential", protocol=PAPER)
    """
    given: dict[str, Any] = {"settings": settings, "state": state, "protocol": protocol}
    for _, check in method_checks(method, **given, optimise=optimise):
        check()


def method_checks(
    method: str | Callable[..., Policy],
    *,
    settings: Any = None,
    state: State | None = None,
    protocol: Protocol | None = None,
    optimise: bool = False,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """All checks with their names, to run them one by one in a test framework.

    Takes what `check_method` takes. With pytest, decorate a test that calls `check()` with
    `@pytest.mark.parametrize(("name", "check"), method_checks("mine"))`. The checks of one state variant
    and protocol share what is compiled and fitted, so that all take little longer than one.

    Examples
    --------
    >>> from ascertain.testing import method_checks
    >>> next(method_checks("stop"))[0]
    's-paper-settings_are_frozen'
    """
    found = find(method)
    for each_state in found.states if state is None else (state,):
        found.check_state(each_state)
        for each_protocol in (PAPER, AFABENCH) if protocol is None else (protocol,):
            # Every method meets problems with as many actions as features, and with fewer.
            n_actions = FEATURES if each_protocol.affordability == "illegal" else FEATURES - 1
            yield from trial_checks(Trial(found, each_state, each_protocol, settings, n_actions, optimise))


def trial_checks(trial: Trial) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of one trial with their names."""
    for check in OF_POLICIES + OF_FITTING:
        yield f"{trial.state}-{trial.protocol.name}-{check.__name__}", partial(check, trial)


def settings_are_frozen(trial: Trial) -> None:
    """Check that settings can be compared, and cannot be changed: programs are compiled for them."""
    kind = type(trial.method.settings())
    name = kind.__name__
    for settings in (trial.method.settings(), trial.settings):
        given = type(settings).__name__
        trial.expect(type(settings) is kind, f"settings must be a {name}, as registered, but are a {given}")
    parameters = getattr(kind, "__dataclass_params__", None)
    frozen = parameters is not None and parameters.frozen
    trial.expect(frozen, f"settings must be a frozen dataclass, which {name} is not")
    try:
        hash(trial.settings)
    except TypeError as error:
        trial.fail(f"settings must be hashable, but {name} is not", error)
    equal = trial.settings == copy.copy(trial.settings)
    trial.expect(equal, f"settings of the same values must be equal, but those of {name} are not")


def fit_gives_numbers(trial: Trial) -> None:
    """Check that fitting can be compiled and vmapped, and gives no NaN, whatever cells the rows lack."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(trial.policies):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            for place in np.flatnonzero(np.isnan(leaf).reshape(len(NAMES), -1).any(axis=1))[:1]:
                trial.fail(
                    "fitting must give numbers whatever the rows lack, but with the "
                    f"{NAMES[place]} table policy{jax.tree_util.keystr(path)} holds NaN"
                )


def scores_are_numbers(trial: Trial) -> None:
    """Check that no score is NaN, and that only stopping may be infinitely good."""
    scores = trial.seen.scores
    for case, row, choice in np.argwhere(np.isnan(scores))[:1].tolist():
        trial.fail(f"scores are never NaN, but that of choice {choice} is in {_situation(trial, case, row)}")
    for case, row, action in np.argwhere(np.isposinf(scores[..., 1:]))[:1].tolist():
        situation = _situation(trial, case, row)
        trial.fail(f"no action scores plus infinity, but that of action {action} does in {situation}")


def only_legal_actions_are_taken(trial: Trial) -> None:
    """Check that only available actions are acquired."""
    for route in _routes(trial):
        trial.expect(
            set(route.taken) <= route.supported,
            f"only available actions may be taken, but in {route.row}, which supports "
            f"{sorted(route.supported)}, it takes {route.taken}",
        )


def nothing_is_acquired_twice(trial: Trial) -> None:
    """Check that no row's actions repeat."""
    for route in _routes(trial):
        once = len(set(route.taken)) == len(route.taken)
        trial.expect(once, f"nothing may be acquired twice, but in {route.row} it takes {route.taken}")


def the_budget_is_kept(trial: Trial) -> None:
    """Check that no row's actions cost more than the budget."""
    for route in _routes(trial):
        cost = route.cost(route.taken)
        trial.expect(
            route.fits(cost),
            f"the budget of {route.budget:g} may not be exceeded, but in {route.row} it takes {route.taken}, "
            f"which cost {cost:g}",
        )


def barren_rows_are_left_alone(trial: Trial) -> None:
    """Check that nothing is acquired for rows where nothing is legal, which are predicted from nothing."""
    barren = [r for r in _routes(trial) if not any(r.fits(r.cost([action])) for action in r.supported)]
    assert len(barren) >= 2, "the incomplete case has such rows"
    for route in barren:
        broken = f"nothing can be acquired in {route.row}, but it takes {route.taken}"
        trial.expect(not route.taken, broken)


def availability_is_seen_only_if_declared(trial: Trial) -> None:
    """Check that `s` policies are blind to what is available, and that `sm` policies see it."""
    after = trial.look(trial.policies, [with_other_availability(each) for each in trial.probes]).scores
    changed = _differ(trial.seen.scores, after)
    if trial.state == "sm":
        broken = "policies of the state variant sm see what is available, but the scores never depend on it"
        trial.expect(changed.any(), broken)
        return
    for case, row in np.argwhere(changed.any(axis=2))[:1].tolist():
        trial.fail(
            "policies of the state variant s are blind to what is available, but scores depend on it in "
            f"{_situation(trial, case, row)}"
        )


def hidden_values_do_not_matter(trial: Trial) -> None:
    """Check that scores do not depend on values that have not been acquired."""
    after = trial.look(trial.policies, [with_other_hidden_values(each) for each in trial.probes]).scores
    for case, row in np.argwhere(_differ(trial.seen.scores, after).any(axis=2))[:1].tolist():
        trial.fail(
            "values that are not observed may not be looked at, but scores depend on them in "
            f"{_situation(trial, case, row)}"
        )


def rows_are_kept_only_if_declared(trial: Trial) -> None:
    """Check that a policy with an entry for each training row is registered with `keeps_rows`."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(trial.policies):
        trial.expect(
            trial.method.keeps_rows or TRAIN_ROWS not in leaf.shape[1:],
            "a policy that holds training rows must be registered with keeps_rows=True, but that is not, and "
            f"policy{jax.tree_util.keystr(path)} has an entry for each row",
        )


def saving_keeps_it(trial: Trial) -> None:
    """Check that a policy that is saved and loaded gives the same scores to the last bit."""
    if not trial.thorough:
        return
    place = NAMES.index("incomplete")
    case, policy = trial.cases[place], trial.policy(trial.policies, place)
    model = SavedModel(
        method=trial.method.name,
        policy=policy,
        problem=case.problem,
        settings=trial.settings,
        state=trial.state,
        protocol=trial.protocol,
        train_rows=TRAIN_ROWS,
        valid_rows=VALID_ROWS,
        data_hash=hash_table(case.train),
        seed=place,
        predictor=case.predictor,
        predictor_settings=PREDICTOR,
    )
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*training rows themselves", UserWarning)
        try:
            save_model(Path(folder), model)
            loaded = load_model(Path(folder)).policy
        except Exception as error:  # whatever a policy may hold
            trial.fail("it must be possible to save and load a fitted policy, but that fails", error)
    back = jax.tree.map(  # in the place of the incomplete case, which is the last
        lambda many, one: np.concatenate([np.asarray(many)[:place], np.asarray(one)[None]]),
        trial.policies,
        eqx.filter(loaded, eqx.is_array),
    )
    broken = "a policy must score the same after it was saved and loaded, but does not"
    trial.expect(not _differ(trial.look(back).scores, trial.seen.scores).any(), broken)


def unmeasured_values_do_not_matter(trial: Trial) -> None:
    """Check that training never looks into the holes of a table, as by actions that a row does not support.

    The reference does, in one place, so this is a promise of the paper's protocol only.
    """
    if trial.protocol.ol_availability == "ignore":
        return
    plain, grouped, incomplete = trial.cases
    policies = trial.fit([plain, grouped, with_other_unmeasured_values(incomplete)])
    trial.expect(
        not _differ(trial.seen.scores, trial.look(policies).scores).any(),
        "cells that a training table lacks may not be looked at, but what is in them changes the scores",
    )


def prices_of_any_size_work(trial: Trial) -> None:
    """Check that neither free nor very dear actions give scores that are no numbers, or break the budget."""
    free, dear = np.zeros(FEATURES), np.full(FEATURES, 1e30)
    both = np.array([0.0, 1e30, 1e-30, 1.0, 1e10, 1e-10])
    terms = ((free, 0.0, 0.0), (dear, 1e29, 2.2e30), (both, 1e-20, 2.0))
    cases = [at_prices(case, *each) for case, each in zip(trial.cases, terms, strict=True)]
    seen = trial.look(trial.fit(cases), cases=cases)
    for place, prices in enumerate(("free", "very dear", "free and very dear")):
        scores = seen.scores[place]
        trial.expect(
            not np.isnan(scores).any() and not np.isposinf(scores[:, 1:]).any(),
            f"scores must be numbers whatever the prices, but with {prices} actions some are not",
        )
    for route in _routes(trial, cases, seen):
        trial.expect(
            route.fits(route.cost(route.taken)),
            f"the budget of {route.budget:g} may not be exceeded, but it takes {route.taken} at prices of "
            f"{route.costs}",
        )


def fitting_is_deterministic(trial: Trial) -> None:
    """Check that the same key and data give the same policy, also if `fit` is traced anew."""
    again = trial.fit(trial.cases)
    broken = "the same key must give the same policy, but fitting once more gives another one"
    trial.expect(bits(again) == bits(trial.policies), broken)
    if not trial.thorough:
        return
    twin = Trial(trial.method, trial.state, trial.protocol, trial.settings, trial.n_actions, trial.optimise)
    trial.expect(
        twin.program == trial.program,
        "the same key must give the same policy, but tracing fit once more gives another program; does it "
        "draw random numbers by NumPy, or keep something between calls?",
    )


def randomness_comes_from_the_key(trial: Trial) -> None:
    """Check that another key gives another policy, if random numbers are drawn at all."""
    text, _ = trial.program
    others = trial.fit([case._replace(key=jr.fold_in(case.key, 1)) for case in trial.cases])
    if bits(others) == bits(trial.policies) and _DRAWS.search(text):
        trial.expect(
            _depends_on_key(trial),
            "random numbers must come from the key, but it draws some, and another key gives the same policy",
        )


def companions_do_not_matter(trial: Trial) -> None:
    """Check that a policy is the same to the last bit, whatever is fitted beside it and in which place."""
    plain, grouped, incomplete = trial.cases
    one, two = trial.others
    moved = trial.fit([incomplete, plain, grouped])
    between = trial.fit([two, grouped, one])
    for policies, place, case in ((moved, 1, 0), (moved, 2, 1), (moved, 0, 2), (between, 1, 1)):
        trial.expect(
            bits(trial.policy(policies, place)) == bits(trial.policy(trial.policies, case)),
            "what is fitted side by side must be independent, but the policy of the "
            f"{NAMES[case]} case depends on the place or the companions that it has",
        )


def one_program_serves_all(trial: Trial) -> None:
    """Check that nothing is compiled anew for other data, costs and budgets, and settings of equal value."""
    one, two = trial.others
    trial.fit(trial.cases)
    trial.fit([two, one, trial.cases[0]], copy.copy(trial.settings))
    trial.expect(
        trial.traces == 1,
        f"there must be one compilation per shape, but fit was traced {trial.traces} times for tables of the "
        "same shape; settings must be equal if their values are",
    )


OF_POLICIES: tuple[Callable[[Trial], None], ...] = (
    settings_are_frozen,
    fit_gives_numbers,
    scores_are_numbers,
    only_legal_actions_are_taken,
    nothing_is_acquired_twice,
    the_budget_is_kept,
    barren_rows_are_left_alone,
    availability_is_seen_only_if_declared,
    hidden_values_do_not_matter,
    rows_are_kept_only_if_declared,
    saving_keeps_it,
)
OF_FITTING: tuple[Callable[[Trial], None], ...] = (
    unmeasured_values_do_not_matter,
    prices_of_any_size_work,
    fitting_is_deterministic,
    randomness_comes_from_the_key,
    companions_do_not_matter,
    one_program_serves_all,
)


class _Route(NamedTuple):
    """The actions taken in a row, and those it supports."""

    row: str  # for messages
    taken: list[int]
    supported: set[int]
    costs: list[float]
    setups: list[tuple[float, set[int]]]  # their prices, and the actions that need them
    budget: float

    def cost(self, actions: list[int]) -> float:
        setups = sum(price for price, sharing in self.setups if sharing & set(actions))
        return sum(self.costs[action] for action in actions) + setups

    def fits(self, cost: float) -> bool:
        return cost <= spending_limit(self.budget)


def _routes(
    trial: Trial, cases: Sequence[TrialCase] | None = None, seen: Look | None = None
) -> Iterator[_Route]:
    """All episodes, read by plain loops that share no code with the rollouts."""
    cases, seen = cases or trial.cases, seen or trial.seen
    for name, case, choices in zip(NAMES, cases, seen.episodes.choices, strict=True):
        reveals, available = np.asarray(case.problem.reveals), np.asarray(case.train.available)
        costs, budget = np.asarray(case.problem.costs).tolist(), float(case.problem.budget)
        setups: list[tuple[float, set[int]]] = []
        if case.problem.setup_costs is not None:
            needs = np.asarray(case.problem.needs).T
            prices = np.asarray(case.problem.setup_costs).tolist()
            setups = [(price, {*np.flatnonzero(row)}) for price, row in zip(prices, needs, strict=True)]
        for row in range(TRAIN_ROWS):
            supported = {a for a, needed in enumerate(reveals) if available[row][needed].all()}
            taken = [int(choice) - 1 for choice in choices[row] if choice]
            yield _Route(f"row {row} of the {name} table", taken, supported, costs, setups, budget)


def _differ(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Where scores are not exactly the same."""
    return ~((some == others) | (np.isnan(some) & np.isnan(others)))


def _situation(trial: Trial, case: int, row: int) -> str:
    acquired = np.flatnonzero(trial.probes[case].acquired[row]).tolist()
    return f"a row of the {NAMES[case]} case with the actions {acquired} acquired"


def _depends_on_key(trial: Trial) -> bool:
    """Whether the policy can depend on the key: whether it is batched under `vmap` over keys alone."""
    case = trial.cases[0]

    def arrays(key: Any) -> Any:
        return eqx.filter(trial.fit_one(trial.settings, case._replace(key=key)), eqx.is_array)

    try:
        jax.eval_shape(jax.vmap(arrays, out_axes=None), jr.split(case.key, 2))
    except ValueError:  # an output is batched, although it was not to be
        return True
    return False
