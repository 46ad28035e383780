"""The figure of a table's holes: that it shows the diagnosis, whatever the columns are called."""

from pathlib import Path

import numpy as np
import pytest

from ascertain import Problem, Table
from ascertain.missingness import Diagnosis, diagnose
from ascertain.practice.diagnosis._figures import draw_diagnosis
from ascertain.reporting._style import paper_style, save_figure

# What would be mathematics, or a broken formula, or markup.
NAMES = ["price $", "$a$ & $b$", r"$\frac{", "<5 mm>", "50%_^{"]


def holes(rate: float, names: list[str], rows: int = 120) -> Diagnosis:
    rng = np.random.default_rng(0)
    d = len(names)
    x = rng.normal(size=(rows, d))
    x[:, 1:][rng.random((rows, d - 1)) < rate] = np.nan
    problem = Problem(np.eye(d), np.ones(d), 1, 2, feature_names=names, action_names=names)
    return diagnose(Table(x, [0, 1] * (rows // 2)), problem)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_it_is_written_in_both_formats(rate: float, tmp_path: Path) -> None:
    diagnosis = holes(rate, NAMES)
    png, pdf = save_figure(lambda: draw_diagnosis(diagnosis), tmp_path, "holes")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holes.pdf", "holes.png"]


def test_it_shows_the_diagnosis() -> None:
    diagnosis = holes(0.4, NAMES)
    with paper_style():
        figure = draw_diagnosis(diagnosis)
    shares, together, counts = figure.axes[:3]
    np.testing.assert_allclose([bar.get_width() for bar in shares.patches], diagnosis.columns["missing"])  # type: ignore[attr-defined]
    predictable = np.array(shares.lines[0].get_xdata(), float)
    np.testing.assert_allclose(predictable, diagnosis.columns["predictable"])
    image: np.ndarray = np.ma.array(together.images[0].get_array(), dtype=float).filled(np.nan)
    np.testing.assert_allclose(image, diagnosis.together)
    heights = [bar.get_height() for bar in counts.patches]  # type: ignore[attr-defined]
    assert heights == diagnosis.rows.tolist()
    # A name reads as it is: from the top, with every dollar sign a dollar sign.
    labels = {round(tick.get_position()[1]): tick.get_text() for tick in shares.get_yticklabels()}
    assert [labels[place].replace(r"\$", "$") for place in (4, 3, 2, 1, 0)] == NAMES
    assert [label.count("$") for label in labels.values()] == [
        label.count(r"\$") for label in labels.values()
    ]
    assert diagnosis.little is not None
    assert f"p = {diagnosis.little.p_value:.2g}" in figure.get_supxlabel()


def test_a_complete_table_has_no_test_to_report() -> None:
    figure = draw_diagnosis(holes(0.0, NAMES))
    assert figure.get_supxlabel() == ""


def test_many_columns_have_no_names(tmp_path: Path) -> None:
    diagnosis = holes(0.3, [f"column {i}" for i in range(60)], rows=40)
    figure = draw_diagnosis(diagnosis)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == []
    assert len(figure.axes[0].patches) == 60
    save_figure(lambda: draw_diagnosis(diagnosis), tmp_path, "holes")
