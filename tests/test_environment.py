"""Training episodes against a plain simulation of the rules, beside a record of what the environment did."""

import functools
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table
from ascertain.acquisition import Environment, Frames, Slots, View

from .acquisition_cases import (
    ACTIONS,
    FAST,
    FEATURES,
    PROTOCOLS,
    ROWS,
    Case,
    cases,
    code,
    codes,
    mask,
    simple,
)

ALPHA = 1e-5  # of each statistical test; the keys are fixed


class Record(NamedTuple):
    """All that a run of the environment shows: each leaf has steps first, then slots."""

    frames: Frames
    legal: Array
    view: View


@functools.partial(jax.jit, static_argnums=(2, 3), compiler_options=FAST)
def play(
    environment: Environment, priority: Float[Array, "instances states choices"], n_slots: int, n_batches: int
) -> tuple[Record, Slots]:
    """Take the legal choice of highest priority, in batches of two steps."""

    def decide(key: PRNGKeyArray, row: Array, acquired: Array) -> tuple[Array, tuple[Array, View]]:
        legal = environment.legal(row, acquired)
        wanted = jnp.where(legal, priority[row, codes(acquired)], -1.0)
        return jnp.argmax(wanted, axis=1), (legal, environment.view(row, acquired))

    def batch(slots: Slots, key: PRNGKeyArray) -> tuple[Slots, Record]:
        slots, frames, (legal, view) = environment.collect(key, slots, decide, 2)
        return slots, Record(frames, legal, view)

    slots, record = jax.lax.scan(batch, environment.start(n_slots), jr.split(jr.key(0), n_batches))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), record), slots


@dataclass
class Deck:
    """Hands out rows by the rules of env.md 4, learning the order of later passes as it is revealed."""

    playable: list[int]
    position: int = 0
    passes: int = 0

    def __post_init__(self) -> None:
        self.order = dict(enumerate(self.playable))
        self.orders: list[list[int]] = []

    def hand_out(self, rows: list[int]) -> None:
        """Check rows that were handed out in one draw."""
        for offset, row in enumerate(rows):
            place = (self.position + offset) % len(self.playable)
            if place not in self.order:
                assert row in self.playable, "a row in which nothing is legal"
                assert row not in self.order.values(), "a row for the second time in a pass"
                self.order[place] = row
            assert self.order[place] == row
        self.position += len(rows)
        if self.position >= len(self.playable):
            assert len(self.order) == len(self.playable)
            self.orders.append([self.order[place] for place in range(len(self.playable))])
            self.order, self.position, self.passes = {}, 0, self.passes + 1


def follow(
    case: Case, protocol: Protocol, may_stop: bool, priority: np.ndarray, record: Record, slots: Slots
) -> Deck:
    """Simulate the environment in plain loops beside a record of it; fail at the first difference."""
    n_actions, n_features = case.reveals.shape
    n_slots = len(slots.row)
    x, hard = np.asarray(case.table.x), not may_stop
    everyone = range(len(case.available))
    deck = Deck([row for row in everyone if case.legal(row, set(), protocol, hard)])
    frames, legal, view = jax.tree.map(np.asarray, record)
    rows = np.concatenate([frames.row, np.asarray(slots.row)[None]])
    deck.hand_out(rows[0].tolist())
    acquired: list[set[int]] = [set() for _ in range(n_slots)]
    for step in range(len(frames.row)):
        finished = []
        for slot in range(n_slots):
            row, here = int(rows[step, slot]), acquired[slot]
            assert frames.acquired[step, slot].tolist() == mask(here, n_actions)
            options = case.legal(row, here, protocol, hard)
            assert legal[step, slot].tolist() == [may_stop, *mask(options, n_actions)]
            revealed = mask(case.observed(here), n_features)
            assert view.observed[step, slot].tolist() == revealed
            np.testing.assert_array_equal(view.x[step, slot], np.where(revealed, x[row], 0))
            assert view.open[step, slot].tolist() == mask(case.readable(row) - here, n_actions)
            choices = [1 + a for a in options] + [0] * may_stop
            choice = max(choices, key=lambda c: priority[row, code(here), c])
            assert frames.choice[step, slot] == choice
            after = here | ({choice - 1} if choice else set())
            done = choice == 0 or not case.legal(row, after, protocol, hard)
            if hard and protocol is AFABENCH:
                done = done or not case.fits(after)
            assert bool(frames.done[step, slot]) == done
            acquired[slot] = set() if done else after
            if done:
                finished.append(slot)
            else:
                assert rows[step + 1, slot] == row
        deck.hand_out([int(rows[step + 1, slot]) for slot in finished])
    assert [mask(a, n_actions) for a in acquired] == np.asarray(slots.acquired).tolist()
    assert (int(slots.position), int(slots.passes)) == (deck.position, deck.passes)
    return deck


