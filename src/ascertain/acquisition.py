"""Acquiring features step by step: legal actions, rollouts of a policy, and an environment to train in.

Choices are numbered as everywhere: 0 is to stop, 1 + a is to take action a.
"""

from collections.abc import Callable
from functools import partial
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
    """Which actions may be taken: A_b(S, m) of section 3.2, or all that remain if the policy is blind.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from ascertain import PAPER, Problem
    >>> problem = Problem(jnp.eye(3, dtype=bool), costs=[1, 1, 5], budget=4, n_classes=2)
    >>> first_taken, all_there = jnp.array([True, False, False]), jnp.ones(3, bool)
    >>> legal_actions(problem, PAPER, first_taken, all_there).tolist()  # the third one is too dear
    [False, True, False]
    """
    remaining = available & ~acquired
    if protocol.affordability == "blind":
        return remaining
    return remaining & problem.affordable(acquired)


def choose(
    scores: Float[Array, "*batch choices"], legal: Bool[Array, "*batch actions"]
) -> Int[Array, "*batch"]:
    """Take the best legal choice, the first one if several tie; stopping is always legal.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> scores = jnp.array([[-jnp.inf, 0.1, 0.7, 0.9]])  # of stopping, and of three actions
    >>> choose(scores, legal=jnp.array([[True, True, False]])).tolist()  # the last one is not legal
    [2]
    """
    chosen: Array = _choose(scores, legal)
    return chosen


@partial(jax.jit, inline=True)  # one program, where it is called outside of any
def _choose(
    scores: Float[Array, "*batch choices"], legal: Bool[Array, "*batch actions"]
) -> Int[Array, "*batch"]:
    with_stop = jnp.concatenate([jnp.ones_like(legal[..., :1]), legal], axis=-1)
    # Legal actions score at least LOWEST, so that they beat the minus infinity of a method that never stops.
    lowest = jnp.where(legal, LOWEST, -jnp.inf)
    lowest = jnp.concatenate([jnp.full_like(lowest[..., :1], -jnp.inf), lowest], axis=-1)
    return jnp.argmax(jnp.where(with_stop, jnp.maximum(scores, lowest), -jnp.inf), axis=-1)


class Episodes(NamedTuple):
    """Rollouts: the choices made for each row, in order.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> choices, spent = jnp.array([[2, 1], [3, 0]]), jnp.array([[1.0, 2.0], [1.0, 1.0]])
    >>> two_steps = Episodes(choices, spent, forced_stop=jnp.zeros(2, bool))
    >>> two_steps.acquired(n_actions=3)[-1].tolist()  # what each row has in the end
    [[True, True, False], [False, False, True]]
    """

    choices: Int[Array, "instances steps"]  # 1 + the action taken; 0 once the episode is over
    spent: Float[Array, "instances steps"]  # after each step
    forced_stop: Bool[Array, " instances"]  # ended by an unaffordable choice

    def acquired(self, n_actions: int) -> Bool[Array, "steps_and_start instances actions"]:
        """Compute which actions were taken before the first step and after each one."""
        acquired: Array = _acquired(self.choices, n_actions)
        return acquired


