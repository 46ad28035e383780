"""Plans against closed forms of the paper, brute force, and slow readings of the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import InputError
from ascertain.exact import (
    APPROACHES,
    Approach,
    FiniteProblem,
    Observations,
    fit_plan,
    restricted_values,
    shortcut,
)

from .reference import Instance, Learner
from .strategies import finite, instances, observations


def population(problem: FiniteProblem, rate: float, scale: int) -> Observations:
    """Repeat every atom and mask as often as expected in `scale` rows: data without sampling error."""
    d = len(problem.n_values)
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    chance = (rate ** (d - masks.sum(axis=1)) * (1 - rate) ** masks.sum(axis=1))[None]
    copies = np.rint(scale * problem.atoms.probability[:, None] * chance).astype(int)
    np.testing.assert_allclose(copies, scale * problem.atoms.probability[:, None] * chance, atol=1e-6)
    atom, mask = np.nonzero(copies)
    repeats = copies[atom, mask]
    return Observations(
        np.repeat(problem.atoms.x[atom], repeats, axis=0),
        np.repeat(problem.atoms.y[atom], repeats),
        np.repeat(masks[mask], repeats, axis=0),
    )


class TestClosedForms:
    def test_figure_1(self) -> None:
        problem = shortcut(d=6, budget=2)
        context, bribe = problem.feature("context"), problem.feature("shortcut")
        _, training = restricted_values(problem, [0, 1, 1, 0, 0, 0])
        _, evaluation = restricted_values(problem, np.zeros(6))
        assert (training[0, 0, context], evaluation[0, 0, context]) == (0.5, 0.5)
        assert (training[0, 0, bribe], evaluation[0, 0, bribe]) == (0.75, 0.75)
        assert (training[1, 0, context], evaluation[1, 0, context]) == (0.5, 1.0)
        assert (training[1, 0, bribe], evaluation[1, 0, bribe]) == (0.75, 0.75)

    # With x_2 or x_3 missing the value of the context falls: 1 - p/2 on average (equation 5).
    @pytest.mark.parametrize(("rate", "scale"), [(0.25, 2**14), (0.5, 2**10), (0.75, 2**14)])
    def test_aliasing_values_the_context_at_one_minus_half_the_rate(self, rate: float, scale: int) -> None:
        problem = shortcut(d=4, budget=2)
        plan = fit_plan(problem, population(problem, rate, scale), "aliasing")
        # The pseudocounts move an average over N rows by at most 1 / (N + 1), in each of two steps.
        rows = scale * (1 - rate) / 4
        assert plan.action_values()["context"] == pytest.approx(1 - rate / 2, abs=2 / (rows + 1))
        assert plan.action_values()["shortcut"] == pytest.approx(3 / 4, abs=2 / (rows + 1))

    @pytest.mark.parametrize("approach", ["filtering", "restoration", "complete"])
    def test_other_approaches_value_the_context_at_one(self, approach: Approach) -> None:
        problem = shortcut(d=4, budget=2)
        plan = fit_plan(problem, population(problem, 0.75, 2**14), approach)
        assert plan.first_action == "context"
        assert problem.regret(plan) == 0

    @pytest.mark.parametrize(("d", "budget"), [(4, 2), (6, 2), (6, 3), (9, 4)])
    def test_the_myopic_policy_loses_a_quarter(self, d: int, budget: int) -> None:
        problem = shortcut(d, budget)
        _, q = restricted_values(problem, np.zeros(d))
        assert problem.value(problem.optimal_plan()) == 1.0
        assert np.nanmax(q[0, 0]) == 0.75
        # Complete data without sampling error: every atom in proportion.
        copies = np.rint(problem.atoms.probability * 2 ** (d + 1)).astype(int) * 50
        data = Observations(np.repeat(problem.atoms.x, copies, axis=0), np.repeat(problem.atoms.y, copies))
        assert problem.regret(fit_plan(problem, data, "complete", horizon=1)) == 0.25
        assert problem.regret(fit_plan(problem, data, "complete")) == 0

    def test_without_data_everything_is_a_coin(self) -> None:
        problem = shortcut(d=6, budget=2)
        nothing_complete = Observations([[0, 0, 0, 0, 0, 0]], [0], [[1, 1, 1, 1, 1, 0]])
        plan = fit_plan(problem, nothing_complete, "filtering")
        assert set(plan.action_values().values()) == {0.5}
        assert plan.first_action is None  # ties prefer stopping
        assert problem.regret(plan) == 0.5


class TestProposition1:
    @given(st.data(), instances())
    @settings(max_examples=150, deadline=None)
    def test_restriction_never_raises_a_value(self, data: st.DataObject, instance: Instance) -> None:
        problem = finite(instance)
        d = len(instance.n_values)
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=d, max_size=d)))
        v_train, q_train = restricted_values(problem, mask)
        v_eval, q_eval = restricted_values(problem, np.zeros(d, bool))
        reachable = (problem.space.values[:, mask] < 0).all(axis=1) & (problem.mass.sum(axis=1) > 0)
        exact = 1e-12  # the two recursions add the same products in the same order
        assert (v_train[:, reachable] <= v_eval[:, reachable] + exact).all()
        np.testing.assert_array_equal(v_train[0], v_eval[0])
        legal = ~np.isnan(q_train[:, reachable])
        assert (q_train[:, reachable][legal] <= q_eval[:, reachable][legal] + exact).all()
        if len(q_train):
            legal = ~np.isnan(q_train[0, reachable])
            np.testing.assert_allclose(q_train[0, reachable][legal], q_eval[0, reachable][legal], atol=exact)

    @given(instances())
    @settings(max_examples=50, deadline=None)
    def test_illegal_actions_have_no_value(self, instance: Instance) -> None:
        problem = finite(instance)
        mask = np.arange(len(instance.n_values)) % 2 == 0
        _, q = restricted_values(problem, mask)
        for state, values in enumerate(problem.space.values):
            known = tuple((a, int(v)) for a, v in enumerate(values) if v >= 0)
            legal = [a for a in instance.legal(known) if not mask[a]]
            assert all(np.flatnonzero(~np.isnan(step[state])).tolist() == legal for step in q)


class TestBruteForce:
    @given(instances(max_features=3))
    @settings(max_examples=25, deadline=None)
    def test_no_policy_beats_the_optimal_plan(self, instance: Instance) -> None:
        problem = finite(instance)
        best = max(instance.accuracy(tree) for tree in instance.trees())
        assert problem.value(problem.optimal_plan()) == pytest.approx(best, abs=1e-12)
        assert problem.regret(problem.optimal_plan()) == 0

    @given(st.data(), instances(max_features=3), st.sampled_from(APPROACHES), st.sampled_from([1, 2, None]))
    @settings(max_examples=120, deadline=None)
    def test_values_equal_a_slow_reading(
        self, data: st.DataObject, instance: Instance, approach: Approach, horizon: int | None
    ) -> None:
        problem = finite(instance)
        sample = data.draw(observations(instance, max_rows=12))
        plan = fit_plan(problem, sample, approach, horizon)
        usable = sample.available.all(axis=1) if approach == "filtering" else np.ones(len(sample), bool)
        masks = np.ones_like(sample.available) if approach == "complete" else sample.available
        learner = Learner(instance, sample.x[usable], sample.y[usable], masks[usable])
        steps = horizon or len(instance.n_values)
        value = learner.aliased if approach == "aliasing" else learner.plug_in
        for values in problem.space.values:
            known = tuple((a, int(v)) for a, v in enumerate(values) if v >= 0)
            found = plan.action_values({f"x{a}": v for a, v in known})
            expected: dict[str | None, float] = {None: learner.stop(known)}
            expected |= {f"x{a}": value(known, a, steps) for a in instance.legal(known)}
            assert found == pytest.approx(expected, abs=1e-12)

    @given(st.data(), instances(max_features=3))
    @settings(max_examples=40, deadline=None)
    def test_a_long_horizon_is_the_full_one(self, data: st.DataObject, instance: Instance) -> None:
        problem = finite(instance)
        sample = data.draw(observations(instance))
        for approach in APPROACHES:
            long, full = (fit_plan(problem, sample, approach, horizon) for horizon in (3, None))
            np.testing.assert_allclose(long.edge_values, full.edge_values, atol=1e-12)


class TestPlan:
    def test_a_plan_prints_as_a_decision_tree(self) -> None:
        joint = np.zeros((3, 2, 2))
        joint[0, :, 0] = joint[1, 0, 0] = joint[1, 1, 1] = joint[2, :, 1] = 1 / 6
        problem = FiniteProblem(
            joint,
            budget=3,
            costs=[1, 2],
            feature_names=["dose", "smoker"],
            value_names=[["low", "mid", "high"], ["no", "yes"]],
            label_names=["well", "ill"],
        )
        assert str(problem.optimal_plan()) == "\n".join(
            [
                "acquire dose (cost 1)",
                "├─ low: predict well",
                "├─ mid: acquire smoker (cost 2)",
                "│  ├─ no: predict well",
                "│  └─ yes: predict ill",
                "└─ high: predict ill",
            ]
        )
        assert problem.optimal_plan()({"dose": "mid"}) == "smoker"
        assert problem.optimal_plan()({"dose": "low"}) is None

    def test_ties_prefer_stopping_then_the_lowest_feature(self) -> None:
        same = np.zeros((2, 2, 2))
        same[0, 0, 0] = same[1, 1, 1] = 0.5
        assert FiniteProblem(same, budget=1).optimal_plan().first_action == "x0"
        useless = np.full((2, 2, 2), 1 / 8)
        assert FiniteProblem(useless, budget=1).optimal_plan().first_action is None

    def test_a_gain_below_the_margin_is_a_tie(self) -> None:
        joint = np.zeros((2, 2, 2))
        joint[0, 0, 0] = joint[1, 1, 1] = 0.5 - 1e-14
        joint[0, 1, 1] = joint[1, 0, 0] = 1e-14  # the second feature is better by far less than 1e-12
        assert FiniteProblem(joint, budget=1).optimal_plan().first_action == "x0"


class TestBadInput:
    data = Observations([[0, 1, 0, 1]], [1])

    @pytest.mark.parametrize("horizon", [0, -1, True])
    def test_horizon(self, horizon: int) -> None:
        with pytest.raises(InputError, match="horizon must be a whole number of at least 1"):
            fit_plan(shortcut(4, 2), self.data, "restoration", horizon)

    def test_mask(self) -> None:
        with pytest.raises(InputError, match="mask has 3 entries for 4 features"):
            restricted_values(shortcut(4, 2), [0, 0, 1])
        with pytest.raises(InputError, match=r"mask\[2\] is 2"):
            restricted_values(shortcut(4, 2), [0, 0, 2, 0])
        with pytest.raises(InputError, match="horizon"):
            restricted_values(shortcut(4, 2), [0, 0, 0, 0], horizon=0)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (Observations([[0, 1, 0]], [1]), "x has 3 columns, but the problem has 4 features"),
            (Observations([[0, 1, 2, 0]], [1]), r"x\[0, 2\] is 2, but 'branch1.1' has 2 values"),
            (Observations([[0, 1, 0, 0]], [2]), r"y\[0\] is 2, outside the classes 0 to 1"),
        ],
    )
    def test_observations_of_another_problem(self, data: Observations, message: str) -> None:
        with pytest.raises(InputError, match=message):
            fit_plan(shortcut(4, 2), data, "restoration")

    def test_complete_needs_every_value(self) -> None:
        holes = Observations([[0, -1, 0, 0]], [1])
        with pytest.raises(
            InputError, match=r"x\[0, 1\] is unknown: the approach 'complete' needs every value"
        ):
            fit_plan(shortcut(4, 2), holes, "complete")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([[0, 0.5]], [0]), r"x\[0, 1\] is 0.5, not a whole number"),
            (([[0, 1]], [0, 1]), "2 labels for 1 rows"),
            (([[0, 1]], [-1]), r"y\[0\] is -1"),
            (([[0, float("nan")]], [0], [[1, 1]]), r"x\[0, 1\] is unknown but marked available"),
            (([[0, 1]], [0], [[1]]), "available has shape"),
            (([0, 1], [0]), "x must be a table of numbers"),
            (([[0, float("inf")]], [0]), r"x\[0, 1\] is inf, not a whole number"),
            (([[0, 1e30]], [0]), r"x\[0, 1\] is 1e\+30, not a whole number"),
        ],
    )
    def test_bad_observations(self, arguments: tuple[object, ...], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Observations(*arguments)  # type: ignore[arg-type]

    def test_a_plan_for_another_problem(self) -> None:
        with pytest.raises(InputError, match="other features, values, costs or budget"):
            shortcut(6, 2).value(shortcut(4, 2).optimal_plan())
        one, other = (
            FiniteProblem(np.full((2, 2, 2), 1 / 8), budget=1, feature_names=list(names))
            for names in ("ab", "ba")
        )
        with pytest.raises(InputError, match="other features"):
            one.value(other.optimal_plan())

    def test_unknown_names_and_values(self) -> None:
        plan = shortcut(4, 2).optimal_plan()
        with pytest.raises(InputError, match="no feature is called 'contxt'"):
            plan({"contxt": 0})
        with pytest.raises(InputError, match="'context' cannot be 2; its values are 0, 1"):
            plan({"context": 2})
        with pytest.raises(InputError, match="'shortcut' does not fit what is left of the budget of 2"):
            plan({"context": 1, "shortcut": 0})
