"""The PVAE against a slow NumPy reading of the specification, and against a known Gaussian."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import log_softmax

from ascertain import Problem, Table
from ascertain._core.networks import MLP
from ascertain._core.training import Schedule
from ascertain.restoration import PVAE, PVAERestorer, fit_pvae
from ascertain.restoration import _pvae as module
from ascertain.restoration._pvae import Posterior, Settings
from tests.compiler import NOT_OPTIMISED, XLAS_OWN

D, K = 4, 2  # features and classes
PROBLEM = Problem(np.eye(D), np.ones(D), budget=2, n_classes=K)
DEEP = Settings(latent=3, embedding=4, point_hidden=6, encoder=(5, 7), decoder=(6,), classifier=(4,))
TINY = Settings(  # to be compiled fast
    latent=3,
    embedding=4,
    point_hidden=6,
    encoder=(5,),
    decoder=(6,),
    classifier=(),
    learning_rate=1e-2,
    schedule=Schedule(batch_size=16, batches_per_round=4, max_rounds=5, patience=3, min_delta=0.1),
)


def table(seed: int, n: int, missing: float = 0.4) -> Table:
    rng = np.random.default_rng(seed)
    return Table(rng.normal(size=(n, D)), rng.integers(0, K, n), rng.random((n, D)) >= missing, n_classes=K)


def with_junk(incomplete: Table) -> Table:
    """Write numbers where nothing is available, which `Table` would set to zero."""
    junk = np.random.default_rng(99).normal(0, 100, incomplete.x.shape).astype(np.float32)
    x = jnp.where(incomplete.available, incomplete.x, junk)
    changed: Table = eqx.tree_at(lambda t: t.x, incomplete, x)
    return changed


def same(one: PVAE, other: PVAE) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


class Fit:
    """The fit, compiled once for all tests: three replicates, of which the companions may be chosen."""

    def __init__(self, settings: Settings, *, optimised: bool) -> None:
        self.traces = 0

        def fit(key: jax.Array, train: Table, valid: Table) -> PVAE:
            self.traces += 1
            return fit_pvae(key, PROBLEM, train, valid, settings)

        options = XLAS_OWN if optimised else NOT_OPTIMISED
        self.fit_all = jax.jit(jax.vmap(fit), compiler_options=options)

    def __call__(
        self,
        seed: int,
        train: Table,
        valid: Table,
        *,
        place: int = 0,
        companions: tuple[int, int] = (50, 51),
    ) -> PVAE:
        runs = [(jr.key(other), table(other, 50), table(100 + other, 20)) for other in companions]
        runs.insert(place, (jr.key(seed), train, valid))
        fitted = self.fit_all(*jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs))
        taken: PVAE = jax.tree.map(lambda leaf: leaf[place], fitted)
        return taken


@pytest.fixture(scope="module")
def fit() -> Fit:
    return Fit(TINY, optimised=False)  # which compiles in a third of the time


@pytest.fixture(scope="module")
def fitted(fit: Fit) -> PVAE:
    return fit(0, table(0, 50), table(1, 20))


@pytest.fixture(scope="module")
def model() -> PVAE:
    """Give a model with random parameters, made with NumPy to spare compilation."""
    rng = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(PVAE, D, K, DEEP, key=jr.key(0))
    drawn: PVAE = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.6, leaf.shape), jnp.float32), shapes)
    return drawn


# The specification once more, point by point and row by row, in double precision.


def slow_mlp(network: MLP, x: np.ndarray) -> np.ndarray:
    *hidden, last = [
        (np.asarray(layer.weight, float), np.asarray(layer.bias, float)) for layer in network.layers
    ]
    for weight, bias in hidden:
        x = np.maximum(x @ weight + bias, 0)
    return x @ last[0] + last[1]


def slow_encode(model: PVAE, points: np.ndarray, visible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Apply the whole point network to every visible point x_j e_j, and sum."""
    embedding = np.asarray(model.embedding, float)
    w1, b1 = np.asarray(model.point_hidden.weight, float), np.asarray(model.point_hidden.bias, float)
    w2, b2 = np.asarray(model.point_out.weight, float), np.asarray(model.point_out.bias, float)
    pooled = np.zeros((len(points), len(b2)))
    for i, j in np.argwhere(visible):
        pooled[i] += np.maximum((points[i, j] * embedding[j]) @ w1 + b1, 0) @ w2 + b2
    mean, log_variance = np.split(slow_mlp(model.encoder, pooled), 2, axis=1)
    return mean, log_variance


