"""Double DQN against values worked out by hand, plain loops, and fair dice."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ascertain.errors import InputError
from ascertain.methods._dqn import (
    DQNSettings,
    best_choice,
    explore,
    lambda_returns,
    next_values,
    polyak,
    td_loss,
)

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")

returns_of = jax.jit(lambda_returns, static_argnums=3)
explore_all = jax.jit(explore)


# The length of training and the share of random choices.


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 0.2 and 5, env.md 1: 256 frames are two steps in each of 128 slots."""
    default = DQNSettings()
    assert (default.slots, default.frames_per_batch, default.steps) == (128, 256, 2)
    assert (default.learning_rate, default.td_lambda, default.target_rate) == (1e-3, 0.75, 0.005)
    assert DQNSettings(frames_per_batch=512).steps == 4
    with pytest.raises(InputError, match=r"frames_per_batch \(64\) must be a multiple of slots \(128\)"):
        _ = DQNSettings(frames_per_batch=64).steps


@pytest.mark.parametrize(
    ("batches", "batch", "expected"),
    [
        (2000, 0, 1.0),  # OL: the first batch is all random, and after 1000 the rate stays
        (2000, 1, 0.9991),
        (2000, 500, 0.55),
        (2000, 999, 0.1009),
        (2000, 1000, 0.1),
        (2000, 1999, 0.1),
        (4000, 0, 1.0),  # JAFA: after 2000
        (4000, 1000, 0.55),
        (4000, 2000, 0.1),
        (4000, 3999, 0.1),
        (5, 1, 0.55),  # int(2.5) = 2 batches
        (5, 2, 0.1),
        (1, 0, 1.0),
    ],
)
def test_epsilon_falls_linearly_over_half_of_the_batches(batches: int, batch: int, expected: float) -> None:
    found = DQNSettings(batches=batches).epsilon(jnp.asarray(batch))
    assert float(found) == pytest.approx(expected, abs=1e-6)


# Choices.


@pytest.mark.parametrize(
    ("q", "legal", "expected"),
    [
        ([1, 5, 3], [1, 1, 1], 1),
        ([1, 5, 3], [1, 0, 1], 2),
        ([4, 4, 4], [0, 1, 1], 1),  # the first of equals
        ([9, -1e30, -2e30], [0, 1, 1], 1),  # however low
        ([9, 1, 2], [0, 0, 0], 0),  # nothing: a state that is never acted in
    ],
)
def test_the_best_choice_is_the_legal_one_of_highest_value(
    q: list[float], legal: list[int], expected: int
) -> None:
    assert int(best_choice(jnp.asarray(q, jnp.float32), jnp.asarray(legal, bool))) == expected


N_SLOTS = 30_000
Q = jnp.tile(jnp.asarray([[7.0, 1.0, 9.0, 3.0, 2.0]]), (N_SLOTS, 1))
LEGAL = jnp.tile(jnp.asarray([[False, True, False, True, True]]), (N_SLOTS, 1))  # 3 is the best


@pytest.mark.parametrize("epsilon", [1.0, 0.55, 0.1])
def test_exploring_takes_any_legal_choice_at_rate_epsilon(epsilon: float) -> None:
    """The best one included: it has the rest and its share of epsilon."""
    choices = np.asarray(explore_all(jr.key(0), Q, LEGAL, jnp.asarray(epsilon)))
    counts = np.bincount(choices, minlength=5)
    expected = N_SLOTS * np.array([epsilon / 3, 1 - epsilon + epsilon / 3, epsilon / 3])
    assert counts[[0, 2]].tolist() == [0, 0], "illegal choices"
    assert scipy.stats.chisquare(counts[[1, 3, 4]], expected).pvalue > ALPHA  # at least 1,000 to a cell


def test_without_exploring_every_slot_takes_its_best() -> None:
    assert np.all(explore_all(jr.key(0), Q, LEGAL, jnp.asarray(0.0)) == 3)


def test_slots_explore_independently_of_each_other() -> None:
    choices = np.asarray(explore_all(jr.key(1), Q, LEGAL, jnp.asarray(1.0))).reshape(-1, 2)
    numbers = np.searchsorted([1, 3, 4], choices)
    counts = np.bincount(numbers[:, 0] * 3 + numbers[:, 1], minlength=9)
    assert scipy.stats.chisquare(counts).pvalue > ALPHA  # 1,667 to a cell


def test_whether_to_explore_is_independent_of_what_would_be_explored() -> None:
    """Where the choice is among all and the best is the last, the others must share epsilon equally."""
    n = 10
    q = jnp.tile(jnp.arange(float(n))[None], (N_SLOTS, 1))
    choices = np.asarray(explore_all(jr.key(2), q, jnp.ones_like(q, bool), jnp.asarray(0.3)))
    counts = np.bincount(choices, minlength=n)
    expected = N_SLOTS * np.array([0.03] * 9 + [0.73])
    assert scipy.stats.chisquare(counts, expected).pvalue > ALPHA  # at least 900 to a cell


def test_a_slot_in_which_nothing_is_legal_stops() -> None:
    nothing = jnp.zeros_like(LEGAL)
    assert not np.any(explore_all(jr.key(0), Q, nothing, jnp.asarray(1.0)))
    assert not np.any(explore_all(jr.key(0), Q, nothing, jnp.asarray(0.0)))


