"""The nearest hot deck, against scikit-learn's neighbours."""

import jax
import jax.random as jr
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from ascertain import InputError, Problem, Table, restoration
from ascertain.restoration._nearest import Settings, fit_restorer

PROBLEM = Problem(np.eye(3), np.ones(3), budget=2, n_classes=2)


def complete(seed: int, n_rows: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table(rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2, n_classes=2)


@pytest.mark.parametrize("see_label", [True, False])
def test_donors_are_the_ten_nearest_rows_of_the_class(see_label: bool) -> None:
    donors, whole = complete(0, 60), complete(1, 8)
    table = Table(whole.x, whole.y, np.tile([True, True, False], (8, 1)), n_classes=2)
    fitted = fit_restorer(jr.key(0), PROBLEM, donors, whole)
    restorer = fitted if see_label else restoration.label_free(fitted)
    drawn = np.asarray(jax.vmap(lambda key: restorer.draw(key, table))(jr.split(jr.key(1), 300)))
    for row in range(8):
        same = np.asarray(donors.y) == int(whole.y[row]) if see_label else np.ones(60, bool)
        x = np.asarray(donors.x)[same]
        (near,) = (
            NearestNeighbors(n_neighbors=10)
            .fit(x[:, :2])
            .kneighbors(np.asarray(whole.x)[row : row + 1, :2], return_distance=False)
        )
        # 300 draws miss one of ten donors once in 10^13.
        np.testing.assert_array_equal(np.unique(drawn[:, row, 2]), np.sort(x[near, 2]))


def test_the_number_of_neighbours_can_be_set() -> None:
    donors = complete(2, 20)
    one = fit_restorer(jr.key(0), PROBLEM, donors, donors, settings=Settings(neighbours=1))
    table = Table(donors.x, donors.y, np.tile([True, True, False], (20, 1)), n_classes=2)
    np.testing.assert_array_equal(one.draw(jr.key(1), table), donors.x)
    with pytest.raises(InputError, match="neighbours must be"):
        fit_restorer(jr.key(0), PROBLEM, donors, donors, settings=Settings(neighbours=0))


def test_it_has_a_name_and_says_what_it_can() -> None:
    part = restoration.get("nearest")
    assert (part.label, part.label_free, part.keeps_rows) == ("nearest hot deck", True, True)