def slow_losses(
    model: PVAE, noise: np.ndarray, data: Table, kept: np.ndarray, weights: np.ndarray, *, classify_mean: bool
) -> np.ndarray:
    x, y, available = np.asarray(data.x, float), np.asarray(data.y), np.asarray(data.available)
    points = np.hstack([x, np.eye(K)[y]])
    mean, log_variance = slow_encode(model, points, kept & np.hstack([available, np.ones((len(x), K), bool)]))
    code = mean + np.exp(0.5 * np.minimum(log_variance, 20)) * noise
    reconstruction = (available * (slow_mlp(model.decoder, code) - x) ** 2).sum(axis=1)
    divergence = -0.5 * (1 + log_variance - mean**2 - np.exp(log_variance)).sum(axis=1)
    logits = slow_mlp(model.classifier, mean if classify_mean else code)
    entropy = -weights[y] * log_softmax(logits, axis=1)[np.arange(len(y)), y]
    return reconstruction + 0.1 * divergence + entropy


def test_the_encoder_sums_the_point_network_over_the_visible_points(model: PVAE) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, D + K))
    points[:5] = 0  # an observed 0 contributes what the network makes of 0
    visible = rng.random((40, D + K)) < rng.random((40, 1))
    visible[5], visible[6] = False, True
    found = model.encode(jnp.asarray(points, jnp.float32), jnp.asarray(visible))
    expected = slow_encode(model, points, visible)
    np.testing.assert_allclose(found.mean, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.log_variance, expected[1], rtol=1e-4, atol=1e-5)
    assert not np.allclose(found.mean[0], found.mean[5]), "an observed 0 is not the same as nothing"


@pytest.mark.parametrize(("classify_mean", "log_variance"), [(False, 0.0), (True, 25.0)])
def test_the_loss_of_a_row(model: PVAE, classify_mean: bool, log_variance: float) -> None:
    """All that is available is reconstructed; sampling clamps the variance, the KL term does not."""
    shift = jnp.zeros(2 * DEEP.latent).at[DEEP.latent :].set(log_variance)
    shifted = eqx.tree_at(lambda m: m.encoder.layers[-1].bias, model, replace_fn=lambda bias: bias + shift)
    data, weights = table(3, 12), np.array([0.3, 0.7], np.float32)
    kept = np.random.default_rng(0).random((12, D + K)) < 0.6
    key = jr.key(5)
    loss = functools.partial(module._row_losses, kl_weight=0.1, classify_mean=classify_mean)
    found = jax.jit(loss)(shifted, key, data, jnp.asarray(kept), jnp.asarray(weights))
    noise = np.asarray(jr.normal(key, (12, DEEP.latent)), float)
    expected = slow_losses(shifted, noise, data, kept, weights, classify_mean=classify_mean)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_log_variances_are_clamped_at_20_when_sampling() -> None:
    log_variance = jnp.asarray([[0.0, 2.0, 20.0, 60.0]])
    drawn = module.draw_code(jr.key(0), Posterior(jnp.ones((1, 4)), log_variance))
    noise = np.asarray(jr.normal(jr.key(0), (1, 4)))
    deviation = np.exp([0.0, 1.0, 10.0, 10.0])
    np.testing.assert_allclose(drawn, 1 + deviation * noise, rtol=1e-5)


# Training.


def test_embeddings_are_at_most_of_length_one(model: PVAE, fitted: PVAE) -> None:
    assert np.linalg.norm(model.embedding, axis=1).max() > 1, "or else there would be nothing to bound"
    assert np.linalg.norm(fitted.embedding, axis=1).max() <= 1 + 1e-6
    bounded = module._bound_embedding(model)
    length = np.linalg.norm(model.embedding, axis=1, keepdims=True)
    expected = np.where(length > 1, model.embedding / length, model.embedding)
    np.testing.assert_allclose(bounded.embedding, expected, rtol=1e-6)


def test_fitting_does_not_look_at_unavailable_cells(fit: Fit, fitted: PVAE) -> None:
    train, valid = table(0, 50), table(1, 20)
    assert same(fit(0, with_junk(train), with_junk(valid)), fitted)
    assert not same(fit(0, eqx.tree_at(lambda t: t.x, train, -train.x), valid), fitted)


def check_replicates(fit: Fit) -> None:
    train, valid = table(0, 50), table(1, 20)
    expected = fit(0, train, valid)
    assert same(fit(0, train, valid, place=1, companions=(3, 4)), expected)
    assert same(fit(0, train, valid, place=2, companions=(0, 50)), expected)
    assert not same(fit(1, train, valid), expected)


def test_a_replicate_does_not_depend_on_its_place_or_companions(fit: Fit) -> None:
    check_replicates(fit)


@pytest.mark.slow
def test_nor_does_one_of_full_size_when_optimised() -> None:
    check_replicates(Fit(Settings(schedule=TINY.schedule), optimised=True))


def test_one_compilation_per_shape(fit: Fit) -> None:
    fit(5, table(5, 50, missing=0.0), table(6, 20))
    fit(6, table(7, 50, missing=0.7), table(8, 20))
    assert fit.traces == 1


# Restoration.


