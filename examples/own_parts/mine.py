"""Three parts of our own: a restorer, a mechanism and a dataset; `docs/extend.md` explains them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd

from ascertain import datasets, missingness, restoration


class ClassNormal(eqx.Module):
    """A normal distribution for each class and feature."""

    means: jax.Array  # classes x features
    deviations: jax.Array

    def draw(self, key, table):
        """Draw a value for every cell, given the class of its row."""
        noise = jr.normal(key, table.x.shape)
        return self.means[table.y] + noise * self.deviations[table.y]


@restoration.register("class_normal", summary="A normal distribution for each class and feature.")
def fit_class_normal(key, problem, train, valid, *, settings):
    """Take means and deviations of the available cells."""
    member = jax.nn.one_hot(train.y, problem.n_classes).T  # classes x rows
    there = train.available.astype(jnp.float32)
    count = jnp.maximum(member @ there, 1)
    means = member @ (train.x * there) / count
    squares = member @ (train.x**2 * there) / count
    return ClassNormal(means, jnp.sqrt(jnp.maximum(squares - means**2, 0)))


@missingness.register("first_kept", summary="All but the first action go missing at random.")
class FirstKept(missingness.Mechanism):
    """All but the first action go missing at random."""

    reveals: jax.Array
    rate: jax.Array

    @classmethod
    def fit(cls, key, problem, table, rate):
        """There is nothing to learn from the table."""
        return cls(problem.reveals, jnp.asarray(rate, jnp.float32))

    def probabilities(self, x):
        """How probable it is that each action of each row goes missing."""
        rates = jnp.full((len(x), len(self.reveals)), self.rate)
        return rates.at[:, 0].set(0)


@datasets.register("rings", label="Rings")
def rings():
    """600 points in six dimensions; the first two tell whether a point is near the centre."""
    x = np.random.default_rng(0).normal(size=(600, 6))
    table = pd.DataFrame(x, columns=list("abcdef"))
    table["near"] = x[:, 0] ** 2 + x[:, 1] ** 2 < 1.4
    costs = {"e": 2}  # the others cost 1
    return datasets.from_frame(
        table, target="near", costs=costs, default_cost=1, budgets=[2, 3], name="rings"
    )
