"""Prices, forbidden tests and budgets of one case, where they are not those of training."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import AcquisitionClassifier, InputError
from ascertain._core.networks import LOWEST
from ascertain.estimator._case_prices import check_case_costs, forbidden_actions
from ascertain.estimator._consultation import Consultation
from ascertain.policy import Policy
from ascertain.problem import Problem
from tests.estimator_cases import patients, quick

NOTHING = pd.DataFrame({"age": [None], "hat": [None], "smoker": [None], "scan": [None]})
NONE = pd.concat([NOTHING] * 3, ignore_index=True)
SETUP = {"visit": {"cost": 3.0, "columns": ["age", "smoker"]}}
COSTS = {"age": 1.0, "pair": 2.0, "smoker": 0.5}


class Cheapest(Policy):
    """Takes what is cheapest after what was acquired; it may count on everything that it can pay for."""

    problem: Problem
    budget: Float[Array, ""]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        prices = self.problem.prices(acquired)
        return jnp.concatenate([jnp.full_like(prices[:, :1], -jnp.inf), -prices], axis=1)

    def at(self, budget: float | Float[Array, ""]) -> "Cheapest":
        return eqx.tree_at(lambda policy: policy.budget, self, jnp.asarray(budget, jnp.float32))


@cache
def blind() -> AcquisitionClassifier:
    """Its policy goes through age, the pair of hat and scan, and smoker, and does not look at prices."""
    table, y = patients(120)
    groups = {"pair": ["hat", "scan"]}
    return quick(costs=COSTS, groups=groups, setup=SETUP, budget=7).fit(table, y)


@cache
def thrifty() -> AcquisitionClassifier:
    """The same with a policy that looks at prices and the budget."""
    advisor = blind().advisor_
    policy = Cheapest(advisor.problem.without_names(), advisor.problem.budget)
    model = AcquisitionClassifier(**blind().get_params())
    return model.adopt(replace(advisor, policy=policy))


def advised(model: AcquisitionClassifier, rows: pd.DataFrame = NOTHING, **case: Any) -> "pd.Series[Any]":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.recommend(rows, **case).iloc[0]


class WithinBudget(Cheapest):
    """Takes the last action that it can pay for, by its own count."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        payable = self.problem.at(self.budget).affordable(acquired)
        places = jnp.arange(acquired.shape[1], dtype=jnp.float32)[None]
        return jnp.concatenate(
            [jnp.full_like(places[:, :1], -jnp.inf), jnp.where(payable, places, LOWEST)], axis=1
        )


def test_what_is_free_fits_a_budget_that_is_overspent() -> None:
    free = {"pair": 0, "visit": 0, "smoker": 0}
    assert advised(blind(), spent=100)["why"] == "budget"
    for model in (blind(), thrifty()):
        assert advised(model, spent=100, costs={"pair": 0})["action"] == "pair"
        case = Consultation(model.advisor_, budget=0.5, costs=free).enter({"age": 50})
        answer = case.answer()
        assert answer.over == 0.5
        assert answer.recommended in ("pair", "smoker")
        assert all(option.affordable for option in answer.options)
    policy = WithinBudget(blind().advisor_.problem.without_names(), blind().advisor_.problem.budget)
    counting = AcquisitionClassifier().adopt(replace(blind().advisor_, policy=policy))
    assert advised(counting, spent=100, costs=free)["action"] == "smoker"  # the last of two that are free


def test_sets_of_what_is_free_fit_a_budget_that_is_overspent() -> None:
    found = advised(blind(), spent=100, costs={"pair": 0}, batch=2)
    assert (found["actions"], found["cost"]) == (("pair",), 0)


def test_a_policy_that_looks_at_prices_follows_those_of_the_case() -> None:
    assert advised(thrifty())["action"] == "pair"  # 2, against 4 and 3.5 with the visit
    assert advised(thrifty(), costs={"pair": 9})["action"] is not None
    assert advised(thrifty(), costs={"pair": 6})["action"] == "smoker"
    free_visit = advised(thrifty(), costs={"visit": 0})  # somebody is there anyway
    assert (free_visit["action"], free_visit["cost"]) == ("smoker", 0.5)


def test_other_policies_only_keep_to_the_budget() -> None:
    assert advised(blind())["action"] == "age"
    found = advised(blind(), costs={"age": 4.5})
    assert (found["action"], found["cost"]) == ("pair", 2.0)  # 4.5 + 3 is more than 7
    assert advised(blind(), costs={"age": 0, "visit": 0})["cost"] == 0.0


def test_what_is_not_named_costs_as_much_as_in_training() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = blind().recommend(NOTHING, costs={"age": 1.0})
    pd.testing.assert_frame_equal(same, blind().recommend(NOTHING))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (blind, "does not look at prices, so that the new ones only decide"),
        (thrifty, "counts with the new ones"),
    ],
)
def test_a_policy_that_was_trained_for_other_prices_says_so(model: Any, says: str) -> None:
    with pytest.warns(UserWarning, match=rf"trained for other prices \(pair 5 instead of 2\): it {says}"):
        found = model().recommend(NOTHING, costs={"pair": 5})
    assert "other prices" in found["note"].iloc[0]
    assert "note" not in model().recommend(NOTHING, forbid=["age"])
    answer = Consultation(model().advisor_, costs={"pair": 5}).answer()
    assert says in answer.notes[0]


