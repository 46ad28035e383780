"""JAFA against plain NumPy: its set encoder, its policy, and whole batches of learning."""

import functools
from dataclasses import replace
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

from ascertain import AFABENCH, PAPER, Problem, Protocol, Table
from ascertain._core.networks import MLP
from ascertain._core.training import Schedule
from ascertain.methods._jafa import JAFA, SetClassifier, Settings, fit, pretrain
from ascertain.methods._registry import State
from ascertain.methods._set_encoder import SetEncoder

from . import slow_jafa

FAST = {"xla_backend_optimization_level": 0}  # compiles faster

# A group of two, and two single features.
REVEALS = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], bool)
PROBLEM = Problem(REVEALS, [1.0, 0.5, 1.25], budget=1.5, n_classes=3)
TINY = Settings(hidden=(4,), embedding=3, process_steps=2)


def random_model(model: Any, seed: int = 0) -> Any:
    """Draw all parameters with NumPy, to spare compilation and to have none at zero."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(0.7 * rng.normal(size=leaf.shape), jnp.float32), model)


def random_classifier(seed: int = 0, settings: Settings = TINY) -> SetClassifier:
    shapes = eqx.filter_eval_shape(SetClassifier, PROBLEM, settings, key=jr.key(0))
    drawn: SetClassifier = random_model(shapes, seed)
    return drawn


def random_policy(state: str, may_stop: bool = False) -> JAFA:
    """Give a policy with arbitrary parameters."""
    n_inputs = TINY.embedding + (3 if state == "sm" else 0)
    q = random_model(eqx.filter_eval_shape(MLP, (n_inputs, 4, 4), key=jr.key(0)), seed=1)
    return JAFA(random_classifier(), q, state == "sm", may_stop)


embed = jax.jit(lambda encoder, x, observed: encoder(x, observed), compiler_options=FAST)
score = jax.jit(lambda policy, *situation: policy(*situation, key=jr.key(0)), compiler_options=FAST)

# Every subset of four features, each with values of its own.
SUBSETS = np.array(list(product([False, True], repeat=4)))
VALUES = np.random.default_rng(3).normal(size=SUBSETS.shape).astype(np.float32)


# The set encoder.


def test_an_embedding_is_read_processed_and_written() -> None:
    encoder = random_classifier().encoder
    found = embed(encoder, VALUES, SUBSETS)
    plain = slow_jafa.to_numpy(encoder)
    expected = [slow_jafa.embed(plain, x, observed) for x, observed in zip(VALUES, SUBSETS, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(np.diff(found, axis=0)).max(axis=1).min() > 1e-3, "or else the sets are not told apart"


def test_the_empty_set_has_an_embedding_of_its_own() -> None:
    encoder = random_classifier().encoder
    np.testing.assert_array_equal(embed(encoder, VALUES, np.zeros_like(SUBSETS))[5], encoder.empty)


def test_the_order_of_the_features_does_not_matter() -> None:
    """Renumber the features, in the data and in the one-hot part of what reads them."""
    encoder = random_classifier().encoder
    order = np.array([2, 0, 3, 1])
    first = encoder.read.layers[0].weight  # of the value, then of each feature's number
    renumbered = eqx.tree_at(
        lambda e: e.read.layers[0].weight, encoder, first[np.concatenate([[0], 1 + order])]
    )
    found = embed(renumbered, VALUES[:, order], SUBSETS[:, order])
    np.testing.assert_allclose(found, embed(encoder, VALUES, SUBSETS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("other", [0.0, -3.0, 1e6])
def test_values_that_are_not_observed_do_not_matter(other: float) -> None:
    encoder = random_classifier().encoder
    changed = np.where(SUBSETS, VALUES, np.float32(other))
    np.testing.assert_array_equal(embed(encoder, changed, SUBSETS), embed(encoder, VALUES, SUBSETS))


def test_the_architecture_is_the_papers() -> None:
    """Read d+1-32-32-16, LSTM 16-16, write 32-32-32-16, classifier 16-32-32-K; the empty set at zero."""
    cube = Problem(np.eye(20), np.ones(20), 10, n_classes=8)
    build = jax.jit(lambda key: SetClassifier(cube, Settings(), key=key), compiler_options=FAST)
    own = build(jr.key(0))

    def sizes(network: Any) -> list[tuple[int, ...]]:
        return [layer.weight.shape for layer in network.layers]

    assert sizes(own.encoder.read) == [(21, 32), (32, 32), (32, 16)]
    assert sizes(own.encoder.write) == [(32, 32), (32, 32), (32, 16)]
    assert sizes(own.classifier) == [(16, 32), (32, 32), (32, 8)]
    assert own.encoder.process_steps == 5
    np.testing.assert_array_equal(own.encoder.empty, np.zeros(16))
    process = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(own.encoder.process)]
    drawn = np.concatenate(process)
    assert len(drawn) == 2 * 16 * 64 + 2 * 64  # two weights and two biases of four gates
    assert np.all(np.abs(drawn) <= 0.25)  # uniform within 1 / sqrt(16): mean square 1/48
    spread = 5 * 0.25**2 * np.sqrt(1 / 5 - 1 / 9) / np.sqrt(len(drawn))  # five standard errors
    assert np.mean(drawn**2) == pytest.approx(1 / 48, abs=spread)
    assert len(np.unique(drawn)) > 0.99 * len(drawn)


def test_the_defaults_are_the_papers() -> None:
    default = Settings()
    assert (default.batches, default.frames_per_batch) == (4000, 256)
    assert default.cost_weight is None
    schedule = default.pretraining
    assert (schedule.batch_size, schedule.batches_per_round) == (128, 100)
    assert (schedule.track_from, schedule.stop_from) == (500, 1000)
    assert (schedule.patience, schedule.min_delta) == (50, 1e-2)


# The policy.


def situations() -> tuple[Array, Array, Array, Array]:
    """Give every set of acquired actions, for a row that has all and for one that has but the first."""
    sets = np.array(list(product([False, True], repeat=3)) * 2)
    x = np.random.default_rng(4).normal(size=(8, 4)).astype(np.float32)
    available = np.repeat([[True, True, True], [True, False, False]], 8, axis=0)
    observed = np.asarray(PROBLEM.observed(jnp.asarray(sets)))
    return jnp.asarray(np.tile(x, (2, 1))), jnp.asarray(observed), jnp.asarray(sets), jnp.asarray(available)


@pytest.mark.parametrize("may_stop", [False, True])
@pytest.mark.parametrize("state", ["s", "sm"])
def test_scores_are_the_values_of_all_choices(state: str, may_stop: bool) -> None:
    policy = random_policy(state, may_stop)
    x, observed, acquired, available = situations()
    found = np.asarray(score(policy, x, observed, acquired, available))
    plain, still_open = slow_jafa.to_numpy(policy), np.asarray(available & ~acquired, float)
    cells = zip(np.asarray(x), np.asarray(observed), still_open, strict=True)
    expected = np.array([slow_jafa.mlp(plain.q, slow_jafa.agent_inputs(plain, *cell)) for cell in cells])
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-4, atol=1e-5)
    if may_stop:
        np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-4, atol=1e-5)
    else:
        assert np.all(found[:, 0] == -np.inf)


def test_only_the_variant_with_the_mask_sees_availability() -> None:
    x, observed, acquired, _ = situations()
    everything = jnp.ones_like(acquired)
    for state, differs in (("s", False), ("sm", True)):
        policy = random_policy(state)
        complete = score(policy, x, observed, acquired, everything)[:, 1:]
        for action in range(3):
            holes = everything.at[:, action].set(False)
            changed = np.any(score(policy, x, observed, acquired, holes)[:, 1:] != complete, axis=1)
            # What was acquired is open no more, whether or not it was available.
            expected = differs & ~np.asarray(acquired)[:, action]
            np.testing.assert_array_equal(changed, expected)


@pytest.mark.slow
def test_what_is_not_observed_need_not_be_read() -> None:
    """Moving the observed features to the front changes neither the embedding nor its gradient."""
    keys = jr.split(jr.key(0), 4)
    encoder = SetEncoder(9, (32, 32), 16, 5, key=keys[0])
    x, direction = jr.normal(keys[1], (30, 9)), jr.normal(keys[2], (30, 16))
    observed = (jr.uniform(keys[3], (30, 9)) < 0.3).at[0].set(False)
    most = int(observed.sum(axis=1).max())
    assert most < 8

    def project(encoder: SetEncoder, most: int | None) -> jax.Array:
        return jnp.sum(direction * encoder(x, observed, most))

    learn = jax.jit(jax.value_and_grad(project), static_argnums=1)
    wanted, *others = (learn(encoder, each) for each in (None, most, most + 1))
    for found in others:
        for ours, plain in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert jnp.allclose(ours, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("protocol", "most"), [(PAPER, 5), (AFABENCH, 6)])
def test_an_episode_observes_no_more_than_its_budget_pays(protocol: Protocol, most: int) -> None:
    # A panel of three features, two single ones, and one that is known. The budget pays for two actions, of
    # which the panel may be one; where the last choice may overshoot, for three.
    reveals = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]])
    problem = Problem(reveals, [1, 1, 1], 2, 2)
    assert Settings().completed(problem, protocol).most_observed == most
    assert Settings(cost_weight=0.1).completed(problem, protocol).most_observed is None


def test_the_agent_does_not_teach_the_encoder() -> None:
    situation = situations()

    @functools.partial(jax.jit, compiler_options=FAST)
    @jax.grad
    def slope(policy: JAFA) -> Array:
        return jnp.sum(policy(*situation, key=jr.key(0)) ** 2)

    found = slope(random_policy("sm", may_stop=True))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(found.own))
    assert all(np.any(leaf) for leaf in jax.tree.leaves(found.q))


# Learning.


def leaves(model: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


def same(first: Any, second: Any) -> list[bool]:
    return [np.array_equal(a, b) for a, b in zip(leaves(first), leaves(second), strict=True)]


def table(n_rows: int, seed: int, holes: float = 0.25) -> Table:
    """Draw rows of three classes, unequally frequent, which the features tell apart somewhat."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    x = rng.normal(size=(n_rows, 4)) + y[:, None] * [1.0, 0.0, -1.0, 0.5]
    return Table(x, y, rng.random((n_rows, 4)) >= holes, n_classes=3)