@jax.jit
def draw(restorer: PVAERestorer, data: Table) -> jax.Array:
    return restorer.draw(jr.key(3), data)


def test_a_draw_decodes_one_code_per_row_from_its_posterior(fitted: PVAE) -> None:
    data = table(4, 10)
    points = np.hstack([np.asarray(data.x, float), np.eye(K)[np.asarray(data.y)]])
    visible = np.hstack([np.asarray(data.available), np.ones((10, K), bool)])
    mean, log_variance = slow_encode(fitted, points, visible)
    noise = np.asarray(jr.normal(jr.key(3), (10, TINY.latent)), float)
    drawn = slow_mlp(fitted.decoder, mean + np.exp(0.5 * log_variance) * noise)
    np.testing.assert_allclose(draw(PVAERestorer(fitted), data), drawn, rtol=1e-3, atol=1e-4)
    at_mean = fitted.reconstruct(jr.key(3), data, sample=False)
    np.testing.assert_allclose(at_mean, slow_mlp(fitted.decoder, mean), rtol=1e-3, atol=1e-4)


def test_a_draw_sees_the_label_unless_it_is_label_free(fitted: PVAE) -> None:
    data = table(4, 10)
    flipped = eqx.tree_at(lambda t: t.y, data, 1 - data.y)
    label_free = PVAERestorer(fitted, see_label=False)
    np.testing.assert_array_equal(draw(label_free, data), draw(label_free, flipped))
    informed = PVAERestorer(fitted)
    assert not np.allclose(draw(informed, data), draw(informed, flipped))


def test_a_draw_does_not_look_at_unavailable_cells(fitted: PVAE) -> None:
    data, restorer = table(4, 10), PVAERestorer(fitted)
    np.testing.assert_array_equal(draw(restorer, with_junk(data)), draw(restorer, data))


# Settings.


def test_settings_are_those_of_the_specification() -> None:
    settings = Settings()
    assert (settings.latent, settings.embedding, settings.point_hidden) == (20, 20, 500)
    assert (settings.kl_weight, settings.most_masked, settings.learning_rate) == (0.1, 0.9, 1e-3)
    schedule = settings.schedule
    assert (schedule.batch_size, schedule.batches_per_round) == (128, 100)
    assert (schedule.track_from, schedule.stop_from) == (500, 1000)
    assert (schedule.patience, schedule.min_delta) == (50, 0.1)


def test_layers_are_those_of_the_specification() -> None:
    shapes = eqx.filter_eval_shape(PVAE, 7, 3, Settings(), key=jr.key(0))

    def sizes(network: MLP) -> list[int]:
        return [network.layers[0].weight.shape[0], *(layer.weight.shape[1] for layer in network.layers)]

    assert shapes.embedding.shape == (7 + 3, 20)
    assert shapes.point_hidden.weight.shape == (20, 500)
    assert shapes.point_out.weight.shape == (500, 20)
    assert sizes(shapes.encoder) == [20, 20, 500, 200, 40]
    assert sizes(shapes.decoder) == [20, 500, 200, 7]
    assert sizes(shapes.classifier) == [20, 32, 32, 3]


# Quality, where the best that can be done is known.


@pytest.mark.slow
def test_conditional_means_of_a_gaussian_are_nearly_the_exact_ones() -> None:
    """With the reference's settings, on AR(1) rows of which half the cells are missing."""
    d, correlation = 10, 0.8
    covariance = correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))

    def draw(seed: int, n: int) -> tuple[np.ndarray, Table]:
        rng = np.random.default_rng(seed)
        x = rng.multivariate_normal(np.zeros(d), covariance, n)
        # The label is independent of the features.
        return x, Table(x, rng.integers(0, 2, n), rng.random((n, d)) < 0.5)

    def error(filled: np.ndarray, x: np.ndarray, data: Table) -> float:
        return float(np.sqrt(np.mean((filled - x)[~np.asarray(data.available)] ** 2)))

    def exact_means(x: np.ndarray, data: Table) -> np.ndarray:
        filled = np.zeros_like(x)
        for row, seen in enumerate(np.asarray(data.available)):
            between = covariance[np.ix_(~seen, seen)]
            filled[row, ~seen] = between @ np.linalg.solve(covariance[np.ix_(seen, seen)], x[row, seen])
        return filled

    problem = Problem(np.eye(d), np.ones(d), budget=d, n_classes=2)
    (_, train), (_, valid), (x, fresh) = draw(0, 5000), draw(1, 1250), draw(2, 5000)
    fit = jax.jit(fit_pvae, static_argnames="settings")
    model = fit(jr.key(0), problem, train, valid, settings=Settings())
    best = error(exact_means(x, fresh), x, fresh)
    for see_label in (True, False):
        means = np.asarray(model.reconstruct(jr.key(1), fresh, see_label=see_label, sample=False))
        ratio = error(means, x, fresh) / best
        assert 1 < ratio < 1.1, see_label
