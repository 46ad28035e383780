"""Evaluation of small hand-made policies against results worked out by hand."""

import re
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

from ascertain import AFABENCH, PAPER, InputError, Problem, Protocol, Table, evaluate, evaluate_soft
from ascertain.metrics import measure
from tests.acquisition_cases import ROWS
from tests.evaluation_cases import (
    GROUPED,
    GROUPS,
    IN_ORDER,
    INF,
    LABELS,
    ROUNDS,
    SIGNS,
    UNIT,
    Foresighted,
    LastWord,
    Moody,
    Ordered,
    Patient,
    Triage,
)

BOTH = pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda p: p.name)


def accuracy_of(said: Any) -> float:
    return float((np.asarray(said) == LABELS).mean())


# Hard budgets


@BOTH
def test_a_fixed_order_is_scored_at_every_budget(protocol: Protocol) -> None:
    found = evaluate(IN_ORDER, UNIT, ROUNDS, LastWord(), protocol=protocol, budgets=[0, 1, 2, 3])
    positive = SIGNS > 0
    expected = [accuracy_of(0), *(accuracy_of(positive[:, last]) for last in range(3))]
    assert expected == [0.5, 0.5, 0.75, 0.75]
    assert found.columns.tolist() == [
        *("budget", "accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"),
        *("mean_cost", "mean_acquisitions", "forced_stop_rate", "n_rows"),
    ]
    assert found["budget"].tolist() == [0, 1, 2, 3]
    assert found["accuracy"].tolist() == expected
    assert found["mean_cost"].tolist() == found["mean_acquisitions"].tolist() == [0, 1, 2, 3]
    # A policy that does not see the budget asks once more, unless there is nothing left.
    assert found["forced_stop_rate"].tolist() == ([1, 1, 1, 0] if protocol is AFABENCH else [0] * 4)
    assert found["n_rows"].tolist() == [8] * 4
    for budget in range(4):
        seen = jnp.broadcast_to(jnp.arange(3)[None] < budget, (8, 3))
        by_hand = measure(np.asarray(LastWord()(ROUNDS.x, seen)), LABELS)
        assert found.loc[budget, list(by_hand)].to_dict() == pytest.approx(by_hand)


def test_the_problem_s_budget_is_the_default_and_budgets_come_in_any_order() -> None:
    at_two = Problem(np.eye(3), np.ones(3), 2, 2)
    found = evaluate(IN_ORDER, at_two, ROUNDS, LastWord())
    assert (found["budget"].tolist(), found["mean_cost"].tolist()) == ([2], [2])
    tenths = Problem(np.eye(3), np.full(3, 0.1), 0.3, 2)
    assert evaluate(IN_ORDER, tenths, ROUNDS, LastWord())["budget"].tolist() == [0.3]
    nothing = evaluate(IN_ORDER, at_two, ROUNDS, LastWord(), budgets=[0.5])
    assert (nothing["mean_cost"].tolist(), nothing["accuracy"].tolist()) == ([0], [accuracy_of(0)])
    several = evaluate(IN_ORDER, at_two, ROUNDS, LastWord(), budgets=[3, 1.5, 2])  # beyond its own, too
    assert several["mean_cost"].tolist() == [3, 1, 2]
    pd.testing.assert_frame_equal(several.iloc[[2]].reset_index(drop=True), found)