@functools.partial(jax.jit, static_argnames=("settings", "state", "protocol"), compiler_options=FAST)
def fit_all(
    key: PRNGKeyArray,
    train_table: Table,
    valid_table: Table,
    pretrained: SetClassifier | None = None,
    *,
    settings: Settings,
    state: State = "s",
    protocol: Protocol = PAPER,
) -> JAFA:
    fitted = fit(
        key,
        PROBLEM,
        train_table,
        valid_table,
        pretrained=pretrained,
        settings=settings,
        state=state,
        protocol=protocol,
    )
    assert isinstance(fitted, JAFA)
    return fitted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "protocol", "cost_weight"),
    [("s", PAPER, None), ("sm", AFABENCH, None), ("sm", PAPER, 0.1)],
    ids=["s-paper", "sm-afabench", "sm-soft"],
)
def test_batches_of_learning_go_as_in_plain_numpy(
    state: str, protocol: Protocol, cost_weight: float | None
) -> None:
    """Three batches of two steps in three slots: rewards, targets, both optimisers, lagging networks."""
    greedy = replace(
        TINY,
        batches=3,
        slots=3,
        frames_per_batch=6,
        first_epsilon=0.0,
        last_epsilon=0.0,
        learning_rate=1e-2,
        target_rate=0.3,
        cost_weight=cost_weight,
    ).completed(PROBLEM, protocol)
    rows, own = table(40, seed=1), random_classifier(seed=2)
    options = {"state": state, "protocol": protocol}
    start = fit_all(jr.key(0), rows, rows, own, settings=replace(greedy, batches=0), **options)
    assert all(same(start.own, own)), "what is given as pretrained is not pretrained again"
    assert start.q.layers[0].weight.shape == (3 if state == "s" else 3 + 3, 4)
    found = fit_all(jr.key(0), rows, rows, own, settings=greedy, **options)

    slow = slow_jafa.SlowJAFA(slow_jafa.to_numpy(start), PROBLEM, rows, protocol, greedy)
    for _ in range(3):
        slow.learn()
    assert 0 < slow.ends < 18, "or else there is nothing to tell ends from other steps by"
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(), slow.policy, slow_jafa.to_numpy(start))
    assert max(jax.tree.leaves(moved.q)) > 0.02
    assert max(jax.tree.leaves(moved.own)) > 0.02
    for name, got, wanted in zip(
        ("q", "own"), (found.q, found.own), (slow.policy.q, slow.policy.own), strict=True
    ):
        for leaf, expected in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf, expected, atol=1e-5, err_msg=name)


