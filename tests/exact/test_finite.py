import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

from ascertain import InputError, TooLargeError
from ascertain.exact import Atoms, FiniteProblem, Observations, fit_plan, shortcut

from .reference import Instance
from .strategies import finite, instances

COINS = np.zeros((2, 2, 2))
COINS[0, 0, 1] = COINS[1, 1, 1] = COINS[0, 1, 0] = COINS[1, 0, 0] = 0.25


@given(instances())
@settings(max_examples=50, deadline=None)
def test_mass_and_bayes_predictor_equal_sums_over_atoms(instance: Instance) -> None:
    problem = finite(instance)
    for state, values in enumerate(problem.space.values):
        known = tuple((a, int(v)) for a, v in enumerate(values) if v >= 0)
        np.testing.assert_allclose(problem.mass[state], instance.label_mass(known), atol=1e-12)
        assert problem.prediction[state] == instance.predict(known)


def test_bayes_decides_ties_for_the_last_label() -> None:
    assert FiniteProblem(np.full((2, 3), 1 / 6), budget=1).prediction.tolist() == [2, 2, 2]


def test_a_predictor_of_ones_own() -> None:
    def always_zero(states: np.ndarray) -> np.ndarray:
        return np.zeros(len(states), int)

    problem = FiniteProblem(COINS, budget=2, predictor=always_zero)
    assert problem.value(problem.optimal_plan()) == 0.5
    assert problem.optimal_plan().first_action is None