def test_a_policy_may_look_at_values_and_stop() -> None:
    found = evaluate(Triage(), UNIT, ROUNDS, LastWord(), budgets=[1, 2, 3])
    second = np.where(SIGNS[:, 0] > 0, SIGNS[:, 1], SIGNS[:, 2]) > 0
    assert found["accuracy"].tolist() == [accuracy_of(SIGNS[:, 0] > 0), *[accuracy_of(second)] * 2]
    assert found["mean_cost"].tolist() == [1, 2, 2]  # it stops, though it might acquire the third


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [  # by budget: the actions that are acquired, and whether a choice was beyond the budget
        (PAPER, {0.5: ([], 0), 1: ([1], 0), 2: ([0], 0), 3: ([2], 0), 4: ([2, 1], 0), 5: ([2, 0], 0)}),
        (AFABENCH, {0.5: ([], 1), 2: ([], 1), 3: ([2], 1), 4: ([2], 1), 5: ([2, 0], 1), 6: ([2, 0, 1], 0)}),
    ],
    ids=["paper", "afabench"],
)
def test_unequal_costs_and_groups(protocol: Protocol, expected: dict[float, tuple[list[int], int]]) -> None:
    # The dearest is preferred, then the group; under AFABENCH nothing else is tried once that does not fit.
    policy = Ordered(jnp.asarray([-INF, 2.0, 1.0, 3.0]))
    x = np.array([[1, -1, 1, -1], [-1, 1, 1, 1], [1, -1, -1, 1]], float)
    table = Table(x, [0, 1, 1])
    found = evaluate(policy, GROUPED, table, LastWord(), protocol=protocol, budgets=list(expected))
    for row, (acquired, forced) in enumerate(expected.values()):
        assert found.loc[row, "mean_cost"] == sum([2, 1, 3][action] for action in acquired)
        assert found.loc[row, "mean_acquisitions"] == len(acquired)
        assert found.loc[row, "forced_stop_rate"] == forced
        seen = np.broadcast_to(GROUPS[acquired].any(axis=0), x.shape)
        by_hand = measure(np.asarray(LastWord()(table.x, jnp.asarray(seen))), np.array([0, 1, 1]))
        assert found.loc[row, list(by_hand)].to_dict() == pytest.approx(by_hand)


@BOTH
def test_rows_with_holes_do_without_what_they_lack(protocol: Protocol) -> None:
    # Complete; without the favourite; with half of the group, so that only the cheap action is there; with
    # nothing; and with the dear action only.
    nan = float("nan")
    x = [[1, 1, 1, 1], [1, 1, 1, nan], [1, nan, 1, nan], [nan] * 4, [nan, nan, nan, 1]]
    table = Table(np.array(x), [1, 1, 1, 0, 0])
    policy = Ordered(jnp.asarray([-INF, 2.0, 1.0, 3.0]))
    found = evaluate(policy, GROUPED, table, LastWord(), protocol=protocol, budgets=[2.0])
    # PAPER buys the group, the group, the cheap one, nothing (none is there), nothing (it is too dear).
    # AFABENCH asks for the dear one in the first row and the last, and for more in the second.
    acquired = [[0], [0], [1], [], []] if protocol is PAPER else [[], [0], [1], [], []]
    assert found.loc[0, "mean_cost"] == sum([2, 1, 3][action] for row in acquired for action in row) / 5
    assert found.loc[0, "mean_acquisitions"] == sum(map(len, acquired)) / 5
    assert found.loc[0, "forced_stop_rate"] == (0 if protocol is PAPER else 3 / 5)
    said = [1 if row else 0 for row in acquired]  # all values that are seen are positive
    assert found.loc[0, "accuracy"] == np.mean(np.array(said) == [1, 1, 1, 0, 0])


def test_a_policy_that_plans_for_the_budget_is_asked_at_each_one() -> None:
    # Costs are equal, so what is legal would allow for one rollout.
    policy = Foresighted(jnp.asarray([-INF, 3.0, 2.0, 1.0]), jnp.asarray(3.0))
    found = evaluate(policy, UNIT, ROUNDS, LastWord(), budgets=[1, 2])
    # The first feature with a budget of 1; with 2 the last two, of which the very last decides.
    assert found["accuracy"].tolist() == [accuracy_of(SIGNS[:, 0] > 0), accuracy_of(SIGNS[:, 2] > 0)]
    assert found["accuracy"].tolist() == [0.5, 0.75]
    alone = [evaluate(policy, UNIT, ROUNDS, LastWord(), budgets=[budget]) for budget in (1, 2)]
    pd.testing.assert_frame_equal(found, pd.concat(alone, ignore_index=True))


