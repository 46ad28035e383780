"""GDFS: its relaxed choices against their distribution, its training against a second one, step by step."""

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
from ascertain._core.networks import MLP
from ascertain.acquisition import choose
from ascertain.methods import gdfs
from ascertain.methods.gdfs import GDFS, Networks, Settings, concrete, settings_for
from ascertain.methods.greedy import Plateau, descend, epoch

from ..acquisition_cases import PROTOCOLS
from .by_hand import FAST, Adam, assert_close, filled, may_take, readable, shown, three_classes, with_bad_rows

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 2."""
    default = Settings()
    np.testing.assert_allclose(default.temperatures, [1, 0.5623, 0.3162, 0.1778, 0.1], rtol=1e-3)
    assert default.logit_scale == 0.2
    assert (default.least_learning_rate, default.pretraining_epochs) == (1e-5, 100)


def test_cube_nuc_is_trained_for_as_many_steps_as_it_has_features_in_the_reference() -> None:
    problem = Problem(np.eye(20), [2 / 3] * 10 + [4 / 3] * 10, 7, n_classes=2)
    assert settings_for(problem, AFABENCH, "cube_nuc").steps == 20
    assert settings_for(problem, PAPER, "cube_nuc").steps == 10
    assert settings_for(problem, AFABENCH, None).steps == 7


# Relaxed choices. At any temperature, tau (log s_a - log s_b) - (l_a - l_b) / gamma is logistic, and the
# largest entry is a draw from the softmax of l / gamma.

N_DRAWS = 20_000
LOGITS = jnp.asarray([0.3, -0.1, 0.2, 0.05])
GAMMA = 0.2


@partial(jax.jit, compiler_options=FAST)
def draws(temperature: Array) -> Array:
    return concrete(jr.key(0), jnp.tile(LOGITS[None], (N_DRAWS, 1)), GAMMA, temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_relaxed_choices_have_the_concrete_distribution(temperature: float) -> None:
    found = np.asarray(draws(jnp.asarray(temperature)), np.float64)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    counts = np.bincount(found.argmax(axis=1), minlength=4)
    expected = np.exp(np.asarray(LOGITS, np.float64) / GAMMA)
    assert scipy.stats.chisquare(counts, N_DRAWS * expected / expected.sum()).pvalue > ALPHA
    visible = (found[:, 0] > 1e-30) & (found[:, 2] > 1e-30)  # single precision has no smaller ones
    ratio = temperature * np.log(found[visible, 0] / found[visible, 2]) - 0.1 / GAMMA
    assert visible.mean() > 0.999
    assert scipy.stats.kstest(ratio, scipy.stats.logistic.cdf).pvalue > ALPHA


def test_cold_choices_are_one_hot_and_hot_ones_uniform() -> None:
    cold, hot = np.asarray(draws(jnp.asarray(1e-6))), np.asarray(draws(jnp.asarray(1e6)))
    # The two largest of 20,000 draws come closer than 1e-5 with a probability of some percent each.
    assert np.mean(cold.max(axis=1) > 0.999) > 0.999
    np.testing.assert_allclose(hot, 0.25, atol=1e-4)


# Acting.


def constant(values: list[float]) -> MLP:
    """Make a network that gives the same whatever it sees."""
    network = jax.tree.map(jnp.zeros_like, MLP((6, len(values)), key=jr.key(0)))
    return eqx.tree_at(lambda each: each.layers[0].bias, network, jnp.asarray(values))


@partial(jax.jit, compiler_options=FAST)
def act(policy: GDFS, *seen: Array) -> Array:
    return policy(*seen, key=jr.key(0))


def scores(policy: GDFS) -> np.ndarray:
    nothing = jnp.zeros((1, 3), bool)
    return np.asarray(act(policy, jnp.ones((1, 3)), nothing, nothing, ~nothing))[0]


COSTS = jnp.asarray([2.0, 0.5, 0.0])


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (True, [1 / 2, -1 / 0.5, 3 / 1e-12]),
        (False, [1 - np.log(2), -1 - np.log(0.5), 3 - np.log(1e-12)]),
    ],
)
def test_scores_take_costs_into_account(divide: bool, expected: list[float]) -> None:
    """The reference divides by them when it acts; a free action costs next to nothing."""
    networks = Networks(constant([1.0, -1.0, 3.0]), constant([0.0, 0.0]))
    found = scores(GDFS(networks, COSTS, jnp.asarray(-INF), divide))
    assert found[0] == -INF
    np.testing.assert_allclose(found[1:], expected, rtol=1e-5)


def test_with_a_threshold_it_stops_once_it_is_sure() -> None:
    """Probabilities 1/4 and 3/4 have an entropy of 0.562335 nats."""
    networks = Networks(constant([1.0, -1.0, 3.0]), constant([0.0, np.log(3.0)]))
    policy = GDFS(networks, COSTS, jnp.asarray(-INF), False)
    assert scores(policy)[0] == -INF
    assert scores(policy.stopping_at(0.5623))[0] == -INF
    certain = scores(policy.stopping_at(0.5624))
    assert int(choose(jnp.asarray(certain), jnp.ones(3, bool))) == 0
    assert certain[1:].tolist() == scores(policy)[1:].tolist()


# Training. A second implementation follows the real one, given its lots: the relaxed choices, and the
# gradients, which it computes again.

N_ROWS, N_VALID, STEPS, N_EPOCHS = 600, 40, 2, 2
TEMPERATURES = (0.6, 0.4)
PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 5], budget=2, n_classes=3)
REVEALS, PRICES = np.asarray(PROBLEM.reveals), np.asarray(PROBLEM.costs)
SETTINGS = Settings(
    steps=STEPS, epochs=N_EPOCHS, batch_size=N_ROWS, hidden=(8,), dropout=0.0, temperatures=TEMPERATURES
)


class Relaxed(NamedTuple):
    """A call of `concrete`."""

    logits: np.ndarray
    choice: np.ndarray
    temperature: np.ndarray


class Update(NamedTuple):
    """A call of `descend`."""

    gradient: Networks
    model: Networks
    rate: float


class Run(NamedTuple):
    protocol: Protocol
    policy: GDFS
    train: Table
    valid: Table
    relaxed: list[Relaxed]  # per epoch: the training batch's, then the validation steps'
    rows: list[np.ndarray]  # in the order of the training batch, one per epoch
    updates: list[Update]  # one per epoch
    losses: list[float]  # one per epoch


@pytest.fixture(scope="module", params=PROTOCOLS, ids=lambda protocol: protocol.name)
def run(request: pytest.FixtureRequest) -> Run:
    relaxed: list[Relaxed] = []
    order: list[np.ndarray] = []
    updates: list[Update] = []
    losses: list[float] = []

    def watched_concrete(key: Array, logits: Array, scale: float, temperature: Array) -> Array:
        choice = concrete(key, logits, scale, temperature)
        jax.debug.callback(
            lambda *seen: relaxed.append(Relaxed(*map(np.asarray, seen))),
            logits,
            choice,
            temperature,
            ordered=True,
        )
        return choice

    def watched_descend(gradient: Any, optimiser: Any, model: Any, rate: Array) -> Any:
        jax.debug.callback(lambda *seen: updates.append(Update(*seen)), gradient, model, rate, ordered=True)
        return descend(gradient, optimiser, model, rate)

    def watched_epoch(key: Array, carry: Any, step: Any, *sizes: int) -> Any:
        def watched_step(carry: Any, key: Array, rows: Array) -> Any:
            jax.debug.callback(lambda seen: order.append(np.asarray(seen)), rows, ordered=True)
            return step(carry, key, rows)

        return epoch(key, carry, watched_step, *sizes)

    after = Plateau.after

    def watched_after(self: Plateau, loss: Array, *rest: Any) -> Any:
        jax.debug.callback(lambda seen: losses.append(float(seen)), loss, ordered=True)
        return after(self, loss, *rest)

    train, valid = (with_bad_rows(three_classes(n, seed)) for seed, n in enumerate((N_ROWS, N_VALID)))
    own = filled(partial(MLP, (8, 8, 3)), 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gdfs, "concrete", watched_concrete)
        patch.setattr(gdfs, "descend", watched_descend)
        patch.setattr(gdfs, "epoch", watched_epoch)
        patch.setattr(Plateau, "after", watched_after)

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return gdfs.fit(
                key, PROBLEM, train, valid, pretrained=own, settings=SETTINGS, protocol=request.param
            )

        policy = jax.block_until_ready(fit(jr.key(3)))
        jax.effects_barrier()
    return Run(request.param, policy, train, valid, relaxed, order, updates, losses)


def of_epoch(run: Run, number: int) -> tuple[Relaxed, list[Relaxed]]:
    """Give the relaxed choices of an epoch, in training and in each step of validation."""
    mine = run.relaxed[number * (1 + STEPS) : (number + 1) * (1 + STEPS)]
    return mine[0], mine[1:]


def legal_in(run: Run, table: Table, acquired: np.ndarray) -> np.ndarray:
    return may_take(PROBLEM, run.protocol, acquired, readable(PROBLEM, np.asarray(table.available)))


def states(run: Run, table: Table, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find out what had been acquired before each step, from what was legal in it.

    At these costs an action that is acquired is the only one which then is legal no more.
    """
    legal = logits > -1e5
    acquired = np.stack([np.zeros_like(legal[0]), legal[0] & ~legal[1]])
    for t in range(STEPS):
        np.testing.assert_array_equal(legal[t], legal_in(run, table, acquired[t]))
    return acquired, legal


