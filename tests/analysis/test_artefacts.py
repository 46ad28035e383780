"""Writing figures and tables by name."""

import os
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ascertain import InputError
from ascertain.analysis._artefacts import ARTEFACTS, write_artefacts
from ascertain.analysis._exact import read_exact
from ascertain.exact._study import Sweep, run_study
from ascertain.reporting._html import write_page
from tests.analysis.figures.test_study import study

from .made_up import results_of, routes, table

NAMES = [
    *("main-summary", "summary-grid", "law-grid", "compute", "budget-curves", "acquisition-heatmaps"),
    *("state-variants", "route-structure", "adaptivity", "estimates", "damage"),
    *("exact-study", "exact-collapse"),
    *("recovered", "recovered-shares", "recovered-by-dataset", "recovered-by-policy", "recovered-losses"),
    "recovered-auto",
]
SWEEP = Sweep(dims=[4, 6], budgets=[2, 3], rates=[0.5, 0.3], sizes=[10, 100], replicates=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table("results", study()).to_parquet(tmp_path / "results.parquet")
    table("routes", routes("cube", [0.5, 0.6])).to_parquet(tmp_path / "routes.parquet")
    return tmp_path


def test_the_names_are_those_that_users_know() -> None:
    assert list(ARTEFACTS) == NAMES
    for name, artefact in ARTEFACTS.items():
        assert artefact.name == name
        assert artefact.summary.endswith(".")
        assert (artefact.section == "recovered") == name.startswith("recovered")
        assert (artefact.kind == "table") == (artefact.numbers is not None) == (artefact.latex is not None)


def test_all_that_the_data_allow_is_written_and_the_rest_explained(folder: Path) -> None:
    progress: dict[str, str | None] = {}
    written = write_artefacts(folder, on_progress=lambda name, left_out: progress.update({name: left_out}))
    made = ["adaptivity", "damage", "law-grid", "main-summary", "route-structure", "state-variants"]
    assert sorted(name for name, reason in progress.items() if reason is None) == made
    assert list(progress) == NAMES
    reasons = {name: reason for name, reason in progress.items() if reason is not None}
    assert "no acquisitions" in reasons["acquisition-heatmaps"]
    assert "curves need several" in reasons["budget-curves"]
    assert "regret.parquet does not exist" in reasons["exact-study"]
    assert "at most one restorer" in reasons["recovered"]
    assert sorted(written) == sorted((folder / "figures").iterdir())
    suffixes = {".png": b"\x89PNG", ".pdf": b"%PDF", ".csv": b"", ".tex": rb"\begin{table}"}
    for path in written:
        assert path.read_bytes().startswith(suffixes[path.suffix])


def test_what_killed_writers_left_goes_when_the_same_is_written_again(folder: Path) -> None:
    figures = folder / "figures"
    figures.mkdir()
    stems = (figures / ".damage-{}.csv", figures / ".law-grid-{}.png", folder / ".report-{}.html")
    killed = [Path(str(path).format("a" * 32)) for path in stems]
    writing = [Path(str(path).format("b" * 32)) for path in stems]  # perhaps by another process, just now
    for path in (*killed, *writing):
        path.touch()
    for path in killed:
        os.utime(path, (0, 0))
    write_artefacts(folder, names=["damage", "law-grid"])
    write_page("", folder / "report.html")
    assert not any(path.exists() for path in killed)
    assert all(path.exists() for path in writing)


def test_a_table_as_csv_holds_the_numbers(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "elsewhere" / "deep"
    (csv, tex) = write_artefacts(str(folder), ["damage"], str(out))
    assert (csv, tex) == (out / "damage.csv", out / "damage.tex")
    frame = pd.read_csv(csv, keep_default_na=False)
    # OL on CUBE: (.8 + .9) / 2 complete, (.4 + .5) / 2 restricted, (.6 + .7) / 2 restored.
    row = frame[(frame["dataset"] == "cube") & (frame["method"] == "ol") & (frame["state"] == "sm")].iloc[0]
    assert [float(row[name]) for name in ("damage", "gain")] == pytest.approx([0.4, 0.2])
    assert r"\begin{tabular}" in tex.read_text()


def test_making_gives_a_figure_or_a_frame_for_reading(folder: Path) -> None:
    results = results_of(study(), folder, routes=routes("cube", [0.5, 0.6]))
    assert isinstance(ARTEFACTS["law-grid"].make(results), Figure)
    assert isinstance(ARTEFACTS["adaptivity"].make(results), pd.DataFrame)


def test_an_unknown_name_is_met_with_the_nearest(folder: Path) -> None:
    with pytest.raises(
        InputError, match="no figure or table is called 'main-sumary'; did you mean 'main-summary'"
    ):
        write_artefacts(folder, ["main-sumary"])
    with pytest.raises(InputError, match="there are 'main-summary', 'summary-grid'"):
        write_artefacts(folder, ["xyz"])
    assert not (folder / "figures").exists()


def test_one_that_was_asked_for_and_cannot_be_made_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError, match="summary-grid cannot be made: the results hold one mechanism"):
        write_artefacts(folder, ["summary-grid"])
    assert not list((folder / "figures").iterdir())


def test_the_exact_study_is_drawn_where_it_lies_beside_the_results(folder: Path) -> None:
    run_study(SWEEP, folder / "exact")
    written = write_artefacts(folder, ["exact-study", "exact-collapse"])
    assert [path.name for path in written] == [
        f"{name}.{kind}" for name in ("exact-study", "exact-collapse") for kind in ("png", "pdf")
    ]
    regrets, sweep = read_exact(folder)
    assert len(regrets) == len(pd.read_parquet(folder / "exact" / "regret.parquet"))
    assert (list(sweep.dims), list(sweep.budgets)) == ([4, 6], [2, 3])
    assert (list(sweep.rates), list(sweep.sizes), sweep.replicates) == ([0.5, 0.3], [10, 100], 2)
