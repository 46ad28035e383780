"""Scores from rows with holes: equal to plain ones without holes, and near the exact truth with them."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy.stats import binom

from ascertain import (
    AFABENCH,
    PAPER,
    InputError,
    Policy,
    Problem,
    Protocol,
    Table,
    evaluate,
    evaluate_incomplete,
)
from ascertain.evaluation._incomplete import METRICS
from ascertain.evaluation._partial_rollouts import (
    ImportanceWeights,
    Target,
    complete_predictions,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.methods._baselines import Blind
from ascertain.restoration import fit_hotdeck, fit_mean
from tests.evaluation_cases import GROUPED, IN_ORDER, LABELS, SIGNS, UNIT, LastWord, Triage
from tests.incomplete_cases import PROBLEM, Believes, Chooses, draw, exact_scores, hide

BOTH = pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda p: p.name)
MANY = Table(np.tile(SIGNS, (6, 1)), np.tile(LABELS, 6))
DEAR = Problem(np.eye(3), [1, 2, 1.5], 3, 2)


class Unused:
    """A restorer that must not be asked."""

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        raise AssertionError("nothing was to be drawn")

    def label_free(self) -> "Unused":
        return self


def as_plain(found: pd.DataFrame, estimator: str) -> pd.DataFrame:
    """Put an estimator's scores into the form of `evaluate`."""
    part = found[found["estimator"] == estimator]
    return part.pivot_table(index="budget", columns="metric", values="estimate", dropna=False)


# Nothing is missing


@BOTH
@pytest.mark.parametrize(
    ("policy", "problem"),
    [(Triage(), UNIT), (IN_ORDER, DEAR), (Blind(jnp.asarray(0.2), at_random=True), DEAR)],
    ids=["adaptive", "unequal costs", "stochastic"],
)
def test_complete_rows_have_their_plain_scores(policy: Policy, problem: Problem, protocol: Protocol) -> None:
    given: dict[str, Any] = {"protocol": protocol, "budgets": [3.0, 1.0, 2.5], "key": jr.key(7)}
    found = evaluate_incomplete(policy, problem, MANY, LastWord(), restorer=Unused(), resamples=50, **given)
    expected = evaluate(policy, problem, MANY, LastWord(), **given).set_index("budget").sort_index()
    for estimator in ("ipw", "dr"):
        scores = as_plain(found, estimator)
        for metric in METRICS:
            assert scores[metric].to_numpy() == pytest.approx(
                expected[metric].to_numpy(), abs=1e-6, nan_ok=True
            ), metric
    assert (found["effective_rows"] == 48).all()
    assert (found["followed_rows"] == 48).all()
    assert (found["reason"] == "").all()
    assert (found["low"] <= found["estimate"] + 1e-12).all()
    assert (found["estimate"] <= found["high"] + 1e-12)[found["metric"] != "ece"].all()


def test_missing_values_off_the_rollout_do_not_matter() -> None:
    holes = np.ones((48, 4), bool)
    holes[::3, 3] = False  # of action 2, which the policy does not come to
    x = np.column_stack([np.tile(SIGNS, (6, 1)), np.arange(48)])
    tables = [Table(x, np.tile(LABELS, 6), available) for available in (holes, np.ones_like(holes))]
    found = [
        evaluate_incomplete(IN_ORDER, GROUPED, each, Believes(), budgets=[3.0], resamples=20)
        for each in tables
    ]
    pd.testing.assert_frame_equal(found[0], found[1])
    plain = evaluate(IN_ORDER, GROUPED, tables[1], Believes(), budgets=[3.0])
    assert as_plain(found[0], "ipw")["log_loss"].iloc[0] == pytest.approx(plain["log_loss"].iloc[0])


