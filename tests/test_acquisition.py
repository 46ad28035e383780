"""Rollouts against a second, slow reading of the rules: plain loops over rows, sets and exact sums."""

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import AFABENCH, PAPER, Problem, Protocol
from ascertain.acquisition import Episodes, acquire, choice_costs, choose, legal_actions
from ascertain.policy import Policy

from .acquisition_cases import ACTIONS, FAST, PROTOCOLS, ROWS, Case, cases, code, codes, mask, simple

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")

legal_of = jax.jit(legal_actions, static_argnums=1, compiler_options=FAST)
acquire_all = jax.jit(acquire, static_argnums=(4, 5), static_argnames=("hard",), compiler_options=FAST)

# Legal actions.


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_legal_actions_are_left_available_and_under_the_paper_affordable(
    case: Case, protocol: Protocol
) -> None:
    states = [{a for a in range(ACTIONS) if number >> a & 1} for number in range(2**ACTIONS)]
    acquired = jnp.asarray([[mask(s, ACTIONS)] * ROWS for s in states])
    available = jnp.asarray([[mask(case.readable(row), ACTIONS) for row in range(ROWS)]] * len(states))
    found = legal_of(case.problem, protocol, acquired, available)
    expected = [[mask(case.legal(row, state, protocol), ACTIONS) for row in range(ROWS)] for state in states]
    np.testing.assert_array_equal(found, expected)


def test_a_budget_that_is_met_but_for_rounding_is_met() -> None:
    """0.1 + 0.2 fits 0.3, and sums of CUBE-NUC's thirds fit its budgets of 2 and 4."""
    tenths = Problem(np.eye(3), [0.1, 0.2, 0.3], budget=0.3, n_classes=2)
    everything = jnp.ones(3, bool)
    legal = legal_actions(tenths, PAPER, jnp.asarray([True, False, False]), everything)
    assert legal.tolist() == [False, True, False]

    thirds = [Fraction(2, 3)] * 5 + [Fraction(4, 3)] * 5
    for budget in (2, 4):
        problem = Problem(np.eye(10), [float(c) for c in thirds], budget, n_classes=2)
        states, expected = [], []
        for size in range(4):
            for state in combinations(range(10), size):
                spent = sum(thirds[a] for a in state)
                states.append(mask(state, 10))
                expected.append([a not in state and spent + thirds[a] <= budget for a in range(10)])
        acquired = jnp.asarray(states)
        found = legal_actions(problem, PAPER, acquired, jnp.ones_like(acquired))
        np.testing.assert_array_equal(found, expected)


def test_what_exceeds_the_tolerance_is_not_affordable() -> None:
    for budget in (0.5, 1.0, 8.0, 1000.0):
        room = 1e-6 * max(1.0, budget)
        problem = Problem(np.eye(3), [budget, budget + 0.5 * room, budget + 2 * room], budget, n_classes=2)
        legal = legal_actions(problem, PAPER, jnp.zeros(3, bool), jnp.ones(3, bool))
        assert legal.tolist() == [True, True, False], budget


# Choosing.


@pytest.mark.parametrize(
    ("scores", "legal", "expected"),
    [
        ([-INF, 1, 3, 2], [1, 1, 1], 2),  # the best
        ([-INF, 1, 3, 2], [1, 0, 1], 3),  # the best that is legal
        ([-INF, 3, 3, 3], [0, 1, 1], 2),  # the first of equals
        ([3, 3, 3, 3], [1, 1, 1], 0),  # to stop comes first, too
        ([5, 1, 3, 2], [1, 1, 1], 0),  # stopping pays
        ([2.5, 1, 3, 2], [1, 0, 1], 0),  # more than what is legal
        ([-INF, 1, 3, 2], [0, 0, 0], 0),  # nothing is legal
        ([-INF, -INF, -INF, -INF], [0, 1, 1], 2),  # who never stops takes what scores nothing
        ([-1e38, -INF, -INF, -INF], [1, 1, 1], 0),  # but who may stop would rather do so
        ([-INF, -INF, -1e38, -INF], [1, 1, 1], 2),
        ([-INF, INF, 1, 1], [0, 1, 1], 2),  # however good, illegal is illegal
        ([-INF, 1, INF, 1], [1, 1, 1], 2),
    ],
)
def test_the_best_legal_choice_is_taken(scores: list[float], legal: list[int], expected: int) -> None:
    assert int(choose(jnp.asarray(scores, jnp.float32), jnp.asarray(legal, bool))) == expected


def test_choices_are_made_row_by_row() -> None:
    scores = jnp.asarray([[[-INF, 1.0, 2.0], [0.0, -1.0, -2.0]], [[-INF, 1.0, 2.0], [-INF, 1.0, 1.0]]])
    legal = jnp.asarray([[[True, False], [True, True]], [[True, True], [True, True]]])
    assert choose(scores, legal).tolist() == [[1, 0], [2, 1]]


