"""What is said of holes, against holes that we made and know, and against scipy's tests."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ascertain.missingness import little_test
from ascertain.missingness._label_signs import LEVEL, signs_of_label
from ascertain.practice.diagnosis._holes import (
    Holes,
    find_holes,
    normal_scores,
    rank_sums,
    signs_of_values,
)
from ascertain.tables._encoding import fit_encoding


def holes_of(table: pd.DataFrame, y: np.ndarray) -> Holes:
    encoding = fit_encoding(table)
    x, available = encoding.transform(table)
    readable = np.asarray(encoding.problem(None, ["no", "yes"]).readable(jnp.asarray(available)))
    return find_holes(encoding, x.astype(np.float64), available, readable, y, ("no", "yes"))[0]


def made_up(seed: int, n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw skewed numbers and a category, with holes by chance alone."""
    rng = np.random.default_rng(seed)
    normal = rng.multivariate_normal(np.zeros(3), 0.5 * np.eye(3) + 0.5, n)
    table = pd.DataFrame(np.exp(1.5 * normal), columns=["a", "b", "c"])
    table["colour"] = pd.Series(rng.choice(["red", "green", "blue"], n, p=[0.6, 0.3, 0.1]), dtype=object)
    table = table.mask(rng.random(table.shape) < 0.3)
    return table, rng.integers(0, 2, n)


def test_rank_sums_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 12, 200).astype(float)  # with many ties
    groups = rng.random((200, 3)) < [0.3, 0.5, 0.02]
    auroc, p_value = rank_sums(values, groups)
    for group in (0, 1):
        inside, outside = values[groups[:, group]], values[~groups[:, group]]
        wanted = stats.mannwhitneyu(inside, outside, use_continuity=False, method="asymptotic")
        assert p_value[group] == pytest.approx(wanted.pvalue, rel=1e-9)
        assert auroc[group] == pytest.approx(wanted.statistic / (len(inside) * len(outside)))
    assert np.isnan(auroc[2])  # too few rows
    assert np.isnan(p_value[2])


@pytest.mark.slow
def test_nothing_is_found_where_holes_are_chance() -> None:
    # Three kinds of tests, each at most LEVEL for a table if its approximations hold: of 12 tables 0.36 are
    # expected to show a sign, and 4 or more have a probability below 1e-3.
    found = [holes_of(*made_up(seed)).against_mcar for seed in range(12)]
    assert LEVEL == 0.01
    assert sum(found) < 4


@pytest.mark.slow
def test_normal_scores_save_little_from_skewed_values() -> None:
    # Of 30 p-values 1.5 are expected below 0.05 by chance alone, and 7 or more have a probability below 1e-3.
    # Lognormal values as they are give far more: a few of them make up most of a mean.
    scored, as_they_are = 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        values = np.exp(1.5 * rng.multivariate_normal(np.zeros(8), 0.5 * np.eye(8) + 0.5, 600))
        table = pd.DataFrame(values, columns=list("abcdefgh")).mask(rng.random(values.shape) < 0.3)
        encoding = fit_encoding(table)
        x, available = encoding.transform(table)
        scores, features = normal_scores(encoding, x, available)
        assert features == list(range(8))
        with_scores, without = little_test(scores, available), little_test(x.astype(np.float64), available)
        assert with_scores is not None
        assert without is not None
        scored += with_scores.p_value < 0.05
        as_they_are += without.p_value < 0.05
    assert scored < 7 <= as_they_are


def test_dependence_on_the_label_is_found_and_measured() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    table = pd.DataFrame(rng.normal(size=(1000, 3)), columns=["a", "b", "c"])
    share = np.where(y == 1, 0.8, 0.4)
    table.loc[rng.random(1000) > share, "b"] = np.nan
    table.loc[rng.random(1000) > 0.6, "c"] = np.nan
    holes = holes_of(table, y)
    assert [sign.action for sign in holes.label_signs] == ["b"]
    assert holes.label_comparisons == 2
    sign = holes.label_signs[0]
    # The share of about 500 rows has a standard error of at most 0.022; four of them.
    assert sign.measured["yes"] == pytest.approx(0.8, abs=0.09)
    assert sign.measured["no"] == pytest.approx(0.4, abs=0.09)
    counts = pd.crosstab(table["b"].notna(), y).to_numpy()
    wanted = 2 * stats.chi2_contingency(counts, correction=False).pvalue
    assert sign.p_value == pytest.approx(wanted, rel=1e-6, abs=0)


def test_dependence_on_another_column_is_found_among_rows_that_have_it() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(1000, 3)), columns=["a", "b", "c"])
    gone = rng.random(1000) < 1 / (1 + np.exp(-2 * table["a"]))
    table.loc[gone, "b"] = np.nan
    table.loc[rng.random(1000) < 0.5, "a"] = np.nan
    encoding = fit_encoding(table)
    x, available = encoding.transform(table)
    signs, compared = signs_of_values(encoding, x.astype(np.float64), available, available)
    assert [(sign.action, sign.feature) for sign in signs] == [("b", "a")]
    assert compared == 2 + 2  # b and c for holes of a, a and c for those of b; c has none
    both = table["a"].notna()
    inside, outside = table["a"][both & gone], table["a"][both & ~gone]
    wanted = stats.mannwhitneyu(inside, outside, use_continuity=False, method="asymptotic")
    assert signs[0].p_value == pytest.approx(4 * wanted.pvalue, rel=1e-6, abs=0)  # of four comparisons
    sizes = int((both & gone).sum() * (both & ~gone).sum())
    assert signs[0].auroc == pytest.approx(wanted.statistic / sizes)


def test_patterns_and_counts_are_those_of_the_table() -> None:
    table = pd.DataFrame({"a": [1, 2, np.nan, np.nan, 5], "b": [1, np.nan, 3, 4, np.nan]})
    holes = holes_of(table, np.array([0, 1, 0, 1, 0]))
    assert holes.patterns == 3
    assert {(pattern.rows, pattern.missing) for pattern in holes.commonest} == {
        (2, ("a",)),
        (2, ("b",)),
        (1, ()),
    }
    assert holes.rows_by_actions == (0, 4, 1)
    assert holes.rate == pytest.approx(0.4)
    assert holes.missing == pytest.approx({"a": 0.4, "b": 0.4})


def test_a_complete_table_shows_no_sign() -> None:
    rng = np.random.default_rng(2)
    holes = holes_of(pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"]), rng.integers(0, 2, 50))
    assert holes.rate == 0
    assert not holes.against_mcar
    assert holes.little is None


def test_categories_lose_their_commonest_and_their_rare_indicators() -> None:
    colours = ["red"] * 60 + ["green"] * 30 + ["blue"] * 3
    encoding = fit_encoding(pd.DataFrame({"colour": colours, "one": ["same"] * 93}))
    x, available = encoding.transform(pd.DataFrame({"colour": colours, "one": ["same"] * 93}))
    scores, features = normal_scores(encoding, x, available)
    assert [encoding.feature_names[feature] for feature in features] == ["colour=green"]
    assert scores.sum() == 30


def test_labels_of_actions_that_all_or_no_rows_have_are_not_compared() -> None:
    readable = np.array([[True, False, True], [True, False, False]] * 10)
    signs, compared = signs_of_label(readable, ("a", "b", "c"), np.arange(20) % 2, ("no", "yes"))
    assert compared == 1
    assert [sign.action for sign in signs] == ["c"]
