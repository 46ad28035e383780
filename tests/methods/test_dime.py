"""DIME: its objective by hand, and its training against a second one that follows it step by step."""

from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import AFABENCH, Problem, Protocol, Table
from ascertain._core.networks import MLP, Linear
from ascertain.acquisition import choose
from ascertain.methods import _dime as dime
from ascertain.methods._dime import DIME, DIMENetworks, Settings, batch_objective, entropy

from ..acquisition_cases import PROTOCOLS
from .by_hand import (
    FAST,
    Adam,
    NaivePlateau,
    Tape,
    assert_close,
    filled,
    may_take,
    readable,
    taped,
    three_classes,
    with_bad_rows,
)

INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 1 and 3."""
    default = Settings()
    assert (default.epsilon, default.epsilon_decay, default.epsilon_steps) == (0.05, 0.2, 10)
    assert (default.least_learning_rate, default.pretraining_epochs) == (1e-6, 200)


# The objective.


def test_the_objective_by_hand() -> None:
    """Three rows, two steps; the third row has nothing left in the second step."""
    losses = jnp.asarray([[1.0, 2.0, 0.5], [0.4, 2.5, 0.3], [0.1, 2.0, 0.3]])
    estimate = jnp.asarray([[0.5, 0.1, 0.2], [0.2, 0.4, 9.0]])
    counts = jnp.asarray([[True, True, True], [True, True, False]])
    found = batch_objective(estimate, losses, counts, jnp.ones(3))
    # What the steps were worth: 0.6, -0.5, 0.2 and 0.3, 0.5.
    first = (0.1**2 + 0.6**2 + 0.0**2) / 3
    second = (0.1**2 + 0.1**2) / 2
    predictor = (1 + 2 + 0.5) / 3 + (0.4 + 2.5 + 0.3) / 3 + (0.1 + 2 + 0.3) / 3
    assert float(found) == pytest.approx((first + second + predictor) / 3, rel=1e-5)
    # Without the second row, whose numbers then do not matter.
    skipped = batch_objective(
        estimate, losses, counts & jnp.asarray([[True, False, True]]), jnp.asarray([1.0, 0.0, 1.0])
    )
    predictor = (1 + 0.5 + 0.4 + 0.3 + 0.1 + 0.3) / 2
    assert float(skipped) == pytest.approx((0.1**2 / 2 + 0.1**2 + predictor) / 3, rel=1e-5)


def test_values_learn_from_losses_and_not_the_other_way_round() -> None:
    losses = jnp.asarray([[1.0, 2.0], [0.4, 2.5]])
    counts = jnp.ones((1, 2), bool)

    def objective(estimate: Array, losses: Array) -> Array:
        return batch_objective(estimate, losses, counts, jnp.ones(2))

    by_estimate, by_losses = jax.grad(objective, (0, 1))(jnp.asarray([[0.5, 0.1]]), losses)
    np.testing.assert_allclose(by_losses, np.full((2, 2), 1 / 4))  # of the mean loss alone
    np.testing.assert_allclose(by_estimate, [[2 * -0.1 / 2 / 2, 2 * 0.6 / 2 / 2]], rtol=1e-5)


def test_batches_without_anything_to_acquire_have_no_value_loss() -> None:
    nothing = jnp.zeros((1, 2), bool)
    found = batch_objective(jnp.full((1, 2), 5.0), jnp.ones((2, 2)), nothing, jnp.zeros(2))
    assert float(found) == 0.0


def test_entropy_is_in_nats() -> None:
    logits = jnp.asarray([[0.0, 0.0], [0.0, np.log(3.0)], [0.0, 200.0]])
    np.testing.assert_allclose(entropy(logits), [np.log(2), 0.5623351, 0], atol=1e-6)


# Acting.


def constant(share: list[float], probability: list[float]) -> DIMENetworks:
    """Make networks that give the same whatever they see: shares of the entropy, and a prediction."""

    def layer(n_inputs: int, values: np.ndarray) -> Linear:
        still = jax.tree.map(jnp.zeros_like, Linear(n_inputs, len(values), key=jr.key(0)))
        return eqx.tree_at(lambda each: each.bias, still, jnp.asarray(values, jnp.float32))

    odds = np.log(np.array(share) / (1 - np.array(share)))
    return DIMENetworks((layer(6, np.zeros(2)),), layer(2, np.log(probability)), layer(2, odds))


@partial(jax.jit, compiler_options=FAST)
def act(policy: DIME, *seen: Array) -> Array:
    return policy(*seen, key=jr.key(0))


def scores(policy: DIME) -> np.ndarray:
    nothing = jnp.zeros((1, 3), bool)
    return np.asarray(act(policy, jnp.ones((1, 3)), nothing, nothing, ~nothing))[0]


PRICED = Problem(np.eye(3), [2.0, 0.5, 0.0], 2, n_classes=2)
H = 0.5623351


@cache
def priced() -> DIME:
    return DIME(constant([0.5, 0.2, 0.1], [0.25, 0.75]), PRICED, jnp.asarray(-INF))


def test_scores_are_information_per_cost() -> None:
    """Parts of the entropy of the prediction; a free action costs next to nothing."""
    assert scores(priced())[0] == -INF
    np.testing.assert_allclose(scores(priced())[1:], [0.5 * H / 2, 0.2 * H / 0.5, 0.1 * H / 1e-12], rtol=1e-4)


def test_it_stops_where_nothing_is_worth_the_threshold() -> None:
    left = jnp.asarray([True, True, False])  # the best score of these is 0.2249
    for threshold, expected in ((-INF, 2), (0.2248, 2), (0.2250, 0)):
        found = scores(priced().stopping_at(threshold))
        assert int(choose(jnp.asarray(found), left)) == expected
        np.testing.assert_array_equal(found[1:], scores(priced())[1:])


# Training. A second implementation follows the real one, given its draws.

N_ROWS, N_VALID, STEPS, N_EPOCHS, RATE = 200, 40, 2, 20, 0.05
PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 5], budget=2, n_classes=3)
REVEALS, PRICES = np.asarray(PROBLEM.reveals), np.asarray(PROBLEM.costs)
# With this patience, exploration falls with every second epoch in a row that is no better.
SETTINGS = Settings(
    steps=STEPS,
    epochs=N_EPOCHS,
    batch_size=N_ROWS,
    hidden=(8, 6),
    dropout=0.0,
    patience=0,
    learning_rate=RATE,
    epsilon=0.5,
    epsilon_steps=2,
)
TRAIN, VALID = (with_bad_rows(three_classes(n, seed)) for seed, n in enumerate((N_ROWS, N_VALID)))


class Run(NamedTuple):
    protocol: Protocol
    policy: DIME
    tape: Tape


@pytest.fixture(scope="module", params=PROTOCOLS, ids=lambda protocol: protocol.name)
def run(request: pytest.FixtureRequest) -> Run:
    own = filled(partial(MLP, (8, 8, 6, 3)), 5)
    with taped(PROBLEM.n_actions) as tape:

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return dime.fit(
                key, PROBLEM, TRAIN, VALID, pretrained=own, settings=SETTINGS, protocol=request.param
            )

        policy = jax.block_until_ready(fit(jr.key(3)))
    return Run(request.param, policy, tape)


def legal_in(protocol: Protocol, table: Table, acquired: np.ndarray) -> np.ndarray:
    return may_take(PROBLEM, protocol, acquired, readable(PROBLEM, np.asarray(table.available)))


def counting(protocol: Protocol, table: Table) -> np.ndarray:
    """The rows that count: in the paper's reading those in which something is legal at the start."""
    legal = legal_in(protocol, table, np.zeros((len(table.y), 3), bool))
    return np.logical_or(legal.any(axis=1), protocol is AFABENCH)


