"""Acquiring features one at a time: what is legal, what a step does, and rollouts of any policy.

Choices are numbered as everywhere: 0 is to stop, 1 + a is to acquire action a.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from ascertain._core.hashing import mix, shuffled
from ascertain._core.networks import LOWEST
from ascertain.policy import Policy
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol


def legal_actions(
    problem: Problem,
    protocol: Protocol,
    acquired: Bool[Array, "*batch actions"],
    available: Bool[Array, "*batch actions"],
) -> Bool[Array, "*batch actions"]:
    """Which actions may be taken: A_b(S, m) of section 3.2, or all that are left if budgets are not seen."""
    left = available & ~acquired
    if protocol.affordability == "blind":
        return left
    return left & problem.affordable(acquired)


def choose(
    scores: Float[Array, "*batch choices"], legal: Bool[Array, "*batch actions"]
) -> Int[Array, "*batch"]:
    """Take the best legal choice, the first one of equals; to stop is always legal."""
    with_stop = jnp.concatenate([jnp.ones_like(legal[..., :1]), legal], axis=-1)
    # Lower than any legal score but minus infinity, which only stopping may have.
    return jnp.argmax(jnp.where(with_stop, jnp.maximum(scores, _lowest(legal)), -jnp.inf), axis=-1)


def _lowest(legal: Bool[Array, "*batch actions"]) -> Float[Array, "*batch choices"]:
    """Let a legal action that scores minus infinity win over a method that never stops."""
    lowest = jnp.where(legal, LOWEST, -jnp.inf)
    return jnp.concatenate([jnp.full_like(lowest[..., :1], -jnp.inf), lowest], axis=-1)


class Episodes(NamedTuple):
    """What was acquired for each row, in order."""

    choices: Int[Array, "instances steps"]  # 1 + the action taken; 0 once the episode is over
    spent: Float[Array, "instances steps"]  # after each step
    forced_stop: Bool[Array, " instances"]  # ended by a choice that the budget could not pay

    def acquired(self, n_actions: int) -> Bool[Array, "steps_and_start instances actions"]:
        """Give what has been acquired before the first step and after each one."""
        taken = jax.nn.one_hot(self.choices.T - 1, n_actions, dtype=bool)
        nothing = jnp.zeros_like(taken[:1])
        return jax.lax.associative_scan(jnp.logical_or, jnp.concatenate([nothing, taken]))


def acquire(
    key: PRNGKeyArray,
    policy: Policy,
    problem: Problem,
    table: Table,
    protocol: Protocol,
    n_steps: int,
    *,
    hard: bool = True,
) -> Episodes:
    """Let a policy acquire for every row of a table until it stops or the budget is spent.

    Can be jitted and vmapped.

    Parameters
    ----------
    key
        The random key, for policies that draw lots.
    policy
        The policy.
    problem
        Actions, costs and the budget.
    table
        The rows. Actions that a row does not support are illegal in it; complete rows support all.
    protocol
        Under `illegal` affordability the policy chooses among what fits the budget; under `blind` its first
        choice that does not fit ends the episode.
    n_steps
        The most steps to make; `problem.most_acquisitions()` covers the budget.
    hard
        Whether the budget counts. Without it an episode ends when the policy stops or nothing is left.
    """
    available = problem.readable(table.available)
    nothing = jnp.zeros_like(available)
    blind = hard and protocol.affordability == "blind"

    def step(carry: tuple[Array, Array, Array], key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
        acquired, over, forced = carry
        observed = problem.observed(acquired)
        seen = jnp.where(observed, table.x, 0.0)
        scores = policy(seen, observed, acquired, available, key=key)
        legal = legal_actions(problem, protocol, acquired, available) if hard else available & ~acquired
        choice = jnp.where(over, 0, choose(scores, legal))
        after = acquired | jax.nn.one_hot(choice - 1, problem.n_actions, dtype=bool)
        if blind:
            too_dear = problem.total_cost(after) > problem.limit
            forced = forced | too_dear
            choice = jnp.where(too_dear, 0, choice)
            after = jnp.where(too_dear[:, None], acquired, after)
        return (after, over | (choice == 0), forced), (choice, problem.total_cost(after))

    start = (nothing, jnp.zeros(len(nothing), bool), jnp.zeros(len(nothing), bool))
    # A policy that does not see the budget makes one more choice when it is spent, which tells how it ends.
    turns = jr.split(key, n_steps + blind)
    (_, _, forced), (choices, spent) = jax.lax.scan(step, start, turns)
    return Episodes(choices.T[:, :n_steps], spent.T[:, :n_steps], forced)


def mean_price(problem: Problem) -> Float[Array, ""]:
    """The mean price of the actions before any is acquired; 1 where all are free."""
    mean = jnp.mean(problem.prices(jnp.zeros(problem.n_actions, bool)))
    return jnp.where(mean > 0, mean, 1.0)


def choice_costs(
    problem: Problem, acquired: Bool[Array, "*batch actions"], choice: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The price of each choice in units of the mean price; stopping is free."""
    prices = problem.prices(acquired)
    with_stop = jnp.concatenate([jnp.zeros_like(prices[..., :1]), prices], axis=-1)
    return jnp.take_along_axis(with_stop, choice[..., None], axis=-1)[..., 0] / mean_price(problem)


class View(NamedTuple):
    """What a policy may see of rows in training."""

    x: Float[Array, "*batch features"]
    observed: Bool[Array, "*batch features"]
    open: Bool[Array, "*batch actions"]  # available and not yet acquired, whatever it costs


class Slots(NamedTuple):
    """Episodes in progress, side by side, and how far the rows have been handed out to them."""

    row: Int[Array, " slots"]
    acquired: Bool[Array, "slots actions"]
    position: Int[Array, ""]  # within the current pass over the rows
    passes: Int[Array, ""]