@partial(jax.jit, static_argnums=1, inline=True)  # one program, where it is called outside of any
def _acquired(
    choices: Int[Array, "instances steps"], n_actions: int
) -> Bool[Array, "steps_and_start instances actions"]:
    taken = jax.nn.one_hot(choices.T - 1, n_actions, dtype=bool)
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
    """Roll out a policy on every row of a table until it stops or the budget is spent.

    Can be jitted and vmapped.

    Parameters
    ----------
    key
        The random key, for policies that choose at random.
    policy
        The policy.
    problem
        Actions, costs and the budget.
    table
        The rows. Actions whose features a row lacks are illegal in it.
    protocol
        Under `illegal` affordability the policy chooses among affordable actions; under `blind` its first
        unaffordable choice ends the episode.
    n_steps
        The number of steps; `problem.most_acquisitions()` is always enough.
    hard
        Whether the budget is enforced. If not, an episode ends when the policy stops or nothing remains.

    Examples
    --------
    >>> import jax.random as jr
    >>> from ascertain import PAPER, Table, methods
    >>> problem = Problem(jnp.eye(3, dtype=bool), costs=[1, 1, 1], budget=2, n_classes=2)
    >>> table = Table(jnp.zeros((2, 3)), [0, 1])
    >>> policy = methods.fit("sequential", jr.key(0), problem, table, table)
    >>> acquire(jr.key(1), policy, problem, table, PAPER, n_steps=3).choices.tolist()  # 0: no budget left
    [[1, 2, 0], [1, 2, 0]]
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
            unaffordable = problem.total_cost(after) > problem.limit
            forced = forced | unaffordable
            choice = jnp.where(unaffordable, 0, choice)
            after = jnp.where(unaffordable[:, None], acquired, after)
        return (after, over | (choice == 0), forced), (choice, problem.total_cost(after))

    start = (nothing, jnp.zeros(len(nothing), bool), jnp.zeros(len(nothing), bool))
    # A blind policy makes one more choice after the budget is spent, to learn whether it is forced to stop.
    step_keys = jr.split(key, n_steps + blind)
    (_, _, forced), (choices, spent) = jax.lax.scan(step, start, step_keys)
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
    """What a policy sees of rows in training."""

    x: Float[Array, "*batch features"]
    observed: Bool[Array, "*batch features"]
    open: Bool[Array, "*batch actions"]  # available and not yet acquired, affordable or not


class Slots(NamedTuple):
    """Episodes in progress side by side, and the position of the pass over the rows that starts new ones."""

    row: Int[Array, " slots"]
    acquired: Bool[Array, "slots actions"]
    position: Int[Array, ""]  # within the current pass over the rows
    passes: Int[Array, ""]


class Frames(NamedTuple):
    """Recorded steps: the state before, the choice, and whether it ended the episode."""

    row: Int[Array, "steps slots"]
    acquired: Bool[Array, "steps slots actions"]
    choice: Int[Array, "steps slots"]
    done: Bool[Array, "steps slots"]


class Transitions(NamedTuple):
    """Recorded steps as a flat batch, with what the policy sees before and after each."""

    before: View
    choice: Int[Array, " batch"]
    after: View
    legal_after: Bool[Array, "batch choices"]
    y: Int[Array, " batch"]


# (key, row, acquired) -> (choice, anything to record)
Chooser = Callable[[PRNGKeyArray, Array, Array], tuple[Int[Array, " slots"], Any]]


class Environment(eqx.Module):
    """Episodes on the rows of a training table, many side by side in slots.

    When an episode ends, its slot goes on with the next row: in table order in the first pass over the rows,
    in a new random order in every later one. Rows without any legal action are skipped.
    """

    problem: Problem
    table: Table
    available: Bool[Array, "instances actions"]
    rows: Int[Array, " instances"]  # those with a legal action come first
    n_rows: Int[Array, ""]  # the number of those
    seed: UInt32[Array, ""]
    protocol: Protocol = eqx.field(static=True)
    may_stop: bool = eqx.field(static=True)  # then the budget is not enforced (soft budgets)

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
        """Start episodes on the first rows, with nothing acquired."""
        nothing = jnp.zeros((n_slots, self.problem.n_actions), bool)
        fresh = Slots(jnp.zeros(n_slots, int), nothing, jnp.asarray(0), jnp.asarray(0))
        return self._replace(fresh, jnp.ones(n_slots, bool))

    def legal(
        self, row: Int[Array, "*batch"], acquired: Bool[Array, "*batch actions"]
    ) -> Bool[Array, "*batch choices"]:
        """Which choices are legal; stopping only if `may_stop`."""
        actions = self._legal(acquired, self.available[row])
        return jnp.concatenate([jnp.full_like(actions[..., :1], self.may_stop), actions], axis=-1)

    def view(self, row: Int[Array, "*batch"], acquired: Bool[Array, "*batch actions"]) -> View:
        """Hide what is not acquired."""
        observed = self.problem.observed(acquired)
        x = jnp.where(observed, self.table.x[row], 0.0)
        return View(x, observed, self.available[row] & ~acquired)

    def transitions(self, frames: Frames) -> Transitions:
        """Rebuild what the policy saw before and after each step."""
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
        """Make `n_steps` steps in every slot; the last result stacks what `choose` recorded, steps first."""
        frames, records = [], []
        for step_key in jr.split(key, n_steps):
            choice, record = choose(step_key, slots.row, slots.acquired)
            slots, frame = self._step(slots, choice)
            frames.append(frame)
            records.append(record)
        stacked, recorded = (
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps) for steps in (frames, records)
        )
        return slots, stacked, recorded

    def _step(self, slots: Slots, choice: Int[Array, " slots"]) -> tuple[Slots, Frames]:
        after = slots.acquired | jax.nn.one_hot(choice - 1, self.problem.n_actions, dtype=bool)
        done = ~jnp.any(self._legal(after, self.available[slots.row]), axis=1) | (choice == 0)
        if not self.may_stop:
            done = done | (self.problem.total_cost(after) > self.problem.limit)
        frame = Frames(slots.row, slots.acquired, choice, done)
        return self._replace(slots._replace(acquired=after), done), frame

    def _replace(self, slots: Slots, done: Bool[Array, " slots"]) -> Slots:
        """Start episodes on the next rows in the slots whose episode is over."""
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
