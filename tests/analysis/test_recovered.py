"""What restorers recover, against sums and resamples written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ascertain import InputError
from ascertain.analysis._recovered import (
    against_one_choice,
    by_dataset,
    changes,
    compared_changes,
    compares_ways,
    holm,
    losses,
    recovered,
    summary,
    undamaged,
)

from .made_up import Row, arms, cell, results_of

SETTINGS = [("mcar", 0.7), ("mar", 0.5)]


def study(splits: int = 5, seed: int = 0) -> list[Row]:
    """Two datasets, three policies of the paper and the planner, two settings, three ways; random scores."""
    draws = np.random.default_rng(seed)
    rows = []
    for dataset, effect in (("cube", 0.3), ("actg175", 0.02)):
        for method, state in (("gdfs", "s"), ("ol", "s"), ("ol", "sm"), ("planner", "s")):
            complete = 0.8 + 0.02 * draws.normal(size=splits)
            rows += cell(dataset, method, "complete", complete.tolist(), state=state)
            for mechanism, rate in SETTINGS:
                more: dict[str, Any] = {"state": state, "mechanism": mechanism, "rate": rate}
                restricted = complete - effect + 0.02 * draws.normal(size=splits)
                rows += cell(dataset, method, "restricted", restricted.tolist(), **more)
                ways = [("restored", "pvae"), ("restored", "hotdeck"), ("restored", "ensemble:6")]
                for treatment, restorer in [*ways, ("direct", "")][: 4 if method == "planner" else 3]:
                    scores = restricted + effect * draws.random() + 0.02 * draws.normal(size=splits)
                    rows += cell(dataset, method, treatment, scores.tolist(), restorer=restorer, **more)
    return rows


def one_way(
    gains: Sequence[Sequence[float]],
    damages: Sequence[Sequence[float]],
    methods: Sequence[str] = ("gdfs", "dime", "aaco"),
) -> pd.DataFrame:
    """Changes of one way on one dataset: a policy per row, a split per column."""
    columns = {"policies": "paper", "mechanism": "mcar", "rate": 0.7, "treatment": "restored"}
    return pd.DataFrame(
        [
            {**columns, "restorer": "pvae", "method": method, "state": "s", "dataset": "cube"}
            | {"split": split, "damage": damages[place][split], "gain": gain}
            for place, method in enumerate(methods[: len(gains)])
            for split, gain in enumerate(gains[place])
        ]
    )


def test_damage_and_gain_are_differences_to_restricted_training() -> None:
    rows = arms("cube", "gdfs", [0.8, 0.9], [0.5, 0.7], [0.6, 0.6])
    rows += cell("cube", "planner", "complete", [0.9, None])
    rows += cell("cube", "planner", "restricted", [0.5, 0.5]) + cell("cube", "planner", "direct", [0.8, 0.8])
    rows += arms("cube", "random", [0.5, 0.5], [0.5, 0.5], [0.5, 0.5])  # a baseline
    found = changes(results_of(rows))
    columns = ["policies", "treatment", "restorer", "method", "split", "damage", "gain"]
    expected = [
        ("paper", "restored", "pvae", "gdfs", 0, 0.3, 0.1),
        ("paper", "restored", "pvae", "gdfs", 1, 0.2, -0.1),
        ("other", "direct", "", "planner", 0, 0.4, 0.3),  # its second split has no complete cell
    ]
    assert found[columns].iloc[:, :5].apply(tuple, axis=1).tolist() == [row[:5] for row in expected]
    np.testing.assert_allclose(found[["damage", "gain"]], [row[5:] for row in expected])


def test_a_share_is_mean_gain_over_mean_damage() -> None:
    # Damage .3 and .1 on average, gain .1 and .05: (.1 + .05) / (.3 + .1).
    row = recovered(one_way([[0.0, 0.2], [0.1, 0.0]], [[0.4, 0.2], [0.0, 0.2]])).iloc[0]
    assert (row["pairs"], row["splits"]) == (2, 2)
    assert [row["damage"], row["gain"], row["share"]] == pytest.approx([0.2, 0.075, 0.375])


def test_as_good_as_complete_is_all_and_as_restricted_nothing() -> None:
    scores = {"complete": [0.8, 0.7, 0.9], "restricted": [0.5, 0.6, 0.4]}
    rows = [row for arm, values in scores.items() for row in cell("cube", "gdfs", arm, values)]
    rows += cell("cube", "gdfs", "restored", scores["complete"], restorer="pvae")
    rows += cell("cube", "gdfs", "restored", scores["restricted"], restorer="hotdeck")
    found = summary(changes(results_of(rows))).set_index("restorer")
    shares = {name: row.tolist() for name, row in found[["share", "share_low", "share_high"]].iterrows()}
    assert shares["pvae"] == pytest.approx([1, 1, 1])
    assert shares["hotdeck"] == pytest.approx([0, 0, 0])
    assert found["losing"].tolist() == [0, 0]


def test_intervals_are_those_of_a_bootstrap_over_whole_splits() -> None:
    all_changes = changes(results_of(study()))
    found = recovered(all_changes)
    drawn = np.random.default_rng(0).integers(0, 5, (2000, 5))  # splits of each resample
    assert len(found) == 2 * 2 * 3 + 2  # scopes, settings, restorers; and the planner's direct cells
    for row in found.to_dict("records"):
        mine = (all_changes[list(row)[:5]] == [row[name] for name in list(row)[:5]]).all(axis=1)
        wide = all_changes[mine].pivot(
            index=["dataset", "method", "state"], columns="split", values=["damage", "gain"]
        )
        damage, gain = wide["damage"].to_numpy(), wide["gain"].to_numpy()
        shares = [gain[:, splits].mean() / damage[:, splits].mean() for splits in drawn]
        assert row["share"] == pytest.approx(gain.mean() / damage.mean())
        assert [row["share_low"], row["share_high"]] == pytest.approx(np.percentile(shares, [2.5, 97.5]))
        means = [gain[:, splits].mean() for splits in drawn]
        assert [row["gain_low"], row["gain_high"]] == pytest.approx(np.percentile(means, [2.5, 97.5]))
        assert row["pairs"] == len(wide) == (6 if row["policies"] == "paper" else 2)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    # Twenty splits; with five, percentile intervals are known to be too narrow.
    draws, n = np.random.default_rng(1), 200
    damage = 0.2 + 0.05 * draws.normal(size=(n, 20))
    gain = 0.6 * damage + 0.05 * draws.normal(size=(n, 20))
    names = [f"m{number}" for number in range(n)]
    found = recovered(one_way(gain.tolist(), damage.tolist(), names), ["method"])
    inside = (found["share_low"] <= 0.6) & (found["share_high"] >= 0.6)
    assert 0.85 < inside.mean() < 1  # 0.95 less the error of 200 repetitions (.015) and of the method


def test_without_damage_there_is_nothing_to_share() -> None:
    small = recovered(one_way([[0.01, 0.01]], [[0.009, 0.009]])).iloc[0]
    assert np.isnan(small[["share", "share_low", "share_high"]].tolist()).all()
    assert small["gain"] == pytest.approx(0.01)
    # A quarter of the resamples of these two splits have no damage at all.
    unsure = recovered(one_way([[0.1, 0.1]], [[0.3, -0.1]])).iloc[0]
    assert unsure["share"] == pytest.approx(1.0)
    assert np.isnan(unsure[["share_low", "share_high"]].tolist()).all()


def test_one_split_has_no_intervals_and_no_test() -> None:
    row = summary(one_way([[-0.1]], [[0.2]])).iloc[0]
    assert row["share"] == pytest.approx(-0.5)
    assert np.isnan([row["share_low"], row["gain_high"], row["change"]]).all()
    assert (row["losing"], row["tested"], row["chosen"]) == (0, 0, 0)


def test_undamaged_pairs_are_chosen_on_the_other_splits() -> None:
    # The first policy: without its own, the others' mean damages are .015, .005, .01 (which counts as
    # damage): the second split is chosen. The other policy is always undamaged.
    damages = [[0.0, 0.02, 0.01], [0.0, 0.0, 0.0]]
    gains = [[1.0, 0.3, 1.0], [0.0, -0.1, 0.1]]
    row = undamaged(one_way(gains, damages)).iloc[0]
    assert row["chosen"] == 4
    assert row["change"] == pytest.approx((0.3 + 0.0 - 0.1 + 0.1) / 4)
    drawn = np.random.default_rng(0).integers(0, 3, (2000, 3))
    sums, counts = np.array([0.0, 0.2, 0.1]), np.array([1, 2, 1])
    ends = np.percentile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [2.5, 97.5])
    assert [row["change_low"], row["change_high"]] == pytest.approx(ends)


def test_the_choice_of_undamaged_pairs_by_brute_force() -> None:
    all_changes = changes(results_of(study(seed=3)))
    for row in undamaged(all_changes).to_dict("records"):
        part = all_changes
        for name in ("policies", "mechanism", "rate", "treatment", "restorer"):
            part = part[part[name] == row[name]]
        picked = []
        for mine in part.to_dict("records"):
            same = (part["dataset"] == mine["dataset"]) & (part["method"] == mine["method"])
            others = part[same & (part["state"] == mine["state"]) & (part["split"] != mine["split"])]
            if others["damage"].mean() < 0.01:
                picked.append(mine["gain"])
        assert row["chosen"] == len(picked)
        assert row["change"] == pytest.approx(np.mean(picked) if picked else np.nan, nan_ok=True)


def test_a_split_does_not_choose_its_own_pairs() -> None:
    # Damage and gain share the restricted score, so choosing by the same split would look like harm.
    draws = np.random.default_rng(0)
    noise = 0.05 * draws.normal(size=(3, 60))  # of restricted training; nothing is damaged or gained
    found = one_way((-noise).tolist(), (-noise).tolist())
    row = undamaged(found).iloc[0]
    naive = found.loc[found["damage"] < 0.01, "gain"].mean()
    assert naive < -0.02  # the mean of the lower half of such noise is -.04
    assert abs(row["change"]) < 4 * 0.05 / np.sqrt(180)


def test_losses_are_paired_t_tests_with_holms_correction() -> None:
    draws = np.random.default_rng(2)
    gains = (draws.normal(size=(3, 5)) * 0.01 + np.array([[-0.05], [-0.012], [0.05]])).tolist()
    found = losses(one_way(gains, np.ones((3, 5)).tolist()))
    expected = [stats.ttest_rel(row, np.zeros(5), alternative="less").pvalue for row in gains]
    assert found["p"].tolist() == pytest.approx(expected)
    order = np.argsort(expected)
    first, second, third = (expected[place] for place in order)
    steps = [3 * first, max(3 * first, 2 * second), max(3 * first, 2 * second, third)]
    assert found["p_holm"].to_numpy()[order].tolist() == pytest.approx(np.minimum(steps, 1).tolist())
    assert found["loses"].tolist() == [value <= 0.05 for value in found["p_holm"]]
    assert found["loses"].tolist()[0]
    assert not found["loses"].tolist()[2]


def test_equal_changes_in_all_splits_are_certain() -> None:
    gains = [[-0.1, -0.1, -0.1], [0.1, 0.1, 0.1], [0.0, 0.0, 0.0]]
    found = losses(one_way(gains, np.ones((3, 3)).tolist()))
    assert found["p"].tolist() == [0.0, 1.0, 1.0]
    assert found["loses"].tolist() == [True, False, False]


def test_by_chance_alone_hardly_any_family_has_a_loss() -> None:
    draws, families = np.random.default_rng(5), 300
    parts = [
        one_way(draws.normal(size=(3, 5)).tolist(), np.ones((3, 5)).tolist()).assign(mechanism=f"m{number}")
        for number in range(families)
    ]
    found = losses(pd.concat(parts, ignore_index=True)).groupby("mechanism")["loses"].any()
    # At most 5%, and four standard errors of 300 families above it.
    assert found.mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / families)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(p: list[float]) -> None:
    adjusted = holm(pd.Series(p)).tolist()
    rejected, left = set(), len(p)
    for place in sorted(range(len(p)), key=lambda place: p[place]):
        if p[place] * left > 0.05:
            break
        rejected.add(place)
        left -= 1
    assert {place for place, value in enumerate(adjusted) if value <= 0.05} == rejected
    assert all(own <= value <= 1 for own, value in zip(p, adjusted, strict=True))


def test_the_worst_pair_is_named() -> None:
    row = summary(one_way([[0.1, 0.1], [-0.3, -0.1], [0.0, 0.0]], np.ones((3, 2)).tolist())).iloc[0]
    assert [row[f"worst_{name}"] for name in ("method", "state", "dataset")] == ["dime", "s", "cube"]
    assert [row["worst_gain"], row["worst_gain_se"]] == pytest.approx([-0.2, 0.1])


def test_a_dataset_is_shown_alone_and_left_out() -> None:
    all_changes = changes(results_of(study()))
    found = by_dataset(all_changes)
    cube = found[(found["dataset"] == "cube")].reset_index(drop=True)
    only, rest = (recovered(all_changes[all_changes["dataset"] == name]) for name in ("cube", "actg175"))
    for name in ("share", "share_low", "gain_high"):
        np.testing.assert_allclose(cube[name], only[name])
        np.testing.assert_allclose(cube[f"without_{name}"], rest[name])


def test_ways_are_in_the_order_of_parts() -> None:
    found = recovered(changes(results_of(study())))
    first = found[(found["policies"] == "other") & (found["mechanism"] == "mcar")]
    assert first["restorer"].tolist() == ["pvae", "hotdeck", "ensemble:6", ""]
    assert first["treatment"].tolist() == ["restored"] * 3 + ["direct"]
    assert found["policies"].tolist() == ["paper"] * 6 + ["other"] * 8
    assert found["mechanism"].tolist()[:6] == ["mcar"] * 3 + ["mar"] * 3


def test_rows_do_not_depend_on_the_order_of_results() -> None:
    rows = study()
    pd.testing.assert_frame_equal(
        summary(changes(results_of(rows))), summary(changes(results_of(rows[::-1])))
    )


def test_only_studies_beyond_the_paper_are_compared() -> None:
    papers = arms("cube", "gdfs", [0.8], [0.5], [0.6])
    assert not compares_ways(results_of(papers))
    with pytest.raises(InputError, match="at most one restorer"):
        compared_changes(results_of(papers))
    for more in (
        cell("cube", "gdfs", "restored", [0.7], restorer="hotdeck"),
        cell("cube", "gdfs", "direct", [0.7]),
    ):
        assert compares_ways(results_of(papers + more))
        assert len(compared_changes(results_of(papers + more))) == 2
    unfinished = [row for row in papers if row["treatment"] != "complete"]
    with pytest.raises(InputError, match="no policy has a score"):
        compared_changes(results_of(unfinished + cell("cube", "gdfs", "direct", [0.7])))


def with_auto(rows: list[Row], seed: int = 1) -> list[Row]:
    """The same with a choice for every cell with holes, made at random."""
    draws = np.random.default_rng(seed)
    keys = ("dataset", "method", "state", "mechanism", "rate", "split")
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["treatment"] != "complete":
            found.setdefault(tuple(row[key] for key in keys), []).append(row)
    chosen = [candidates[draws.integers(len(candidates))] for candidates in found.values()]
    return rows + [
        {**row, "treatment": "auto", "restorer": "", "picked": row["restorer"] or row["treatment"]}
        for row in chosen
    ]


def test_a_choice_is_compared_with_one_made_on_the_other_splits() -> None:
    """Worked out in loops from the scores themselves."""
    rows = with_auto(study())
    found = against_one_choice(changes(results_of(rows))).set_index(["policies", "mechanism", "rate"])
    by_pair: dict[tuple[Any, ...], dict[tuple[str, str], dict[int, float]]] = {}
    for row in rows:
        if row["treatment"] != "complete":
            pair = tuple(row[key] for key in ("method", "state", "dataset", "mechanism", "rate"))
            ways = by_pair.setdefault(pair, {})
            ways.setdefault((row["treatment"], row["restorer"]), {})[row["split"]] = row["score"]
    expected: dict[Any, list[tuple[float, float]]] = {}
    for (method, _, _, mechanism, rate), ways in by_pair.items():
        auto = ways.pop(("auto", ""))
        for split, score in auto.items():
            elsewhere = [sum(way.values()) - way[split] for way in ways.values()]
            best = list(ways.values())[int(np.argmax(elsewhere))]
            restricted = ways["restricted", ""][split]
            group = ("other" if method == "planner" else "paper", mechanism, rate)
            expected.setdefault(group, []).append((score - restricted, best[split] - restricted))
    assert set(found.index) == set(expected)
    for group, gains in expected.items():
        mean, single = np.mean(gains, axis=0)
        row = found.loc[group]
        assert row[["auto", "single", "difference"]].tolist() == pytest.approx([mean, single, mean - single])
        assert row["difference_low"] < row["difference"] < row["difference_high"]
        assert (row["pairs"], row["splits"]) == (len(gains) / 5, 5)


def test_without_other_splits_there_is_no_single_choice() -> None:
    assert against_one_choice(changes(results_of(with_auto(study(splits=1))))).empty
    assert against_one_choice(changes(results_of(study()))).empty
