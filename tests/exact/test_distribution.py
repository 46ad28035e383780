"""The true distribution as restorer and predictor, against exact conditionals."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ascertain import Table
from ascertain.exact import FiniteProblem, TrueDistribution, problem_of, shortcut, table_of
from ascertain.exact._policies import state_rows
from ascertain.missingness import MCAR
from ascertain.predictors._masked_mlp import Predictor
from ascertain.restoration import Restorer, restore

# Three features with 2, 3 and 2 values, of which some combinations cannot occur.
JOINT = np.random.default_rng(0).dirichlet(np.full(24, 0.5)).reshape(2, 3, 2, 2)
JOINT[0, 1] = 0
JOINT /= JOINT.sum()
WORLD = FiniteProblem(JOINT, budget=3)
TRUTH = TrueDistribution(WORLD)


def test_it_is_a_restorer_and_a_predictor() -> None:
    assert isinstance(TRUTH, Restorer)
    assert isinstance(TRUTH, Predictor)


def test_predictions_are_the_conditional_probabilities_of_the_labels() -> None:
    x, acquired = state_rows(WORLD)
    mass = WORLD.mass.sum(axis=1, keepdims=True)
    possible = mass[:, 0] > 0
    assert 0 < possible.sum() < len(possible)
    garbage = jnp.where(acquired, x, 7.0)  # what is not observed is not looked at
    found = np.asarray(TRUTH(garbage, acquired))
    np.testing.assert_allclose(found[possible], WORLD.mass[possible] / mass[possible], atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_draws_follow_the_conditional_given_cells_and_label() -> None:
    n, seen, label = 20_480, 1, 1  # all rows have x1 = 2 and the second label
    x = np.tile([np.nan, 2, np.nan], (n, 1))
    drawn = np.asarray(TRUTH.draw(jr.key(0), Table(x, np.full(n, label), n_classes=2))).astype(int)
    assert (drawn[:, seen] == 2).all()
    exact = JOINT[:, 2, :, label] / JOINT[:, 2, :, label].sum()
    counts = np.zeros((2, 2))
    np.add.at(counts, (drawn[:, 0], drawn[:, 2]), 1)
    # 4.5 binomial standard errors: beyond with probability 7e-6, times four cells.
    assert (np.abs(counts / n - exact) <= 4.5 * np.sqrt(exact * (1 - exact) / n)).all()


def test_a_restored_table_has_the_true_joint_distribution() -> None:
    world, n = shortcut(d=4, budget=2), 20_480
    problem, truth = problem_of(world).without_names(), TrueDistribution(world)
    table = table_of(world, world.sample(0, n))
    masked = MCAR.fit(jr.key(0), problem, table, 0.7).sample(jr.key(1), table)
    restored = restore(jr.key(2), truth, masked)
    kept = np.asarray(masked.available)
    assert 0.3 < kept.mean() < 0.5  # a little more than 1 - 0.7: no row is left with nothing
    np.testing.assert_array_equal(np.asarray(restored.x)[kept], np.asarray(table.x)[kept])
    counts = np.zeros((2, 2, 2, 2, 2))
    np.add.at(counts, (*np.asarray(restored.x).astype(int).T, np.asarray(restored.y)), 1)
    exact = np.zeros_like(counts)
    exact[(*world.atoms.x.T, world.atoms.y)] = world.atoms.probability
    # 5 binomial standard errors (6e-7 each) over 32 cells, and nothing where nothing can be. Labels are as
    # drawn, so cells vary a little less than this.
    assert (np.abs(counts / n - exact) <= 5 * np.sqrt(exact * (1 - exact) / n)).all()
    # Holes filled without the row's own cells would not do: most rows were changed.
    assert (np.asarray(restored.x) != np.asarray(table.x)).any(axis=1).mean() > 0.5


def test_rows_that_cannot_occur_are_drawn_from_those_closest_to_them() -> None:
    joint = np.zeros((2, 2, 2, 2))
    joint[0, 0, 0, 0], joint[1, 1, 0, 1] = 0.1, 0.9
    truth = TrueDistribution(FiniteProblem(joint, budget=3))
    # Two of the three known things (x0, x1, label) fit the second instance, one the first.
    drawn = truth.draw(jr.key(0), Table(np.tile([1, 1, np.nan], (50, 1)), np.zeros(50), n_classes=2))
    assert drawn.tolist() == [[1, 1, 0]] * 50


def test_numbers_that_are_no_value_count_as_the_nearest() -> None:
    observed = jnp.ones((2, 3), bool)
    near = TRUTH(jnp.array([[0.6, 2.7, -0.4], [0.4, -3.0, 0.8]]), observed)
    np.testing.assert_array_equal(near, TRUTH(jnp.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), observed))
