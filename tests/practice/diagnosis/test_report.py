"""The whole diagnosis of a table, and its page."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import InputError
from ascertain.practice.diagnosis._findings import diagnose_table
from ascertain.practice.diagnosis._report import render, write_diagnosis
from ascertain.tables._reading import UserTable
from tests.analysis.report.browser import Browser

EVIL = "<script>alert(1)</script>\"'&$x$"


def user_table(n: int = 300, rate: float = 0.3) -> UserTable:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    columns = pd.DataFrame(rng.normal(size=(n, 3)) + y[:, None], columns=["a", "b", EVIL])
    columns["colour"] = pd.Series(rng.choice([EVIL, "plain"], n), dtype=object)
    columns = columns.mask(rng.random(columns.shape) < rate)
    columns["id"] = np.arange(n)
    return UserTable(f"{EVIL}.csv", columns, EVIL + "target", ("no", EVIL), y, unlabelled=0)


def test_the_findings_are_those_of_the_table_and_are_json() -> None:
    table = user_table(400)
    findings, _ = diagnose_table(table, budget=2)
    content = json.loads(json.dumps(findings.to_json(), allow_nan=False))
    holes = table.columns[["a", "b", EVIL, "colour"]].isna()
    assert content["support"]["complete"] == int((~holes.any(axis=1)).sum())
    assert content["holes"]["rate"] == pytest.approx(holes.to_numpy().mean())
    assert content["support"]["steps"]["typical"] == 2
    assert content["table"]["classes"] == {"no": 200, EVIL: 200}
    assert content["routes"]["routes"] == 6  # pairs of four
    two = [
        int((~holes[[one, other]].any(axis=1)).sum())
        for place, one in enumerate(holes)
        for other in list(holes)[:place]
    ]
    assert min(two) <= content["support"]["paths"]["median"] <= max(two)


def test_a_panel_is_there_where_all_of_its_columns_are() -> None:
    table = user_table()
    findings, _ = diagnose_table(table, groups={"panel": ["a", "b"]}, known=["colour"])
    assert set(findings.holes.missing) == {"panel", EVIL}
    assert findings.holes.missing["panel"] == pytest.approx(
        table.columns[["a", "b"]].isna().any(axis=1).mean()
    )


def test_what_cannot_be_diagnosed_is_explained() -> None:
    table = user_table()
    with pytest.raises(InputError, match=r"a budget of 0\.5 buys nothing: the cheapest action costs 1"):
        diagnose_table(table, budget=0.5)
    with pytest.raises(InputError, match="there is nothing to acquire"):
        diagnose_table(table, known=["a", "b", EVIL, "colour"])


@pytest.mark.parametrize("n", [12, 60])
def test_small_tables_are_diagnosed_too(n: int) -> None:
    findings, drawing = diagnose_table(user_table(n), budget=1)
    assert isinstance(findings.routes, str)
    assert f"there are {n}" in findings.routes
    assert "Not computed" in render(findings, drawing)


def test_a_table_without_holes() -> None:
    findings, drawing = diagnose_table(user_table(300, rate=0.0), budget=2)
    assert findings.support.complete == 300
    page = render(findings, drawing)
    assert "Nothing is missing." in page
    assert "Train on the table as it is" in page


def test_texts_from_the_table_are_escaped() -> None:
    page = render(*diagnose_table(user_table(), budget=2))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.mark.needs("browser")
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_renders_without_overflow_or_complaint(browser: Browser, tmp_path: Path, width: int) -> None:
    path = write_diagnosis(*diagnose_table(user_table(), budget=2), tmp_path / "new" / "page.html")
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]  # and nothing half-written
    browser.open(path.as_uri(), width=width)
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelector('h1').textContent") == f"Diagnosis of {EVIL}.csv"
    images = browser.run("[...document.images].map(image => image.complete && image.naturalWidth > 100)")
    assert images == [True, True]
    assert browser.run("document.querySelectorAll('script').length") == 0
