"""The figures of a study: that they show what was found, and say what they lack."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ascertain import InputError
from ascertain.analysis._damage import damage_and_gain, recovery_slopes
from ascertain.analysis._results import Results
from ascertain.analysis.figures._budgets import budget_curves, draw_budget_curves
from ascertain.analysis.figures._compute import draw_compute
from ascertain.analysis.figures._heatmaps import draw_acquisition_heatmaps, mean_shares
from ascertain.analysis.figures._recovered import draw_recovered
from ascertain.analysis.figures._recovery import draw_law_grid
from ascertain.analysis.figures._states import draw_state_variants, state_conditioning
from ascertain.analysis.figures._summary import draw_main_summary, draw_summary_grid, windows_of
from ascertain.reporting._style import TEXT_WIDTH, paper_style
from tests.analysis.made_up import Row, arms, cell, results_of
from tests.analysis.test_compute import study as timed_work

EVERY = (
    *(draw_main_summary, draw_summary_grid, draw_law_grid, draw_compute, draw_budget_curves),
    *(draw_acquisition_heatmaps, draw_state_variants),
)


def study(**more: Any) -> list[Row]:
    """Two datasets, three families: OL is the most damaged, CUBE-NM is damaged more than CUBE."""
    rows = []
    for dataset, worse in (("cube", 0.0), ("cube_nm", 0.1)):
        rows += arms(dataset, "dime", [0.5, 0.6], [0.5, 0.6 - worse], [0.5, 0.6 - worse], **more)
        rows += arms(dataset, "my $method", [0.6, 0.6], [0.5, 0.55 - worse], [0.55, 0.5], **more)
        for state in ("s", "sm"):
            rows += arms(dataset, "ol", [0.8, 0.9], [0.4, 0.5 - worse], [0.6, 0.7], state=state, **more)
        rows += arms(dataset, "random", [0.3, 0.3], [0.3, 0.3], [0.3, 0.3], **more)
    return rows


def drawn(draw: Any, results: Results) -> Figure:
    with paper_style():
        figure: Figure = draw(results)
        figure.draw_without_rendering()  # what cannot be laid out fails here
    assert figure.get_size_inches()[0] == TEXT_WIDTH
    return figure


def panels(figure: Figure) -> dict[str, Axes]:
    return {ax.get_title(): ax for ax in figure.axes if ax.get_title()}


def places(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_xydata(), float)


def points(ax: Axes, marker: str, face: str | None = None) -> set[tuple[float, int]]:
    """Places of single marks of a kind, with y rounded to its row."""
    found = [line for line in ax.lines if line.get_marker() == marker and len(places(line)) == 1]
    if face is not None:
        found = [line for line in found if (line.get_markerfacecolor() == "white") == (face == "hollow")]
    return {(round(x, 6), round(y)) for line in found for x, y in places(line).tolist()}


def test_the_main_figure_shows_the_means_in_the_order_of_damage() -> None:
    results = results_of(study())
    figure = drawn(draw_main_summary, results)
    assert list(panels(figure)) == ["CUBE-NM, accuracy", "CUBE, accuracy"]  # most damaged first
    first = panels(figure)["CUBE-NM, accuracy"]
    labels = [label.get_text() for label in first.get_yticklabels()]
    assert labels == ["OL", r"my \$method", "DIME"]
    assert [label.get_color() for label in first.get_yticklabels()][::2] == ["#976800", "#1777AE"]
    cells = damage_and_gain(results)
    for dataset, ax in (("cube_nm", first), ("cube", panels(figure)["CUBE, accuracy"])):
        here = cells[cells["dataset"] == dataset].set_index("method").loc[["ol", "my $method", "dime"]]
        for arm, marker, face in (
            ("complete", "|", None),
            ("restricted", "o", "hollow"),
            ("restored", "o", "filled"),
        ):
            expected = {(round(value, 6), row) for row, value in enumerate(here[arm].tolist())}
            assert points(ax, marker, face) == expected
        assert len(ax.texts) == 3  # an arrow each
        bars = sorted(places(line)[:, 0].tolist() for line in ax.lines if len(places(line)) == 2)
        ends = [here[[f"{arm}_low", f"{arm}_high"]].to_numpy(float) for arm in ("restricted", "restored")]
        np.testing.assert_allclose(bars, sorted(np.concatenate(ends).tolist()))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"complete", "restricted", "restored (PVAE)", "95% interval", "myopic"} <= set(legend)
    assert figure.get_suptitle() == "MCAR, $p = 0.7$"


def test_rows_are_grey_hatched_or_white() -> None:
    ax = panels(drawn(draw_main_summary, results_of(study())))["CUBE, accuracy"]
    bands = [(patch.get_hatch(), patch.get_facecolor()[:3]) for patch in ax.patches]
    assert [hatch is not None for hatch, _ in bands] == [True, False, False]  # OL has intermediate rewards
    assert [colour == (1, 1, 1) for _, colour in bands] == [True, True, False]  # DIME is myopic


def test_windows_are_equally_wide_centred_and_within_0_and_1() -> None:
    rows = arms("a", "dime", [0.5], [0.3], [0.4]) + arms("b", "dime", [0.99], [0.98], [0.97])
    windows = windows_of(damage_and_gain(results_of(rows), "variant"))
    # The widest range is a's .2: .2 + 2 x .09 x .2 (more than .015) = .236.
    assert windows["a"] == pytest.approx((0.4 - 0.118, 0.4 + 0.118))
    assert windows["b"] == pytest.approx((1 - 0.236, 1.0))
    everything = damage_and_gain(results_of(arms("a", "dime", [1.0], [0.0])), "variant")
    assert windows_of(everything)["a"] == pytest.approx((-0.09, 1.09))


def test_without_restoration_or_spread_only_the_rest_is_drawn() -> None:
    rows = arms("cube", "dime", [0.8], [0.6]) + arms("cube", "gdfs", [0.8], [0.5])
    figure = drawn(draw_main_summary, results_of(rows))
    (ax,) = figure.axes
    assert points(ax, "o", "hollow") == {(0.5, 0), (0.6, 1)}
    assert points(ax, "o", "filled") == set()
    assert len(ax.texts) == 0
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert not legend & {"restored", "95% interval"}


def test_five_datasets_take_two_rows_of_three() -> None:
    rows = [row for i in range(5) for row in arms(f"d{i}", "dime", [0.8], [0.6 + i / 100])]
    figure = drawn(draw_main_summary, results_of(rows))
    assert len(figure.axes) == 6
    assert len(panels(figure)) == 5


def test_the_grid_has_a_block_per_mechanism_in_the_order_of_the_main_setting() -> None:
    rows = study() + [row for row in study(mechanism="mnar_self") if row["treatment"] != "complete"]
    results = results_of(rows)
    figure = drawn(draw_summary_grid, results)
    titles = [part.get_suptitle() for part in figure.subfigs]
    assert titles[:2] == ["MCAR, $p = 0.7$", "MNAR (self-masking), $p = 0.7$"]
    assert [ax.get_title() for ax in figure.subfigs[1].axes] == ["CUBE-NM, accuracy", "CUBE, accuracy"]
    with pytest.raises(InputError, match=r"one mechanism at p = 0.7"):
        draw_summary_grid(results_of(study()))


def test_the_law_figure_has_every_cell_its_slope_and_the_number_damaged() -> None:
    results = results_of(study() + [row for row in study(rate=0.3) if row["treatment"] != "complete"])
    figure = drawn(draw_law_grid, results)
    by_policy = panels(figure)
    assert set(by_policy) == {"OL (s)", "OL (s,m)", "DIME", r"my \$method"}
    every, slopes = damage_and_gain(results, "variant"), recovery_slopes(results)
    for title, method in (("OL (s)", "ol"), ("DIME", "dime")):
        ax = by_policy[title]
        cells = every[(every["method"] == method) & (every["state"] == "s")]
        slope = slopes[(slopes["method"] == method) & (slopes["state"] == "s")].iloc[0]
        marks = np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections[-2:]])
        expected = cells[["damage", "gain"]].to_numpy(float)
        np.testing.assert_allclose(sorted(marks.tolist()), sorted(expected.tolist()), atol=1e-12)
        assert ax.texts[0].get_text().endswith(f"$n = {slope['damaged']}$")
        (ray,) = [line for line in ax.lines if line.get_linewidth() == 0.9]
        end = cells["damage"].max()
        np.testing.assert_allclose(places(ray), [[0, 0], [end, slope["slope"] * end]])


def test_the_compute_figure_has_an_arrow_per_dataset_and_policy() -> None:
    rows = arms("cube", "dime", [0.8], [0.5], [0.6]) + arms("cube", "jafa", [0.8], [0.4], [0.5], state="sm")
    figure = drawn(draw_compute, results_of(rows, timings=timed_work()))
    ax = panels(figure)["CUBE, accuracy"]
    assert ax.get_xscale() == "log"
    arrows = [[*text.xyann, *text.xy] for text in ax.texts]  # type: ignore[attr-defined]
    # DIME: 13 s restricted, 29 s restored (test_compute.py); both variants of JAFA the same.
    np.testing.assert_allclose(sorted(arrows), [[13, 0.4, 29, 0.5], [13, 0.5, 29, 0.6]])
    assert "median 2.23" in figure.get_suptitle()  # 29 / 13 in three of four policies
    with pytest.raises(InputError, match="restricted and on restored"):
        draw_compute(results_of(rows))


def test_curves_are_means_and_standard_errors_at_each_budget() -> None:
    rows = cell("cube", "ol", "complete", [0.5, 0.7]) + cell(
        "cube", "ol", "complete", [0.3, None], budget=3.0
    )
    rows += cell("cube", "ol", "complete", [0.9, 0.9], state="sm")
    curves = budget_curves(results_of(rows)).set_index(["state", "budget"])
    assert curves["score"].to_dict() == pytest.approx({("s", 3): 0.3, ("s", 10): 0.6, ("sm", 10): 0.9})
    assert curves.loc[("s", 10), "score_se"] == pytest.approx(0.1)  # a deviation of .1 sqrt 2, over sqrt 2
    assert curves["splits"].to_dict() == {("s", 3): 1, ("s", 10): 2, ("sm", 10): 2}
    families = budget_curves(results_of(rows), "family")
    assert families[["budget", "score"]].to_numpy().tolist() == [[10.0, pytest.approx(0.75)]]


def test_budget_curves_have_a_line_per_treatment_and_grey_baselines() -> None:
    low = [{**row, "budget": 3.0, "score": row["score"] / 2} for row in study()]
    figure = drawn(draw_budget_curves, results_of(study() + low))
    axes = np.array(figure.axes).reshape(2, 3)  # datasets x families
    assert [ax.get_title() for ax in axes[0]] == ["DIME", "OL", r"my \$method"]
    assert axes[0, 0].get_ylabel() == "CUBE\naccuracy"
    baseline, *curves = axes[0, 1].lines
    np.testing.assert_allclose(np.asarray(baseline.get_ydata(), float), [0.15, 0.3])
    assert [np.asarray(line.get_xdata()).tolist() for line in curves] == [[3.0, 10.0]] * 3
    expected = [[0.425, 0.85], [0.225, 0.45], [0.325, 0.65]]  # complete, restricted, restored
    np.testing.assert_allclose([np.asarray(line.get_ydata(), float) for line in curves], expected)
    with pytest.raises(InputError, match="curves need several"):
        draw_budget_curves(results_of(study()))


def test_shares_are_averaged_over_splits_in_the_order_of_the_study() -> None:
    policy = {"dataset": "cube", "method": "ol", "state": "s", "treatment": "complete", "protocol": "paper"}
    rows = [
        {**policy, "split": split, "step": 1, "action": action, "share": share}
        for split, shares in enumerate([(0.2, 0.8), (0.4, 0.6)])
        for action, share in zip("za", shares, strict=True)
    ]
    shares = mean_shares(results_of([], acquisitions=rows))
    assert shares["action"].tolist() == ["z", "a"]
    assert shares["share"].tolist() == pytest.approx([0.3, 0.7])


def test_a_split_in_which_nobody_takes_an_action_counts() -> None:
    policy = {"dataset": "cube", "method": "ol", "state": "s", "treatment": "complete", "protocol": "paper"}
    rows = [
        {**policy, "split": split, "step": 1, "action": action, "share": 1.0}
        for split, action in enumerate("aaaab")
    ]
    shares = mean_shares(results_of([], acquisitions=rows))
    assert dict(zip(shares["action"], shares["share"], strict=True)) == pytest.approx({"a": 0.8, "b": 0.2})


def acquired(method: str, treatment: str, shares: dict[str, list[float]], dataset: str = "cube") -> list[Row]:
    identity = cell(dataset, method, treatment, [0.5])[0]
    return [
        {**identity, "step": step, "action": action, "share": share}
        for action, by_step in shares.items()
        for step, share in enumerate(by_step, start=1)
    ]


def test_heat_maps_show_the_most_damaged_policy_for_all_treatments_alike() -> None:
    rows = acquired("ol", "complete", {"z": [0.75, 0.0], "a": [0.25, 0.5]})
    rows += acquired("ol", "restricted", {"b$": [1.0]}) + acquired("dime", "complete", {"z": [1.0]})
    figure = drawn(draw_acquisition_heatmaps, results_of(study(), acquisitions=rows))
    complete, restricted = figure.axes[:2]  # nothing was restored
    assert complete.get_ylabel() == "CUBE\nOL (s)"
    assert [label.get_text() for label in complete.get_yticklabels()] == ["z", "a", r"b\$"]
    assert np.asarray(complete.images[0].get_array()).tolist() == [[0.75, 0.0], [0.25, 0.5], [0.0, 0.0]]
    assert np.asarray(restricted.images[0].get_array()).tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]


def test_heat_maps_sum_what_is_rarely_taken_and_stop_at_a_page() -> None:
    shares = {f"x{i}": [i / 190] for i in range(20)}
    rows = [row for i in range(7) for row in acquired("dime", "complete", shares, f"d{i}")]
    scores = [row for i in range(7) for row in arms(f"d{i}", "dime", [0.8], [0.7 - i / 100])]
    results = results_of(scores, acquisitions=rows)
    figure = drawn(draw_acquisition_heatmaps, results)
    maps = [ax for ax in figure.axes if ax.images]
    assert [ax.get_ylabel().split("\n")[0] for ax in maps] == ["d6", "d5", "d4", "d3", "d2"]
    names = [label.get_text() for label in maps[0].get_yticklabels()]
    assert names == [*(f"x{i}" for i in range(8, 20)), "8 others"]
    column = np.asarray(maps[0].images[0].get_array())[:, 0]
    assert column[-1] == pytest.approx(sum(range(8)) / 190)
    assert column.sum() == pytest.approx(1)
    one = drawn(lambda each: draw_acquisition_heatmaps(each, ["d0"]), results)
    assert [ax.get_ylabel().split("\n")[0] for ax in one.axes if ax.images] == ["d0"]
    with pytest.raises(InputError, match=r"no acquisitions at mcar, p = 0.7"):
        draw_acquisition_heatmaps(results_of(scores))


def test_state_conditioning_takes_off_the_lead_on_complete_data_split_by_split() -> None:
    rows = arms("cube", "ol", [0.8, 0.7], [0.6, 0.6], [0.7, 0.7])
    rows += arms("cube", "ol", [0.9, 0.7], [0.5, 0.6], [0.8, 0.6], state="sm")
    rows += arms("cube", "dime", [0.9, 0.9], [0.5, 0.5], [0.8, 0.8])  # one variant
    rows += arms("cube", "jafa", [0.9], [0.5]) + arms("cube", "jafa", [None, 0.9], [None, 0.5], state="sm")
    frame = state_conditioning(results_of(rows))
    assert frame[["dataset", "method", "splits"]].to_numpy().tolist() == [["cube", "ol", 2]]
    # (s,m) - (s): complete .1, 0; restricted -.1, 0; restored .1, -.1.
    row = frame.iloc[0]
    assert row["complete"] == pytest.approx(0.05)
    assert row["restricted"] == pytest.approx(((-0.1 - 0.1) + (0 - 0)) / 2)
    assert row["restored"] == pytest.approx(((0.1 - 0.1) + (-0.1 - 0)) / 2)


def test_state_variants_are_restricted_against_restored() -> None:
    rows = arms("cube", "ol", [0.8], [0.6], [0.7]) + arms("cube", "ol", [0.8], [0.5], [0.75], state="sm")
    figure = drawn(draw_state_variants, results_of(rows))
    (dots,) = figure.axes[0].collections
    np.testing.assert_allclose(np.asarray(dots.get_offsets()), [[-0.1, 0.05]])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["CUBE"]
    with pytest.raises(InputError, match="both state variants"):
        draw_state_variants(results_of(arms("cube", "dime", [0.8], [0.6])))


@pytest.mark.parametrize("draw", EVERY)
def test_nothing_at_all_is_said_not_drawn(draw: Any) -> None:
    for rows in ([], cell("cube", "dime", "complete", [0.5, 0.6])):
        with pytest.raises(InputError):
            draw(results_of(rows))


def several_ways(**more: Any) -> list[Row]:
    """OL recovers a half with one restorer and three quarters with the other, the planner all directly."""
    rows = arms("cube", "ol", [0.8, 0.8], [0.4, 0.4], [0.5, 0.7], **more)
    rows += cell("cube", "ol", "restored", [0.7, 0.7], restorer="ensemble:6", **more)
    rows += arms("cube", "planner", [0.9, 0.9], [0.5, 0.5], **more)
    return rows + cell("cube", "planner", "direct", [0.9, 0.9], **more)


def test_recovered_shares_are_drawn_by_setting_and_policies() -> None:
    rows = several_ways() + [row for row in several_ways(mechanism="mar", rate=0.3) if row["mechanism"]]
    figure = drawn(draw_recovered, results_of(rows))
    assert list(panels(figure)) == ["MCAR, $p = 0.7$", "MAR, $p = 0.3$"]
    for ax in panels(figure).values():
        assert points(ax, "o", "filled") == {(0.5, 0), (0.75, 1)}
        assert points(ax, "o", "hollow") == {(1.0, 2)}
        bars = [places(line) for line in ax.lines if line.get_alpha() is not None]
        ends = sorted(bar[:, 0].tolist() for bar in bars)
        np.testing.assert_allclose(ends, [[0.25, 0.75], [0.75, 0.75], [1.0, 1.0]])
        low, high = ax.get_xlim()
        assert low < 0 < 1 < high
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["PVAE", "ensemble with 6 completions", "direct"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["the paper's policies", "planner", "95% interval over splits", "all of the damage"]


def test_recovered_shares_need_several_ways_and_damage() -> None:
    with pytest.raises(InputError, match="at most one restorer"):
        draw_recovered(results_of(study()))
    nothing = [row | {"score": 0.5} for row in several_ways()]
    with pytest.raises(InputError, match="there is nothing to recover"):
        draw_recovered(results_of(nothing))


def test_one_split_is_drawn_without_intervals() -> None:
    rows = [row for row in several_ways() if row["split"] == 0 and row["method"] == "ol"]
    figure = drawn(draw_recovered, results_of(rows))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["the paper's policies", "all of the damage"]
    assert points(figure.axes[0], "o", "filled") == {(0.25, 0), (0.75, 1)}


def test_a_setting_without_damage_says_so() -> None:
    rows = several_ways() + [
        row | {"score": 0.8} for row in several_ways(mechanism="mar") if row["mechanism"]
    ]
    rows = [row for row in rows if row["method"] == "ol"]
    figure = drawn(draw_recovered, results_of(rows))
    texts = {name: [text.get_text() for text in ax.texts] for name, ax in panels(figure).items()}
    assert texts == {"MCAR, $p = 0.7$": [], "MAR, $p = 0.7$": ["damage below 0.01"]}
