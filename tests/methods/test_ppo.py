"""The clipped policy gradient against values worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ascertain.methods.ppo import actor_loss, chosen, critic_loss, log_probabilities, mean_entropy


def one_actor_loss(ratio: float, advantage: float) -> float:
    old = jnp.asarray([-1.2])
    return float(actor_loss(old + jnp.log(ratio), old, jnp.asarray([advantage]), 0.2))


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),  # within the clip
        (1.5, 2.0, -2.4),  # a good choice counts up to 1.2 times
        (0.5, 2.0, -1.0),  # but loses without limit
        (0.9, -2.0, 1.8),
        (0.5, -2.0, 1.6),  # a bad choice counts no less than 0.8 times
        (1.5, -2.0, 3.0),  # but more without limit
        (1.5, 0.0, 0.0),
    ],
)
def test_the_objective_is_clipped_where_that_makes_it_worse(
    ratio: float, advantage: float, expected: float
) -> None:
    assert one_actor_loss(ratio, advantage) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_actor_loss_is_a_mean_over_all_steps() -> None:
    old = jnp.zeros((2, 2))
    new = jnp.log(jnp.asarray([[1.0, 1.5], [0.5, 1.5]]))
    advantage = jnp.asarray([[3.0, 2.0], [-2.0, -2.0]])
    assert float(actor_loss(new, old, advantage, 0.2)) == pytest.approx((-3 - 2.4 + 1.6 + 3) / 4, rel=1e-5)


def test_at_the_first_step_the_gradient_is_the_policy_gradient() -> None:
    """With the ratio at 1, d loss / d log pi = - advantage / n; beyond the clip nothing is left of it."""
    old = jnp.log(jnp.asarray([0.2, 0.5, 0.3]))
    advantage = jnp.asarray([3.0, -1.0, 2.0])
    gradient = jax.grad(actor_loss)(old, old, advantage, 0.2)
    np.testing.assert_allclose(gradient, [-1.0, 1 / 3, -2 / 3], rtol=1e-5)
    beyond = jax.grad(actor_loss)(old + jnp.asarray([0.5, -0.5, 0.5]), old, advantage, 0.2)
    np.testing.assert_array_equal(beyond, np.zeros(3))


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (2.0, 2.0, 0.0),
        (2.5, 2.0, 0.125),
        (1.5, 2.0, 0.125),
        (3.0, 2.0, 0.5),
        (5.0, 2.0, 2.5),
        (-2.0, 2.0, 3.5),
    ],
)
def test_the_critic_loss_is_quadratic_up_to_one_and_linear_beyond(
    value: float, target: float, expected: float
) -> None:
    found = critic_loss(jnp.asarray([value]), jnp.asarray([target]))
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_the_critic_loss_is_a_mean() -> None:
    found = critic_loss(jnp.asarray([[0.5, 4.0]]), jnp.zeros((1, 2)))
    assert float(found) == pytest.approx((0.125 + 3.5) / 2)


LOGITS = jnp.log(jnp.asarray([[1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 3.0, 5.0], [7.0, 1.0, 1.0, 1.0]]))
LEGAL = jnp.asarray([[True] * 4, [False, True, True, False], [False, True, False, False]])


def test_illegal_choices_have_no_probability() -> None:
    probability = np.exp(log_probabilities(LOGITS, LEGAL))
    expected = np.array([[1 / 11, 2 / 11, 3 / 11, 5 / 11], [0, 0.4, 0.6, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(probability, expected, rtol=1e-5)
    assert np.all(probability[~np.asarray(LEGAL)] == 0)


def test_entropy_counts_legal_choices_only() -> None:
    found = mean_entropy(log_probabilities(LOGITS, LEGAL), LEGAL)
    first = -sum(p * np.log(p) for p in (1 / 11, 2 / 11, 3 / 11, 5 / 11))
    second = -(0.4 * np.log(0.4) + 0.6 * np.log(0.6))
    assert float(found) == pytest.approx((first + second + 0) / 3, rel=1e-5)
    three = jnp.asarray([[False, True, True, True]])
    uniform = mean_entropy(log_probabilities(jnp.zeros((1, 4)), three), three)
    assert float(uniform) == pytest.approx(np.log(3), rel=1e-5)


def test_the_entropys_gradient_is_finite_and_leaves_illegal_choices_alone() -> None:
    """For a softmax over the legal choices: dH / dz_i = -p_i (log p_i + H)."""

    def entropy(logits: jax.Array) -> jax.Array:
        return mean_entropy(log_probabilities(logits, LEGAL), LEGAL)

    gradient = np.asarray(jax.grad(entropy)(LOGITS))
    expected = np.zeros((3, 4))
    for row, legal in enumerate(np.asarray(LEGAL)):
        p = np.exp(np.asarray(LOGITS[row], np.float64)) * legal
        p = p[legal] / p.sum()
        expected[row, legal] = -p * (np.log(p) - np.sum(p * np.log(p))) / 3
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_the_log_probability_of_each_choice_is_picked() -> None:
    table = jnp.asarray([[[-1.0, -2.0], [-3.0, -4.0]]])
    assert chosen(table, jnp.asarray([[1, 0]])).tolist() == [[-2.0, -3.0]]