WHOLE = replace(
    TINY,
    batches=4,
    slots=4,
    frames_per_batch=8,
    learning_rate=0.05,  # so that the validation loss goes up and down
    pretraining=Schedule(batch_size=16, batches_per_round=1, max_rounds=20),
)


@pytest.mark.slow
def test_a_fit_is_its_keys_and_nothing_elses() -> None:
    train_table, valid_table = table(30, seed=3), table(10, seed=4)
    first, again, other = (
        fit_all(jr.key(seed), train_table, valid_table, settings=WHOLE) for seed in (0, 0, 1)
    )
    assert all(same(first, again))
    assert not any(same(first, other))
    assert all(np.isfinite(leaf).all() for leaf in leaves(first))


def test_cells_that_are_not_available_are_never_looked_at() -> None:
    """Neither in pretraining nor in episodes nor in model selection, whatever stands in them."""

    def with_garbage(rows: Table) -> Table:
        changed: Table = eqx.tree_at(lambda t: t.x, rows, jnp.where(rows.available, rows.x, 50.0))
        return changed

    train_table, valid_table = table(30, seed=3), table(10, seed=4)
    clean = fit_all(jr.key(0), train_table, valid_table, settings=WHOLE)
    dirty = fit_all(jr.key(0), with_garbage(train_table), with_garbage(valid_table), settings=WHOLE)
    assert all(same(clean, dirty))


