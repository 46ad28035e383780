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
from ascertain.methods import _gdfs as gdfs
from ascertain.methods._gdfs import GDFS, GDFSNetworks, Settings, concrete

from .by_hand import (
    FAST,
    Adam,
    Tape,
    assert_close,
    filled,
    may_take,
    readable,
    shown,
    taped,
    three_classes,
    with_bad_rows,
)

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 2."""
    default = Settings()
    np.testing.assert_allclose(default.temperatures, [1, 0.5623, 0.3162, 0.1778, 0.1], rtol=1e-3)
    assert default.logit_scale == 0.2
    assert (default.least_learning_rate, default.pretraining_epochs) == (1e-5, 100)


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


PRICED = Problem(np.eye(3), [2.0, 0.5, 0.0], 2, n_classes=2)


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (True, [1 / 2, -1 / 0.5, 3 / 1e-12]),
        (False, [1 - np.log(2), -1 - np.log(0.5), 3 - np.log(1e-12)]),
    ],
)
def test_scores_take_costs_into_account(divide: bool, expected: list[float]) -> None:
    """The reference divides by them when it acts; a free action costs next to nothing."""
    networks = GDFSNetworks(constant([1.0, -1.0, 3.0]), constant([0.0, 0.0]))
    found = scores(GDFS(networks, PRICED, jnp.asarray(-INF), divide))
    assert found[0] == -INF
    np.testing.assert_allclose(found[1:], expected, rtol=1e-5)


def test_with_a_threshold_it_stops_once_it_is_sure() -> None:
    """Probabilities 1/4 and 3/4 have an entropy of 0.562335 nats."""
    networks = GDFSNetworks(constant([1.0, -1.0, 3.0]), constant([0.0, np.log(3.0)]))
    policy = GDFS(networks, PRICED, jnp.asarray(-INF), False)
    assert scores(policy)[0] == -INF
    assert scores(policy.stopping_at(0.5623))[0] == -INF
    certain = scores(policy.stopping_at(0.5624))
    assert int(choose(jnp.asarray(certain), jnp.ones(3, bool))) == 0
    assert certain[1:].tolist() == scores(policy)[1:].tolist()


# Training. A second implementation follows the real one, given its draws.

N_ROWS, N_VALID, STEPS, N_EPOCHS, RATE = 200, 40, 2, 3, 0.05
TEMPERATURES = (0.6, 0.4)
PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 5], budget=2, n_classes=3)
REVEALS, PRICES = np.asarray(PROBLEM.reveals), np.asarray(PROBLEM.costs)
SETTINGS = Settings(
    steps=STEPS,
    epochs=N_EPOCHS,
    batch_size=N_ROWS,
    hidden=(8,),
    dropout=0.0,
    temperatures=TEMPERATURES,
    learning_rate=RATE,
)
TRAIN, VALID = (with_bad_rows(three_classes(n, seed)) for seed, n in enumerate((N_ROWS, N_VALID)))
VALID = eqx.tree_at(lambda table: table.y, VALID, (VALID.y + 1) % 3)  # so that the last are not the best


class Run(NamedTuple):
    protocol: Protocol
    policy: GDFS
    tape: Tape


@pytest.fixture(
    scope="module",
    params=[PAPER, pytest.param(AFABENCH, marks=pytest.mark.slow)],
    ids=lambda protocol: protocol.name,
)
def run(request: pytest.FixtureRequest) -> Run:
    own = filled(partial(MLP, (8, 8, 3)), 5)
    with taped(PROBLEM.n_actions) as tape:

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return gdfs.fit(
                key, PROBLEM, TRAIN, VALID, pretrained=own, settings=SETTINGS, protocol=request.param
            )

        policy = jax.block_until_ready(fit(jr.key(3)))
    return Run(request.param, policy, tape)


def legal_in(protocol: Protocol, table: Table, acquired: np.ndarray) -> np.ndarray:
    return may_take(PROBLEM, protocol, acquired, readable(PROBLEM, np.asarray(table.available)))


def inputs(x: Array, mask: Array) -> Array:
    return jnp.concatenate([x * mask, mask], axis=-1)


def scaled_logits(selector: MLP, x: Array, acquired: Array, legal: Array) -> Array:
    """The logits, less the log of the prices, divided by gamma; illegal actions have no chance."""
    mask = (acquired @ REVEALS.astype(np.float32) > 0).astype(jnp.float32)
    logits = selector(inputs(x, mask)) - jnp.log(jnp.asarray(PRICES))[None]
    return jnp.where(legal, logits / GAMMA, -1e9)


def relaxed(scaled: Array, gumbel: Array, legal: Array, temperature: float) -> Array:
    """The relaxed choices; there are none in rows without a legal action."""
    soft = jax.nn.softmax((jax.nn.log_softmax(scaled) + gumbel) / temperature)
    return jnp.where(legal.any(axis=1, keepdims=True), soft, 0.0)


def mean_loss(protocol: Protocol, predictor: MLP, table: Table, masks: list[Array]) -> Array:
    """The mean over steps of sum w CE / sum w, over the rows in which something is legal at the start."""
    frequency = np.bincount(np.asarray(TRAIN.y), minlength=3) / N_ROWS
    legal = legal_in(protocol, table, np.zeros((len(table.y), 3), bool))
    counts = legal.any(axis=1) if protocol is PAPER else np.ones(len(table.y), bool)
    weight = jnp.asarray(counts / frequency[np.asarray(table.y)], jnp.float32)
    losses = []
    for mask in masks:
        probability = jax.nn.softmax(predictor(inputs(table.x, mask)))[jnp.arange(len(table.y)), table.y]
        losses.append(jnp.sum(weight * -jnp.log(probability)) / jnp.sum(weight))
    return jnp.mean(jnp.stack(losses))


def softened(acquired: np.ndarray, choice: Array) -> Array:
    """How far each feature is observed after a relaxed choice; the first action reveals two."""
    return jnp.maximum(
        jnp.asarray(shown(PROBLEM, acquired), jnp.float32), choice[:, jnp.asarray([0, 0, 1, 2])]
    )


def naive_gradient(
    protocol: Protocol,
    networks: GDFSNetworks,
    moves: list[np.ndarray],
    gumbel: np.ndarray,
    temperature: float,
) -> GDFSNetworks:
    """Of the loss after relaxed choices, in the states that hard choices lead to."""
    acquired = [np.zeros((N_ROWS, 3), bool)]
    legals = []
    for noise in moves:
        legal = legal_in(protocol, TRAIN, acquired[-1])
        scaled = np.asarray(
            scaled_logits(networks.selector, TRAIN.x, jnp.asarray(acquired[-1]), jnp.asarray(legal))
        )
        taken = np.eye(3, dtype=bool)[(scaled + noise).argmax(axis=1)] & legal
        acquired.append(acquired[-1] | taken)
        legals.append(legal)

    def loss(networks: GDFSNetworks) -> Array:
        masks = []
        for before, legal, noise in zip(acquired[:-1], legals, gumbel, strict=True):
            scaled = scaled_logits(networks.selector, TRAIN.x, jnp.asarray(before), jnp.asarray(legal))
            masks.append(softened(before, relaxed(scaled, noise, jnp.asarray(legal), temperature)))
        return mean_loss(protocol, networks.predictor, TRAIN, masks)

    return jax.jit(jax.grad(loss), compiler_options=FAST)(networks)


def naive_validation(
    protocol: Protocol, networks: GDFSNetworks, draws: list[np.ndarray], temperature: float
) -> tuple[float, float]:
    """The losses after relaxed and hard choices, the latter being the former's largest entries."""
    acquired, soft, hard = np.zeros((N_VALID, 3), bool), [], []
    for noise in draws:
        legal = legal_in(protocol, VALID, acquired)
        scaled = scaled_logits(networks.selector, VALID.x, jnp.asarray(acquired), jnp.asarray(legal))
        choice = relaxed(scaled, jnp.asarray(noise), jnp.asarray(legal), temperature)
        soft.append(softened(acquired, choice))
        acquired = acquired | (np.eye(3, dtype=bool)[np.asarray(choice).argmax(axis=1)] & legal)
        hard.append(jnp.asarray(shown(PROBLEM, acquired), jnp.float32))
    both = (mean_loss(protocol, networks.predictor, VALID, masks) for masks in (soft, hard))
    soft_loss, hard_loss = map(float, both)
    return soft_loss, hard_loss


