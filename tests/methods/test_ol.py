"""OL: its networks and its confidence against plain ones, and its training, followed batch by batch."""

from functools import partial
from itertools import product
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
from ascertain._core import training
from ascertain._core.networks import MLP
from ascertain._core.training import Batch
from ascertain.acquisition import Frames, Transitions, View
from ascertain.methods import _ol as ol
from ascertain.methods._dqn import polyak
from ascertain.methods._ol import OL, QNetwork, Settings, confidence, confidence_change, pretrain
from ascertain.methods._replay import Replay, Sample

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

ALPHA = 1e-5  # of each statistical test; the keys are fixed
INF = float("inf")


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 0.2, 0.5, 5 and 7."""
    default = Settings()
    assert (default.batches, default.frames_per_batch, default.slots) == (2000, 256, 128)
    assert (default.hidden, default.dropout, default.confidence_passes) == ((64, 32, 16), 0.5, 100)
    assert (default.replay_slices, default.sampled_slices) == (100_000, 512)
    assert default.pretraining.min_delta == 1e-3
    assert float(default.epsilon(jnp.asarray(1000))) == pytest.approx(0.1)


# Networks.


@pytest.mark.parametrize(("n_inputs", "n_choices"), [(40, 21), (60, 21)])
def test_widths_of_the_value_network(n_inputs: int, n_choices: int) -> None:
    made = jax.eval_shape(lambda key: QNetwork(n_inputs, n_choices, (64, 32, 16), key=key), jr.key(0))
    shapes = [layer.weight.shape for layer in made.layers]
    assert shapes == [(n_inputs, 64), (128, 16), (48, 10), (26, n_choices)]


def naive_values(policy: OL, x: np.ndarray, observed: np.ndarray, open_actions: np.ndarray) -> np.ndarray:
    state = np.concatenate([np.where(observed, x, 0.0), observed], axis=1)
    hidden, activations = state, []
    for layer in policy.own.layers[:-1]:
        hidden = np.maximum(dense(layer, hidden), 0)
        activations.append(hidden)
    out = np.concatenate([state, open_actions], axis=1) if policy.sees_availability else state
    out = np.maximum(dense(policy.q.layers[0], out), 0)
    for layer, beside in zip(policy.q.layers[1:3], activations[:2], strict=True):
        out = np.maximum(dense(layer, np.concatenate([out, beside], axis=1)), 0)
    return dense(policy.q.layers[3], np.concatenate([out, activations[2]], axis=1))


@pytest.mark.parametrize("sees", [False, True])
def test_values_are_those_of_the_networks_written_out(sees: bool) -> None:
    """And the classifier learns nothing from them."""
    own = filled(partial(MLP, (8, 12, 11, 10, 2)), 0)
    policy = OL(own, filled(partial(QNetwork, 8 + 3 * sees, 4, (12, 11, 10)), 1), sees)
    rng = np.random.default_rng(0)
    x, observed = rng.normal(size=(6, 4)), rng.random((6, 4)) < 0.5
    acquired, available = rng.random((6, 3)) < 0.4, rng.random((6, 3)) < 0.6

    @partial(jax.jit, compiler_options=FAST)
    def scores_and_gradient(policy: OL, x: Array, *masks: Array) -> tuple[Array, OL]:
        view = View(x, masks[0], masks[2] & ~masks[1])
        gradient = jax.grad(lambda policy: jnp.sum(policy.values(view)))(policy)
        return policy(x, *masks, key=jr.key(0)), gradient

    masks = (jnp.asarray(each) for each in (observed, acquired, available))
    found, gradient = scores_and_gradient(policy, jnp.asarray(x, jnp.float32), *masks)
    expected = naive_values(policy, x, observed, available & ~acquired)
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-4, atol=1e-5)
    assert np.all(found[:, 0] == -INF)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient.own))
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient.q))


# Confidence: the mean over dropout masks, which are few enough here to go through all of them.

OWN = filled(partial(MLP, (4, 2, 2, 1, 3)), 3, scale=1.0)
INPUT = np.array([0.7, -1.2, 1, 1])  # two features, both observed


def passes(rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Give the probabilities of the classes with each combination of masks, and how likely that is."""
    predicted, likely = [], []
    for kept in product([0, 1], repeat=5):
        masks = np.array(kept[:2]), np.array(kept[2:4]), np.array(kept[4:])
        hidden = INPUT[None]
        for layer, mask in zip(OWN.layers, masks, strict=False):
            hidden = np.maximum(dense(layer, hidden), 0) * mask / (1 - rate)
        logits = dense(OWN.layers[-1], hidden)[0]
        predicted.append(np.exp(logits) / np.exp(logits).sum())
        likely.append((1 - rate) ** sum(kept) * rate ** (5 - sum(kept)))
    return np.array(predicted), np.array(likely)


