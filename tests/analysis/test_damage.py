"""Damage and gain, against numbers worked out by hand and a bootstrap written out as a loop."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain.analysis._damage import damage_and_gain, order_by_damage, paired_scores
from ascertain.analysis._results import Setting, main_setting
from ascertain.reporting._names import with_policies

from .made_up import arms, cell, results_of

MAIN = Setting("mcar", 0.7, "pvae")


def loop_bootstrap(values: list[float]) -> tuple[float, float]:
    """Resample as the specification says, one draw after the other."""
    n = len(values)
    indices = np.random.default_rng(0).integers(0, n, (2000, n))
    means = sorted(sum(values[i] for i in row) / n for row in indices.tolist())
    return float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


def only(frame: pd.DataFrame) -> "pd.Series[Any]":
    assert len(frame) == 1
    return frame.iloc[0]


def test_damage_and_gain_are_differences_of_means() -> None:
    complete, restricted = [0.9, 0.8, 0.7, 0.85, 0.75], [0.6, 0.7, 0.5, 0.65, 0.55]
    restored = [0.7, 0.6, 0.6, 0.75, 0.6]
    row = only(damage_and_gain(results_of(arms("cube", "dime", complete, restricted, restored)), "family"))
    assert row[["complete", "restricted", "restored"]].tolist() == pytest.approx([0.8, 0.6, 0.65])
    assert (row["damage"], row["gain"], row["splits"]) == (pytest.approx(0.2), pytest.approx(0.05), 5)
    # By hand: damages .3 .1 .2 .2 .2, their deviations .1 -.1 0 0 0, variance .02 / 4.
    assert row["damage_se"] == pytest.approx(np.sqrt(0.02 / 4 / 5))
    differences = {
        "restricted": restricted,
        "damage": [0.3, 0.1, 0.2, 0.2, 0.2],
        "gain": [0.1, -0.1, 0.1, 0.1, 0.05],
    }
    for name, values in differences.items():
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(loop_bootstrap(values))


def test_families_average_their_state_variants_split_by_split() -> None:
    rows = arms("cube", "ol", [0.8, 0.6], [0.4, 0.4], [0.5, 0.5])
    rows += arms("cube", "ol", [0.6, 0.8], [0.2, 0.4], [0.7, 0.3], state="sm")
    results = results_of(rows)
    family = only(damage_and_gain(results, "family"))
    assert (family["state"], family["complete"]) == ("", pytest.approx(0.7))
    assert (family["damage"], family["gain"]) == (pytest.approx(0.35), pytest.approx(0.15))
    assert family["complete_se"] == pytest.approx(0)  # the averages are .7 in both splits
    variants = damage_and_gain(results, "variant").set_index("state")
    assert variants["damage"].to_dict() == pytest.approx({"s": 0.3, "sm": 0.4})


def test_a_split_counts_only_where_all_variants_and_treatments_are_finished() -> None:
    rows = arms("cube", "ol", [0.9, 0.8, 0.7], [0.5, 0.4, 0.3], [0.6, None, 0.6])
    rows += arms("cube", "ol", [0.9, 0.8, 0.7], [None, 0.4, 0.3], [0.6, 0.6, 0.6], state="sm")
    family = only(damage_and_gain(results_of(rows), "family"))
    assert family["splits"] == 1  # the last: (s) is not restored in split 1, (s,m) not restricted in split 0
    assert (family["damage"], family["gain"]) == (pytest.approx(0.4), pytest.approx(0.3))
    assert np.isnan(family[["damage_low", "damage_high", "damage_se"]].to_numpy(float)).all()  # one split
    variants = damage_and_gain(results_of(rows), "variant").set_index("state")
    assert variants["splits"].to_dict() == {"s": 2, "sm": 2}


def test_variants_trained_for_other_budgets_are_not_averaged_or_paired() -> None:
    rows = arms("cube", "ol", [0.8], [0.6]) + arms("cube", "ol", [0.8], [0.6], state="sm", train_budget=20.0)
    assert damage_and_gain(results_of(rows), "family").empty
    rows = cell("cube", "dime", "complete", [0.8], train_budget=20.0) + cell(
        "cube", "dime", "restricted", [0.6]
    )
    assert np.isnan(only(damage_and_gain(results_of(rows)))["damage"])


def test_what_is_missing_is_nan_and_nothing_else_is() -> None:
    rows = cell("cube", "dime", "restricted", [0.5, 0.6]) + cell("cube", "dime", "restored", [0.7, 0.7])
    rows += arms("cube", "gdfs", [0.8, None], [0.5, 0.6])
    rows += arms("cube", "aaco", [0.8, 0.9], [0.5, float("nan")], [0.6, 0.6])  # a score that is not a number
    rows += cell("cube", "jafa", "complete", [0.9])  # nothing to compare with
    frame = damage_and_gain(results_of(rows)).set_index("method")
    assert frame.index.tolist() == ["aaco", "dime", "gdfs"]
    assert frame["splits"].to_dict() == {"aaco": 1, "dime": 2, "gdfs": 1}
    assert frame["damage"].dropna().to_dict() == pytest.approx({"aaco": 0.3, "gdfs": 0.3})
    assert frame["gain"].dropna().to_dict() == pytest.approx({"aaco": 0.1, "dime": 0.15})


def test_every_restorer_of_the_study_has_a_row_in_every_cell() -> None:
    rows = arms("cube", "dime", [0.8, 0.8], [0.5, 0.5], [0.6, None])
    rows += cell("cube", "dime", "restored", [0.7, 0.8], restorer="hotdeck")
    rows += arms("heart", "dime", [0.8], [0.7])
    frame = damage_and_gain(results_of(rows)).set_index(["dataset", "restorer"])
    assert frame["splits"].to_dict() == {
        ("cube", "hotdeck"): 2,
        ("cube", "pvae"): 1,
        ("heart", "hotdeck"): 1,
        ("heart", "pvae"): 1,
    }
    assert frame["gain"].dropna().to_dict() == pytest.approx(
        {("cube", "hotdeck"): 0.25, ("cube", "pvae"): 0.1}
    )
    assert frame["damage"].notna().all()


def test_only_the_largest_budget_counts() -> None:
    rows = arms("cube", "dime", [0.8], [0.6]) + arms("cube", "dime", [0.3], [0.3], budget=3.0)
    assert only(damage_and_gain(results_of(rows)))["damage"] == pytest.approx(0.2)


def test_nothing_gives_an_empty_frame_with_the_same_columns() -> None:
    empty = damage_and_gain(results_of([]))
    some = damage_and_gain(results_of(arms("cube", "dime", [0.8], [0.6])))
    assert empty.empty
    assert list(empty.columns) == list(some.columns)
    assert paired_scores(results_of([])).empty


def test_the_order_is_by_mean_damage_in_the_main_setting() -> None:
    rows = arms("a", "dime", [0.8], [0.7]) + arms("b", "dime", [0.8], [0.75])
    rows += arms("a", "ol", [0.8], [0.3]) + arms("b", "ol", [0.8], [0.8])
    rows += arms("a", "random", [0.8], [0.0]) + arms("b", "random", [0.8], [0.0])  # baselines do not count
    rows += arms("c", "ol", [0.9], [0.1], mechanism="mar")  # damage unknown in the main setting: last
    rows += arms("b", "dime", [], [0.0], mechanism="mar")
    frame = with_policies(damage_and_gain(results_of(rows), "variant"))
    setting = Setting("mcar", 0.7, "")
    assert order_by_damage(frame, "dataset", setting) == ["a", "b", "c"]
    assert order_by_damage(frame, "method", setting) == ["ol", "dime"]
    assert order_by_damage(frame, "policy", setting) == ["OL (s)", "DIME"]


def test_the_main_setting_is_the_papers_where_it_is_there() -> None:
    rows = arms("a", "dime", [0.8], [0.7], [0.7])
    rows += arms("a", "dime", [], [0.7], [0.7], rate=0.9) + arms("a", "dime", [], [0.7], mechanism="mar")
    rows += cell("a", "dime", "restored", [0.7], restorer="hotdeck")
    assert main_setting(results_of(rows)) == MAIN
    assert main_setting(results_of(rows), rate=0.5).rate == 0.9  # not studied: the largest
    other = arms("a", "dime", [0.8], [0.7], [0.7], mechanism="mine", rate=0.2, restorer="mean")
    assert main_setting(results_of(other)) == Setting("mine", 0.2, "mean")
    with pytest.raises(InputError, match="no cell with missing data"):
        main_setting(results_of(cell("a", "dime", "complete", [0.8])))
