"""DIME: its objective by hand, and its training against a second one that follows it step by step."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Array

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table
from ascertain._core.networks import MLP, Linear
from ascertain.acquisition import choose
from ascertain.methods import dime
from ascertain.methods.dime import DIME, Networks, Settings, batch_objective, entropy, settings_for
from ascertain.methods.greedy import Plateau, descend, epoch

from ..acquisition_cases import PROTOCOLS
from .by_hand import FAST, Adam, assert_close, filled, may_take, readable, three_classes, with_bad_rows

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 1 and 3."""
    default = Settings()
    assert (default.epsilon, default.epsilon_decay, default.epsilon_steps) == (0.05, 0.2, 10)
    assert (default.least_learning_rate, default.pretraining_epochs) == (1e-6, 200)
    problem = Problem(np.eye(20), [2 / 3] * 10 + [4 / 3] * 10, 7, n_classes=2)
    found = {name: settings_for(problem, AFABENCH, name) for name in ("cube", "cube_nuc", "cube_nm", None)}
    assert {name: (each.pretraining_epochs, each.steps) for name, each in found.items()} == {
        "cube": (100, 7),
        "cube_nuc": (100, 20),  # trained for as many steps as it has features
        "cube_nm": (200, 7),
        None: (200, 7),
    }
    assert settings_for(problem, PAPER, "cube_nuc").steps == 10


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


def constant(share: list[float], probability: list[float]) -> Networks:
    """Make networks that give the same whatever they see: shares of the entropy, and a prediction."""

    def layer(n_inputs: int, values: np.ndarray) -> Linear:
        still = jax.tree.map(jnp.zeros_like, Linear(n_inputs, len(values), key=jr.key(0)))
        return eqx.tree_at(lambda each: each.bias, still, jnp.asarray(values, jnp.float32))

    odds = np.log(np.array(share) / (1 - np.array(share)))
    return Networks((layer(6, np.zeros(2)),), layer(2, np.log(probability)), layer(2, odds))


@partial(jax.jit, compiler_options=FAST)
def act(policy: DIME, *seen: Array) -> Array:
    return policy(*seen, key=jr.key(0))


def scores(policy: DIME) -> np.ndarray:
    nothing = jnp.zeros((1, 3), bool)
    return np.asarray(act(policy, jnp.ones((1, 3)), nothing, nothing, ~nothing))[0]


POLICY = DIME(constant([0.5, 0.2, 0.1], [0.25, 0.75]), jnp.asarray([2.0, 0.5, 0.0]), jnp.asarray(-INF))
H = 0.5623351


def test_scores_are_information_per_cost() -> None:
    """Parts of the entropy of the prediction; a free action costs next to nothing."""
    assert scores(POLICY)[0] == -INF
    np.testing.assert_allclose(scores(POLICY)[1:], [0.5 * H / 2, 0.2 * H / 0.5, 0.1 * H / 1e-12], rtol=1e-4)


def test_it_stops_where_nothing_is_worth_the_threshold() -> None:
    left = jnp.asarray([True, True, False])  # the best score of these is 0.2249
    for threshold, expected in ((-INF, 2), (0.2248, 2), (0.2250, 0)):
        found = scores(POLICY.stopping_at(threshold))
        assert int(choose(jnp.asarray(found), left)) == expected
        np.testing.assert_array_equal(found[1:], scores(POLICY)[1:])


# Training. A second implementation follows the real one: which actions its rows took can be told from the
# losses afterwards, and everything else follows from these.

N_ROWS, N_VALID, STEPS = 600, 40, 2
PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 5], budget=2, n_classes=3)
REVEALS, PRICES = np.asarray(PROBLEM.reveals), np.asarray(PROBLEM.costs)
# With this patience, exploration falls with every second epoch that is no better, and twice in all.
SETTINGS = Settings(
    steps=STEPS,
    epochs=50,
    batch_size=N_ROWS,
    hidden=(8, 6),
    dropout=0.0,
    patience=0,
    epsilon=0.5,
    epsilon_steps=2,
)
EPSILONS = [0.5, 0.5, 0.5, 0.1, 0.1]
RATES = [1e-3, 1e-3, 2e-4, 1e-3, 2e-4]  # falls by a factor of 5 after every such epoch, and starts again