@pytest.mark.slow
def test_predictors_need_not_be_written_in_jax() -> None:
    rng = np.random.default_rng(0)
    table = hide(rng, draw(rng, 300))
    deck = fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 100)))

    def plain(x: Any, observed: Any) -> Any:
        return np.asarray(Believes()(jnp.asarray(x), jnp.asarray(observed)))

    given: dict[str, Any] = {"restorer": deck, "resamples": 20, "draws": 2}
    expected = evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), **given)
    found = evaluate_incomplete(Chooses(), PROBLEM, table, plain, **given)
    assert found["estimate"].to_numpy() == pytest.approx(expected["estimate"].to_numpy(), abs=1e-6)


# Weights


def test_one_choice_is_weighted_by_the_rate_in_the_other_folds() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, (200, 2)) * 2.0 - 1
    table = Table(x, rng.integers(0, 2, 200), np.column_stack([rng.random(200) < 0.6, np.zeros(200, bool)]))
    problem = Problem(np.eye(2), np.ones(2), 1, 2)
    found = evaluate_incomplete(Blind(jnp.asarray(0.0), at_random=False), problem, table, LastWord(), seed=5)
    there, fold = np.asarray(table.available)[:, 0], assign_folds(200, 5)
    rate = np.array([(there[fold != k].sum() + 0.5) / ((fold != k).sum() + 1) for k in range(5)])
    weight = there / rate[fold]
    right = (x[:, 0] > 0) == np.asarray(table.y)
    assert as_plain(found, "ipw")["accuracy"].iloc[0] == pytest.approx((weight * right).sum() / weight.sum())
    assert found["effective_rows"].iloc[0] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found["followed_rows"].iloc[0] == there.sum()


def test_probabilities_below_the_clip_count_as_the_clip() -> None:
    rng = np.random.default_rng(4)
    table = hide(rng, draw(rng, 2000))
    given: dict[str, Any] = {"resamples": 2}
    found = evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), clip=0.99, **given)
    # All probabilities are below 0.99, so every row has weight 1 / 0.99 for each of its choices.
    rollouts = roll_out_partially(jr.key(0), Target(Chooses(), PROBLEM, Believes(), PAPER, 2), table)
    weight = 0.99 ** -rollouts.n_supported[rollouts.complete].astype(float)
    assert found["effective_rows"].iloc[0] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


# The truth


@pytest.fixture(scope="module")
def large() -> tuple[Table, pd.DataFrame]:
    rng = np.random.default_rng(8)
    table = hide(rng, draw(rng, 4000))
    deck = fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 400)))
    return table, evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), restorer=deck)


def check_against_the_truth(found: pd.DataFrame) -> None:
    truth = exact_scores()
    assert set(truth) == set(METRICS) - {"ece", "forced_stop_rate"}
    for estimator in ("ipw", "dr"):
        part = found[found["estimator"] == estimator].set_index("metric")
        error = (part["high"] - part["low"]) / 3.92
        for metric, value in truth.items():
            assert abs(part["estimate"][metric] - value) < 3.5 * error[metric], (estimator, metric)


def test_estimates_are_near_the_exact_scores(large: tuple[Table, pd.DataFrame]) -> None:
    check_against_the_truth(large[1])


def test_without_weights_they_would_not_be(large: tuple[Table, pd.DataFrame]) -> None:
    table, found = large
    target = Target(Chooses(), PROBLEM, Believes(), PAPER, 2)
    rollouts = roll_out_partially(jr.key(0), target, table)
    equal = ImportanceWeights(np.ones((4000, 3)), np.zeros((4000, 0)))
    naive = complete_predictions(target, table, rollouts, equal).scores()
    part = found[found["estimator"] == "dr"].set_index("metric")
    for metric in ("accuracy", "log_loss", "auroc"):
        error = (part["high"][metric] - part["low"][metric]) / 3.92
        assert abs(naive[metric] - exact_scores()[metric]) > 4 * error