N_ROWS = 2000


@partial(jax.jit, static_argnums=0, compiler_options=FAST)
def trusted(settings: Settings) -> Array:
    return confidence(jr.key(1), OWN, jnp.tile(jnp.asarray(INPUT, jnp.float32)[None], (N_ROWS, 1)), settings)


@pytest.mark.parametrize(("rate", "n_passes"), [(0.5, 100), (0.25, 30)])
def test_confidence_is_a_mean_over_so_many_dropout_masks(rate: float, n_passes: int) -> None:
    """Its mean over rows is the mean over masks, and its variance theirs divided by the number of passes."""
    predicted, likely = passes(rate)
    mean = likely @ predicted
    variance = likely @ (predicted - mean) ** 2
    found = np.asarray(trusted(Settings(dropout=rate, confidence_passes=n_passes)), np.float64)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    error = (found.mean(axis=0) - mean) / np.sqrt(variance / (n_passes * N_ROWS))
    assert np.all(np.abs(error) < scipy.stats.norm.isf(ALPHA / 6))  # three classes, two sides
    # Means of so many passes are normal enough for the sample variance to be chi-square.
    spread = found.var(axis=0, ddof=1) * n_passes / variance * (N_ROWS - 1)
    low, high = scipy.stats.chi2.isf([1 - ALPHA / 6, ALPHA / 6], N_ROWS - 1)
    assert np.all((spread > low) & (spread < high))


def test_without_dropout_it_is_the_plain_prediction() -> None:
    predicted, likely = passes(0.0)
    expected = predicted[likely == 1]
    found = trusted(Settings(dropout=0.0, confidence_passes=30))
    np.testing.assert_allclose(found, np.repeat(expected, N_ROWS, axis=0), rtol=1e-5)


def test_two_predictions_of_one_state_differ_by_their_masks_alone() -> None:
    """The expected distance of two independent means of n passes, which are nearly normal."""
    predicted, likely = passes(0.5)
    variance = likely @ (predicted - likely @ predicted) ** 2
    x = jnp.tile(jnp.asarray([[0.7, -1.2]]), (N_ROWS, 1))
    view = View(x, jnp.ones_like(x, bool), jnp.ones((N_ROWS, 1), bool))
    seen = Transitions(view, jnp.ones(N_ROWS, int), view, jnp.ones((N_ROWS, 2), bool), jnp.zeros(N_ROWS, int))
    change = jax.jit(partial(confidence_change, settings=Settings()), compiler_options=FAST)
    found = np.asarray(change(jr.key(2), OWN, seen), np.float64)
    expected = np.sqrt(2 / np.pi) * np.sqrt(2 * variance / 100).sum()
    # Of a half-normal number the variance is (pi / 2 - 1) times the squared mean; three are at worst one.
    error = np.sqrt((np.pi / 2 - 1) / N_ROWS)
    assert found.mean() == pytest.approx(expected, rel=scipy.stats.norm.isf(ALPHA / 2) * error + 0.01)


# Pretraining.

PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 0.5], budget=1.5, n_classes=3)
# The value of what follows vanishes beside the reward of a free action, so only one comparison has that.
WITH_FREE_ACTION = Problem(PROBLEM.reveals, [1, 0.5, 0], budget=1.25, n_classes=3)
HIDDEN, RATE = (12, 11, 10), 0.05
SMALL = Settings(
    hidden=HIDDEN,
    learning_rate=RATE,  # large, so that target networks lag far behind
    dropout=0.0,
    confidence_passes=3,
    slots=16,
    frames_per_batch=32,
    batches=5,
    sampled_slices=24,
    replay_slices=32,
)