@BOTH
def test_a_smaller_budget_that_is_met_but_for_rounding_is_met(protocol: Protocol) -> None:
    tenths = Problem(np.eye(8), np.full(8, 0.1), 0.8, 2)
    policy = Ordered(jnp.asarray([-INF, *np.arange(8.0)], jnp.float32))
    sums = np.cumsum(np.full(8, 0.1, np.float32))
    assert (sums > np.arange(1, 9, dtype=np.float32) / 10).any()  # so that it matters
    table = Table(np.ones((2, 8)), [0, 1])
    budgets = [number / 10 for number in range(1, 9)]
    found = evaluate(policy, tenths, table, LastWord(), protocol=protocol, budgets=budgets)
    assert found["mean_acquisitions"].tolist() == list(range(1, 9))


def test_one_program_serves_all_values_of_one_shape() -> None:
    traces = []

    class Counted(Ordered):
        def __call__(self, x: Any, observed: Any, acquired: Any, available: Any, *, key: Any) -> Any:
            traces.append(x.shape)
            return super().__call__(x, observed, acquired, available, key=key)

    order, named = IN_ORDER.order, Problem(np.eye(3), np.ones(3), 2, 2, class_names=["no", "yes"])
    evaluate(Counted(order), UNIT, ROUNDS, LastWord(), budgets=[1, 3])
    first = len(traces)
    assert first >= 1
    evaluate(Counted(-order), named, Table(-SIGNS, 1 - LABELS), LastWord(), budgets=[2, 3.5], seed=7)
    assert len(traces) == first


# Rows


def test_no_more_than_max_rows_are_scored_and_the_seed_says_which() -> None:
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(50, 3)), rng.integers(0, 2, 50))
    found = evaluate(IN_ORDER, UNIT, table, LastWord(), max_rows=20, seed=4)
    assert found["n_rows"].tolist() == [20]
    chosen = np.random.default_rng(4).permutation(50)[:20]
    by_hand = measure(np.asarray(LastWord()(table.x, table.available))[chosen], np.asarray(table.y)[chosen])
    assert found.loc[0, list(by_hand)].to_dict() == pytest.approx(by_hand)
    assert evaluate(IN_ORDER, UNIT, table, LastWord(), max_rows=None)["n_rows"].tolist() == [50]


