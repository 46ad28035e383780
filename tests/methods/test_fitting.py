"""Fitting by name: settings are completed, inputs are checked, and programs are shared."""

from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import AFABENCH, InputError, Problem, Table, methods
from ascertain.methods import _gdfs as gdfs
from ascertain.protocol import PAPER

from .short_settings import SHORT

PROBLEM = Problem(np.eye(3), [1, 2, 5], budget=3, n_classes=2, action_names=["a", "b", "c"])
ROWS = np.random.default_rng(0).normal(size=(30, 3))
TABLE = Table(ROWS, ROWS[:, 0] > 0)


@pytest.mark.slow
def test_the_number_of_steps_is_filled_in() -> None:
    """One may change a setting without knowing how many acquisitions the budget pays for."""
    settings = replace(SHORT["gdfs"], steps=None)
    policy = methods.fit("gdfs", jr.key(0), PROBLEM, TABLE, TABLE, settings=settings)
    nothing = jnp.zeros((1, 3), bool)
    scores = policy(TABLE.x[:1], nothing, nothing, ~nothing, key=jr.key(1))
    assert bool(jnp.isfinite(scores[:, 1:]).all())
    assert gdfs.Settings().completed(PROBLEM, PAPER).steps == 2  # a and b cost the whole budget
    assert gdfs.Settings().completed(PROBLEM, AFABENCH).steps == 3  # the budget as a number
    assert gdfs.Settings(steps=7).completed(PROBLEM, PAPER).steps == 7


def test_tables_are_checked_against_the_problem() -> None:
    other = Table(ROWS[:, :2], ROWS[:, 0] > 0)
    with pytest.raises(InputError, match="the table has 2 features, but the problem has 3"):
        methods.fit("random", jr.key(0), PROBLEM, other, TABLE)


def test_rows_of_which_nothing_can_be_acquired_are_no_training_data() -> None:
    available = np.zeros((30, 3), bool)
    available[:, 2] = True  # costs 5, and the budget is 3
    unaffordable = Table(ROWS, ROWS[:, 0] > 0, available)
    with pytest.raises(InputError, match="no training row supports any acquisition"):
        methods.fit("random", jr.key(0), PROBLEM, unaffordable, TABLE)


@pytest.mark.parametrize("name", ["aaco", "static"])
def test_methods_that_judge_by_the_predictor_ask_for_it(name: str) -> None:
    with pytest.raises(InputError, match="give it with predictor="):
        methods.fit(name, jr.key(0), PROBLEM, TABLE, TABLE)
