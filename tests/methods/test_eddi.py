"""EDDI against plain loops, against integrals of a model small enough to solve, and its properties."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from jaxtyping import Array

from ascertain import InputError, Problem, Table, evaluate, load, methods, predictors, restoration
from ascertain._core.training import Schedule
from ascertain.acquisition import choose
from ascertain.methods import _eddi as eddi
from ascertain.methods._eddi import EDDI, Settings, divergence, gaussian_divergence
from ascertain.predictors._masked_mlp import Settings as MLPSettings
from ascertain.restoration import _pvae as pvae
from ascertain.restoration._pvae import PVAE, Posterior

from .by_hand import FAST, dense, filled, perceptron, softmax

INF = float("inf")
ESTIMATORS = ("prediction", "classifier", "latent")
N_FEATURES, N_CLASSES, LATENT = 5, 3, 3
# The first feature is known from the start, and the second is revealed by two actions.
REVEALS = np.array([[0, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], bool)
PROBLEM = Problem(REVEALS, [2, 0.5, 1, 0], budget=2, n_classes=N_CLASSES)
VAE_SETTINGS = pvae.Settings(
    latent=LATENT, embedding=4, point_hidden=9, encoder=(5, 12), decoder=(12,), classifier=(12,)
)
VAE = filled(partial(PVAE, N_FEATURES, N_CLASSES, VAE_SETTINGS), 5, scale=0.4)  # few units are dead


class Slopes(eqx.Module):
    """A predictor that both sides of a comparison can compute."""

    weights: Array  # by feature and class

    def __call__(self, x: Array, observed: Array) -> Array:
        return jax.nn.softmax(jnp.where(observed, x, 0.0) @ self.weights)


WEIGHTS = np.random.default_rng(1).normal(size=(N_FEATURES, N_CLASSES))


def policy(estimator: str, samples: int = 6) -> EDDI:
    predictor = Slopes(jnp.asarray(WEIGHTS, jnp.float32)) if estimator == "prediction" else None
    return EDDI(VAE, predictor, PROBLEM, jnp.asarray(-INF), samples, estimator)


@partial(jax.jit, compiler_options=FAST)
def act(policy: EDDI, x: Array, acquired: Array) -> Array:
    observed = policy.problem.observed(acquired)
    return policy(x, observed, acquired, jnp.ones_like(acquired), key=jr.key(7))


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 10."""
    default = Settings()
    assert (default.samples, default.estimator) == (128, "prediction")
    assert default.vae == pvae.Settings()


def test_a_study_fits_one_vae_for_all_that_begin_with_it() -> None:
    parts: tuple[Any, ...] = (
        *(methods.get(name) for name in ("eddi", "odin", "odin_mb")),
        restoration.get("pvae"),
    )
    assert {part.shares for part in parts} == {pvae.MODEL}


# A second implementation, given the draws.


