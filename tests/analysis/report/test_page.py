"""The report as a file: its parts, its safety, and what it does with results that are not whole."""

import base64
import hashlib
import json
import re
import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ascertain import InputError
from ascertain.analysis._artefacts import ARTEFACTS, Artefact
from ascertain.analysis._results import Results, empty_table, read_results
from ascertain.analysis.report import write_report
from ascertain.analysis.report._comparison import present
from ascertain.analysis.report._overview import notices
from ascertain.analysis.report._page import render
from tests.analysis.report.studies import (
    Scores,
    grid,
    large_study,
    results_frame,
    stored,
    study,
    write_study,
)

STUDY = """name = "small"
datasets = ["cube", "actg175"]
methods = ["aaco", "dime"]
splits = [0, 1]
"""


def scores(method: str, dataset: str, split: int) -> Scores:
    restricted = 0.7 + 0.01 * split - (0.05 if method == "aaco" else 0.0) - 0.1 * (dataset == "actg175")
    return {"complete": 0.8, "restricted": restricted, "restored": restricted + 0.02}


class Page(HTMLParser):
    """The elements of a page, and what stands in each by its identity."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input", "br"):
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        for _, identity in self._open:
            if identity is not None:
                self.text[identity] = self.text.get(identity, "") + data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = results_frame(grid(scores, splits=[0, 1]))
    return write_study(tmp_path_factory.mktemp("report") / "small", frame, STUDY)


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:  # a few will do; the names that do harm are drawn everywhere
        some = {name: ARTEFACTS[name] for name in ("main-summary", "damage", "exact-study")}
        patch.setattr("ascertain.analysis.report._page.ARTEFACTS", some)
        return write_report(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def without_figures(results: Results) -> Page:
    return Page(render(results, []))


def test_it_is_written_into_the_folder_or_elsewhere(
    folder: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (folder / "report.html").read_text(encoding="utf-8") == text
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.parquet", "study.toml"]
    monkeypatch.setattr("ascertain.analysis.report._page.ARTEFACTS", {})
    path = write_report(folder, tmp_path / "new" / "page.html")
    assert path == tmp_path / "new" / "page.html"
    again = render(read_results(folder), [])
    assert path.read_text(encoding="utf-8") == again  # the same results give the same page


def test_it_has_its_parts(page: Page) -> None:
    names = {tag for tag, _ in page.elements}
    assert {"header", "nav", "main", "footer"} <= names
    assert page.all("html") == [{"lang": "en"}]
    assert [
        each for each in page.text if each in ("run", "findings", "exhibits", "paper", "cells", "provenance")
    ]
    assert "CUBE, ACTG175" in page.text["run"]
    assert "of 24 planned" not in page.text["run"]
    assert "all 24 done" in page.text["run"]  # 2 datasets, 2 methods, 2 splits, 3 treatments
    assert "Restricted training scores" in page.text["findings"]
    assert "Main summary" in page.text["exhibits"]
    assert "regret.parquet does not exist" in page.text["left-out"]
    assert 'methods = ["aaco", "dime"]' in page.text["provenance"]


def test_links_lead_somewhere_and_names_are_unique(page: Page) -> None:
    identities = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert set(identities.values()) == {1}
    targets = [attributes["href"] or "" for attributes in page.all("a")]
    assert len(targets) > 6
    assert all(target.removeprefix("#") in identities for target in targets)
    named = [attributes.get("aria-labelledby") for _, attributes in page.elements]
    assert {each for each in named if each} <= set(identities)


def test_tables_and_figures_can_be_read_aloud(page: Page) -> None:
    assert page.all("img")
    assert all(image["alt"] for image in page.all("img"))
    assert all(header.get("scope") in ("col", "row") for header in page.all("th"))


def test_it_loads_nothing(page: Page, text: str) -> None:
    assert not re.search(r"(?i)(https?|ftp|file|ws):?//", text)
    assert not page.all("link")
    assert not page.all("iframe")
    loads = [attributes["src"] for _, attributes in page.elements if "src" in attributes]
    assert all(load is not None and load.startswith("data:image/") for load in loads)
    assert not re.search(r"@import|url\(", text)


def test_only_its_own_style_and_script_are_allowed(page: Page, text: str) -> None:
    (policy,) = [
        meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not any(name.startswith("on") or name == "style" for _, found in page.elements for name in found)


def test_it_does_not_tell_where_it_was_made(folder: Path, text: str) -> None:
    assert str(folder) not in text


def test_the_hash_of_the_results_is_given(folder: Path, page: Page) -> None:
    digest = hashlib.sha256((folder / "results.parquet").read_bytes()).hexdigest()
    assert digest in page.text["provenance"]


def test_names_from_the_results_are_harmless(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    worse = '"><img src=x onerror=alert(2)>'
    rows = grid(
        scores, datasets=[evil, "cube"], methods=["aaco", worse], splits=[0, 1], device="</script><b>"
    )
    folder = write_study(
        tmp_path / "evil", results_frame(rows), f"name = '''{evil}'''\nnote = '''{worse}'''\n"
    )
    text = write_report(folder).read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.all("script")) == 2  # the data and ours
    assert not page.all("b")
    assert all("onerror" not in found for _, found in page.elements)
    assert evil not in text
    assert evil in page.text["run"]  # as text
    assert worse in page.text["findings"]
    data = json.loads(page.text["cells-data"])
    assert evil in next(column["values"] for column in data["columns"] if column["name"] == "dataset")


def test_the_cells_can_be_read_back(page: Page, folder: Path) -> None:
    data = json.loads(page.text["cells-data"])
    frame = pd.read_parquet(folder / "results.parquet")
    assert data["rows"] == len(frame)
    columns = {column["name"]: column for column in data["columns"]}
    np.testing.assert_allclose(columns["score"]["numbers"], frame["score"], atol=1e-5)
    for name in ("dataset", "treatment", "rate", "split", "cell"):
        values, codes = columns[name]["values"], columns[name]["codes"]
        assert [values[code] for code in codes] == frame[name].tolist()
    assert "restoration_rmse" not in columns  # nothing was measured
    assert "device" not in columns  # the same everywhere


def test_the_largest_budget_of_each_dataset_is_marked(tmp_path: Path) -> None:
    rows = [
        {"dataset": dataset, "method": "aaco", "split": 0, "treatment": "complete", "budget": budget}
        for dataset, budgets in {"cube": (3, 5, 10), "heart_disease": (2, 7)}.items()
        for budget in budgets
    ]
    data = json.loads(without_figures(stored(study(rows), tmp_path)).text["cells-data"])
    assert data["largest"] == "00101"


def test_shortened_settings_are_announced(tmp_path: Path) -> None:
    assert notices(results_frame(grid(scores))) == []
    (notice,) = notices(results_frame(grid(scores, shortened=True)))
    assert notice.text.startswith("All 60 cells were trained with shortened settings.")
    rows = grid(scores, methods=["aaco"], shortened=True) + grid(scores, methods=["dime"])
    page = without_figures(stored(study(rows), tmp_path))
    assert "30 of the 60 cells were trained with shortened settings." in page.text["content"]
    assert "are not the paper's" in page.text["content"]
    assert "Order of methods" not in page.text["findings"]


def test_one_cell_is_enough(tmp_path: Path) -> None:
    row = {"dataset": "cube", "method": "aaco", "split": 0, "treatment": "complete"}
    page = without_figures(stored(study([row]), tmp_path))
    assert "1 done" in page.text["run"]
    assert "Nothing can be said yet" in page.text["findings"]
    assert "publishes nothing" in page.text["paper"]


def test_a_study_that_has_only_begun_has_a_page(tmp_path: Path) -> None:
    folder = write_study(tmp_path, empty_table("results"), STUDY)
    page = Page(render(read_results(folder), []))
    assert "0 of 24 planned done (0%)" in page.text["run"]


def test_an_unfinished_study_says_how_far_it_is(tmp_path: Path) -> None:
    folder = write_study(tmp_path, results_frame(grid(scores, splits=[0], datasets=["cube"])), STUDY)
    assert "6 of 24 planned done (25%)" in Page(render(read_results(folder), [])).text["run"]


def test_tables_with_holes_of_their_own_are_planned_once_their_cells_tell(tmp_path: Path) -> None:
    own = '[tables.mine]\npath = "mine.csv"\ntarget = "y"\nbudgets = [10]\n'
    text = 'name = "own"\ndatasets = ["mine"]\nmethods = ["aaco", "dime"]\nsplits = [0, 1]\n' + own
    folder = write_study(tmp_path, empty_table("results"), text)
    assert "Cells0 done" in Page(render(read_results(folder), [])).text["run"].replace("\n", "")
    row = {
        "dataset": "mine",
        "method": "aaco",
        "split": 0,
        "treatment": "restricted",
    }  # nothing more is hidden
    write_study(tmp_path, results_frame([row]), text)
    page = Page(render(read_results(folder), []))
    assert "1 of 8 planned done (12%)" in page.text["run"]  # two methods and splits, restricted and restored


def test_what_cannot_be_made_is_listed_with_the_reason(tmp_path: Path) -> None:
    def fail(results: Results) -> Figure:
        raise InputError(f"{results.folder}/routes.parquet is not there")

    def table(results: Results) -> pd.DataFrame:
        del results
        return pd.DataFrame({"method": ["a<b"], "damage": [-0.0312], "text": ["-0.5 ± 0.1"]})

    artefacts = [
        Artefact("no-such-figure", "Nothing.", fail),
        Artefact("a-table", "What & why.", table),
    ]
    page = Page(render(stored(study(grid(scores)), tmp_path), artefacts))
    assert "No such figure" in page.text["left-out"]
    assert "routes.parquet is not there" in page.text["left-out"]
    shown = page.text["exhibit-1-a-table"]
    assert "What & why." in shown
    assert "a<b" in shown
    assert "\u22120.031" in shown
    assert "\u22120.5 ± 0.1" in shown


def with_another_restorer(results: Results) -> Results:
    """The same with a second restorer, by which everything is recovered."""
    frame = results.results
    complete = frame[frame["treatment"] == "complete"].set_index(["dataset", "method", "split"])["score"]
    more = frame[frame["treatment"] == "restored"].assign(restorer="ensemble:6")
    keys = pd.MultiIndex.from_frame(more[["dataset", "method", "split"]])
    more = more.assign(score=complete.loc[keys].to_numpy(), cell=more["cell"] + "e")
    return replace(results, results=pd.concat([frame, more], ignore_index=True))


def test_a_study_of_several_restorers_says_what_they_recover(tmp_path: Path) -> None:
    results = with_another_restorer(stored(study(grid(scores)), tmp_path))
    some = [ARTEFACTS[name] for name in ("damage", "recovered", "recovered-shares", "recovered-losses")]
    page = Page(render(results, some))
    said = page.text["recovered"]
    assert "most is recovered by ensemble with 6 completions: 100% (100% to 100%)" in said
    assert "In none of 8 comparisons does a policy lose on a dataset." in said
    assert "Recovered shares" in said
    assert "Damage" in page.text["exhibits"]
    assert "Recovered shares" not in page.text["exhibits"]
    assert "left-out" not in page.text  # that nobody loses is no gap
    anchors = [attributes.get("id") for _, attributes in page.elements]
    assert "recovered-0-recovered" in anchors


def test_a_study_of_one_restorer_does_not_miss_it(tmp_path: Path) -> None:
    results = stored(study(grid(scores)), tmp_path)
    own = [artefact for artefact in ARTEFACTS.values() if artefact.section == "recovered"]
    assert len(own) == 6
    assert render(results, own) == render(results, [])


def test_a_page_that_fails_leaves_the_old_one(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *args: Any, **more: Any) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", fail)
    monkeypatch.setattr("ascertain.analysis.report._page.render", lambda results, artefacts: "new")
    with pytest.raises(OSError, match="disk full"):
        write_report(folder)
    monkeypatch.undo()
    assert (folder / "report.html").read_text(encoding="utf-8") == text
    assert len(list(folder.iterdir())) == 3


def test_the_papers_whole_grid_stays_small_and_quick(tmp_path: Path) -> None:
    results = stored(large_study(), tmp_path)
    assert results.results["cell"].nunique() == 6000
    begin = time.perf_counter()
    text = render(results, [])
    seconds = time.perf_counter() - begin
    assert len(text) < 4_000_000  # without figures; a 20th of a second to parse
    assert seconds < 20  # two, on a machine with nothing else to do


def test_verdicts_are_worded_and_counted() -> None:
    nan = float("nan")
    row = {"where": "here", "ours": 0.5, "ours_se": 0.01, "paper": 0.6, "paper_se": nan, "difference": -0.1}
    frame = pd.DataFrame(
        [
            {**row, "what": "A", "standard_errors": -7.1, "verdict": "differs", "note": ""},
            {**row, "what": "B", "standard_errors": 0.4, "verdict": "agrees", "note": ""},
            {**row, "what": "C", "standard_errors": nan, "verdict": "not comparable", "note": "shortened"},
        ]
    )
    shown = present(frame)
    counts, far = shown.sentences
    assert counts.startswith(
        "Of 3 published numbers and statements, 1 agree, 1 differ and 1 cannot be compared."
    )
    assert far == "Those that differ: A, here."
    assert shown.table is not None
    assert [line[2].text for line in shown.table.rows] == ["✗ differs", "✓ agrees", "○ not comparable"]
    assert len({line[2].tone for line in shown.table.rows}) == 3
    assert [cell.text for cell in shown.table.rows[0][3:7]] == [
        "0.500 ± 0.010",
        "0.600",
        "\u22120.100",
        "\u22127.1",
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_have_contrast(dark: bool) -> None:
    css = files("ascertain.reporting").joinpath("style.css").read_text()
    schemes = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", schemes[0] + (schemes[1] if dark else "")))
    pairs = [("ink", "paper"), ("ink", "raised"), ("soft", "paper"), ("soft", "raised"), ("accent", "paper")]
    pairs += [("accent", "raised"), ("ink", "near-paper")]
    pairs += [(tone, f"{tone}-paper") for tone in ("good", "near", "bad")]
    for front, back in pairs:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)  # WCAG 2.2, level AA


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, as WCAG defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