class Objective(NamedTuple):
    """A call of `batch_objective`."""

    estimate: np.ndarray
    losses: np.ndarray
    counts: np.ndarray
    worth: np.ndarray


class Update(NamedTuple):
    """A call of `descend`."""

    gradient: Any
    model: Any
    rate: float


class Run(NamedTuple):
    protocol: Protocol
    policy: DIME
    train: Table
    valid: Table
    rows: list[np.ndarray]  # in the order of the batch, one per epoch
    objectives: list[Objective]  # one per epoch
    updates: list[Update]  # of the shared layers (once or twice) and of the heads, each epoch
    losses: list[float]  # one per epoch


@pytest.fixture(scope="module", params=PROTOCOLS, ids=lambda protocol: protocol.name)
def run(request: pytest.FixtureRequest) -> Run:
    """Train, and pretend that no epoch is better than the first."""
    order: list[np.ndarray] = []
    objectives: list[Objective] = []
    updates: list[Update] = []
    losses: list[float] = []

    def watched_objective(*inputs: Array) -> Array:
        jax.debug.callback(
            lambda *seen: objectives.append(Objective(*map(np.asarray, seen))), *inputs, ordered=True
        )
        return batch_objective(*inputs)

    def watched_descend(gradient: Any, optimiser: Any, model: Any, rate: Array) -> Any:
        jax.debug.callback(lambda *seen: updates.append(Update(*seen)), gradient, model, rate, ordered=True)
        return descend(gradient, optimiser, model, rate)

    def watched_epoch(key: Array, carry: Any, step: Any, *sizes: int) -> Any:
        def watched_step(carry: Any, key: Array, rows: Array) -> Any:
            jax.debug.callback(lambda seen: order.append(np.asarray(seen)), rows, ordered=True)
            return step(carry, key, rows)

        return epoch(key, carry, watched_step, *sizes)

    after = Plateau.after

    def pretended_after(self: Plateau, loss: Array, *rest: Any) -> Any:
        jax.debug.callback(lambda seen: losses.append(float(seen)), loss, ordered=True)
        return after(self, jnp.where(jnp.isinf(self.best), loss, 2 * self.best), *rest)

    train, valid = (with_bad_rows(three_classes(n, seed)) for seed, n in enumerate((N_ROWS, N_VALID)))
    own = filled(partial(MLP, (8, 8, 6, 3)), 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dime, "batch_objective", watched_objective)
        patch.setattr(dime, "descend", watched_descend)
        patch.setattr(dime, "epoch", watched_epoch)
        patch.setattr(Plateau, "after", pretended_after)

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return dime.fit(
                key, PROBLEM, train, valid, pretrained=own, settings=SETTINGS, protocol=request.param
            )

        policy = jax.block_until_ready(fit(jr.key(3)))
        jax.effects_barrier()
    return Run(request.param, policy, train, valid, order, objectives, updates, losses)


def twice(run: Run) -> int:
    return 2 if run.protocol is AFABENCH else 1


def of_epoch(run: Run, number: int) -> tuple[Networks, Networks, float]:
    """Give the networks before the step of an epoch, its gradient, and the learning rate."""
    per_epoch = twice(run) + 1
    mine = run.updates[number * per_epoch : (number + 1) * per_epoch]
    shared, heads = mine[0], mine[-1]
    assert len({float(each.rate) for each in mine}) == 1
    return Networks(shared.model, *heads.model), Networks(shared.gradient, *heads.gradient), float(heads.rate)


def legal_in(run: Run, table: Table, acquired: np.ndarray) -> np.ndarray:
    return may_take(PROBLEM, run.protocol, acquired, readable(PROBLEM, np.asarray(table.available)))


