"""The first steps of policies whose rules are known are described by these rules."""

import numpy as np
import pandas as pd
import pytest

from ascertain.practice.comparison._policy_tree import Branch, describe_policy
from ascertain.practice.comparison._simulation import MOST_ROWS, SimulatedEpisodes, simulate_policy
from ascertain.tables._encoding import Encoding, fit_encoding
from tests.fitted import BUDGET, fitted

N = 400
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "age": RNG.integers(20, 80, N).astype(float),
        "pain": pd.Categorical(RNG.choice(["none", "some", "strong"], N)),
        "smokes": pd.array(RNG.random(N) < 0.5, dtype="boolean"),
        "ecg": RNG.normal(size=N) * 1000,
        "scan": RNG.normal(size=N),
    }
)


def encoding(*known: str) -> Encoding:
    return fit_encoding(ROWS, known=known, costs={"scan": 10, "ecg": 2}, default_cost=1)


def episodes(*steps: np.ndarray) -> SimulatedEpisodes:
    """Make a policy's choices from the names of the actions at each step; None is to stop."""
    return SimulatedEpisodes(ROWS, np.stack(steps, axis=1))


def choice(found: Encoding, name: str | None) -> int:
    return 0 if name is None else 1 + found.action_names.index(name)


def constant(found: Encoding, name: str | None) -> np.ndarray:
    return np.full(N, choice(found, name))


def test_a_fixed_panel_is_one_line() -> None:
    found = encoding()
    tree = describe_policy(episodes(constant(found, "pain"), constant(found, "scan")), found)
    assert tree.branches == (Branch("", 1.0, ("pain", "scan"), 11.0, True, 1.0, ()),)
    assert tree.branches[0].actions_text == "pain and scan (cost 11), then stop"
    assert tree.branches[0].rows_text == "100% of rows"
    assert tree.fidelity == 1.0


@pytest.mark.parametrize(
    ("column", "rule", "high", "low"),
    [
        ("ecg", ROWS["ecg"] > 300, "ecg > ", "ecg ≤ "),
        ("pain", ROWS["pain"] == "some", "pain is some", "pain is not some"),
        ("smokes", ROWS["smokes"], "smokes is yes", "smokes is no"),
    ],
)
def test_rows_part_by_the_value_that_the_rule_uses(
    column: str, rule: "pd.Series[bool]", high: str, low: str
) -> None:
    found = encoding()
    then = np.where(rule, choice(found, "scan"), choice(found, None))
    tree = describe_policy(episodes(constant(found, column), then), found)
    (first,) = tree.branches
    assert (first.actions, first.stops) == ((column,), False)
    parts = {branch.actions_text: branch for branch in first.then}
    assert parts["scan (cost 10), then stop"].condition.startswith(high)
    assert parts["stop"].condition.startswith(low)
    assert parts["stop"].share == pytest.approx(float((~rule).mean()))
    assert tree.fidelity == pytest.approx(1.0)


def test_known_columns_part_rows_before_the_first_step() -> None:
    found = encoding("age")
    first = np.where(ROWS["age"] > 50, choice(found, "ecg"), choice(found, "scan"))
    tree = describe_policy(episodes(first), found)
    assert {branch.condition: branch.actions for branch in tree.branches} == {
        "age > 50.5": ("ecg",),
        "age ≤ 50.5": ("scan",),
    }


def test_values_that_are_not_known_yet_are_not_used() -> None:
    found = encoding()
    first = np.where(ROWS["age"] > 50, choice(found, "ecg"), choice(found, "scan"))
    tree = describe_policy(episodes(first), found)  # age is never acquired, so nothing can be said
    (only,) = tree.branches
    assert only.condition == ""
    assert only.agreement == pytest.approx(max((ROWS["age"] > 50).mean(), (ROWS["age"] <= 50).mean()))
    assert only.rows_text.startswith("100% of rows, of which ")
    assert tree.fidelity == pytest.approx(only.agreement)


def test_chance_is_not_described() -> None:
    found = encoding("age")
    first = np.where(RNG.random(N) < 0.5, choice(found, "ecg"), choice(found, "scan"))
    tree = describe_policy(episodes(first), found)
    assert [branch.condition for branch in tree.branches] == [""]


def test_a_range_has_two_ends() -> None:
    found = encoding("age")
    middle = (ROWS["age"] > 40) & (ROWS["age"] <= 60)
    tree = describe_policy(episodes(np.where(middle, choice(found, "ecg"), choice(found, "scan"))), found)
    conditions = {branch.condition: branch.actions for branch in tree.branches}
    assert conditions["age is 40.5 to 60.5"] == ("ecg",)
    assert len(conditions) == 3


def test_the_description_ends_after_some_forks() -> None:
    found = encoding("age")
    half = np.where(RNG.random(N) < 0.5, choice(found, "ecg"), choice(found, "scan"))
    rest = np.where(half == choice(found, "ecg"), choice(found, "scan"), choice(found, "ecg"))
    tree = describe_policy(episodes(half, rest), found, forks=1)
    assert all(not branch.then for branch in tree.branches)
    assert describe_policy(episodes(half, rest), found, forks=0).branches == ()


def test_a_fitted_policy_is_simulated_in_filled_rows() -> None:
    data, board, _ = fitted()
    found = simulate_policy(board.best.advisor, data.training)
    assert len(found.rows) == len(data.training.y) <= MOST_ROWS
    assert not found.rows.isna().any().any()
    prices = np.array([0.0, *data.encoding.price_list.first])
    assert (prices[found.choices].sum(axis=1) <= BUDGET).all()
    assert set(found.rows["pain"].unique()) == {"none", "strong"}
    # What a row has is left as it is.
    table = data.encoding.inverse(np.asarray(data.training.x), np.asarray(data.training.available))
    there = table["scan"].notna()
    np.testing.assert_allclose(found.rows.loc[there, "scan"], table.loc[there, "scan"])
    shares = found.frequencies(data.encoding.action_names)
    assert shares.groupby("step")["share"].sum().max() <= 1 + 1e-9
    (route,) = describe_policy(found, data.encoding).branches
    assert route.actions[0] in data.encoding.action_names
    assert "blood" in route.actions