def test_forbidden_actions_are_not_recommended() -> None:
    assert advised(blind(), forbid=["age"])["action"] == "pair"
    assert advised(blind(), forbid=["age", "scan"])["action"] == "smoker"  # no pair without the scan
    assert advised(blind(), forbid=["visit"])["action"] == "pair"  # and neither age nor smoker
    found = advised(blind(), forbid=["visit", "pair"])
    assert (found["action"], found["why"]) == (None, "nothing left")
    known = NOTHING.assign(age=[50.0])
    assert advised(blind(), known, forbid=["age"])["action"] == "pair"  # what is on file stays on file
    assert advised(thrifty(), known, forbid=["age"], budget=6.1)["action"] == "smoker"
    assert advised(blind(), forbid=["age"], batch=3)["actions"].count("age") == 0


def test_each_row_has_its_budget() -> None:
    found = blind().recommend(NONE, budget=[0.4, 2, 7])
    assert found["action"].tolist() == [None, "pair", "age"]
    assert found["why"].tolist() == ["budget", None, None]
    assert [advised(blind(), budget=each)["action"] for each in (0.4, 2, 7)] == [None, "pair", "age"]


def test_a_large_budget_does_not_blur_a_small_one() -> None:
    with pytest.warns(UserWarning, match="trained for a budget of 7"):
        found = blind().recommend(NONE.iloc[:2], budget=[1.99, 1e8])
    assert found["action"].tolist() == [None, "age"]


def test_what_is_on_file_counts_as_spent_unless_it_is_said_otherwise() -> None:
    known = NOTHING.assign(age=[50.0], smoker=[True])  # 4.5
    assert advised(blind(), known, budget=6)["why"] == "budget"
    assert advised(blind(), known, budget=6.5)["action"] == "pair"
    assert advised(blind(), known, budget=2, spent=0)["action"] == "pair"
    assert advised(blind(), known, budget=2, costs={"age": 0, "smoker": 0, "visit": 0})["action"] == "pair"


def test_a_larger_budget_than_in_training_is_noted() -> None:
    with pytest.warns(UserWarning, match="trained for a budget of 7, and has not learned"):
        blind().recommend(NOTHING, budget=70)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"costs": {"aeg": 1}}, "costs has 'aeg', which cannot be bought; did you mean 'age'"),
        (
            {"costs": {"hat": 1}},
            "'hat', which is measured with the panel 'pair'; give the price",
        ),
        ({"costs": {"age": -1}}, "the cost of 'age' is -1"),
        ({"costs": {"age": "x"}}, "the cost of 'age' is 'x', no number"),
        ({"costs": [1]}, "costs must be a dict by name"),
        ({"forbid": "age"}, "forbid must list actions or columns"),
        ({"forbid": ["zzz"]}, "there are 'age', 'pair', 'smoker', 'visit', 'hat', 'scan'$"),
        ({"forbid": ["aeg"]}, "forbid has 'aeg', which cannot be measured; did you mean 'age'"),
        ({"budget": -1}, "budget must not be negative"),
        ({"budget": [1, 2]}, "budget must be a number, or 1 of them"),
        ({"budget": float("nan")}, "budget must not be negative, infinite or NaN"),
        ({"spent": [1, 2]}, "spent must be a number, or 1 of them"),
    ],
)
def test_mistakes_are_named(case: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        blind().recommend(NOTHING, **case)


def test_amounts_may_be_texts() -> None:
    assert check_case_costs(blind().advisor_.encoding, {"age": "1,50 EUR"}) == {"age": 1.5}
    np.testing.assert_array_equal(forbidden_actions(blind().advisor_.encoding, None), [False] * 3)


def test_a_consultation_at_this_cases_prices() -> None:
    case = Consultation(blind().advisor_, costs={"age": 0.25, "visit": 1}, forbid=("hat",), budget=5)
    answer = case.answer()
    options = {option.action: option for option in answer.options}
    assert (answer.recommended, options["age"].cost, options["smoker"].cost) == ("age", 1.25, 1.5)
    assert options["pair"].forbidden
    assert not options["pair"].open
    assert answer.options[-1].action == "pair"
    after = case.enter({"age": 40}).answer()
    assert (after.spent, after.recommended) == (1.25, "smoker")
    assert case.enter({"age": 40, "smoker": True}).answer().why == "nothing left"
    assert Consultation.from_json(case.advisor, case.to_json()).case == case.case
    assert case.to_json()["costs"] == {"age": 0.25, "visit": 1}
    assert set(Consultation(blind().advisor_).to_json()) == {"budget", "entries"}


def test_skipping_closes_an_action_for_plans() -> None:
    """A policy that plans for a budget sees what cannot be taken as what cannot be paid for."""
    answer = Consultation(thrifty().advisor_).skip("pair").answer()
    assert answer.recommended == "smoker"
    scores = {option.action: option.score for option in answer.options}
    assert scores["pair"] == -np.inf