def test_training_is_that_of_a_second_implementation(run: Run) -> None:
    """Gradients of the loss after relaxed choices; Adam; and which networks are kept.

    Those that are best by relaxed choices go on to the next temperature, with a new optimiser. Those that
    were ever best by hard choices are the result.
    """
    tape, protocol = run.tape, run.protocol
    moves, gumbel = tape.take("categorical"), tape.take("gumbel")
    start, kept, went_back = tape.starts[0], [], False
    for stage, temperature in enumerate(TEMPERATURES):
        adam, found = Adam(start), []
        for number in range(stage * N_EPOCHS, (stage + 1) * N_EPOCHS):
            drawn, *validating = gumbel[number * (1 + STEPS) : (number + 1) * (1 + STEPS)]
            steps = moves[number * STEPS : (number + 1) * STEPS]
            gradient = naive_gradient(protocol, adam.model, steps, drawn, temperature)
            assert_close(tape.gradients[number], gradient, rtol=5e-3, atol=2e-5)
            adam.step(tape.gradients[number], RATE)
            soft, hard = naive_validation(protocol, adam.model, validating, temperature)
            found.append((soft, hard, adam.model))
        best = int(np.argmin([soft for soft, _, _ in found]))
        start, went_back = found[best][2], went_back or best < N_EPOCHS - 1
        kept += found
    assert len(tape.gradients) == len(kept)
    assert went_back, "the last networks are always the best: this does not show that the best go on"
    hard_losses = [hard for _, hard, _ in kept]
    assert_close(run.policy.networks, kept[int(np.argmin(hard_losses))][2], rtol=1e-4)
    assert run.policy.divide_by_price == (protocol is AFABENCH)


def test_no_two_draws_share_a_key(run: Run) -> None:
    """So hard choices are independent of the relaxed ones, and steps of each other."""
    assert len(run.tape.keys) == len(TEMPERATURES) * N_EPOCHS * (1 + 2 * STEPS)
    assert len(set(run.tape.keys)) == len(run.tape.keys)
