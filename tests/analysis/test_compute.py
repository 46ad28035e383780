"""The time that restoration takes: seconds shared out by hand."""

from typing import Any

import pytest

from ascertain import InputError
from ascertain.analysis._compute import compute_comparison

from .made_up import Row, results_of


def work(stage: str, seconds: float, treatment: str = "restricted", **more: Any) -> Row:
    return {
        "stage": stage,
        "dataset": "cube",
        "treatment": treatment,
        "restorer": "pvae" if treatment == "restored" else "",
        "mechanism": "mcar",
        "rate": 0.7,
        "split": 0,
        "protocol": "paper",
        "seconds": seconds,
        "device": "cpu",
        **more,
    }


def study() -> list[Row]:
    """Four policies: DIME, both of JAFA and ODIN (s); a PVAE of 10 s and restored tables in 4 s."""
    rows = []
    for treatment, factor in (("restricted", 1.0), ("restored", 2.0)):
        for method, state in (("dime", "s"), ("jafa", "s"), ("jafa", "sm"), ("odin", "s")):
            rows.append(work("fit", 10 * factor, treatment, method=method, state=state))
        rows.append(work("pretrain", 6 * factor, treatment, method="jafa"))  # of both variants
        rows.append(work("pretrain", 3 * factor, treatment, method="dime", state="s"))
    rows += [work("vae", 10.0), work("vae", 5.0, "restored"), work("restore", 4.0, "restored")]
    rows += [work("fit", 99.0, arm, method="random", state="s") for arm in ("restricted", "restored")]
    rows.append(work("predictor", 1000.0, "complete", mechanism="", rate=0.0))
    return rows


def test_every_policy_pays_for_its_own_work_and_a_part_of_what_it_shares() -> None:
    found = compute_comparison(results_of([], timings=study()))
    pairs = found.pairs.set_index(["method", "state"])
    # The PVAE serves ODIN on restricted data and four restored policies: 10 / 5. Tables: 4 / 4.
    assert pairs["amortised"].tolist() == pytest.approx([3.0] * 4)
    assert pairs["restricted"].to_dict() == pytest.approx(
        {("dime", "s"): 13.0, ("jafa", "s"): 13.0, ("jafa", "sm"): 13.0, ("odin", "s"): 12.0}
    )
    assert pairs["restored"].to_dict() == pytest.approx(
        {("dime", "s"): 29.0, ("jafa", "s"): 29.0, ("jafa", "sm"): 29.0, ("odin", "s"): 28.0}
    )
    assert found.median_ratio == pytest.approx(29 / 13)
    assert found.median_amortised == pytest.approx(3.0)
    assert (found.within_1_25, found.within_1_5) == (0.0, 0.0)


def test_shares_of_pairs_count_the_limit_itself() -> None:
    rows = [work("restore", 0.0, "restored", restorer="mean")]
    for method, seconds in (("a", 12.5), ("b", 15.0), ("c", 16.0), ("d", 5.0)):
        rows.append(work("fit", 10.0, method=method, state="s"))
        rows.append(work("fit", seconds, "restored", method=method, state="s", restorer="mean"))
    found = compute_comparison(results_of([], timings=rows))
    assert (found.within_1_25, found.within_1_5) == (0.5, 0.75)
    assert found.median_ratio == pytest.approx((1.25 + 1.5) / 2)


def test_pairs_are_of_one_device_and_need_everything_timed() -> None:
    elsewhere = [{**row, "device": "gpu"} if row["treatment"] == "restored" else row for row in study()]
    with pytest.raises(InputError, match="both on restricted and on restored"):
        compute_comparison(results_of([], timings=elsewhere))
    untimed = [row for row in study() if row["stage"] != "vae"]
    with pytest.raises(InputError, match="both on restricted and on restored"):
        compute_comparison(results_of([], timings=untimed))
    with pytest.raises(InputError, match="both on restricted and on restored"):
        compute_comparison(results_of([]))


def test_other_restorers_need_no_pvae() -> None:
    rows = [row for row in study() if row["stage"] != "vae"]
    rows = [{**row, "restorer": "hotdeck"} if row["treatment"] == "restored" else row for row in rows]
    pairs = compute_comparison(results_of([], timings=rows)).pairs
    assert pairs["amortised"].tolist() == pytest.approx([1.0] * 4)
    assert set(pairs["restorer"]) == {"hotdeck"}
