"""What GDFS and DIME share, against plain loops: plateaus, epochs, steps, legal actions, pretraining."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array

from ascertain import AFABENCH, PAPER, InputError, Problem, Protocol, Table
from ascertain._core.networks import MLP
from ascertain.methods import _pretraining as pretraining
from ascertain.methods._greedy import (
    GreedySettings,
    Plateau,
    Setup,
    descend,
    epoch,
    pretrain_predictor,
    training_steps,
)

from ..acquisition_cases import ACTIONS, PROTOCOLS, ROWS, Case, cases
from .by_hand import FAST, Adam, NaivePlateau, assert_close, taped

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 1 and 2."""
    default = GreedySettings()
    assert (default.batch_size, default.learning_rate, default.epochs, default.patience) == (
        128,
        1e-3,
        250,
        5,
    )
    assert (default.hidden, default.dropout, default.pretraining_epochs) == ((128, 128), 0.3, 100)
    assert (default.least_learning_rate, default.least_pretraining_rate) == (1e-5, 1e-6)


# The plateau: PyTorch's ReduceLROnPlateau and the early stop of methods.md 0.4.


N_EPOCHS = 40


@partial(jax.jit, static_argnums=(1, 2), compiler_options=FAST)
def follow(losses: Array, patience: int, least_rate: float) -> tuple[Array, Array, Array, Array]:
    settings = GreedySettings(patience=patience)

    def look(plateau: Plateau, loss: Array) -> tuple[Plateau, tuple[Array, Array, Array, Array]]:
        plateau, is_best = plateau.after(loss, settings, least_rate)
        return plateau, (plateau.learning_rate, plateau.best, is_best, plateau.exhausted(settings))

    return jax.lax.scan(look, Plateau.start(1e-3), losses)[1]


def check_plateau(losses: np.ndarray, patience: int, least_rate: float) -> list[bool]:
    """Compare and give where to stop."""
    rate, best, is_best, stops = (
        np.asarray(each) for each in follow(jnp.asarray(losses), patience, least_rate)
    )
    naive = NaivePlateau(1e-3, patience, least_rate)
    for number, loss in enumerate(losses.tolist()):
        assert is_best[number] == naive.step(loss)
        assert rate[number] == pytest.approx(naive.rate, rel=1e-5)
        assert (best[number], stops[number]) == (np.float32(naive.best), naive.stops)
    return stops.tolist()


# Each loss is the last best one, or better or worse by much or by next to nothing (but never by just 1e-4).
CHANGES = st.sampled_from([0.0, 0.0, 1e-5, 5e-5, -5e-5, 0.3, -2e-4, -0.05])


@given(
    st.lists(CHANGES, min_size=N_EPOCHS, max_size=N_EPOCHS),
    st.sampled_from([(0, 1e-6), (2, 1e-5), (5, 1e-5)]),
)
@settings(max_examples=100, deadline=None)
def test_the_plateau_is_pytorchs(changes: list[float], patience_and_least: tuple[int, float]) -> None:
    losses, best = [], 2.0
    for change in changes:
        losses.append(np.float32(best * (1 + change)))
        best = min(best, float(losses[-1])) if losses[-1] < best * (1 - 1e-4) else best
    check_plateau(np.array(losses, np.float32), *patience_and_least)


def test_the_rate_falls_at_the_sixth_bad_epoch_and_the_seventh_ends_it() -> None:
    losses = np.array([1.0, *[2.0] * (N_EPOCHS - 1)], np.float32)
    stops = check_plateau(losses, 5, 1e-5)
    assert stops.index(True) == 7
    rates = np.asarray(follow(jnp.asarray(losses), 5, 1e-5)[0])
    np.testing.assert_allclose(
        rates[[5, 6, 11, 12, 18, 24, 39]], [1e-3, 2e-4, 2e-4, 4e-5, 1e-5, 1e-5, 1e-5], rtol=1e-5
    )


def test_the_same_loss_again_is_a_best_one_but_the_rate_falls() -> None:
    losses = np.ones(N_EPOCHS, np.float32)
    assert not any(check_plateau(losses, 5, 1e-5))


