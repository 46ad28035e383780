"""Policies that learn nothing: what they choose, and how often."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Array

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table, methods
from ascertain.acquisition import acquire, choose
from ascertain.methods._baselines import Blind, Settings
from ascertain.policy import Policy

from .by_hand import FAST

ALPHA = 1e-5  # of each statistical test; the keys are fixed
N_ROWS, N_ACTIONS = 12_000, 4
PROBLEM = Problem(np.eye(N_ACTIONS), [1, 2, 1, 1], budget=3, n_classes=2)
TABLE = Table(np.zeros((2, N_ACTIONS)), [0, 1])


def fitted(name: str, **keywords: Any) -> Policy:
    return methods.fit(name, jr.key(0), PROBLEM, TABLE, TABLE, **keywords)


@partial(jax.jit, static_argnums=2, compiler_options=FAST)
def three_steps(policy: Policy, problem: Problem, protocol: Protocol) -> Array:
    return acquire(jr.key(0), policy, problem, TABLE, protocol, 3).choices


def choices(policy: Policy, acquired: list[int], key: int = 0) -> np.ndarray:
    """Let a policy choose for many rows among what they have not acquired."""
    taken = jnp.tile(jnp.asarray([acquired], bool), (N_ROWS, 1))
    x = jnp.zeros((N_ROWS, N_ACTIONS))
    scores = policy(x, taken, taken, jnp.ones_like(taken), key=jr.key(key))
    return np.asarray(choose(scores, ~taken))


def test_random_takes_any_action_that_is_left() -> None:
    counts = np.bincount(choices(fitted("random"), [0, 1, 0, 0]), minlength=N_ACTIONS + 1)
    assert counts[0] == counts[2] == 0
    assert scipy.stats.chisquare(counts[[1, 3, 4]]).pvalue > ALPHA


def test_random_draws_other_lots_with_another_key() -> None:
    nothing = [0] * N_ACTIONS
    policy = fitted("random")
    assert np.all(choices(policy, nothing, key=1) == choices(policy, nothing, key=1))
    same = (choices(policy, nothing, key=1) == choices(policy, nothing, key=2)).sum()
    assert scipy.stats.binomtest(int(same), N_ROWS, 1 / N_ACTIONS).pvalue > ALPHA


def test_sequential_takes_the_lowest_action_that_is_left() -> None:
    policy = fitted("sequential")
    assert np.all(choices(policy, [0, 0, 0, 0]) == 1)
    assert np.all(choices(policy, [1, 0, 1, 0]) == 2)
    assert np.all(choices(policy, [1, 1, 1, 0]) == 4)


@pytest.mark.parametrize("protocol", [PAPER, AFABENCH])
def test_sequential_spends_the_budget_in_order(protocol: Protocol) -> None:
    """1 + 2 = 3 is all of it; of 2.5, the rest is of use only where the second action is passed over."""
    assert three_steps(fitted("sequential"), PROBLEM, protocol).tolist() == [[1, 2, 0]] * 2
    tighter = Problem(np.eye(N_ACTIONS), [1, 2, 1, 1], budget=2.5, n_classes=2)
    expected = [1, 3, 0] if protocol is PAPER else [1, 0, 0]
    assert three_steps(fitted("sequential"), tighter, protocol).tolist() == [expected] * 2


@pytest.mark.parametrize("protocol", [PAPER, AFABENCH])
def test_stop_acquires_nothing(protocol: Protocol) -> None:
    policy = fitted("stop", protocol=protocol)
    assert np.all(choices(policy, [0, 0, 0, 0]) == 0)
    assert not np.any(three_steps(policy, PROBLEM, protocol))


@pytest.mark.parametrize("name", ["random", "sequential"])
def test_with_a_soft_budget_they_stop_by_lot(name: str) -> None:
    """The reference's stop probabilities are 0.3 and 0.7; what they take otherwise stays as it is."""
    set_so = fitted(name, settings=Settings(stop_probability=0.3))
    assert isinstance(set_so, Blind)
    for policy, probability in ((set_so, 0.3), (set_so.stopping_at(0.7), 0.7)):
        found = choices(policy, [0, 1, 0, 0])
        assert scipy.stats.binomtest(int((found == 0).sum()), N_ROWS, probability).pvalue > ALPHA
        going_on = np.bincount(found[found > 0], minlength=N_ACTIONS + 1)[[1, 3, 4]]
        if name == "random":
            assert scipy.stats.chisquare(going_on).pvalue > ALPHA
        else:
            assert going_on[1:].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["random", "sequential"])
def test_without_one_they_never_stop(name: str) -> None:
    assert np.all(choices(fitted(name), [1, 1, 1, 0]) == 4)


def test_rows_do_not_share_lots() -> None:
    """The choices of neighbouring rows are independent."""
    found = choices(fitted("random"), [0, 0, 0, 0]).reshape(-1, 2) - 1
    pairs = np.bincount(found[:, 0] * N_ACTIONS + found[:, 1], minlength=N_ACTIONS**2)
    assert scipy.stats.chisquare(pairs).pvalue > ALPHA  # 375 to a cell