def inputs(x: Array, mask: Array) -> Array:
    return jnp.concatenate([x * mask, mask], axis=-1)


def weighted_loss(predictor: MLP, x: Array, mask: Array, y: Array, frequency: Array, worth: Array) -> Array:
    """Give sum w CE / sum w of one step."""
    probability = jax.nn.softmax(predictor(inputs(x, mask)))[jnp.arange(len(y)), y]
    weight = worth / frequency[y]
    return jnp.sum(weight * -jnp.log(probability)) / jnp.sum(weight)


def plain(run: Run, table: Table) -> tuple[Array, Array, Array, Array]:
    """Give values, labels, class frequencies (in training), and which rows count."""
    frequency = jnp.asarray(np.bincount(np.asarray(run.train.y), minlength=3) / N_ROWS)
    legal = legal_in(run, table, np.zeros((len(table.y), 3), bool))
    worth = legal.any(axis=1) if run.protocol is PAPER else np.ones(len(table.y), bool)
    return table.x, table.y, frequency, jnp.asarray(worth, jnp.float32)


@partial(jax.jit, compiler_options=FAST)
def naive_gradient(
    networks: Networks, data: Any, acquired: Array, legal: Array, lots: Array, temperature: Array
) -> Networks:
    def loss(networks: Networks) -> Array:
        x, y, frequency, worth = data
        total = jnp.asarray(0.0)
        for t in range(STEPS):
            mask = (acquired[t] @ REVEALS.astype(float)) > 0
            logits = networks.selector(inputs(x, mask.astype(float))) - jnp.log(jnp.asarray(PRICES))[None]
            logits = jnp.where(legal[t], logits, -1e6)
            soft = jax.nn.softmax((jax.nn.log_softmax(logits / GAMMA) + lots[t]) / temperature)
            soft = jnp.where(legal[t].any(axis=1, keepdims=True), soft, 0.0)
            soft_features = soft[:, jnp.asarray([0, 0, 1, 2])]
            softer = jnp.maximum(mask.astype(float), soft_features)
            total += weighted_loss(networks.predictor, x, softer, y, frequency, worth) / STEPS
        return total

    return jax.grad(loss)(networks)


