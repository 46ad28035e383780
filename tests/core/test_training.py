"""The training loop against closed forms, NumPy, and a slow second reading of its stopping rules."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jaxtyping import Array, Float, PRNGKeyArray
from sklearn.metrics import log_loss

from ascertain._core.training import (
    Batch,
    Schedule,
    Training,
    _batches,
    class_weights,
    cross_entropy,
    some_completion,
    train,
)

batches_of = jax.jit(_batches, static_argnums=(1, 2, 3))

# Least squares, where the answer is known.


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "noise"),
    [
        (100, 128, 0.5),  # one batch per epoch, filled up
        (50, 16, 0.0),  # three batches and a short one; without noise they agree on the solution
    ],
)
def test_least_squares_are_solved(n_rows: int, batch_size: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0, 0.5]) + noise * rng.normal(size=n_rows)).astype(np.float32)
    solution = np.linalg.lstsq(x, y, rcond=None)[0]

    @jax.jit
    def fit(key: PRNGKeyArray, x: Array, y: Array) -> Array:
        def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
            del key
            return jnp.sum(batch.weight * (x[batch.rows] @ model - y[batch.rows]) ** 2)

        def validate(model: Array, key: PRNGKeyArray) -> Array:
            del key
            return jnp.mean((x @ model - y) ** 2)

        schedule = Schedule(batch_size=batch_size, max_rounds=600)
        return train(key, jnp.zeros(3), loss, validate, n_rows, schedule, learning_rate=0.03)

    np.testing.assert_allclose(fit(jr.key(0), x, y), solution, atol=1e-3)


# Batches.


@pytest.mark.parametrize(("n_rows", "batch_size"), [(10, 4), (12, 4), (3, 8)])
def test_an_epoch_has_every_row_once(n_rows: int, batch_size: int) -> None:
    per_epoch = int(np.ceil(n_rows / batch_size))
    batches = batches_of(jr.key(0), n_rows, batch_size, 3 * per_epoch)
    assert batches.rows.shape == batches.weight.shape == (3 * per_epoch, batch_size)
    weight = np.asarray(batches.weight).reshape(3, -1)
    rows = np.asarray(batches.rows).reshape(3, -1)
    for epoch in range(3):
        assert sorted(rows[epoch][weight[epoch] > 0]) == list(range(n_rows))


def test_a_short_batch_is_a_mean_over_what_it_has() -> None:
    weight = np.asarray(batches_of(jr.key(0), 10, 4, 9).weight)
    full, short = [0.25] * 4, [0.5, 0.5, 0.0, 0.0]
    np.testing.assert_array_equal(weight, [full, full, short] * 3)


def test_rounds_need_not_be_whole_epochs() -> None:
    batches = batches_of(jr.key(0), 10, 4, 5)
    assert batches.rows.shape == (5, 4)
    np.testing.assert_allclose(batches.weight.sum(axis=1), np.ones(5))
    assert sorted(np.asarray(batches.rows[:3])[np.asarray(batches.weight[:3]) > 0]) == list(range(10))


def test_epochs_are_shuffled_anew() -> None:
    rows = np.asarray(batches_of(jr.key(0), 64, 64, 4).rows)
    assert len({tuple(order) for order in [*rows.tolist(), list(range(64))]}) == 5
    assert not np.array_equal(rows, batches_of(jr.key(1), 64, 64, 4).rows)


# Several completions of each row: those of the first come first.


def test_one_completion_leaves_the_rows_as_they_are() -> None:
    rows = jnp.asarray([4, 0, 2])
    assert some_completion(jr.key(0), rows, 5, completions=1) is rows


def test_every_row_is_taken_by_any_of_its_completions_alike() -> None:
    n_rows, completions, n_epochs = 7, 3, 4000
    keys = jr.split(jr.key(0), n_epochs)
    epochs = jax.vmap(lambda key: some_completion(key, jnp.arange(n_rows), n_rows, completions))(keys)
    taken = np.asarray(epochs)
    np.testing.assert_array_equal(taken % n_rows, np.tile(np.arange(n_rows), (n_epochs, 1)))
    counts = np.stack([(taken // n_rows == number).sum(axis=0) for number in range(completions)])
    assert counts.sum() == taken.size
    # Each count is binomial; the chi-squared statistic of a row has `completions - 1` degrees of freedom.
    expected = n_epochs / completions
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < scipy.stats.chi2.isf(1e-5, n_rows * (completions - 1))


def test_rows_choose_their_completions_independently() -> None:
    taken = np.asarray(some_completion(jr.key(1), jnp.zeros(9000, int), 1, completions=2))
    # Of two neighbours both take the second one in a quarter of the cases: five standard deviations.
    both = np.mean(taken[::2] & taken[1::2])
    assert abs(both - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4500)


def test_training_meets_every_completion_and_each_row_once_in_an_epoch() -> None:
    """A model that counts the rows of its batches: its gradient is minus one for each."""
    n_rows, completions, n_epochs = 10, 3, 40

    def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
        del key
        return -jnp.sum(jnp.where(batch.weight > 0, model[batch.rows], 0.0))

    seen: list[np.ndarray] = []

    def validate(model: Array, key: PRNGKeyArray) -> Array:
        del key
        jax.debug.callback(lambda values: seen.append(np.asarray(values) > 0), model)
        return jnp.asarray(0.0)

    schedule = Schedule(batch_size=4, max_rounds=n_epochs)
    start = jnp.zeros(n_rows * completions)
    train(jr.key(0), start, loss, validate, n_rows, schedule, completions=completions).block_until_ready()
    jax.effects_barrier()
    met = np.stack(seen)
    first = met[0].reshape(completions, n_rows)
    np.testing.assert_array_equal(first.sum(axis=0), np.ones(n_rows))  # one of each after an epoch
    assert met[-1].all()  # (2/3) ** 40 for one completion never to be met


# Checkpoints and early stopping. The gradient is 1 throughout, so that Adam takes unit steps and the
# parameter counts the batches: it says which round the returned parameters are from, and which validation
# loss of a script is due.


@functools.partial(jax.jit, static_argnums=1)
@functools.partial(jax.vmap, in_axes=(0, None))
def rounds_kept(script: Float[Array, " rounds"], schedule: Schedule) -> Array:
    """Count the batches that the returned parameters were trained on."""

    def validate(model: Array, key: PRNGKeyArray) -> Array:
        del key
        per_round = schedule.batches_per_round or 2
        return script[jnp.round(-model / per_round).astype(int) - 1]

    def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
        del key
        return jnp.sum(batch.weight) * model

    return -train(jr.key(0), jnp.asarray(0.0), loss, validate, 6, schedule, learning_rate=1.0)


def slow_rounds_kept(script: list[float], schedule: Schedule) -> int:
    """Read the specification once more: checkpoints by the raw loss, stopping by steps of min_delta."""
    per_round = schedule.batches_per_round or 2
    kept, best, reference, bad_rounds = 0, np.inf, np.inf, 0
    for number in range(1, schedule.max_rounds + 1):
        batches, found = number * per_round, script[number - 1]
        if batches < schedule.track_from:
            kept = batches
        elif found < best:
            kept, best = batches, found
        if schedule.patience is not None and batches >= schedule.stop_from:
            if found < reference - schedule.min_delta:
                reference, bad_rounds = found, 0
            else:
                bad_rounds += 1
            if bad_rounds >= schedule.patience:
                break
    return kept


NEVER_TRACKED = 10**6  # the newest parameters are returned, and so tell when training stopped
BASE = Schedule(batch_size=3, max_rounds=12)  # of six rows: two batches a round
SCHEDULES = {
    "no stopping": BASE,
    "tracked from a round on": replace(BASE, track_from=8),
    "min_delta": replace(BASE, patience=2, min_delta=0.5),
    "stopped late": replace(BASE, patience=1, stop_from=7, min_delta=0.25),
    "both late": replace(BASE, patience=3, stop_from=8, track_from=4, min_delta=0.25, batches_per_round=1),
    "stopping round": replace(BASE, patience=2, track_from=NEVER_TRACKED),
    "stopping round with min_delta": replace(BASE, patience=3, min_delta=0.5, track_from=NEVER_TRACKED),
    "stopping round, late": replace(
        BASE, patience=2, min_delta=0.25, stop_from=6, track_from=NEVER_TRACKED, batches_per_round=3
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_checkpoints_and_stopping_are_as_a_slow_reading_has_them(name: str) -> None:
    schedule = SCHEDULES[name]
    # Quarters are exact in single precision, and few of them make ties and steps of just min_delta.
    scripts = np.random.default_rng(0).integers(0, 8, (300, 12)).astype(np.float32) / 4
    expected = [slow_rounds_kept(script.tolist(), schedule) for script in scripts]
    assert len(set(expected)) > 3, "or else the scripts would not tell"
    np.testing.assert_allclose(rounds_kept(jnp.asarray(scripts), schedule), expected, atol=1e-3)


def test_the_best_round_is_kept_though_training_goes_on() -> None:
    script = jnp.asarray([[3.0, 1.0, 2.0, 1.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0, 9.0, 9.0]])
    kept = rounds_kept(script, BASE)
    np.testing.assert_allclose(kept, [2 * 2], atol=1e-3)  # the second round; its tie, the fourth, is later


def test_without_a_checkpoint_the_newest_parameters_stay() -> None:
    kept = rounds_kept(jnp.zeros((1, 12)), replace(BASE, track_from=NEVER_TRACKED))
    np.testing.assert_allclose(kept, [12 * 2], atol=1e-3)


def test_a_loss_that_is_not_a_number_is_never_the_best() -> None:
    script = jnp.asarray([[np.nan, 4.0, np.nan, 3.0, *[np.nan] * 8]])
    np.testing.assert_allclose(rounds_kept(script, BASE), [4 * 2], atol=1e-3)


def test_parameters_are_projected_after_every_update() -> None:
    def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
        del key, batch
        return (model - 3.0) ** 2

    fitted = train(
        jr.key(0),
        jnp.asarray(0.0),
        loss,
        lambda model, _: (model - 3.0) ** 2,
        4,
        Schedule(batch_size=2, max_rounds=30),
        learning_rate=0.1,
        project=lambda model: jnp.minimum(model, 1.0),
    )
    assert float(fitted) == 1.0


# Replicates and compilation.


def test_a_replicate_does_not_depend_on_its_place_or_companions() -> None:
    """Though they stop at different times."""
    schedule = SCHEDULES["min_delta"]
    scripts = np.random.default_rng(1).integers(0, 8, (6, 12)).astype(np.float32) / 4
    together = np.asarray(rounds_kept(jnp.asarray(scripts), schedule))
    for place in range(6):
        others = np.random.default_rng(place).integers(0, 8, (6, 12)).astype(np.float32) / 4
        others[place] = scripts[0]
        assert np.asarray(rounds_kept(jnp.asarray(others), schedule))[place] == together[0]


def test_one_compilation_per_shape() -> None:
    traces = 0

    @jax.jit
    def fit(key: PRNGKeyArray, x: Array) -> Array:
        nonlocal traces
        traces += 1
        return train(
            key,
            jnp.zeros(2),
            lambda model, _, batch: jnp.sum((x[batch.rows] @ model - 1.0) ** 2),
            lambda model, _: jnp.sum(model**2),
            x.shape[0],
            Schedule(batch_size=2, max_rounds=3, patience=2),
        )

    fit(jr.key(0), jnp.ones((4, 2)))
    fit(jr.key(1), jnp.zeros((4, 2)))
    assert traces == 1


# Losses.


def test_class_weights_are_inverse_frequencies_with_sum_one() -> None:
    y = np.repeat([0, 1, 2], [50, 30, 20])
    inverse = 1 / np.array([0.5, 0.3, 0.2])
    found = class_weights(jnp.asarray(y), 3)
    np.testing.assert_allclose(found, inverse / inverse.sum(), rtol=1e-6)
    assert float(found.sum()) == pytest.approx(1, rel=1e-6)


def test_a_class_without_rows_has_no_weight() -> None:
    np.testing.assert_allclose(class_weights(jnp.asarray([0, 0, 0, 2]), 4), [0.25, 0, 0.75, 0], rtol=1e-6)


def test_cross_entropy_is_the_weighted_log_loss() -> None:
    rng = np.random.default_rng(0)
    logits, y = rng.normal(0, 3, (40, 3)), rng.integers(0, 3, 40)
    weights = np.array([0.2, 0.5, 0.3])
    rows = np.asarray(cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(y), jnp.asarray(weights)))
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows, -weights[y] * np.log(probability[np.arange(40), y]), rtol=1e-4)
    # Divided by the number of rows, not by the weights' sum.
    total = log_loss(y, probability, sample_weight=weights[y], normalize=False)
    assert rows.mean() == pytest.approx(total / 40, rel=1e-4)


def test_cross_entropy_stays_finite_where_softmax_underflows() -> None:
    logits = jnp.asarray([[1000.0, 0.0], [-1000.0, 0.0]])
    found = cross_entropy(logits, jnp.asarray([1, 1]), jnp.ones(2))
    np.testing.assert_allclose(found, [1000.0, 0.0])


# In pieces.


@pytest.mark.parametrize("patience", [None, 3])
def test_training_in_pieces_arrives_at_the_same_model(patience: int | None) -> None:
    """However it is cut, and also if it has stopped long before the last piece."""
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(rng.normal(size=(30, 2))), jnp.asarray(rng.normal(size=30))
    schedule = Schedule(batch_size=8, max_rounds=40, patience=patience, min_delta=0.01)

    def training(key: PRNGKeyArray) -> Training[Array]:
        def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
            del key
            return jnp.sum(batch.weight * (x[batch.rows] @ model - y[batch.rows]) ** 2)

        def validate(model: Array, key: PRNGKeyArray) -> Array:
            del key
            return jnp.mean((x @ model - y) ** 2)

        return Training(key, jnp.ones(2), loss, validate, 30, schedule, learning_rate=0.05)

    key = jr.key(0)
    whole = jax.jit(lambda key: training(key).run())(key)
    advance = jax.jit(lambda key, state, end: training(key).advance(state, end))
    for ends in ([40], [1, 2, 3, 40, 40], [7, 40, 80]):
        state = training(key).begin()
        for end in ends:
            state = advance(key, state, end)
            assert int(state.round) <= end
        assert bool(training(key).has_stopped(state))
        np.testing.assert_array_equal(training(key).trained(state), whole)
    if patience is not None:
        assert int(state.round) < 40  # it stopped early
