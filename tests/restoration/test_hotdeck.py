"""Hot deck: every cell of these tables has a value of its own, so that each one drawn tells its donor."""

import functools
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from ascertain import InputError, Problem, Table
from ascertain.restoration import Restorer, fit_hotdeck
from ascertain.restoration._hotdeck import MAX_DONORS

ALPHA = 1e-4  # of each statistical test; the keys are fixed

# Six features: a group of two, a single one, a group of three.
REVEALS = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], bool)
GROUPED = Problem(REVEALS, np.ones(3), budget=2, n_classes=3)
SINGLE = Problem(np.eye(4), np.ones(4), budget=2, n_classes=3)
N = 14


def incomplete(seed: int, features: int, scale: float = 1.0) -> Table:
    """Draw a table of continuous values with holes, cell by cell."""
    rng = np.random.default_rng(seed)
    x = scale * rng.normal(size=(N, features))
    return Table(x, np.arange(N) % 3, rng.random((N, features)) < 0.6, n_classes=3)


# Without optimisation it compiles in half the time.
@functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def _draw(deck: Restorer, keys: jax.Array, table: Table) -> jax.Array:
    return jax.vmap(lambda key: deck.draw(key, table))(keys)


def draws(deck: Restorer, table: Table, n: int = 300) -> np.ndarray:
    """Draw many times: an array of draws, rows and features."""
    return np.asarray(_draw(deck, jr.split(jr.key(0), n), table))


def eligible(donors: Table, reveals: np.ndarray, y: int) -> list[int]:
    """List the donors of an action: rows of the class that have all of it, else any rows that have."""
    having = [row for row in range(len(donors.y)) if np.asarray(donors.available)[row, reveals].all()]
    return [row for row in having if int(donors.y[row]) == y] or having


def donors_of(drawn: np.ndarray, donors: Table, reveals: np.ndarray) -> set[int]:
    """Find the rows that an action was copied from as a whole; an unknown value fails."""
    found = set()
    for values in np.unique(drawn[:, reveals], axis=0):
        (rows,) = np.nonzero((np.asarray(donors.x)[:, reveals] == values).all(axis=1))
        assert len(rows) == 1, f"{values} is no training row's"
        found.add(int(rows[0]))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_every_action_comes_as_a_whole_from_a_row_of_the_class_that_has_it(seed: int) -> None:
    table = incomplete(seed, 6)
    drawn = draws(fit_hotdeck(jr.key(0), GROUPED, table), table)
    for row in range(N):
        for reveals in REVEALS:
            expected = eligible(table, reveals, int(table.y[row]))
            # Each of at most 14 donors is missed by 300 draws once in 10^9.
            assert donors_of(drawn[:, row], table, reveals) == set(expected)


def test_without_labels_every_row_that_has_an_action_may_be_its_donor() -> None:
    table = incomplete(5, 6)
    drawn = draws(fit_hotdeck(jr.key(0), GROUPED, table).label_free(), table)
    for row in range(N):
        for reveals in REVEALS:
            having = np.flatnonzero(np.asarray(table.available)[:, reveals].all(axis=1))
            assert donors_of(drawn[:, row], table, reveals) == set(having.tolist())


def test_a_sorted_deck_has_the_same_donors() -> None:
    x, y = np.random.default_rng(4).normal(size=(N, 6)), np.arange(N) % 3
    x[y == 1, 3] = np.nan  # a class without donors is served by the others
    table = Table(x, y, n_classes=3)
    deck = fit_hotdeck(jr.key(0), GROUPED, table)
    drawn = draws(deck.prepared(), table)
    assert deck.prepared() is not deck
    for row in range(N):
        for reveals in REVEALS:
            found = donors_of(drawn[:, row], table, reveals)
            assert found == set(eligible(table, reveals, int(table.y[row])))
    nearest = fit_hotdeck(jr.key(0), GROUPED, table, neighbours=2)
    assert nearest.prepared() is nearest


def test_rows_that_are_no_donors_are_served_by_their_class() -> None:
    donors, others = incomplete(2, 6), incomplete(3, 6)
    drawn = draws(fit_hotdeck(jr.key(0), GROUPED, donors), others)
    for row in range(N):
        for reveals in REVEALS:
            found = donors_of(drawn[:, row], donors, reveals)
            assert found == set(eligible(donors, reveals, int(others.y[row])))


def test_a_class_that_lacks_an_action_is_served_by_the_others() -> None:
    x, y = np.random.default_rng(4).normal(size=(N, 6)), np.arange(N) % 3
    x[y == 1, 3] = np.nan  # one feature of the group is enough
    table = Table(x, y, n_classes=3)
    drawn = draws(fit_hotdeck(jr.key(0), GROUPED, table), table)
    others = set(np.flatnonzero(y != 1).tolist())
    assert donors_of(drawn[:, 1], table, REVEALS[2]) == others
    assert donors_of(drawn[:, 1], table, REVEALS[0]) == set(range(N)) - others


@pytest.mark.parametrize("neighbours", [None, 2])
def test_what_no_row_has_is_filled_with_means(neighbours: int | None) -> None:
    table = incomplete(5, 6)
    # The group of three as a whole is in no row, but its first feature is in some.
    available = np.asarray(table.available).copy()
    available[:, 4:] = False
    table = Table(table.x, table.y, available, n_classes=3)
    drawn = draws(fit_hotdeck(jr.key(0), GROUPED, table, neighbours), table)[0]
    mean = np.asarray(table.x)[available[:, 3], 3].mean()
    np.testing.assert_allclose(drawn[:, 3], mean, rtol=1e-5)
    np.testing.assert_array_equal(drawn[:, 4:], 0)  # where even a mean is unknown


