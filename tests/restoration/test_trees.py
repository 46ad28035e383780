"""Chained trees: what is drawn, from whom, and that it follows the other columns and the label."""

from dataclasses import replace
from itertools import product

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from sklearn.ensemble import ExtraTreesRegressor

from ascertain import Problem, Table
from ascertain.restoration import ChainedTrees, fit_trees, restore
from ascertain.restoration._trees import Settings, _predict_out_of_bag, _Unit, _units
from ascertain.testing import check_restorer

ALPHA = 1e-4
QUICK = Settings(trees=5, sweeps=2)

# Seven features: a panel of two, a one-hot group of three, one by itself, and one that is always known.
REVEALS = np.array([[1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0]], bool)
PROBLEM = Problem(REVEALS, np.ones(3), budget=2, n_classes=2)


def complete(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a panel that the known feature tells, a category that the label tells, and a count."""
    rng = np.random.default_rng(seed)
    y, known = rng.integers(0, 2, n), rng.normal(size=n)
    panel = known[:, None] * [1.0, -1.0] + 0.2 * rng.normal(size=(n, 2))
    category = np.eye(3)[np.where(y == 1, 2, rng.integers(0, 2, n))]
    return np.column_stack([panel, category, rng.poisson(3, n), known]), y


def incomplete(seed: int, n: int) -> tuple[Table, np.ndarray]:
    """Hide actions, and now and then a part of the panel; return the complete values too."""
    x, y = complete(seed, n)
    rng = np.random.default_rng([seed, 1])
    hidden = rng.random((n, 3)) < 0.4
    available = ~((hidden @ REVEALS.astype(int)) > 0)
    available[rng.random(n) < 0.1, 1] = False
    return Table(x, y, available, n_classes=2), x


@pytest.fixture(scope="module")
def fitted() -> ChainedTrees:
    return fit_trees(jr.key(0), PROBLEM, incomplete(0, 400)[0], incomplete(1, 50)[0], settings=QUICK)


def test_units_are_actions_and_single_known_features() -> None:
    assert sorted(unit.tolist() for unit in _units(PROBLEM)) == [[0, 1], [2, 3, 4], [5], [6]]
    overlapping = Problem([[1, 1, 0], [0, 1, 1]], np.ones(2), budget=1, n_classes=2)
    assert sorted(unit.tolist() for unit in _units(overlapping)) == [[0], [1, 2]]


def test_whole_actions_are_copied_from_rows_that_have_them(fitted: ChainedTrees) -> None:
    train, _ = incomplete(0, 400)
    table, _ = incomplete(2, 100)
    filled = np.asarray(restore(jr.key(1), fitted, table).x)
    for columns in ([0, 1], [2, 3, 4], [5]):
        having = np.asarray(train.available)[:, columns].all(axis=1)
        donors = {tuple(row) for row in np.asarray(train.x)[having][:, columns].tolist()}
        lacking = ~np.asarray(table.available)[:, columns].any(axis=1)
        assert lacking.any()
        assert {tuple(row) for row in filled[lacking][:, columns].tolist()} <= donors
    np.testing.assert_array_equal(filled[np.asarray(table.available)], table.x[table.available])


def test_draws_follow_the_other_columns_and_the_rest_of_the_panel(fitted: ChainedTrees) -> None:
    table, true = incomplete(3, 400)
    drawn = np.asarray(fitted.draw(jr.key(1), table))
    missing = ~np.asarray(table.available)[:, 1]
    # Two draws about the mean differ by 0.2 * sqrt(2) = 0.28, two of the column by 1.44. Five trees, whose
    # leaves have five rows, tell half of what there is to tell.
    assert np.sqrt(np.mean((drawn - true)[missing, 1] ** 2)) < 1.44 / 2


def test_the_label_matters_only_where_it_is_seen(fitted: ChainedTrees) -> None:
    table, _ = incomplete(4, 400)
    lacking = ~np.asarray(table.available)[:, 4]
    y = np.asarray(table.y)[lacking]
    drawn = np.asarray(fitted.draw(jr.key(1), table))[lacking, 4]
    # Leaves of five rows mix classes rarely; donors, not at all where predictions are certain.
    assert np.mean(drawn == y) > 0.95
    free = np.asarray(fitted.label_free().draw(jr.key(1), table))[lacking, 4]
    counts = [[np.sum((y == a) & (free == b)) for b in (0, 1)] for a in (0, 1)]
    assert scipy.stats.chi2_contingency(counts).pvalue > ALPHA


def test_rows_are_predicted_by_trees_that_did_not_see_them() -> None:
    """As scikit-learn's own out-of-bag predictions are; and rows that all trees saw, by all."""
    rng = np.random.default_rng(8)
    inputs, values = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    forest = ExtraTreesRegressor(30, bootstrap=True, oob_score=True, random_state=0).fit(inputs, values)
    np.testing.assert_allclose(_predict_out_of_bag(forest, inputs), forest.oob_prediction_)
    single = ExtraTreesRegressor(1, bootstrap=True, random_state=0).fit(inputs, values)
    seen = np.unique(single.estimators_samples_[0])
    np.testing.assert_allclose(_predict_out_of_bag(single, inputs)[seen], single.predict(inputs)[seen])


def test_where_nothing_can_be_predicted_draws_are_as_wide_as_the_values() -> None:
    """Draws for a row vary as much as the column, instead of repeating what the trees took for signal."""
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    table = Table(x, y, rng.random(x.shape) < 0.6, n_classes=2)
    problem = Problem(np.eye(4), np.ones(4), budget=2, n_classes=2)
    chains = fit_trees(jr.key(0), problem, table, table, settings=Settings())
    one, other = (np.asarray(chains.draw(jr.key(seed), table)) for seed in (1, 2))
    missing = ~np.asarray(table.available)
    half_square = np.mean((one - other)[missing] ** 2) / 2  # the variance of draws, 1 if they are free
    # Donors of a row recur, 1 in 5 or so: these pairs do not differ.
    assert half_square > 0.7


def test_donors_are_the_nearest_by_prediction_and_by_what_a_row_has() -> None:
    rng = np.random.default_rng(5)
    values, predicted = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    unit = _Unit(np.array([0, 1]), None, values, predicted)
    chains = object.__new__(ChainedTrees)
    chains.settings = replace(QUICK, donors=3)
    for seen in product([True, False], repeat=2):
        wanted = rng.normal(size=2)
        theirs = np.where(seen, values, predicted)
        nearest = np.argsort(((wanted - theirs) ** 2).sum(axis=1))[:3]
        picked = chains._matched(rng, unit, np.tile(wanted, (3000, 1)), np.tile(seen, (3000, 1)))
        counts = np.bincount(picked, minlength=30)
        assert set(np.flatnonzero(counts)) == set(nearest)
        assert scipy.stats.chisquare(counts[nearest]).pvalue > ALPHA


def test_what_no_row_has_is_filled_with_means() -> None:
    table, _ = incomplete(6, 60)
    available = np.asarray(table.available).copy()
    available[:, 5] = False
    available[::2, 0], available[1::2, 1] = False, False
    table = Table(table.x, table.y, available, n_classes=2)
    drawn = fit_trees(jr.key(0), PROBLEM, table, table, settings=QUICK).draw(jr.key(1), table)
    mean = np.asarray(table.x)[available[:, 0], 0].mean()
    np.testing.assert_allclose(np.asarray(drawn)[~available[:, 0], 0], mean, rtol=1e-5)
    np.testing.assert_array_equal(drawn[:, 5], jnp.zeros(60))


def test_large_tables_are_learned_from_in_part() -> None:
    table, _ = incomplete(7, 200)
    few = replace(QUICK, most_rows=80, most_donors=20)
    chains = fit_trees(jr.key(0), PROBLEM, table, table, settings=few)
    assert max(len(unit.values) for unit in chains.units) == 20
    assert all(unit.forest.estimators_[0].tree_.n_node_samples[0] <= 80 for unit in chains.units)
    assert np.all(np.isfinite(chains.draw(jr.key(0), table)))


def test_it_keeps_the_promises_of_a_restorer() -> None:
    check_restorer("trees", settings=QUICK)