def test_losses_that_are_no_numbers_are_never_best() -> None:
    is_best, stops = follow(jnp.asarray([1.0, *[np.nan] * (N_EPOCHS - 1)]), 5, 1e-5)[2:]
    assert is_best.tolist() == [True] + [False] * (N_EPOCHS - 1)
    assert bool(stops[7])


# Epochs and Adam.


@partial(jax.jit, static_argnums=(1, 2), compiler_options=FAST)
def batches(keys: Array, n_rows: int, batch_size: int) -> tuple[Array, Array, Array]:
    """Give the number of the batch in which each row comes (-1 for none), how often, and a lot of each."""

    def step(carry: tuple[Array, Array, Array, Array], key: Array, rows: Array) -> tuple[Array, ...]:
        number, batch, times, lots = carry
        lots = lots.at[rows].set(jr.uniform(key))
        return number + 1, batch.at[rows].set(number), times.at[rows].add(1), lots

    def one(key: Array) -> tuple[Array, Array, Array]:
        start = (jnp.asarray(0), jnp.full(n_rows, -1), jnp.zeros(n_rows, int), jnp.zeros(n_rows))
        return epoch(key, start, step, Table(np.zeros((n_rows, 1)), np.zeros(n_rows)), batch_size)[1:]

    return jax.vmap(one)(keys)


N_RUNS = 4000


@pytest.mark.parametrize(("n_rows", "sizes"), [(10, [4, 4]), (3, [3])])
def test_an_epoch_has_each_row_once_but_for_the_last_part(n_rows: int, sizes: list[int]) -> None:
    batch, times, lots = (np.asarray(each)[0] for each in batches(jr.split(jr.key(1), N_RUNS), n_rows, 4))
    assert times.max() == 1
    assert np.bincount(batch[batch >= 0]).tolist() == sizes
    assert (batch < 0).sum() == n_rows - sum(sizes)
    assert len(np.unique(lots[batch >= 0])) == len(sizes), "every step has a key of its own"


def test_any_rows_are_left_out_and_any_come_first() -> None:
    batch = np.asarray(batches(jr.split(jr.key(1), N_RUNS), 10, 4)[0])
    for number, size in ((-1, 2), (0, 4), (1, 4)):
        counts = (batch == number).sum(axis=0)
        expected = N_RUNS * size / 10
        # Rows of one epoch are drawn without replacement: a count's variance is that of a binomial, and the
        # counts sum to a constant, for which (n - 1) / n makes up.
        statistic = ((counts - expected) ** 2).sum() / (expected * (1 - size / 10)) * 0.9
        assert statistic < scipy.stats.chi2.isf(ALPHA, 9)


def test_steps_are_adams() -> None:
    """Against its formulas, with a learning rate that varies."""
    model, state = jnp.asarray([1.0, -2.0, 0.5]), optax.scale_by_adam().init(jnp.zeros(3))
    expected, first, second = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    gradients = np.random.default_rng(0).normal(size=(4, 3)) * [1, 1e-3, 10]
    for t, (gradient, rate) in enumerate(zip(gradients, [1e-3, 1e-3, 2e-4, 1e-5], strict=True), start=1):
        model, state = descend(jnp.asarray(gradient, jnp.float32), state, model, jnp.asarray(rate))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        expected = expected - rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(model, expected, rtol=1e-6, atol=1e-7)


# How many steps, and which are legal.


