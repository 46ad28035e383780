"""Observed values, against a naive loop over actions and rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import Problem, Table
from ascertain.restoration._hotdeck import MAX_DONORS
from ascertain.restoration._observed_values import ObservedValues, keep_observed_values

# Seven features: a panel of two, a one-hot group of three, one by itself, and one that is always known.
REVEALS = np.array([[1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0]], bool)
PROBLEM = Problem(REVEALS, np.ones(3), budget=2, n_classes=2)
GROUPS = [[0, 1], [2, 3, 4], [5], [6]]


def mixed(seed: int, n_rows: int, missing: float = 0.3) -> Table:
    """Draw numbers, a category in three columns, a count, and holes cell by cell."""
    rng = np.random.default_rng(seed)
    category = np.eye(3)[rng.integers(0, 3, n_rows)]
    count, known = rng.poisson(3, (n_rows, 1)), rng.normal(size=(n_rows, 1))
    x = np.hstack([rng.normal(size=(n_rows, 2)), category, count, known])
    return Table(x, rng.integers(0, 2, n_rows), rng.random(x.shape) >= missing, n_classes=2)


def generated(seed: int, n_rows: int) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(0.5, 1, (n_rows, 7)).astype(np.float32)


@jax.jit
def _nearest(values: ObservedValues, x: jax.Array, table: Table) -> jax.Array:
    return values.nearest(x, table)


def nearest(donors: Table, x: np.ndarray, table: Table) -> np.ndarray:
    return np.asarray(
        _nearest(keep_observed_values(jr.key(0), PROBLEM, donors), jnp.asarray(x, jnp.float32), table)
    )


def slow_nearest(donors: Table, x: np.ndarray, table: Table) -> np.ndarray:
    """Go through rows and groups of features, one by one."""
    rows, has = np.asarray(donors.x), np.asarray(donors.available)
    wanted = np.where(table.available, table.x, x)
    result = wanted.copy()
    for i in range(len(wanted)):
        for group in GROUPS:
            eligible = [d for d in range(len(rows)) if has[d, group].all()]
            if not eligible:
                continue
            distances = [((rows[d, group] - wanted[i, group]) ** 2).sum() for d in eligible]
            best = rows[eligible[int(np.argmin(distances))]]
            for feature in group:
                if not table.available[i, feature]:
                    result[i, feature] = best[feature]
    return result


def test_each_action_comes_from_the_nearest_row_that_has_all_of_it() -> None:
    donors, table = mixed(0, 40), mixed(1, 29)
    x = generated(2, 29)
    np.testing.assert_array_equal(nearest(donors, x, table), slow_nearest(donors, x, table))


def test_what_no_row_has_stays_as_it_was_generated() -> None:
    donors, table = mixed(3, 40), mixed(4, 29)
    # No row has the whole one-hot group, and nobody the known feature.
    lacking = np.asarray(donors.available).copy()
    lacking[:, 6] = False
    lacking[np.arange(40), 2 + np.arange(40) % 3] = False
    donors = Table(donors.x, donors.y, lacking, n_classes=2)
    x = generated(5, 29)
    drawn = nearest(donors, x, table)
    np.testing.assert_array_equal(drawn, slow_nearest(donors, x, table))
    for feature in (2, 3, 4, 6):
        hole = ~np.asarray(table.available)[:, feature]
        np.testing.assert_array_equal(drawn[hole, feature], x[hole, feature])


def test_a_category_stays_one_and_agrees_with_what_a_row_has_of_it() -> None:
    donors, table = mixed(6, 200), mixed(7, 29)
    drawn = nearest(donors, generated(8, 29), table)
    whole_hole = ~np.asarray(table.available)[:, 2:5].any(axis=1)
    assert whole_hole.any()
    np.testing.assert_array_equal(
        np.sort(drawn[whole_hole, 2:5], axis=1), np.tile([0, 0, 1], (int(whole_hole.sum()), 1))
    )
    shown = np.asarray(table.available)
    np.testing.assert_array_equal(drawn[shown], np.asarray(table.x)[shown])
    assert np.isin(drawn[:, 5], np.arange(20)).all()  # counts


def test_a_feature_of_several_actions_goes_with_the_last() -> None:
    problem = Problem([[1, 1, 0], [0, 1, 1]], [1, 1], budget=1, n_classes=2)
    donors = Table([[0, 0, 0], [1, 5, 5], [9, 4, 9]], [0, 1, 0])
    hole = Table(np.zeros((1, 3)), [0], np.zeros((1, 3), bool), n_classes=2)
    values = keep_observed_values(jr.key(0), problem, donors)
    x = jnp.asarray([[8.0, 4.6, 5.0]])  # nearest in the last two together: the second row
    np.testing.assert_array_equal(np.asarray(values.nearest(x, hole)), [[9, 5, 5]])


@pytest.mark.slow
def test_cells_that_are_not_available_do_not_matter_and_replicates_are_independent() -> None:
    donors, table = mixed(9, 40), mixed(10, 29)
    x = generated(11, 29)
    before = nearest(donors, x, table)

    def junk(t: Table) -> Table:
        changed: Table = eqx.tree_at(lambda u: u.x, t, jnp.where(t.available, t.x, 0.1))
        return changed

    np.testing.assert_array_equal(nearest(junk(donors), x, junk(table)), before)
    tables = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), donors)
    values = jax.vmap(keep_observed_values, (None, None, 0))(jr.key(0), PROBLEM, tables)
    both = jax.vmap(lambda v: v.nearest(jnp.asarray(x), table))(values)
    np.testing.assert_array_equal(np.asarray(both[0]), before)


def test_few_rows_of_a_large_table_are_kept() -> None:
    large = mixed(12, MAX_DONORS + 50)
    kept = [keep_observed_values(jr.key(key), PROBLEM, large).donors for key in (0, 1)]
    assert kept[0].x.shape == (MAX_DONORS, 7)
    assert not np.array_equal(kept[0].x, kept[1].x)
    original = {row.tobytes() for row in np.asarray(large.x)}
    assert all(row.tobytes() in original for row in np.asarray(kept[0].x))
