"""Predictions after each step of episodes worked out by hand, by predictors in JAX and others."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jaxtyping import Array, Bool, Float

from ascertain import InputError, SklearnPredictor, Table, evaluate, evaluate_soft
from ascertain.predictors._predictions import predictions
from tests.evaluation_cases import EPISODES, IN_ORDER, ROUNDS, UNIT, LastWord, Triage

SEEN = [  # at the start and after each step
    [[0, 0, 0]] * 3,
    [[0, 0, 1], [0, 1, 0], [0, 0, 0]],
    [[1, 0, 1], [0, 1, 0], [0, 0, 0]],
    [[1, 0, 1], [0, 1, 0], [0, 0, 0]],
]
THREE = Table(np.array([[0.5, -1, 2], [1, 3, -2], [-1, 1, 0.3]]), [0, 1, 1])


def test_predictions_follow_the_steps() -> None:
    found = predictions(LastWord(), UNIT, THREE, EPISODES)
    expected = [LastWord()(THREE.x, jnp.asarray(seen, bool)) for seen in SEEN]
    np.testing.assert_allclose(found, jnp.stack(expected), rtol=1e-6)


def test_other_predictors_are_asked_only_about_rows_that_change() -> None:
    asked = []

    def ask(x: Any, observed: Any) -> Any:
        asked.append(np.asarray(observed).tolist())
        assert np.asarray(x)[~np.asarray(observed)].tolist() == [0] * int((~np.asarray(observed)).sum())
        return np.asarray(LastWord()(jnp.asarray(x), jnp.asarray(observed)))

    found = predictions(ask, UNIT, THREE, EPISODES)
    np.testing.assert_allclose(found, predictions(LastWord(), UNIT, THREE, EPISODES), rtol=1e-6)
    assert asked == [[[False] * 3], [SEEN[1][0], SEEN[1][1]], [SEEN[2][0]]]


def test_a_predictor_that_looks_where_it_should_not_sees_nothing() -> None:
    class Peeking(eqx.Module):
        def __call__(
            self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
        ) -> Float[Array, "instances classes"]:
            return LastWord()(x, jnp.ones_like(observed))

    honest = predictions(LastWord(), UNIT, THREE, EPISODES)
    np.testing.assert_allclose(predictions(Peeking(), UNIT, THREE, EPISODES), honest, rtol=1e-6)


class Estimator:
    """LastWord in the manner of scikit-learn."""

    classes_ = np.arange(2)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        known = ~np.isnan(rows)
        return np.asarray(LastWord()(jnp.asarray(np.where(known, rows, 0.0)), jnp.asarray(known)))


@pytest.mark.parametrize("score", [evaluate, evaluate_soft])
def test_any_predictor_can_be_scored(score: Callable[..., pd.DataFrame]) -> None:
    other = score(Triage(), UNIT, ROUNDS, SklearnPredictor(Estimator(), 2))
    pd.testing.assert_frame_equal(other, score(Triage(), UNIT, ROUNDS, LastWord()), rtol=1e-6)


def test_a_predictor_of_another_shape_is_refused() -> None:
    def three_classes(x: Any, observed: Any) -> Any:
        return np.full((len(x), 3), 1 / 3)

    with pytest.raises(InputError, match=r"shape \(1, 3\) for 1 rows; .* 2 classes: \(1, 2\)"):
        evaluate(IN_ORDER, UNIT, ROUNDS, three_classes)