# Rollouts.


class Scripted(Policy):
    """Looks its scores up by the row and a number made of all that it is given but values and key."""

    scores: Float[Array, "instances situations choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        del key
        situation = codes(acquired) + 3 * codes(observed) + 5 * codes(available)
        rows = jnp.arange(x.shape[0])
        return self.scores[rows, situation % self.scores.shape[1]]


def script(seed: int, shape: tuple[int, ...], *, stops: bool) -> np.ndarray:
    """Draw scores with many ties; minus infinity among them."""
    scores = np.random.default_rng([seed, 2]).choice([-np.inf, -1.0, 0.0, 1.0, 2.0], size=shape)
    if not stops:
        scores[..., 0] = -np.inf
    return scores


class Episode(NamedTuple):
    choices: list[int]
    spent: list[float]
    forced: bool


def slow_episode(case: Case, scores: np.ndarray, row: int, protocol: Protocol, hard: bool = True) -> Episode:
    """Acquire for one row until the end, however many steps it takes."""
    acquired: list[int] = []
    spent: list[float] = []
    while True:
        situation = code(acquired) + 3 * code(case.observed(acquired)) + 5 * code(case.readable(row))
        here = scores[row, situation % scores.shape[1]]
        options = sorted(case.legal(row, set(acquired), protocol, hard))
        if not options:
            return Episode([1 + a for a in acquired], spent, forced=False)
        best = options[0]
        for action in options:
            if here[1 + action] > here[1 + best]:
                best = action
        if here[0] > -np.inf and here[0] >= here[1 + best]:
            return Episode([1 + a for a in acquired], spent, forced=False)
        if hard and not case.fits([*acquired, best]):
            assert protocol is AFABENCH
            return Episode([1 + a for a in acquired], spent, forced=True)
        acquired.append(best)
        spent.append(sum(case.costs[a] for a in acquired))


def check_episodes(found: Episodes, expected: list[Episode], n_steps: int) -> None:
    for row, episode in enumerate(expected):
        over = n_steps - len(episode.choices)
        assert over >= 0, "the steps that were asked for do not cover the budget"
        assert found.choices[row].tolist() == episode.choices + [0] * over
        total = episode.spent[-1] if episode.spent else 0.0
        assert found.spent[row].tolist() == episode.spent + [total] * over
        assert bool(found.forced_stop[row]) == episode.forced


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
@given(case=cases(), stops=st.booleans())
@settings(max_examples=40, deadline=None)
def test_episodes_go_as_in_plain_loops(case: Case, protocol: Protocol, stops: bool, hard: bool) -> None:
    scores = script(case.seed, (ROWS, 64, 1 + ACTIONS), stops=stops)
    policy = Scripted(jnp.asarray(scores, jnp.float32))
    found = acquire_all(jr.key(0), policy, case.problem, case.table, protocol, ACTIONS, hard=hard)
    expected = [slow_episode(case, scores, row, protocol, hard) for row in range(ROWS)]
    check_episodes(found, expected, ACTIONS)
    for row in range(ROWS):  # the loops themselves keep the promises of every protocol
        taken = [choice - 1 for choice in found.choices[row].tolist() if choice]
        assert len(set(taken)) == len(taken), "nothing is acquired twice"
        assert set(taken) <= case.readable(row)
        assert not hard or case.fits(taken), "the budget is never exceeded"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_as_many_steps_as_the_budget_can_pay_are_enough(case: Case, protocol: Protocol) -> None:
    """Also to tell who was forced to stop, for policies that do not stop by themselves."""
    scores = script(case.seed, (ROWS, 64, 1 + ACTIONS), stops=False)
    policy = Scripted(jnp.asarray(scores, jnp.float32))
    n_steps = case.problem.most_acquisitions()
    found = acquire_all(jr.key(0), policy, case.problem, case.table, protocol, n_steps)
    check_episodes(found, [slow_episode(case, scores, row, protocol) for row in range(ROWS)], n_steps)


class Favours(Policy):
    """Scores the actions the same everywhere."""

    scores: Float[Array, " choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        return jnp.broadcast_to(self.scores[None], (x.shape[0], len(self.scores)))


@pytest.mark.parametrize(
    ("protocol", "choices", "spent", "forced"),
    [
        (PAPER, [2, 3, 0], [2.0, 3.0, 3.0], False),  # the dearest first, then what still fits
        (
            AFABENCH,
            [2, 0, 0],
            [2.0, 2.0, 2.0],
            True,
        ),  # no cheaper one is tried
    ],
    ids=["paper", "afabench"],
)
def test_an_unaffordable_choice_is_illegal_or_the_last(
    protocol: Protocol, choices: list[int], spent: list[float], forced: bool
) -> None:
    case = simple([2.0, 2.0, 1.0], budget=3.0)
    policy = Favours(jnp.asarray([-INF, 2.0, 3.0, 1.0]))
    found = acquire(jr.key(0), policy, case.problem, case.table, protocol, n_steps=3)
    assert found.choices.tolist() == [choices]
    assert found.spent.tolist() == [spent]
    assert found.forced_stop.tolist() == [forced]


def test_a_first_choice_beyond_the_budget_acquires_nothing_in_the_reference() -> None:
    """As with Heart's dollar costs (evaluation.md 2.1)."""
    case = simple([102.9, 1.0], budget=7.0)
    policy = Favours(jnp.asarray([-INF, 1.0, 0.0]))
    found = acquire(jr.key(0), policy, case.problem, case.table, AFABENCH, n_steps=1)
    assert found.choices.tolist() == [[0]]
    assert found.spent.tolist() == [[0.0]]
    assert found.forced_stop.tolist() == [True]


def test_rows_that_support_nothing_end_at_once_and_are_not_forced() -> None:
    case = simple([1.0, 1.0], budget=1.0, available=[[0, 0], [0, 1], [1, 1]])
    policy = Favours(jnp.asarray([-INF, 1.0, 0.0]))
    for protocol, forced in ((PAPER, [False] * 3), (AFABENCH, [False, False, True])):
        found = acquire(jr.key(0), policy, case.problem, case.table, protocol, n_steps=2)
        assert found.choices.tolist() == [[0, 0], [2, 0], [1, 0]]
        assert found.forced_stop.tolist() == forced


def test_acquired_sets_grow_step_by_step() -> None:
    episodes = Episodes(jnp.asarray([[2, 3, 0], [0, 0, 0]]), jnp.zeros((2, 3)), jnp.zeros(2, bool))
    first = [[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 1]]
    found = episodes.acquired(3)
    np.testing.assert_array_equal(found[:, 0], np.array(first, bool))
    assert not found[:, 1].any()


class Lots(Policy):
    """Prefers choices at random, stopping among them where it may."""

    n_choices: int = eqx.field(static=True)
    stops: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        draws = jr.uniform(key, (x.shape[0], self.n_choices))
        return draws if self.stops else draws.at[:, 0].set(-jnp.inf)


def test_every_step_draws_new_lots_from_the_key() -> None:
    """With one draw for all steps, a row would take its actions from its best to its worst."""
    n, rows = 3, 6000
    case = simple([1.0] * n, budget=2.0, available=[[1] * n] * rows)
    first, again, other = (
        acquire_all(jr.key(seed), Lots(1 + n, stops=False), case.problem, case.table, PAPER, 2)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.choices, again.choices)
    assert not np.array_equal(first.choices, other.choices)
    pairs = np.asarray(first.choices - 1)
    counts = np.bincount(pairs[:, 0] * n + pairs[:, 1], minlength=n * n).reshape(n, n)
    assert scipy.stats.chisquare(counts[~np.eye(n, dtype=bool)]).pvalue > ALPHA  # 1,000 to a cell
    draws = [jr.uniform(key, (rows, 1 + n)) for key in jr.split(jr.key(0), 2)]
    np.testing.assert_array_equal(pairs[:, 0], np.argmax(draws[0][:, 1:], axis=1))


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "soft"])
def test_who_has_stopped_does_not_go_on(hard: bool) -> None:
    """However good another action would be by the draw of a later step."""
    case = simple([1.0] * 3, budget=3.0, available=[[1] * 3] * 200)
    found = acquire_all(jr.key(0), Lots(4, stops=True), case.problem, case.table, AFABENCH, 3, hard=hard)
    stopped = np.asarray(found.choices) == 0
    assert np.all(np.diff(stopped.astype(int), axis=1) >= 0)
    assert 0 < stopped[:, 1].sum() < 200
    assert not found.forced_stop.any()


@pytest.mark.parametrize(
    ("costs", "expected"),
    [([2.0, 4.0, 6.0], [0.0, 0.5, 1.0, 1.5]), ([7.0] * 3, [0.0, 1.0, 1.0, 1.0]), ([0.0] * 3, [0.0] * 4)],
)
def test_costs_of_choices_are_in_units_of_the_mean(costs: list[float], expected: list[float]) -> None:
    problem = Problem(np.eye(3), costs, 10, n_classes=2)
    found = choice_costs(problem, jnp.zeros((2, 2, 3), bool), jnp.asarray([[0, 1], [2, 3]]))
    np.testing.assert_allclose(found.ravel(), expected)