# Targets.


def test_the_online_network_chooses_and_the_target_network_values() -> None:
    online = jnp.asarray([[1.0, 5.0, 3.0], [1.0, 5.0, 3.0], [2.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    target = jnp.asarray([[10.0, 20.0, 30.0]] * 4)
    legal = jnp.asarray([[True, True, True], [True, False, True], [True, True, True], [False, False, False]])
    found = next_values(online, target, legal)
    assert found[:3].tolist() == [20.0, 30.0, 10.0]
    assert np.isfinite(found[3]), "terminal states are multiplied by zero"


@pytest.mark.parametrize(
    ("rewards", "done", "values", "expected"),
    [
        # One step: r + V', or r at an end.
        ([3], [0], [10], [13]),
        ([3], [1], [10], [3]),
        # Two steps, lambda 3/4: G_1 = 2 + 20 = 22; G_0 = 1 + 10/4 + 3/4 * 22 = 20.
        ([1, 2], [0, 0], [10, 20], [20, 22]),
        ([1, 2], [1, 0], [10, 20], [1, 22]),  # the second step is another episode's
        ([1, 2], [0, 1], [10, 20], [5, 2]),  # 1 + 10/4 + 3/4 * 2
        ([1, 2], [1, 1], [10, 20], [1, 2]),
        # Four: G_3 = 4 + 40; G_2 = 3 + 30/4 + 33; G_1 = 2 + 20/4 + 3/4 * 43.5; G_0 = 1 + 10/4 + 3/4 * 39.625.
        ([1, 2, 3, 4], [0, 0, 0, 0], [10, 20, 30, 40], [33.21875, 39.625, 43.5, 44]),
        ([1, 2, 3, 4], [0, 1, 0, 0], [10, 20, 30, 40], [5, 2, 43.5, 44]),
        ([1, 2, 3, 4], [1, 0, 0, 1], [10, 20, 30, 40], [1, 17.125, 13.5, 4]),
    ],
)
def test_lambda_returns_are_those_worked_out_by_hand(
    rewards: list[float], done: list[int], values: list[float], expected: list[float]
) -> None:
    found = lambda_returns(
        jnp.asarray(rewards, jnp.float32), jnp.asarray(done, bool), jnp.asarray(values, jnp.float32), 0.75
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


NUMBERS = st.floats(-10, 10, width=32)


@given(
    hnp.arrays(np.float32, (4, 3), elements=NUMBERS),
    hnp.arrays(bool, (4, 3)),
    hnp.arrays(np.float32, (4, 3), elements=NUMBERS),
    st.sampled_from([0.0, 0.75, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_lambda_returns_mix_returns_of_all_lengths(
    reward: np.ndarray, done: np.ndarray, value: np.ndarray, decay: float
) -> None:
    """A second definition: n-step returns, weighted (1 - lambda) lambda^(n - 1), the longest by the rest."""
    expected = np.zeros((4, 3))
    for slot in range(3):
        for t in range(4):
            returns, total = [], 0.0
            for step in range(t, 4):
                total += reward[step, slot]
                ended = done[step, slot]
                returns.append(total if ended else total + value[step, slot])
                if ended:
                    break
            weights = [(1 - decay) * decay**n for n in range(len(returns))]
            weights[-1] = decay ** (len(returns) - 1)
            expected[t, slot] = np.dot(weights, returns)
    found = returns_of(jnp.asarray(reward), jnp.asarray(done), jnp.asarray(value), decay)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_values_of_terminal_states_do_not_matter_at_all() -> None:
    reward, done = jnp.asarray([[1.0], [2.0]]), jnp.asarray([[True], [True]])
    for value in (INF, -INF, float("nan")):
        assert lambda_returns(reward, done, jnp.full((2, 1), value), 0.75).tolist() == [[1.0], [2.0]]


# Loss and target networks.


def test_the_loss_is_the_mean_squared_error_of_the_chosen_values() -> None:
    q = jnp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    choice, target = jnp.asarray([1, 0, 0]), jnp.asarray([0.0, 4.0, 5.5])
    # (2 - 0)^2, (3 - 4)^2, (5 - 5.5)^2: no half.
    assert float(td_loss(q, choice, target, jnp.full(3, 1 / 3))) == pytest.approx(5.25 / 3)
    assert float(td_loss(q, choice, target, jnp.asarray([0.5, 0.5, 0.0]))) == pytest.approx(2.5)
    gradient = jax.grad(td_loss)(q, choice, target, jnp.full(3, 1 / 3))
    np.testing.assert_allclose(gradient, np.array([[0, 4], [-2, 0], [-1, 0]]) / 3, rtol=1e-6)


def test_target_networks_move_by_a_fraction_of_the_difference() -> None:
    target = {"weight": jnp.asarray([1.0, -2.0]), "bias": jnp.asarray(0.0)}
    online = {"weight": jnp.asarray([3.0, -2.0]), "bias": jnp.asarray(100.0)}
    moved = polyak(target, online, 0.005)
    np.testing.assert_allclose(moved["weight"], [1.01, -2.0], rtol=1e-6)
    np.testing.assert_allclose(moved["bias"], 0.5, rtol=1e-6)