def test_gradients_are_those_of_the_loss_after_relaxed_choices(run: Run) -> None:
    assert len(run.updates) == len(TEMPERATURES) * N_EPOCHS
    for number, update in enumerate(run.updates):
        train, _ = of_epoch(run, number)
        table = run.train.take(jnp.asarray(run.rows[number]))
        acquired, legal = states(run, table, train.logits)
        # The Gumbel lots up to a constant, from the choices; where a choice is 0, they do not matter.
        scaled = np.where(legal, train.logits / GAMMA, -1e9)
        log_probability = scaled - scipy.special.logsumexp(scaled, axis=-1, keepdims=True)
        log_choice = train.temperature * np.log(np.maximum(train.choice, 1e-37))
        lots = np.where(legal, log_choice - log_probability, 0.0)
        expected = naive_gradient(
            update.model,
            plain(run, table),
            jnp.asarray(acquired, jnp.float32),
            jnp.asarray(legal),
            jnp.asarray(lots, jnp.float32),
            jnp.asarray(train.temperature),
        )
        assert_close(update.gradient, expected, rtol=2e-3)


def test_logits_are_the_selectors_less_the_log_of_the_costs(run: Run) -> None:
    for number, update in enumerate(run.updates):
        train, _ = of_epoch(run, number)
        at_first = update.model.selector(jnp.zeros((1, 8)))
        for row in range(N_ROWS):
            legal = train.logits[0, row] > -1e5
            expected = np.asarray(at_first)[0] - np.log(PRICES)
            np.testing.assert_allclose(train.logits[0, row][legal], expected[legal], rtol=1e-4, atol=1e-5)