@pytest.mark.parametrize("protocol", [PAPER, AFABENCH])
def test_pretraining_respects_availability_or_takes_holes_for_zeros(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its loss, where a column that no row has gets no gradient, and in its validation."""
    table = three_classes(20, 0)
    table = table.with_cells(table.x, table.available & (jnp.arange(4) != 2)[None])
    own = filled(partial(MLP, (8, *HIDDEN, 3)), 5)
    validated = []

    def one_gradient(key: Array, model: MLP, loss: Any, validate: Any, *rest: Any, completions: int) -> MLP:
        assert (*rest, completions) == (20, SMALL.pretraining, SMALL.learning_rate, 1)
        jax.debug.callback(lambda found: validated.append(float(found)), validate(own, key))
        return jax.grad(loss)(own, key, Batch(jnp.arange(20), jnp.full(20, 1 / 20)))

    monkeypatch.setattr(training, "train", one_gradient)
    fit = partial(pretrain, settings=SMALL, protocol=protocol)
    gradient = jax.jit(fit, compiler_options=FAST)(jr.key(0), PROBLEM, table, table)
    jax.effects_barrier()
    moves = np.any(np.asarray(gradient.layers[0].weight) != 0, axis=1)
    # The value of the column is 0, but its place in the mask is not.
    assert np.flatnonzero(~moves).tolist() == ([2, 6] if protocol is PAPER else [2])
    seen = np.asarray(table.available) if protocol is PAPER else np.ones((20, 4), bool)
    y = np.asarray(table.y)
    inverse = 1 / np.bincount(y, minlength=3)
    surprise = -np.log(prediction(own, np.asarray(table.x), seen)[np.arange(20), y])
    expected = np.mean(inverse[y] / inverse.sum() * surprise)
    assert validated == [pytest.approx(expected, rel=1e-4)]


# Training, followed batch by batch.


class Pushed(NamedTuple):
    frames: Frames
    reward: np.ndarray


class Averaged(NamedTuple):
    """A call of `polyak`."""

    target: OL  # before
    policy: OL  # with the values' update, without the classifier's


class Run(NamedTuple):
    problem: Problem
    protocol: Protocol
    table: Table
    policy: OL
    pushed: list[Pushed]
    sampled: list[Sample]
    averaged: list[Averaged]


@pytest.fixture(
    scope="module",
    params=[("s", PAPER), pytest.param(("sm", AFABENCH), marks=pytest.mark.slow)],
    ids=["s-paper", "sm-afabench"],
)
def run(request: pytest.FixtureRequest) -> Run:
    state, protocol = request.param
    problem = PROBLEM if protocol is PAPER else WITH_FREE_ACTION
    pushed: list[Pushed] = []
    sampled: list[Sample] = []
    averaged: list[Averaged] = []
    push, sample = Replay.push, Replay.sample

    def watched_push(self: Replay, number: Array, frames: Frames, reward: Array) -> Replay:
        jax.debug.callback(
            lambda *seen: pushed.append(Pushed(*jax.tree.map(np.asarray, seen))), frames, reward, ordered=True
        )
        return push(self, number, frames, reward)

    def watched_sample(self: Replay, *inputs: Any) -> Sample:
        drawn = sample(self, *inputs)
        jax.debug.callback(lambda seen: sampled.append(jax.tree.map(np.asarray, seen)), drawn, ordered=True)
        return drawn

    def watched_polyak(target: OL, policy: OL, rate: float) -> OL:
        jax.debug.callback(lambda *seen: averaged.append(Averaged(*seen)), target, policy, ordered=True)
        return polyak(target, policy, rate)

    table = three_classes(40, 4)
    # So that every row has something to acquire.
    table = table.with_cells(table.x, table.available | (jnp.arange(4) == 3)[None])
    own = filled(partial(MLP, (8, *HIDDEN, 3)), 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replay, "push", watched_push)
        patch.setattr(Replay, "sample", watched_sample)
        patch.setattr(ol, "polyak", watched_polyak)

        @partial(jax.jit, compiler_options=FAST)
        def fit(key: Array) -> Any:
            return ol.fit(
                key, problem, table, table, pretrained=own, settings=SMALL, state=state, protocol=protocol
            )

        policy = jax.block_until_ready(fit(jr.key(7)))
        jax.effects_barrier()
    return Run(problem, protocol, table, policy, pushed, sampled, averaged)


class Steps(NamedTuple):
    """Flat steps as plain numbers."""

    x: np.ndarray
    y: np.ndarray
    available: np.ndarray  # actions
    before: np.ndarray  # acquired
    after: np.ndarray
    choice: np.ndarray


def flat(run: Run, frames: Frames) -> Steps:
    row, choice = np.asarray(frames.row).ravel(), np.asarray(frames.choice).ravel()
    before = np.asarray(frames.acquired).reshape(-1, 3)
    available = readable(PROBLEM, np.asarray(run.table.available)[row])
    after = before | (np.arange(3)[None] == choice[:, None] - 1)
    return Steps(np.asarray(run.table.x)[row], np.asarray(run.table.y)[row], available, before, after, choice)


def prediction(own: MLP, x: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return softmax(perceptron(own.layers, np.concatenate([np.where(seen, x, 0.0), seen], axis=1)))


def values(policy: OL, steps: Steps, acquired: np.ndarray) -> np.ndarray:
    return naive_values(policy, steps.x, shown(PROBLEM, acquired), steps.available & ~acquired)


@pytest.mark.slow
def test_rewards_are_the_change_of_the_prediction_per_cost(run: Run) -> None:
    """In units of the mean cost; nothing is quite free."""
    unit_costs = [1.5, 0.75, 0.75] if run.problem is PROBLEM else [2, 1, 1e-4]
    taken = set()
    for pushed, averaged in zip(run.pushed, run.averaged, strict=True):
        steps, own = flat(run, pushed.frames), averaged.policy.own
        before, after = (
            prediction(own, steps.x, shown(PROBLEM, acquired)) for acquired in (steps.before, steps.after)
        )
        cost = np.array(unit_costs)[steps.choice - 1]
        expected = np.abs(after - before).sum(axis=1)
        np.testing.assert_allclose(pushed.reward.ravel() * cost, expected, rtol=1e-3, atol=1e-6)
        taken |= set(steps.choice.tolist())
    assert taken == {1, 2, 3}


def test_what_is_learned_from_was_seen(run: Run) -> None:
    """Of two batches of 16 slices at most, 24 are drawn, or as many as there are left."""
    sizes = [int((sample.weight > 0).sum()) for sample in run.sampled]
    assert sizes == [16, 24, 8, 24, 8]  # from the second batch on, two parts to an order
    for number, sample in enumerate(run.sampled):
        kept = run.pushed[max(0, number - 1) : number + 1]
        there = {tuple(slot) for each in kept for slot in each.reward.T.tolist()}
        drawn = [tuple(slot) for slot in sample.reward.T[: sizes[number]].tolist()]
        assert len(set(drawn)) == len(drawn)
        assert set(drawn) <= there


def online(run: Run, number: int) -> OL:
    """Give the policy before a batch's updates."""
    q = run.averaged[number - 1].policy.q if number else run.averaged[0].target.q
    return eqx.tree_at(lambda policy: policy.q, run.averaged[number].policy, q)


def best_actions(policy: OL, steps: Steps, legal: np.ndarray) -> np.ndarray:
    return np.where(legal, values(policy, steps, steps.after)[:, 1:], -INF).argmax(axis=1)


def goals(run: Run, number: int) -> np.ndarray:
    """Give TD(lambda) targets: the online networks choose, the target networks value."""
    sample = run.sampled[number]
    steps, policy, target = flat(run, sample.frames), online(run, number), run.averaged[number].target
    legal = may_take(run.problem, run.protocol, steps.after, steps.available)
    best = best_actions(policy, steps, legal)
    valued = values(target, steps, steps.after)[np.arange(len(best)), 1 + best].reshape(2, -1)
    done, reward = np.asarray(sample.frames.done), sample.reward
    over = ~legal.any(axis=1)
    if run.protocol is AFABENCH:
        over |= steps.after @ np.asarray(run.problem.costs) > float(run.problem.budget)
    np.testing.assert_array_equal(done.ravel(), over)
    last = reward[1] + np.where(done[1], 0, valued[1])
    first = reward[0] + np.where(done[0], 0, 0.25 * valued[0] + 0.75 * last)
    return np.concatenate([first, last])


def test_online_and_target_networks_do_not_always_agree(run: Run) -> None:
    """Or else the next test would not tell which of them chooses."""
    for number in range(len(run.sampled)):
        steps = flat(run, run.sampled[number].frames)
        legal = may_take(run.problem, run.protocol, steps.after, steps.available)
        networks = online(run, number), run.averaged[number].target
        chosen, other = (best_actions(each, steps, legal) for each in networks)
        if np.any(chosen != other):
            return
    pytest.fail("they do")


@partial(jax.jit, compiler_options=FAST)
def value_gradient(policy: OL, view: View, choice: Array, goal: Array, weight: Array) -> QNetwork:
    def loss(q: QNetwork) -> Array:
        chosen = eqx.tree_at(lambda p: p.q, policy, q).values(view)[jnp.arange(len(choice)), choice]
        return jnp.sum(weight * (chosen - goal) ** 2)

    return jax.grad(loss)(policy.q)


def test_values_descend_the_squared_error(run: Run) -> None:
    adam = Adam(run.averaged[0].target.q)
    for number, sample in enumerate(run.sampled):
        steps = flat(run, sample.frames)
        view = View(
            jnp.asarray(np.where(shown(PROBLEM, steps.before), steps.x, 0.0)),
            jnp.asarray(shown(PROBLEM, steps.before)),
            jnp.asarray(steps.available & ~steps.before),
        )
        there = np.tile(sample.weight > 0, 2)
        gradient = value_gradient(
            online(run, number),
            view,
            jnp.asarray(steps.choice),
            jnp.asarray(goals(run, number), jnp.float32),
            jnp.asarray(there / there.sum(), jnp.float32),
        )
        adam.step(gradient, RATE)
        assert_close(run.averaged[number].policy.q, adam.model, atol=1e-4)
    assert_close(run.policy.q, adam.model, atol=1e-4)


def test_target_networks_lag_behind(run: Run) -> None:
    """Those of the classifier, too: by its parameters before this batch's update."""
    for now, later in zip(run.averaged, run.averaged[1:], strict=False):
        expected = jax.tree.map(lambda t, p: 0.995 * t + 0.005 * p, now.target, now.policy)
        assert_close(later.target, expected)


@partial(jax.jit, compiler_options=FAST)
def own_gradient(own: MLP, inputs: Array, y: Array, weights: Array) -> MLP:
    def loss(own: MLP) -> Array:
        log_probability = jax.nn.log_softmax(own(inputs))[jnp.arange(len(y)), y]
        return -jnp.sum(weights[y] * log_probability) / len(y)

    return jax.grad(loss)(own)


def test_the_classifier_learns_from_the_states_that_were_reached(run: Run) -> None:
    """From this batch's only; class weights sum to 1, and the sum is divided by the number of rows."""
    inverse = 1 / np.bincount(np.asarray(run.table.y), minlength=3)
    adam = Adam(run.averaged[0].policy.own)
    for number, pushed in enumerate(run.pushed):
        assert_close(run.averaged[number].policy.own, adam.model, atol=1e-4)
        steps = flat(run, pushed.frames)
        seen = shown(PROBLEM, steps.after)
        inputs = np.concatenate([np.where(seen, steps.x, 0.0), seen], axis=1)
        gradient = own_gradient(
            run.averaged[number].policy.own,
            jnp.asarray(inputs, jnp.float32),
            jnp.asarray(steps.y),
            jnp.asarray(inverse / inverse.sum(), jnp.float32),
        )
        adam.step(gradient, RATE)
    assert_close(run.policy.own, adam.model, atol=1e-4)