@pytest.mark.parametrize(
    ("joint", "changes", "message"),
    [
        (COINS * 2, {}, "joint sums to 2, not to 1"),
        (-COINS, {}, r"joint\[0, 0, 1\] is -0.25, not a probability"),
        (np.full((2, 2), np.nan), {}, r"joint\[0, 0\] is nan, not a probability"),
        (np.ones(2) / 2, {}, "an axis per feature"),
        (np.ones((2, 1)) / 2, {}, "at least 2 labels"),
        (COINS, {"budget": 0.5}, "a budget of 0.5 buys nothing"),
        (COINS, {"costs": [1]}, "1 entries, but 2"),
        (COINS, {"costs": [1, -1]}, "the cost of x1 is -1"),
        (COINS, {"feature_names": ["a", "a"]}, "'a' twice"),
        (COINS, {"value_names": [["0", "1"]]}, "value_names lists 1 features, but there are 2"),
        (COINS, {"value_names": [["0", "1"], ["0"]]}, "value_names of 'x1' must list 2 names"),
        (COINS, {"predictor": lambda states: [0]}, "the predictor's answer has 1 labels for"),
        (COINS, {"predictor": lambda states: np.full(len(states), 2)}, "outside the classes 0 to 1"),
    ],
)
def test_a_bad_problem_is_refused(joint: np.ndarray, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FiniteProblem(joint, **({"budget": 2} | changes))  # type: ignore[arg-type]


class TestSample:
    def test_it_follows_the_distribution(self) -> None:
        problem, n, rate = shortcut(4, 2), 40_000, 0.3
        data = problem.sample(np.random.default_rng(0), n, rate)
        key = data.x @ (1 << np.arange(4))
        found = np.bincount(key, minlength=16)
        expected = np.bincount(problem.atoms.x @ (1 << np.arange(4)), problem.atoms.probability)
        # Each of 16 counts is binomial: five standard deviations fail one run in 10^5.
        assert (abs(found - n * expected) <= 5 * np.sqrt(n * expected * (1 - expected))).all()
        assert abs(data.available.mean() - (1 - rate)) <= 5 * np.sqrt(rate * (1 - rate) / (4 * n))

    @pytest.mark.parametrize(
        ("n", "rate", "message"),
        [(0, 0.5, "n must be"), (10, 1.0, "rate must be"), (10, -0.1, "rate"), (10, float("nan"), "rate")],
    )
    def test_bad_arguments(self, n: int, rate: float, message: str) -> None:
        with pytest.raises(InputError, match=message):
            shortcut(4, 2).sample(np.random.default_rng(0), n, rate)


class TestFromTable:
    table = pd.DataFrame(
        {
            "fever": [True, False, True, False, True, None],
            "rash": ["none", "mild", "severe", "none", None, "mild"],
            "ill": ["yes", "no", "yes", "no", "yes", "no"],
        }
    )

    def problem(self, **changes: object) -> FiniteProblem:
        arguments: dict[str, object] = {"label": "ill", "budget": 2, "costs": {"rash": 2, "fever": 1}}
        return FiniteProblem.from_table(self.table, **(arguments | changes))  # type: ignore[arg-type]

    def test_frequencies_among_the_complete_rows(self) -> None:
        problem = self.problem()
        assert problem.origin == "estimated from 4 complete rows of 6"
        assert problem.origin in repr(problem)
        assert problem.feature_names == ("fever", "rash")
        assert problem.value_names == (("False", "True"), ("mild", "none", "severe"))
        assert problem.label_names == ("no", "yes")
        assert problem.costs.tolist() == [1, 2]
        assert problem.mass[problem.state({"fever": True})].tolist() == [0, 0.5]
        assert problem.optimal_plan().first_action == "fever"
        assert problem.value(problem.optimal_plan()) == 1

    def test_the_same_table_with_its_holes_can_be_learned_from(self) -> None:
        problem = self.problem()
        data = problem.observe(self.table)
        assert data.x.tolist() == [[1, 1], [0, 0], [1, 2], [0, 1], [1, -1], [-1, 0]]
        assert data.available.tolist() == [[v >= 0 for v in row] for row in data.x.tolist()]
        assert fit_plan(problem, data, "restoration").first_action == "fever"

    def test_costs_as_a_series_go_by_name(self) -> None:
        assert self.problem(costs=pd.Series({"rash": 2, "fever": 1})).costs.tolist() == [1, 2]

    def test_a_plan_takes_values_as_they_stand_in_the_table(self) -> None:
        table = pd.DataFrame({"a": [0, 1, None, 1], "b": [0, 0, 1, 1], "y": [0, 1, 1, 1]})
        plan = FiniteProblem.from_table(table, label="y", budget=2).optimal_plan()
        assert plan.first_action == "a"
        assert plan({"a": table["a"].iloc[1]}) == plan({"a": 1}) == plan({"a": "1"})
        assert plan({"a": float("nan"), "b": None}) == "a"

    def test_polars(self) -> None:
        problem = FiniteProblem.from_table(pl.from_pandas(self.table), label="ill", budget=2)
        assert problem.origin == "estimated from 4 complete rows of 6"

    def test_categories_keep_their_order_and_whole_floats_their_looks(self) -> None:
        grade = pd.Categorical(["low", "high", "low"], categories=["low", "mid", "high"], ordered=True)
        table = pd.DataFrame({"grade": grade, "code": [1.0, 2.0, None], "y": [0, 1, 0]})
        problem = FiniteProblem.from_table(table, label="y", budget=1)
        assert problem.value_names == (("low", "high"), ("1", "2"))

    def test_rows_without_a_label_are_not_complete(self) -> None:
        table = self.table.assign(ill=self.table["ill"].where(self.table.index != 2))
        assert "3 complete rows of 6" in FiniteProblem.from_table(table, label="ill", budget=2).origin

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"label": "sick"}, "no column 'sick'; its columns are 'fever', 'rash', 'ill'"),
            ({"costs": {"rash": 1}}, "no price for the feature 'fever'"),
            ({"costs": {"rash": 1, "fever": 1, "cough": 1}}, "costs names 'cough'"),
            ({"costs": {"rash": -1, "fever": 1}}, "the cost of rash is -1"),
            ({"costs": [1]}, "1 entries, but 2"),
            ({"costs": 1}, "costs must be prices by column name or in column order, got 1"),
            ({"budget": 0.5}, "buys nothing"),
        ],
    )
    def test_bad_arguments(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.problem(**changes)

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (pd.DataFrame({"a": [1, None], "y": [None, 1]}), "one class only"),
            (pd.DataFrame({"a": [1, None, None], "y": [None, 1, 0]}), "no row of the table is complete"),
            (pd.DataFrame({"a": [None, None], "y": [0, 1]}), "column 'a' is empty"),
            (pd.DataFrame({"y": [0, 1]}), "no column besides the label"),
            (pd.DataFrame([[1, 2, 0]], columns=["a", "a", "y"]), "two columns are called 'a'"),
            (pd.DataFrame({"a": [], "y": []}), "the table is empty"),
            ([[1, 2]], "DataFrame is needed, got list"),
            (pd.DataFrame({"a": [[1], [2]], "y": [0, 1]}), r"column 'a', row 0: \[1\] cannot be a category"),
        ],
    )
    def test_bad_tables(self, table: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            FiniteProblem.from_table(table, label="y", budget=1)

    def test_too_many_values_are_refused_with_the_number_of_states(self) -> None:
        table = pd.DataFrame({"a": range(1000), "b": range(1000), "y": [0, 1] * 500})
        with pytest.raises(
            TooLargeError, match=r"1,002,001 states .* at most 200,000.*\(the most is 1,000\)"
        ):
            FiniteProblem.from_table(table, label="y", budget=2)

    def test_new_rows_must_have_known_values(self) -> None:
        problem = self.problem()
        with pytest.raises(InputError, match="column 'rash', row 0: the value 'awful' is not one of"):
            problem.observe(pd.DataFrame({"fever": [True], "rash": ["awful"], "ill": ["no"]}))
        with pytest.raises(InputError, match="lacks the column 'rash'"):
            problem.observe(pd.DataFrame({"fever": [True], "ill": ["no"]}))
        assert (
            len(problem.observe(self.table.assign(ill=self.table["ill"].where(self.table.index != 2)))) == 5
        )
        with pytest.raises(InputError, match="from_table"):
            shortcut(4, 2).observe(self.table)


def test_wide_features_are_refused_before_they_fill_the_memory() -> None:
    table = pd.DataFrame({"id": range(40_000), "b": [0, 1] * 20_000, "y": [0, 1] * 20_000})
    with pytest.raises(TooLargeError, match="40,000"):
        FiniteProblem.from_table(table, label="y", budget=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probability": np.array([0.5, 0.6])}, "sums to 1.1, not to 1"),
        ({"probability": np.array([1.5, -0.5])}, r"\[1\] is -0.5, not a probability"),
        ({"x": np.array([[0], [2]])}, r"x\[1, 0\] of the atoms is 2"),
        ({"y": np.array([0, 2])}, r"y of the atoms\[1\] is 2, outside the classes"),
        ({"x": np.array([[0, 0], [1, 1]])}, r"x of the atoms has shape \(2, 2\)"),
    ],
)
def test_bad_atoms_are_refused(changes: dict[str, np.ndarray], message: str) -> None:
    atoms = Atoms(np.array([[0], [1]]), np.array([0, 1]), np.array([0.5, 0.5]), (2,), 2)
    assert FiniteProblem(atoms, budget=1).value(FiniteProblem(atoms, budget=1).optimal_plan()) == 1
    with pytest.raises(InputError, match=message):
        FiniteProblem(atoms._replace(**changes), budget=1)  # type: ignore[arg-type]


def test_too_many_atoms_are_refused() -> None:
    n = 2**20 + 1
    atoms = Atoms(np.zeros((n, 1), int), np.zeros(n, int), np.full(n, 1 / n), (2,), 2)
    with pytest.raises(TooLargeError, match="1,048,577 atoms"):
        FiniteProblem(atoms, budget=1)


def test_observations_infer_what_is_available() -> None:
    data = Observations([[0.0, float("nan")], [-1.0, 1.0]], [0, 1])
    assert data.available.tolist() == [[True, False], [False, True]]