def test_illegal_actions_get_no_mass(run: Run) -> None:
    for relaxed in run.relaxed:
        legal = relaxed.logits > -1e5
        some = legal.any(axis=-1)
        assert relaxed.choice[some][~legal[some]].max() == 0


def test_hard_moves_are_drawn_by_the_logits_and_apart_from_the_relaxed_ones(run: Run) -> None:
    table = run.train.take(jnp.asarray(run.rows[0]))
    complete = np.asarray(table.available).all(axis=1)
    train, _ = of_epoch(run, 0)
    acquired, legal = states(run, table, train.logits)
    moves, relaxed = acquired[1][complete].argmax(axis=1), train.choice[0][complete].argmax(axis=1)
    there = np.flatnonzero(legal[0][complete][0])
    weights = np.exp(train.logits[0][complete][0][there] / GAMMA)
    counts = np.bincount(moves, minlength=3)[there]
    expected = counts.sum() * weights / weights.sum()
    common = expected > 5  # where chi-square holds
    assert common.sum() > 1
    scaled = expected[common] * counts[common].sum() / expected[common].sum()
    assert scipy.stats.chisquare(counts[common], scaled).pvalue > ALPHA
    together = np.array(
        [[np.sum((moves == a) & (relaxed == b)) for b in there[common]] for a in there[common]]
    )
    assert scipy.stats.chi2_contingency(together).pvalue > ALPHA


def naive_networks(run: Run, soft_losses: list[float]) -> list[Networks]:
    """Give the networks after each epoch: Adam, from anew and from the best at each temperature."""
    found: list[Networks] = []
    start = run.updates[0].model
    for stage in range(len(TEMPERATURES)):
        adam = Adam(start)
        here = slice(stage * N_EPOCHS, (stage + 1) * N_EPOCHS)
        for update in run.updates[here]:
            adam.step(update.gradient)
            found.append(adam.model)
        start = found[here][int(np.argmin(soft_losses[here]))]
    return found


def naive_validation(run: Run, networks: Networks, steps: list[Relaxed]) -> tuple[float, float]:
    """Give the losses after relaxed and hard choices, the latter being the former's largest entries."""
    x, y, frequency, worth = plain(run, run.valid)
    acquired = np.zeros((N_VALID, 3), bool)
    losses: list[list[float]] = [[], []]
    for step in steps:
        legal = legal_in(run, run.valid, acquired)
        np.testing.assert_array_equal(step.logits > -1e5, legal)
        some = legal.any(axis=1, keepdims=True)
        soft = np.maximum(shown(PROBLEM, acquired), (step.choice * some) @ REVEALS)
        acquired = acquired | (np.eye(3, dtype=bool)[step.choice.argmax(axis=1)] & some)
        for kind, mask in enumerate((soft, shown(PROBLEM, acquired))):
            inputs_mask = jnp.asarray(mask, jnp.float32)
            losses[kind].append(float(weighted_loss(networks.predictor, x, inputs_mask, y, frequency, worth)))
    return float(np.mean(losses[0])), float(np.mean(losses[1]))


def test_validation_temperatures_and_the_best_of_all(run: Run) -> None:
    """The networks that are best by relaxed choices go on to the next temperature, with a new optimiser.

    Those that were ever best by hard choices are the result.
    """
    expected = naive_networks(run, run.losses)
    temperatures = [of_epoch(run, number)[0].temperature for number in range(len(run.updates))]
    np.testing.assert_allclose(temperatures, np.repeat(TEMPERATURES, N_EPOCHS), rtol=1e-6)
    hard_losses = []
    for number, networks in enumerate(expected):
        soft, hard = naive_validation(run, networks, of_epoch(run, number)[1])
        assert run.losses[number] == pytest.approx(soft, rel=1e-4)
        hard_losses.append(hard)
        if number + 1 < len(expected) and (number + 1) % N_EPOCHS:
            assert_close(run.updates[number + 1].model, networks, rtol=1e-4)
    best = int(np.argmin(run.losses[:N_EPOCHS]))
    assert_close(run.updates[N_EPOCHS].model, expected[best], rtol=1e-4)
    assert_close(run.policy.networks, expected[int(np.argmin(hard_losses))], rtol=1e-4)
    assert run.policy.divide_by_cost == (run.protocol is AFABENCH)