def test_donors_are_drawn_uniformly_and_independently() -> None:
    x = np.random.default_rng(6).normal(size=(12, 6))
    # The class has eight rows, of which six have the first action and seven the second.
    lacks = [(0, 0), (1, 1), (7, 2)]
    x[tuple(np.transpose(lacks))] = np.nan
    donors = Table(x, [1] * 8 + [0] * 4, n_classes=3)
    rows = Table(np.zeros((6000, 6)), np.ones(6000, int), np.zeros((6000, 6), bool), n_classes=3)
    (drawn,) = draws(fit_hotdeck(jr.key(0), GROUPED, donors), rows, n=1)
    chosen = []
    for reveals in REVEALS[:2]:
        expected = eligible(donors, reveals, 1)
        assert len(expected) == (6 if reveals[0] else 7)
        values = np.asarray(donors.x)[:, np.flatnonzero(reveals)[0]]
        chosen.append([int(np.flatnonzero(values == v)[0]) for v in drawn[:, np.flatnonzero(reveals)[0]]])
        counts = [Counter(chosen[-1])[row] for row in expected]
        assert sum(counts) == 6000
        assert scipy.stats.chisquare(counts).pvalue > ALPHA
    pairs = Counter(zip(*chosen, strict=True))
    together = [[pairs[a, b] for b in sorted(set(chosen[1]))] for a in sorted(set(chosen[0]))]
    assert scipy.stats.chi2_contingency(together).pvalue > ALPHA


# Nearest donors.


def nearest(donors: Table, table: Table, row: int, action: int, k: int) -> set[int]:
    """Rank eligible donors by mean squared distance over shared features, those that share none last."""
    x, available = np.asarray(table.x, float)[row], np.asarray(table.available)[row]

    def distance(donor: int) -> float:
        shared = available & np.asarray(donors.available)[donor]
        other = np.asarray(donors.x, float)[donor]
        return float(np.mean((x[shared] - other[shared]) ** 2)) if shared.any() else np.inf

    candidates = eligible(donors, np.asarray(SINGLE.reveals)[action], int(table.y[row]))
    return set(sorted(candidates, key=lambda donor: (distance(donor), donor))[:k])


# Single precision resolves distances of any scale alike; tables need not be standardised.
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e5])
@pytest.mark.parametrize("k", [1, 2])
def test_nearest_donors_are_those_of_a_naive_loop(scale: float, k: int) -> None:
    donors, table = incomplete(7, 4, scale), incomplete(8, 4, scale)
    # Class 0 lacks the first action, and is served by the nearest of the other classes.
    available = np.asarray(donors.available).copy()
    available[np.asarray(donors.y) == 0, 0] = False
    donors = Table(donors.x, donors.y, available, n_classes=3)
    drawn = draws(fit_hotdeck(jr.key(0), SINGLE, donors, neighbours=k), table, 64)
    for row in range(N):
        for action in range(4):
            found = donors_of(drawn[:, row], donors, np.arange(4) == action)
            # One of two is missed by 64 draws once in 10^19.
            assert found == nearest(donors, table, row, action, k), (row, action)


def test_more_neighbours_than_donors_are_all_the_donors_of_the_class() -> None:
    table = incomplete(9, 4)
    drawn = draws(fit_hotdeck(jr.key(0), SINGLE, table, neighbours=1000), table)
    for row in range(N):
        for action in range(4):
            reveals = np.arange(4) == action
            assert donors_of(drawn[:, row], table, reveals) == set(
                eligible(table, reveals, int(table.y[row]))
            )


def test_nearest_donors_are_looked_for_among_some_rows_of_a_large_table() -> None:
    n = MAX_DONORS + 300
    rng = np.random.default_rng(0)
    large = Table(rng.normal(size=(n, 4)), rng.integers(0, 3, n), rng.random((n, 4)) < 0.9, n_classes=3)
    decks = [fit_hotdeck(jr.key(key), SINGLE, large, neighbours=3) for key in (0, 1)]
    row_of = {row.tobytes(): i for i, row in enumerate(np.asarray(large.x)) if row.any()}
    kept = []
    for deck in decks:
        rows = [row_of[row.tobytes()] for row in np.asarray(deck.donors.x) if row.any()]
        assert len(deck.donors.y) == MAX_DONORS
        assert len(set(rows)) == len(rows)
        kept.append(set(rows))
    assert kept[0] != kept[1]
    table = incomplete(10, 4)
    (drawn,) = draws(decks[0], table, n=1)
    for action in range(4):
        for row in range(N):
            (donor,) = donors_of(drawn[row][None], large, np.arange(4) == action)
            assert donor in kept[0]
            assert large.y[donor] == table.y[row]
    # Uniform draws use all rows.
    assert fit_hotdeck(jr.key(0), SINGLE, large).donors.x.shape == (n, 4)


@pytest.mark.parametrize("neighbours", [0, -1])
def test_a_number_of_neighbours_below_one_is_refused(neighbours: int) -> None:
    with pytest.raises(InputError, match="neighbours must be a whole number of at least 1"):
        fit_hotdeck(jr.key(0), SINGLE, incomplete(0, 4), neighbours)


def test_a_draw_does_not_look_at_unavailable_cells() -> None:
    donors, table = incomplete(11, 4), incomplete(12, 4)
    deck = fit_hotdeck(jr.key(0), SINGLE, donors, neighbours=2)
    junk = eqx.tree_at(lambda t: t.x, table, jnp.where(table.available, table.x, 1e3))
    np.testing.assert_array_equal(draws(deck, junk, 64), draws(deck, table, 64))
