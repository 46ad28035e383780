"""ODIN: the latent code point by point, and its training, followed batch by batch."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table
from ascertain._core.networks import Linear
from ascertain.acquisition import Environment, Frames
from ascertain.methods import _odin as odin
from ascertain.methods._dqn import lambda_returns
from ascertain.methods._odin import (
    ODIN,
    Settings,
    actor_loss,
    chosen,
    critic_loss,
    latent_code,
    log_probabilities,
    mean_entropy,
    point_parts,
)
from ascertain.restoration import _pvae as pvae

from .by_hand import (
    FAST,
    Adam,
    assert_close,
    dense,
    filled,
    may_take,
    perceptron,
    readable,
    shown,
    softmax,
    three_classes,
)

INF = float("inf")
PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 0], budget=1, n_classes=3)
PRICES = np.asarray(PROBLEM.costs)
LATENT = 3
VAE_SETTINGS = pvae.Settings(
    latent=LATENT, embedding=4, point_hidden=9, encoder=(5, 8), decoder=(5,), classifier=(6,)
)
VAE = filled(partial(pvae.PVAE, 4, 3, VAE_SETTINGS), 0)


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 0.2, 0.5 and 8."""
    default = Settings()
    assert (default.batches, default.frames_per_batch, default.slots, default.steps) == (4000, 256, 128, 2)
    assert (default.learning_rate, default.td_lambda, default.clip) == (1e-3, 0.75, 0.2)
    assert (default.critic_weight, default.entropy_weight, default.cost_weight) == (1.0, 0.01, None)
    assert default.vae.schedule.min_delta == 0.1


# The latent code.