class Frames(NamedTuple):
    """Steps that were made: the state before, the choice, and whether it ended the episode."""

    row: Int[Array, "steps slots"]
    acquired: Bool[Array, "steps slots actions"]
    choice: Int[Array, "steps slots"]
    done: Bool[Array, "steps slots"]


class Transitions(NamedTuple):
    """The same steps as a flat batch, with all that is to be seen before and after each."""

    before: View
    choice: Int[Array, " batch"]
    after: View
    legal_after: Bool[Array, "batch choices"]
    y: Int[Array, " batch"]


# (key, row, acquired) -> (choice, anything to remember)
Chooser = Callable[[PRNGKeyArray, Array, Array], tuple[Int[Array, " slots"], Any]]


class Environment(eqx.Module):
    """The rows of a training table as episodes to act in, many side by side.

    Episodes that end are replaced at once by the next rows: in table order in the first pass, in a new
    random order in every later one. Rows in which nothing is legal from the start are left out.
    """

    problem: Problem
    table: Table
    available: Bool[Array, "instances actions"]
    rows: Int[Array, " instances"]  # those to act in come first
    n_rows: Int[Array, ""]  # how many those are
    seed: UInt32[Array, ""]
    protocol: Protocol = eqx.field(static=True)
    may_stop: bool = eqx.field(static=True)  # then the budget does not count (the soft-budget protocol)

    def __init__(
        self,
        key: PRNGKeyArray,
        problem: Problem,
        table: Table,
        protocol: Protocol,
        *,
        may_stop: bool = False,
    ):
        self.problem, self.table, self.protocol, self.may_stop = problem, table, protocol, may_stop
        self.available = problem.readable(table.available)
        playable = jnp.any(self._legal(jnp.zeros_like(self.available), self.available), axis=1)
        self.rows = jnp.argsort(~playable, stable=True)
        self.n_rows = jnp.maximum(playable.sum(), 1)
        self.seed = jr.bits(key, (), jnp.uint32)

    def start(self, n_slots: int) -> Slots:
        """Begin with the first rows, nothing acquired."""
        nothing = jnp.zeros((n_slots, self.problem.n_actions), bool)
        fresh = Slots(jnp.zeros(n_slots, int), nothing, jnp.asarray(0), jnp.asarray(0))
        return self._replace(fresh, jnp.ones(n_slots, bool))

    def legal(
        self, row: Int[Array, "*batch"], acquired: Bool[Array, "*batch actions"]
    ) -> Bool[Array, "*batch choices"]:
        """Which choices may be made; to stop only where a method learns to."""
        actions = self._legal(acquired, self.available[row])
        return jnp.concatenate([jnp.full_like(actions[..., :1], self.may_stop), actions], axis=-1)

    def view(self, row: Int[Array, "*batch"], acquired: Bool[Array, "*batch actions"]) -> View:
        """Give what a policy may see."""
        observed = self.problem.observed(acquired)
        x = jnp.where(observed, self.table.x[row], 0.0)
        return View(x, observed, self.available[row] & ~acquired)

    def transitions(self, frames: Frames) -> Transitions:
        """Look up what was to be seen before and after each step."""
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), frames)
        after = flat.acquired | jax.nn.one_hot(flat.choice - 1, self.problem.n_actions, dtype=bool)
        return Transitions(
            before=self.view(flat.row, flat.acquired),
            choice=flat.choice,
            after=self.view(flat.row, after),
            legal_after=self.legal(flat.row, after),
            y=self.table.y[flat.row],
        )

    def collect(
        self, key: PRNGKeyArray, slots: Slots, choose: Chooser, n_steps: int
    ) -> tuple[Slots, Frames, Any]:
        """Make some steps in every slot; also give what `choose` wanted to remember, steps first."""
        frames, remembered = [], []
        for step_key in jr.split(key, n_steps):
            choice, memory = choose(step_key, slots.row, slots.acquired)
            slots, frame = self._step(slots, choice)
            frames.append(frame)
            remembered.append(memory)
        stacked = jax.tree.map(lambda *steps: jnp.stack(steps), *frames)
        return slots, stacked, jax.tree.map(lambda *steps: jnp.stack(steps), *remembered)

    def _step(self, slots: Slots, choice: Int[Array, " slots"]) -> tuple[Slots, Frames]:
        after = slots.acquired | jax.nn.one_hot(choice - 1, self.problem.n_actions, dtype=bool)
        done = ~jnp.any(self._legal(after, self.available[slots.row]), axis=1) | (choice == 0)
        if not self.may_stop:
            done = done | (self.problem.total_cost(after) > self.problem.limit)
        frame = Frames(slots.row, slots.acquired, choice, done)
        return self._replace(slots._replace(acquired=after), done), frame

    def _replace(self, slots: Slots, done: Bool[Array, " slots"]) -> Slots:
        """Hand the next rows to the slots whose episode is over."""
        place = slots.position + jnp.cumsum(done) - 1
        order = shuffled(mix(self.seed + slots.passes.astype(jnp.uint32)), place % self.n_rows, self.n_rows)
        next_row = self.rows[jnp.where(slots.passes == 0, place % self.n_rows, order)]
        position = slots.position + done.sum()
        passed = position >= self.n_rows
        return Slots(
            row=jnp.where(done, next_row, slots.row),
            acquired=slots.acquired & ~done[:, None],
            position=jnp.where(passed, 0, position),
            passes=slots.passes + passed,
        )

    def _legal(
        self, acquired: Bool[Array, "*batch actions"], available: Bool[Array, "*batch actions"]
    ) -> Bool[Array, "*batch actions"]:
        if self.may_stop:
            return available & ~acquired
        return legal_actions(self.problem, self.protocol, acquired, available)
