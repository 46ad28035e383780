"""The figures of the exact study: what is drawn is what was found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ascertain import InputError
from ascertain.analysis.figures import _exact as exact_figures
from ascertain.exact._study import Sweep, run_study
from ascertain.reporting._style import paper_style

SWEEP = Sweep(dims=[4, 6], budgets=[2, 3], rates=[0.6, 0.3, 0.5], sizes=[10, 100, 1000], replicates=5)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run_study(SWEEP, tmp_path_factory.mktemp("figures"))


def test_all_four_are_written_in_both_formats(table: pd.DataFrame, tmp_path: Path) -> None:
    exact_figures.draw_exact_figures(table, SWEEP, tmp_path)
    names = ["availability", "exact-collapse", "exact-study", "planning-effect"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{n}.{s}" for n in names for s in ("pdf", "png")
    ]
    assert all((tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in names)
    assert all((tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF") for name in names)


def test_the_main_figure_shows_the_mean_regrets(table: pd.DataFrame) -> None:
    with paper_style():
        figure = exact_figures.exact_study(table, SWEEP)
    assert isinstance(figure, Figure)
    assert tuple(figure.get_size_inches()) == (5.5, 3.9)
    axes = np.array(figure.axes).reshape(2, 3)
    swept = {0: ("d", [4, 6], "budget", 2), 1: ("budget", [2, 3], "d", 6)}
    for (row, column), ax in np.ndenumerate(axes):
        assert ax.get_ylim() == (-0.015, 0.52)
        by, values, fixed, at = swept[row]
        approach = ("aliasing", "filtering", "restoration")[column]
        drawn = {line.get_label(): line for line in ax.lines if line.get_linestyle() == "-"}
        assert len(ax.collections) == len(values)  # a band for each full-horizon curve, and only those
        for value in values:
            part = table[(table[by] == value) & (table[fixed] == at) & (table["rate"] == 0.6)]
            part = part[(part["approach"] == approach) & (part["horizon"] == part["budget"])]
            expected = part.groupby("n")["regret"].mean()
            line = drawn[f"${'d' if by == 'd' else 'b'} = {value}$"]
            np.testing.assert_array_equal(line.get_xdata(), expected.index)
            np.testing.assert_allclose(line.get_ydata(), expected)


def test_the_collapse_figure_is_against_the_effective_number(table: pd.DataFrame) -> None:
    with paper_style():
        filtering, restoration = exact_figures.exact_collapse(table, SWEEP).axes
    sizes = np.array(SWEEP.sizes)
    curves = [(d, rate) for d in (4, 6) for rate in (0.3, 0.5)]
    for (d, rate), by_d, by_budget in zip(curves, filtering.lines, restoration.lines, strict=True):
        np.testing.assert_allclose(np.array(by_d.get_xdata(), float), sizes * (1 - rate) ** d)
        np.testing.assert_allclose(np.array(by_budget.get_xdata(), float), sizes * (1 - rate) ** 2)
    assert [line.get_linestyle() for line in filtering.lines] == [":", "-", ":", "-"]


def test_a_replicate_twice_or_without_its_pair_is_refused(table: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a replicate twice"):
        exact_figures.draw_exact_figures(pd.concat([table, table.iloc[:1]]), SWEEP, tmp_path)
    with pytest.raises(InputError, match="lack one of the two horizons"):
        exact_figures.draw_exact_figures(table.iloc[1:], SWEEP, tmp_path)
    assert not list(tmp_path.iterdir())
