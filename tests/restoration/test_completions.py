"""Several completions of every row, and how they are asked for."""

from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import InputError, Problem, Table
from ascertain.restoration import complete, fit_hotdeck, fit_mean, restore, treat
from ascertain.restoration._registry import Restoring

PROBLEM = Problem(np.eye(3), np.ones(3), budget=2, n_classes=2)
RNG = np.random.default_rng(0)
TABLE = Table(RNG.normal(size=(40, 3)), np.arange(40) % 2, RNG.random((40, 3)) < 0.5)
DECK = fit_hotdeck(jr.key(0), PROBLEM, TABLE)


class OnHost:
    """Counts its draws; not a module, so nothing is traced."""

    def draw(self, key: Array, table: Table) -> np.ndarray:
        return np.full(table.x.shape, float(jr.uniform(key)), np.float32)


def same(left: Table, right: Table) -> bool:
    """Whether tables are equal bit by bit, the sign of zero included."""
    signs = np.array_equal(np.signbit(left.x), np.signbit(right.x))
    return signs and bool(eqx.tree_equal(left, right))


@pytest.mark.parametrize("restorer", [DECK, fit_mean(TABLE), OnHost()], ids=lambda each: type(each).__name__)
def test_one_completion_is_what_restore_gives(restorer: Any) -> None:
    """Also bit by bit, so that studies with one completion stay what they were."""
    key = jr.key(3)
    restored = restore(key, restorer, TABLE)
    assert same(complete(key, restorer, TABLE, 1), restored)
    assert same(complete(key, restorer, TABLE), restored)
    assert same(treat(TABLE, "restored", restorer=restorer, key=key), restored)


@pytest.mark.parametrize("restorer", [DECK, OnHost()], ids=lambda each: type(each).__name__)
def test_completions_differ_where_cells_are_missing_and_nowhere_else(restorer: Any) -> None:
    several = treat(TABLE, "restored", restorer=restorer, key=jr.key(3), completions=4)
    assert (several.completions, several.n_instances) == (4, 40)
    np.testing.assert_array_equal(several.ids, np.tile(np.arange(40), 4))
    x, observed = np.asarray(several.x).reshape(4, 40, 3), np.asarray(TABLE.available)
    np.testing.assert_array_equal(x[:, observed], np.tile(np.asarray(TABLE.x)[observed], (4, 1)))
    for other in range(1, 4):
        assert (x[0] != x[other])[~observed].mean() > 0.5


def test_completing_can_be_compiled_and_vmapped() -> None:
    keys = jr.split(jr.key(0), 2)
    made = jax.jit(jax.vmap(lambda key: complete(key, DECK, TABLE, 3)))(keys)
    assert (made.completions, made.n_instances) == (3, 40)
    alone = complete(keys[1], DECK, TABLE, 3)
    np.testing.assert_array_equal(made.x[1], alone.x)


@pytest.mark.parametrize("completions", [0, -1, True, 101])
def test_a_number_of_completions_that_is_none_is_refused(completions: Any) -> None:
    with pytest.raises(InputError, match=r"completions must be (a whole number of at least 1|at most 100)"):
        treat(TABLE, "restored", restorer=DECK, key=jr.key(0), completions=completions)


# As text, in study files and on the command line.


@pytest.mark.parametrize(
    ("text", "name", "completions", "shown"),
    [
        ("hotdeck", "hotdeck", 1, "hotdeck"),
        ("hotdeck:1", "hotdeck", 1, "hotdeck"),
        ("ensemble:06", "ensemble", 6, "ensemble:6"),
        ("pvae:100", "pvae", 100, "pvae:100"),
    ],
)
def test_a_restorer_is_named_with_its_completions(text: str, name: str, completions: int, shown: str) -> None:
    assert Restoring.parse(text) == (name, completions)
    assert str(Restoring.parse(text)) == shown


@pytest.mark.parametrize("number", ["", "0", "-1", "1.5", "six", "²", "6:6", " 6", "9" * 5000])
def test_what_is_no_number_of_completions_is_named(number: str) -> None:
    with pytest.raises(InputError, match=r"'hotdeck:.*': after the colon comes the number of completions"):
        Restoring.parse(f"hotdeck:{number}")


def test_too_many_completions_are_refused() -> None:
    with pytest.raises(InputError, match="completions must be at most 100, got 101"):
        Restoring.parse("hotdeck:101")


def test_a_restorer_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="no restorer is called 'hotdek'; did you mean 'hotdeck'"):
        Restoring.parse("hotdek:6")
    with pytest.raises(InputError, match="no restorer is called ''"):
        Restoring.parse(":6")