def test_a_stochastic_policy_draws_from_the_key() -> None:
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(ROWS, 3)), rng.integers(0, 2, ROWS))
    policy = Moody(jnp.zeros((ROWS, 8, 4)).at[..., 0].set(-jnp.inf))
    first, again, other = (
        evaluate(policy, UNIT, table, LastWord(), budgets=[1.0], key=jr.key(key)) for key in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


# Soft budgets


def test_without_a_hard_budget_a_policy_stops_where_it_wants_to() -> None:
    poor = Problem(np.eye(3), [1, 2, 4], 1, 2)  # would buy the first feature only
    found = evaluate_soft(Triage(), poor, ROUNDS, LastWord())
    second = np.where(SIGNS[:, 0] > 0, SIGNS[:, 1], SIGNS[:, 2]) > 0
    assert found.columns.tolist() == [
        *("threshold", "accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"),
        *("mean_cost", "mean_acquisitions", "n_rows"),
    ]
    assert found["threshold"].isna().all()
    assert found.loc[0, "accuracy"] == accuracy_of(second)
    assert found.loc[0, "mean_cost"] == 1 + (2 + 4) / 2  # half of the rows go either way
    assert (found.loc[0, "mean_acquisitions"], found.loc[0, "n_rows"]) == (2, 8)


def test_thresholds_give_a_row_each() -> None:
    policy = Patient(IN_ORDER.order, jnp.asarray(0.0))
    found = evaluate_soft(policy, UNIT, ROUNDS, LastWord(), thresholds=[0.0, 2.0, -2.0])
    # Until the first positive: one acquisition in 4 rows, two in 2, three in 2. No feature is above 2; all
    # are above -2.
    assert found["threshold"].tolist() == [0, 2, -2]
    assert found["mean_cost"].tolist() == [(4 * 1 + 2 * 2 + 2 * 3) / 8, 3, 1]
    ends = [(SIGNS > 0).any(axis=1), SIGNS[:, 2] > 0, SIGNS[:, 0] > 0]
    assert found["accuracy"].tolist() == [accuracy_of(said) for said in ends]


def test_rows_with_holes_end_softly_when_nothing_is_left() -> None:
    nan = float("nan")
    table = Table(np.array([[-1, nan, -1], [nan, nan, nan], [-1, 1, -1]]), [0, 1, 1])
    policy = Patient(IN_ORDER.order, jnp.asarray(0.0))
    found = evaluate_soft(policy, UNIT, table, LastWord(), thresholds=[0.0])
    assert found.loc[0, "mean_acquisitions"] == (2 + 0 + 2) / 3


def test_a_policy_that_plans_has_no_budget_to_plan_for() -> None:
    # With the problem's budget of 1 it would begin with the first feature, and so end with the last.
    policy = Foresighted(jnp.asarray([2.5, 3.0, -2.0, -3.0]), jnp.asarray(1.0))
    found = evaluate_soft(policy, Problem(np.eye(3), np.ones(3), 1, 2), ROUNDS, LastWord())
    assert found.loc[0, "mean_acquisitions"] == 1  # only the last scores more than to stop
    assert found.loc[0, "accuracy"] == accuracy_of(SIGNS[:, 2] > 0)


def test_a_policy_that_never_stops_is_refused() -> None:
    with pytest.raises(InputError, match="Triage has no rule for when to stop") as refused:
        evaluate_soft(Triage(stops=False), UNIT, ROUNDS, LastWord())
    for how in ("dime, .*thresholds=", "aaco.*may_stop", "jafa, .*cost_weight"):
        assert re.search(how, str(refused.value))
    holed = Table(SIGNS, LABELS, np.arange(3) > np.zeros((8, 1)))  # to lack the first is not to stop
    with pytest.raises(InputError, match="Ordered has no rule for when to stop"):
        evaluate_soft(IN_ORDER, UNIT, holed, LastWord())
    with pytest.raises(InputError, match="Ordered takes no stopping threshold; these methods stop: "):
        evaluate_soft(IN_ORDER, UNIT, ROUNDS, LastWord(), thresholds=[0.1])
    with pytest.raises(InputError, match="Patient has no rule for when to stop"):  # but with thresholds
        evaluate_soft(Patient(IN_ORDER.order, jnp.asarray(5.0)), UNIT, ROUNDS, LastWord())


def test_a_policy_that_could_stop_but_wants_everything_is_not_refused() -> None:
    eager = Ordered(jnp.asarray([0.0, 3.0, 2.0, 1.0]))
    found = evaluate_soft(eager, UNIT, ROUNDS, LastWord())
    assert found.loc[0, "mean_acquisitions"] == 3


# What cannot be evaluated


def test_what_cannot_be_evaluated_is_refused() -> None:
    with pytest.raises(InputError, match="budgets is empty; leave it out"):
        evaluate(IN_ORDER, UNIT, ROUNDS, LastWord(), budgets=[])
    for wrong in (-1.0, INF, float("nan")):
        with pytest.raises(InputError, match=r"budgets\[1\] is .*; budgets are finite and not negative"):
            evaluate(IN_ORDER, UNIT, ROUNDS, LastWord(), budgets=[1.0, wrong])
    with pytest.raises(InputError, match="the table has 3 features, but the problem has 4"):
        evaluate(IN_ORDER, GROUPED, ROUNDS, LastWord())
    with pytest.raises(InputError, match="the table has 3 features, but the problem has 4"):
        evaluate_soft(IN_ORDER, GROUPED, ROUNDS, LastWord())
    for thresholds in ([], [float("nan")]):
        with pytest.raises(InputError, match="thresholds must be one or more numbers"):
            evaluate_soft(IN_ORDER, UNIT, ROUNDS, LastWord(), thresholds=thresholds)
