"""The sentences of the report against results for which the right sentence is known."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain.analysis._compute import Compute
from ascertain.analysis._results import Results
from ascertain.analysis.report._findings import find
from tests.analysis.report.studies import Scores, grid, study

MINUS = "\u2212"

# Around a mean, one per split: small beside the differences below, and not constant.
NOISE = np.array([-0.002, -0.001, 0.0, 0.001, 0.002])
WIDE = 50 * NOISE  # large beside them


def treated(
    damage: Callable[[str, str], float] | float, gain: float | None = None, noise: np.ndarray = NOISE
) -> Callable[[str, str, int], Scores]:
    """Scores whose mean damage and gain over five splits are those given."""

    def scores(method: str, dataset: str, split: int) -> Scores:
        loss = damage if isinstance(damage, float) else damage(method, dataset)
        restricted = 0.8 - loss - float(noise[split])
        restored = None if gain is None else restricted + gain + float(noise[split])
        return {"complete": 0.8, "restricted": restricted, "restored": restored}

    return scores


def sentences(results: Results, heading: str) -> list[str]:
    groups = {group.title: group.sentences for group in find(results)}
    return next((found for title, found in groups.items() if title.startswith(heading)), [])


def test_clear_damage_is_said_with_its_size_and_interval() -> None:
    first, *rest = sentences(study(grid(treated(0.05))), "Damage under MCAR at rate 0.7")
    # All cells have the same noise, so the interval is that of a mean over five splits of the noise.
    draws = NOISE[np.random.default_rng(0).integers(0, 5, (2000, 5))].mean(axis=1)
    low, high = (0.05 + np.percentile(draws, level) for level in (2.5, 97.5))
    assert first == (
        f"Restricted training scores 0.050 ({low:.3f} to {high:.3f}) lower than training on complete data, "
        "averaged over 2 methods, 2 datasets and 5 splits."
    )
    assert any(sentence.startswith("Clearly damaged: AACO 0.050 (") for sentence in rest)
    assert not any("no clear" in sentence.lower() for sentence in rest)


def test_an_interval_with_zero_is_no_clear_damage() -> None:
    first, second, *_ = sentences(study(grid(treated(0.01, noise=WIDE))), "Damage")
    assert first.startswith(f"There is no clear damage: it is 0.010 ({MINUS}0.")
    assert second.startswith(f"No clear damage (the interval includes zero): AACO 0.010 ({MINUS}0.")


def test_an_interval_that_prints_as_zero_is_not_clear() -> None:
    # 0.0003 ± 0.0001 is above zero but printed as 0.000: the page must not seem to contradict itself.
    first, *_ = sentences(study(grid(treated(0.0003, noise=NOISE / 20))), "Damage")
    assert first.startswith("There is no clear damage: it is 0.000 (0.000 to 0.000)")


def test_negative_damage_is_said_to_be_an_advantage_of_restriction() -> None:
    first, second, *_ = sentences(study(grid(treated(-0.03))), "Damage")
    assert re.match(r"Restricted training scores 0\.030 \(0\.02\d to 0\.03\d\) higher than", first)
    heading = "Clearly better after restricted training, so with negative damage: AACO"
    assert second.startswith(f"{heading} {MINUS}0.030 ({MINUS}0.0")


def test_the_most_and_least_damaged_are_named() -> None:
    damages = {"aaco": 0.09, "dime": 0.01, "ol": 0.05}
    factor = {"cube": 1.0, "actg175": 0.5, "miniboone": 0.0}
    rows = grid(
        treated(lambda method, dataset: damages[method] * factor[dataset]), datasets=factor, methods=damages
    )
    found = sentences(study(rows), "Damage")
    assert (
        "Among methods, the largest damage is that of AACO (0.045), the smallest that of DIME (0.005), "
        "on average over 3 datasets." in found
    )
    assert (
        "Among datasets, the largest damage is that of CUBE (0.050), the smallest that of MiniBooNE (0.000), "
        "on average over 3 methods." in found
    )


def test_equals_share_a_place() -> None:
    damages = {"aaco": 0.05, "dime": 0.01, "gdfs": 0.01}
    rows = grid(treated(lambda method, _: damages[method]), methods=damages, datasets=["cube"])
    found = sentences(study(rows), "Damage")
    most = "Among methods, the largest damage is that of AACO (0.050)"
    assert f"{most}, the smallest that of DIME and GDFS (0.010)." in found
    assert not any(sentence.startswith("Among datasets") for sentence in found)


@pytest.mark.parametrize(
    ("myopic", "planning", "noise", "said"),
    [
        (0.01, 0.06, NOISE, "0.050 (0.050 to 0.050), so the myopic ones are clearly damaged less."),
        (0.06, 0.01, NOISE, "-0.050 (-0.050 to -0.050), so the myopic ones are clearly damaged more."),
        (0.03, 0.03, WIDE, "0.000 (0.000 to 0.000), so neither kind is clearly damaged less."),
    ],
)
def test_planning_is_judged_by_the_difference(
    myopic: float, planning: float, noise: np.ndarray, said: str
) -> None:
    # The noise of a split is the same for all methods and cancels, as that of a hard split does.
    rows = grid(
        treated(lambda method, _: myopic if method in ("dime", "gdfs") else planning, noise=noise),
        methods=["dime", "gdfs", "ol"],
    )
    (found,) = [each for each in sentences(study(rows), "Damage") if "myopic" in each]
    assert "myopic methods (DIME and GDFS)" in found
    assert "non-myopic ones (OL)" in found
    assert found.endswith(f"a difference of {said}".replace("-", MINUS))


def test_what_restoration_recovers() -> None:
    first, second, third = sentences(
        study(grid(treated(0.05, gain=0.02))), "Restoration under MCAR at rate 0.7"
    )
    assert re.match(r"Restoration by PVAE scores 0\.020 \(0\.01\d to 0\.02\d\) higher than restricted", first)
    assert first.endswith("; that is 40% of the damage of 0.050.")
    assert second.startswith("Clearly better on restored than on restricted data, by: AACO 0.020 (0.01")
    assert third == (
        "Of 4 pairs of method and dataset, restoration is clearly better than restricted training in 4, "
        "clearly worse in 0, and neither in 0."
    )


def test_a_negative_gain_is_said_to_be_a_loss() -> None:
    first, second, _ = sentences(study(grid(treated(0.05, gain=-0.02))), "Restoration")
    assert re.match(r"Restoration by PVAE scores 0\.020 \(0\.01\d to 0\.02\d\) lower than restricted", first)
    assert "%" not in first
    assert second.startswith("Clearly worse on restored than on restricted data, by: AACO 0.020 (0.01")


def test_a_gain_without_damage_is_no_share_of_it() -> None:
    first, *_ = sentences(study(grid(treated(-0.01, gain=0.02))), "Restoration")
    assert "higher than restricted" in first
    assert "%" not in first


def test_a_gain_that_may_be_chance_is_called_unclear() -> None:
    first, second, third = sentences(study(grid(treated(0.05, gain=0.001, noise=WIDE))), "Restoration")
    no_gain = "Restoration by PVAE brings no clear gain over restricted training"
    assert first.startswith(f"{no_gain}: it is 0.001 ({MINUS}0.")
    assert second.startswith(f"No clear gain (the interval includes zero): AACO 0.001 ({MINUS}0.")
    assert third.endswith("better than restricted training in 0, clearly worse in 0, and neither in 4.")


def test_one_split_has_no_interval_and_no_verdict() -> None:
    found = [
        sentence
        for group in find(study(grid(treated(0.05, gain=0.02), splits=[2], methods=["aaco", "dime"])))
        for sentence in group.sentences
    ]
    assert found[0] == (
        "Damage is 0.050, from a single split and so without an interval, averaged over 2 methods, "
        "2 datasets and 1 split."
    )
    assert not any("clear" in sentence for sentence in found)


def test_the_two_states_of_a_method_are_one_family() -> None:
    rows = grid(treated(0.02), methods=["ol"], state="s") + grid(treated(0.06), methods=["ol"], state="sm")
    assert any(
        sentence.startswith("Clearly damaged: OL 0.040 (") for sentence in sentences(study(rows), "Damage")
    )


def test_means_are_over_what_all_have() -> None:
    # JAFA has only CUBE, where damage is small; over its own datasets it would seem the least damaged.
    damages = {"cube": 0.01, "actg175": 0.09}
    rows = grid(treated(lambda _, dataset: damages[dataset]), methods=["aaco", "dime"], datasets=damages)
    rows += grid(treated(0.02), methods=["jafa"], datasets=["cube"])
    found = sentences(study(rows), "Damage")
    assert found[0].endswith("averaged over 3 methods, 1 dataset and 5 splits.")
    assert any("largest damage is that of JAFA (0.020)" in sentence for sentence in found)
    assert found[-1] == "Left out of these means, because some of their cells are not there: ACTG175."


def test_methods_without_a_common_dataset_are_left_out() -> None:
    rows = grid(treated(0.05), methods=["aaco"], datasets=["cube", "actg175"])
    rows += grid(treated(0.01), methods=["dime"], datasets=["miniboone"])
    found = sentences(study(rows), "Damage")
    assert "1 method, 2 datasets" in found[0]
    assert found[-1].endswith("not there: DIME and MiniBooNE.")


def test_rates_are_compared_over_the_same_cells() -> None:
    rows = grid(treated(0.05), rate=0.7) + grid(treated(0.02), rate=0.5)[:]
    rows += grid(treated(0.01), rate=0.3, datasets=["cube"])
    found = sentences(study(_once(rows)), "Rates and mechanisms")
    assert found[0].startswith("Under MCAR the mean damage is 0.010 (")
    assert found[0].endswith("at rate 0.7; these means grow with the rate.")
    assert found[1].startswith("These means are over the 2 pairs of method and dataset and 5 splits")


def test_a_damage_that_falls_with_the_rate_is_not_said_to_grow() -> None:
    rows = grid(treated(0.02), rate=0.7) + grid(treated(0.05), rate=0.3)
    rows += grid(treated(0.04), rate=0.3, mechanism="mar")
    found = sentences(study(_once(rows)), "Rates and mechanisms")
    assert found[0].endswith("; these means do not grow at every step.")
    assert found[1].startswith("Under MAR the mean damage is 0.040 (")
    assert "grow" not in found[1]


def test_nothing_is_said_without_restricted_training() -> None:
    rows = [row for row in grid(treated(0.05)) if row["treatment"] == "complete"]
    assert find(study(rows)) == []


def test_nothing_is_said_of_damage_without_complete_data() -> None:
    rows = [row for row in grid(treated(0.05, gain=0.02)) if row["treatment"] != "complete"]
    titles = [group.title for group in find(study(rows))]
    assert titles == ["Restoration under MCAR at rate 0.7"]


def test_adaptivity_is_said_where_there_are_routes() -> None:
    damages = {"aaco": 0.09, "dime": 0.01}
    routes = pd.DataFrame(
        [
            {"dataset": dataset, "split": split, "protocol": "afabench", "budget": 10, "v_static": 0.7}
            | {"sensitivity": 0.1, "overlap": 0.2, "routes": 2000}
            for dataset in ("cube", "actg175")
            for split in range(5)
        ]
    )

    def scores(method: str, dataset: str, split: int) -> Scores:
        complete = {"aaco": 0.75, "dime": 0.65}[method]
        loss = damages[method] + (0.01 if dataset == "cube" else 0.0)
        return {"complete": complete, "restricted": complete - loss + float(NOISE[split])}

    margin, correlation = sentences(study(grid(scores), routes=routes), "Adaptivity")
    assert f"positive for AACO (0.050), negative for DIME ({MINUS}0.050)." in margin
    damage = [0.1, 0.09, 0.02, 0.01]
    expected = np.corrcoef([0.05, 0.05, -0.05, -0.05], damage)[0, 1]
    assert f"over 4 pairs of method and dataset with Pearson's r = {expected:.2f} and" in correlation


def test_each_way_of_restoring_is_judged_by_itself() -> None:
    rows = grid(treated(0.05, gain=0.02))
    restored = [row for row in rows if row["treatment"] == "restored"]
    rows += [{**row, "restorer": "hotdeck", "score": row["score"] - 0.06} for row in restored]
    found = [each for each in sentences(study(rows), "Restoration") if each.startswith("Restoration by")]
    assert "Restoration by PVAE scores 0.020" in found[0]  # the main one first
    assert found[1].startswith("Restoration by hot deck scores 0.040 (")
    assert " lower than restricted training" in found[1]


def test_the_order_of_methods_is_compared_pair_by_pair() -> None:
    # The paper: OL 0.092, GDFS 0.059, DIME 0.002. Here GDFS is damaged the most, the others as in the paper.
    damages = {"gdfs": 0.08, "ol": 0.05, "dime": 0.01, "mine": 0.5}
    rows = grid(treated(lambda method, _: damages[method]), methods=damages, datasets=["cube", "mine"])
    (found,) = sentences(study(rows), "Order of methods under MCAR at rate 0.7")
    assert found == (
        "From the most to the least damaged, over 1 of the paper's eight datasets, the methods are GDFS, OL, "
        "DIME; 2 of 3 pairs of methods are in the order of the paper's table 2."
    )


def test_methods_damaged_alike_are_in_no_order() -> None:
    (found,) = sentences(study(grid(treated(0.03))), "Order of methods")
    assert "; 0 of 1 pair of methods are in the order" in found


def test_the_time_of_restoring(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute(pd.DataFrame({"ratio": [1.0, 1.1, 1.2, 2.0]}), 1.15, 0.75, 0.75, 29.3)
    monkeypatch.setattr("ascertain.analysis.report._findings.compute_comparison", lambda results: compute)
    assert sentences(study(grid(treated(0.03))), "Time") == [
        "Training on restored data takes a median of 1.15 times the seconds of restricted training, over 4 "
        "pairs; 75% are within 1.25 times, 75% within 1.5 times.",
        "The restorer's part in the time of one trained policy has a median of 29.3 s.",
    ]


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Training on complete data is the same for every rate."""
    seen = set()
    kept = []
    for row in rows:
        key = tuple(value for name, value in row.items() if name != "score")
        if key not in seen:
            kept.append(row)
        seen.add(key)
    return kept
