"""Tables 1 and 2, against hand-computed means and SciPy's correlations."""

import numpy as np
import pytest
from scipy import stats

from ascertain import InputError
from ascertain.analysis._routes import adaptivity, adaptivity_cells, route_table

from .made_up import Row, arms, results_of, routes

DATASETS = ["cube", "cube_nm", "heart_disease"]


def study() -> list[Row]:
    rng = np.random.default_rng(3)
    rows = []
    for dataset in DATASETS:
        for method, states in (("dime", ["s"]), ("gdfs", ["s"]), ("ol", ["s", "sm"])):
            for state in states:
                complete, restricted = rng.uniform(0.3, 0.9, (2, 3)).tolist()
                rows += arms(dataset, method, complete, restricted, state=state)
        rows += arms(dataset, "random", [0.1] * 3, [0.9] * 3)
    return rows


def static() -> list[Row]:
    return [row for i, dataset in enumerate(DATASETS) for row in routes(dataset, [0.5 + 0.1 * i, 0.7, 0.6])]


def test_table_1_is_mean_and_standard_error_at_the_largest_budget() -> None:
    rows = routes("cube", [0.6, 0.8, 0.7]) + routes("cube", [0.1, 0.1, 0.1], budget=3.0)
    rows += routes("heart_disease", [0.9], budget=7.0) + routes("cube_nm", [0.7, 0.7], budget=14.0)
    table = route_table(results_of([], routes=rows)).set_index("dataset")
    assert table.index[0] == "heart_disease"  # by V_static, largest first
    assert table["budget"].to_dict() == {"cube": 10, "cube_nm": 14, "heart_disease": 7}
    assert table["v_static"].to_dict() == pytest.approx({"cube": 0.7, "cube_nm": 0.7, "heart_disease": 0.9})
    assert table.loc["cube", "v_static_se"] == pytest.approx(0.1 / np.sqrt(3))
    assert table.loc["cube_nm", "v_static_se"] == pytest.approx(0)
    assert table["v_static_se"].isna().to_dict() == {"cube": False, "cube_nm": False, "heart_disease": True}
    assert table["sensitivity_rank"].to_dict() == {"heart_disease": 1, "cube": 2, "cube_nm": 2}
    assert table["overlap_rank"].to_dict() == {"heart_disease": 3, "cube": 1, "cube_nm": 1}


def test_a_measure_that_is_nowhere_defined_has_no_rank() -> None:
    rows = [{**row, "overlap": float("nan")} for row in routes("cube", [0.6, 0.8])] + routes("heart", [0.5])
    table = route_table(results_of([], routes=rows)).set_index("dataset")
    assert table["overlap_rank"].dropna().to_dict() == {"heart": 1}


def test_table_2_is_means_over_datasets_of_family_means() -> None:
    rows = arms("cube", "ol", [0.8, 0.6], [0.5, 0.5]) + arms("cube", "ol", [0.8, 0.8], [0.5, 0.3], state="sm")
    rows += arms("cube_nm", "ol", [0.4, 0.4], [0.4, 0.2]) + arms(
        "cube_nm", "ol", [0.4, 0.4], [0.4, 0.2], state="sm"
    )
    rows += arms("cube", "dime", [0.7, 0.7], [0.7, 0.7])
    found = adaptivity(results_of(rows, routes=routes("cube", [0.6, 0.7]) + routes("cube_nm", [0.5, 0.5])))
    table = found.table.set_index("method")
    assert table.index.tolist() == ["dime", "ol"]  # least damaged first
    # OL: complete (.75 + .4) / 2, static (.65 + .5) / 2, damage ((.75 - .45) + (.4 - .3)) / 2.
    found_means = [table[name]["ol"] for name in ("complete", "margin", "damage")]
    assert found_means == pytest.approx([0.575, 0.0, 0.2])
    assert table["datasets"].to_dict() == {"dime": 1, "ol": 2}
    # Standard errors by hand: complete .8, .7 and .4, .4; margins (.8 - .6), (.7 - .7) and -.1, -.1.
    assert table.loc["ol", "complete_se"] == pytest.approx(0.05 / 2)
    assert table.loc["ol", "margin_se"] == pytest.approx(0.1 / 2)


def test_the_correlations_are_scipys_over_all_cells_but_baselines() -> None:
    results = results_of(study(), routes=static())
    cells = adaptivity_cells(results)
    assert len(cells) == 9
    found = adaptivity(results)
    assert found.pearson == pytest.approx(stats.pearsonr(cells["margin"], cells["damage"]).statistic)
    assert found.spearman == pytest.approx(stats.spearmanr(cells["margin"], cells["damage"]).statistic)


def test_ties_share_their_rank_in_spearmans_correlation() -> None:
    rows = [
        row
        for method, complete, restricted in (("aaco", 0.5, 0.4), ("dime", 0.5, 0.2), ("gdfs", 0.7, 0.4))
        for row in arms("cube", method, [complete], [restricted])
    ]
    found = adaptivity(results_of(rows, routes=routes("cube", [0.4])))
    assert found.spearman == pytest.approx(stats.spearmanr([0.1, 0.1, 0.3], [0.1, 0.3, 0.3]).statistic)


def test_too_few_cells_have_no_correlation_and_none_no_table() -> None:
    rows = arms("cube", "dime", [0.8], [0.7])
    assert np.isnan(adaptivity(results_of(rows, routes=routes("cube", [0.5])))[1:]).all()
    with pytest.raises(InputError, match="no dataset with a static route"):
        adaptivity(results_of(rows, routes=routes("heart_disease", [0.5])))
    with pytest.raises(InputError, match="no route structure"):
        adaptivity(results_of(rows))