def frequencies(run: Run) -> np.ndarray:
    """Give class weights that sum to 1."""
    inverse = 1 / np.bincount(np.asarray(run.train.y), minlength=3)
    return inverse / inverse.sum()


@jax.jit
def forward(networks: Networks, x: Array, acquired: Array) -> tuple[Array, Array]:
    """Give log-probabilities of the classes, and shares."""
    mask = (acquired @ REVEALS.astype(np.float32) > 0).astype(jnp.float32)
    hidden = jnp.concatenate([x * mask, mask], axis=-1)
    for layer in networks.hidden:
        hidden = jnp.maximum(hidden @ layer.weight + layer.bias[None], 0.0)
    classes, values = networks.to_classes, networks.to_values
    log_probability = jax.nn.log_softmax(hidden @ classes.weight + classes.bias[None])
    return log_probability, jax.nn.sigmoid(hidden @ values.weight + values.bias[None])


def row_losses(run: Run, networks: Networks, table: Table, acquired: np.ndarray) -> np.ndarray:
    log_probability = np.asarray(forward(networks, table.x, jnp.asarray(acquired, jnp.float32))[0])
    y = np.asarray(table.y)
    return -frequencies(run)[y] * log_probability[np.arange(len(y)), y]


class Trace(NamedTuple):
    """What the rows of an epoch's batch did."""

    table: Table
    networks: Networks
    acquired: np.ndarray  # before each step and at the end
    legal: np.ndarray  # in each step
    move: np.ndarray  # in each step; -1 where nothing was legal


def retrace(run: Run, number: int) -> Trace:
    """Tell the moves from the losses after them, which differ from action to action."""
    table = run.train.take(jnp.asarray(run.rows[number]))
    networks, _, _ = of_epoch(run, number)
    acquired, legals, moves = [np.zeros((N_ROWS, 3), bool)], [], []
    np.testing.assert_allclose(
        run.objectives[number].losses[0], row_losses(run, networks, table, acquired[0]), rtol=1e-4
    )
    for t in range(STEPS):
        before, seen = acquired[-1], run.objectives[number].losses[t + 1]
        legal = legal_in(run, table, before)
        options = np.stack(
            [row_losses(run, networks, table, before | np.eye(3, dtype=bool)[a]) for a in range(3)]
        )
        distance = np.where(legal.T, np.abs(options - seen[None]), INF)
        some = legal.any(axis=1)
        move = np.where(some, distance.argmin(axis=0), -1)
        stays = row_losses(run, networks, table, before)
        error = np.where(some, distance.min(axis=0), np.abs(stays - seen))
        np.testing.assert_allclose(error, 0, atol=1e-5, err_msg="no legal action explains the loss")
        assert np.mean(np.sort(distance, axis=0)[1] > 1e-4) > 0.98, "moves cannot be told apart"
        acquired.append(before | (np.arange(3)[None] == move[:, None]))
        legals.append(legal)
        moves.append(move)
    return Trace(table, networks, np.stack(acquired), np.stack(legals), np.stack(moves))


def test_losses_are_those_of_legal_moves(run: Run) -> None:
    """Groups are revealed as a whole; where nothing is legal, a row stays as it is."""
    for number in range(len(EPSILONS)):
        retrace(run, number)


def test_estimates_are_shares_of_the_entropy(run: Run) -> None:
    for number in range(len(EPSILONS)):
        trace, objective = retrace(run, number), run.objectives[number]
        plays = trace.legal[0].any(axis=1)
        worth = plays if run.protocol is PAPER else np.ones(N_ROWS, bool)
        np.testing.assert_array_equal(objective.worth, worth)
        for t in range(STEPS):
            some = trace.legal[t].any(axis=1)
            np.testing.assert_array_equal(objective.counts[t], some)
            log_probability, share = (
                np.asarray(each)
                for each in forward(
                    trace.networks, trace.table.x, jnp.asarray(trace.acquired[t], jnp.float32)
                )
            )
            uncertainty = -(np.exp(log_probability) * log_probability).sum(axis=1)
            expected = share[np.arange(N_ROWS), trace.move[t]] * uncertainty
            close = np.isclose(objective.estimate[t], expected, rtol=1e-3, atol=1e-5)
            assert close[some].mean() > 0.98  # but for moves that could not be told apart