def naive_code(x: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Sum the point network over the observed features of each row; no label entry is one of them."""
    codes = []
    for values, seen in zip(x, observed, strict=True):
        pooled = np.zeros(5)
        for j in np.flatnonzero(seen):
            point = values[j] * np.asarray(VAE.embedding, np.float64)[j]
            pooled += dense(VAE.point_out, np.maximum(dense(VAE.point_hidden, point), 0))
        codes.append(perceptron(VAE.encoder.layers, pooled)[:LATENT])
    return np.array(codes)


def test_codes_are_the_vaes_means_without_the_label() -> None:
    rng = np.random.default_rng(0)
    x, observed = rng.normal(size=(12, 4)), rng.random((12, 4)) < 0.5
    observed[0], observed[1] = False, True

    @partial(jax.jit, compiler_options=FAST)
    def both(x: Array, observed: Array) -> tuple[Array, Array]:
        points = jnp.concatenate([x, jnp.ones((12, 3))], axis=1)  # labels are not looked at
        visible = jnp.concatenate([observed, jnp.zeros((12, 3), bool)], axis=1)
        return latent_code(VAE, point_parts(VAE, x), observed), VAE.encode(points, visible).mean

    found, of_vae = both(jnp.asarray(x, jnp.float32), jnp.asarray(observed))
    np.testing.assert_allclose(found, naive_code(x, observed), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found, of_vae, rtol=1e-3, atol=1e-4)


def inputs(code: np.ndarray, open_actions: np.ndarray, sees: bool) -> np.ndarray:
    return np.concatenate([code, open_actions], axis=1) if sees else code


def heads(sees: bool) -> tuple[Linear, Linear]:
    n_inputs = LATENT + 3 * sees
    return filled(partial(Linear, n_inputs, 4), 1), filled(partial(Linear, n_inputs, 1), 2)


@pytest.mark.parametrize(("sees", "may_stop"), [(False, False), (True, True)])
def test_scores_are_the_actors_logits(sees: bool, may_stop: bool) -> None:
    rng = np.random.default_rng(1)
    x, observed = rng.normal(size=(5, 4)), rng.random((5, 4)) < 0.5
    acquired, available = rng.random((5, 3)) < 0.4, rng.random((5, 3)) < 0.6
    policy = ODIN(VAE, *heads(sees), sees, may_stop)
    score = jax.jit(lambda *seen: policy(*seen, key=jr.key(0)), compiler_options=FAST)
    masks = (jnp.asarray(each) for each in (observed, acquired, available))
    found = np.asarray(score(jnp.asarray(x, jnp.float32), *masks))
    expected = dense(policy.actor, inputs(naive_code(x, observed), available & ~acquired, sees))
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-3, atol=1e-4)
    if may_stop:
        np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-3, atol=1e-4)
    else:
        assert np.all(found[:, 0] == -INF)


# Training.

N_BATCHES = 2


class Known(Linear):
    """A layer with parameters that the comparison can start with, too."""

    def __init__(self, n_inputs: int, n_outputs: int, *, key: Array):
        actor, critic = heads(n_inputs > LATENT)
        layer = actor if n_outputs == 4 else critic
        assert layer.weight.shape == (n_inputs, n_outputs)
        self.weight, self.bias = layer.weight, layer.bias


class Run(NamedTuple):
    protocol: Protocol
    settings: Settings
    table: Table
    policy: ODIN
    frames: list[Frames]
    returns: list[tuple[np.ndarray, ...]]  # what the returns were made of: rewards, ends, next values


@pytest.fixture(scope="module", params=["s-paper-hard", "sm-afabench-soft"])
def run(request: pytest.FixtureRequest) -> Run:
    state, name, budget = request.param.split("-")
    protocol = PAPER if name == "paper" else AFABENCH
    settings = Settings(
        batches=N_BATCHES,
        slots=8,
        frames_per_batch=16,
        cost_weight=0.3 if budget == "soft" else None,
        vae=VAE_SETTINGS,
    )
    frames: list[Frames] = []
    returns: list[tuple[np.ndarray, ...]] = []
    collect = Environment.collect

    def watched_collect(self: Environment, *given: Any) -> Any:
        slots, made, remembered = collect(self, *given)
        jax.debug.callback(lambda seen: frames.append(jax.tree.map(np.asarray, seen)), made, ordered=True)
        return slots, made, remembered

    def watched_returns(*given: Any) -> Array:
        jax.debug.callback(
            lambda *seen: returns.append(tuple(map(np.asarray, seen))), *given[:3], ordered=True
        )
        assert given[3] == 0.75
        return lambda_returns(*given)

    table = three_classes(40, 4)
    # So that every row has something to acquire.
    table = table.with_cells(table.x, table.available | (jnp.arange(4) == 3)[None])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "collect", watched_collect)
        patch.setattr(odin, "lambda_returns", watched_returns)
        patch.setattr(odin, "Linear", Known)

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return odin.fit(
                key, PROBLEM, table, table, pretrained=VAE, settings=settings, state=state, protocol=protocol
            )

        policy = jax.block_until_ready(fit(jr.key(3)))
        jax.effects_barrier()
    return Run(protocol, settings, table, policy, frames, returns)


class Steps(NamedTuple):
    """The steps of a batch as plain numbers, flat."""

    x: np.ndarray
    y: np.ndarray
    available: np.ndarray  # actions
    before: np.ndarray  # acquired
    after: np.ndarray
    choice: np.ndarray
    done: np.ndarray


def flat(run: Run, number: int) -> Steps:
    frames = run.frames[number]
    row, choice, done = (np.asarray(each).ravel() for each in (frames.row, frames.choice, frames.done))
    before = np.asarray(frames.acquired).reshape(-1, 3)
    available = readable(PROBLEM, np.asarray(run.table.available)[row])
    after = before | (np.arange(3)[None] == choice[:, None] - 1)
    x, y = np.asarray(run.table.x)[row], np.asarray(run.table.y)[row]
    return Steps(x, y, available, before, after, choice, done)


def legal(run: Run, acquired: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Give the legal choices; to stop is one where there is no hard budget."""
    soft = run.settings.cost_weight is not None
    actions = may_take(PROBLEM, AFABENCH if soft else run.protocol, acquired, available)
    return np.concatenate([np.full((len(actions), 1), soft), actions], axis=1)


def seen_by_heads(run: Run, steps: Steps, acquired: np.ndarray) -> np.ndarray:
    code = naive_code(steps.x, shown(PROBLEM, acquired))
    return inputs(code, steps.available & ~acquired, run.policy.sees_availability)


def test_choices_are_legal_and_all_kinds_are_made(run: Run) -> None:
    kinds = set()
    for number in range(N_BATCHES):
        steps = flat(run, number)
        assert np.all(legal(run, steps.before, steps.available)[np.arange(16), steps.choice])
        kinds |= set(steps.choice.tolist())
    assert kinds >= {1, 2, 3}
    assert (0 in kinds) == run.policy.may_stop


def test_every_step_is_rewarded_by_the_probability_of_the_true_class(run: Run) -> None:
    """Less, with a soft budget, what has been spent by then, in units of the mean cost."""
    for number in range(N_BATCHES):
        steps = flat(run, number)
        code = naive_code(steps.x, shown(PROBLEM, steps.after))
        expected = softmax(perceptron(VAE.classifier.layers, code))[np.arange(16), steps.y]
        if run.settings.cost_weight is not None:
            expected = expected - 0.3 * (steps.after @ (PRICES / PRICES.mean()))
        np.testing.assert_allclose(run.returns[number][0].ravel(), expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(run.returns[number][1].ravel(), steps.done)


def naive_goals(run: Run, number: int, steps: Steps, critic: Linear) -> np.ndarray:
    reward, done = run.returns[number][:2]
    value = dense(critic, seen_by_heads(run, steps, steps.after))[:, 0].reshape(2, -1)
    np.testing.assert_allclose(run.returns[number][2], value, rtol=1e-3, atol=1e-4)
    last = reward[1] + np.where(done[1], 0, value[1])
    first = reward[0] + np.where(done[0], 0, 0.25 * value[0] + 0.75 * last)
    return np.concatenate([first, last])


@partial(jax.jit, compiler_options=FAST)
def naive_gradient(
    networks: tuple[Linear, Linear], seen: Array, legal: Array, choice: Array, goal: Array
) -> tuple[Linear, Linear]:
    """At the only step on a batch, the ratio of probabilities is 1: this is the plain policy gradient."""

    def loss(networks: tuple[Linear, Linear]) -> Array:
        actor, critic = networks
        weights = jnp.where(legal, jnp.exp(actor(seen)), 0.0)
        probability = weights / weights.sum(axis=1, keepdims=True)
        log_probability = jnp.log(jnp.where(legal, probability, 1.0))
        value = critic(seen)[:, 0]
        advantage = jax.lax.stop_gradient(goal - value)
        error = jnp.abs(value - goal)
        smooth = jnp.where(error < 1, error**2 / 2, error - 0.5)
        chosen = log_probability[jnp.arange(len(choice)), choice]
        entropy = -jnp.sum(probability * log_probability, axis=1)
        return jnp.mean(-advantage * chosen + smooth - 0.01 * entropy)

    return jax.grad(loss)(networks)


def test_actor_and_critic_descend_their_losses_and_the_vae_stays(run: Run) -> None:
    adam = Adam(heads(run.policy.sees_availability))
    for number in range(N_BATCHES):
        steps = flat(run, number)
        gradient = naive_gradient(
            adam.model,
            jnp.asarray(seen_by_heads(run, steps, steps.before), jnp.float32),
            jnp.asarray(legal(run, steps.before, steps.available)),
            jnp.asarray(steps.choice),
            jnp.asarray(naive_goals(run, number, steps, adam.model[1]), jnp.float32),
        )
        adam.step(gradient)
    assert_close((run.policy.actor, run.policy.critic), adam.model, rtol=1e-4)
    assert_close(run.policy.vae, VAE, rtol=0, atol=0)


# The clipped policy gradient, by hand.


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