def priorities(seed: int, n_rows: int, n_actions: int) -> np.ndarray:
    """Rank all choices in every state of every row, without ties."""
    ranks = np.tile(np.arange(1.0, n_actions + 2), (n_rows, 2**n_actions, 1))
    return np.random.default_rng([seed, 3]).permuted(ranks, axis=2)


def run(
    case: Case, protocol: Protocol, may_stop: bool, n_slots: int, n_batches: int, key: int = 0
) -> tuple[Record, Deck]:
    """Run the environment and the plain loops."""
    priority = priorities(case.seed, len(case.available), len(case.costs))
    environment = Environment(jr.key(key), case.problem, case.table, protocol, may_stop=may_stop)
    record, slots = play(environment, jnp.asarray(priority, jnp.float32), n_slots, n_batches)
    return record, follow(case, protocol, may_stop, priority, record, slots)


@pytest.mark.parametrize("n_slots", [3, 7])  # fewer and more than there are rows
@pytest.mark.parametrize("may_stop", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
@given(case=cases())
@settings(max_examples=15, deadline=None)
def test_training_episodes_go_as_in_plain_loops(
    case: Case, protocol: Protocol, may_stop: bool, n_slots: int
) -> None:
    if not any(case.legal(row, set(), protocol, not may_stop) for row in range(ROWS)):
        return  # see below
    run(case, protocol, may_stop, n_slots, n_batches=10)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
def test_a_table_in_which_nothing_is_legal_gives_episodes_that_acquire_nothing(protocol: Protocol) -> None:
    case = simple([1.0] * ACTIONS, budget=1.0, available=[[0] * ACTIONS] * ROWS)
    environment = Environment(jr.key(0), case.problem, case.table, protocol)
    record, slots = play(environment, jnp.ones((ROWS, 2**ACTIONS, 1 + ACTIONS)), 3, 10)
    assert not record.frames.choice.any()
    assert record.frames.done.all()
    assert not slots.acquired.any()


def lengths(record: Record) -> set[int]:
    """Count the acquisitions of each finished episode."""
    frames = jax.tree.map(np.asarray, record.frames)
    return set((frames.acquired.sum(axis=2) + (frames.choice > 0))[frames.done].tolist())


@pytest.mark.parametrize(
    ("costs", "budget", "available", "paper", "afabench"),
    [
        ([1.0] * 4, 2.0, [1, 1, 1, 1], {2}, {3}),  # at unit cost b, or b + 1
        ([1.0] * 4, 2.0, [1, 0, 1, 0], {2}, {2}),  # or as many as there are
        ([1.0] * 4, 2.0, [0, 0, 1, 0], {1}, {1}),
        ([2 / 3] * 4, 2.0, [1, 1, 1, 1], {3}, {4}),  # 2/3 + 2/3 + 2/3 does not exceed 2
        ([0.0] * 4, 0.0, [1, 1, 1, 1], {4}, {4}),
    ],
)
def test_episodes_are_as_long_as_the_budget_lets_them(
    costs: list[float], budget: float, available: list[int], paper: set[int], afabench: set[int]
) -> None:
    case = simple(costs, budget, [available] * ROWS)
    for protocol, expected in ((PAPER, paper), (AFABENCH, afabench)):
        record, _ = run(case, protocol, False, 3, n_batches=10)
        assert lengths(record) == expected, protocol.name


def many_passes(n_rows: int, key: int, holes: float = 0.0) -> Deck:
    """Play episodes of one step, so that rows are handed out fast: 4 slots, 100 steps."""
    available = (np.random.default_rng(0).random((n_rows, 2)) >= holes).tolist()
    _, deck = run(simple([1.0, 1.0], 1.0, available), PAPER, False, 4, n_batches=50, key=key)
    return deck


def test_the_first_pass_is_in_table_order_and_later_ones_are_shuffled_anew() -> None:
    decks = [many_passes(30, key) for key in (0, 1)]
    later = []
    for deck in decks:
        first, *others = deck.orders
        assert first == list(range(30))
        assert len(others) >= 10
        later += others
    assert len({tuple(order) for order in [*later, list(range(30))]}) == len(later) + 1
    # A permutation of 30 has one fixed point on average (and a variance of 1), so has each pair of orders.
    fixed = [np.sum(np.array(a) == np.array(b)) for a, b in combinations([*later, list(range(30))], 2)]
    assert abs(np.mean(fixed) - 1) < 5 / np.sqrt(len(fixed))


def test_rows_in_which_nothing_is_legal_are_skipped_in_every_pass() -> None:
    deck = many_passes(30, key=0, holes=0.6)
    assert 5 < len(deck.playable) < 25
    assert len(deck.orders) > 10
    assert all(sorted(order) == deck.playable for order in deck.orders)


def test_later_passes_begin_with_any_row() -> None:
    """Over many keys, the row that comes first after the table has been walked once is uniform."""
    n_rows, n_keys = 8, 4000
    case = simple([1.0], 1.0, [[1]] * n_rows)

    @functools.partial(jax.jit, compiler_options=FAST)
    @functools.partial(jax.vmap, in_axes=(0, None, None))
    def first_of_the_second_pass(key: PRNGKeyArray, problem: Problem, table: Table) -> Array:
        environment = Environment(key, problem, table, PAPER)
        only = jnp.ones(
            4, int
        )  # choice: episodes of one step, so that the start and one step take all 8 rows
        _, frames, _ = environment.collect(key, environment.start(4), lambda *_: (only, None), 3)
        return frames.row[2, :2]

    rows = np.asarray(first_of_the_second_pass(jr.split(jr.key(0), n_keys), case.problem, case.table))
    assert scipy.stats.chisquare(np.bincount(rows[:, 0], minlength=n_rows)).pvalue > ALPHA  # 500 to a cell
    pairs = np.bincount(rows[:, 0] * n_rows + rows[:, 1], minlength=n_rows**2).reshape(n_rows, n_rows)
    assert scipy.stats.chisquare(pairs[~np.eye(n_rows, dtype=bool)]).pvalue > ALPHA  # 71 to a cell


@pytest.mark.parametrize("may_stop", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.name)
def test_transitions_show_the_states_before_and_after(protocol: Protocol, may_stop: bool) -> None:
    reveals = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 1, 0]], bool)
    available = np.random.default_rng(5).random((ROWS, FEATURES)) < 0.8
    case = Case(reveals, [1.0, 0.5, 2.0, 0.25], 1.5, available, seed=4)
    environment = Environment(jr.key(0), case.problem, case.table, protocol, may_stop=may_stop)
    priority = jnp.asarray(priorities(4, ROWS, ACTIONS), jnp.float32)
    record, _ = play(environment, priority, 3, 10)
    seen = environment.transitions(record.frames)
    frames = jax.tree.map(np.asarray, record.frames)
    x, y = np.asarray(case.table.x), np.asarray(case.table.y)
    for number, (step, slot) in enumerate(np.ndindex(frames.row.shape)):
        row, choice = int(frames.row[step, slot]), int(frames.choice[step, slot])
        before = set(np.flatnonzero(frames.acquired[step, slot]).tolist())
        after = before | ({choice - 1} if choice else set())
        assert int(seen.choice[number]) == choice
        assert int(seen.y[number]) == y[row]
        for view, acquired in ((seen.before, before), (seen.after, after)):
            revealed = mask(case.observed(acquired), FEATURES)
            assert view.observed[number].tolist() == revealed
            np.testing.assert_array_equal(view.x[number], np.where(revealed, x[row], 0))
            assert view.open[number].tolist() == mask(case.readable(row) - acquired, ACTIONS)
        legal = case.legal(row, after, protocol, hard=not may_stop)
        assert seen.legal_after[number].tolist() == [may_stop, *mask(legal, ACTIONS)]
    assert np.any(frames.done), "or else the test would not see the ends"
    assert may_stop == bool(np.any(frames.choice == 0)), "nor who stops"