@partial(jax.jit, compiler_options=FAST)
def naive_gradient(
    networks: Networks, x: Array, y: Array, weights: Array, acquired: Array, move: Array, worth: Array
) -> Networks:
    """Follow methods.md 3: after each step, value loss plus the mean of the losses, over T + 1."""

    def loss(networks: Networks) -> Array:
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


def test_gradients_are_those_of_the_objective(run: Run) -> None:
    for number in range(len(EPSILONS)):
        trace = retrace(run, number)
        expected = naive_gradient(
            trace.networks,
            trace.table.x,
            trace.table.y,
            jnp.asarray(frequencies(run), jnp.float32),
            jnp.asarray(trace.acquired, jnp.float32),
            jnp.asarray(trace.move),
            jnp.asarray(run.objectives[number].worth),
        )
        _, gradient, _ = of_epoch(run, number)
        assert_close(gradient, expected, rtol=5e-3, atol=2e-5)


def test_the_shared_layers_are_updated_once_or_twice(run: Run) -> None:
    """With the same gradient, each time as a step of Adam of its own; the heads once."""
    start, _, _ = of_epoch(run, 0)
    adam = Adam(start)
    n_shared = len(jax.tree.leaves(start.hidden))
    times = [twice(run)] * n_shared + [1] * (len(adam.leaves) - n_shared)
    for number in range(len(EPSILONS)):
        model, gradient, rate = of_epoch(run, number)
        assert_close(model, adam.model, rtol=1e-4)
        adam.step(gradient, rate, times)
        if number == 0:  # the best epoch, as was pretended
            assert_close(run.policy.networks, adam.model, rtol=1e-4)


def test_exploration_and_learning_rate_fall_when_the_loss_stays(run: Run) -> None:
    """Also the number of epochs: training ends when exploration has fallen often enough."""
    assert len(run.objectives) == len(run.losses) == len(EPSILONS)
    np.testing.assert_allclose([of_epoch(run, number)[2] for number in range(len(RATES))], RATES, rtol=1e-5)
    for number, epsilon in enumerate(EPSILONS):
        trace = retrace(run, number)
        complete = np.asarray(trace.table.available).all(axis=1)
        legal = trace.legal[0][complete][0]
        _, share = forward(trace.networks, trace.table.x, jnp.zeros((N_ROWS, 3)))
        best = np.where(legal, np.asarray(share)[0] / PRICES, -1).argmax()
        moves = trace.move[0][complete]
        others = moves != best
        expected = epsilon * (1 - 1 / legal.sum())  # any legal action, the best included
        assert scipy.stats.binomtest(int(others.sum()), len(moves), expected).pvalue > ALPHA


def test_validation_is_greedy(run: Run) -> None:
    """The first epoch's loss, after which the networks are those that were kept."""
    networks, table = run.policy.networks, run.valid
    acquired = np.zeros((N_VALID, 3), bool)
    worth = legal_in(run, table, acquired).any(axis=1) | (run.protocol is AFABENCH)
    losses = [row_losses(run, networks, table, acquired)]
    for _ in range(STEPS):
        legal = legal_in(run, table, acquired)
        share = np.asarray(forward(networks, table.x, jnp.asarray(acquired, jnp.float32))[1])
        best = np.where(legal, share / PRICES[None], -1).argmax(axis=1)
        acquired = acquired | ((np.arange(3)[None] == best[:, None]) & legal)
        losses.append(row_losses(run, networks, table, acquired))
    assert run.losses[0] == pytest.approx(np.mean(np.stack(losses)[:, worth]), rel=1e-4)
