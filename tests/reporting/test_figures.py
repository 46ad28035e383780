"""Figures inside pages, and the heat map of what is acquired when."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ascertain.reporting._figures import data_uri, draw_frequencies


def shares(values: list[list[float]], names: list[str]) -> pd.DataFrame:
    steps, actions = np.shape(values)
    return pd.DataFrame(
        {
            "step": np.repeat(np.arange(1, steps + 1), actions),
            "action": names * steps,
            "share": np.ravel(values),
        }
    )


def test_shows_what_is_taken_in_the_order_of_the_problem_and_counts_the_rest() -> None:
    figure = draw_frequencies(shares([[0.75, 0, 0.25], [0, 0, 0.5]], ["z", "never", "a$b"]), "title")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["z", r"a\$b"]
    image = np.asarray(axes.images[0].get_array())
    assert image.tolist() == [[0.75, 0.0], [0.25, 0.5]]
    written = {text.get_text() for text in axes.texts}
    assert written == {"75", "25", "50"}
    assert figure._supxlabel.get_text() == "1 of 3 actions are never taken"  # type: ignore[attr-defined]


def test_nothing_acquired_is_said() -> None:
    figure = draw_frequencies(shares([[0.0, 0.0]], ["a", "b"]), "title")
    assert figure.axes[0].texts[0].get_text() == "nothing is acquired"


def test_a_figure_is_the_same_every_time_and_pixels_if_it_is_large() -> None:
    def draw(points: int) -> Figure:
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(*np.random.default_rng(0).random((2, points)), "o")
        return figure

    assert data_uri(draw(5)).startswith("data:image/svg+xml;base64,")
    assert data_uri(draw(5)) == data_uri(draw(5))
    assert data_uri(draw(9000)).startswith("data:image/png;base64,")
