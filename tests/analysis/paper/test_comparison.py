"""The comparison with the paper: what agrees, what does not, and what cannot be compared."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain.analysis._routes import adaptivity
from ascertain.analysis.paper import _numbers as paper
from ascertain.analysis.paper._comparison import compare_with_paper
from tests.analysis.made_up import Row, arms, results_of, routes

COLUMNS = [
    *("what", "where", "ours", "ours_se", "paper", "paper_se"),
    *("difference", "standard_errors", "verdict", "note"),
]
DATASETS = (
    *("cube", "cube_nm", "cube_nuc", "actg175", "diabetes", "nhanes_mortality", "miniboone"),
    "heart_disease",
)
SPREAD = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])


def static_routes() -> list[Row]:
    """Table 1 as the paper has it, with some spread over splits."""
    return [
        {
            **row,
            "sensitivity": published.sensitivity.mean,
            "overlap": published.overlap.mean,
        }
        for dataset, published in paper.ROUTES.items()
        for row in routes(dataset, (published.v_static.mean + SPREAD).tolist(), published.budget)
    ]


def papers_study(datasets: Sequence[str] = DATASETS, **more: Any) -> list[Row]:
    """Every method, on every dataset, with the scores that make its means those of table 2."""
    rows: list[Row] = []
    for dataset in datasets:
        for method, means in paper.METHODS.items():
            for state in ("s", "sm") if method in ("jafa", "ol", "odin") else ("s",):
                complete = paper.ROUTES[dataset].v_static.mean + means.margin + SPREAD
                restricted = complete - means.damage
                restored = restricted + (0.01 if dataset != "cube" else -0.01)
                scores = (complete.tolist(), restricted.tolist(), restored.tolist())
                rows += arms(dataset, method, *scores, state=state, **more)
    return rows


def verdicts(frame: pd.DataFrame, what: str) -> set[str]:
    return set(frame.loc[frame["what"].str.startswith(what), "verdict"])


def test_the_papers_own_numbers_agree_with_the_paper() -> None:
    frame = compare_with_paper(results_of(papers_study(), routes=static_routes()))
    assert list(frame.columns) == COLUMNS
    table_1 = frame[frame["what"].str.endswith("(table 1)")]
    assert len(table_1) == 24 + 3  # and the three orders
    assert set(table_1["verdict"]) == {"agrees"}
    table_2 = frame[frame["what"].isin(["complete (table 2)", "margin (table 2)", "damage (table 2)"])]
    assert len(table_2) == 18
    assert set(table_2["verdict"]) == {"agrees"}
    # Complete and margin of table 2 differ by the mean static route only to within rounding.
    assert np.abs(table_2["difference"]).max() < 0.002
    order = frame[frame["what"].str.startswith("order of methods")].iloc[0]
    assert (order["ours"], order["verdict"]) == (pytest.approx(1.0), "agrees")
    assert "the paper's: OL, JAFA, AACO, GDFS, ODIN, DIME" in order["note"]
    assert verdicts(frame, "DIME is the least damaged") == {"agrees"}
    assert verdicts(frame, "the three most damaged methods") == {"agrees"}
    assert verdicts(frame, "restoration recovers part") == {"agrees"}


def test_two_standard_errors_are_the_limit() -> None:
    error = np.std(SPREAD, ddof=1) / np.sqrt(5)
    combined = math.sqrt(error**2 + 0.010**2 + 0.0005**2)  # ours, the paper's, and its rounding
    for far, verdict in ((1.99, "agrees"), (-2.01, "differs")):
        moved = 0.824 + far * combined + SPREAD
        frame = compare_with_paper(results_of([], routes=routes("cube", moved.tolist())))
        row = frame[frame["what"] == "V static (table 1)"].iloc[0]
        assert row["standard_errors"] == pytest.approx(far)
        assert row["verdict"] == verdict
        assert row["ours_se"] == pytest.approx(error)


def test_means_over_other_datasets_are_shown_but_not_compared() -> None:
    rows = papers_study(["cube", "cube_nm"])
    frame = compare_with_paper(results_of(rows, routes=static_routes()))
    table_2 = frame[frame["what"] == "damage (table 2)"]
    assert set(table_2["verdict"]) == {"not comparable"}
    assert table_2["ours"].notna().all()
    assert table_2["standard_errors"].isna().all()
    assert "eight datasets, ours over CUBE, CUBE-NM" in table_2["note"].iloc[0]
    assert verdicts(frame, "order of methods") == {"not comparable"}
    # What the paper says of one dataset can be compared without the others.
    assert len(frame[frame["what"].str.startswith("complete-data accuracy")]) == 2


def test_a_dataset_and_a_method_of_ones_own_do_not_disturb() -> None:
    rows = papers_study()
    rows += [{**row, "dataset": "mine"} for row in papers_study(["cube"])]
    rows += [{**row, "method": "mine"} for row in papers_study(["cube"]) if row["method"] == "gdfs"]
    frame = compare_with_paper(results_of(rows, routes=[*static_routes(), *routes("mine", [0.5, 0.6])]))
    assert verdicts(frame, "damage (table 2)") == {"agrees"}


@pytest.mark.parametrize(
    ("changed", "note"),
    [({"shortened": True}, "training was shortened"), ({"mechanism": "mar"}, ""), ({"rate": 0.5}, "")],
)
def test_only_the_papers_setting_is_compared(changed: dict[str, Any], note: str) -> None:
    rows = papers_study()
    rows = [{**row, **changed} if row["treatment"] != "complete" else row for row in rows]
    frame = compare_with_paper(results_of(rows, routes=static_routes()))
    table_2 = frame[frame["what"] == "damage (table 2)"]
    assert set(table_2["verdict"]) == ({"not comparable"} if note else set())
    assert all(note in text for text in table_2["note"])


def test_half_a_family_another_budget_and_one_split_are_not_compared() -> None:
    rows = [row for row in papers_study() if (row["method"], row["state"]) != ("ol", "sm")]
    frame = compare_with_paper(results_of(rows, routes=static_routes()))
    by_method = frame[frame["what"] == "damage (table 2)"].set_index("where")["verdict"]
    assert by_method["OL, MCAR 0.7, paper protocol"] == "not comparable"
    assert by_method["GDFS, MCAR 0.7, paper protocol"] == "agrees"
    frame = compare_with_paper(results_of([], routes=routes("cube", [0.8, 0.82], budget=5.0)))
    assert set(frame["verdict"]) == {"not comparable"}
    assert "our budget is 5, the paper's 10" in frame["note"].iloc[0]
    frame = compare_with_paper(results_of([], routes=routes("cube", [0.8])))
    assert set(frame["verdict"]) == {"not comparable"}
    assert "one split only" in frame["note"].iloc[0]


def test_a_wrong_order_differs() -> None:
    ranked = dict(zip(DATASETS, np.linspace(0.3, 0.9, 8), strict=True))
    by_paper = sorted(DATASETS, key=lambda name: paper.ROUTES[name].v_static.mean)
    reversed_order = dict(zip(by_paper, sorted(ranked.values(), reverse=True), strict=True))
    rows = [row for name, value in reversed_order.items() for row in routes(name, [value, value])]
    frame = compare_with_paper(results_of([], routes=rows))
    order = frame[frame["what"].str.startswith("order of datasets by V static")].iloc[0]
    assert (order["ours"], order["verdict"]) == (pytest.approx(-1.0), "differs")


def test_the_correlations_standard_error_is_a_jackknife_over_splits() -> None:
    rng = np.random.default_rng(1)
    rows = [{**row, "score": row["score"] + rng.normal(0, 0.05)} for row in papers_study()]
    static = static_routes()
    frame = compare_with_paper(results_of(rows, routes=static))
    left_out = [
        adaptivity(
            results_of(
                [row for row in rows if row["split"] != split],
                routes=[row for row in static if row["split"] != split],
            )
        )[1:]
        for split in range(5)
    ]
    variance = np.var(left_out, axis=0) * 4  # (n - 1) / n times the sum of squares
    for name, squared in zip(("Pearson", "Spearman"), variance, strict=True):
        row = frame[frame["what"].str.startswith(name)].iloc[0]
        assert row["ours_se"] == pytest.approx(np.sqrt(squared))


def test_nothing_in_common_is_an_empty_comparison() -> None:
    assert compare_with_paper(results_of([])).empty
    mine = arms("mine", "my_method", [0.8, 0.9], [0.7, 0.6], [0.7, 0.7])
    frame = compare_with_paper(results_of(mine, routes=routes("mine", [0.5, 0.6])))
    assert frame.empty
    assert list(frame.columns) == COLUMNS


def test_the_published_tables_hold_together() -> None:
    """Margins are complete scores less the mean static route, which the specification gives as 0.732."""
    static = np.mean([published.v_static.mean for published in paper.ROUTES.values()])
    assert static == pytest.approx(0.732, abs=0.0005)
    for means in paper.METHODS.values():
        assert means.complete - static == pytest.approx(means.margin, abs=0.0015)
    assert set(paper.ROUTES) == set(DATASETS)
    assert set(paper.METHODS) == {"aaco", "dime", "gdfs", "jafa", "ol", "odin"}


def test_another_budget_is_not_compared() -> None:
    rows = arms("cube_nm", "dime", [0.24, 0.25], [0.2, 0.3], [0.2, 0.3], train_budget=3.0)
    frame = compare_with_paper(results_of(rows))
    assert verdicts(frame, "complete-data accuracy (section 5.4)") == {"not comparable"}
