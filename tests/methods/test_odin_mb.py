"""Model-based ODIN: the rows that are made, and that all else is ODIN."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain import Problem
from ascertain.methods import _odin as odin
from ascertain.methods import _odin_mb as odin_mb
from ascertain.methods._odin_mb import Settings, with_generated
from ascertain.restoration import _pvae as pvae

from .by_hand import FAST, assert_close, filled, perceptron, softmax, three_classes

PROBLEM = Problem([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [1, 0.5, 0], budget=1, n_classes=3)
VAE_SETTINGS = pvae.Settings(
    latent=3, embedding=4, point_hidden=9, encoder=(5, 8), decoder=(5,), classifier=(6,)
)
VAE = filled(partial(pvae.PVAE, 4, 3, VAE_SETTINGS), 0)
TABLE = three_classes(40, 4)
ALPHA = 1e-5  # of each statistical test; the keys are fixed


def test_the_defaults_are_the_references() -> None:
    """As in methods.md 10."""
    assert Settings().generated == 1.0
    assert odin.Settings() == odin.Settings(
        **{name: getattr(Settings(), name) for name in odin.Settings.__dataclass_fields__}
    )


@pytest.mark.parametrize(("share", "n_made"), [(1.0, 40), (0.26, 10), (0.0, 0), (2.5, 100)])
def test_complete_rows_follow_those_of_the_table(share: float, n_made: int) -> None:
    longer = with_generated(jr.key(0), VAE, TABLE, Settings(generated=share))
    assert len(longer.y) == 40 + n_made
    assert_close(jax.tree.map(lambda leaf: leaf[:40], longer), TABLE, rtol=0, atol=0)
    assert np.all(longer.available[40:])
    assert longer.y.dtype == TABLE.y.dtype
    assert longer.n_classes == 3


def test_rows_are_decoded_from_the_prior_and_labelled_by_the_classifier() -> None:
    n_made = 4000
    many = Settings(generated=n_made / 40)
    drawn = with_generated(jr.key(1), VAE, TABLE, many)
    code = np.asarray(jr.normal(jr.split(jr.key(1))[0], (n_made, 3)), np.float64)
    np.testing.assert_allclose(drawn.x[40:], perceptron(VAE.decoder.layers, code), rtol=1e-3, atol=1e-4)
    probability = softmax(perceptron(VAE.classifier.layers, code))
    # The labels that each class is expected to have, in halves by how sure the classifier is of it.
    y = np.asarray(drawn.y[40:])
    for label in range(3):
        for half in np.array_split(np.argsort(probability[:, label]), 2):
            expected, variance = probability[half, label], probability[half, label]
            z = (np.sum(y[half] == label) - expected.sum()) / np.sqrt(np.sum(variance * (1 - variance)))
            assert 2 * scipy.stats.norm.sf(abs(z)) > ALPHA
    likeliest = with_generated(
        jr.key(1), VAE, TABLE, Settings(generated=many.generated, generated_labels="likeliest")
    )
    np.testing.assert_array_equal(likeliest.x, drawn.x)
    assert np.mean(np.asarray(likeliest.y[40:]) == probability.argmax(axis=1)) > 0.999


@pytest.mark.slow
def test_it_is_odin_on_the_longer_table() -> None:
    settings = Settings(batches=2, slots=8, frames_per_batch=16, vae=VAE_SETTINGS)

    @partial(jax.jit, compiler_options=FAST)
    def both(key: jax.Array) -> tuple[odin.ODIN, odin.ODIN]:
        _, generating, training = jr.split(key, 3)
        longer = with_generated(generating, VAE, TABLE, settings)
        given: dict[str, Any] = {"pretrained": VAE, "settings": settings}
        mine = odin_mb.fit(key, PROBLEM, TABLE, TABLE, **given)
        return mine, odin.fit(training, PROBLEM, longer, TABLE, **given)

    mine, expected = both(jr.key(3))
    assert_close(mine, expected, rtol=0, atol=0)
    assert not np.allclose(mine.actor.weight, jnp.zeros_like(mine.actor.weight))