@pytest.mark.slow
def test_pretraining_learns_to_classify_from_any_subset() -> None:
    """Two classes, told by the sign of the third feature alone: nearly all are right with it, else half."""
    problem = Problem(REVEALS, [1.0, 0.5, 1.25], budget=1.5, n_classes=2)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    y = (x[:, 2] > 0).astype(int)
    training, validation = Table(x[:200], y[:200]), Table(x[200:], y[200:])
    schedule = Schedule(batch_size=64, batches_per_round=50, max_rounds=8)
    chosen = replace(TINY, hidden=(8,), embedding=4, learning_rate=1e-2, pretraining=schedule)

    @functools.partial(jax.jit, compiler_options=FAST)
    def run(key: PRNGKeyArray) -> tuple[Array, Array]:
        own = pretrain(key, problem, training, validation, settings=chosen)
        with_it = jnp.tile(jnp.asarray([[False, False, True, False]]), (300, 1))
        return own(jnp.asarray(x), with_it), own(jnp.asarray(x), ~with_it)

    known, unknown = run(jr.key(0))
    assert np.mean(np.argmax(known, axis=1) == y) > 0.9
    # What does not tell leaves both classes about as likely: 300 coins, five standard errors.
    assert abs(np.mean(np.argmax(unknown, axis=1) == y) - 0.5) < 5 * 0.5 / np.sqrt(300)
    assert np.abs(unknown[:, 1] - unknown[:, 0]).mean() < 0.5 * np.abs(known[:, 1] - known[:, 0]).mean()