def naive_posterior(points: np.ndarray, visible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum the point network over the visible points, and encode the sum."""
    pooled = np.zeros(5)
    for j in np.flatnonzero(visible):
        point = points[j] * np.asarray(VAE.embedding, np.float64)[j]
        pooled += dense(VAE.point_out, np.maximum(dense(VAE.point_hidden, point), 0))
    encoded = perceptron(VAE.encoder.layers, pooled)
    return encoded[:LATENT], np.exp(encoded[LATENT:])


def naive_divergence(p: tuple[np.ndarray, np.ndarray], q: tuple[np.ndarray, np.ndarray]) -> float:
    (m, v), (n, w) = p, q
    return float(np.sum(np.log(np.sqrt(w / v)) + (v + (m - n) ** 2) / (2 * w) - 0.5))


def naive_information(estimator: str, x: np.ndarray, observed: np.ndarray, samples: int) -> np.ndarray:
    """Draw after draw, action after action."""
    coding, labelling = jr.split(jr.key(7))
    noise = np.asarray(jr.normal(coding, (samples, LATENT)), np.float64)
    gumbel = np.asarray(jr.gumbel(labelling, (samples, N_CLASSES)), np.float64)
    nothing, hidden, shown = np.zeros(N_CLASSES), np.zeros(N_CLASSES, bool), np.ones(N_CLASSES, bool)

    def believe(values: np.ndarray, seen: np.ndarray, label: np.ndarray | None = None) -> Any:
        entries = (nothing, hidden) if label is None else (label, shown)
        return naive_posterior(np.append(values, entries[0]), np.append(seen, entries[1]))

    def predict(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
        if estimator == "prediction":
            return softmax(np.where(seen, values, 0) @ WEIGHTS)
        return softmax(perceptron(VAE.classifier.layers, believe(values, seen)[0]))

    found = np.zeros((samples, len(REVEALS)))
    mean, variance = believe(x, observed)
    for s in range(samples):
        code = mean + np.sqrt(variance) * noise[s]
        values = np.where(observed, x, perceptron(VAE.decoder.layers, code))
        y = np.eye(N_CLASSES)[np.argmax(perceptron(VAE.classifier.layers, code) + gumbel[s])]
        for a, group in enumerate(REVEALS):
            seen = observed | group
            if estimator == "latent":
                found[s, a] = naive_divergence(believe(values, seen), believe(x, observed))
                found[s, a] -= naive_divergence(believe(values, seen, y), believe(x, observed, y))
            else:
                found[s, a] = scipy.stats.entropy(predict(values, seen), predict(x, observed))
    return found.mean(axis=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scores_are_information_per_price(estimator: str) -> None:
    rng = np.random.default_rng(2)
    x, acquired = rng.normal(size=(11, N_FEATURES)), rng.random((11, 4)) < 0.3
    acquired[0], acquired[1] = False, [True, False, False, False]
    scores = np.asarray(act(policy(estimator), jnp.asarray(x, jnp.float32), jnp.asarray(acquired)))
    assert np.all(scores[:, 0] == -INF)
    prices = np.array([2, 0.5, 1, 1e-12])
    for row in range(len(x)):
        observed = (acquired[row] @ REVEALS > 0) | (np.arange(N_FEATURES) == 0)
        found = scores[row, 1:]
        information = np.where(found > 0, found * prices, found / prices)
        expected = naive_information(estimator, x[row], observed, 6)
        np.testing.assert_allclose(information, expected, rtol=2e-3, atol=1e-5)
        assert np.all(np.abs(expected[REVEALS @ ~observed]) > 1e-4)


# A model that can be solved: the features are independent and standard normal, whatever is observed.


def independent(n_features: int) -> PVAE:
    settings = pvae.Settings(
        latent=n_features, embedding=2, point_hidden=2, encoder=(2,), decoder=(), classifier=()
    )
    still = jax.tree.map(jnp.zeros_like, filled(partial(PVAE, n_features, 2, settings), 0))
    identity: PVAE = eqx.tree_at(lambda v: v.decoder.layers[0].weight, still, jnp.eye(n_features))
    return identity


def test_the_information_is_the_integral() -> None:
    """Of ln 2 less the entropy of the prediction, as that is even before anything is seen."""
    slopes = np.array([0.5, 3.0, 1.5])
    problem = Problem([[1, 0, 0], [0, 1, 0], [1, 0, 1]], [1, 1, 1], 1, n_classes=2)
    predictor = Slopes(jnp.asarray(np.stack([np.zeros(3), slopes], axis=1), jnp.float32))
    solved = EDDI(independent(3), predictor, problem, jnp.asarray(-INF), 40_000, "prediction")
    found = np.asarray(act(solved, jnp.zeros((1, 3)), jnp.zeros((1, 3), bool)))[0, 1:]

    def integral(deviation: float) -> float:
        def integrand(z: float) -> float:
            p = scipy.special.expit(deviation * z)
            return (np.log(2) - scipy.stats.entropy([p, 1 - p])) * scipy.stats.norm.pdf(z)

        return float(scipy.integrate.quad(integrand, -8, 8)[0])

    # The last action reveals two features, and the logit is the sum of what they add.
    expected = [integral(0.5), integral(3.0), integral(np.hypot(0.5, 1.5))]
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_divergences_are_those_of_scipy() -> None:
    p, q = np.array([[0.2, 0.3, 0.5], [1, 0, 0]]), np.array([[0.6, 0.3, 0.1], [0.25, 0.5, 0.25]])
    found = divergence(jnp.asarray(p, jnp.float32), jnp.asarray(q, jnp.float32))
    np.testing.assert_allclose(found, scipy.stats.entropy(p, q, axis=1), rtol=1e-4)


def test_the_divergence_of_gaussians_is_the_integral() -> None:
    p = Posterior(jnp.asarray([[0.5, -1.0]]), jnp.log(jnp.asarray([[0.25, 4.0]])))
    q = Posterior(jnp.asarray([[0.0, 1.0]]), jnp.log(jnp.asarray([[1.0, 2.0]])))
    expected = 0.0
    for m, v, n, w in ((0.5, 0.25, 0, 1), (-1, 4, 1, 2)):
        one, other = scipy.stats.norm(m, np.sqrt(v)), scipy.stats.norm(n, np.sqrt(w))
        expected += one.expect(lambda z, f=one, g=other: f.logpdf(z) - g.logpdf(z))
    np.testing.assert_allclose(gaussian_divergence(p, q), [expected], rtol=1e-4)
    assert float(gaussian_divergence(p, p)[0]) == pytest.approx(0, abs=1e-6)


def test_extreme_variances_give_numbers() -> None:
    far = Posterior(jnp.full((1, 2), 1e3), jnp.asarray([[-400.0, 400.0]]))
    near = Posterior(jnp.zeros((1, 2)), jnp.asarray([[400.0, -400.0]]))
    assert np.isfinite(gaussian_divergence(far, near)).all()


# Properties.


def test_what_is_observed_tells_nothing_more() -> None:
    """After the first action nothing is new in the second, although it has not been taken."""
    x, acquired = jnp.ones((1, N_FEATURES)), jnp.asarray([[True, False, False, False]])
    for estimator in ESTIMATORS:
        scores = np.asarray(act(policy(estimator), x, acquired))[0, 1:]
        np.testing.assert_allclose(scores[:2], 0, atol=1e-5)
        assert abs(scores[2]) > 1e-4


def test_a_code_that_has_nothing_to_do_with_the_label_tells_nothing() -> None:
    """Where the encoder cannot see the label, knowing it explains away none of what an action tells.

    Then both terms of the paper's reward are equal.
    """
    blind = eqx.tree_at(
        lambda v: (v.embedding, v.point_hidden.bias, v.point_out.bias),
        VAE,
        (VAE.embedding.at[N_FEATURES:].set(0.0), jnp.zeros(9), jnp.zeros(5)),
    )
    x, nothing = jnp.ones((1, N_FEATURES)), jnp.zeros((1, 4), bool)
    unable = eqx.tree_at(lambda p: p.vae, policy("latent"), blind)
    assert abs(float(act(policy("latent"), x, nothing)[0, 1])) > 0.01
    np.testing.assert_allclose(act(unable, x, nothing)[0, 1:4], 0, atol=1e-6)


def test_a_row_is_scored_the_same_whatever_rows_are_beside_it() -> None:
    rng = np.random.default_rng(4)
    x, acquired = jnp.asarray(rng.normal(size=(11, N_FEATURES)), jnp.float32), jnp.zeros((11, 4), bool)
    together, alone = act(policy("prediction"), x, acquired), act(policy("prediction"), x[9:10], acquired[:1])
    np.testing.assert_allclose(together[9], alone[0], rtol=1e-4)


def test_it_stops_where_nothing_is_worth_the_threshold() -> None:
    x, acquired = jnp.ones((1, N_FEATURES)), jnp.zeros((1, 4), bool)
    left = jnp.asarray([[True, True, True, False]])  # not the free one
    best = float(act(policy("prediction"), x, acquired)[0, 1:4].max())
    for threshold, stops in ((-INF, False), (0.99 * best, False), (1.01 * best, True)):
        scores = act(policy("prediction").stopping_at(threshold), x, acquired)
        assert (int(choose(scores, left)[0]) == 0) == stops


def test_it_asks_for_a_predictor_only_if_it_uses_one() -> None:
    table = Table(np.ones((4, N_FEATURES)), [0, 1, 2, 0], n_classes=N_CLASSES)
    with pytest.raises(InputError, match="give it with predictor=, or set estimator='latent'"):
        eddi.fit(jr.key(0), PROBLEM, table, table, pretrained=VAE)
    slopes = Slopes(jnp.asarray(WEIGHTS))
    for estimator in ("classifier", "latent"):
        found = eddi.fit(
            jr.key(0),
            PROBLEM,
            table,
            table,
            predictor=slopes,
            pretrained=VAE,
            settings=Settings(estimator=estimator),
        )
        assert found.predictor is None
        assert found.vae is VAE


@pytest.mark.slow
def test_it_beats_random_and_fixed_orders_on_cube() -> None:
    """The paper's headline, on the data that we have."""
    cube = load("cube")
    train, valid, test = cube.split(0)
    key, problem = jr.key(0), cube.problem.without_names()
    settings = MLPSettings(epochs=500, batch_size=128, dropout=0.1)
    predictor = jax.jit(partial(predictors.get("mlp").fit, settings=settings))(key, problem, train, valid)
    schedule = Schedule(batch_size=128, batches_per_round=100, max_rounds=60)
    own = {"eddi": Settings(samples=64, vae=pvae.Settings(schedule=schedule))}

    def loss(name: str) -> float:
        fitted = methods.fit(
            name, key, cube.problem, train, valid, predictor=predictor, settings=own.get(name)
        )
        return float(evaluate(fitted, cube.problem, test, predictor, budgets=[3, 5, 10])["log_loss"].mean())

    mine = loss("eddi")
    assert mine < loss("static") < loss("random") - 0.3
