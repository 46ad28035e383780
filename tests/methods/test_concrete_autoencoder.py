"""The concrete autoencoder against loops, and on a label that two actions tell."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import AFABENCH, PAPER, Problem, Table
from ascertain._core.effort import EFFORTS
from ascertain.methods import _concrete_autoencoder as concrete
from ascertain.methods._concrete_autoencoder import Settings, order, passed, without_repeats

from .by_hand import FAST

renewed = jax.jit(without_repeats, compiler_options=FAST)


@given(st.integers(0, 10_000), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_later_picks_of_the_same_action_start_again(seed: int, n_picks: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(n_picks, 4)).astype(np.float32)
    expected, taken = logits.copy(), set[int]()
    for pick, row in enumerate(logits):
        if int(row.argmax()) in taken:
            expected[pick] = 0
        taken.add(int(row.argmax()))
    np.testing.assert_array_equal(renewed(logits), expected)


def test_a_feature_passes_as_its_best_pick_lets_it() -> None:
    problem = Problem([[1, 1, 0, 0], [0, 1, 1, 0]], [1, 1], budget=2, n_classes=2)
    choice = jnp.asarray([[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]])
    # The second feature is revealed by both actions, the last is known from the start.
    np.testing.assert_allclose(passed(choice, problem), [[0.9, 1, 0.7, 1], [0.5, 1, 0.5, 1]])


def test_the_set_comes_first_and_both_parts_are_in_the_problems_order() -> None:
    logits = jnp.asarray([[0, 0, 0, 9, 0], [0, 9, 0, 0, 0], [0, 0, 0, 8, 0]], jnp.float32)
    assert np.argsort(np.asarray(order(logits))).tolist() == [1, 3, 0, 2, 4]


@pytest.mark.parametrize(("protocol", "picks"), [(PAPER, 4), (AFABENCH, 3)], ids=["paper", "afabench"])
def test_there_are_as_many_picks_as_the_budget_pays(protocol: object, picks: int) -> None:
    problem = Problem(np.eye(6), [0.5, 0.5, 1, 1, 2, 2], budget=3.2, n_classes=2)
    assert isinstance(protocol, type(PAPER))
    assert Settings().completed(problem, protocol).steps == picks
    assert Settings(steps=2).completed(problem, protocol).steps == 2


@pytest.mark.slow
def test_it_finds_the_pair_that_tells_the_label() -> None:
    """The label is the majority of the two features of one action and the feature of another."""
    rng = np.random.default_rng(0)
    reveals = np.zeros((5, 6), bool)
    reveals[[0, 1, 1, 2, 3, 4], range(6)] = True
    problem = Problem(reveals, np.ones(5), budget=2, n_classes=2)

    def table(n_rows: int) -> Table:
        x = rng.choice([-1.0, 1.0], size=(n_rows, 6))
        return Table(x, x[:, 1] + x[:, 2] + x[:, 5] > 0, n_classes=2)

    train, valid = table(1000), table(500)
    short = Settings(
        steps=2, hidden=(8,), temperatures=(5.0, 0.5, 0.05), epochs=30, batch_size=50, learning_rate=1e-2
    )
    policy = jax.jit(
        lambda: concrete.fit(jr.key(0), problem, train, valid, settings=short), compiler_options=FAST
    )()
    scores = policy(train.x[:1], *(jnp.zeros((1, n), bool) for n in (6, 5, 5)), key=jr.key(0))
    assert np.argsort(-np.asarray(scores[0, 1:])).tolist() == [1, 4, 0, 2, 3]


def test_less_effort_is_shorter_training() -> None:
    assert Settings().shortened(EFFORTS["low"], 1280).epochs == 10
