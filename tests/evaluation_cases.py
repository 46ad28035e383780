"""Small policies, a predictor and tables whose evaluation can be worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import strategies as st
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import Problem, Table
from ascertain.acquisition import Episodes
from ascertain.policy import Policy

from .acquisition_cases import codes

INF = float("inf")


class Ordered(Policy):
    """Prefers the same actions in every row."""

    order: Float[Array, " choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        return jnp.broadcast_to(self.order[None], (x.shape[0], len(self.order)))


class Foresighted(Ordered):
    """Prefers the other end of its order with a budget of 2 or more."""

    budget: Float[Array, ""]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        here = jnp.concatenate([self.order[:1], jnp.where(self.budget >= 2, -1, 1) * self.order[1:]])
        return jnp.broadcast_to(here[None], (x.shape[0], len(here)))

    def at(self, budget: float | Float[Array, ""]) -> "Foresighted":
        return Foresighted(self.order, jnp.asarray(budget, jnp.float32))


class Triage(Policy):
    """Acquires action 0; then action 1 where its feature is positive, else action 2; then it stops."""

    stops: bool = eqx.field(static=True, default=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        positive = jnp.where(observed[:, 0], x[:, 0], 0.0) > 0
        stop = jnp.where((acquired.sum(axis=1) >= 2) & self.stops, 9.0, -jnp.inf)
        actions = [jnp.full(len(stop), 3.0), jnp.where(positive, 2.0, 1.0), jnp.where(positive, 1.0, 2.0)]
        return jnp.stack([stop, *actions], axis=1)


class Patient(Ordered):
    """Goes on until a feature is above its threshold; tells nobody why."""

    threshold: Float[Array, ""]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        seen = jnp.any(observed & (x > self.threshold), axis=1)
        rest = jnp.broadcast_to(self.order[None, 1:], (x.shape[0], len(self.order) - 1))
        return jnp.concatenate([jnp.where(seen, jnp.inf, -jnp.inf)[:, None], rest], axis=1)

    def stopping_at(self, threshold: float) -> "Patient":
        return Patient(self.order, jnp.asarray(threshold, jnp.float32))


class Moody(Policy):
    """Scores differently in every row, state and step, and may stop."""

    scores: Float[Array, "instances states choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        here = self.scores[jnp.arange(x.shape[0]), codes(acquired)]
        return here + jr.normal(key, here.shape)


class LastWord(eqx.Module):
    """Believes in class 1 as the observed features say, each of which outweighs those before it."""

    strength: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.asarray(1.0))

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        weight = self.strength * 2.0 ** jnp.arange(x.shape[1])
        one = jax.nn.sigmoid(jnp.sum(jnp.where(observed, x, 0.0) * weight[None], axis=1))
        return jnp.stack([1 - one, one], axis=1)


# All rows of three signs. LastWord says 1 where the last feature that it knows is positive, and 0 otherwise.
SIGNS = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float)
LABELS = np.array([0, 0, 1, 1, 0, 1, 0, 1])
ROUNDS = Table(SIGNS, LABELS)
UNIT = Problem(np.eye(3), np.ones(3), 3, 2, action_names=["first", "second", "third"])
IN_ORDER = Ordered(jnp.asarray([-INF, 3.0, 2.0, 1.0]))

GROUPS = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
GROUPED = Problem(GROUPS, [2, 1, 3], 6, 2)

# Three rows, which make two steps, one and none.
_CHOICES = jnp.asarray([[3, 1, 0], [2, 0, 0], [0, 0, 0]])
EPISODES = Episodes(_CHOICES, jnp.cumsum(_CHOICES > 0, axis=1).astype(jnp.float32), jnp.zeros(3, bool))


Weighted = tuple[np.ndarray, np.ndarray, np.ndarray]  # probabilities, labels, and how often each row counts


@st.composite
def weighted(draw: st.DrawFn) -> Weighted:
    """Draw probabilities of few values, so that most are tied and some are 0 or 1, labels and counts."""
    n_rows, n_classes = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = rng.integers(0, 4, (n_rows, n_classes)) + 1e-9 * np.eye(n_classes)[0]
    counts = rng.integers(0, 4, n_rows)
    counts[0] += 1
    y = rng.integers(0, rng.integers(1, n_classes + 1), n_rows)
    return (parts / parts.sum(axis=1, keepdims=True)).astype(np.float32), y, counts


def assert_same(found: dict[str, float], expected: dict[str, float]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name
