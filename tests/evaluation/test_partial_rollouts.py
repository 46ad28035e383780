"""Partial rollouts, their weights and the outcome model's continuations in a world where all is known."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import PAPER, Policy, Table
from ascertain.acquisition import acquire
from ascertain.evaluation._futures import Futures, Resumed, doubly_robust_predictions, model_predictions
from ascertain.evaluation._partial_rollouts import (
    ImportanceWeights,
    PartialRollouts,
    Target,
    complete_predictions,
    importance_weights,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.restoration import PVAE, PVAERestorer, Restorer, fit_hotdeck, fit_mean
from ascertain.restoration._pvae import Settings
from tests.incomplete_cases import PROBLEM, Believes, Chooses, draw, hide, path

TARGET = Target(Chooses(), PROBLEM, Believes(), PAPER, 2)


def rolled_out(n_rows: int, seed: int = 0) -> tuple[Table, PartialRollouts, ImportanceWeights]:
    rng = np.random.default_rng(seed)
    table = hide(rng, draw(rng, n_rows))
    rollouts = roll_out_partially(jr.key(0), TARGET, table)
    return table, rollouts, importance_weights(rollouts, PROBLEM, table, assign_folds(n_rows, 0), 0.02)


def test_a_row_supports_its_rollout_until_it_lacks_an_action() -> None:
    table, rollouts, _ = rolled_out(300)
    x, available = np.asarray(table.x), np.asarray(table.available)
    checked = set()
    for row in range(300):
        length = 0
        # What the policy does after the first action depends on its value, which must be there.
        wanted = path(tuple(x[row].astype(int))) if available[row, 1] else [0]
        for action in wanted:
            if not available[row, 1 + action]:
                break
            assert rollouts.choices[row, length] == 1 + action
            length += 1
        assert rollouts.n_supported[row] == length
        assert rollouts.complete[row] == (length == len(wanted) and available[row, 1])
        checked.add((length, bool(rollouts.complete[row])))
    assert checked == {(0, False), (1, False), (1, True), (2, True)}


def test_weights_are_products_of_the_true_inverse_probabilities() -> None:
    table, rollouts, (weights, _, gaps) = rolled_out(20_000)
    x = np.asarray(table.x)
    first = 1 / (1 + np.exp(-(2.2 - 2.4 * x[:, 0])))
    later = 1 / (1 + np.exp(-(2.0 - 1.2 * x[:, 0] - 1.0 * x[:, 1])))
    truth = np.where(rollouts.n_supported == 2, first * later, first)[rollouts.complete]
    found = weights[rollouts.complete, -1]
    # The rarer of them come from 16,000 * 1/8 rows: 1 / sqrt(2,000) = 2%, for each factor.
    assert np.abs(found * truth - 1).max() < 4 * np.sqrt(2) * 0.022
    assert (weights[~rollouts.complete, -1] == 0).all()
    assert (weights[:, 0] == 1).all()
    assert gaps == ()


def test_the_weights_of_every_row_add_up_to_one() -> None:
    table, rollouts, weights = rolled_out(400)
    complete = complete_predictions(TARGET, table, rollouts, weights)
    futures = Futures.chosen(weights, np.asarray(table.y), draws=3, most=10_000, rng=np.random.default_rng(0))
    sample = doubly_robust_predictions(jr.key(1), TARGET, table, rollouts, futures, fit_mean(table), complete)
    assert np.bincount(sample.row, sample.weight, minlength=400) == pytest.approx(np.ones(400))
    assert (sample.y == np.asarray(table.y)[sample.row]).all()
    assert sample.weight.min() < 0


# The outcome model


def restorers(table: Table) -> list[Restorer]:
    settings = Settings(latent=3, point_hidden=8, encoder=(4, 8), decoder=(8,), classifier=(4,))
    return [
        fit_hotdeck(jr.key(0), PROBLEM, table),
        fit_hotdeck(jr.key(0), PROBLEM, table, neighbours=5),
        PVAERestorer(PVAE(4, 2, settings, key=jr.key(1))),
        fit_mean(table),
    ]


@pytest.mark.parametrize("number", range(4), ids=["hot deck", "neighbours", "pvae", "mean"])
def test_draws_see_no_cells_beyond_what_is_known(number: int) -> None:
    rng = np.random.default_rng(5)
    restorer = restorers(hide(rng, draw(rng, 100)))[number]
    table = draw(rng, 64)
    given = np.asarray(rng.random((64, 3)) < 0.4)
    available = np.ones((64, 4), bool)
    available[0, 1:3] = given[0, :2] = False  # so that every row has the first and the last feature only
    seen = np.column_stack([np.ones((64, 1), bool), given]) | [True, False, False, True]
    x = np.where(seen, np.asarray(table.x), 1 - np.asarray(table.x))
    tables = (Table(table.x, table.y, available), Table(x, table.y, available, n_classes=2))
    found = [model_predictions(jr.key(2), TARGET, each, np.arange(64), given, restorer) for each in tables]
    assert (found[0].probabilities == found[1].probabilities).all()
    assert (found[0].y == np.asarray(table.y)).all()


def test_a_resumed_policy_ends_where_it_would_have_ended() -> None:
    table = draw(np.random.default_rng(6), 200)

    def ends(policy: Policy) -> np.ndarray:
        episodes = acquire(jr.key(0), policy, PROBLEM, table, PAPER, 2)
        return np.asarray(episodes.acquired(3))

    alone = ends(Chooses())
    for given in alone:
        assert (ends(Resumed(Chooses(), jnp.asarray(given)))[-1] == alone[-1]).all()


def test_completed_rows_keep_what_is_known_and_are_drawn_from_donors() -> None:
    # Donors are all alike, so a completed row is the row itself with the donors' values in its gaps.
    donors = Table(np.tile([1.0, 1.0, 0.0, 1.0], (10, 1)), np.zeros(10, int), n_classes=2)
    restorer = fit_hotdeck(jr.key(0), PROBLEM, donors)
    table = draw(np.random.default_rng(7), 40)
    available = np.ones((40, 4), bool)
    available[0, 1:] = False  # so that every row has the first feature only
    table = table.with_cells(table.x, jnp.asarray(available))
    given = np.zeros((40, 3), bool)
    given[:, 0] = np.arange(40) % 2
    found = model_predictions(jr.key(1), TARGET, table, np.arange(40), given, restorer)
    weights = np.array([0.3, 1.1, 0.8, 0.5])
    for row, values in enumerate(np.asarray(table.x)):
        filled = np.where([True, given[row, 0], False, False], values, [1.0, 1.0, 0.0, 1.0])
        seen = [0, *(1 + action for action in path(tuple(filled.astype(int))))]
        one = 1 / (1 + np.exp(-((2 * filled - 1) * weights)[seen].sum()))
        assert found.probabilities[row, 1] == pytest.approx(one, abs=1e-6)
        assert found.amounts["mean_cost"][row] == len(seen) - 1