def class_weights() -> np.ndarray:
    """Inverse frequencies, scaled to a sum of 1."""
    inverse = 1 / np.bincount(np.asarray(TRAIN.y), minlength=3)
    return inverse / inverse.sum()


@jax.jit
def forward(networks: DIMENetworks, x: Array, acquired: Array) -> tuple[Array, Array]:
    """Log-probabilities of the classes, and shares."""
    mask = (acquired @ REVEALS.astype(np.float32) > 0).astype(jnp.float32)
    hidden = jnp.concatenate([x * mask, mask], axis=-1)
    for layer in networks.hidden:
        hidden = jnp.maximum(hidden @ layer.weight + layer.bias[None], 0.0)
    classes, values = networks.to_classes, networks.to_values
    log_probability = jax.nn.log_softmax(hidden @ classes.weight + classes.bias[None])
    return log_probability, jax.nn.sigmoid(hidden @ values.weight + values.bias[None])


def greedy_moves(networks: DIMENetworks, table: Table, acquired: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """The most information per price; the entropy is the same for all actions."""
    share = np.asarray(forward(networks, table.x, jnp.asarray(acquired, jnp.float32))[1])
    return np.where(legal, share / PRICES[None], -1).argmax(axis=1)


def naive_moves(
    protocol: Protocol, networks: DIMENetworks, draws: list[np.ndarray], epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """The states, and the moves of each step: -1 where nothing was legal."""
    acquired, moves = [np.zeros((N_ROWS, 3), bool)], []
    for (draw,) in draws:
        legal = legal_in(protocol, TRAIN, acquired[-1])
        anything = np.where(legal, draw[None, 1:], -1).argmax(axis=1)
        best = greedy_moves(networks, TRAIN, acquired[-1], legal)
        move = np.where(legal.any(axis=1), best if draw[0] > epsilon else anything, -1)
        acquired.append(acquired[-1] | (np.arange(3)[None] == move[:, None]))
        moves.append(move)
    return np.stack(acquired), np.stack(moves)


def naive_validation(protocol: Protocol, networks: DIMENetworks) -> float:
    """The mean loss over the states of greedy acquisition."""
    acquired, y, losses = np.zeros((N_VALID, 3), bool), np.asarray(VALID.y), []
    for step in range(STEPS + 1):
        if step:
            legal = legal_in(protocol, VALID, acquired)
            move = greedy_moves(networks, VALID, acquired, legal)
            acquired = acquired | ((np.arange(3)[None] == move[:, None]) & legal)
        log_probability = forward(networks, VALID.x, jnp.asarray(acquired, jnp.float32))[0]
        losses.append(-class_weights()[y] * np.asarray(log_probability)[np.arange(N_VALID), y])
    return float(np.mean(np.stack(losses)[:, counting(protocol, VALID)]))


@partial(jax.jit, compiler_options=FAST)
def naive_gradient(
    networks: DIMENetworks, x: Array, y: Array, weights: Array, acquired: Array, move: Array, worth: Array
) -> DIMENetworks:
    """Follow methods.md 3: after each step, value loss plus the mean of the losses, over T + 1."""

    def loss(networks: DIMENetworks) -> Array:
        rows = jnp.arange(len(y))

        def row_loss(acquired: Array) -> tuple[Array, Array, Array]:
            log_probability, share = forward(networks, x, acquired)
            return -weights[y] * log_probability[rows, y], log_probability, share

        before, log_probability, share = row_loss(acquired[0])
        total = jnp.sum(worth * before) / jnp.sum(worth)
        for t in range(STEPS):
            some = move[t] >= 0
            uncertainty = jax.lax.stop_gradient(-jnp.sum(jnp.exp(log_probability) * log_probability, axis=1))
            estimate = share[rows, jnp.maximum(move[t], 0)] * uncertainty
            after, log_probability, share = row_loss(acquired[t + 1])
            worth_it = jax.lax.stop_gradient(before - after)
            total += jnp.sum(jnp.where(some, (estimate - worth_it) ** 2, 0.0)) / some.sum()
            total += jnp.sum(worth * after) / jnp.sum(worth)
            before = after
        return total / (STEPS + 1)

    return jax.grad(loss)(networks)


def test_training_is_that_of_a_second_implementation(run: Run) -> None:
    """Moves, gradients, Adam, plateaus of the validation loss, and which networks are kept.

    The shared layers are updated once or twice with the same gradient. When the loss stays, exploration falls
    and the learning rate starts again; training ends when exploration has fallen often enough.
    """
    tape, protocol = run.tape, run.protocol
    draws, twice = tape.take("uniform"), 2 if protocol is AFABENCH else 1
    hidden, heads = tape.starts[:2]
    adam = Adam(DIMENetworks(hidden, *heads))
    n_shared = len(jax.tree.leaves(hidden))
    times = [twice] * n_shared + [1] * (len(adam.leaves) - n_shared)
    plateau, epsilon, falls, epochs, explored = NaivePlateau(RATE, 0, 1e-6), 0.5, 0, 0, set()
    best = adam.model
    while falls < 2 and epochs < N_EPOCHS:
        *shared, of_heads = tape.gradients[epochs * (twice + 1) : (epochs + 1) * (twice + 1)]
        gradient = DIMENetworks(shared[0], *of_heads)
        assert_close(shared[-1], shared[0], rtol=0, atol=0)
        steps = draws[epochs * STEPS : (epochs + 1) * STEPS]
        explored |= {bool(draw[0, 0] <= epsilon) for draw in steps}
        acquired, moves = naive_moves(protocol, adam.model, steps, epsilon)
        expected = naive_gradient(
            adam.model,
            TRAIN.x,
            TRAIN.y,
            jnp.asarray(class_weights(), jnp.float32),
            jnp.asarray(acquired, jnp.float32),
            jnp.asarray(moves),
            jnp.asarray(counting(protocol, TRAIN), jnp.float32),
        )
        assert_close(gradient, expected, rtol=5e-3, atol=2e-5)
        adam.step(gradient, plateau.rate, times)
        if plateau.step(naive_validation(protocol, adam.model)):
            best = adam.model
        if plateau.stops:
            plateau.rate, plateau.not_best, epsilon, falls = RATE, 0, 0.2 * epsilon, falls + 1
        epochs += 1
    assert len(tape.gradients) == epochs * (twice + 1)
    assert falls == 2
    assert explored == {False, True}
    assert_close(run.policy.networks, best, rtol=1e-4)


def test_no_two_draws_share_a_key(run: Run) -> None:
    """So the steps of training explore independently of each other."""
    assert len(set(run.tape.keys)) == len(run.tape.keys) > 0
