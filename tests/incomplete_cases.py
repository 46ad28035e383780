"""A small world of binary features in which every score of a policy is known, and rows of it with holes."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.special import expit
from sklearn import metrics as reference

from ascertain import Problem, Table
from ascertain.policy import Policy

# Feature 0 is known from the start; an action reveals each of the others. P(feature is 1 | class, feature 0)
# for classes 0 and 1 in rows: features tell much where feature 0 is 0, and little where it is 1.
SHARE = 0.4  # of class 1
CLEAR = np.array([[0.1, 0.2, 0.15], [0.8, 0.9, 0.75]])
VAGUE = np.array([[0.4, 0.35, 0.45], [0.55, 0.6, 0.6]])
PROBLEM = Problem(np.eye(4)[1:], np.ones(3), 2, n_classes=2)


class Believes(eqx.Module):
    """Adds up fixed evidence of the observed features."""

    weights: Float[Array, " features"] = eqx.field(default_factory=lambda: jnp.asarray([0.3, 1.1, 0.8, 0.5]))

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        evidence = jnp.where(observed, (2 * x - 1) * self.weights[None], 0.0).sum(axis=1)
        one = jax.nn.sigmoid(evidence)
        return jnp.stack([1 - one, one], axis=1)


class Chooses(Policy):
    """Acquires action 0; stops if its value and feature 0 agree, else goes on with action 1 or 2 by value."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        known, first = x[:, 0] > 0.5, jnp.where(observed[:, 1], x[:, 1], 0.0) > 0.5
        stop = jnp.where(acquired[:, 0] & known & first, 9.0, -jnp.inf)
        actions = [jnp.full(len(x), 3.0), jnp.where(first, 2.0, 1.0), jnp.where(first, 1.0, 2.0)]
        return jnp.stack([stop, *actions], axis=1)


def path(values: tuple[int, ...]) -> list[int]:
    """The actions that `Chooses` takes in a row with these four values, worked out anew."""
    known, first = values[:2]
    if known and first:
        return [0]
    return [0, 1] if first else [0, 2]


def draw(rng: np.random.Generator, n_rows: int) -> Table:
    """Draw complete rows."""
    y = (rng.random(n_rows) < SHARE).astype(int)
    known = (rng.random(n_rows) < 0.5).astype(int)
    of_one = np.where(known[:, None] == 1, VAGUE[y], CLEAR[y])
    x = np.column_stack([known, rng.random((n_rows, 3)) < of_one]).astype(float)
    return Table(x, y, n_classes=2)


def hide(rng: np.random.Generator, table: Table) -> Table:
    """Hide features by the values of those that the policy sees before: at random, for whoever follows it."""
    x = np.asarray(table.x)
    first, later = expit(2.2 - 2.4 * x[:, 0]), expit(2.0 - 1.2 * x[:, 0] - 1.0 * x[:, 1])
    chances = np.column_stack([np.ones(len(x)), first, later, later])
    return table.with_cells(table.x, jnp.asarray(rng.random(x.shape) < chances))


def exact_predictions() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Class, predicted probability of class 1, probability and cost of every row there can be."""
    weights, labels, ones, costs = [], [], [], []
    evidence = np.array([0.3, 1.1, 0.8, 0.5])
    for y, *bits in itertools.product((0, 1), repeat=5):
        known, features = bits[0], np.array(bits[1:])
        of_one = (VAGUE if known else CLEAR)[y]
        weights.append((SHARE if y else 1 - SHARE) * 0.5 * np.where(features, of_one, 1 - of_one).prod())
        seen = [0, *(1 + action for action in path(tuple(bits)))]
        ones.append(1 / (1 + np.exp(-((2 * np.array(bits) - 1) * evidence)[seen].sum())))
        labels.append(y)
        costs.append(len(seen) - 1)
    return np.array(labels), np.array(ones), np.array(weights), np.array(costs)


def exact_scores() -> dict[str, float]:
    """Compute the policy's scores from the probability of every row."""
    truth, p, w, costs = exact_predictions()
    return {
        "accuracy": float(reference.accuracy_score(truth, p > 0.5, sample_weight=w)),
        "f1": float(reference.f1_score(truth, p > 0.5, sample_weight=w, average="macro")),
        "auroc": float(reference.roc_auc_score(truth, p, sample_weight=w)),
        "auprc": float(reference.average_precision_score(truth, p, sample_weight=w)),
        "log_loss": float(reference.log_loss(truth, p, sample_weight=w)),
        "brier": 2 * float(reference.brier_score_loss(truth, p, sample_weight=w)),
        "mean_cost": float(np.average(costs, weights=w)),
        "mean_acquisitions": float(np.average(costs, weights=w)),
    }
