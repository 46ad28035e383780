"""Sets of actions that are ordered at once: against brute force, and where the best set is known."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import AcquisitionClassifier, InputError
from ascertain.estimator import _sets
from ascertain.estimator._advisor import Advisor, draw_completions, nearest_values
from ascertain.estimator._sets import DRAWS, BestSets, best_sets
from ascertain.practice._recommend import recommend_rows, stop_text
from ascertain.predictors._calibration import Calibrated
from ascertain.problem import Table
from tests.estimator_cases import patients, quick

RELIABLE = np.array([0.8, 0.8, 0.7])  # how often each sign tells the class; the second copies the first


class Signs(eqx.Module):
    """Draws three signs, -1 or 1: the second is a copy of the first, which is right in 8 of 10 rows."""

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        n_rows = table.x.shape[0]
        label, first, last = jr.split(key, 3)
        y = jr.bernoulli(label, 0.5, (n_rows,))
        right = [jr.bernoulli(k, p, (n_rows,)) for k, p in ((first, 0.8), (last, 0.7))]
        signs = [jnp.where(y == hit, 1.0, -1.0) for hit in right]
        return jnp.stack([signs[0], signs[0], signs[1]], axis=1)

    def label_free(self) -> "Signs":
        return self


class Bayes(eqx.Module):
    """Predicts the class from the signs: exactly, since a copy of a sign counts once."""

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        shown = jnp.where(observed, x, 0.0)
        first = jnp.where(observed[:, 0], shown[:, 0], shown[:, 1])
        logit = first * np.log(0.8 / 0.2) + shown[:, 2] * np.log(0.7 / 0.3)
        positive = 1 / (1 + jnp.exp(-logit))
        return jnp.stack([1 - positive, positive], axis=1)


@cache
def fitted() -> AcquisitionClassifier:
    table, y = patients(120)
    return quick(costs=[1.0, 2.0, 1.0, 2.5], budget=4).fit(table, y)


@cache
def signs() -> AcquisitionClassifier:
    """A classifier of the three signs, whose predictor and restorer know the problem."""
    rng = np.random.default_rng(0)
    model = quick(budget=3).fit(rng.normal(size=(60, 3)), rng.integers(0, 2, 60))
    identity = replace(
        model.advisor_.encoding,
        columns=tuple(replace(each, mean=(0.0,), scale=(1.0,)) for each in model.advisor_.encoding.columns),
    )
    exact = Calibrated(Bayes(), jnp.asarray(1.0))
    return model.adopt(replace(model.advisor_, encoding=identity, predictor=exact, restorer=Signs()))


def brute_force(
    advisor: Advisor, row: np.ndarray, known: np.ndarray, size: int
) -> dict[tuple[int, ...], float]:
    """What every affordable set is worth in one row, over the same completions."""
    problem, parts = advisor.problem, advisor.parts
    given = jnp.asarray(row)[None], jnp.asarray(known)[None]
    _, drawn = draw_completions(parts, *given, seed=1, draws=DRAWS)
    values = np.stack([np.asarray(nearest_values(parts.discrete, each))[0] for each in drawn])
    costs, reveals = np.asarray(problem.costs), np.asarray(problem.reveals)
    acquired = advisor.acquired(known[None])[0]
    found = {}
    for number in range(size + 1):
        for actions in combinations(np.flatnonzero(~acquired).tolist(), number):
            if actions and costs[acquired].sum() + costs[list(actions)].sum() > float(problem.budget) + 1e-6:
                continue
            shown = known | reveals[list(actions)].any(axis=0)
            cells = jnp.where(shown[None], jnp.asarray(values, jnp.float32), 0.0)
            predicted = np.asarray(advisor.predictor(cells, jnp.broadcast_to(shown, cells.shape)))
            now = np.asarray(advisor.predictor(*given))[0]
            found[actions] = float((1 + (now**2).sum()) / 2 + predicted.var(axis=0).sum() / 2)
    return found


@pytest.mark.slow
def test_the_value_is_that_of_the_set_and_near_the_best_of_all_sets() -> None:
    advisor = fitted().advisor_
    x, available = advisor.encoding.transform(patients(12, seed=5, missing=0.7)[0], unseen="missing")
    found = best_sets(advisor, x, available, None, np.zeros((12, 4), bool), 2)
    for row in range(12):
        sets = brute_force(advisor, x[row], available[row], 2)
        chosen = tuple(sorted(each for each in found.actions[row].tolist() if each >= 0))
        assert found.value[row] == pytest.approx(sets[chosen], abs=1e-5)
        assert found.cost[row] == pytest.approx(np.asarray(advisor.problem.costs)[list(chosen)].sum())
        gained, possible = (each - sets[()] for each in (sets[chosen], max(sets.values())))
        # All pairs are tried. One of two is dropped if it has less than an eighth of what they add; whatever
        # adds less than a thousandth is dropped, too.
        assert gained > 7 / 8 * possible - 2e-3


@pytest.mark.slow
def test_a_copy_of_a_test_is_not_ordered_with_it() -> None:
    advisor = signs().advisor_
    nothing = np.zeros((1, 3), np.float32), np.zeros((1, 3), bool)
    found = best_sets(advisor, *nothing, None, np.zeros((1, 3), bool), 2)
    assert set(found.actions[0].tolist()) in ({0, 2}, {1, 2})  # though 0 and 1 tell most by themselves
    # Right in 8 of 10: the last sign never outweighs the first. Certain by Bayes' rule, so up to the draws:
    # 64 of them, of a probability that is .903 or .632 with chances .62 and .38.
    assert found.right[0] == pytest.approx(0.8, abs=4 * 0.132 / np.sqrt(DRAWS))
    alone = best_sets(advisor, *nothing, None, np.zeros((1, 3), bool), 1)
    assert alone.actions[0, 0] in (0, 1)
    # With a share f of draws that have a positive sign, it is .5 + 1.2 f (1 - f); f is 1/2 up to .25 (4
    # deviations).
    assert alone.right[0] == pytest.approx(0.8, abs=1.2 * 0.25**2)


@pytest.mark.slow
def test_a_third_of_two_that_are_alike_adds_nothing() -> None:
    nothing = np.zeros((1, 3), np.float32), np.zeros((1, 3), bool)
    found = best_sets(signs().advisor_, *nothing, None, np.zeros((1, 3), bool), 3)
    assert (found.actions[0] >= 0).sum() == 2


def test_what_is_closed_or_too_dear_is_not_ordered() -> None:
    advisor = fitted().advisor_
    x, available = advisor.encoding.transform(patients(20, seed=6, missing=0.8)[0], unseen="missing")
    closed = np.zeros((20, 4), bool)
    closed[:, 3] = True
    spent = np.linspace(0, 4, 20)
    found = best_sets(advisor, x, available, spent, closed, 3)
    assert not (found.actions == 3).any()
    assert (found.cost <= 4 - spent + 1e-5).all()
    assert found.cost[0] > 0


def test_rows_do_not_depend_on_each_other() -> None:
    advisor = fitted().advisor_
    x, available = advisor.encoding.transform(patients(70, seed=7, missing=0.7)[0], unseen="missing")
    closed = np.zeros((70, 4), bool)
    together = best_sets(advisor, x, available, None, closed, 2)
    for row in (0, 1, 40, 69):
        alone = best_sets(advisor, x[[row]], available[[row]], None, closed[[row]], 2)
        np.testing.assert_array_equal(alone.actions[0], together.actions[row])
        np.testing.assert_allclose(alone.value[0], together.value[row], atol=1e-5)


def test_recommend_has_a_set_for_each_row() -> None:
    table, _ = patients(20, seed=3, missing=0.6)
    found = fitted().recommend(table, batch=3)
    assert list(found)[:3] == ["actions", "cost", "right_after"]
    one = fitted().recommend(table)
    prices = dict(zip(fitted().advisor_.encoding.action_names, [1.0, 2.0, 1.0, 2.5], strict=True))
    for (_, several), (_, single) in zip(found.iterrows(), one.iterrows(), strict=True):
        assert several["cost"] == pytest.approx(sum(prices[name] for name in several["actions"]))
        assert len(several["actions"]) <= 3
        if single["action"] is None:
            assert several["actions"] == ()
            assert several["why"] == single["why"]
        else:
            assert several["why"] == (None if several["actions"] else "no set helps")
        assert several["probability"] == single["probability"]
    assert max(map(len, found["actions"])) > 0


class Coins(eqx.Module):
    """Draws fair signs, -1 or 1."""

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        return jr.rademacher(key, table.x.shape, jnp.float32)

    def label_free(self) -> "Coins":
        return self


class FromCoins(eqx.Module):
    """Predicts from fair signs, by a function of those that are known (0: not known)."""

    logit: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "instances features"], observed: Bool[Array, "instances features"]
    ) -> Float[Array, "instances classes"]:
        positive = 1 / (1 + jnp.exp(-self.logit(jnp.where(observed, x, 0.0))))
        return jnp.stack([1 - positive, positive], axis=1)


def from_coins(logit: Callable[[Array], Array], size: int, first: int = -1) -> BestSets:
    """The best set of three coins, of which nothing is known."""
    advisor = replace(
        signs().advisor_, restorer=Coins(), predictor=Calibrated(FromCoins(logit), jnp.asarray(1.0))
    )
    nothing = np.zeros((1, 3), np.float32), np.zeros((1, 3), bool)
    return best_sets(advisor, *nothing, None, np.zeros((1, 3), bool), size, None, np.array([first]))


def two_together(x: Array) -> Array:
    """Whether the first two signs agree decides; the third tells a little by itself."""
    return 3 * x[:, 0] * x[:, 1] + x[:, 2] / 2


def test_two_tests_that_tell_something_only_together_are_ordered() -> None:
    assert set(from_coins(two_together, 2).actions[0].tolist()) == {0, 1}


@pytest.mark.slow
def test_a_set_is_also_grown_from_what_the_policy_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sets, "_MOST_PAIRS", 0)

    def also_together(x: Array) -> Array:
        """Another function, so that no program is used that was compiled with more pairs."""
        return two_together(x)

    assert from_coins(also_together, 2).actions[0].tolist() == [2, -1]
    assert set(from_coins(also_together, 2, first=1).actions[0].tolist()) == {0, 1}


def test_what_the_predictor_hardly_reacts_to_is_not_ordered() -> None:
    found = from_coins(lambda x: 2 * x[:, 0] + 0.1 * x[:, 1] + 0.1 * x[:, 2], 3)
    assert found.actions[0].tolist() == [0, -1, -1]


def test_a_predictor_that_is_less_sure_of_rows_with_more_known_does_not_hide_what_helps() -> None:
    # Sure of nothing, it says .88; with the first sign known .73 or .27, and .5 on average.
    found = from_coins(lambda x: jnp.where(x[:, 0] == 0, 2.0, x[:, 0]), 2)
    assert found.actions[0].tolist() == [0, -1]
    assert found.right[0] >= 1 / (1 + np.exp(-2)) - 1e-6


def test_where_no_set_helps_it_is_said() -> None:
    model = signs()
    constant = Calibrated(FromCoins(lambda x: 0 * x[:, 0]), jnp.asarray(1.0))
    other = AcquisitionClassifier().adopt(replace(model.advisor_, predictor=constant))
    table = pd.DataFrame(np.full((2, 3), np.nan), columns=model.advisor_.encoding.table_columns)
    found = recommend_rows(other, table, batch=2, spent="0")
    assert found.table["why"].tolist() == ["no set helps"] * 2
    assert found.summary()["stops"] == {"no set helps": 2}
    assert "tell much" in stop_text("no set helps")


@pytest.mark.parametrize("batch", [0, -1, True])
def test_a_batch_is_a_number_of_actions(batch: int) -> None:
    with pytest.raises(InputError, match="batch must be"):
        fitted().recommend(patients(2)[0], batch=batch)


def test_a_batch_may_be_larger_than_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sets, "_ROWS_AT_ONCE", 4)
    found = fitted().recommend(patients(3, seed=1, missing=0.9)[0], spent=0, batch=99)
    assert found["actions"].map(len).max() <= 4