@pytest.mark.parametrize(
    ("costs", "budget", "in_paper", "in_reference"),
    [
        ([1] * 20, 10, 10, 10),  # CUBE
        ([1] * 51, 14, 14, 14),  # CUBE-NM
        ([1, 1, 1, 1, 5.2, 7.27, 15.5, 87.3, 87.3, 87.3, 100.9, 102.9, 102.9], 7, 4, 7),  # heart disease
        ([2 / 3] * 10 + [4 / 3] * 10, 7, 10, 7),  # CUBE-NUC, but see its own settings
        ([1, 1], 10, 2, 2),  # no more than there are actions
        ([0.1, 0.2, 0.3], 0.3, 2, 1),  # to the cent; at least one
        ([0, 0, 5], 1, 2, 1),
    ],
)
def test_the_number_of_steps(costs: list[float], budget: float, in_paper: int, in_reference: int) -> None:
    problem = Problem(np.eye(len(costs)), costs, budget, n_classes=2)
    assert training_steps(GreedySettings(), problem, PAPER) == in_paper
    assert training_steps(GreedySettings(), problem, AFABENCH) == in_reference
    assert training_steps(GreedySettings(steps=3), problem, PAPER) == 3
    assert training_steps(GreedySettings(steps=3), problem, AFABENCH) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_inside_jit_the_number_of_steps_must_be_set(protocol: Protocol) -> None:
    problem = Problem(np.eye(2), [1, 1], 1, n_classes=2)
    with pytest.raises(InputError, match="set it in the settings"):
        jax.eval_shape(lambda p: jnp.zeros(training_steps(GreedySettings(), p, protocol)), problem)
    found = jax.eval_shape(lambda p: jnp.zeros(training_steps(GreedySettings(steps=2), p, protocol)), problem)
    assert found.shape == (2,)


@partial(jax.jit, static_argnums=0, compiler_options=FAST)
def legal_and_weights(
    protocol: Protocol, problem: Problem, acquired: Array, available: Array
) -> tuple[Array, Array]:
    setup = Setup(problem, protocol, GreedySettings(), 1, jnp.ones(2))
    return setup.legal(acquired, available), setup.row_weights(available)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_legal_actions_and_the_weights_of_rows(protocol: Protocol, case: Case) -> None:
    """The paper's reading leaves out what is too dear, and rows in which nothing is legal from the start."""
    acquired = np.random.default_rng(case.seed).random((ROWS, ACTIONS)) < 0.3
    available = case.problem.readable(case.table.available)
    found = legal_and_weights(protocol, case.problem, jnp.asarray(acquired), available)
    legal, weights = (np.asarray(each) for each in found)
    for row in range(ROWS):
        taken = set(np.flatnonzero(acquired[row]).tolist())
        assert set(np.flatnonzero(legal[row]).tolist()) == case.legal(row, taken, protocol)
        plays = protocol is AFABENCH or bool(case.legal(row, set(), protocol))
        assert weights[row] == float(plays)


# Pretraining.


def test_pretraining_descends_the_weighted_mean_over_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three epochs of one batch, with nothing hidden but a column that is missing: sum w CE / sum w."""
    problem = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 1, 1], 2, n_classes=2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 4))
    table = Table(np.where(np.arange(4) == 3, np.nan, x), (x[:, 2] > 0.5).astype(int), n_classes=2)
    monkeypatch.setattr(pretraining, "MOST_MASKED", 0.0)
    small = GreedySettings(hidden=(6, 6), batch_size=16, pretraining_epochs=3, dropout=0.0)
    fit = partial(pretrain_predictor, settings=small, protocol=PAPER)
    with taped(problem.n_actions) as tape:
        last = jax.jit(fit, compiler_options=FAST)(jr.key(1), problem, table, table)

    def loss(network: MLP) -> Array:
        inputs = jnp.concatenate([table.x, jnp.tile(jnp.asarray([[1.0, 1, 1, 0]]), (16, 1))], axis=1)
        weight = 16 / jnp.bincount(table.y, length=2)[table.y]
        surprise = -jnp.log(jax.nn.softmax(network(inputs))[jnp.arange(16), table.y])
        return jnp.sum(weight * surprise) / jnp.sum(weight)

    expected = jax.jit(jax.value_and_grad(loss), compiler_options=FAST)
    losses, adam = [], Adam(tape.starts[0])
    for gradient in tape.gradients:
        value, wanted = expected(adam.model)
        losses.append(float(value))
        assert_close(gradient, wanted, rtol=1e-3)
        adam.step(gradient)
        np.testing.assert_array_equal(gradient.layers[0].weight[np.array([3, 7])], 0)
    # The loss falls all the way, so the last parameters are the best.
    losses.append(float(expected(last)[0]))
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True)