def test_a_class_that_is_measured_more_often_does_not_bend_the_estimates() -> None:
    rng = np.random.default_rng(13)
    complete = draw(rng, 4000)
    chance = np.where(np.asarray(complete.y) == 1, 0.9, 0.5)[:, None]
    available = np.column_stack([np.ones(4000, bool), rng.random((4000, 3)) < chance])
    table = complete.with_cells(complete.x, jnp.asarray(available))
    deck = fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 400)))
    check_against_the_truth(evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), restorer=deck))


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth, redraws = exact_scores(), 200
    rng = np.random.default_rng(9)
    deck = fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 200)))
    frames = []
    for number in range(redraws):
        rng = np.random.default_rng([10, number])
        table = hide(rng, draw(rng, 500))
        frames.append(
            evaluate_incomplete(
                Chooses(), PROBLEM, table, Believes(), restorer=deck, resamples=400, draws=4, seed=number
            )
        )
    found = pd.concat(frames)
    found = found[found["metric"].isin(truth)]
    value = found["metric"].map(truth)
    held = (found["low"] <= value) & (value <= found["high"])
    counts = held.groupby([found["estimator"], found["metric"]]).sum()
    # 16 counts, each outside with a chance of 1 in 1,000 if intervals hold the truth 94 to 96 times of 100.
    low, high = binom.ppf(0.0005, redraws, 0.94), binom.ppf(0.9995, redraws, 0.96)
    assert ((low <= counts) & (counts <= high)).all(), counts


# Refusals


def test_a_budget_with_too_few_effective_rows_has_no_estimate() -> None:
    rng = np.random.default_rng(11)
    available = np.column_stack([np.ones(200, bool), rng.random((200, 3)) < [0.9, 0.15, 0.15]])
    table = draw(rng, 200).with_cells(draw(rng, 200).x, jnp.asarray(available))
    found = evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), budgets=[1.0, 2.0], resamples=20)
    fine, refused = (found[found["budget"] == budget] for budget in (1.0, 2.0))
    assert (fine["reason"] == "").all()
    assert fine["estimate"].notna().all()
    assert refused[["estimate", "low", "high"]].isna().all(axis=None)
    followed_rows = refused["followed_rows"].iloc[0]
    assert refused["reason"].iloc[0].startswith(f"at budget 2, {followed_rows} of 200 rows could be followed")
    assert refused["effective_rows"].iloc[0] < 30
    with pytest.raises(
        InputError, match=r"at budget 2, \d+ of 200 rows .* needs 30 effective rows, and .* give more"
    ):
        evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), budgets=[2.0])


def test_nothing_at_all_is_refused_too() -> None:
    nobody = draw(np.random.default_rng(12), 50)
    table = nobody.with_cells(nobody.x, jnp.asarray(np.arange(4) == 0)[None] & nobody.available)
    with pytest.raises(InputError, match=r"at budget 2, 0 of 50 rows .* of 0\.0 rows"):
        evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), restorer=fit_mean(table))


def test_refuses_what_cannot_be_used() -> None:
    table = draw(np.random.default_rng(13), 50)
    for given, message in [
        ({"futures": 0}, "futures must be"),
        ({"clip": 0}, "clip must be above 0"),
        ({"level": 1.0}, "level must be above 0 and below 1"),
        ({"draws": 0}, "draws must be"),
        ({"resamples": -1}, "resamples must be"),
        ({"budgets": []}, "budgets is empty"),
    ]:
        with pytest.raises(InputError, match=message):
            evaluate_incomplete(Chooses(), PROBLEM, table, Believes(), **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="features"):
        evaluate_incomplete(Chooses(), UNIT, table, Believes())


# Compilation

_TRACES: list[int] = []


class Counted(Chooses):
    """Tells when it is traced."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        _TRACES.append(len(x))
        return super().__call__(x, observed, acquired, available, key=key)


def test_tables_of_similar_sizes_share_their_programs() -> None:
    rng = np.random.default_rng(14)
    deck = fit_hotdeck(jr.key(0), PROBLEM, hide(rng, draw(rng, 100)))
    for n_rows in (240, 250, 235):
        table = hide(rng, draw(rng, n_rows))
        evaluate_incomplete(
            Counted(), PROBLEM, table, Believes(), restorer=deck, budgets=[1.0, 2.0], resamples=20, draws=2
        )
    # One program rolls out, and others continue from up to two or four times as many points.
    assert len(set(_TRACES)) == len(_TRACES) <= 4
